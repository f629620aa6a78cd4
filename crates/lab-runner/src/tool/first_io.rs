//! The first I/O of a volume: one block, written, flushed, read back and compared.
//!
//! The tool does no more than that. How long it took until the arm could be used, the runner knows that built it ([`Built`]), and
//! [`clocked`] puts the parts together: from programs that are installed, and nothing else, to the end of the tool.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};

use super::assignment::{Assignment, Measured, command_line, tool};
use super::integrity::{Reach, own};
use super::raw;
use crate::machine::process::CommandLine;
use lab_model::result::Load;
use lab_model::statistics::metric::{FIRST_IO, READY_INITIATOR, READY_TARGET};

/// Bytes of the block.
const BLOCK: u64 = 4096;
/// What writes it and reads it back through a socket or a path.
pub const PROGRAM: &str = "qemu-io";
/// What the tool says.
const OUTPUT: &str = "first-io.txt";

/// How long it took until an arm could be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Built {
    /// From nothing to a target that serves.
    pub target: Duration,
    /// From then on to an initiator that has the volume.
    pub initiator: Duration,
}

pub(super) fn command(assignment: &Assignment<'_>) -> Result<CommandLine> {
    let [endpoint] = assignment.endpoints else {
        bail!("the first I/O is that of one volume, and the arm has {}", assignment.endpoints.len())
    };
    let engine = super::fio::engine(assignment.initiator, assignment.engines, &endpoint.url);
    let in_fio = engine.is_some();
    let argv = match Reach::of(endpoint, engine) {
        Some(Reach::Own(url)) => own(&url, BLOCK, assignment.linerate),
        Some(Reach::Fio(words)) if in_fio => fio(words),
        Some(Reach::Fio(_)) => qemu_io(&endpoint.url),
        None => bail!("nothing here can write to {} and read it back", names::redact(&endpoint.url)),
    };
    Ok(command_line(assignment, argv, OUTPUT))
}

/// fio takes a quarter of a second for its own start and end, which would hide what is measured.
fn qemu_io(url: &str) -> Vec<String> {
    let steps = ["write -P 90 0 4k", "flush", "read -P 90 0 4k"];
    let head = [PROGRAM, "-f", "raw"].map(str::to_owned);
    head.into_iter()
        .chain(steps.iter().flat_map(|step| ["-c".to_owned(), (*step).to_owned()]))
        .chain([url.to_owned()])
        .collect()
}

/// Where its engine is what reaches the volume, nothing but fio can.
fn fio(words: Vec<String>) -> Vec<String> {
    let load =
        ["fio", "--name=first-io", "--rw=write", "--bs=4k", "--iodepth=1", "--end_fsync=1", "--randseed=1"];
    let verified = ["--verify=crc32c", "--verify_fatal=1", "--do_verify=1"];
    let size = format!("--size={BLOCK}");
    load.into_iter().chain(verified).map(str::to_owned).chain([size]).chain(words).collect()
}

/// The tool prints nothing that is measured: that it ended well says that the block came back as it was written. `qemu-io` says that
/// in words too.
pub(super) fn read(assignment: &Assignment<'_>, version: &str) -> Result<Measured> {
    let line = command(assignment)?;
    let program = line.argv.first().map_or("", String::as_str);
    let name = if ["fio", PROGRAM].contains(&program) { program } else { "linerate check" };
    if name == PROGRAM {
        let said = raw::text(&assignment.folder.join(OUTPUT))?;
        if !said.contains("read 4096/4096") || said.contains("failed") {
            bail!("the first block did not come back as it was written: {}", said.trim());
        }
    }
    Ok(Measured {
        tool: tool(name, version, &line),
        load: Load::default(),
        intervals: Vec::new(),
        extra: BTreeMap::new(),
        seconds: 0.0,
        window_start: None,
        flags: Vec::new(),
    })
}

/// The whole time, of an arm that was built so fast and a tool that took so many seconds.
pub(crate) fn clocked(measured: &mut Measured, built: Built, seconds: f64) {
    let nanoseconds = |seconds: f64| seconds * 1e9;
    let (target, initiator) = (built.target.as_secs_f64(), built.initiator.as_secs_f64());
    let parts =
        [(READY_TARGET, target), (READY_INITIATOR, initiator), (FIRST_IO, target + initiator + seconds)];
    measured.seconds = seconds;
    measured.extra.extend(parts.map(|(name, seconds)| (name.to_owned(), nanoseconds(seconds))));
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::arm::Endpoint;
    use lab_model::scenario::Initiator;

    fn with<T>(urls: &[&str], initiator: Initiator, folder: &Path, of: impl Fn(&Assignment<'_>) -> T) -> T {
        let endpoints: Vec<Endpoint> =
            urls.iter().map(|url| Endpoint { url: (*url).to_owned(), size: 64 << 20 }).collect();
        of(&Assignment {
            settings: &BTreeMap::new(),
            endpoints: &endpoints,
            folder,
            ramp: 0.0,
            runtime: 1.0,
            linerate: Path::new("linerate"),
            engines: Path::new("/engines"),
            initiator,
        })
    }

    fn argv(urls: &[&str]) -> Result<Vec<String>> {
        let line = with(urls, Initiator::LinerateNbd, Path::new("/run/lab"), command)?;
        Ok(line.argv)
    }

    #[test]
    fn one_block_is_written_and_read_back_whatever_the_volume() {
        let words = argv(&["nbd+unix:///0?socket=/s"]).unwrap();
        for word in ["qemu-io", "write -P 90 0 4k", "flush", "read -P 90 0 4k", "nbd+unix:///0?socket=/s"] {
            assert!(words.iter().any(|one| one == word), "{word} is missing in {words:?}");
        }
        let inside =
            with(&["iscsi://h/t/0"], Initiator::LinerateFio, Path::new("/run/lab"), command).unwrap();
        for word in ["fio", "--size=4096", "--verify=crc32c", "--do_verify=1"] {
            assert!(inside.argv.iter().any(|one| one == word), "{word} is missing in {:?}", inside.argv);
        }
        assert_eq!(argv(&["iscsi://h/t/0"]).unwrap()[..2], ["linerate", "check"]);
        assert!(argv(&["iscsi://h/t/0"]).unwrap().contains(&"4096".to_owned()));
        let refused = |urls: &[&str]| argv(urls).unwrap_err().to_string();
        assert!(refused(&["file:/a", "file:/b"]).contains("the arm has 2"));
        assert!(refused(&["192.0.2.1:5201"]).contains("nothing here can write"));
    }

    #[test]
    fn a_block_that_comes_back_otherwise_is_no_first_io() {
        let folder = tempfile::tempdir().unwrap();
        let said = |words: &str| {
            std::fs::write(folder.path().join(OUTPUT), words).unwrap();
            with(&["nbd://h/0"], Initiator::LinerateNbd, folder.path(), |asked| read(asked, "7.2"))
        };
        let failed =
            said("wrote 4096/4096\nPattern verification failed at offset 0, 4096 bytes\nread 4096/4096");
        assert!(failed.unwrap_err().to_string().contains("did not come back as it was written"));
        assert!(said("wrote 4096/4096\n").is_err(), "it was not read at all");
        let sound = said("wrote 4096/4096 bytes at offset 0\nread 4096/4096 bytes at offset 0\n").unwrap();
        assert_eq!((sound.tool.name.as_str(), sound.load), (PROGRAM, Load::default()));
    }

    #[test]
    fn the_clock_begins_before_the_target_and_counts_each_side_once() {
        let mut measured = Measured {
            tool: lab_model::result::Tool { name: String::new(), version: String::new(), argv: Vec::new() },
            load: Load::default(),
            intervals: Vec::new(),
            extra: BTreeMap::new(),
            seconds: 0.0,
            window_start: None,
            flags: Vec::new(),
        };
        let built = Built { target: Duration::from_millis(400), initiator: Duration::from_millis(100) };
        clocked(&mut measured, built, 0.25);
        let milliseconds = |name: &str| format!("{:.0}", measured.extra[name] / 1e6);
        assert_eq!([READY_TARGET, READY_INITIATOR, FIRST_IO].map(milliseconds), ["400", "100", "750"]);
        assert!((measured.seconds - 0.25).abs() < 1e-12);
    }
}
