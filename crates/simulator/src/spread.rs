//! Several queues of a volume as one: requests go to one after the other.

use protocol::Instant;
use volume::{Completion, QueueFull, Request, Tag, VolumeQueue};

/// The queues.
pub(crate) struct Spread(pub(crate) Vec<Box<dyn VolumeQueue>>);

impl Spread {
    fn of(&mut self, Tag(number): Tag) -> &mut dyn VolumeQueue {
        let chosen = usize::try_from(number).unwrap_or(0) % self.0.len();
        &mut *self.0[chosen]
    }
}

impl VolumeQueue for Spread {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        self.of(request.tag).submit(now, request)
    }

    fn cancel(&mut self, tag: Tag) {
        self.of(tag).cancel(tag);
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.0.iter_mut().for_each(|queue| queue.poll(now, done));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.iter().filter_map(|queue| queue.poll_timeout()).min()
    }
}
