//! Out of descriptors: those who are in are served, nobody spins, and who waits gets in when there is room. In a process
//! of its own, as the limit is the process's.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod toy;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use reactor::{Config, Driver};
use rustix::process::{Resource, Rlimit, setrlimit};
use toy::{Server, in_time};

const ROLE: &str = "REACTOR_SHORTAGE_DRIVER";

/// The server's process: answers each line with how many turns it has taken.
#[test]
fn serves_with_few_descriptors() {
    let Ok(driver) = std::env::var(ROLE) else { return };
    let limit = Rlimit { current: Some(30), maximum: Some(30) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let driver = if driver == "uring" { Driver::Uring } else { Driver::Epoll };
    let server = Server::with(Config { driver, ..Config::default() }, 1, 64 << 20);
    println!("\nport {}", server.address.port());
    for line in std::io::stdin().lines() {
        line.unwrap();
        println!("turns {}", server.seen.turns.load(Ordering::SeqCst));
    }
    server.stop();
}

fn echo(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(&[1, 0, 0, 0, 0, 0, 0, 0, 5]).unwrap();
    stream.read_exact(&mut [0; 9]).is_ok()
}

fn those_who_wait_get_in_when_there_is_room(driver: &str) {
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "serves_with_few_descriptors", "--nocapture"])
        .env(ROLE, driver)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut next = |word: &str| loop {
        if let Some(number) = lines.next().unwrap().unwrap().strip_prefix(word) {
            return number.trim().parse::<usize>().unwrap();
        }
    };
    let port = u16::try_from(next("port ")).unwrap();
    let mut streams: Vec<_> = (0..40).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    assert!(echo(&mut streams[0]));
    let mut turns = || {
        writeln!(input).unwrap();
        next("turns ")
    };
    let (before, since) = (turns(), Instant::now());
    std::thread::sleep(Duration::from_millis(500));
    let (taken, hundredths) = (turns() - before, since.elapsed().as_millis() / 100);
    assert!((taken as u128) < 10 + 4 * hundredths, "{taken} turns in {hundredths} tenths of a second");
    assert!(echo(&mut streams[1]));
    streams.drain(..20);
    for stream in &mut streams {
        assert!(echo(stream));
    }
    drop((streams, input));
    assert!(server.wait().unwrap().success());
}

#[test]
fn uring() {
    in_time(|| those_who_wait_get_in_when_there_is_room("uring"));
}

#[test]
fn epoll() {
    in_time(|| those_who_wait_get_in_when_there_is_room("epoll"));
}
