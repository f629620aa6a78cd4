//! The URL of a directory at an NFS server, where a command works with names.

use anyhow::{Result, bail};
use names::{NfsUrl, Source, VolumeUrl};

/// A directory is named as a file is; what belongs to a file's content means nothing here.
pub(crate) fn directory(text: &str) -> Result<NfsUrl> {
    let VolumeUrl { filters, source: Source::Nfs(url) } = text.parse::<VolumeUrl>()? else {
        bail!("{text:?} is no directory at an NFS server: write nfs://HOST[:PORT]/PATH");
    };
    let options = &url.options;
    if !filters.is_empty() || options.size.is_some() || options.block.is_some() || options.exclusive {
        bail!("filters, size=, block= and exclusive= are for a file's content: leave them out");
    }
    if options.rdma.is_some() {
        bail!("names are asked for over TCP alone: write nfs:// and the server's port of TCP");
    }
    Ok(url)
}
