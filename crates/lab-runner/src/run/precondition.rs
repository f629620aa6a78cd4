//! Drives of the site are made ready before an arm on them is measured, where the site asks for it ([`lab_model::precondition`]).

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::measurement;
use super::stage::Stage;
use super::task::Task;
use crate::machine::process::{CommandLine, Running};
use crate::site::Precondition;
use lab_model::precondition::{CAPACITIES, Rounds, until_steady};
use lab_model::scenario::Design;

/// The longest that the writing of one drive may take: two days, as a large hard disk needs.
const LONGEST: Duration = Duration::from_hours(48);

/// Writes all drives of an arm, one after the other, as often as it takes.
pub(crate) fn write_all(stage: &Stage, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (host, endpoints) in &stage.initiators {
        for (number, endpoint) in endpoints.iter().enumerate() {
            let line = CommandLine::new(&format!("drive{number}"), writer(&endpoint.url), folder);
            Running::start(&line, &stage.load_placement(host))?
                .finish(LONGEST)
                .with_context(|| format!("{} cannot be preconditioned", endpoint.url))?;
        }
    }
    Ok(())
}

/// fio that writes a whole drive in order by blocks of 128 KiB, twice.
fn writer(drive: &str) -> Vec<String> {
    let fixed = [
        "fio",
        "--name=precondition",
        "--ioengine=libaio",
        "--direct=1",
        "--rw=write",
        "--bs=128k",
        "--iodepth=32",
        "--end_fsync=1",
        "--output-format=json",
    ];
    let own = [format!("--filename={}", drive.replace(':', "\\:")), format!("--loops={CAPACITIES}")];
    fixed.map(str::to_owned).into_iter().chain(own).collect()
}

/// Runs the load of a point in rounds until it is steady. Each has a folder of its own.
pub(crate) fn settle(stage: &mut Stage, task: &Task<'_>, asked: &Precondition) -> Result<Rounds> {
    let design = Design { ramp: 0.0, runtime: asked.round, ..task.design.clone() };
    until_steady(|number| {
        let folder = task.folder.join(format!("round{number}"));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let taken = measurement::take(stage, &Task { design: &design, folder: &folder, ..*task })?;
        let load = &taken.measured.load;
        Ok(load.read.iter().chain(&load.write).map(|direction| direction.iops).sum())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_the_capacity_is_written_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive:0");
        std::fs::File::create(&path).unwrap().set_len(8 << 20).unwrap();
        let argv: Vec<String> = writer(&path.display().to_string())
            .into_iter()
            .map(|word| word.replace("--direct=1", "--direct=0"))
            .collect();
        let output = std::process::Command::new(&argv[0])
            .args(&argv[1..])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let write = &said["jobs"][0]["write"];
        assert_eq!((write["io_bytes"].as_u64(), write["total_ios"].as_u64()), (Some(16 << 20), Some(128)));
    }
}
