//! nfs-ganesha, the peer server of NFS: one process, one export with a file for each volume.
//!
//! On loopback it is NFSv4 alone, on a port of its own: no port mapper, no mount protocol, no lock manager, so that nothing of the
//! machine's is touched. In a network namespace NFSv3 is there as well, for libnfs inside QEMU, which speaks no other: with a
//! port mapper (RFC 1833) of that namespace, whose sockets lie in a `/run` that only these two see. The grace period after a
//! start is left out: no client can have held anything before.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};

use super::backing;
use super::nfs::Export;
use super::served::{Endpoint, ServeSpec, Served, Side};
use super::service_start;
use crate::machine::ledger::Ledger;
use crate::machine::process::{self, CommandLine};

pub(super) const PROGRAM: &str = "ganesha.nfsd";
/// The registered port of NFS (RFC 8881 §2.9.3): for a namespace of its own, where nothing else can have it.
const USUAL_PORT: u16 = 2049;
/// Where the export hangs in the server's name space.
const EXPORT: &str = "/volumes";
/// The port mapper, and the port of the mount protocol in a namespace.
pub(super) const MAPPER: &str = "rpcbind";
const MOUNT_PORT: u16 = 20048;
/// Port mapper and server in one process group, with a `/run` of their own. A server that finds no port mapper ends: it waits for an answer.
const WITH_MAPPER: &str = r#"
mount -t tmpfs none /run || exit
rpcbind -f &
until rpcinfo > /dev/null 2>&1; do
    kill -0 $! || exit
    sleep 0.01
done
exec "$0" "$@""#;

pub(super) fn serve(spec: &ServeSpec<'_>, ledger: &mut Ledger) -> Result<Served> {
    let portal =
        SocketAddr::new(spec.host.address, service_start::free_port(spec.host.address).unwrap_or(USUAL_PORT));
    let scratch = backing::scratch("ganesha", ledger)?;
    let export = Export::make(spec, &scratch)?;
    let url = |name| format!("nfs://{}{EXPORT}/{name}?version=4&nfsport={}", portal.ip(), portal.port());
    let endpoints = export.names.iter().map(|name| Endpoint { url: url(name), size: export.size }).collect();
    let config = spec.folder.join("ganesha.conf");
    let ports = if spec.host.namespace.is_some() { Ports::Namespace } else { Ports::Machine };
    std::fs::write(&config, configuration(portal, &export.folder, &scratch, ports))
        .with_context(|| format!("cannot write {}", config.display()))?;
    let log = scratch.join("log");
    let words = [("-f", &config), ("-L", &log), ("-p", &scratch.join("pid"))];
    let around: &[&str] =
        if ports == Ports::Namespace { &["unshare", "--mount", "sh", "-c", WITH_MAPPER] } else { &[] };
    let mut argv: Vec<String> = around.iter().copied().chain([PROGRAM, "-F"]).map(str::to_owned).collect();
    argv.extend(words.iter().flat_map(|(flag, path)| [(*flag).to_owned(), path.display().to_string()]));
    let line = CommandLine::new("target", argv, spec.folder);
    let version = service_start::version_by(PROGRAM, "-v")?;
    let mut service = service_start::start(
        &line,
        spec.placement,
        service_start::Label { side: Side::Target, name: PROGRAM, version },
        ledger,
    )?;
    service_start::wait(&mut service, "it is initialized", || {
        Ok(service_start::written(&log).filter(|text| text.contains("NFS SERVER INITIALIZED")))
    })
    .with_context(|| format!("nfs-ganesha, which needs root, does not serve{}", process::last_words(&log)))?;
    Ok(Served { services: vec![service], endpoints })
}

/// Whose ports the server opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ports {
    /// Those of the machine, where NFSv3's fixed ones may be somebody else's.
    Machine,
    /// Those of a namespace of its own, where it can serve NFSv3 too.
    Namespace,
}

/// The server's configuration file.
fn configuration(portal: SocketAddr, folder: &Path, scratch: &Path, ports: Ports) -> String {
    let alone = ports == Ports::Namespace;
    let (address, port) = (portal.ip(), portal.port());
    let (folder, scratch) = (folder.display(), scratch.display());
    let protocols = if alone { "3, 4" } else { "4" };
    let mount =
        if alone { format!("MNT_Port = {MOUNT_PORT}; mount_path_pseudo = true; ") } else { String::new() };
    format!(
        "NFS_CORE_PARAM {{ Protocols = {protocols}; NFS_Port = {port}; {mount}Bind_addr = {address}; \
         Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }}\n\
         NFSv4 {{ Graceless = true; RecoveryBackend = fs; RecoveryRoot = \"{scratch}\"; }}\n\
         EXPORT {{ Export_Id = 1; Path = \"{folder}\"; Pseudo = \"{EXPORT}\"; Protocols = {protocols}; Transports = TCP; \
         Access_Type = RW; Squash = No_Root_Squash; SecType = sys; FSAL {{ Name = VFS; }} }}\n\
         LOG {{ Default_Log_Level = EVENT; }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_portal_and_the_folder_are_offered() {
        let (folder, scratch) = (Path::new("/run/v"), Path::new("/run/s"));
        let text = configuration("127.0.0.1:2050".parse().unwrap(), folder, scratch, Ports::Machine);
        assert!(
            text.contains("NFS_Port = 2050; Bind_addr = 127.0.0.1;") && text.contains("Path = \"/run/v\"")
        );
        assert_eq!(text.matches('{').count(), text.matches('}').count());
        assert!(!text.contains("MNT_Port") && !text.contains("= 3"), "{text}");
        let text = configuration("10.0.0.1:2049".parse().unwrap(), folder, scratch, Ports::Namespace);
        assert!(text.contains("MNT_Port = 20048; mount_path_pseudo = true;"), "{text}");
        assert_eq!(text.matches("Protocols = 3, 4;").count(), 2, "{text}");
    }
}
