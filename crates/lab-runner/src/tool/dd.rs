//! dd: sequential writes to files, several streams side by side.
//!
//! Without `count` a stream writes its file again and again until the time is over; with it, once, and is stopped at the
//! time if it lasts longer. A stream that flushes (`conv=fsync`) is never stopped within a pass, since dd would skip the
//! flush. `notrunc` is added to `conv`: an export of a volume is a file whose length is fixed. dd's rate has three digits,
//! so rates are computed from its bytes and seconds.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::assignment::{Assignment, Measured, command_line, tool};
use super::settings::Settings;
use super::{raw, shell};
use crate::machine::process::CommandLine;
use lab_model::result::{Direction, Load};
use lab_model::statistics::number::real;

const VERSION: &str = "dd.version";
const CONVERSIONS: &[&str] = &["none", "fsync", "fdatasync"];
/// One stream: passes over a file for `nanos` nanoseconds, at least one whatever the machine does meanwhile.
/// `--foreground`: else `timeout` leaves the tool's process group, and its two signals kill dd before it has reported.
/// Arguments: file, output, `once` or `again`, `cut` or `whole`, then dd's operands.
const STREAM: &str = r#"stream() {
  of=$1 out=$2 passes=$3 ending=$4
  shift 4
  left=$nanos end=$(($(date +%s%N) + nanos))
  while [ "$left" -gt 0 ]; do
    limit=
    [ "$ending" = cut ] && limit="timeout --foreground -s INT $((left / 1000000000)).$(printf %09d $((left % 1000000000)))"
    $limit dd if=/dev/zero of="$of" "$@" 2>>"$out"
    r=$?
    [ $r = 0 ] || [ $r = 124 ] || return $r
    [ "$passes" = again ] || break
    left=$((end - $(date +%s%N)))
  done
}
"#;

/// How it is started.
pub(super) fn command(assignment: &Assignment<'_>) -> Result<CommandLine> {
    let settings = Settings(assignment.settings);
    let bytes = settings.bytes("bs", 512)?;
    let flushes = settings.word("conv", CONVERSIONS)?;
    let mut operands = vec![format!("bs={bytes}")];
    if settings.word("oflag", &["none", "direct"])? == "direct" {
        operands.push("oflag=direct".to_owned());
    }
    operands.push(if flushes == "none" {
        "conv=notrunc".to_owned()
    } else {
        format!("conv=notrunc,{flushes}")
    });
    let passes = if settings.get("count").is_some() { "once" } else { "again" };
    let ending = if flushes == "none" { "cut" } else { "whole" };
    let run = |seconds: f64, keep: bool| -> Result<String> {
        let mut streams = Vec::new();
        for (index, (file, size)) in files(assignment)?.into_iter().enumerate() {
            let to = if keep { output(index) } else { "/dev/null".to_owned() };
            let mut words = ["stream", &file, &to, passes, ending].map(str::to_owned).to_vec();
            words.extend(operands.iter().cloned());
            words.push(format!("count={}", count(settings, size, bytes)?));
            streams.push(shell::join(&words));
        }
        Ok(format!("nanos={:.0}\n{}", seconds * 1e9, shell::parallel(&streams)))
    };
    let before = if assignment.ramp > 0.0 { run(assignment.ramp, false)? } else { String::new() };
    let script = format!(
        "{STREAM}dd --version >{VERSION}\n{before}{}{}",
        shell::note_window(),
        run(assignment.runtime, true)?
    );
    Ok(command_line(assignment, shell::argv(&script), "dd.stdout"))
}

fn output(index: usize) -> String {
    format!("dd.{index}.txt")
}

/// A file of its own for each stream, with its size if the arm gave one. An endpoint that is a folder holds any number.
fn files(assignment: &Assignment<'_>) -> Result<Vec<(String, u64)>> {
    let endpoints = assignment.endpoints;
    let streams = Settings(assignment.settings).count("streams", endpoints.len() as u64)?;
    let mut files = Vec::new();
    for stream in 0..usize::try_from(streams)? {
        let Some(endpoint) = stream.checked_rem(endpoints.len()).and_then(|index| endpoints.get(index))
        else {
            bail!("there is nothing to write to: the arm gave no file or folder");
        };
        if endpoint.url.contains("://") {
            bail!(
                "dd writes files, the arm gave {}: choose an initiator that mounts it or hands a file",
                endpoint.url
            );
        }
        if Path::new(&endpoint.url).is_dir() {
            files.push((format!("{}/stream{stream}", endpoint.url.trim_end_matches('/')), endpoint.size));
        } else if stream < endpoints.len() {
            files.push((endpoint.url.clone(), endpoint.size));
        } else {
            bail!("{streams} streams need a file each and the arm gave {}: raise `volumes`", endpoints.len());
        }
    }
    Ok(files)
}

/// Writes of one pass: the setting, but within the file's size.
fn count(settings: Settings<'_>, known: u64, bytes: u64) -> Result<u64> {
    let size = settings.bytes("size", if known > 0 { known } else { u64::MAX })?;
    let most = size / bytes;
    let asked = settings.count("count", u64::MAX)?.min(most);
    if asked == 0 {
        bail!("bs = {bytes} is more than the file's {size} bytes: take a smaller bs or a larger size");
    }
    if size == u64::MAX && settings.get("count").is_none() {
        bail!("dd would write without end: give `size` or `count` in the scenario");
    }
    Ok(asked)
}

/// Passes of one stream together.
#[derive(Debug, Default, PartialEq)]
struct Passes {
    records: u64,
    bytes: u64,
    seconds: f64,
}

/// What it measured.
pub(super) fn read(assignment: &Assignment<'_>) -> Result<Measured> {
    let streams = files(assignment)?.len();
    let mut all = Passes::default();
    for index in 0..streams {
        let path = assignment.folder.join(output(index));
        let passes = parse(&raw::text(&path)?).with_context(|| path.display().to_string())?;
        all.records = all.records.saturating_add(passes.records);
        all.bytes = all.bytes.saturating_add(passes.bytes);
        all.seconds = all.seconds.max(passes.seconds);
    }
    if all.seconds <= 0.0 {
        let first = assignment.folder.join(output(0));
        bail!("{}: dd ran for no time at all: raise size, count or runtime", first.display());
    }
    let version = raw::text(&assignment.folder.join(VERSION))?;
    let version = version.lines().find_map(super::assignment::version_in).unwrap_or_default();
    let write = Direction {
        ios: all.records,
        bytes: all.bytes,
        iops: real(all.records) / all.seconds,
        bytes_per_second: real(all.bytes) / all.seconds,
        latency: None,
    };
    Ok(Measured {
        tool: tool("dd", &version, &command(assignment)?),
        load: Load { write: Some(write), ..Load::default() },
        intervals: Vec::new(),
        extra: BTreeMap::new(),
        seconds: all.seconds,
        window_start: Some(shell::window_start(assignment.folder)?),
        flags: Vec::new(),
    })
}

/// Each pass ends with `1000+0 records out` and `4096000 bytes (…) copied, 0.02 s, 204 MB/s`.
fn parse(text: &str) -> Result<Passes> {
    let mut passes = Passes::default();
    let mut complete = false;
    for line in text.lines() {
        if let Some(records) = line.strip_suffix(" records out") {
            let (full, part) = records.split_once('+').with_context(|| format!("cannot read {line:?}"))?;
            let sum = full
                .parse::<u64>()
                .ok()
                .zip(part.parse::<u64>().ok())
                .and_then(|(full, part)| full.checked_add(part));
            let sum = sum.with_context(|| format!("cannot read {line:?}"))?;
            passes.records = passes.records.saturating_add(sum);
        } else if let Some((head, rest)) = line.split_once(" copied, ") {
            let bytes: u64 = head
                .split(' ')
                .next()
                .unwrap_or_default()
                .parse()
                .with_context(|| format!("cannot read {line:?}"))?;
            let seconds: Option<f64> = rest.split_once(" s,").and_then(|(seconds, _)| seconds.parse().ok());
            let seconds = seconds.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
            passes.bytes = passes.bytes.saturating_add(bytes);
            passes.seconds += seconds.with_context(|| format!("cannot read {line:?}"))?;
            complete = true;
        }
    }
    if !complete {
        bail!("holds no \"… bytes … copied\": dd ended early{}", last(text));
    }
    Ok(passes)
}

fn last(text: &str) -> String {
    text.lines().last().map(|line| format!(" and said {line:?}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_PASSES: &str = "1000+0 records in\n1000+0 records out\n4096000 bytes (4.1 MB, 3.9 MiB) copied, 0.020093 s, 204 MB/s\n\
        501+0 records in\n500+1 records out\n2050000 bytes (2.1 MB, 2.0 MiB) copied, 0.01 s, 205 MB/s\n";

    #[test]
    fn passes_are_added_up() {
        let passes = parse(TWO_PASSES).unwrap();
        assert_eq!((passes.records, passes.bytes), (1501, 6_146_000));
        assert!((passes.seconds - 0.030_093).abs() < 1e-12);
    }

    #[test]
    fn what_dd_said_instead_is_repeated() {
        let said = parse("dd: failed to open '/x/y': No such file or directory\n").unwrap_err().to_string();
        assert!(said.contains("No such file"), "{said}");
    }
}
