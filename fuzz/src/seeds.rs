//! Writes the first corpus: what our own two ends say to each other, and commands worth beginning from.
//!
//! `cargo run -p fuzz --bin seeds` writes `fuzz/corpus/TARGET/ours*`; the bytes are the same each time.

use std::path::Path;
use std::sync::Arc;

use ::iscsi::session::Sessions;
use ::iscsi::{initiator, target};
use ::nvme::subsystem::Subsystems;
use ::nvme::{controller, host};
use buf::{Buf, BufList, Pool};
use fuzz::targets::{iscsi, nvme};
use protocol::pair::Half;
use protocol::{Connection, Instant, SeededEntropy};
use volume::{Durability, Extent, Operation, Request, Tag};

/// Rounds after which both ends have said all they have to say.
const ROUNDS: usize = 40;

/// What each of two ends sent, each with the byte in front that says "in one chunk".
struct Said {
    near: Vec<u8>,
    far: Vec<u8>,
}

fn listen<A: Connection, B: Connection>(
    near: &mut Half<A>,
    far: &mut Half<B>,
    mut act: impl FnMut(&mut Half<B>),
) -> Said {
    let mut said = Said { near: vec![0], far: vec![0] };
    for _ in 0..ROUNDS {
        let out = near.transmit(Instant::ZERO);
        far.receive(Instant::ZERO, &out);
        act(far);
        let back = far.transmit(Instant::ZERO);
        near.receive(Instant::ZERO, &back);
        while near.connection.poll_action().is_some() {}
        said.near.extend(out);
        said.far.extend(back);
    }
    said
}

fn iscsi_said() -> Option<Said> {
    let pool = Pool::new(8 << 20);
    let entropy = Box::new(SeededEntropy::new(1));
    let near = initiator::Connection::new(Instant::ZERO, iscsi::config()?, pool.clone(), entropy);
    let far = target::Connection::new(Instant::ZERO, Arc::new(iscsi::portal()?), iscsi::resources(&pool));
    let mut sessions = Sessions::new();
    Some(listen(&mut Half::new(near), &mut Half::new(far), |far| iscsi::serve(far, &mut sessions)))
}

fn nvme_said() -> Said {
    let near = host::Connection::new(nvme::config(), Instant::ZERO);
    let far = controller::Connection::new(Arc::new(nvme::portal()), Pool::new(8 << 20), Instant::ZERO);
    let mut subsystems = Subsystems::new();
    listen(&mut Half::new(near), &mut Half::new(far), |far| nvme::serve(far, &mut subsystems))
}

/// What a host says to an I/O queue, with a read, a write, a flush and a discard.
fn nvme_io_said() -> Option<Vec<u8>> {
    let mut near = Half::new(host::Connection::new(nvme::config(), Instant::ZERO));
    let portal = Arc::new(nvme::portal());
    let connection = controller::Connection::new(Arc::clone(&portal), Pool::new(8 << 20), Instant::ZERO);
    let (mut far, mut subsystems, mut remote) = (Half::new(connection), Subsystems::new(), None);
    for _ in 0..ROUNDS {
        far.receive(Instant::ZERO, &near.transmit(Instant::ZERO));
        nvme::serve(&mut far, &mut subsystems);
        near.receive(Instant::ZERO, &far.transmit(Instant::ZERO));
        while let Some(action) = near.connection.poll_action() {
            if let host::Action::Ready(found) = action {
                remote = Some(found);
            }
        }
    }
    let queue = host::Queue::Io { qid: 1, remote: remote? };
    let config = host::Config { queue, ..nvme::config() };
    let mut near = Half::new(host::Connection::new(config, Instant::ZERO));
    let mut far = Half::new(controller::Connection::new(portal, Pool::new(8 << 20), Instant::ZERO));
    let extent = Extent::new(8, 4);
    let data = BufList::from(Buf::zeroed(2048).freeze());
    let operations = [
        Operation::Read { extent, into: Buf::zeroed(2048) },
        Operation::Write { extent, data, durability: Durability::Durable },
        Operation::Flush,
        Operation::Discard { extent },
    ];
    for (tag, operation) in (0..).zip(operations) {
        near.connection
            .handle_input(Instant::ZERO, host::Input::Submit(Request { tag: Tag(tag), operation }));
    }
    Some(listen(&mut near, &mut far, nvme::serve_queue).near)
}

/// One command of 24 bytes for each operation code.
fn scsi_commands() -> Vec<u8> {
    let records = (0..=255_u8).map(|opcode| {
        let mut record = [0; 24];
        record[0] = opcode;
        record[13] = 8;
        record[16..].copy_from_slice(&[opcode % 3, 0, 16, 0, 0, 1, 0, 0]);
        record
    });
    records.flatten().collect()
}

fn write(target: &str, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(name), bytes)
}

fn main() -> std::io::Result<()> {
    if let Some(said) = iscsi_said() {
        write("iscsi_target", "ours", &said.near)?;
        write("iscsi_initiator", "ours", &said.far)?;
    }
    let said = nvme_said();
    write("nvme_admin", "ours", &said.near)?;
    write("nvme_host", "ours", &said.far)?;
    if let Some(said) = nvme_io_said() {
        write("nvme_io", "ours", &said)?;
    }
    write("nvme_decoders", "ours", &[0; 1024])?;
    write("iscsi_chap", "ours", b"0x0123456789abcdef")?;
    write(
        "iscsi_login",
        "ours",
        b"InitiatorName=iqn.2026-11.org.linerate:fuzz\0SessionType=Normal\0HeaderDigest=None,CRC32C\0",
    )?;
    for (index, part) in scsi_commands().chunks(24 * 32).enumerate() {
        write("scsi_command", &format!("ours-{index}"), part)?;
    }
    write("scsi_initiator", "ours", &[0; 64])?;
    write("names", "ours", b"delay=5ms+readonly+file:disk.img?size=2G&direct=1")?;
    write("names", "ours-iscsi", b"iscsi://[::1]:3260/iqn.2026-11.org.linerate:disk/0?header_digest=crc32c")
}
