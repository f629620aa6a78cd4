//! A second kind, to hold the machinery to its word: file systems in memory, which have no block, no flush and no size, through the queues, hub, driver, fences,
//! withdrawal and retirement that volumes have, over two cores that speak by message.

mod connection;
mod files;
mod server;

use std::sync::Arc;
use std::time::Duration;

use host::{Kind, Level};
use protocol::CloseReason;
use volume::filter::Delay;
use volume::{CoreId, OpenError, Operation, Ram, Request, Tag, Volume};

use self::files::{Call, FileSystem, ServedFiles};
use self::server::{Listing, Server};
use crate::catalogue::{ControlEvent, Generation, ProposalError, ServedVolume};
use crate::message::{Cause, Inbound, Member, Message, ResetCall};
use crate::served_id::ServedId;

const SECOND: Duration = Duration::from_secs(1);
const DOCS: ServedId = ServedId::new(0, 0);
const DISK: ServedId = ServedId::new(1, 0);

fn docs(files: FileSystem) -> ServedFiles {
    ServedFiles { id: DOCS, name: "docs".into(), files: Arc::new(files) }
}

/// A file system whose calls take a second.
fn slow() -> ServedFiles {
    docs(FileSystem { delay: SECOND, ..FileSystem::default() })
}

fn serving(files: &ServedFiles) -> Server {
    Server::new(&Listing { files: vec![files.clone()], volumes: Vec::new() })
}

fn stable(served: &ServedFiles, path: &str) -> Option<String> {
    served.files.content.lock().unwrap().stable.get(path).cloned()
}

fn commits(served: &ServedFiles) -> Vec<CoreId> {
    served.files.content.lock().unwrap().commits.clone()
}

const fn retired(id: ServedId, secured: bool, forced: u32) -> ControlEvent {
    ControlEvent::Retired { id, secured, forced }
}

const fn applied(generation: u64) -> ControlEvent {
    ControlEvent::Applied(Generation(generation))
}

#[test]
fn a_file_is_written_on_one_core_and_read_on_the_other() {
    let docs = docs(FileSystem::default());
    let mut server = serving(&docs);
    let [writer, reader] = [0, 1].map(|core| server.connect(core, &docs));
    assert_eq!(server.say(writer, "1 open a.txt"), "1 handle 0");
    assert_eq!(server.say(writer, "2 append 0 hello"), "2 done");
    assert_eq!(server.say(reader, "1 open a.txt"), "1 handle 1");
    assert_eq!(server.say(reader, "2 read 1"), "2 content hello");
    assert_eq!(stable(&docs, "a.txt"), None);
    assert_eq!(server.say(writer, "3 commit"), "3 done");
    assert_eq!(stable(&docs, "a.txt").as_deref(), Some("hello"));
    assert_eq!(server.say(reader, "3 read 7"), "3 failed: no such file is open");
}

#[test]
fn a_failure_is_told_in_the_kinds_own_words() {
    let docs = docs(FileSystem::default());
    let mut server = serving(&docs);
    let client = server.connect(1, &docs);
    docs.files.content.lock().unwrap().full = true;
    assert_eq!(server.say(client, "1 commit"), "1 failed: the file system is full");
    let [event] = &server.journal.take()[..] else { panic!("one event") };
    assert_eq!((event.kind, event.level), (Kind::NoSpace, Level::Error));
    assert_eq!((event.volume.as_deref(), &*event.reason), (Some("docs"), "the file system is full"));
    assert!(event.peer.is_some());
}

#[test]
fn what_a_full_queue_gives_back_waits_and_can_be_cancelled() {
    let docs = docs(FileSystem { delay: SECOND, depth: 1, ..FileSystem::default() });
    let mut server = serving(&docs);
    let client = server.connect(0, &docs);
    for line in ["1 open a.txt", "2 append 0 x", "3 append 0 y", "4 read 0"] {
        assert_eq!(server.say(client, line), "");
    }
    assert_eq!(server.say(client, "9 cancel 3"), "3 failed: the call was cancelled", "it was parked");
    assert_eq!(server.say(client, "9 cancel 1"), "1 failed: the call was cancelled", "it was under way");
    docs.files.content.lock().unwrap().call(CoreId(0), Call::Open("a.txt".to_owned())).unwrap();
    server.wait(SECOND);
    assert_eq!(server.hear(client), "2 done");
    server.wait(SECOND);
    assert_eq!(server.hear(client), "4 content x");
}

#[test]
fn a_fence_waits_for_older_calls_on_all_cores_and_lets_none_follow() {
    let docs = slow();
    let mut server = serving(&docs);
    let [owner, other] = [0, 1].map(|core| server.connect(core, &docs));
    server.say(other, "1 open a.txt");
    server.wait(SECOND);
    assert_eq!(server.hear(other), "1 handle 0");
    assert_eq!(server.say(other, "2 append 0 older"), "", "under way on core 1");
    server.parse(other, "3 append 0 late");
    server.parse(other, "4 read 0");
    assert_eq!(server.say(owner, "1 freeze"), "", "the older append can still land");
    assert_eq!(server.hear(other), "3 frozen", "judged before, and judged again");
    assert_eq!(server.say(other, "5 append 0 newer"), "5 frozen");
    server.wait(SECOND);
    assert_eq!(server.hear(owner), "1 done");
    assert_eq!(server.hear(other), "2 done, 4 content older");
    let late = server.connect(1, &docs);
    assert_eq!(server.say(late, "1 read 0"), "");
    server.wait(SECOND);
    assert_eq!(server.hear(late), "1 content older", "who comes later knows the epoch");
}

#[test]
fn a_withdrawn_file_system_is_served_while_it_is_used_and_committed_on_each_core_then() {
    let docs = docs(FileSystem::default());
    let mut server = serving(&docs);
    let clients = [0, 1].map(|core| server.connect(core, &docs));
    assert_eq!(server.say(clients[0], "1 open a.txt"), "1 handle 0");
    assert_eq!(server.say(clients[1], "1 open b.txt"), "1 handle 1");
    assert_eq!(server.propose(2, Listing::default()), [applied(2)]);
    server.wait(4 * SECOND);
    for (handle, client) in clients.into_iter().enumerate() {
        assert_eq!(server.say(client, &format!("2 append {handle} last words")), "2 done");
        assert_eq!(server.close_reason(client), None);
        server.hang_up(client);
    }
    assert_eq!(commits(&docs), [], "nobody has asked for one");
    server.wait(Duration::from_millis(50));
    assert_eq!(server.observed(), [retired(DOCS, true, 0)]);
    assert_eq!(commits(&docs), [CoreId(0), CoreId(1)], "the last request of each core");
    for path in ["a.txt", "b.txt"] {
        assert_eq!(stable(&docs, path).as_deref(), Some("last words"), "{path}");
    }
    assert_eq!(docs.files.content.lock().unwrap().queues, 0);
}

#[test]
fn who_stays_too_long_is_closed_and_its_calls_are_waited_for_and_counted() {
    let docs = docs(FileSystem { delay: 60 * SECOND, ..FileSystem::default() });
    let mut server = serving(&docs);
    let client = server.connect(1, &docs);
    server.say(client, "1 open a.txt");
    server.propose(2, Listing::default());
    server.wait(Duration::from_millis(4999));
    assert_eq!(server.close_reason(client), None);
    server.wait(Duration::from_millis(1));
    let reason = server.close_reason(client);
    assert_eq!(reason, Some(CloseReason::Withdrawn("a file system in use is not served any more")));
    assert_eq!(server.observed(), []);
    // The call ends after its time, and the commits take as much again.
    server.wait(60 * SECOND);
    server.wait(60 * SECOND);
    assert_eq!(server.observed(), [retired(DOCS, true, 1)]);
    server.hang_up(client);
}

#[test]
fn a_commit_that_fails_secures_nothing_and_what_cannot_change_needs_none() {
    for is_read_only in [false, true] {
        let docs = docs(FileSystem { is_read_only, ..FileSystem::default() });
        let mut server = serving(&docs);
        docs.files.content.lock().unwrap().full = true;
        let observed = server.propose(2, Listing::default());
        assert_eq!(observed, [applied(2), retired(DOCS, is_read_only, 0)]);
    }
}

#[test]
fn a_file_system_that_one_core_cannot_open_comes_to_no_core() {
    let mut server = Server::new(&Listing::default());
    let files = Arc::new(FileSystem { cores: CoreId(1), ..FileSystem::default() });
    let docs = ServedFiles { id: DOCS, name: "docs".into(), files };
    let listing = Listing { files: vec![docs.clone()], volumes: Vec::new() };
    let error = OpenError::new("it has no queue for this core");
    let refused = ProposalError::Volume { volume: "docs".into(), error };
    assert_eq!(server.propose(2, listing), [ControlEvent::Rejected(Generation(2), refused)]);
    assert_eq!(docs.files.content.lock().unwrap().queues, 0, "what the other core had opened is closed");
}

#[test]
fn a_server_that_stops_commits_on_every_core_once_nobody_is_connected() {
    let docs = docs(FileSystem::default());
    let mut server = serving(&docs);
    let client = server.connect(1, &docs);
    server.say(client, "1 open a.txt");
    assert_eq!(server.say(client, "2 append 0 x"), "2 done");
    for core in [0, 1] {
        server.post(core, Message::Shutdown);
    }
    server.run();
    assert_eq!(server.close_reason(client), Some(CloseReason::ShuttingDown));
    assert_eq!(server.observed(), [], "core 1 has a client");
    server.hang_up(client);
    assert_eq!(server.observed(), [retired(DOCS, true, 0)]);
    assert_eq!(stable(&docs, "a.txt").as_deref(), Some("x"));
    assert!(server.cores.iter().all(|core| core.is_finished));
}

/// A volume whose requests take a second.
fn disk(id: ServedId) -> ServedVolume {
    let inner: Arc<dyn Volume> = Arc::new(Ram::new(1 << 20, 512).unwrap());
    ServedVolume { id, name: "disk".into(), volume: Arc::new(Delay::new(inner, SECOND)) }
}

#[test]
fn two_kinds_share_cores_and_slots_and_neither_waits_for_the_other() {
    let docs = docs(FileSystem::default());
    let mut server = Server::new(&Listing { files: vec![docs.clone()], volumes: vec![disk(DISK)] });
    let client = server.connect(1, &docs);
    let hub = server.cores[1].volumes.hub.clone();
    let accepted = "127.0.0.1:3260".parse().unwrap();
    let slot = hub.join(host::EndpointId(77), accepted, host::ListenerId(1));
    let request = Request { tag: Tag(5), operation: Operation::Flush };
    hub.submit(server.now, slot, volume::Submission { volume: DISK, epoch: volume::Epoch(0), request })
        .unwrap();
    assert_eq!(server.say(client, "1 freeze"), "1 done", "the volume's request is not waited for");
    let from = Member { core: 1, endpoint: host::EndpointId(0) };
    let reset = ResetCall { from, tag: 2, served: vec![DISK], cause: Cause::Unconcerned };
    server.post(0, Message::Reset(reset));
    server.run();
    assert_eq!(server.hear(client), "", "the volume's fence waits for it");
    let [Some(Inbound::Fence(fence)), None] = [hub.take(slot), hub.take(slot)] else { panic!("a fence") };
    assert_eq!(fence.served, DISK, "and the other kind's is not told");
    server.wait(SECOND);
    assert_eq!(server.hear(client), "2 done");
    let Some(Inbound::Completion(completion)) = hub.take(slot) else { panic!("its completion") };
    assert!(completion.result.is_ok() && completion.tag == Tag(5));
}

#[test]
fn a_place_is_used_again_by_another_kind() {
    let docs = docs(FileSystem::default());
    let mut server = serving(&docs);
    let next = ServedId::new(0, 1);
    assert_eq!(server.propose(2, Listing::default()), [applied(2), retired(DOCS, true, 0)]);
    let listing = Listing { files: Vec::new(), volumes: vec![disk(next)] };
    assert_eq!(server.propose(3, listing), [applied(3)]);
    assert_eq!(server.propose(4, Listing::default()), [applied(4)]);
    server.wait(SECOND);
    assert_eq!(server.observed(), [retired(next, true, 0)], "a flush is the last of a volume");
}
