//! The mailboxes of a server's cores: messages between two cores stay in order, and those of others overtake them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use host::{CoreIndex, Postbox};

use crate::dice::Dice;
use crate::lock;

/// Does something to a message that one core posts to another: what it gives is posted instead, to whom it says.
pub type MessageHook<M> = Box<dyn FnMut((CoreIndex, CoreIndex), M) -> Vec<(CoreIndex, M)> + Send>;

/// All mailboxes.
pub struct Mail<M> {
    /// By receiver, then by sender.
    lanes: Mutex<Vec<Vec<VecDeque<M>>>>,
    hook: Option<Mutex<MessageHook<M>>>,
}

impl<M> Mail<M> {
    /// The mailboxes of so many cores.
    pub fn new(cores: usize) -> Self {
        let lane = || (0..cores).map(|_| VecDeque::new()).collect();
        Self { lanes: Mutex::new((0..cores).map(|_| lane()).collect()), hook: None }
    }

    /// The same, with a bug: for the tests of the tests.
    #[must_use]
    pub fn tampered(self, hook: MessageHook<M>) -> Self {
        Self { hook: Some(Mutex::new(hook)), ..self }
    }

    /// The next message for a core: of which sender, the dice say.
    pub(crate) fn take(&self, core: usize, dice: Option<&mut Dice>) -> Option<M> {
        let mut lanes = lock(&self.lanes);
        let mut waiting: Vec<_> = lanes.get_mut(core)?.iter_mut().filter(|lane| !lane.is_empty()).collect();
        let chosen = dice.map_or(0, |dice| dice.index(waiting.len()));
        waiting.get_mut(chosen)?.pop_front()
    }

    fn put(&self, (from, to): (CoreIndex, CoreIndex), message: M) {
        let mut lanes = lock(&self.lanes);
        let lane = lanes.get_mut(usize::from(to)).and_then(|senders| senders.get_mut(usize::from(from)));
        if let Some(lane) = lane {
            lane.push_back(message);
        }
    }
}

impl<M> std::fmt::Debug for Mail<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mail")
    }
}

/// One core's way to all mailboxes.
#[derive(Debug)]
pub struct Sender<M> {
    /// The mailboxes.
    pub mail: Arc<Mail<M>>,
    /// Whose way.
    pub from: CoreIndex,
}

impl<M: Send> Postbox<M> for Sender<M> {
    fn post(&self, core: CoreIndex, message: M) {
        let posted = match &self.mail.hook {
            Some(hook) => (lock(hook))((self.from, core), message),
            None => vec![(core, message)],
        };
        for (to, message) in posted {
            self.mail.put((self.from, to), message);
        }
    }

    fn cores(&self) -> CoreIndex {
        CoreIndex::try_from(lock(&self.mail.lanes).len()).unwrap_or(CoreIndex::MAX)
    }
}
