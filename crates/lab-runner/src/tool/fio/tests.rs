//! fio itself, run for a moment: every figure equals its raw JSON, read by another path.
#![expect(clippy::float_cmp, reason = "figures must equal the raw ones to the last bit")]

use serde_json::Value;

use crate::tool::tests::Bench;
use lab_model::result::{Direction, Flag, Latency};
use lab_model::scenario::{Initiator, ToolKind};

/// A figure of the raw JSON.
fn at(raw: &Value, pointer: &str) -> f64 {
    raw.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer}"))
}

fn same_latency(raw: &Value, place: &str, latency: &Latency) {
    let figure = |name: &str| at(raw, &format!("{place}/{name}"));
    let given = [latency.min, latency.mean, latency.deviation, latency.max];
    assert_eq!(given, ["min", "mean", "stddev", "max"].map(figure), "{place}");
    let names = [("p50", "50.000000"), ("p95", "95.000000"), ("p99", "99.000000"), ("p99.9", "99.900000")];
    for (ours, theirs) in names.into_iter().chain([("p99.99", "99.990000")]) {
        assert_eq!(latency.percentiles[ours], figure(&format!("percentile/{theirs}")), "{place} {ours}");
    }
    assert_eq!(latency.percentiles.len(), 5);
    let bins = raw.pointer(&format!("{place}/bins")).and_then(Value::as_object).unwrap();
    assert_eq!(latency.histogram.len(), bins.len());
    assert!(latency.histogram.is_sorted_by(|one, next| one.bound < next.bound));
    for bucket in &latency.histogram {
        assert_eq!(bins[&bucket.bound.to_string()].as_u64(), Some(bucket.count));
    }
}

fn same_direction(raw: &Value, place: &str, direction: &Direction) {
    let whole = |name: &str| raw.pointer(&format!("{place}/{name}")).and_then(Value::as_u64).unwrap();
    assert_eq!((direction.ios, direction.bytes), (whole("total_ios"), whole("io_bytes")));
    assert_eq!(direction.iops, at(raw, &format!("{place}/iops")));
    assert_eq!(direction.bytes_per_second, at(raw, &format!("{place}/bw_bytes")));
    same_latency(raw, &format!("{place}/lat_ns"), direction.latency.as_ref().unwrap());
}

#[test]
fn figures_equal_the_raw_json_with_a_file() {
    let settings = [
        ("rw", "randrw"),
        ("rwmixread", "70"),
        ("bs", "4k"),
        ("iodepth", "8"),
        ("numjobs", "2"),
        ("size", "4M"),
        ("direct", "0"),
        ("fsync", "32"),
    ];
    let mut bench = Bench::new(Initiator::LibiscsiFuse, &[], &settings);
    bench.times = (0.2, 1.3);
    let files = ["a.img", "b:c.img"].map(|name| bench.file(name));
    let endpoint =
        |path: &std::path::PathBuf| crate::arm::Endpoint { url: path.display().to_string(), size: 4 << 20 };
    bench.endpoints = files.iter().map(endpoint).collect();
    let measured = bench.run(ToolKind::Fio).unwrap();
    assert!(files.iter().all(|file| file.exists()), "a colon in a name is part of the name");
    let raw = bench.raw("fio.json");
    assert_eq!(raw["jobs"].as_array().map(Vec::len), Some(1), "sections are reported together");
    same_direction(&raw, "/jobs/0/read", measured.load.read.as_ref().unwrap());
    same_direction(&raw, "/jobs/0/write", measured.load.write.as_ref().unwrap());
    same_latency(&raw, "/jobs/0/sync/lat_ns", measured.load.sync.as_ref().unwrap());
    assert_eq!((measured.load.errors, measured.load.log), (0, None));
    let millis = at(&raw, "/jobs/0/read/runtime").max(at(&raw, "/jobs/0/write/runtime"));
    assert_eq!(measured.seconds, millis / 1000.0);
    assert_eq!(format!("fio-{}", measured.tool.version), raw["fio version"].as_str().unwrap());
    let end = at(&raw, "/timestamp_ms") / 1000.0;
    let start = measured.window_start.unwrap();
    assert!(start < end && start + measured.seconds <= end + 1.0, "{start} {end}");
    assert_eq!(measured.intervals.len(), 1);
}

#[test]
fn intervals_equal_the_logs() {
    let settings = [
        ("rw", "randread"),
        ("bs", "4k"),
        ("ioengine", "null"),
        ("numjobs", "2"),
        ("rate_iops", "1000"),
        ("size", "1G"),
    ];
    let mut bench = Bench::new(Initiator::Site, &["/null"], &settings);
    bench.times = (0.0, 1.2);
    let measured = bench.run(ToolKind::Fio).unwrap();
    let first = |name: &str| {
        let text = std::fs::read_to_string(bench.file(name)).unwrap();
        let line = text.lines().next().unwrap().to_owned();
        line.split(", ").nth(1).unwrap().parse::<f64>().unwrap()
    };
    let one = &measured.intervals[0];
    assert_eq!(one.iops, first("load_iops.1.log") + first("load_iops.2.log"));
    assert_eq!(one.bytes_per_second, (first("load_bw.1.log") + first("load_bw.2.log")) * 1024.0);
    assert_eq!(measured.extra["rate_iops"], 1000.0);
    assert!(bench.argv(ToolKind::Fio).contains(&"--rate_iops=500,500".to_owned()));
}

#[test]
fn a_log_beside_the_database_is_told_apart() {
    let settings = [
        ("rw", "randrw"),
        ("bs", "32k"),
        ("iodepth", "4"),
        ("ioengine", "null"),
        ("size", "64M"),
        ("log_rw", "write"),
        ("log_bssplit", "6k/50:8k/50"),
        ("log_size", "8M"),
        ("log_fsync", "4"),
        ("log_thinktime", "1000"),
    ];
    let mut bench = Bench::new(Initiator::Site, &["/db", "/log"], &settings);
    bench.times = (0.0, 0.3);
    let measured = bench.run(ToolKind::Fio).unwrap();
    let raw = bench.raw("fio.json");
    assert_eq!(raw.pointer("/jobs/1/jobname").and_then(Value::as_str), Some("log"));
    same_direction(&raw, "/jobs/0/read", measured.load.read.as_ref().unwrap());
    same_direction(&raw, "/jobs/0/write", measured.load.write.as_ref().unwrap());
    let log = measured.load.log.as_ref().unwrap();
    same_direction(&raw, "/jobs/1/write", log);
    assert_eq!(raw.pointer("/jobs/1/read/total_ios").and_then(Value::as_u64), Some(0));
    let argv = bench.argv(ToolKind::Fio);
    let second = argv.iter().position(|word| word == "--name=log").unwrap();
    assert!(
        argv[second..].iter().all(|word| word != "--bs=32k"),
        "the load's options are not the log's: {argv:?}"
    );
    let average = log.bytes / log.ios;
    assert!((6 << 10..=8 << 10).contains(&average), "{average}");
}

#[test]
fn failed_writes_are_counted_and_invalidate() {
    let mut bench = Bench::new(
        Initiator::Site,
        &[],
        &[("rw", "write"), ("bs", "4k"), ("ioengine", "psync"), ("size", "64k")],
    );
    bench.endpoints = vec![crate::arm::Endpoint { url: "/dev/full".to_owned(), size: 65536 }];
    bench.times = (0.0, 0.2);
    let measured = bench.run(ToolKind::Fio).unwrap();
    assert!(measured.load.errors > 0);
    assert!(measured.flags.iter().any(Flag::invalidates), "{:?}", measured.flags);
}

#[test]
fn what_fio_refuses_is_told_with_its_words() {
    let bench = Bench::new(Initiator::Site, &["/dev/null"], &[("iodept", "64"), ("size", "1M")]);
    let said = format!("{:#}", bench.run(ToolKind::Fio).unwrap_err());
    for part in ["iodept", "exit status: 1", "command: fio", "what to do", "fio.json"] {
        assert!(said.contains(part), "{part} in {said}");
    }
}

#[test]
fn each_nbd_export_has_a_section_with_its_share() {
    let urls = ["nbd+unix:///0?socket=/s/0", "nbd+unix:///1?socket=/s/1"];
    let argv =
        Bench::new(Initiator::LibiscsiNbd, &urls, &[("iodepth", "16"), ("numjobs", "3")]).argv(ToolKind::Fio);
    let sections: Vec<&[String]> = argv.split(|word| word.starts_with("--name=")).skip(1).collect();
    assert_eq!(sections.len(), 2);
    for (section, (url, jobs)) in sections.iter().zip(urls.iter().zip([2, 1])) {
        for word in [
            format!("--uri={url}"),
            "--ioengine=nbd".into(),
            "--iodepth=16".into(),
            format!("--numjobs={jobs}"),
        ] {
            assert!(section.contains(&word), "{word} in {section:?}");
        }
    }
}

#[test]
fn a_window_shorter_than_a_second_begins_when_it_began() {
    let settings = [("rw", "randread"), ("ioengine", "null"), ("size", "1G")];
    let mut bench = Bench::new(Initiator::Site, &["/null"], &settings);
    bench.times = (0.0, 0.3);
    let measured = bench.run(ToolKind::Fio).unwrap();
    let end = at(&bench.raw("fio.json"), "/timestamp_ms") / 1000.0;
    let start = measured.window_start.unwrap();
    assert!((end - start - measured.seconds).abs() < 0.002, "{start} to {end} for {} s", measured.seconds);
}

#[test]
fn an_initiator_inside_fio_is_an_engine_of_its_own() {
    let url = ["iscsi://127.0.0.1:3260/iqn.x:t/0"];
    let settings = [("spin", "50us"), ("iodepth", "4")];
    let argv = Bench::new(Initiator::LinerateFio, &url, &settings).argv(ToolKind::Fio);
    for word in [
        "--ioengine=external:/engines/liblinerate-fio.so",
        "--uri=iscsi://127.0.0.1:3260/iqn.x:t/0",
        "--spin=50",
    ] {
        assert!(argv.iter().any(|one| one == word), "{word} in {argv:?}");
    }
    let argv = Bench::new(Initiator::LibiscsiFio, &url, &settings).argv(ToolKind::Fio);
    for word in
        ["--ioengine=external:/engines/libiscsi-fio.so", "--filename=iscsi\\://127.0.0.1\\:3260/iqn.x\\:t/0"]
    {
        assert!(argv.iter().any(|one| one == word), "{word} in {argv:?}");
    }
    assert!(!argv.iter().any(|word| word.contains("spin")), "{argv:?}");
    let wrong = Bench::new(Initiator::LinerateFio, &url, &[("spin", "soon")]);
    assert!(wrong.refusal(ToolKind::Fio).contains("spin = \"soon\""));
}

#[test]
fn a_rate_is_divided_by_jobs_and_mix() {
    let settings = [("rate_iops", "900"), ("rw", "randrw"), ("rwmixread", "66"), ("numjobs", "3")];
    let argv = Bench::new(Initiator::Site, &["/dev/sdx"], &settings).argv(ToolKind::Fio);
    assert!(argv.contains(&"--rate_iops=198,102".to_owned()), "{argv:?}");
    let little = Bench::new(Initiator::Site, &["/dev/sdx"], &[("rate_iops", "2"), ("numjobs", "3")]);
    assert!(little.refusal(ToolKind::Fio).contains("too little"));
}

/// A load on a file of 64 MiB, with everything that the lab looks at.
fn sampled(rw: &str, seconds: f64) -> Bench {
    let settings = [
        ("rw", rw),
        ("bs", "4k"),
        ("iodepth", "4"),
        ("numjobs", "2"),
        ("direct", "0"),
        ("ioengine", "psync"),
    ];
    let mut bench = Bench::new(Initiator::Site, &[], &settings);
    bench.times = (0.0, seconds);
    let path = bench.file("volume.img");
    std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
    bench.endpoints = vec![crate::arm::Endpoint { url: path.display().to_string(), size: 64 << 20 }];
    crate::tool::ask(&mut bench.settings, crate::tool::Keeping::Data);
    bench
}

#[test]
fn what_the_lab_looks_at_is_no_part_of_the_figures() {
    for rw in ["randread", "write", "randrw", "rw"] {
        let bench = sampled(rw, 1.3);
        let measured = bench.run(ToolKind::Fio).unwrap();
        assert_eq!(measured.flags, [], "{rw}");
        let raw = bench.raw("fio.json");
        for (name, direction) in [("read", &measured.load.read), ("write", &measured.load.write)] {
            let ios = raw.pointer(&format!("/jobs/0/{name}/total_ios")).and_then(Value::as_u64);
            assert_eq!(Some(direction.as_ref().map_or(0, |direction| direction.ios)), ios, "{rw} {name}");
        }
        assert!(
            measured.extra["sampled_offsets"] >= 64.0 && measured.extra["sampled_offsets"] < 5000.0,
            "{rw}"
        );
        assert!(measured.extra["verified_reads"] >= 1.0, "{rw}");
        let (jobs, start) = (raw["jobs"].as_array().unwrap().len(), measured.window_start.unwrap());
        assert_eq!(jobs, 3, "the load, what is verified, and where it went");
        let end = at(&raw, "/timestamp_ms") / 1000.0;
        assert!(start + measured.seconds < end, "{start} {end}");
    }
}

#[test]
fn a_load_that_quietly_reads_what_a_cache_holds_is_found() {
    for (rw, order) in [("randread", "at random"), ("read", "in order")] {
        let altered = |word: &mut String| {
            if word == "--size=67043328" {
                *word = "--size=1m".to_owned();
            }
        };
        let measured = sampled(rw, 0.3).run_altered(ToolKind::Fio, altered).unwrap();
        let [flag @ Flag::OutsideProfile { detail }] = measured.flags.as_slice() else {
            panic!("{:?}", measured.flags)
        };
        let expected = format!("volume 0: I/Os {order} over 67043328 bytes were asked for: ");
        assert!(flag.invalidates() && detail.starts_with(&expected), "{detail}");
    }
}

#[test]
fn a_volume_that_loses_data_while_the_load_runs_is_found() {
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::{AtomicBool, Ordering};
    let bench = sampled("randread", 1.5);
    let file = std::fs::File::options().write(true).open(bench.file("volume.img")).unwrap();
    let over = AtomicBool::new(false);
    let measured = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                file.write_all_at(&vec![0; 64 << 10], (64 << 20) - (64 << 10)).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        let measured = bench.run(ToolKind::Fio);
        over.store(true, Ordering::Relaxed);
        measured
    });
    let measured = measured.unwrap();
    let [flag @ Flag::Corrupt { detail }] = measured.flags.as_slice() else { panic!("{:?}", measured.flags) };
    assert!(
        flag.invalidates() && detail.starts_with("data was lost while the load ran: verify:"),
        "{detail}"
    );
    assert!(measured.load.read.is_some() && measured.load.errors == 0);
}
