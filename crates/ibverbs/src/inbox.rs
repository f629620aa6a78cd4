//! What a port has heard for one of its queue pairs, and the port's channels, which queue pairs hold for as long as they need them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use host::PairId;
use rustix::event::epoll;

use crate::sys::{CmEvent, CompletionChannel, Device, EventChannel};

/// What has come for a queue pair and was not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    pub(crate) events: RefCell<VecDeque<CmEvent>>,
    /// The completion queue has said that there is something, and says no more until it is asked to.
    pub(crate) is_told: Cell<bool>,
}

/// The channels of a port, and one descriptor that stands for all of them.
#[derive(Debug)]
pub(crate) struct Channels {
    pub(crate) events: Arc<EventChannel>,
    /// By device.
    completions: RefCell<BTreeMap<usize, Rc<CompletionChannel>>>,
    epoll: OwnedFd,
    /// The queue pairs that there are, by their identifiers' names: events find them by these.
    pairs: RefCell<BTreeMap<PairId, Entry>>,
    next: Cell<u64>,
}

/// A queue pair as its port knows it.
#[derive(Debug)]
struct Entry {
    identifier: usize,
    inbox: Rc<Inbox>,
}

impl Channels {
    pub(crate) fn new(events: Arc<EventChannel>) -> io::Result<Rc<Self>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &*events, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        let (completions, pairs, next) = (RefCell::default(), RefCell::default(), Cell::new(1));
        Ok(Rc::new(Self { events, completions, epoll, pairs, next }))
    }

    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }

    /// The completion channel of a device.
    pub(crate) fn completions(&self, device: &Device) -> io::Result<Rc<CompletionChannel>> {
        let mut completions = self.completions.borrow_mut();
        if let Some(channel) = completions.get(&device.name()) {
            return Ok(Rc::clone(channel));
        }
        let channel = CompletionChannel::new(device)?;
        epoll::add(&self.epoll, &*channel, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        completions.insert(device.name(), Rc::clone(&channel));
        Ok(channel)
    }

    /// A name that no queue pair or request of this port ever had.
    pub(crate) fn new_id(&self) -> PairId {
        PairId(self.next.replace(self.next.get() + 1))
    }

    /// Takes a queue pair in: events of that identifier are its own.
    pub(crate) fn join(&self, id: PairId, identifier: usize) -> Rc<Inbox> {
        let inbox = Rc::new(Inbox::default());
        self.pairs.borrow_mut().insert(id, Entry { identifier, inbox: Rc::clone(&inbox) });
        inbox
    }

    /// A queue pair is gone.
    pub(crate) fn leave(&self, id: PairId) {
        self.pairs.borrow_mut().remove(&id);
    }

    /// Gives an event to the queue pair that it is for; gives it back if it is for none.
    pub(crate) fn deliver(&self, event: CmEvent, ready: &mut Vec<PairId>) -> Option<CmEvent> {
        let pairs = self.pairs.borrow();
        let Some((id, entry)) = pairs.iter().find(|(_, entry)| entry.identifier == event.name) else {
            return Some(event);
        };
        entry.inbox.events.borrow_mut().push_back(event);
        ready.push(*id);
        None
    }

    /// Tells the queue pairs whose completion queues have something.
    pub(crate) fn take_completions(&self, ready: &mut Vec<PairId>) {
        let pairs = self.pairs.borrow();
        for channel in self.completions.borrow().values() {
            while let Some(name) = channel.next_event() {
                let id = PairId(name as u64);
                if let Some(entry) = pairs.get(&id) {
                    entry.inbox.is_told.set(true);
                    ready.push(id);
                }
            }
        }
    }
}
