//! Hostile targets and controllers: whatever the far end sends or leaves unsent, our initiators and hosts hold a bounded amount of memory, and the
//! command goes on to its end or says what was wrong.
//!
//! Between the command and a real server stands a relay that passes PDUs on in both directions, and misbehaves where a test says.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::io::{BufReader, Read, Result, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use common::{Server, TIMEOUT, begin};
use tempfile::{TempDir, tempdir};

/// What a hostile far end may cost in resident memory beyond what the same command takes with an honest one, in KiB.
const BESIDE: u64 = 64 << 10;
/// Bytes of a flood: so many short PDUs that a side which keeps something of each of them exceeds that.
const FLOOD: usize = 32 << 20;
/// Between two looks at a command's memory: short, as one that fails at once tells nothing afterwards.
const POLL_INTERVAL: Duration = Duration::from_micros(500);
/// Bytes of the reads: more than any answer has that is not one of theirs.
const BLOCK: u32 = 8192;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Iscsi,
    Nvme,
}

impl Protocol {
    /// Reads a PDU without digests.
    fn read(self, from: &mut impl Read) -> Result<Vec<u8>> {
        let mut pdu = vec![0; if self == Self::Iscsi { 48 } else { 8 }];
        from.read_exact(&mut pdu)?;
        let (head, length) = (pdu.len(), u32::from_le_bytes(pdu[4..8].try_into().unwrap()));
        let whole = match self {
            // RFC 7143, section 11.2.1: additional headers are counted in words, and data is padded to words.
            Self::Iscsi => head + usize::from(pdu[4]) * 4 + length_of(&pdu).next_multiple_of(4),
            Self::Nvme => usize::try_from(length).unwrap(),
        };
        pdu.resize(whole, 0);
        from.read_exact(&mut pdu[head..])?;
        Ok(pdu)
    }
}

/// DataSegmentLength of an iSCSI PDU.
fn length_of(pdu: &[u8]) -> usize {
    [pdu[5], pdu[6], pdu[7]].into_iter().fold(0, |sum, byte| sum << 8 | usize::from(byte))
}

/// The command's end of a connection, where PDUs are sent whole.
type Client = Mutex<TcpStream>;

/// A PDU that the relay has.
enum Pdu<'a> {
    /// The command sends it.
    Asked(&'a [u8]),
    /// The server sends it.
    Told(&'a mut Vec<u8>),
}

/// Whether a PDU is passed on.
#[derive(PartialEq, Eq)]
enum Fate {
    Passed,
    Kept,
}

/// What the relay does with PDUs beside passing them on.
type Hostility = dyn Fn(Pdu<'_>, &Client) -> Result<Fate> + Send + Sync;

/// One connection through the relay.
#[derive(Clone)]
struct Line {
    protocol: Protocol,
    client: Arc<Client>,
    server: Arc<Mutex<TcpStream>>,
    hostility: Arc<Hostility>,
}

impl Line {
    /// Passes on what the command sends.
    fn ask(&self, from: TcpStream) -> Result<()> {
        let mut from = BufReader::new(from);
        loop {
            let pdu = self.protocol.read(&mut from)?;
            if (self.hostility)(Pdu::Asked(&pdu), &self.client)? == Fate::Passed {
                self.server.lock().unwrap().write_all(&pdu)?;
            }
        }
    }

    /// Passes on what the server sends.
    fn tell(&self, from: TcpStream) -> Result<()> {
        let mut from = BufReader::new(from);
        loop {
            let mut pdu = self.protocol.read(&mut from)?;
            if (self.hostility)(Pdu::Told(&mut pdu), &self.client)? == Fate::Passed {
                self.client.lock().unwrap().write_all(&pdu)?;
            }
        }
    }
}

/// Listens for commands, and answers where; ends with the test.
fn relay(server: SocketAddr, protocol: Protocol, hostility: Arc<Hostility>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let portal = listener.local_addr().unwrap();
    spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(server).unwrap();
            let ends = [&client, &server].map(|end| end.try_clone().unwrap());
            let close = move || ends.iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
            let (asks, tells) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (client, server) = (Arc::new(Mutex::new(client)), Arc::new(Mutex::new(server)));
            let line = Line { protocol, client, server, hostility: Arc::clone(&hostility) };
            let other = line.clone();
            spawn(move || other.tell(tells));
            spawn(move || {
                let _ended = line.ask(asks);
                close();
            });
        }
    });
    portal
}

/// Sends a PDU again and again.
fn flood(client: &Client, pdu: &[u8]) -> Result<()> {
    let many = pdu.repeat(FLOOD / pdu.len() / 32);
    let mut client = client.lock().unwrap();
    (0..32).try_for_each(|_| client.write_all(&many))
}

/// A command that has ended.
struct Ran {
    succeeded: bool,
    said: String,
    /// The most memory that was resident, in KiB.
    peak: u64,
}

/// A command under way, which ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Runs a command to its end, and requires that its memory stays within `most` KiB.
fn run(arguments: &[String], most: u64) -> Ran {
    let mut child = Running(begin(&arguments.iter().map(String::as_str).collect::<Vec<_>>()));
    let status = format!("/proc/{}/status", child.0.id());
    let mut peak = 0;
    let deadline = Instant::now() + TIMEOUT;
    let ended = loop {
        let status = std::fs::read_to_string(&status).unwrap();
        // Whoever has ended has none.
        if let Some(line) = status.lines().find_map(|line| line.strip_prefix("VmHWM:")) {
            peak = line.trim().trim_end_matches(" kB").parse().unwrap();
        }
        assert!(peak <= most, "{arguments:?}: {peak} KiB were resident, of {most}");
        if let Some(ended) = child.0.try_wait().unwrap() {
            break ended;
        }
        assert!(Instant::now() < deadline, "{arguments:?} did not end in {TIMEOUT:?}");
        sleep(POLL_INTERVAL);
    };
    let mut said = String::new();
    child.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    child.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    Ran { succeeded: ended.success(), said, peak }
}

/// A server, and commands that reach it through a relay.
struct Scene {
    server: Server,
    protocol: Protocol,
    _folder: TempDir,
}

impl Scene {
    fn new(protocol: Protocol) -> Self {
        let folder = tempdir().unwrap();
        let server = Server::start(folder.path(), &["disk=ram:16M"]);
        Self { server, protocol, _folder: folder }
    }

    fn portal(&self) -> SocketAddr {
        if self.protocol == Protocol::Iscsi { self.server.iscsi } else { self.server.nvme }
    }

    /// Runs a command with the server itself and then with a hostile one, and requires that its memory is bounded. In `arguments`, `VOLUME` and
    /// `PORTAL` stand for URLs, and `LONG` for a time that ends only with an honest server.
    fn run(
        &self,
        arguments: &[&str],
        hostility: impl Fn(Pdu<'_>, &Client) -> Result<Fate> + Send + Sync + 'static,
    ) -> Ran {
        let (volume, scheme) = match self.protocol {
            Protocol::Iscsi => (self.server.iscsi_url("disk"), "iscsi"),
            Protocol::Nvme => (self.server.nvme_url("disk"), "nvme+tcp"),
        };
        let named = |portal: SocketAddr, long| {
            let volume = volume.replace(&self.portal().to_string(), &portal.to_string());
            let portal = format!("{scheme}://{portal}");
            let name = |word: &&str| {
                word.replace("VOLUME", &volume).replace("PORTAL", &portal).replace("LONG", long)
            };
            arguments.iter().map(name).collect::<Vec<_>>()
        };
        let honest = run(&named(self.portal(), "0.5"), u64::MAX);
        assert!(honest.succeeded, "{arguments:?} with an honest server: {}", honest.said);
        let relay = relay(self.portal(), self.protocol, Arc::new(hostility));
        run(&named(relay, "50"), honest.peak + BESIDE)
    }

    /// The same, and requires that the command fails and names `reason`.
    fn fails(
        &self,
        arguments: &[&str],
        reason: &str,
        hostility: impl Fn(Pdu<'_>, &Client) -> Result<Fate> + Send + Sync + 'static,
    ) {
        let Ran { succeeded, said, .. } = self.run(arguments, hostility);
        assert!(!succeeded && said.contains(reason), "{arguments:?}, succeeded: {succeeded}: {said}");
    }
}

/// Writes and reads that end by themselves.
const CHECK: [&str; 5] = ["check", "VOLUME?reconnect=0", "--overwrite", "--bytes", "4M"];
const IMPATIENT_CHECK: [&str; 5] = ["check", "VOLUME?reconnect=0&timeout=2s", "--overwrite", "--bytes", "4M"];
/// Reads of [`BLOCK`] bytes until one fails.
const READS_TO_FAIL: [&str; 6] =
    ["bench", "VOLUME?reconnect=0&timeout=2s", "--bs", "8k", "--runtime", "LONG"];
/// Writes that are too long for their commands to carry the data, until one fails.
const WRITES_TO_FAIL: [&str; 9] =
    ["bench", "VOLUME?reconnect=0", "--bs", "512k", "--runtime", "LONG", "--rw", "write", "--overwrite"];

/// What iSCSI PDUs look like, as RFC 7143, section 11, has them.
mod iscsi {
    /// Opcodes.
    pub(super) const COMMAND: u8 = 0x01;
    pub(super) const LOGIN: u8 = 0x03;
    pub(super) const TEXT: u8 = 0x04;
    const NOP_OUT: u8 = 0x00;
    const DATA_IN: u8 = 0x25;
    /// A tag that stands for none.
    const RESERVED: [u8; 4] = [0xff; 4];

    /// Operation codes of CDBs: READ (10) and (16), and WRITE (10) and (16).
    pub(super) const READS: [u8; 2] = [0x28, 0x88];
    pub(super) const WRITES: [u8; 2] = [0x2a, 0x8a];

    pub(super) const fn opcode(pdu: &[u8]) -> u8 {
        pdu[0] & 0x3f
    }

    /// A Data-In that no question to the unit has: those are shorter than a block.
    pub(super) fn is_data(told: &[u8]) -> bool {
        opcode(told) == DATA_IN && super::length_of(told) >= 512
    }

    /// The answer to a ping, for which the server has not asked.
    pub(super) fn is_answer(asked: &[u8]) -> bool {
        opcode(asked) == NOP_OUT && asked[16..20] == RESERVED
    }

    /// The numbers that an answer to a command has, where those of a PDU of the target are.
    pub(super) fn numbers(asked: &[u8]) -> [u8; 36] {
        let mut numbers = [0; 36];
        numbers[24..28].copy_from_slice(&asked[28..32]);
        for at in [28, 32] {
            numbers[at..at + 4].copy_from_slice(&asked[24..28]);
        }
        numbers
    }

    /// An R2T for all data of a command.
    pub(super) fn r2t(asked: &[u8]) -> [u8; 48] {
        let mut pdu = beside(&numbers(asked), 0x31);
        pdu[16..20].copy_from_slice(&asked[16..20]);
        pdu[44..48].copy_from_slice(&asked[20..24]);
        pdu
    }

    /// A PDU of the target that takes the numbers of `told`, which it sends next.
    fn beside(told: &[u8], opcode: u8) -> [u8; 48] {
        let mut pdu = [0; 48];
        (pdu[0], pdu[1]) = (opcode, 0x80);
        pdu[16..20].fill(0xff);
        pdu[24..36].copy_from_slice(&told[24..36]);
        pdu
    }

    /// A NOP-In that asks for an answer.
    pub(super) fn ping(told: &[u8]) -> [u8; 48] {
        let mut pdu = beside(told, 0x20);
        pdu[23] = 7;
        pdu
    }

    /// An asynchronous message that only its vendor understands.
    pub(super) fn message(told: &[u8]) -> [u8; 48] {
        let mut pdu = beside(told, 0x32);
        pdu[36] = 0xff;
        pdu
    }

    /// An answer to `asked` that promises more (the Continue bit), with as much text as fits.
    pub(super) fn endless(asked: &[u8]) -> Vec<u8> {
        let mut pdu = vec![0; 48];
        pdu[0] = opcode(asked) | 0x20;
        pdu[1] = 0x40 | asked[1] & 0x0c;
        pdu[6] = 0x20;
        pdu[8..16].copy_from_slice(&asked[8..16]);
        pdu[16..20].copy_from_slice(&asked[16..20]);
        if opcode(asked) == TEXT {
            pdu[23] = 1;
        }
        let next = |at: usize| u32::from_be_bytes(asked[at..at + 4].try_into().unwrap());
        pdu[24..28].copy_from_slice(&asked[28..32]);
        let window = next(24) + u32::from(asked[0] & 0x40 == 0);
        pdu[28..32].copy_from_slice(&window.to_be_bytes());
        pdu[32..36].copy_from_slice(&(window + 64).to_be_bytes());
        // 32 bytes, 256 times.
        pdu.extend(b"TargetName=iqn.2026-11.test:one\0".repeat(256));
        pdu
    }
}

/// What NVMe/TCP PDUs look like (NVMe/TCP, section 3.6).
mod nvme {
    const COMMAND: u8 = 4;
    const RESPONSE: u8 = 5;
    pub(super) const DATA: u8 = 7;
    /// Opcodes of commands.
    pub(super) const WRITE: u8 = 1;
    pub(super) const GET_LOG_PAGE: u8 = 2;
    pub(super) const ASYNC_EVENT: u8 = 0x0c;

    /// The command that a capsule holds.
    pub(super) fn command(asked: &[u8]) -> Option<u8> {
        (asked[0] == COMMAND).then(|| asked[8])
    }

    /// The command identifier in a command capsule.
    fn identifier(asked: &[u8]) -> [u8; 2] {
        [asked[10], asked[11]]
    }

    /// An R2T for `length` bytes from the first of a command's data.
    pub(super) fn r2t(asked: &[u8], length: u32) -> [u8; 24] {
        let mut pdu = [0; 24];
        pdu[..8].copy_from_slice(&[9, 0, 24, 0, 24, 0, 0, 0]);
        pdu[8..10].copy_from_slice(&identifier(asked));
        pdu[16..20].copy_from_slice(&length.to_le_bytes());
        pdu
    }

    /// The answer to an Asynchronous Event Request that a namespace has changed.
    pub(super) fn event(asked: &[u8]) -> [u8; 24] {
        let mut pdu = [0; 24];
        pdu[..8].copy_from_slice(&[RESPONSE, 0, 24, 0, 24, 0, 0, 0]);
        // A notice, of an attribute of a namespace, in the log page of changed namespaces.
        (pdu[8], pdu[10]) = (2, 4);
        pdu[20..22].copy_from_slice(&identifier(asked));
        pdu
    }
}

#[test]
fn pings_whose_answers_nobody_reads() {
    /// Floods, one for each of the first reads.
    const MOST: u64 = 8;
    let scene = Scene::new(Protocol::Iscsi);
    let floods = AtomicU64::new(0);
    let ran = scene.run(&IMPATIENT_CHECK, move |pdu, client| {
        let Pdu::Asked(asked) = pdu else { return Ok(Fate::Passed) };
        if iscsi::is_answer(asked) {
            return Ok(Fate::Kept);
        }
        let read = iscsi::opcode(asked) == iscsi::COMMAND && iscsi::READS.contains(&asked[32]);
        if read && floods.fetch_add(1, Ordering::Relaxed) < MOST {
            flood(client, &iscsi::ping(&iscsi::numbers(asked)))?;
        }
        Ok(Fate::Passed)
    });
    // The kernel may hold all of it, or the command has to give up.
    assert!(ran.succeeded || ran.said.starts_with("linerate: iscsi://"), "{}", ran.said);
}

#[test]
fn pings_and_messages_without_end() {
    let scene = Scene::new(Protocol::Iscsi);
    for unasked in [iscsi::ping, iscsi::message] {
        let floods = AtomicU64::new(0);
        let ran = scene.run(&CHECK, move |pdu, client| match pdu {
            Pdu::Asked(asked) => Ok(if iscsi::is_answer(asked) { Fate::Kept } else { Fate::Passed }),
            Pdu::Told(told) => {
                if iscsi::is_data(told) && floods.fetch_add(1, Ordering::Relaxed) == 0 {
                    flood(client, &unasked(told))?;
                }
                Ok(Fate::Passed)
            }
        });
        assert!(ran.succeeded, "{}", ran.said);
    }
}

#[test]
fn text_that_is_always_continued() {
    let scene = Scene::new(Protocol::Iscsi);
    for (opcode, reason) in [
        (iscsi::LOGIN, "broke the login's rules: too much text"),
        (iscsi::TEXT, "broke the protocol: too much text"),
    ] {
        // Another answer to each request, and then answers that nobody waited for.
        for times in [1, 4096] {
            scene.fails(&["discover", "PORTAL"], reason, move |pdu, client| match pdu {
                Pdu::Asked(asked) if iscsi::opcode(asked) == opcode => {
                    let more = iscsi::endless(asked);
                    let mut client = client.lock().unwrap();
                    (0..times).try_for_each(|_| client.write_all(&more))?;
                    Ok(Fate::Kept)
                }
                _ => Ok(Fate::Passed),
            });
        }
    }
}

#[test]
fn r2ts_without_end() {
    let scene = Scene::new(Protocol::Iscsi);
    scene.fails(&WRITES_TO_FAIL, "the target broke the protocol: data out of order", |pdu, client| {
        if let Pdu::Asked(asked) = pdu
            && iscsi::opcode(asked) == iscsi::COMMAND
            && iscsi::WRITES.contains(&asked[32])
        {
            flood(client, &iscsi::r2t(asked))?;
        }
        Ok(Fate::Passed)
    });
    let scene = Scene::new(Protocol::Nvme);
    scene.fails(&WRITES_TO_FAIL, "the controller broke the protocol: ", |pdu, client| {
        if let Pdu::Asked(asked) = pdu
            && nvme::command(asked) == Some(nvme::WRITE)
        {
            flood(client, &nvme::r2t(asked, 512 << 10))?;
        }
        Ok(Fate::Passed)
    });
}

#[test]
fn data_that_is_never_completed() {
    let scene = Scene::new(Protocol::Iscsi);
    scene.fails(&READS_TO_FAIL, "the volume did not answer in time", |pdu, _| {
        if let Pdu::Told(told) = pdu
            && iscsi::is_data(told)
        {
            // Without the Status bit.
            told[1] = 0;
        }
        Ok(Fate::Passed)
    });
    let scene = Scene::new(Protocol::Nvme);
    scene.fails(&READS_TO_FAIL, "the volume did not answer in time", |pdu, _| {
        if let Pdu::Told(told) = pdu
            && told[0] == nvme::DATA
            && told[16..20] == BLOCK.to_le_bytes()
        {
            // Neither the last data nor a success.
            told[1] &= !0x0c;
        }
        Ok(Fate::Passed)
    });
}

#[test]
fn events_without_end() {
    let scene = Scene::new(Protocol::Nvme);
    let asked_for = scene.run(&CHECK, |pdu, client| match pdu {
        Pdu::Asked(asked) if nvme::command(asked) == Some(nvme::ASYNC_EVENT) => {
            client.lock().unwrap().write_all(&nvme::event(asked))?;
            Ok(Fate::Kept)
        }
        _ => Ok(Fate::Passed),
    });
    assert!(asked_for.succeeded, "{}", asked_for.said);
    scene.fails(&READS_TO_FAIL, "linerate: ", |pdu, client| match pdu {
        Pdu::Asked(asked) if nvme::command(asked) == Some(nvme::ASYNC_EVENT) => {
            flood(client, &nvme::event(asked))?;
            Ok(Fate::Kept)
        }
        _ => Ok(Fate::Passed),
    });
}

#[test]
fn discovery_log_pages_that_lie_about_their_length_or_never_stay_the_same() {
    let scene = Scene::new(Protocol::Nvme);
    for (entries, reason) in [
        (4096, "the controller refused: Invalid Field"),
        (0, "keeps changing"),
        (u64::MAX, "too many entries"),
        (4097, "too many entries"),
    ] {
        let (asks, changes) = (AtomicU64::new(0), AtomicU64::new(9));
        scene.fails(&["discover", "PORTAL"], reason, move |pdu, _| {
            match pdu {
                Pdu::Asked(asked) => {
                    // From the page's first byte.
                    let header = nvme::command(asked) == Some(nvme::GET_LOG_PAGE) && asked[56..64] == [0; 8];
                    asks.store(header.into(), Ordering::Relaxed);
                }
                Pdu::Told(told) => {
                    if told[0] == nvme::DATA && asks.load(Ordering::Relaxed) == 1 {
                        let page = usize::from(told[3]);
                        let change = changes.fetch_add(1, Ordering::Relaxed);
                        told[page..page + 8].copy_from_slice(&change.to_le_bytes());
                        told[page + 8..page + 16].copy_from_slice(&entries.to_le_bytes());
                    }
                }
            }
            Ok(Fate::Passed)
        });
    }
}
