//! A whole session, of an admin and an I/O queue, whose streams are cut, or damaged, at each of their bytes in turn, in both directions. ICReq and ICResp
//! have no digests (NVMe TCP Transport §3.6.2.2, §3.6.2.3). The sibling of iSCSI's tests of the same name.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use buf::{BufList, SharedBuf};
use common::{BLOCKS, Bench, admin, io};
use nvme::controller;
use nvme::host::{Action, Config, Input, RemoteNamespace};
use protocol::pair::{Mishap, aperiodic};
use protocol::{CloseReason, Connection as _};
use volume::{Extent, Operation, VolumeErrorKind, VolumeId};

/// ICReq, and ICResp.
const INITIALIZATION: usize = 128;
const LENGTH: usize = 2 * 512;

/// What a session came to.
#[derive(PartialEq, Default)]
struct End {
    ready: bool,
    results: Vec<(u64, Result<Vec<u8>, VolumeErrorKind>)>,
    stored: Vec<u8>,
    resized: bool,
    closed: Vec<Option<CloseReason>>,
    sent: [[usize; 2]; 2],
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ends: Vec<_> =
            self.results.iter().map(|(tag, result)| (tag, result.as_ref().map(Vec::len))).collect();
        write!(
            f,
            "ready: {}, resized: {}, requests ended with {ends:?}; {:?}",
            self.ready, self.resized, self.closed
        )
    }
}

/// Where a mishap happens: in which queue's connection, and in whose stream.
#[derive(Debug, Clone, Copy)]
struct Place {
    queue: usize,
    end: usize,
}

/// An admin queue, an I/O queue that has to wait for R2Ts, all kinds of commands, a change of the namespace, and a good end.
fn run(digests: bool, written: &[u8], mishap: Option<(Place, Mishap)>) -> End {
    let mut bench = Bench::new();
    let with = |mut config: Config| {
        (config.header_digest, config.data_digest) = (digests, digests);
        config
    };
    let mishaps = |queue: usize| {
        let mut both = [None; 2];
        if let Some((place, mishap)) = mishap.filter(|(place, _)| place.queue == queue) {
            both[place.end] = Some(mishap);
        }
        both
    };
    let mut end = End::default();
    bench.mishaps = mishaps(0);
    bench.connect(with(admin(1)));
    let remote = bench.links[0].events.pop();
    if let Some(Action::Ready(remote)) = remote {
        end.ready = true;
        let told = (remote.geometry.blocks, remote.geometry.block_size, remote.ids.nguid, remote.ids.uuid);
        assert_eq!(told, (BLOCKS, 512, Some([1; 16]), Some([7; 16])), "the host believes damage: {mishap:?}");
        bench.mishaps = mishaps(1);
        bench.connect(with(io(1, &RemoteNamespace { in_capsule: 512, ..*remote })));
        requests(&mut bench, written);
        end.results = bench.links[1].completions();
        end.resized = resize(&mut bench);
        for link in [1, 0] {
            bench.links[link].pair.near.connection.handle_input(protocol::Instant::ZERO, Input::Disconnect);
            bench.run();
        }
    }
    end.stored = bench.disks[0][512..][..written.len()].to_vec();
    for (link, sent) in bench.links.iter().zip(&mut end.sent) {
        end.closed.extend([link.pair.near.connection.poll_close(), link.pair.far.connection.poll_close()]);
        *sent = [link.pair.near.sent(), link.pair.far.sent()];
    }
    end
}

/// One request after the other, each of another kind.
fn requests(bench: &mut Bench, written: &[u8]) {
    let blocks = written.len() as u64 / 512;
    let data = || BufList::from(SharedBuf::from(written.to_vec()));
    bench.links[1].write(1, 1, written.to_vec());
    bench.run();
    bench.links[1].read(2, 1, written.len());
    bench.run();
    bench.links[1].write(3, 1 + blocks, written[..512].to_vec());
    bench.links[1].submit(4, Operation::Compare { extent: Extent::new(1, blocks), data: data() });
    bench.links[1].submit(5, Operation::Flush);
    bench.links[1].submit(6, Operation::Discard { extent: Extent::new(64, 8) });
    bench.run();
}

/// Changes the namespace's size; true if the host is told.
fn resize(bench: &mut Bench) -> bool {
    let mut geometry = bench.portal.subsystems[0].namespaces[0].geometry;
    geometry.blocks = 32;
    for link in 0..bench.links.len() {
        let volume = VolumeId::new(0, 0);
        bench.input(link, controller::Input::NamespaceChanged { volume, geometry });
    }
    bench.run();
    let events = &bench.links[0].events;
    events.iter().any(|event| matches!(event, Action::NamespaceChanged(told) if told.geometry.blocks == 32))
}

/// What is said of a place: whose stream.
fn words(place: Place) -> String {
    let Place { queue, end } = place;
    format!("the {}'s stream of the {} queue", ["host", "controller"][end], ["admin", "I/O"][queue])
}

/// The bytes of a stream to try: all with digests, but of the long data structures of the controller's identification only one in five; without digests
/// fewer.
fn bytes(place: Place, (from, to): (usize, usize), digests: bool) -> impl Iterator<Item = usize> {
    let identification = place.queue == 0 && place.end == 1;
    let stride = if identification { 5 } else { 1 } * if digests { 1 } else { 7 };
    (from..to).step_by(stride)
}

const PLACES: [Place; 4] = [
    Place { queue: 0, end: 0 },
    Place { queue: 0, end: 1 },
    Place { queue: 1, end: 0 },
    Place { queue: 1, end: 1 },
];

#[test]
fn streams_that_are_cut_at_any_byte_carry_the_same_session() {
    let written = aperiodic(LENGTH, 21);
    for digests in [false, true] {
        let whole = run(digests, &written, None);
        assert!(whole.ready && whole.resized && whole.stored == written, "{whole}");
        assert!(
            whole.results.len() == 6 && whole.results.iter().all(|(_, result)| result.is_ok()),
            "{whole}"
        );
        assert!(whole.results[1].1.as_ref().is_ok_and(|data| *data == written));
        for place in PLACES {
            let sent = whole.sent[place.queue][place.end];
            assert!(sent > INITIALIZATION);
            for byte in bytes(place, (1, sent), digests) {
                let cut = run(digests, &written, Some((place, Mishap::Cut(byte))));
                assert!(
                    cut == whole,
                    "{}, cut behind byte {byte} of {sent}, digests {digests}: {cut}",
                    words(place)
                );
            }
        }
    }
}

#[test]
fn damage_of_any_byte_behind_the_initialization_is_found() {
    let written = aperiodic(LENGTH, 22);
    let whole = run(true, &written, None);
    for place in PLACES {
        for byte in bytes(place, (INITIALIZATION, whole.sent[place.queue][place.end]), true) {
            let damaged = run(true, &written, Some((place, Mishap::Flip(byte))));
            let stream = words(place);
            let intact = |part: &[u8], whole: &[u8]| part == whole || part.iter().all(|byte| *byte == 0);
            let blocks = damaged.stored.chunks(512).zip(written.chunks(512));
            assert!(
                blocks.into_iter().all(|(part, whole)| intact(part, whole)),
                "byte {byte} of {stream}: damage is stored"
            );
            for (tag, result) in &damaged.results {
                let Ok(data) = result else { continue };
                assert!(
                    *tag != 1 || damaged.stored == written,
                    "byte {byte} of {stream}: a write is done that is not"
                );
                assert!(
                    *tag != 2
                        || data.chunks(512).zip(written.chunks(512)).all(|(part, whole)| intact(part, whole)),
                    "byte {byte} of {stream}: damage is returned"
                );
            }
            assert!(
                damaged != whole,
                "NVMe/TCP §3.5.1: byte {byte} of {stream} was damaged, and nobody found it"
            );
        }
    }
}
