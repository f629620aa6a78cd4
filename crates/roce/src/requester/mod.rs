//! The requester: sends requests in the order of posting, packet by packet, and sends again from the oldest packet that is not acknowledged (IBTA §9.7.2 to §9.7.6).
//!
//! Everything is acknowledged in order: an acknowledgement covers all packets before it but reads, which their responses end. So one number says what the peer has, and a
//! packet behind it that is acknowledged while a read is not answered says that the response is lost.

mod entry;
mod packets;
mod peer;
mod progress;
mod retry;
mod window;

use alloc::collections::VecDeque;

use protocol::Instant;
use verbs::{RegionTable, WorkCompletion, WorkError, WorkId};

use self::entry::Entry;
pub(crate) use self::entry::Work;
pub(crate) use self::peer::Peer;
use self::progress::Progress;
use self::retry::Retry;
pub(crate) use self::retry::{Attempts, Verdict};
use self::window::Window;
use crate::counters::Order;
use crate::limits::{ENDLESS_RETRIES, RETRIES, SEQUENCE_NUMBERS};
use crate::opcode::Opcode;
use crate::outgoing::Outgoing;
use crate::psn::Psn;
use crate::syndrome::{Nak, Syndrome};
use crate::violation::Violation;

/// A packet of a response to a read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Response<'a> {
    pub(crate) sequence: Psn,
    pub(crate) opcode: Opcode,
    pub(crate) payload: &'a [u8],
}

/// How far an acknowledgement reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// To where it says.
    All,
    /// To a read that has not been answered.
    Read,
}

/// What became of something that the peer said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The connection goes on.
    GoOn,
    /// The peer refuses a request.
    Refused(Nak),
    /// The peer has no receive, too often.
    NeverReady,
    /// The peer breaks a rule.
    Violation(Violation),
}

/// The requester of a connection.
#[derive(Debug)]
pub(crate) struct Requester {
    entries: VecDeque<Entry>,
    limit: usize,
    /// Of the entries, all before this one are sent.
    cursor: usize,
    /// The oldest packet that is not acknowledged.
    oldest: Psn,
    /// The packet that is sent next.
    next: Psn,
    /// The first number that no request has.
    end: Psn,
    /// The first number that was never sent.
    unsent: Psn,
    /// Requests of reads whose responses have not come to their ends.
    reads: usize,
    /// It was sent again from the oldest packet because the peer missed it.
    restarted: bool,
    window: Window,
    retry: Retry,
    peer: Option<Peer>,
}

impl Requester {
    /// At most `limit` requests at a time.
    pub(crate) fn new(limit: usize) -> Self {
        let first = Psn::new(0);
        let attempts = Attempts { silent: RETRIES, not_ready: ENDLESS_RETRIES };
        Self {
            entries: VecDeque::new(),
            limit,
            cursor: 0,
            oldest: first,
            next: first,
            end: first,
            unsent: first,
            reads: 0,
            restarted: false,
            window: Window::new(),
            retry: Retry::new(attempts),
            peer: None,
        }
    }

    /// The connection is established. Nothing has a number yet.
    pub(crate) fn open(&mut self, peer: Peer) {
        let first = peer.sequence;
        (self.oldest, self.next) = (first, first);
        (self.end, self.unsent) = (first, first);
        self.retry.set_not_ready(peer.not_ready);
        self.peer = Some(peer);
    }

    /// The connection has ended: nothing more is sent.
    pub(crate) fn stop(&mut self) {
        self.peer = None;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= self.limit
    }

    pub(crate) fn post(&mut self, id: WorkId, work: Work) {
        self.entries.push_back(Entry::new(id, work));
    }

    /// Ends what regions are next to be ended, passes over what needs no sending, and says whether there is a packet to send.
    pub(crate) fn prepare(&mut self, regions: &mut RegionTable) -> bool {
        while let Some(entry) = self.entries.get_mut(self.cursor) {
            match (entry.progress, &mut entry.work) {
                (Progress::Waiting, Work::Invalidate { stag, memory }) => {
                    *memory = regions.release(*stag);
                    entry.progress.release();
                }
                (Progress::Waiting, work) => {
                    let is_read = work.is_read();
                    return self.may_begin(is_read);
                }
                (Progress::UnderWay { first, packets }, work) if self.next.is_before(first.plus(packets)) => {
                    let is_read = work.is_read();
                    return self.is_within_window() && !(is_read && self.has_all_reads());
                }
                _ => {}
            }
            self.cursor = self.cursor.saturating_add(1);
        }
        false
    }

    fn may_begin(&self, is_read: bool) -> bool {
        let waits = is_read && self.has_all_reads();
        !waits && self.end.since(self.oldest) < SEQUENCE_NUMBERS && self.is_within_window()
    }

    /// The peer serves no further read now.
    fn has_all_reads(&self) -> bool {
        self.reads >= self.peer.map_or(0, |peer| usize::from(peer.reads))
    }

    fn is_within_window(&self) -> bool {
        let is_open = self.peer.is_some() && self.retry.may_send();
        is_open && self.next.since(self.oldest) < self.window.packets()
    }

    /// True when nothing can be read at the peer, and that is what is next.
    pub(crate) fn is_stuck(&self) -> bool {
        let serves_none = self.peer.is_some_and(|peer| peer.reads == 0);
        let next = self.entries.get(self.cursor);
        serves_none && next.is_some_and(|entry| entry.work.is_read() && entry.progress == Progress::Waiting)
    }

    /// The read that is next is refused before it is sent.
    pub(crate) fn refuse_next(&mut self) {
        if let Some(entry) = self.entries.get_mut(self.cursor) {
            entry.progress.refuse();
        }
    }

    /// The packet that is next, after [`Requester::prepare`] said that there is one.
    pub(crate) fn outgoing(&mut self) -> Option<Outgoing<'_>> {
        let peer = self.peer?;
        let entry = self.entries.get_mut(self.cursor)?;
        if entry.progress == Progress::Waiting {
            let packets = peer.mtu.packets(entry.work.len());
            entry.progress.begin(self.end, packets);
            self.end = self.end.plus(packets);
        }
        let Progress::UnderWay { first, .. } = entry.progress else { return None };
        packets::packet(&entry.work, self.next, packets::Place { first, peer })
    }

    /// That packet is sent.
    pub(crate) fn sent(&mut self, now: Instant) {
        let Some(entry) = self.entries.get(self.cursor) else { return };
        let Progress::UnderWay { first, packets } = entry.progress else { return };
        if entry.work.is_read() {
            // The response has the numbers of the read, as far as that is asked for at once.
            self.next = first.plus(packets::asked_until(self.next.since(first)).min(packets));
            self.reads = self.reads.saturating_add(1);
        } else {
            self.next = self.next.plus(1);
        }
        if self.unsent.is_before(self.next) {
            self.unsent = self.next;
        }
        self.retry.sent(now);
    }

    /// The packet that is next was sent before.
    pub(crate) fn is_again(&self) -> bool {
        self.next.is_before(self.unsent)
    }

    /// When a packet of a response comes: too early if it is of a read behind one whose response is missing, or behind a packet that is.
    pub(crate) fn order(&self, sequence: Psn) -> Order {
        if sequence.is_before(self.oldest) {
            return Order::Again;
        }
        let is_read =
            |entry: &&Entry| matches!(entry.progress, Progress::UnderWay { .. }) && entry.work.is_read();
        let first = self.entries.iter().find(is_read).and_then(|entry| match entry.progress {
            Progress::UnderWay { first, .. } => Some(first),
            _ => None,
        });
        // What is before the read is acknowledged by its response.
        let due = first.filter(|first| self.oldest.is_before(*first)).unwrap_or(self.oldest);
        if due.is_before(sequence) { Order::Early } else { Order::Due }
    }

    /// The number lies among those that are sent and not acknowledged.
    fn is_under_way(&self, sequence: Psn) -> bool {
        !sequence.is_before(self.oldest) && sequence.is_before(self.unsent)
    }

    /// The peer says something of its packets up to `sequence`.
    pub(crate) fn handle_acknowledge(&mut self, now: Instant, sequence: Psn, syndrome: Syndrome) -> Outcome {
        // What was never sent, or is acknowledged already, is an old packet's (IBTA §9.7.5.1.2).
        if !self.is_under_way(sequence) {
            return Outcome::GoOn;
        }
        match syndrome {
            Syndrome::Ack(_) => {
                if self.advance(now, sequence.plus(1)) == Reach::Read {
                    self.restart();
                }
            }
            Syndrome::Nak(Nak::Sequence) => {
                self.advance(now, sequence);
                self.restart();
            }
            Syndrome::ReceiverNotReady(timer) => {
                self.advance(now, sequence);
                self.restarted = false;
                self.go_back();
                if self.retry.not_ready(now, timer.duration()) == Verdict::NeverReady {
                    return Outcome::NeverReady;
                }
            }
            Syndrome::Nak(nak) => {
                self.advance(now, sequence);
                self.refuse(sequence, nak);
                return Outcome::Refused(nak);
            }
        }
        Outcome::GoOn
    }

    /// All packets before `to` have come, but for reads.
    fn advance(&mut self, now: Instant, to: Psn) -> Reach {
        let (before, mut reach) = (self.oldest, Reach::All);
        for entry in &mut self.entries {
            if !self.oldest.is_before(to) {
                break;
            }
            let Progress::UnderWay { first, packets } = entry.progress else { continue };
            if entry.work.is_read() {
                reach = Reach::Read;
                break;
            }
            let end = first.plus(packets);
            if to.is_before(end) {
                self.oldest = to;
            } else {
                self.oldest = end;
                entry.progress.acknowledge();
            }
        }
        if self.oldest != before {
            self.progressed(now, before);
        }
        reach
    }

    /// The oldest packet is another one now.
    fn progressed(&mut self, now: Instant, before: Psn) {
        self.restarted = false;
        self.window.acknowledge(self.oldest.since(before));
        if self.next.is_before(self.oldest) {
            self.go_back();
        }
        self.retry.progress(now, self.oldest != self.next);
    }

    /// The peer has missed a packet. It says so more than once where more are on their way.
    fn restart(&mut self) {
        if !self.restarted {
            self.restarted = true;
            self.window.shrink();
            self.go_back();
        }
    }

    /// What is sent next is the oldest packet that is not acknowledged.
    fn go_back(&mut self) {
        (self.next, self.reads) = (self.oldest, 0);
        let open = self.entries.iter().position(|entry| match entry.progress {
            Progress::UnderWay { first, packets } => self.next.is_before(first.plus(packets)),
            Progress::Waiting => true,
            Progress::Done | Progress::Refused => false,
        });
        self.cursor = open.unwrap_or(self.entries.len());
    }

    fn refuse(&mut self, sequence: Psn, nak: Nak) {
        let refused = self.entries.iter_mut().find(|entry| match entry.progress {
            Progress::UnderWay { first, packets } => sequence.since(first) < packets,
            _ => false,
        });
        if let Some(entry) = refused
            && nak == Nak::RemoteAccess
        {
            entry.progress.refuse();
        }
    }

    /// A packet of a response has come.
    pub(crate) fn handle_response(&mut self, now: Instant, response: &Response<'_>) -> Outcome {
        if !self.is_under_way(response.sequence) {
            return Outcome::GoOn;
        }
        // It acknowledges what is before its read.
        self.advance(now, response.sequence);
        let Some(mtu) = self.peer.map(|peer| peer.mtu) else { return Outcome::GoOn };
        let oldest = self.oldest;
        let mut under_way =
            self.entries.iter_mut().filter(|entry| matches!(entry.progress, Progress::UnderWay { .. }));
        let Some(Entry { work: Work::Read { into, from }, progress, .. }) = under_way.next() else {
            return Outcome::Violation(Violation::Response);
        };
        if oldest != response.sequence {
            self.restart();
            return Outcome::GoOn;
        }
        let Progress::UnderWay { first, .. } = *progress else { return Outcome::GoOn };
        let length = usize::try_from(from.length).unwrap_or(usize::MAX);
        let position = oldest.since(first);
        let part = mtu.part(length, position);
        let ends = part.last || packets::asked_until(position) == position.saturating_add(1);
        let place = into.get_mut(part.offset..part.offset.saturating_add(response.payload.len()));
        let is_due = response.payload.len() == part.length && packets::is_last(response.opcode) == ends;
        let Some(place) = place.filter(|_| is_due) else { return Outcome::Violation(Violation::Response) };
        place.copy_from_slice(response.payload);
        self.oldest = oldest.plus(1);
        if part.last {
            progress.acknowledge();
        }
        self.reads = self.reads.saturating_sub(usize::from(ends));
        self.progressed(now, oldest);
        Outcome::GoOn
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.peer.and_then(|_| self.retry.deadline())
    }

    /// The deadline may have passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Verdict {
        let verdict = self.retry.time_out(now);
        if verdict == Verdict::SendAgain {
            self.restarted = false;
            if self.retry.is_silent() {
                self.window.close();
            }
            self.go_back();
        }
        verdict
    }

    /// The next completion.
    pub(crate) fn complete(&mut self) -> Option<WorkCompletion> {
        let result = self.entries.front()?.progress.result()?;
        Some(self.pop()?.complete(result))
    }

    fn pop(&mut self) -> Option<Entry> {
        self.cursor = self.cursor.saturating_sub(1);
        self.entries.pop_front()
    }

    /// The queue pair has ended: the next completion.
    pub(crate) fn flush(&mut self, regions: &mut RegionTable) -> Option<WorkCompletion> {
        let entry = self.entries.front_mut()?;
        if let (Progress::Waiting, Work::Invalidate { stag, memory }) = (entry.progress, &mut entry.work) {
            *memory = regions.release(*stag);
            entry.progress.release();
        }
        let result = entry.progress.result().unwrap_or(Err(WorkError::Flushed));
        Some(self.pop()?.complete(result))
    }
}
