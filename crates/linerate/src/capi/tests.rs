//! A C program that scribbles over its memory as soon as it is told that a write has ended, and a target that answers before it has
//! read what it asked for: what is on the wire is what was written.

use std::ffi::{CString, c_void};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::*;

/// Bytes of the write: more than a socket takes while nobody reads.
const LEN: usize = 4 << 20;
/// What the program puts over its memory.
const SCRIBBLE: u8 = 0xee;

/// A block of the data; no byte of it is [`SCRIBBLE`].
fn byte(at: usize) -> u8 {
    let mixed = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 37;
    u8::try_from(mixed % 0xee).unwrap()
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

/// A PDU of that opcode with its second byte, the task tag and the numbers of a target whose window is wide.
fn pdu(opcode: u8, flags: u8, tag: &[u8]) -> [u8; 48] {
    let mut header = [0; 48];
    (header[0], header[1]) = (opcode, flags);
    header[16..20].copy_from_slice(tag);
    header[28..32].copy_from_slice(&1_u32.to_be_bytes());
    header[32..36].copy_from_slice(&1000_u32.to_be_bytes());
    header
}

fn send(stream: &mut TcpStream, mut header: [u8; 48], data: &[u8]) {
    header[5..8].copy_from_slice(&u32::try_from(data.len()).unwrap().to_be_bytes()[1..]);
    let mut bytes = [&header[..], data].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    stream.write_all(&bytes).unwrap();
}

fn receive(stream: &mut TcpStream) -> Option<([u8; 48], Vec<u8>)> {
    let mut header = [0; 48];
    stream.read_exact(&mut header).ok()?;
    let mut data = vec![0; number(&header[5..8]).next_multiple_of(4)];
    stream.read_exact(&mut data).ok()?;
    Some((header, data))
}

/// One session of the target. `told` says when the program has been told of its write's end.
fn session(mut stream: TcpStream, told: &Receiver<()>) -> Option<bool> {
    loop {
        let (header, data) = receive(&mut stream)?;
        let tag = &header[16..20];
        match header[0] & 0x3f {
            3 => {
                let mut response = pdu(0x23, header[1], tag);
                response[8..14].copy_from_slice(&header[8..14]);
                response[15] = 1;
                let first: &[u8] = b"AuthMethod=None\0TargetPortalGroupTag=1\0";
                let next: &[u8] =
                    b"InitialR2T=Yes\0ImmediateData=No\0MaxOutstandingR2T=4\0MaxBurstLength=1048576\0";
                send(&mut stream, response, if data.starts_with(b"InitiatorName") { first } else { next });
            }
            1 if header[32] == 0x8a || header[32] == 0x2a => {
                return Some(answer_early(&mut stream, tag, told));
            }
            1 => command(&mut stream, &header),
            6 => send(&mut stream, pdu(0x26, 0x80, tag), &[]),
            _ => {}
        }
    }
}

/// Answers what an initiator asks a unit before it uses it.
fn command(stream: &mut TcpStream, header: &[u8; 48]) {
    let (cdb, tag) = (&header[32..48], &header[16..20]);
    let answer = match (cdb[0], cdb[1] & 1) {
        (0x12, 0) => b"\0\0\x05\x02\x1f\0\0\x02EVIL    TARGET          0001".to_vec(),
        (0x9e, _) => [&131_071_u64.to_be_bytes()[..], &512_u32.to_be_bytes(), &[0; 20]].concat(),
        _ => {
            // ILLEGAL REQUEST, INVALID FIELD IN CDB.
            return send_sense(stream, tag, 5, 0x24);
        }
    };
    let mut response = pdu(0x25, 0x83, tag);
    let left = number(&header[20..24]).saturating_sub(answer.len());
    response[44..48].copy_from_slice(&u32::try_from(left).unwrap().to_be_bytes());
    send(stream, response, &answer);
}

/// Answers a command with CHECK CONDITION, of that sense key and additional sense code.
fn send_sense(stream: &mut TcpStream, tag: &[u8], key: u8, code: u8) {
    let sense = [&[0, 18, 0x70, 0, key, 0, 0, 0, 0, 10][..], &[0; 4], &[code], &[0; 5]].concat();
    let mut response = pdu(0x21, 0x80, tag);
    response[3] = 2;
    send(stream, response, &sense);
}

/// Asks for all of a write's data, says at once that it failed, and reads the data only then: true if all of it is what was written.
fn answer_early(stream: &mut TcpStream, tag: &[u8], told: &Receiver<()>) -> bool {
    for part in 0..4_u32 {
        let mut r2t = pdu(0x31, 0x80, tag);
        r2t[20..24].copy_from_slice(&(7 + part).to_be_bytes());
        r2t[36..40].copy_from_slice(&part.to_be_bytes());
        r2t[40..44].copy_from_slice(&(part << 20).to_be_bytes());
        r2t[44..48].copy_from_slice(&(1_u32 << 20).to_be_bytes());
        send(stream, r2t, &[]);
    }
    // Data flows; then it fails, while the rest of it is still on its way from the program's memory.
    stream.peek(&mut [0]).unwrap();
    send_sense(stream, tag, 3, 0x0c);
    // A library that tells too early tells now. One that does not waits until the data has gone out, and this wait is in vain.
    let _in_vain = told.recv_timeout(Duration::from_millis(300));
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut intact = true;
    while let Some((header, data)) = receive(stream) {
        if header[0] & 0x3f == 5 {
            let offset = number(&header[40..44]);
            intact &= data.iter().enumerate().all(|(at, found)| *found == byte(offset + at));
        }
    }
    intact
}

/// The program: its memory, and whom to tell.
struct Program {
    memory: Vec<u8>,
    told: [Sender<()>; 2],
}

unsafe extern "C" fn scribble(context: *mut c_void, _status: Status) {
    // SAFETY: the context is the program, and its memory is its own again.
    let program = unsafe { &mut *context.cast::<Program>() };
    program.memory.fill(SCRIBBLE);
    for told in &program.told {
        // Whoever does not listen any more does not mind.
        let _gone = told.send(());
    }
}

#[test]
fn a_program_that_was_told_may_write_over_its_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url =
        format!("iscsi://{}/iqn.2026-11.org.example:early/0?reconnect=0", listener.local_addr().unwrap());
    let ((told, hears), (over, is_over)) = (channel(), channel());
    let target = std::thread::spawn(move || {
        // One session looks what is there, and one writes.
        (0..2).find_map(|_| session(listener.accept().unwrap().0, &hears))
    });
    let (url, mut client, mut disk) = (CString::new(url).unwrap(), ptr::null_mut(), ptr::null_mut());
    let mut program = Program { memory: (0..LEN).map(byte).collect(), told: [told, over] };
    // SAFETY: as the header says; the program's memory stays until it was told, which is waited for.
    unsafe {
        assert_eq!(linerate_start(1, &raw mut client), Status::Ok);
        assert_eq!(linerate_open(client, url.as_ptr(), &raw mut disk), Status::Ok);
        let memory = program.memory.as_mut_ptr().cast();
        let request = Request { kind: 1, offset: 0, len: LEN as u64, memory };
        let context = (&raw mut program).cast();
        assert_eq!(linerate_submit(disk, &raw const request, scribble, context), Status::Ok);
    }
    assert_eq!(
        target.join().unwrap(),
        Some(true),
        "the wire showed what the program wrote after it was told"
    );
    is_over.recv().unwrap();
    assert!(program.memory.iter().all(|byte| *byte == SCRIBBLE));
    // SAFETY: both came from there.
    unsafe {
        linerate_close(disk);
        linerate_end(client);
    }
}

/// What the library told of a request.
unsafe extern "C" fn note(context: *mut c_void, status: Status) {
    // SAFETY: the context is this sender, which stays until all are told.
    let told = unsafe { &*context.cast::<Sender<Status>>() };
    told.send(status).unwrap();
}

#[test]
fn a_flush_that_fails_is_told_by_its_completion_and_so_is_each_later_one() {
    let url = CString::new("fail=100%,on=flush+ram:1M").unwrap();
    let (mut client, mut disk) = (ptr::null_mut(), ptr::null_mut());
    let (mut told, hears) = channel::<Status>();
    let mut memory = [7_u8; 512];
    // SAFETY: as the header says; the memory and the sender stay until everything was told.
    unsafe {
        assert_eq!(linerate_start(1, &raw mut client), Status::Ok);
        assert_eq!(linerate_open(client, url.as_ptr(), &raw mut disk), Status::Ok);
        let context: *mut c_void = (&raw mut told).cast();
        for (kind, expected) in [(1, Status::Ok), (3, Status::Media), (3, Status::Media), (0, Status::Ok)] {
            let len = if kind == 3 { 0 } else { 512 };
            let request = Request { kind, offset: 0, len, memory: memory.as_mut_ptr().cast() };
            assert_eq!(linerate_submit(disk, &raw const request, note, context), Status::Ok);
            assert_eq!(hears.recv().unwrap(), expected, "a request of kind {kind}");
        }
        for _ in 0..2 {
            assert_eq!(linerate_flush(disk), Status::Media);
        }
        linerate_close(disk);
        linerate_end(client);
    }
}
