//! What a result says, counted once more from the raw output of the tool beside it.
//!
//! The runner reads a tool's output when the tool ends. A report reads it again, by itself and in the tool's own words, so that a
//! result which says something else does not count even where its seals were made anew. Every tool that the runner starts is read
//! twice.

mod counts;
mod json;
mod text;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use lab_model::result::PointResult;

use counts::{Counted, Counts, Difference};

/// One host's raw output of a tool, counted; nothing where the folder has none of that tool.
type Reader = fn(&Path) -> Result<Option<Counted>>;

/// The tools whose raw output is read again.
const TOOLS: [Reader; 7] =
    [json::fio, json::bench, json::iperf3, json::bareloop, text::dd, text::iscsi_perf, text::pgbench];
/// Whether raw output beside a result says the same: false where there is none that is read again. `folder` is the result's.
///
/// # Errors
/// The output cannot be read, or the result says something else; the error names the file and both figures.
pub(crate) fn matches(folder: &Path, result: &PointResult) -> Result<bool> {
    let mut sum: Option<Counted> = None;
    for folder in hosts(folder)? {
        for read in TOOLS {
            let Some(counted) = read(&folder)? else { continue };
            match &mut sum {
                Some(sum) => sum.add(&counted),
                None => sum = Some(counted),
            }
        }
    }
    let Some(Counted { file, both, database }) = sum else { return Ok(false) };
    for (direction, counted, said) in
        [("read", both.read, &result.load.read), ("write", both.write, &result.load.write)]
    {
        if let Some(Difference { what, counted, said }) = counted.difference(&Counts::said(said.as_ref())) {
            bail!("{file} beside it says {counted} {what} ({direction}), and it says {said}");
        }
    }
    if let Some(Difference { what, counted, said }) = database.and_then(|counted| counted.difference(result))
    {
        bail!("{file} beside it says {counted} {what}, and it says {said}");
    }
    Ok(true)
}

/// The folder, or one for each initiating host.
fn hosts(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = vec![folder.to_path_buf()];
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        let is_host =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("host"));
        if is_host && path.is_dir() {
            all.push(path);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_model::result::{Direction, Latency};
    use lab_model::statistics::synthetic::result;
    use serde_json::json;

    /// A result of 5,000 reads of 4 KiB in ten seconds.
    fn measured() -> PointResult {
        let mut result = result("A", 1, 500.0);
        if let Some(read) = &mut result.load.read {
            (read.ios, read.bytes) = (5_000, 5_000 * 4_096);
            read.latency = Some(Latency { mean: 2e6, ..Latency::default() });
        }
        result
    }

    fn of_fio(ios: u32) -> String {
        let side = |ios: u32| {
            json!({
                "total_ios": ios, "io_bytes": ios * 4096, "iops": f64::from(ios) / 10.0,
                "bw_bytes": f64::from(ios) * 409.6, "lat_ns": {"mean": if ios > 0 { 2e6 } else { 0.0 }},
            })
        };
        let job = |name: &str, ios: u32| json!({"jobname": name, "read": side(ios), "write": side(0)});
        format!("fio: a warning\n{}\n", json!({"jobs": [job("log", 7), job("verified", 3), job("lab", ios)]}))
    }

    fn of_bench(ios: u32) -> String {
        let side = json!({
            "ios": ios, "bytes": ios * 4096, "iops": f64::from(ios) / 10.0, "bytes_per_second": f64::from(ios) * 409.6,
            "latency_ns": {"mean": 2e6},
        });
        json!({"version": "0.1.0", "read": side}).to_string()
    }

    #[test]
    fn a_result_that_says_more_than_its_tool_is_named_with_both_figures() {
        for (file, text) in [("fio.json", of_fio(5_000)), ("bench.json", of_bench(5_000))] {
            let folder = tempfile::tempdir().unwrap();
            assert!(!matches(folder.path(), &measured()).unwrap(), "there is no raw output");
            std::fs::write(folder.path().join(file), text).unwrap();
            assert!(matches(folder.path(), &measured()).unwrap(), "{file}");
            let mut tenfold = measured();
            tenfold.load.read.as_mut().unwrap().iops *= 10.0;
            let why = matches(folder.path(), &tenfold).unwrap_err().to_string();
            assert_eq!(why, format!("{file} beside it says 500 IOPS (read), and it says 5000"));
            let mut faster = measured();
            faster.load.read.as_mut().unwrap().latency.as_mut().unwrap().mean = 1e6;
            let why = matches(folder.path(), &faster).unwrap_err().to_string();
            assert!(why.contains("2000000 ns of mean latency (read), and it says 1000000"), "{why}");
            let mut silent = measured();
            silent.load.read = None;
            assert!(matches(folder.path(), &silent).is_err(), "{file}: reads that it does not tell");
        }
    }

    /// The raw output of a tool in a folder, and a result that says the same.
    fn recorded(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    /// A result with one direction.
    fn counted(ios: u64, bytes: u64, seconds: f64) -> Direction {
        let real = lab_model::statistics::number::real;
        Direction {
            ios,
            bytes,
            iops: real(ios) / seconds,
            bytes_per_second: real(bytes) / seconds,
            latency: None,
        }
    }

    #[track_caller]
    fn says_the_same_until_it_is_multiplied(folder: &tempfile::TempDir, result: &PointResult, file: &str) {
        assert!(matches(folder.path(), result).unwrap(), "{file}");
        let mut tenfold = result.clone();
        for direction in tenfold.load.read.iter_mut().chain(&mut tenfold.load.write) {
            direction.bytes_per_second *= 10.0;
        }
        let why = matches(folder.path(), &tenfold).unwrap_err().to_string();
        assert!(why.starts_with(&format!("{file} beside it says ")), "{why}");
        assert!(why.contains(" bytes a second ("), "{why}");
        let mut swapped = result.clone();
        std::mem::swap(&mut swapped.load.read, &mut swapped.load.write);
        assert!(matches(folder.path(), &swapped).is_err(), "{file}: the other direction");
    }

    #[test]
    fn streams_of_dd_are_counted_again() {
        let one = "1000+0 records in\n1000+0 records out\n4096000 bytes (4.1 MB, 3.9 MiB) copied, 0.02 s, 204 MB/s\n\
            501+0 records in\n500+1 records out\n2050000 bytes (2.1 MB, 2.0 MiB) copied, 0.02 s, 205 MB/s\n";
        let other = "10+0 records in\n10+0 records out\n40960 bytes (41 kB, 40 KiB) copied, 0.01 s, 4 MB/s\n";
        let folder = recorded(&[("dd.0.txt", one), ("dd.1.txt", other)]);
        let mut result = measured();
        (result.load.read, result.load.write) = (None, Some(counted(1511, 6_186_960, 0.04)));
        says_the_same_until_it_is_multiplied(&folder, &result, "dd.0.txt");
    }

    #[test]
    fn volumes_of_iscsi_perf_are_counted_again() {
        let one = "iscsi-perf version 0.1\nFIXED transfer size of 8 blocks (4096 byte)\nwill run for 3 seconds.\n\n\
            \riops average 100 (0 MB/s)   \n\riops average 300 (1 MB/s)     \n\nfinished.\n";
        let folder = recorded(&[("iscsi-perf.0.txt", one), ("iscsi-perf.1.txt", one)]);
        let mut result = measured();
        result.load.read = Some(counted(1800, 1800 * 4096, 3.0));
        says_the_same_until_it_is_multiplied(&folder, &result, "iscsi-perf.0.txt");
    }

    #[test]
    fn streams_of_iperf3_are_counted_again_in_each_direction() {
        let text = |reverse: u8, back: &str| {
            format!(
                "{{\"start\": {{\"test_start\": {{\"reverse\": {reverse}}}}}, \"end\": {{\"sum_received\": \
                 {{\"bytes\": 8000, \"bits_per_second\": 32000}}{back}}}}}"
            )
        };
        let stream = |bytes| Some(Direction { ios: 0, iops: 0.0, ..counted(0, bytes, 2.0) });
        let mut result = measured();
        (result.load.read, result.load.write) = (None, stream(8000));
        says_the_same_until_it_is_multiplied(
            &recorded(&[("iperf3.json", &text(0, ""))]),
            &result,
            "iperf3.json",
        );
        (result.load.read, result.load.write) = (stream(8000), None);
        says_the_same_until_it_is_multiplied(
            &recorded(&[("iperf3.json", &text(1, ""))]),
            &result,
            "iperf3.json",
        );
        let back = ", \"sum_received_bidir_reverse\": {\"bytes\": 6000, \"bits_per_second\": 24000}";
        (result.load.read, result.load.write) = (stream(6000), stream(8000));
        says_the_same_until_it_is_multiplied(
            &recorded(&[("iperf3.json", &text(0, back))]),
            &result,
            "iperf3.json",
        );
    }

    #[test]
    fn the_bare_loop_is_counted_again() {
        let text = json!({"rw": "read", "bs": 4096, "requests": 5000, "iops": 500.0, "bytes_per_second": 2_048_000.0, "mean_us": 2000.0});
        let folder = recorded(&[("bareloop.json", &text.to_string())]);
        says_the_same_until_it_is_multiplied(&folder, &measured(), "bareloop.json");
    }

    #[test]
    fn transactions_of_pgbench_are_counted_again() {
        let text = "number of transactions actually processed: 6823\nnumber of failed transactions: 0 (0.000%)\n\
            latency average = 0.877 ms\nlatency stddev = 1.552 ms\ntps = 2272.228492 (without initial connection time)\n";
        let folder = recorded(&[("pgbench.txt", text)]);
        let mut result = measured();
        (result.load.read, result.load.write) = (None, None);
        result.load.transactions = Some(Latency { mean: 877_000.0, ..Latency::default() });
        result.extra = [("transactions", 6823.0), ("transactions_per_second", 2_272.228_492)]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        assert!(matches(folder.path(), &result).unwrap());
        let mut tenfold = result.clone();
        tenfold.extra.insert("transactions_per_second".to_owned(), 22_722.284_92);
        let why = matches(folder.path(), &tenfold).unwrap_err().to_string();
        assert_eq!(
            why,
            "pgbench.txt beside it says 2272.228492 transactions a second, and it says 22722.28492"
        );
        let mut silent = result.clone();
        silent.load.transactions = Some(Latency { mean: 87_700.0, ..Latency::default() });
        assert!(matches(folder.path(), &silent).is_err(), "a mean that pgbench does not tell");
        result.load.errors = 4;
        assert!(matches(folder.path(), &result).is_err(), "failures that pgbench does not tell");
    }

    #[test]
    fn hosts_add_up_and_neighbours_do_not() {
        let folder = tempfile::tempdir().unwrap();
        for (name, ios) in [("host0", 2_000), ("host1", 3_000), ("neighbour-iscsi", 900)] {
            let part = folder.path().join(name);
            std::fs::create_dir(&part).unwrap();
            std::fs::write(part.join("fio.json"), of_fio(ios)).unwrap();
        }
        assert!(matches(folder.path(), &measured()).unwrap());
        std::fs::write(folder.path().join("host1/fio.json"), of_fio(3_001)).unwrap();
        assert!(matches(folder.path(), &measured()).is_err());
    }

    #[test]
    fn output_that_cannot_be_read_vouches_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "{\"jobs\": [", "{\"jobs\": []}"] {
            std::fs::write(folder.path().join("fio.json"), text).unwrap();
            assert!(matches(folder.path(), &measured()).is_err(), "{text}");
        }
    }
}
