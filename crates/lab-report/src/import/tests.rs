//! Every importer on a file of its format, on what is left of one, and on noise.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use lab_model::jetstress::{LOG_WRITE_BYTES, LOG_WRITE_LATENCY, Mix};
use lab_model::result::{Bucket, Latency};
use lab_model::scenario::{Metric, Scenario};
use lab_model::statistics::metric::{Context, value_of};

/// Every fixture and how many results it holds.
const FIXTURES: [(Kind, &str, usize); 14] = [
    (Kind::Diskspd, "diskspd.txt", 1),
    (Kind::Diskspd, "diskspd.xml", 1),
    (Kind::Vmfleet, "vmfleet.tsv", 2),
    (Kind::Iometer, "iometer.csv", 2),
    (Kind::Jetstress, "jetstress.html", 1),
    (Kind::Jetstress, "jetstress-software.html", 1),
    (Kind::Jetstress, "jetstress-offload.html", 1),
    (Kind::Perfmon, "perfmon.csv", 1),
    (Kind::Iperf, "iperf3.json", 2),
    (Kind::Iperf, "iperf2.csv", 2),
    (Kind::Iperf, "iperf2.txt", 1),
    (Kind::Sar, "sadf.json", 1),
    (Kind::Sar, "sadf.csv", 1),
    (Kind::Sar, "sar.txt", 1),
];

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/import/fixtures").join(name)
}

fn all(kind: Kind, name: &str) -> Vec<PointResult> {
    read(kind, &fixture(name)).unwrap_or_else(|error| panic!("{name}: {error:#}"))
}

fn one(kind: Kind, name: &str) -> PointResult {
    all(kind, name).into_iter().next().unwrap()
}

fn text(name: &str) -> String {
    std::fs::read_to_string(fixture(name)).unwrap()
}

fn of_text(kind: Kind, text: &str) -> Result<Vec<PointResult>> {
    results(kind, &Source::from_bytes("log", text.as_bytes()))
}

#[track_caller]
fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{value} is not {expected}");
}

fn latency(direction: Option<&lab_model::result::Direction>) -> Latency {
    direction.unwrap().latency.clone().unwrap()
}

#[test]
fn every_fixture_is_read_and_labelled() {
    for (kind, name, count) in FIXTURES {
        let results = all(kind, name);
        assert_eq!(results.len(), count, "{name}");
        for result in results {
            assert_eq!(result.evidence.label(), "imported", "{name}");
            assert!(result.evidence.detail().unwrap().ends_with(name), "{name}");
            let json = serde_json::to_string(&result).unwrap();
            assert_eq!(serde_json::from_str::<PointResult>(&json).unwrap(), result, "{name}");
        }
    }
}

#[test]
fn diskspd_says_the_same_as_text_and_as_xml() {
    for name in ["diskspd.txt", "diskspd.xml"] {
        let result = one(Kind::Diskspd, name);
        assert_eq!(result.point_name(), "bs=8k rw=randrw rwmixread=70 iodepth=4 numjobs=2", "{name}");
        assert_eq!(result.started, "2019-01-24T10:36:41Z");
        assert_eq!((result.ios(), result.cpu.processors), (80_000, 4), "{name}");
        near(result.iops(), 8000.0);
        near(result.bytes_per_second(), 65_536_000.0);
        near(result.cpu.host.user, 2.0);
        near(result.cpu.host.system, 6.0);
        let (read, write) = (latency(result.load.read.as_ref()), latency(result.load.write.as_ref()));
        assert_eq!((read.min, read.mean, read.max), (0.1e6, 0.9e6, 12.5e6), "{name}");
        near(read.percentiles["p99.99"], 8.0e6);
        near(write.percentiles["p99"], 3.1e6);
        near(result.extra["latency_p99.9"], 4.9e6);
    }
    let intervals = one(Kind::Diskspd, "diskspd.xml").intervals;
    assert_eq!((intervals.len(), intervals[1].at), (2, 2.0));
    near(intervals[1].bytes_per_second, 8000.0 * 8192.0);
}

#[test]
fn vmfleet_s_rows_are_points() {
    let results = all(Kind::Vmfleet, "vmfleet.tsv");
    assert_eq!(results[0].point_name(), "bs=4k rw=randread iodepth=8 numjobs=2 runlabel=peak vmcount=40");
    near(results[0].iops(), 812_000.5);
    assert!(results[0].load.write.is_none());
    near(results[1].load.write.as_ref().unwrap().bytes_per_second, 703_692_800.0);
    near(latency(results[1].load.write.as_ref()).mean, 1.25e6);
    near(results[1].cpu.machine_percent.1, 78.25);
    near(results[1].extra["vmcount"], 40.0);
    let effectiveness = value_of(Metric::EffectivenessIops, &results[0], &Context::default());
    near(effectiveness.unwrap(), 812_000.5 / 71.5);
}

#[test]
fn iometer_s_totals_are_points_with_histograms() {
    let results = all(Kind::Iometer, "iometer.csv");
    let read = &results[0];
    assert_eq!(read.point_name(), "bs=4k rw=randread iodepth=16 numjobs=2 specification=4K read");
    assert_eq!((read.started.as_str(), read.tool.version.as_str()), ("2016-05-12T14:03:11Z", "1.1.0"));
    near(read.seconds, 30.0);
    assert_eq!(read.ios(), 600_000);
    near(read.bytes_per_second(), 81.92e6);
    let latency = latency(read.load.read.as_ref());
    let buckets = [(1_000_000, 100_000), (2_000_000, 450_000), (5_000_000, 50_000)].map(Bucket::from);
    assert_eq!(latency.histogram, buckets);
    assert_eq!(value_of(Metric::LatencyP95, read, &Context::default()), Some(5e6));
    near(read.cpu.machine_percent.1, 25.5);
    let mixed = &results[1];
    assert_eq!(mixed.point[1].value, "randrw");
    assert_eq!((mixed.load.errors, mixed.valid()), (3, false), "failed I/Os invalidate a point");
    assert!(mixed.directions().all(|one| one.latency.as_ref().unwrap().histogram.is_empty()));
}

/// The report of the publication, digit for digit, and what follows from it.
#[test]
fn jetstress_s_published_table_comes_back() {
    let (software, offload) =
        (one(Kind::Jetstress, "jetstress-software.html"), one(Kind::Jetstress, "jetstress-offload.html"));
    assert_eq!(software.tool.version, "15.00.0775.000");
    let rows = crate::jetstress::rows(&[&software, &offload]);
    let published = [
        ["Pass", "Pass"],
        ["DMRTK-SRVR-E", "DMRTK-SRVR-E"],
        ["23761.995", "34423.554"],
        ["3000", "3000"],
        ["3.14841e12", "3.14655e12"],
        ["3.22038e12", "3.23700e12"],
        ["32", "32"],
        ["2.092", "1.931"],
        ["0.297", "0.165"],
        ["26.431", "21.465"],
        ["15.539", "19.669"],
        ["29.113", "23.784"],
        ["899.0", "1603.7"],
        ["-", "-"],
        ["-", "-"],
    ];
    for ((label, cells), expected) in rows.iter().zip(published) {
        assert_eq!(cells, &expected, "{label}");
    }
    assert_eq!(rows.len(), published.len());
    assert!(Mix::of(&software).is_none(), "the publication tells no rates of reads, writes and logs");
}

#[test]
fn jetstress_s_databases_are_added() {
    let result = one(Kind::Jetstress, "jetstress.html");
    assert_eq!(result.started, "2016-03-14T09:10:00Z");
    near(result.seconds, 7200.0);
    near(result.load.read.as_ref().unwrap().iops, 500.0);
    near(latency(result.load.read.as_ref()).mean, 9e6);
    near(result.extra[LOG_WRITE_BYTES], 7200.0);
    near(result.extra[LOG_WRITE_LATENCY], 0.6e6);
    let mix = Mix::of(&result).unwrap();
    near(mix.reads_to_writes, 5.0 / 3.0);
    near(mix.database_to_log, 10.0);
    mix.check().unwrap();
}

#[test]
fn perfmon_s_samples_are_a_window() {
    let result = one(Kind::Perfmon, "perfmon.csv");
    assert_eq!((result.started.as_str(), result.seconds), ("2019-01-24T09:36:41Z", 2.0));
    near(result.load.read.as_ref().unwrap().iops, 2000.0);
    assert_eq!(result.load.write.as_ref().unwrap().ios, 2000);
    near(latency(result.load.read.as_ref()).mean, 1.75e6);
    assert_eq!(result.cpu.processors, 2);
    assert_eq!(result.cpu.machine_percent, (20.0, 30.0, 40.0));
    near(result.cpu.host.user, 0.3);
    near(result.extra["memory\\available mbytes"], 59_985.0);
    assert_eq!(result.intervals.len(), 2);
    near(result.intervals[1].iops, 4500.0);
}

#[test]
fn iperf_s_streams_are_added() {
    let results = all(Kind::Iperf, "iperf3.json");
    assert_eq!(results[0].point_name(), "bs=128k numjobs=2 rw=write");
    near(results[0].bytes_per_second(), 118e6);
    assert_eq!(results[0].network.unwrap().retransmitted, 5);
    near(results[0].cpu.target.unwrap().seconds(), 0.6);
    assert!(results[1].load.write.is_none() && results[1].load.read.is_some(), "-R reads");
    let two = all(Kind::Iperf, "iperf2.csv");
    assert_eq!((two[0].point_name(), two[0].seconds), ("numjobs=2 rw=write".to_owned(), 2.0));
    assert_eq!(two[0].started, "2019-01-24T10:36:41Z");
    near(two[0].bytes_per_second(), 118e6);
    near(two[0].intervals[1].bytes_per_second, 118e6);
    assert_eq!(two[1].network.unwrap().sent, 1_170_000_000, "a second test in the same file");
    let text = one(Kind::Iperf, "iperf2.txt");
    near(text.bytes_per_second(), 939e6 / 8.0);
    assert_eq!((text.intervals.len(), text.network.unwrap().sent), (2, 224 << 20));
}

#[test]
fn sar_says_the_same_in_every_form() {
    let results = ["sadf.json", "sadf.csv", "sar.txt"].map(|name| one(Kind::Sar, name));
    for result in &results {
        assert_eq!((result.started.as_str(), result.seconds), ("2019-01-24T10:36:40Z", 2.0));
        assert_eq!(result.cpu.machine_percent, (30.0, 40.0, 50.0));
        near(result.load.read.as_ref().unwrap().iops, 150.0);
        near(result.load.write.as_ref().unwrap().bytes_per_second, 200.0 * 1024.0);
        near(result.extra["disk_read_bytes_per_second"], 800.0 * 1024.0);
        near(result.extra["disk_await_ms"], 1.75);
        near(result.extra["network_sent_bytes_per_second"], 100.0 * 1024.0);
        assert_eq!(result.intervals, results[0].intervals);
    }
    assert_eq!(results[2].cpu.processors, 4);
    near(results[2].cpu.host.user, 0.15 * 4.0 * 2.0);
}

#[test]
fn sadf_without_options_has_a_line_for_each_figure() {
    let text = "h\t10\t2019-01-24 10:36:50 UTC\tall\t%user\t10.00\nh\t10\t2019-01-24 10:36:50 UTC\tall\t%idle\t75.00\n\
                h\t10\t2019-01-24 10:36:50 UTC\tsda\ttps\t40.00\n";
    let result = of_text(Kind::Sar, text).unwrap().remove(0);
    assert_eq!((result.seconds, result.cpu.machine_percent.1), (10.0, 25.0));
    near(result.extra["disk_transfers_per_second"], 40.0);
    assert!(!result.extra.contains_key("disk_await_ms"), "a figure that is not told is absent, not zero");
}

/// What iperf 2.1.8 writes of a test without intervals, after one with them.
#[test]
fn an_iperf_test_without_a_time_is_a_test_of_its_own() {
    let line = "19700101000000,10.0.0.1,40009,10.0.0.2,5001,1,0.0-1.0,125000000,1000000000\n";
    let results = of_text(Kind::Iperf, &format!("{}{line}", text("iperf2.csv")));
    let rates: Vec<f64> = results.unwrap().iter().map(|result| result.bytes_per_second() / 1e6).collect();
    assert_eq!(rates, [118.0, 117.0, 125.0]);
}

#[test]
fn a_text_past_midnight_goes_on_the_next_day() {
    let text = "Linux 6.1.0 (h) \t2019-01-24 \t_x86_64_\t(2 CPU)\n\n11:59:59 PM CPU %user %system %idle\n\
                12:00:00 AM all 1.00 1.00 98.00\n12:00:01 AM all 1.00 1.00 98.00\n";
    near(of_text(Kind::Sar, text).unwrap()[0].seconds, 2.0);
}

#[test]
fn names_of_kinds_are_listed() {
    for kind in Kind::ALL {
        assert_eq!(kind.to_string().parse::<Kind>().unwrap(), kind);
    }
    let error = "fio".parse::<Kind>().unwrap_err().to_string();
    assert!(error.contains("'fio'") && error.contains("diskspd, vmfleet, iometer, jetstress"), "{error}");
}

/// The wrong file is told apart from a broken one, with the line.
#[test]
fn errors_say_file_line_and_remedy() {
    for kind in Kind::ALL {
        let error = of_text(kind, "something else altogether\n").unwrap_err().to_string();
        assert!(error.starts_with("log:1: "), "{kind}: {error}");
        let error = of_text(kind, "").unwrap_err().to_string();
        assert!(error.starts_with("log:1: "), "{kind}: {error}");
    }
    let broken = [
        (
            Kind::Diskspd,
            text("diskspd.txt").replace("total:         196608000", "total:  cut"),
            "log:69: the totals of 'Write IO'",
        ),
        (Kind::Diskspd, text("diskspd.xml").replace("</Thread>", "</Tread>"), "log:57: "),
        (Kind::Vmfleet, text("vmfleet.tsv").replace("401000", "many"), "log:3: 'many'"),
        (Kind::Iometer, text("iometer.csv").replace(",20000.000000,20000.000000,", ",x,x,"), "log:19: "),
        (Kind::Jetstress, text("jetstress.html").replace("<td>250.000</td>", "<td></td>"), "log:69: ''"),
        (Kind::Perfmon, text("perfmon.csv").replace("10:36:43.000", "10h36"), "log:4: "),
        (Kind::Iperf, text("iperf2.csv").replace("1.0-2.0", "1.0"), "log:3: "),
        (Kind::Iperf, text("iperf3.json").replace("\"end\": {", "\"end\": ["), "log:"),
        (Kind::Sar, text("sar.txt").replace("   200.00      0.00\n10:36:42 ", "\n10:36:42 "), "log:9: "),
        (Kind::Sar, text("sadf.csv").replace(";20.00;0.00;30.00", ";x;0.00;30.00"), "log:3: 'x'"),
    ];
    for (kind, text, expected) in broken {
        let error = of_text(kind, &text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{kind}: {error}");
    }
}

#[test]
fn a_tool_s_own_error_is_shown() {
    let text = "{\"start\": {}, \"intervals\": [], \"end\": {}, \"error\": \"unable to connect to server\"}";
    let error = of_text(Kind::Iperf, text).unwrap_err().to_string();
    assert!(error.contains("unable to connect to server"), "{error}");
}

#[test]
fn longer_files_than_the_limit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.csv");
    std::fs::File::create(&path).unwrap().set_len(limits::LONGEST_FILE + 1).unwrap();
    let error = read(Kind::Perfmon, &path).unwrap_err().to_string();
    assert!(error.contains("huge.csv is longer than 64 MiB"), "{error}");
}

#[test]
fn more_points_than_the_limit_are_refused() {
    let text = text("vmfleet.tsv");
    let row = text.lines().nth(1).unwrap();
    let many = format!("{row}\n").repeat(limits::MOST_POINTS + 1);
    let error = of_text(Kind::Vmfleet, &format!("{}\n{many}", text.lines().next().unwrap())).unwrap_err();
    assert!(error.to_string().contains("10001 results"), "{error}");
}

#[test]
fn a_point_that_occurs_again_is_a_repetition() {
    let text = text("vmfleet.tsv");
    let row = text.lines().nth(1).unwrap();
    let results = of_text(Kind::Vmfleet, &format!("{text}{row}\n")).unwrap();
    let repetitions: Vec<u32> = results.iter().map(|result| result.repetition).collect();
    assert_eq!(repetitions, [1, 1, 2]);
}

#[test]
fn a_run_directory_comes_of_every_fixture() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, name, count) in FIXTURES {
        let run = folder.path().join(name);
        let results = into_run(kind, &fixture(name), &run).unwrap();
        assert_eq!(results.len(), count);
        let about: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(run.join("run.json")).unwrap()).unwrap();
        assert_eq!(about["evidence"]["kind"], "imported");
        let scenario: Scenario =
            toml::from_str(&std::fs::read_to_string(run.join("scenario.toml")).unwrap()).unwrap();
        assert_eq!(scenario.id, format!("imported.{kind}"));
        assert_eq!(
            std::fs::read(run.join("imported").join(name)).unwrap(),
            std::fs::read(fixture(name)).unwrap()
        );
        let report = std::fs::read_to_string(crate::report::write(&run).unwrap()).unwrap();
        assert!(report.contains(results[0].evidence.detail().unwrap()), "{name}");
        let error = into_run(kind, &fixture(name), &run).unwrap_err().to_string();
        assert!(error.contains("is not empty"), "{error}");
    }
    let points = folder.path().join("vmfleet.tsv/points");
    let mut names: Vec<String> = std::fs::read_dir(points)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names[0].starts_with("001-bs-4k-rw-randread"), "{names:?}");
    assert_eq!(names.len(), 2);
}

/// A file cut at any byte is an error or fewer figures, never a panic; nor is a file of another tool.
#[test]
fn truncated_files_never_panic() {
    for (_, name, _) in FIXTURES {
        let bytes = std::fs::read(fixture(name)).unwrap();
        for length in (0..bytes.len()).step_by(7) {
            let source = Source::from_bytes(name, &bytes[..length]);
            for kind in Kind::ALL {
                let _ = results(kind, &source);
            }
        }
    }
}

/// What an importer may be given: pieces of real files, put together wrongly.
fn mangled() -> impl Strategy<Value = (Kind, Vec<u8>)> {
    let fixture_bytes = |index: usize| std::fs::read(fixture(FIXTURES[index].1)).unwrap();
    let edit = (any::<prop::sample::Index>(), 0_usize..40, prop::collection::vec(any::<u8>(), 0..12));
    (
        0..FIXTURES.len(),
        prop::collection::vec(edit, 1..8),
        prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    )
        .prop_map(move |(index, edits, swaps)| {
            let mut bytes = fixture_bytes(index);
            for (at, length, new) in edits {
                let start = at.index(bytes.len().max(1)).min(bytes.len());
                let end = (start + length).min(bytes.len());
                bytes.splice(start..end, new);
            }
            let mut lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            for swap in swaps {
                let place = swap.index(lines.len());
                lines.swap(0, place);
            }
            (FIXTURES[index].0, lines.join(&b'\n'))
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mangled_files_never_panic((kind, bytes) in mangled()) {
        let outcome = results(kind, &Source::from_bytes("log", &bytes));
        match outcome {
            Ok(results) => for result in results {
                // A figure that is no number would make a file that cannot be read again.
                let json = serde_json::to_string(&result).unwrap();
                prop_assert!(serde_json::from_str::<PointResult>(&json).is_ok(), "{json}");
            },
            Err(error) => prop_assert!(error.to_string().starts_with("log"), "{error}"),
        }
    }

    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), text in "[\\PC\n\t,;<>\"]{0,200}") {
        for kind in Kind::ALL {
            let _ = results(kind, &Source::from_bytes("log", &bytes));
            let _ = of_text(kind, &text);
        }
    }
}
