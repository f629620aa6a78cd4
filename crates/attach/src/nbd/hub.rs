//! What the connections of one core share: the volume's queue, and a seat for each with what came for it.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};

use buf::Pool;
use host::EndpointId;
use protocol::Instant;
use volume::{Completion, Operation, QueueFull, Request, Tag, VolumeErrorKind, VolumeQueue};

use super::connection::Input;

/// Tags of one seat: a connection's own are below this.
const SPAN: u64 = 1 << 32;
/// The seat of the hub itself, which no connection gets.
const OWN: u64 = u32::MAX as u64;

/// A connection's place.
struct Seat {
    endpoint: EndpointId,
    inbox: VecDeque<Input>,
    listed: bool,
    /// It is among those that wait for memory.
    wants_memory: bool,
}

/// Names a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeatId(usize);

#[derive(Default)]
struct Seats {
    places: Vec<Option<Seat>>,
    free: Vec<usize>,
    by_endpoint: HashMap<EndpointId, usize>,
    ready: Vec<EndpointId>,
    want_room: Vec<SeatId>,
    want_memory: Vec<SeatId>,
    /// Those that are negotiating, the oldest first.
    newcomers: VecDeque<SeatId>,
    chances: u64,
}

impl Seats {
    fn list(&mut self, seat: SeatId) {
        let Some(Some(seat)) = self.places.get_mut(seat.0) else { return };
        if !std::mem::replace(&mut seat.listed, true) {
            self.ready.push(seat.endpoint);
        }
    }

    fn deliver(&mut self, seat: SeatId, input: Input) {
        if let Some(Some(place)) = self.places.get_mut(seat.0) {
            place.inbox.push_back(input);
        }
        self.list(seat);
    }
}

/// Shared by the connections of a core; nothing in it waits.
pub(crate) struct Hub {
    pub(crate) pool: Pool,
    queue: RefCell<Box<dyn VolumeQueue>>,
    seats: RefCell<Seats>,
    done: RefCell<Vec<Completion>>,
    outstanding: Cell<usize>,
    flushed: Cell<Option<Result<(), VolumeErrorKind>>>,
}

impl Hub {
    /// A hub without connections.
    pub(crate) fn new(pool: Pool, queue: Box<dyn VolumeQueue>) -> Self {
        Self {
            pool,
            queue: RefCell::new(queue),
            seats: RefCell::default(),
            done: RefCell::default(),
            outstanding: Cell::new(0),
            flushed: Cell::new(None),
        }
    }

    /// Makes a place for a connection.
    pub(crate) fn join(&self, endpoint: EndpointId) -> SeatId {
        let mut seats = self.seats.borrow_mut();
        let seat = Some(Seat { endpoint, inbox: VecDeque::new(), listed: false, wants_memory: false });
        let index = if let Some(free) = seats.free.pop() {
            seats.places[free] = seat;
            free
        } else {
            seats.places.push(seat);
            seats.places.len() - 1
        };
        seats.by_endpoint.insert(endpoint, index);
        seats.newcomers.push_back(SeatId(index));
        SeatId(index)
    }

    /// A connection has chosen its export.
    pub(crate) fn settle(&self, seat: SeatId) {
        self.seats.borrow_mut().newcomers.retain(|newcomer| *newcomer != seat);
    }

    /// Closes the oldest of those that are negotiating if there are `most` of them.
    pub(crate) fn crowd_out(&self, most: usize) {
        let mut seats = self.seats.borrow_mut();
        if seats.newcomers.len() >= most
            && let Some(oldest) = seats.newcomers.pop_front()
        {
            seats.deliver(oldest, Input::Shutdown);
        }
    }

    /// Takes a connection's place away, once it has no request under way.
    pub(crate) fn leave(&self, endpoint: EndpointId) {
        let mut seats = self.seats.borrow_mut();
        if let Some(index) = seats.by_endpoint.remove(&endpoint) {
            seats.places[index] = None;
            seats.free.push(index);
            seats.newcomers.retain(|newcomer| newcomer.0 != index);
            seats.want_room.retain(|waiting| waiting.0 != index);
            seats.want_memory.retain(|waiting| waiting.0 != index);
        }
    }

    /// How many connections there are.
    pub(crate) fn members(&self) -> usize {
        self.seats.borrow().by_endpoint.len()
    }

    /// The next thing that came for a connection.
    pub(crate) fn take(&self, seat: SeatId) -> Option<Input> {
        let mut seats = self.seats.borrow_mut();
        let place = seats.places.get_mut(seat.0)?.as_mut()?;
        let input = place.inbox.pop_front();
        place.listed &= input.is_some();
        input
    }

    /// Tells every connection that the process is about to stop.
    pub(crate) fn tell_shutdown(&self) {
        let mut seats = self.seats.borrow_mut();
        for index in 0..seats.places.len() {
            seats.deliver(SeatId(index), Input::Shutdown);
        }
    }

    /// Lets a connection take a turn once some request has ended.
    pub(crate) fn wait_for_room(&self, seat: SeatId) {
        let mut seats = self.seats.borrow_mut();
        if !seats.want_room.contains(&seat) {
            seats.want_room.push(seat);
        }
    }

    /// Lets a connection take a turn once a buffer has come back to the pool.
    pub(crate) fn wait_for_memory(&self, seat: SeatId) {
        let mut seats = self.seats.borrow_mut();
        let Some(Some(place)) = seats.places.get_mut(seat.0) else { return };
        if !std::mem::replace(&mut place.wants_memory, true) {
            seats.want_memory.push(seat);
        }
    }

    /// Submits a connection's request; a full queue gives it back as it was.
    pub(crate) fn submit(&self, now: Instant, seat: SeatId, mut request: Request) -> Result<(), QueueFull> {
        let own = request.tag;
        request.tag = Tag(seat.0 as u64 * SPAN + own.0);
        match self.queue.borrow_mut().submit(now, request) {
            Ok(()) => {
                self.outstanding.set(self.outstanding.get() + 1);
                Ok(())
            }
            Err(QueueFull(request)) => Err(QueueFull(Request { tag: own, ..request })),
        }
    }

    /// Asks for the last flush, unless the queue is full just now.
    pub(crate) fn flush(&self, now: Instant) -> bool {
        let request = Request { tag: Tag(OWN * SPAN), operation: Operation::Flush };
        let taken = self.queue.borrow_mut().submit(now, request).is_ok();
        self.outstanding.set(self.outstanding.get() + usize::from(taken));
        taken
    }

    /// What came of the last flush, once it is over.
    pub(crate) fn flushed(&self) -> Option<Result<(), VolumeErrorKind>> {
        self.flushed.get()
    }

    /// Takes what has completed, and lists who has something to do.
    pub(crate) fn poll(&self, now: Instant, ready: &mut Vec<EndpointId>) {
        let mut seats = self.seats.borrow_mut();
        let mut done = self.done.borrow_mut();
        self.queue.borrow_mut().poll(now, &mut done);
        self.outstanding.set(self.outstanding.get().saturating_sub(done.len()));
        let room = !done.is_empty();
        for mut completion in done.drain(..) {
            let seat = completion.tag.0 / SPAN;
            completion.tag = Tag(completion.tag.0 % SPAN);
            if seat == OWN {
                self.flushed.set(Some(completion.result.map(drop)));
            } else {
                let seat = SeatId(usize::try_from(seat).unwrap_or(usize::MAX));
                seats.deliver(seat, Input::Completion(completion));
            }
        }
        while let Some(seat) = room.then(|| seats.want_room.pop()).flatten() {
            seats.list(seat);
        }
        let chances = self.pool.chances();
        if std::mem::replace(&mut seats.chances, chances) != chances {
            // The oldest first.
            let mut waiters = std::mem::take(&mut seats.want_memory);
            for seat in waiters.drain(..) {
                if let Some(Some(place)) = seats.places.get_mut(seat.0) {
                    place.wants_memory = false;
                }
                seats.list(seat);
            }
            seats.want_memory = waiters;
        }
        ready.append(&mut seats.ready);
    }

    /// When to poll even if nothing wakes the core.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.queue.borrow().poll_timeout()
    }

    /// True while requests are with the volume.
    pub(crate) fn is_busy(&self) -> bool {
        self.outstanding.get() > 0
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("members", &self.members()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use volume::{CoreId, QueueContext, Ram, Volume};

    use super::*;

    fn hub() -> Hub {
        let ram = Ram::new(1 << 20, 512).unwrap();
        Hub::new(
            Pool::new(1 << 20),
            ram.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone())).unwrap(),
        )
    }

    #[test]
    fn the_oldest_that_negotiates_makes_room_and_nobody_else() {
        let hub = hub();
        let seats: Vec<SeatId> = (0..4).map(|number| hub.join(EndpointId(number))).collect();
        hub.settle(seats[0]);
        hub.crowd_out(4);
        assert!(seats.iter().all(|seat| hub.take(*seat).is_none()), "there was room");
        hub.crowd_out(3);
        assert!(matches!(hub.take(seats[1]), Some(Input::Shutdown)));
        assert!([0, 2, 3].iter().all(|index| hub.take(seats[*index]).is_none()));
        hub.leave(EndpointId(2));
        hub.crowd_out(1);
        assert!(matches!(hub.take(seats[3]), Some(Input::Shutdown)), "who has left makes no room");
    }

    #[test]
    fn who_waits_is_listed_once_however_often_it_asks() {
        let hub = hub();
        let seat = hub.join(EndpointId(7));
        for _ in 0..1000 {
            hub.wait_for_room(seat);
            hub.wait_for_memory(seat);
        }
        assert_eq!(hub.seats.borrow().want_room.len() + hub.seats.borrow().want_memory.len(), 2);
    }
}
