//! A client's promises on volumes of this machine: every request ends once, in any of the three ways of asking.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use linerate::{
    Buf, BufList, Client, ClientConfig, Control, Disk, Driver, Durability, Effort, Error, Extent, Inline,
    Operation, Outcome, SharedBuf, Stop, VolumeErrorKind, VolumeUrl, Wait,
};
use protocol::pair::aperiodic;

const MIB: usize = 1 << 20;

fn start(config: &ClientConfig) -> Client {
    Client::start(config).unwrap()
}

fn ram() -> Disk {
    start(&ClientConfig::default()).open(&"ram:16M".parse().unwrap()).unwrap()
}

#[test]
fn transfers_of_any_length_come_back_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("file:{}/disk.img?size=16M", folder.path().display());
    for driver in [Driver::Auto, Driver::Epoll] {
        let client = start(&ClientConfig { cores: 2, driver, ..ClientConfig::default() });
        for url in ["ram:16M", &file] {
            let disk = client.open(&url.parse().unwrap()).unwrap().blocking();
            for len in [512, 4096, MIB, 9 * MIB + 512] {
                let data = aperiodic(len, 1);
                disk.write_at(1024, &data).unwrap();
                disk.flush().unwrap();
                let mut back = vec![0; len];
                disk.read_at(1024, &mut back).unwrap();
                assert!(back == data, "{url}, {len} bytes");
            }
            disk.write_zeroes(0, 16 * MIB as u64).unwrap();
            disk.write_durable_at(512, &[3; 512]).unwrap();
            disk.compare_and_write(512, &[3; 512], &[4; 512]).unwrap();
            let differs = disk.compare_and_write(512, &[3; 512], &[5; 512]).unwrap_err();
            assert_eq!(differs.kind(), VolumeErrorKind::Miscompare { offset: 0 });
            let mut back = [9; 1536];
            disk.read_at(0, &mut back).unwrap();
            assert_eq!(back, *[[0; 512], [4; 512], [0; 512]].concat());
            disk.discard(512, 512).unwrap();
        }
    }
}

#[test]
fn what_cannot_be_done_is_refused_with_its_reason() {
    let disk = ram().blocking();
    let cases: [(u64, usize, &str); 4] = [
        (1, 512, "multiples of the block size of 512 bytes"),
        (0, 100, "multiples of the block size of 512 bytes"),
        (16 * MIB as u64, 512, "has only 16777216 bytes"),
        (u64::MAX - 511, 1024, "has only 16777216 bytes"),
    ];
    for (offset, len, why) in cases {
        let text = disk.read_at(offset, &mut vec![0; len]).unwrap_err().to_string();
        assert!(text.starts_with("ram:16M") && text.contains(why), "{text}");
    }
    let client = disk.disk().client();
    let text = client.open(&"file:/nowhere/at.all".parse().unwrap()).unwrap_err().to_string();
    assert!(text.contains("/nowhere/at.all") && text.contains("check the path"), "{text}");
    let failing = client.open(&"fail=1/2,on=read+ram:1M".parse().unwrap()).unwrap().blocking();
    let results: Vec<_> = (0..2).map(|_| failing.read_at(0, &mut [0; 512])).collect();
    let kinds: Vec<_> =
        results.iter().filter_map(|one| one.as_ref().err()).map(linerate::DiskError::kind).collect();
    assert_eq!(kinds, [VolumeErrorKind::Media]);
}

#[test]
fn more_requests_than_the_depth_wait_and_each_ends_once() {
    let client = start(&ClientConfig { cores: 2, depth: 3, ..ClientConfig::default() });
    let disk = client.open(&"delay=1ms+ram:16M".parse().unwrap()).unwrap();
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (disk, tell) = (disk.clone(), tell.clone());
            scope.spawn(move || {
                for number in 0..25 {
                    let tell = tell.clone();
                    let name = thread * 25 + number;
                    disk.submit_read(Extent::new(name, 1), move |result| {
                        tell.send((name, matches!(result, Ok(Outcome::Data(data)) if data.len() == 512)))
                            .unwrap();
                    });
                }
            });
        }
    });
    drop(tell);
    let ended: Vec<_> = told.iter().collect();
    assert_eq!(ended.len(), 100);
    assert!(ended.iter().all(|(_, whole)| *whole));
    assert_eq!(ended.iter().map(|(name, _)| name).collect::<HashSet<_>>().len(), 100);
}

#[test]
fn reads_do_not_stop_when_their_memory_is_kept() {
    let client = start(&ClientConfig { memory: 64 << 10, ..ClientConfig::default() });
    let disk = client.open(&"null:16M".parse().unwrap()).unwrap();
    let (tell, told) = mpsc::channel();
    let kept: Vec<_> = (0..64)
        .map(|_| {
            let tell = tell.clone();
            disk.submit_read(Extent::new(0, 8), move |result| tell.send(result).unwrap());
            told.recv().unwrap().unwrap()
        })
        .collect();
    assert_eq!(kept.len(), 64);
}

#[test]
fn a_callback_may_submit_but_not_wait() {
    let disk = ram();
    let (tell, told) = mpsc::channel();
    let (again, waits) = (disk.clone(), disk.blocking());
    disk.submit(Operation::Flush, move |_| {
        let refusal = waits.flush().unwrap_err();
        again.submit(Operation::Flush, move |result| {
            tell.send((refusal, result.map(|_| ()))).unwrap();
        });
    });
    let (refusal, result) = told.recv().unwrap();
    assert!(refusal.to_string().contains("a callback must not wait"), "{refusal}");
    assert_eq!(result, Ok(()));
}

#[test]
fn what_is_under_way_when_the_client_ends_is_told_so() {
    let disk = start(&ClientConfig::default()).open(&"delay=60m+ram:1M".parse().unwrap()).unwrap();
    let (tell, told) = mpsc::channel();
    for _ in 0..4 {
        let tell = tell.clone();
        disk.submit(Operation::Flush, move |result| tell.send(result.map(|_| ())).unwrap());
    }
    drop((disk, tell));
    assert_eq!(told.iter().collect::<Vec<_>>(), [Err(VolumeErrorKind::ShuttingDown); 4]);
}

#[test]
fn after_a_panic_in_a_callback_requests_end_rather_than_hang() {
    let disk = start(&ClientConfig::default()).open(&"delay=60m+ram:1M".parse().unwrap()).unwrap();
    let other = disk.client().open(&"ram:1M".parse().unwrap()).unwrap();
    let (tell, told) = mpsc::channel();
    disk.submit(Operation::Flush, move |result| tell.send(result.map(|_| ())).unwrap());
    other.submit(Operation::Flush, |_| std::panic::resume_unwind(Box::new("planted")));
    assert_eq!(told.recv().unwrap(), Err(VolumeErrorKind::ShuttingDown));
    assert_eq!(other.blocking().flush().unwrap_err().kind(), VolumeErrorKind::ShuttingDown);
}

#[test]
fn a_client_may_end_in_a_callback() {
    let disk = ram();
    let (tell, told) = mpsc::channel();
    let last = disk.clone();
    let gate = mpsc::channel::<()>();
    let (open, wait) = gate;
    disk.submit(Operation::Flush, move |_| {
        // The other handle is gone by now, so this is the last.
        wait.recv().unwrap();
        drop(last);
        tell.send(()).unwrap();
    });
    drop(disk);
    open.send(()).unwrap();
    told.recv().unwrap();
}

#[test]
fn bytes_at_the_edges_of_blocks_keep_their_neighbours() {
    let mut bytes = ram().blocking().bytes();
    bytes.write_all(&aperiodic(5000, 1)).unwrap();
    bytes.seek(SeekFrom::Start(1000)).unwrap();
    bytes.write_all(&[255; 2000]).unwrap();
    bytes.seek(SeekFrom::Current(-2001)).unwrap();
    let mut back = vec![0; 2002];
    bytes.read_exact(&mut back).unwrap();
    let expected = aperiodic(5000, 1);
    assert_eq!((back[0], back[2001]), (expected[999], expected[3000]));
    assert!(back[1..2001].iter().all(|byte| *byte == 255));
    bytes.seek(SeekFrom::End(-3)).unwrap();
    let text = bytes.write_all(&[1; 4]).unwrap_err().to_string();
    assert!(text.contains("ends at byte 16777216"), "{text}");
    assert_eq!(bytes.read(&mut [0; 8]).unwrap(), 0);
}

/// What a cache has on its fast volume alone is written back when it is left in order, and not before, as it has time.
#[test]
fn a_disk_that_is_closed_is_left_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let url = |name: &str| {
        let (fast, big) = (place(&format!("{name}-fast")), place(&format!("{name}-big")));
        let url = format!(
            "cache=[file:{fast}?size=4M,file:{big}?size=4M]?mode=back&admit=always&bypass=0&idle=1000s"
        );
        (url.parse::<VolumeUrl>().unwrap(), big)
    };
    let begins_with = |path: &str, byte: u8| {
        let mut first = [0; 4096];
        File::open(path).unwrap().read_exact(&mut first).unwrap();
        first == [byte; 4096]
    };
    for cores in [1, 3] {
        let (url, big) = url(&format!("client{cores}"));
        let client = start(&ClientConfig { cores, ..ClientConfig::default() });
        let disk = client.open(&url).unwrap().blocking();
        disk.write_at(0, &[7; 4096]).unwrap();
        disk.flush().unwrap();
        assert!(!begins_with(&big, 7), "it is dirty");
        drop(disk);
        drop(client);
        assert!(begins_with(&big, 7), "{cores} cores");
    }
    let (url, big) = url("inline");
    let mut inline = Inline::start(&ClientConfig::default()).unwrap();
    let disk = inline.open(&url).unwrap();
    let data = Buf::from(vec![8; 4096]).freeze().into();
    let extent = Extent::new(0, 8);
    assert!(inline.submit(disk, 1, Operation::Write { extent, data, durability: Durability::Durable }));
    let mut done = Vec::new();
    while done.is_empty() {
        inline.turn(Wait::Forever).unwrap();
        inline.take_done(&mut done);
    }
    assert!(!begins_with(&big, 8), "it is dirty");
    drop(inline);
    assert!(begins_with(&big, 8));
}

#[test]
fn an_inline_loop_drives_many_requests_on_several_disks() {
    let mut inline = Inline::start(&ClientConfig::default()).unwrap();
    let disks: Vec<_> = ["ram:1M", "delay=1ms+null:1M"]
        .iter()
        .map(|url| inline.open(&url.parse().unwrap()).unwrap())
        .collect();
    assert_eq!(inline.volume(1).unwrap().geometry().bytes(), MIB as u64);
    let operation = || Operation::Read { extent: Extent::new(0, 8), into: Buf::zeroed(4096) };
    for token in 0..40 {
        assert!(inline.submit(disks[usize::from(token % 2 == 1)], token, operation()));
    }
    assert!(!inline.submit(7, 0, operation()));
    let mut done = Vec::new();
    while done.len() < 40 {
        inline.turn(Wait::Forever).unwrap();
        inline.take_done(&mut done);
    }
    let tokens: HashSet<_> = done.iter().map(|one| one.token).collect();
    assert_eq!(tokens.len(), 40);
    assert!(done.iter().all(|one| one.disk == usize::from(one.token % 2 == 1) && one.result.is_ok()));
    let text = Inline::start(&ClientConfig::default()).unwrap_err().to_string();
    assert!(text.contains("the event loop cannot run"), "{text}");
}

/// A secret that nobody has written yet: whoever reads it is blocked until it is.
struct SlowSecret {
    folder: tempfile::TempDir,
}

impl SlowSecret {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let fifo = folder.path().join("secret");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        Self { folder }
    }

    /// A volume that needs it.
    fn url(&self) -> VolumeUrl {
        let target = "iscsi://127.0.0.1:1/iqn.2026-11.org.linerate:a/0?chap_user=u&chap_secret_file=";
        format!("{target}{}", self.folder.path().join("secret").display()).parse().unwrap()
    }

    /// Waits until somebody has begun to read it, who is blocked until what this gives is dropped.
    fn wait_for_reader(&self) -> File {
        File::options().write(true).open(self.folder.path().join("secret")).unwrap()
    }
}

/// A disk of the same core goes on. The limit only turns a hang into a failure.
#[test]
fn an_opening_that_blocks_holds_up_no_other_disk() {
    let slow = SlowSecret::new();
    let client = start(&ClientConfig::default());
    let disk = client.open(&"ram:1M".parse().unwrap()).unwrap();
    let url = slow.url();
    let opening = std::thread::spawn(move || client.open(&url).map(drop));
    let secret = slow.wait_for_reader();
    let (tell, told) = mpsc::channel();
    disk.submit_read(Extent::new(0, 1), move |result| tell.send(result.is_ok()).unwrap());
    assert!(told.recv_timeout(Duration::from_mins(1)).unwrap());
    assert!(!opening.is_finished());
    drop(secret);
    opening.join().unwrap().unwrap_err();
}

/// What a disk of the same loop was asked for reaches its file while the opening is blocked. The limit only turns a hang into a failure.
#[test]
fn an_opening_that_blocks_holds_up_no_other_disk_of_an_inline_loop() {
    let slow = SlowSecret::new();
    let file = slow.folder.path().join("disk");
    std::fs::write(&file, [0; 4096]).unwrap();
    let mut inline = Inline::start(&ClientConfig::default()).unwrap();
    let disk = inline.open(&format!("file:{}", file.display()).parse().unwrap()).unwrap();
    let data = BufList::from(SharedBuf::from_static(&[7; 4096]));
    let write = Operation::Write { extent: Extent::new(0, 8), data, durability: Durability::Cached };
    assert!(inline.submit(disk, 1, write));
    let url = slow.url();
    let watcher = std::thread::spawn(move || {
        let _secret = slow.wait_for_reader();
        let begun = Instant::now();
        while std::fs::read(&file).unwrap()[0] != 7 {
            if begun.elapsed() > Duration::from_mins(1) {
                return false;
            }
            std::thread::yield_now();
        }
        true
    });
    inline.open(&url).unwrap_err();
    assert!(watcher.join().unwrap(), "the write waited for the opening");
}

/// The loop of a job turns while its second volume's opening is blocked: it hears of the wish to stop, as it would of the first volume's
/// connections. The limit only turns a hang into a failure.
#[test]
fn an_opening_that_blocks_holds_up_no_job() {
    let slow = SlowSecret::new();
    let (url, stop) = (slow.url(), Stop::new());
    let control = Control { stop: stop.clone(), ..Control::default() };
    let (tell, told) = mpsc::channel();
    let job = move || {
        let result = linerate::compare(&"null:1M".parse().unwrap(), &url, Effort::default(), control);
        tell.send(result.unwrap_err()).unwrap();
    };
    let job = std::thread::spawn(job);
    let secret = slow.wait_for_reader();
    stop.set();
    assert!(matches!(told.recv_timeout(Duration::from_mins(1)), Ok(Error::Stopped)));
    job.join().unwrap();
    drop(secret);
}
