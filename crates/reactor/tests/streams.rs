//! Streams over real sockets, on both drivers: every case runs on each.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

mod toy;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

use protocol::Ended;
use protocol::pair::aperiodic;
use reactor::{Config, Driver, Listener};
use toy::{Server, Workload, call, in_time};

macro_rules! on_both_drivers {
    ($($name:ident),* $(,)?) => {
        mod uring { $(#[test] fn $name() { super::in_time(|| super::$name(super::Driver::Uring)); })* }
        mod epoll { $(#[test] fn $name() { super::in_time(|| super::$name(super::Driver::Epoll)); })* }
    };
}

on_both_drivers!(
    frames_of_all_sizes_come_back_whole,
    odd_chunks_are_put_together,
    a_unix_socket_carries_streams_too,
    bulk_moves_both_ways_under_back_pressure,
    a_starved_pool_parks_and_recovers,
    two_hundred_connections_spread_over_cores,
    more_connections_than_staging_areas,
    messages_left_off_in_the_middle_delay_nobody,
    a_refused_dial_is_told,
    a_reset_in_mid_send_ends_the_endpoint,
    a_half_closed_peer_gets_its_echo,
    a_close_is_seen_as_an_end_and_not_a_reset,
    stopping_ends_every_endpoint,
    messages_arrive_in_order_from_many_threads,
    idle_connections_cost_no_turn,
);

fn frames_of_all_sizes_come_back_whole(driver: Driver) {
    let server = Server::start(driver, 1, 64 << 20);
    let workload =
        Workload::new(&[0, 1, 63, 64, 65, 512, 1024, 1025, 4096, 70_000, 262_144, 1 << 20], 240, 7);
    call(driver, server.address, std::slice::from_ref(&workload), true);
    assert_eq!(workload.done.get(), 240);
    assert_eq!(workload.ended.get(), Some(Ended::ByUs));
    assert_eq!(server.stop().gone.load(Ordering::SeqCst), 1);
}

fn odd_chunks_are_put_together(driver: Driver) {
    let server = Server::start(driver, 1, 64 << 20);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut bytes = Vec::new();
    for len in [3_usize, 0, 100, 64, 65, 5000] {
        bytes.extend_from_slice(&(len as u64).to_le_bytes());
        bytes.extend(aperiodic(len, len as u64));
    }
    for chunk in [1, 3, 7, 64, 1000] {
        for part in bytes.chunks(chunk) {
            stream.write_all(part).unwrap();
        }
        let mut back = vec![0; bytes.len()];
        stream.read_exact(&mut back).unwrap();
        assert!(back == bytes, "chunks of {chunk}");
    }
    drop(stream);
    server.stop();
}

fn a_unix_socket_carries_streams_too(driver: Driver) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = Listener::bind_unix(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let server = Server::at(listener, Config { driver, ..Config::default() }, (2, 64 << 20));
    let mut bytes = 70_000_u64.to_le_bytes().to_vec();
    bytes.extend(aperiodic(70_000, 1));
    for _ in 0..4 {
        let mut stream = UnixStream::connect(&path).unwrap();
        let mut writer = stream.try_clone().unwrap();
        let sent = bytes.clone();
        let writing = std::thread::spawn(move || writer.write_all(&sent).unwrap());
        let mut back = vec![0; bytes.len()];
        stream.read_exact(&mut back).unwrap();
        assert!(back == bytes);
        writing.join().unwrap();
    }
    assert_eq!(server.stop().accepted.load(Ordering::SeqCst), 4);
}

fn bulk_moves_both_ways_under_back_pressure(driver: Driver) {
    let server = Server::start(driver, 1, 8 << 20);
    let workload = Workload::new(&[1 << 20, 65_536, 300_001], 150, 64);
    call(driver, server.address, std::slice::from_ref(&workload), true);
    assert_eq!(workload.done.get(), 150);
    server.stop();
}

fn a_starved_pool_parks_and_recovers(driver: Driver) {
    let server = Server::start(driver, 1, 256 << 10);
    let workloads: Vec<_> = (0..4).map(|_| Workload::new(&[100_000, 40], 100, 8)).collect();
    call(driver, server.address, &workloads, true);
    assert!(workloads.iter().all(|workload| workload.done.get() == 100));
    server.stop();
}

fn two_hundred_connections_spread_over_cores(driver: Driver) {
    let server = Server::start(driver, 2, 64 << 20);
    let workloads: Vec<_> = (0..200).map(|_| Workload::new(&[4096, 8, 0, 1500], 20, 4)).collect();
    call(driver, server.address, &workloads, true);
    assert!(workloads.iter().all(|workload| workload.done.get() == 20));
    let seen = server.stop();
    assert_eq!(seen.accepted.load(Ordering::SeqCst), 200);
    let (one, two) = (seen.cores[0].load(Ordering::SeqCst), seen.cores[1].load(Ordering::SeqCst));
    assert!(one >= 50 && two >= 50, "{one} and {two}");
}

fn more_connections_than_staging_areas(driver: Driver) {
    let config = Config { driver, staging_areas: 2, staging: 8192, ..Config::default() };
    let server = Server::with(config, 1, 64 << 20);
    let workloads: Vec<_> = (0..20).map(|_| Workload::new(&[4096, 30_000, 5], 60, 8)).collect();
    call(driver, server.address, &workloads, true);
    assert!(workloads.iter().all(|workload| workload.done.get() == 60));
    server.stop();
}

fn messages_left_off_in_the_middle_delay_nobody(driver: Driver) {
    let config = Config { driver, staging_areas: 2, staging: 8192, ..Config::default() };
    let server = Server::with(config, 1, 64 << 20);
    let half_a_length = |_| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(&[0; 4]).unwrap();
        stream
    };
    let silent: Vec<TcpStream> = (0..10).map(half_a_length).collect();
    let workloads: Vec<_> = (0..3).map(|_| Workload::new(&[4096, 30_000, 5], 60, 8)).collect();
    call(driver, server.address, &workloads, true);
    assert!(workloads.iter().all(|workload| workload.done.get() == 60));
    drop(silent);
    server.stop();
}

fn a_refused_dial_is_told(driver: Driver) {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let workload = Workload::new(&[10], 1, 1);
    call(driver, nobody, std::slice::from_ref(&workload), true);
    assert_eq!(workload.ended.get(), Some(Ended::Failed(libc::ECONNREFUSED)));
    assert!(!workload.connected.get());
}

fn a_reset_in_mid_send_ends_the_endpoint(driver: Driver) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = listener.local_addr().unwrap();
    let rude = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 1000]).unwrap();
        // Unread bytes make the close a reset.
        drop(stream);
    });
    let workload = Workload::new(&[1 << 20], 64, 64);
    call(driver, peer, std::slice::from_ref(&workload), false);
    rude.join().unwrap();
    assert!(
        matches!(workload.ended.get(), Some(Ended::Failed(libc::ECONNRESET | libc::EPIPE))),
        "{:?}",
        workload.ended
    );
}

fn a_half_closed_peer_gets_its_echo(driver: Driver) {
    let server = Server::start(driver, 1, 64 << 20);
    let mut stream = TcpStream::connect(server.address).unwrap();
    let mut bytes = 700_000_u64.to_le_bytes().to_vec();
    bytes.extend(aperiodic(700_000, 9));
    stream.write_all(&bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    assert!(back == bytes);
    server.stop();
}

fn a_close_is_seen_as_an_end_and_not_a_reset(driver: Driver) {
    let server = Server::start(driver, 1, 64 << 20);
    let mut stream = TcpStream::connect(server.address).unwrap();
    let mut bytes = 5_u64.to_le_bytes().to_vec();
    bytes.extend(b"close");
    stream.write_all(&bytes).unwrap();
    let mut back = vec![0; 13];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, bytes);
    // The echo has closed its side and reads what still comes.
    let _ = stream.write_all(&vec![7; 100_000]);
    assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0);
    drop(stream);
    let seen = server.stop();
    assert_eq!(seen.ended_by_us.load(Ordering::SeqCst), 1);
    assert_eq!(seen.gone.load(Ordering::SeqCst), 1);
}

fn stopping_ends_every_endpoint(driver: Driver) {
    let server = Server::start(driver, 2, 64 << 20);
    let mut streams: Vec<_> = (0..10).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    for stream in &mut streams {
        stream.write_all(&[1, 0, 0, 0, 0, 0, 0, 0, 5]).unwrap();
        stream.read_exact(&mut [0; 9]).unwrap();
    }
    let seen = server.stop();
    assert_eq!(seen.ended_by_us.load(Ordering::SeqCst), 10);
    assert_eq!(seen.gone.load(Ordering::SeqCst), 10);
    assert!(matches!(streams[0].read(&mut [0; 10]), Ok(0) | Err(_)));
}

/// Messages with their senders, as they came.
struct Heard {
    heard: Vec<u32>,
    want: usize,
}

impl host::Service for Heard {
    type Message = u32;
    fn accept(
        &mut self,
        _: protocol::Instant,
        _: host::Accepted,
    ) -> Result<Box<dyn host::Endpoint>, host::Refusal> {
        Err(host::Refusal("no"))
    }
    fn handle_message(&mut self, _: protocol::Instant, message: u32) {
        self.heard.push(message);
    }
    fn turn(&mut self, _: protocol::Instant, _: &mut Vec<host::EndpointId>) {}
    fn handle_gone(&mut self, _: protocol::Instant, _: host::EndpointId) {}
    fn poll_timeout(&self) -> Option<protocol::Instant> {
        None
    }
    fn is_finished(&self) -> bool {
        self.heard.len() == self.want
    }
}

fn messages_arrive_in_order_from_many_threads(driver: Driver) {
    const EACH: u32 = 20_000;
    let cluster = reactor::Cluster::<u32>::new(1, Config { driver, ..Config::default() }).unwrap();
    let posters: Vec<_> = (0..4)
        .map(|sender| {
            let postbox = cluster.postbox();
            std::thread::spawn(move || (0..EACH).for_each(|number| postbox.post(0, sender * EACH + number)))
        })
        .collect();
    let postbox = cluster.postbox();
    let core = cluster.into_cores().pop().unwrap();
    let heard = core.run(|_| Heard { heard: Vec::new(), want: 4 * EACH as usize }).unwrap().heard;
    for sender in 0..4 {
        let from_it: Vec<_> = heard.iter().filter(|message| *message / EACH == sender).copied().collect();
        assert!(from_it.is_sorted() && from_it.len() == EACH as usize);
    }
    for poster in posters {
        poster.join().unwrap();
    }
    // A stopped core swallows.
    postbox.post(0, 1);
    postbox.post(7, 1);
}

fn idle_connections_cost_no_turn(driver: Driver) {
    let server = Server::start(driver, 1, 64 << 20);
    let mut streams: Vec<_> = (0..100).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    for stream in &mut streams {
        stream.write_all(&[1, 0, 0, 0, 0, 0, 0, 0, 5]).unwrap();
        stream.read_exact(&mut [0; 9]).unwrap();
    }
    // Until the staging areas have been taken back, there are turns; then there are none.
    let turns = || server.seen.turns.load(Ordering::SeqCst);
    let mut last = turns();
    loop {
        std::thread::sleep(std::time::Duration::from_millis(400));
        let now = turns();
        if now == last {
            break;
        }
        last = now;
    }
    streams[50].write_all(&[1, 0, 0, 0, 0, 0, 0, 0, 6]).unwrap();
    streams[50].read_exact(&mut [0; 9]).unwrap();
    assert!(turns() > last);
    drop(streams);
    server.stop();
}
