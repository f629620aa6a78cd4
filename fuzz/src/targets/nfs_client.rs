//! NFS clients whose server lies: what a server of ours answers, with some bytes changed, and bytes that are no answers at all.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ::nfs::client::version3::{Export, MountAction, MountConfig, Nfs3Config, Nfs3Keep};
use ::nfs::client::{Access, Action, Config, FileConfig, Input, Keep, Versions, connect};
use ::nfs::v4::Verifier;
use ::rpc::UpperLayer;
use ::rpc::message::AuthSysToSend;
use ::rpc::tcp::TcpConnection;
use buf::{Buf, BufList, SharedBuf};
use protocol::pair::Half;
use protocol::{Connection as _, Ended, Instant};
use volume::{Completion, Durability, Extent, Operation, Outcome, Request, Tag};

use super::nfs::Bench;

/// Bytes of the file.
const SIZE: u64 = 64 << 10;
/// Connections, one after the other.
const CONNECTIONS: u32 = 4;
/// Turns of one connection: a server that answers for ever is cut off.
const TURNS: usize = 500;
/// Bytes that a client may hold in memory of no request's.
const MOST_HELD: usize = 512 << 10;

fn config(keep: &Keep) -> Config {
    Config {
        path: vec![b"data".to_vec(), b"file".to_vec()],
        versions: Versions::Newest,
        access: Access::ReadWrite,
        block_size: 512,
        size: Some(SIZE),
        user: user(),
        owner: b"fuzz".to_vec(),
        verifier: Verifier([7; 8]),
        command_time: Duration::from_secs(30),
        keep: keep.clone(),
    }
}

fn user() -> Arc<AuthSysToSend> {
    Arc::new(AuthSysToSend::new("fuzz", 0, 0, &[]))
}

fn mount_config() -> MountConfig {
    MountConfig {
        path: vec![b"data".to_vec(), b"file".to_vec()],
        user: user(),
        command_time: Duration::from_secs(30),
    }
}

fn config3(export: &Arc<Export>, keep: &Nfs3Keep) -> Nfs3Config {
    Nfs3Config {
        export: Arc::clone(export),
        access: Access::ReadWrite,
        block_size: 512,
        size: Some(SIZE),
        user: user(),
        command_time: Duration::from_secs(30),
        keep: keep.clone(),
    }
}

fn operation(tag: u64) -> Operation {
    let (extent, durability) = (Extent::new(tag % 16, 2), Durability::Cached);
    match tag % 6 {
        0 | 3 => Operation::Read { extent, into: Buf::zeroed(1024) },
        1 => {
            let data = BufList::from(SharedBuf::from(vec![9; 1024]));
            Operation::Write { extent, data, durability: Durability::Durable }
        }
        2 => Operation::WriteZeroes { extent, durability, may_unmap: true },
        4 => Operation::Verify { extent },
        _ => Operation::Flush,
    }
}

/// A client, and what it has been asked and has not answered.
struct Asker<U: UpperLayer> {
    half: Half<TcpConnection<U>>,
    open: BTreeSet<Tag>,
    next: u64,
    now: Instant,
}

impl<U: UpperLayer<Input = Input, Action = Action>> Asker<U> {
    fn new(config: impl FileConfig<Client = U>, xid: u32) -> Self {
        let half = Half::new(connect(Instant::ZERO, config, xid));
        Self { half, open: BTreeSet::new(), next: 0, now: Instant::ZERO }
    }

    /// Takes what it says; asks for more once it is ready.
    fn act(&mut self) {
        while let Some(action) = self.half.connection.poll_action() {
            match action {
                Action::Ready(file) => {
                    assert!(file.geometry.blocks > 0 && file.limits.max_transfer >= 512);
                    for _ in 0..12 {
                        self.next += 1;
                        let tag = Tag(self.next);
                        self.open.insert(tag);
                        let request = Request { tag, operation: operation(tag.0) };
                        self.half.connection.handle_input(self.now, Input::Submit(request));
                    }
                }
                Action::Complete(Completion { tag, result }) => {
                    assert!(self.open.remove(&tag), "it was asked for, and ends once");
                    if let Ok(Outcome::Data(data)) = result {
                        assert_eq!(data.len(), 1024, "all or nothing");
                    }
                }
                Action::Resized(_) | Action::Failed { .. } => {}
            }
        }
        assert!(self.half.connection.held() <= MOST_HELD, "{} bytes", self.half.connection.held());
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.half.receive(self.now, bytes);
        self.act();
    }

    fn is_over(&self) -> bool {
        self.half.connection.poll_close().is_some()
    }

    fn end(mut self) {
        self.half.end(self.now, Ended::ByPeer);
        self.act();
        assert!(self.open.is_empty(), "every request ends");
    }
}

/// A server's answers, of which some bytes are changed: each behind the number of bytes that stay as they are.
pub fn changed_answers(bytes: &[u8]) {
    let keep = Keep::default();
    change_answers(bytes, |_| Some(config(&keep)));
}

/// The same, in version 3, behind a MOUNT that is as it should be.
pub fn changed_answers3(bytes: &[u8]) {
    let keep = Nfs3Keep::default();
    change_answers(bytes, |bench| mounted(bench).map(|export| config3(&export, &keep)));
}

/// The export of the file, which a server of ours always gives.
fn mounted(bench: &mut Bench) -> Option<Arc<Export>> {
    let mut half = Half::new(connect(Instant::ZERO, mount_config(), 0));
    let answer = bench.receive(&half.transmit(Instant::ZERO));
    half.receive(Instant::ZERO, &answer);
    let export = match half.connection.poll_action() {
        Some(MountAction::Mounted(export)) => Some(export),
        _ => None,
    };
    assert!(export.is_some(), "MOUNT finds the export");
    export
}

fn change_answers<C: FileConfig>(bytes: &[u8], mut config: impl FnMut(&mut Bench) -> Option<C>) {
    let mut bench = Bench::with_file();
    let mut changes = bytes
        .chunks_exact(3)
        .map(|change| (usize::from(change[0]) * 4 + usize::from(change[1] % 4), change[2]));
    let mut change = changes.next();
    for connection in 0..CONNECTIONS {
        bench.reconnect();
        let Some(config) = config(&mut bench) else { return };
        let mut asker = Asker::new(config, connection * 1000);
        for _ in 0..TURNS {
            let out = asker.half.transmit(asker.now);
            let mut back = bench.receive(&out);
            if out.is_empty() && back.is_empty() || asker.is_over() {
                break;
            }
            let mut at = 0;
            while let Some((skip, mask)) = change {
                let Some(byte) = back.get_mut(at + skip) else {
                    change = Some((at + skip - back.len(), mask));
                    break;
                };
                *byte ^= mask;
                at += skip + 1;
                change = changes.next();
            }
            asker.hear(&back);
        }
        asker.end();
    }
}

/// What is no server's answer.
pub fn stream(bytes: &[u8]) {
    answer_anything(config(&Keep::default()), bytes);
    let export = Export { root: vec![1; 32], path: mount_config().path, mounted: 1 };
    answer_anything(config3(&Arc::new(export), &Nfs3Keep::default()), bytes);
    answer_mount(bytes);
}

fn answer_mount(bytes: &[u8]) {
    let mut half = Half::new(connect(Instant::ZERO, mount_config(), 0));
    for chunk in super::chunks(bytes) {
        half.transmit(Instant::ZERO);
        half.receive(Instant::ZERO, chunk);
        assert!(half.connection.held() <= MOST_HELD);
    }
    half.end(Instant::ZERO, Ended::ByPeer);
}

fn answer_anything(config: impl FileConfig, bytes: &[u8]) {
    let mut asker = Asker::new(config, 0);
    for chunk in super::chunks(bytes) {
        asker.half.transmit(asker.now);
        asker.hear(chunk);
    }
    asker.end();
}

/// What a server of ours answers to one whole client.
pub fn conversation() -> Vec<u8> {
    let (mut bench, mut said) = (Bench::with_file(), Vec::new());
    bench.reconnect();
    let mut asker = Asker::new(config(&Keep::default()), 0);
    loop {
        let out = asker.half.transmit(asker.now);
        let back = bench.receive(&out);
        if out.is_empty() && back.is_empty() {
            return said;
        }
        asker.hear(&back);
        said.extend(back);
    }
}
