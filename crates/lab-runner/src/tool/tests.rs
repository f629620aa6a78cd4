//! Tools together: what is started, what recorded output means, and that mangled output is an error with a name.
#![expect(clippy::float_cmp, reason = "figures must equal the raw ones to the last bit")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// An assignment that owns what it borrows.
pub(super) struct Bench {
    pub(super) folder: tempfile::TempDir,
    pub(super) settings: BTreeMap<String, String>,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) initiator: Initiator,
    pub(super) times: (f64, f64),
}

impl Bench {
    pub(super) fn new(initiator: Initiator, endpoints: &[&str], settings: &[(&str, &str)]) -> Self {
        let endpoint = |url: &&str| Endpoint { url: (*url).to_owned(), size: 0 };
        let setting = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self {
            folder: tempfile::tempdir().unwrap(),
            settings: settings.iter().map(setting).collect(),
            endpoints: endpoints.iter().map(endpoint).collect(),
            initiator,
            times: (0.0, 1.0),
        }
    }

    pub(super) fn assignment(&self) -> Assignment<'_> {
        Assignment {
            settings: &self.settings,
            endpoints: &self.endpoints,
            folder: self.folder.path(),
            ramp: self.times.0,
            runtime: self.times.1,
            linerate: Path::new("linerate"),
            engines: Path::new("/engines"),
            initiator: self.initiator,
        }
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn put(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.file(name), text).unwrap();
    }

    pub(super) fn argv(&self, kind: ToolKind) -> Vec<String> {
        command(kind, &self.assignment()).unwrap().argv
    }

    pub(super) fn refusal(&self, kind: ToolKind) -> String {
        format!("{:#}", command(kind, &self.assignment()).unwrap_err())
    }

    /// Runs the command as the runner does, in the folder, with its outputs in their files.
    pub(super) fn run(&self, kind: ToolKind) -> Result<Measured> {
        self.run_altered(kind, |_| {})
    }

    /// The same, with words that somebody changes on the way, as a script does that stands in the tool's place.
    pub(super) fn run_altered(&self, kind: ToolKind, alter: fn(&mut String)) -> Result<Measured> {
        let mut command = command(kind, &self.assignment())?;
        command.argv.iter_mut().for_each(alter);
        let status = Command::new(&command.argv[0])
            .args(&command.argv[1..])
            .envs(&command.environment)
            .current_dir(&command.folder)
            .stdin(Stdio::null())
            .stdout(fs::File::create(&command.stdout)?)
            .stderr(fs::File::create(&command.stderr)?)
            .status()?;
        outcome(kind, &self.assignment(), status)
    }

    pub(super) fn raw(&self, name: &str) -> Value {
        let text = fs::read_to_string(self.file(name)).unwrap();
        let begin = if text.starts_with('{') { 0 } else { text.find("\n{").unwrap() + 1 };
        serde_json::from_str(&text[begin..]).unwrap()
    }
}

fn has(argv: &[String], words: &[&str]) -> bool {
    argv.windows(words.len()).any(|window| window == words)
}

#[test]
fn linerate_and_local_volumes_are_driven_by_linerate_bench() {
    let settings = [("bs", "8k"), ("rw", "randrw"), ("rwmixread", "70"), ("iodepth", "8"), ("numjobs", "2")];
    let urls = ["iscsi://127.0.0.1:3260/iqn.2026-11.org.linerate:a/0", "null:1G"];
    let bench = Bench::new(Initiator::Linerate, &urls, &settings);
    let argv = bench.argv(ToolKind::Fio);
    assert_eq!(argv[..4], ["linerate", "bench", urls[0], urls[1]]);
    for words in
        [["--qd", "16"], ["--bs", "8192"], ["--rw", "randrw"], ["--rwmixread", "70"], ["--runtime", "1"]]
    {
        assert!(has(&argv, &words), "{words:?} in {argv:?}");
    }
    assert!(!argv.contains(&"--rate".to_owned()));
    assert_eq!(Bench::new(Initiator::Local, &["null:1G"], &[]).argv(ToolKind::Fio)[1], "bench");
    assert_eq!(Bench::new(Initiator::Local, &["/dev/sdb"], &[]).argv(ToolKind::Fio)[0], "fio");
}

#[test]
fn an_open_loop_has_its_rate() {
    let bench = Bench::new(Initiator::Linerate, &["null:1G"], &[("rate_iops", "500"), ("spin", "50us")]);
    let argv = bench.argv(ToolKind::Fio);
    assert!(has(&argv, &["--rate", "500"]) && has(&argv, &["--spin", "50us"]), "{argv:?}");
}

#[test]
fn what_a_program_cannot_do_is_refused_rather_than_left_out() {
    let refused = [
        (Initiator::Linerate, "null:1G", [("log_rw", "write")], "log_rw"),
        (Initiator::Linerate, "null:1G", [("random_distribution", "zipf:1.1")], "random_distribution"),
        (Initiator::LibiscsiPerf, "iscsi://h/t/0", [("rw", "randwrite")], "only reads"),
        (Initiator::LibiscsiPerf, "iscsi://h/t/0", [("bs", "1000")], "multiple of 512"),
        (Initiator::Site, "iscsi://h/t/0", [("bs", "4k")], "fio cannot reach"),
        (Initiator::Imported, "h:1", [("bs", "4k")], "no block I/O"),
        (Initiator::Stream, "h:1", [("rw", "randrw")], "mixes"),
    ];
    for (initiator, url, settings, reason) in refused {
        let said = Bench::new(initiator, &[url], &settings).refusal(ToolKind::Fio);
        assert!(said.contains(reason), "{said}");
    }
    let none = Bench::new(Initiator::Linerate, &[], &[]);
    assert!(none.refusal(ToolKind::Fio).contains("no volume"));
    assert!(none.refusal(ToolKind::Analysis).contains("analysis"));
    assert!(none.refusal(ToolKind::Diskspd).contains("import"));
    assert!(none.refusal(ToolKind::Pgbench).contains("exactly one database"));
}

#[test]
fn iscsi_perf_runs_once_for_each_volume() {
    let urls = ["iscsi://h:1/a/0", "iscsi://h:1/b/0", "iscsi://h:1/c/0"];
    let mut bench = Bench::new(Initiator::LibiscsiPerf, &urls, &[("iodepth", "8"), ("bs", "8k")]);
    bench.times = (0.5, 2.0);
    let script = &bench.argv(ToolKind::Fio)[2];
    assert!(
        script.contains("iscsi-perf -l -r -m 3 -b 16 -t 2 iscsi://h:1/a/0 >iscsi-perf.0.txt &"),
        "{script}"
    );
    assert!(script.contains("-m 2 -b 16 -t 2 iscsi://h:1/c/0 >iscsi-perf.2.txt &"), "{script}");
    assert_eq!(script.matches("-t 1 ").count(), 3, "{script}");
    let text = include_str!("fixtures/iscsi-perf.txt");
    for index in 0..3 {
        bench.put(
            &format!("iscsi-perf.{index}.txt"),
            text.replace("8 blocks (4096 byte)", "16 blocks (8192 byte)"),
        );
    }
    bench.put("window", "1795247692.500000000\n");
    let measured = read(ToolKind::Fio, &bench.assignment()).unwrap();
    let load = measured.load.read.unwrap();
    assert_eq!((load.iops, load.bytes_per_second), (3.0 * 151_281.0, 3.0 * 151_281.0 * 8192.0));
    assert_eq!((load.ios, load.latency), (3 * 2 * 151_281, None));
    assert_eq!(measured.intervals[1].iops, 3.0 * 144_308.0);
    assert_eq!(measured.window_start, Some(1_795_247_692.5));
    bench.put("iscsi-perf.1.txt", text);
    let said = format!("{:#}", read(ToolKind::Fio, &bench.assignment()).unwrap_err());
    assert!(said.contains("iscsi-perf.1.txt") && said.contains("4096"), "{said}");
}

#[test]
fn iperf3_options_are_its_own() {
    let settings = [("bs", "8k"), ("threads", "4"), ("direction", "bidi"), ("window", "256k")];
    let mut bench = Bench::new(Initiator::Stream, &["[::1]:5201"], &settings);
    bench.times = (0.5, 2.5);
    let argv = bench.argv(ToolKind::Iperf3);
    let expected = "iperf3 -J -c ::1 -p 5201 -t 3 -O 1 -P 4 -l 8192 -w 262144 --bidir";
    assert_eq!(argv.join(" "), expected);
    for (rw, back) in [("randread", true), ("write", false)] {
        let beside = Bench::new(Initiator::Stream, &["h:1"], &[("rw", rw), ("iodepth", "32")]);
        assert_eq!(has(&beside.argv(ToolKind::Fio), &["-R"]), back, "{rw}");
    }
}

#[test]
fn a_recorded_iperf3_run_equals_its_json() {
    let mut bench = Bench::new(Initiator::Stream, &["127.0.0.1:5201"], &[]);
    bench.put("iperf3.json", include_str!("fixtures/iperf3.json"));
    let raw = bench.raw("iperf3.json");
    let at = |pointer: &str| raw.pointer(pointer).and_then(Value::as_f64).unwrap();
    let measured = read(ToolKind::Iperf3, &bench.assignment()).unwrap();
    let write = measured.load.write.unwrap();
    assert_eq!(write.bytes_per_second * 8.0, at("/end/sum_received/bits_per_second"));
    assert_eq!(write.bytes, raw.pointer("/end/sum_received/bytes").and_then(Value::as_u64).unwrap());
    assert_eq!(measured.seconds, at("/end/sum_received/seconds"));
    assert_eq!(measured.extra["retransmits"], at("/end/sum_sent/retransmits"));
    assert_eq!(measured.extra["tool_cpu_percent_host"], at("/end/cpu_utilization_percent/host_total"));
    assert_eq!((measured.load.read, measured.tool.version.as_str()), (None, "3.12"));
    // The first of three seconds was the warm-up.
    assert_eq!(measured.intervals.len(), 2);
    assert_eq!(measured.intervals[0].bytes_per_second * 8.0, at("/intervals/1/sum/bits_per_second"));

    bench.settings.insert("direction".to_owned(), "bidi".to_owned());
    bench.put("iperf3.json", include_str!("fixtures/iperf3-bidi.json"));
    let raw = bench.raw("iperf3.json");
    let measured = read(ToolKind::Iperf3, &bench.assignment()).unwrap();
    let back = raw.pointer("/end/sum_received_bidir_reverse/bits_per_second").and_then(Value::as_f64);
    assert_eq!(measured.load.read.map(|read| read.bytes_per_second * 8.0), back);
}

#[test]
fn iperf3_without_a_server_is_told_though_it_ends_well() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    drop(listener);
    let said =
        format!("{:#}", Bench::new(Initiator::Stream, &[&place], &[]).run(ToolKind::Iperf3).unwrap_err());
    assert!(said.contains("iperf3.json") && said.contains("unable to connect"), "{said}");
}

#[test]
fn dd_streams_write_their_files() {
    let bench = Bench::new(
        Initiator::Site,
        &[],
        &[("bs", "64k"), ("streams", "2"), ("size", "1M"), ("conv", "fsync")],
    );
    let folder = bench.folder.path().display().to_string();
    let endpoints = vec![Endpoint { url: folder, size: 0 }];
    let bench = Bench { endpoints, times: (0.0, 0.1), ..bench };
    let measured = bench.run(ToolKind::Dd).unwrap();
    let write = measured.load.write.unwrap();
    assert_eq!(fs::metadata(bench.file("stream0")).unwrap().len(), 1 << 20);
    assert_eq!(fs::metadata(bench.file("stream1")).unwrap().len(), 1 << 20);
    let said = ["dd.0.txt", "dd.1.txt"].map(|name| fs::read_to_string(bench.file(name)).unwrap());
    let passes: usize = said.iter().map(|text| text.matches(" copied, ").count()).sum();
    assert!(passes >= 2);
    assert_eq!((write.ios, write.bytes), (16 * passes as u64, (passes as u64) << 20));
    assert_eq!(measured.tool.name, "dd");
}

#[test]
fn dd_is_cut_at_the_time_and_still_counts() {
    let bench = Bench::new(Initiator::Site, &["/dev/null"], &[("bs", "4k"), ("count", "16384000000")]);
    let bench = Bench { times: (0.0, 1.0), ..bench };
    let measured = bench.run(ToolKind::Dd).unwrap();
    let write = measured.load.write.unwrap();
    // The I/O that the signal met may be counted in bytes and not in records.
    assert!(write.ios > 0 && write.bytes.abs_diff(write.ios * 4096) <= 4096, "{write:?}");
    assert!(write.ios < 16_384_000_000, "stopped before its count");
}

#[test]
fn dd_says_what_failed() {
    let bench = Bench::new(Initiator::Site, &["/nowhere/at/all"], &[("bs", "4k"), ("size", "1M")]);
    let said = format!("{:#}", bench.run(ToolKind::Dd).unwrap_err());
    assert!(
        said.contains("No such file") && said.contains("dd.0.txt") && said.starts_with("dd failed ("),
        "{said}"
    );
    let endless = Bench::new(Initiator::Site, &["/nowhere"], &[("bs", "4k")]);
    assert!(endless.refusal(ToolKind::Dd).contains("size"));
    let crowded =
        Bench::new(Initiator::Site, &["/nowhere"], &[("bs", "4k"), ("streams", "2"), ("size", "1M")]);
    assert!(crowded.refusal(ToolKind::Dd).contains("a file each"));
}

#[test]
fn a_recorded_pgbench_run_is_read() {
    let url = "postgresql://me:secret@h/db";
    let settings = [
        ("client", "2"),
        ("jobs", "8"),
        ("scale", "3"),
        ("protocol", "prepared"),
        ("synchronous_commit", "off"),
    ];
    let mut bench = Bench::new(Initiator::LibiscsiFuse, &[url], &settings);
    bench.times = (0.5, 3.0);
    let started = command(ToolKind::Pgbench, &bench.assignment()).unwrap();
    assert!(
        started.argv[2].contains("pgbench -c 2 -j 2 -M prepared -b tpcb-like -T 3 -n -P 1"),
        "{started:?}"
    );
    assert_eq!(started.environment["PGOPTIONS"], "-c synchronous_commit=off");
    let first = prepare(ToolKind::Pgbench, &bench.assignment()).unwrap();
    assert_eq!(first[0].argv.join(" "), format!("pgbench -i -q -s 3 {url}"));
    bench.put("pgbench.txt", include_str!("fixtures/pgbench.txt"));
    bench.put("pgbench.stderr", include_str!("fixtures/pgbench.stderr"));
    bench.put("transactions.7", "0 1 2840 0 1795247692 980047\n0 2 516 0 1795247692 980571\n");
    bench.put("transactions.7.1", "1 1 3247 0 1795247692 980556\n1 2 failed 0 1795247692 981160\n");
    let measured = read(ToolKind::Pgbench, &bench.assignment()).unwrap();
    let latency = measured.load.transactions.unwrap();
    assert_eq!((latency.min, latency.max, latency.mean), (516e3, 3247e3, 0.877 * 1e6));
    assert_eq!(latency.histogram.len(), 3);
    assert_eq!(measured.extra["transactions_per_second"], 2_272.228_492);
    assert_eq!(measured.window_start, Some(1_795_247_692.975));
    assert!(!measured.tool.argv.join(" ").contains("secret"), "{:?}", measured.tool.argv);
}

#[test]
fn every_installed_tool_tells_its_version() {
    let bench = Bench::new(Initiator::Site, &["/dev/null"], &[]);
    for kind in [ToolKind::Fio, ToolKind::Iperf3, ToolKind::Dd, ToolKind::Pgbench] {
        let said = version(kind, &bench.assignment()).unwrap();
        assert!(said.starts_with(|first: char| first.is_ascii_digit()), "{kind:?}: {said}");
    }
    assert_eq!(version_in("fio-3.33").as_deref(), Some("3.33"));
    assert_eq!(version_in("pgbench (PostgreSQL) 15.18 (Debian 15.18-0)").as_deref(), Some("15.18"));
    assert_eq!(version_in("iscsi-perf version 0.1 - (c) 2014-2015").as_deref(), Some("0.1"));
    assert_eq!(version_in("no version here"), None);
    let missing = Bench::new(Initiator::Linerate, &["null:1G"], &[]);
    let assignment = Assignment { linerate: Path::new("/nowhere/linerate"), ..missing.assignment() };
    assert!(format!("{:#}", version(ToolKind::Fio, &assignment).unwrap_err()).contains("cannot be started"));
}

/// Every raw file of a program with recorded content, and who reads it.
fn recorded() -> Vec<(ToolKind, Bench, &'static str, Vec<u8>)> {
    let fio = Bench::new(Initiator::Site, &["/dev/null"], &[]);
    let bench = Bench::new(Initiator::Linerate, &["null:1G"], &[]);
    let perf = Bench::new(Initiator::LibiscsiPerf, &["iscsi://h/t/0"], &[]);
    let iperf = Bench::new(Initiator::Stream, &["h:1"], &[]);
    let dd = Bench::new(Initiator::Site, &["/nowhere"], &[("size", "1M")]);
    let pgbench = Bench::new(Initiator::Site, &["postgresql:///"], &[]);
    let (pg_out, pg_err) = (include_str!("fixtures/pgbench.txt"), include_str!("fixtures/pgbench.stderr"));
    perf.put("window", "1.5\n");
    dd.put("window", "1.5\n");
    dd.put("dd.version", "dd (coreutils) 9.1\n");
    pgbench.put("window", "1.5\n");
    pgbench.put("pgbench.stderr", pg_err);
    let dd_said = "1000+0 records in\n1000+0 records out\n4096000 bytes (4.1 MB) copied, 0.02 s, 204 MB/s\n";
    vec![
        (ToolKind::Fio, fio, "fio.json", include_bytes!("fixtures/fio.json").to_vec()),
        (ToolKind::Fio, bench, "bench.json", include_bytes!("fixtures/bench.json").to_vec()),
        (ToolKind::Fio, perf, "iscsi-perf.0.txt", include_bytes!("fixtures/iscsi-perf.txt").to_vec()),
        (ToolKind::Iperf3, iperf, "iperf3.json", include_bytes!("fixtures/iperf3.json").to_vec()),
        (ToolKind::Dd, dd, "dd.0.txt", dd_said.as_bytes().to_vec()),
        (ToolKind::Pgbench, pgbench, "pgbench.txt", pg_out.as_bytes().to_vec()),
    ]
}

#[test]
fn recorded_output_of_every_program_is_read() {
    for (kind, bench, file, content) in recorded() {
        bench.put(file, content);
        let measured = read(kind, &bench.assignment()).unwrap();
        assert!(measured.seconds > 0.0 && !measured.tool.version.is_empty(), "{file}: {measured:?}");
    }
}

#[test]
fn recorded_output_of_linerate_bench_equals_its_json() {
    let (kind, bench, file, content) = recorded().swap_remove(1);
    bench.put(file, content);
    let measured = read(kind, &bench.assignment()).unwrap();
    let raw = bench.raw(file);
    let at = |pointer: &str| {
        raw.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer}"))
    };
    for (place, direction) in
        [("/read", measured.load.read.unwrap()), ("/write", measured.load.write.unwrap())]
    {
        let figure = |name: &str| at(&format!("{place}/{name}"));
        assert_eq!([direction.iops, direction.bytes_per_second], ["iops", "bytes_per_second"].map(figure));
        let whole = |name: &str| raw.pointer(&format!("{place}/{name}")).and_then(Value::as_u64);
        assert_eq!((Some(direction.ios), Some(direction.bytes)), (whole("ios"), whole("bytes")));
        let latency = direction.latency.unwrap();
        let given = [latency.min, latency.mean, latency.deviation, latency.max];
        let names = ["min", "mean", "deviation", "max"];
        assert_eq!(given, names.map(|name| figure(&format!("latency_ns/{name}"))));
        assert_eq!(latency.percentiles.len(), 5);
        for (name, value) in &latency.percentiles {
            assert_eq!(*value, figure(&format!("latency_ns/percentiles/{name}")));
        }
        let histogram = raw.pointer(&format!("{place}/latency_ns/histogram")).unwrap();
        assert_eq!(serde_json::to_value(&latency.histogram).unwrap(), *histogram);
    }
    assert_eq!([measured.seconds, measured.window_start.unwrap()], ["/seconds", "/started"].map(at));
    assert_eq!(measured.extra["tool_cpu_us_per_io"], at("/cpu_us_per_io"));
    assert_eq!(measured.intervals[0].iops, at("/intervals/0/iops"));
}

#[test]
fn absent_and_empty_output_is_an_error_that_names_the_file() {
    for (kind, bench, file, _) in recorded() {
        let said = || format!("{:#}", read(kind, &bench.assignment()).unwrap_err());
        assert!(said().contains(file), "{}", said());
        bench.put(file, "");
        assert!(said().contains(file), "{}", said());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Cut at any byte, then with bytes overwritten: an error names the file; nothing panics.
    #[test]
    fn mangled_output_never_panics(at in 0.0..1.0_f64, hits in prop::collection::vec((0.0..1.0_f64, any::<u8>()), 0..8), cut: bool) {
        for (kind, bench, file, mut content) in recorded() {
            for (place, byte) in &hits {
                let place = index(*place, content.len());
                content[place] = *byte;
            }
            if cut {
                content.truncate(index(at, content.len()));
            }
            bench.put(file, content);
            if let Err(error) = read(kind, &bench.assignment()) {
                let said = format!("{error:#}");
                prop_assert!(said.contains(file), "{said}");
            }
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "small and not negative"
)]
fn index(share: f64, length: usize) -> usize {
    ((share * length as f64) as usize).min(length - 1)
}

/// `linerate bench` of ten thousand I/Os on 64 MiB, a sixty-fourth of the volume's bytes after the other.
fn of_bench(bytes: u64, ios: &[u64], wrong: Option<&str>) -> String {
    let mut output: Value = serde_json::from_str(include_str!("fixtures/bench.json")).unwrap();
    output["spread"] = serde_json::json!([{"bytes": bytes, "ios": ios}]);
    output["verified"] = serde_json::json!(12);
    output["wrong_data"] = serde_json::json!(wrong);
    output.to_string()
}

/// A bench whose volume has 64 MiB.
fn looked_at(output: String) -> Measured {
    let mut bench =
        Bench::new(Initiator::Linerate, &["iscsi://h/t/0"], &[("rw", "randread"), ("iodepth", "8")]);
    bench.endpoints[0].size = 64 << 20;
    ask(&mut bench.settings, Keeping::Data);
    bench.put("bench.json", output);
    read(ToolKind::Fio, &bench.assignment()).unwrap()
}

#[test]
fn a_bench_that_uses_a_part_of_its_volume_is_found() {
    let all = (64 << 20) - (64 << 10);
    let fair = looked_at(of_bench(all, &[156; 64], None));
    assert_eq!(fair.flags, []);
    assert_eq!((fair.extra["sampled_offsets"], fair.extra["verified_reads"]), (9984.0, 12.0));
    let said = |measured: Measured| match measured.flags.as_slice() {
        [flag @ lab_model::result::Flag::OutsideProfile { detail }] if flag.invalidates() => detail.clone(),
        other => panic!("{other:?}"),
    };
    let mut crowded = [0; 64];
    crowded[0] = 9984;
    let words = said(looked_at(of_bench(all, &crowded, None)));
    assert!(
        words.starts_with("volume 0: I/Os at random over 67043328 bytes were asked for: 9984 of 9984 began"),
        "{words}"
    );
    let words = said(looked_at(of_bench(1 << 20, &[156; 64], None)));
    assert_eq!(words, "volume 0: 67043328 bytes were to be used, and 1048576 were");
}

#[test]
fn data_that_bench_finds_lost_is_told() {
    let lost = looked_at(of_bench(
        (64 << 20) - (64 << 10),
        &[156; 64],
        Some("iscsi://h/t/0: byte 67043328 is not what was written"),
    ));
    let [flag @ lab_model::result::Flag::Corrupt { detail }] = lost.flags.as_slice() else {
        panic!("{:?}", lost.flags)
    };
    assert!(flag.invalidates() && detail.contains("byte 67043328"), "{detail}");
}

#[test]
fn bench_verifies_what_keeps_data_and_null_volumes_are_exempt() {
    let mut bench = Bench::new(Initiator::Linerate, &["iscsi://h/t/0"], &[]);
    bench.endpoints[0].size = 64 << 20;
    assert!(!bench.argv(ToolKind::Fio).contains(&"--verify".to_owned()));
    ask(&mut bench.settings, Keeping::Nothing);
    assert!(!bench.argv(ToolKind::Fio).contains(&"--verify".to_owned()), "null");
    ask(&mut bench.settings, Keeping::Data);
    assert!(bench.argv(ToolKind::Fio).contains(&"--verify".to_owned()));
    bench.endpoints[0].size = 64 << 10;
    assert!(!bench.argv(ToolKind::Fio).contains(&"--verify".to_owned()), "no room");
}
