//! A volume that is made of others behind cores that have nothing to do: it makes good what it has missed, with no connection.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;
#[path = "../../volume/tests/mirror/mod.rs"]
mod mirror;
#[path = "../../volume/tests/mirror/mortal.rs"]
mod mortal;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

use buf::Buf;
use common::Server;
use host::{Kind, Level};
use mirror::Mirror;
use mortal::Mortal;
use protocol::Instant;
use volume::{CoreId, Durability, Extent, Operation, PathState, QueueContext, Ram, Request, Tag, Volume};

#[test]
fn a_leg_that_dies_and_returns_is_copied_with_no_connection() {
    let away = Arc::new(AtomicBool::new(false));
    let ram = || Arc::new(Ram::new(1 << 20, 512).unwrap());
    let mortal = Mortal { inner: ram(), away: Arc::clone(&away) };
    let mirror: Arc<dyn Volume> = Arc::new(Mirror::new(vec![ram(), Arc::new(mortal)]));
    let mut server = Server::of(Arc::clone(&mirror), 1 << 20);
    for stream in [1, 0] {
        server.hang_up(stream);
    }
    server.run();
    away.store(true, Ordering::Relaxed);
    // Somebody writes who is gone afterwards.
    let context = QueueContext::without_pool(CoreId(7), Waker::noop().clone());
    let mut queue = mirror.open_queue(&context).unwrap();
    let (extent, data) = (Extent::new(5, 1), Buf::from(vec![5; 512]).freeze().into());
    let operation = Operation::Write { extent, data, durability: Durability::Cached };
    assert!(queue.submit(Instant::ZERO, Request { tag: Tag(1), operation }).is_ok());
    let mut done = Vec::new();
    (0..10).for_each(|_| queue.poll(Instant::ZERO, &mut done));
    assert!(done.len() == 1 && done[0].result.is_ok(), "{done:?}");
    drop(queue);
    let wait = |server: &mut Server| (0..200).for_each(|_| server.wait(Duration::from_millis(10)));
    wait(&mut server);
    assert_eq!(mirror.path(), PathState::Degraded { missing: 1 });
    away.store(false, Ordering::Relaxed);
    wait(&mut server);
    assert_eq!(mirror.path(), PathState::Optimized);
    let events = server.journal.take().into_iter().filter(|event| event.kind == Kind::Path);
    let told: Vec<_> = events.map(|event| (event.level, event.reason.into_owned())).collect();
    let expected = [
        (Level::Warn, "the path to the volume is degraded (1 missing)".to_owned()),
        (Level::Info, "the path to the volume is optimized".to_owned()),
    ];
    assert_eq!(told, expected);
}
