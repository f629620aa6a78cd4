//! What a read of a RAM volume lends is not changed by those who write the same pages meanwhile: digests are right, and no
//! block is a mixture, however long an answer waits to be sent.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::Server;
use linerate::{BlockingDisk, Client, ClientConfig};
use tempfile::tempdir;

const SIZE: usize = 4 << 20;
const BLOCK: usize = 512;
/// Longer than what a connection's socket takes at once, so that most of an answer waits.
const READ: usize = 1 << 20;
/// Answers that wait on each connection at a time, and how many each of those who wait sees.
const READERS: usize = 6;
const READS: usize = 40;

/// Reads anywhere, and sees whole blocks of one writer's: whatever a digest tells is an error of the read.
fn read(disk: &BlockingDisk, seed: usize) {
    let mut data = vec![0; READ];
    for round in 0..READS {
        let at = place(seed, round, READ);
        disk.read_at(at as u64, &mut data).unwrap();
        for block in data.chunks(BLOCK) {
            assert!(block.iter().all(|byte| *byte == block[0]), "a mixture in the megabyte from {at}");
        }
    }
}

/// Writes anywhere until the readers have seen enough: whole pages, parts of them, and across their borders.
fn write(disk: &BlockingDisk, seed: usize, ended: &AtomicBool) {
    let mut rounds = 0..;
    while !ended.load(Ordering::Relaxed) {
        let round = rounds.next().unwrap();
        let len = [BLOCK, 16 << 10, 64 << 10, 192 << 10][round % 4];
        let number = u8::try_from((seed + round) % 256).unwrap();
        disk.write_at(place(seed, round, len) as u64, &vec![number; len]).unwrap();
    }
}

/// Where a request of `len` bytes begins: all over the disk, as two primes have it.
fn place(seed: usize, round: usize, len: usize) -> usize {
    (seed * 104_729 + round * 15_485_863) % ((SIZE - len) / BLOCK + 1) * BLOCK
}

#[test]
fn answers_that_wait_are_not_changed_by_writes() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=ram:4M", "--cores", "2"]);
    let client = Client::start(&ClientConfig::default()).unwrap();
    let open =
        |url: String, option| client.open(&format!("{url}{option}").parse().unwrap()).unwrap().blocking();
    let iscsi = || open(server.iscsi_url("disk"), "?data_digest=crc32c");
    let nvme = || open(server.nvme_url("disk"), "?data_digest=1");
    let (readers, writers) = ([iscsi(), nvme()], [iscsi(), nvme()]);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let reading: Vec<_> = readers
            .iter()
            .flat_map(|disk| (0..READERS).map(move |seed| (disk, seed)))
            .map(|(disk, seed)| scope.spawn(move || read(disk, seed)))
            .collect();
        for (seed, disk) in (100..).zip(&writers) {
            let ended = &ended;
            scope.spawn(move || write(disk, seed, ended));
        }
        let failed = reading.into_iter().filter_map(|reader| reader.join().err()).count();
        ended.store(true, Ordering::Relaxed);
        assert_eq!(failed, 0, "readers that saw something wrong");
    });
    drop((readers, writers, client));
    server.stop();
}
