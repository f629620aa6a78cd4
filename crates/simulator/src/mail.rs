//! The mailboxes of a server's cores: messages between two cores stay in order, and those of others overtake them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use host::{CoreIndex, Postbox};

use crate::dice::Dice;
use crate::lock;

/// Replaces a message that one core posts to another: the mail takes what the hook returns, and to whom.
pub type MessageHook<M> = Box<dyn FnMut((CoreIndex, CoreIndex), M) -> Vec<(CoreIndex, M)> + Send>;

/// All mailboxes.
pub struct Mail<M> {
    /// By receiver, then by sender.
    links: Mutex<Vec<Vec<VecDeque<M>>>>,
    hook: Option<Mutex<MessageHook<M>>>,
}

impl<M> Mail<M> {
    /// The mailboxes of so many cores.
    pub fn new(cores: usize) -> Self {
        let link = || (0..cores).map(|_| VecDeque::new()).collect();
        Self { links: Mutex::new((0..cores).map(|_| link()).collect()), hook: None }
    }

    /// The same, with a bug: for the tests of the tests.
    #[must_use]
    pub fn tampered(self, hook: MessageHook<M>) -> Self {
        Self { hook: Some(Mutex::new(hook)), ..self }
    }

    /// The next message for a core. The dice choose the sender.
    pub(crate) fn take(&self, core: usize, dice: Option<&mut Dice>) -> Option<M> {
        let mut links = lock(&self.links);
        let mut waiting: Vec<_> = links.get_mut(core)?.iter_mut().filter(|link| !link.is_empty()).collect();
        let chosen = dice.map_or(0, |dice| dice.index(waiting.len()));
        waiting.get_mut(chosen)?.pop_front()
    }

    fn put(&self, way: Between, message: M) {
        let Between { from, to } = way;
        let mut links = lock(&self.links);
        let link = links.get_mut(usize::from(to)).and_then(|senders| senders.get_mut(usize::from(from)));
        if let Some(link) = link {
            link.push_back(message);
        }
    }
}

impl<M> std::fmt::Debug for Mail<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mail")
    }
}

/// From which core to which.
#[derive(Debug, Clone, Copy)]
struct Between {
    from: CoreIndex,
    to: CoreIndex,
}

/// Posts one core's messages to all mailboxes.
#[derive(Debug)]
pub struct Sender<M> {
    /// The mailboxes.
    pub mail: Arc<Mail<M>>,
    /// The core.
    pub from: CoreIndex,
}

impl<M: Send> Postbox<M> for Sender<M> {
    fn post(&self, core: CoreIndex, message: M) {
        let posted = match &self.mail.hook {
            Some(hook) => (lock(hook))((self.from, core), message),
            None => vec![(core, message)],
        };
        for (to, message) in posted {
            self.mail.put(Between { from: self.from, to }, message);
        }
    }

    fn cores(&self) -> CoreIndex {
        wire::bounded::<CoreIndex>(lock(&self.mail.links).len())
    }
}
