//! A requester and a peer that does no more than it must, as Linux' rxe: it keeps as many RDMA Reads as were agreed and the newest of them, answers a repeated one only as far
//! as it lies within what was asked for last, says once that a packet is missing, and is silent otherwise. Its network loses packets, both ways, by seed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod rig;

use std::collections::VecDeque;

use buf::Buf;
use protocol::{Entropy, SeededEntropy};
use rig::victim::{OWN_FIRST, Said, Victim, acknowledge, response};
use rig::{done, list, post};
use roce::opcode::Opcode;
use roce::packet::Extended;
use roce::syndrome::{Credits, Nak, Syndrome};
use verbs::{QueuePair as _, QueuePairState, RemoteRegion, STag, WorkDone, WorkMemory, WorkRequest};

const MTU: usize = 256;
/// Bytes of the peer's memory, and where it begins. The first half is written, the second is read: a read that is repeated may find what a later write has brought.
const REGION: usize = 30_000;
const HALF: usize = REGION / 2;
const BEGIN: u64 = 0x1000;
/// RDMA Reads that the peer keeps.
const READS: usize = 2;
const REQUESTS: usize = 60;
const SEEDS: u64 = 200;

/// A read that the peer keeps.
struct Kept {
    first: u32,
    end: u32,
    address: u64,
    length: u64,
}

/// What the peer has taken and said.
struct Peer {
    memory: Vec<u8>,
    /// The packet that is due, and the one behind the last message or write.
    expected: u32,
    acknowledged: u32,
    has_told: bool,
    kept: VecDeque<Kept>,
    /// Where the write that is coming goes on.
    place: usize,
    messages: Vec<Vec<u8>>,
    coming: Vec<u8>,
    /// Reads that it has left unanswered, and such as it has answered again.
    unanswered: usize,
    repeated: usize,
}

impl Peer {
    fn new(memory: Vec<u8>) -> Self {
        Self {
            memory,
            expected: OWN_FIRST,
            acknowledged: OWN_FIRST,
            has_told: false,
            kept: VecDeque::new(),
            place: 0,
            messages: Vec::new(),
            coming: Vec::new(),
            unanswered: 0,
            repeated: 0,
        }
    }

    fn take(&mut self, said: &Said) -> Vec<Said> {
        let is_read = said.opcode == Opcode::READ_REQUEST;
        if said.sequence > self.expected {
            let is_first = !std::mem::replace(&mut self.has_told, true);
            let missing = acknowledge(self.expected, Syndrome::Nak(Nak::Sequence));
            return is_first.then_some(missing).into_iter().collect();
        }
        if said.sequence < self.expected {
            return if is_read { self.read_again(said) } else { vec![self.acknowledge()] };
        }
        self.has_told = false;
        if is_read {
            return self.read(said);
        }
        self.carry_out(said);
        self.expected += 1;
        self.acknowledged = self.expected;
        if said.asks { vec![self.acknowledge()] } else { Vec::new() }
    }

    fn acknowledge(&self) -> Said {
        acknowledge(self.acknowledged - 1, Syndrome::Ack(Credits::UNLIMITED))
    }

    fn carry_out(&mut self, said: &Said) {
        match said.opcode {
            Opcode::SEND_FIRST | Opcode::SEND_MIDDLE => self.coming.extend(&said.payload),
            Opcode::SEND_LAST | Opcode::SEND_ONLY => {
                self.coming.extend(&said.payload);
                self.messages.push(std::mem::take(&mut self.coming));
            }
            _ => {
                if let Extended::Memory(memory) = said.extended {
                    self.place = usize::try_from(memory.address.get() - BEGIN).unwrap();
                }
                self.memory[self.place..self.place + said.payload.len()].copy_from_slice(&said.payload);
                self.place += said.payload.len();
            }
        }
    }

    fn read(&mut self, said: &Said) -> Vec<Said> {
        let Extended::Memory(memory) = said.extended else { panic!("{said:?}") };
        let (address, length) = (memory.address.get(), u64::from(memory.length.get()));
        let packets = u32::try_from(length.div_ceil(MTU as u64).max(1)).unwrap();
        let (first, end) = (said.sequence, said.sequence + packets);
        if self.kept.len() == READS {
            self.kept.pop_front();
        }
        self.kept.push_back(Kept { first, end, address, length });
        self.expected = end;
        self.respond(first, (address, length), true)
    }

    fn read_again(&mut self, said: &Said) -> Vec<Said> {
        let Extended::Memory(memory) = said.extended else { panic!("{said:?}") };
        let (address, length) = (memory.address.get(), u64::from(memory.length.get()));
        let has = |kept: &&mut Kept| (kept.first..kept.end).contains(&said.sequence);
        let known = self.kept.iter_mut().find(has);
        let within = |kept: &&mut Kept| {
            let end = kept.address + kept.length;
            address >= kept.address && length <= kept.length && address + length <= end
        };
        let Some(kept) = known.filter(within) else {
            self.unanswered += 1;
            return Vec::new();
        };
        kept.address = address;
        // Its length stays, as rxe's does: the end is checked against more than was asked for.
        let begins = said.sequence == kept.first;
        self.repeated += 1;
        self.respond(said.sequence, (address, length), begins)
    }

    fn respond(&self, first: u32, (address, length): (u64, u64), begins: bool) -> Vec<Said> {
        let start = usize::try_from(address - BEGIN).unwrap();
        let bytes = &self.memory[start..start + usize::try_from(length).unwrap()];
        let chunks: Vec<&[u8]> = if bytes.is_empty() { vec![bytes] } else { bytes.chunks(MTU).collect() };
        let last = chunks.len() - 1;
        let opcode = |at: usize| match (at == 0 && begins, at == last) {
            (true, true) => Opcode::READ_RESPONSE_ONLY,
            (true, false) => Opcode::READ_RESPONSE_FIRST,
            (false, true) => Opcode::READ_RESPONSE_LAST,
            (false, false) => Opcode::READ_RESPONSE_MIDDLE,
        };
        let numbered = (first..).zip(chunks.iter().enumerate());
        numbered.map(|(sequence, (at, chunk))| response(opcode(at), sequence, chunk)).collect()
    }
}

/// What a request is to come to.
enum Expected {
    Sent,
    Written,
    Read(Vec<u8>),
}

/// The requester's part of a trial.
struct Requester {
    entropy: SeededEntropy,
    /// What the peer's memory holds once everything has been written.
    model: Vec<u8>,
    messages: Vec<Vec<u8>>,
    posted: VecDeque<Expected>,
}

impl Requester {
    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.entropy.number() % (limit as u64)).unwrap()
    }

    fn ask(&mut self, victim: &mut Victim, id: u64) {
        let length = [1, MTU, 1000, 16 * MTU, 17 * MTU, 12_000][self.below(6)];
        let at = self.below(HALF - length);
        let kind = self.below(4);
        let start = if kind == 1 { at } else { HALF + at };
        let mut bytes = vec![0; length];
        self.entropy.fill(&mut bytes);
        let region = RemoteRegion {
            stag: STag(0x501),
            offset: BEGIN + start as u64,
            length: u32::try_from(length).unwrap(),
        };
        let (request, expected) = match kind {
            0 => {
                self.messages.push(bytes.clone());
                (WorkRequest::Send { data: list(&bytes), invalidate: None }, Expected::Sent)
            }
            1 => {
                self.model[start..start + length].copy_from_slice(&bytes);
                (WorkRequest::Write { data: list(&bytes), to: region }, Expected::Written)
            }
            _ => {
                let held = self.model[start..start + length].to_vec();
                let into = Buf::zeroed(length);
                (WorkRequest::Read { into, from: region }, Expected::Read(held))
            }
        };
        post(victim.connection(), id, request);
        self.posted.push_back(expected);
    }

    fn hear(&mut self, victim: &mut Victim) {
        for done in done(victim.connection()) {
            match (self.posted.pop_front().unwrap(), done.result.unwrap(), done.memory) {
                (Expected::Sent, WorkDone::Sent, _) | (Expected::Written, WorkDone::Written, _) => {}
                (Expected::Read(held), WorkDone::Read, WorkMemory::Buf(buf)) => {
                    assert!(buf[..held.len()] == held, "a read brings other bytes");
                }
                (_, other, _) => panic!("a request comes to {other:?}"),
            }
        }
    }
}

/// One trial: how many reads were answered again.
fn trial(seed: u64) -> usize {
    let mut entropy = SeededEntropy::new(seed);
    let mut memory = vec![0; REGION];
    entropy.fill(&mut memory);
    let mut requester = Requester {
        entropy: SeededEntropy::new(!seed),
        model: memory.clone(),
        messages: Vec::new(),
        posted: VecDeque::new(),
    };
    let (mut victim, mut peer) = (Victim::initiator(u8::try_from(READS).unwrap()), Peer::new(memory));
    let loss = [10, 30, 100][usize::try_from(seed % 3).unwrap()];
    let mut is_lost = move || entropy.number() % 1000 < loss;
    let mut asked = 0;
    while asked < REQUESTS || !requester.posted.is_empty() {
        while asked < REQUESTS && requester.posted.len() < victim.connection().limits().sends {
            requester.ask(&mut victim, asked as u64);
            asked += 1;
        }
        let said = victim.hear();
        if said.is_empty() {
            victim.wait();
            assert_eq!(victim.connection().state(), QueuePairState::Open, "the peer is silent");
        }
        for said in said.iter().filter(|_| !is_lost()).collect::<Vec<_>>() {
            for answer in peer.take(said) {
                if !is_lost() {
                    victim.tell_silently(&answer);
                }
            }
        }
        requester.hear(&mut victim);
    }
    assert_eq!(peer.unanswered, 0, "a read is repeated otherwise than it was asked for, or too late");
    assert!(peer.memory == requester.model && peer.messages == requester.messages);
    peer.repeated
}

#[test]
fn a_peer_that_does_no_more_than_it_must_answers_everything() {
    let repeated: usize = (0..SEEDS).map(trial).sum();
    assert!(repeated > 1000, "{repeated} reads were answered again");
}
