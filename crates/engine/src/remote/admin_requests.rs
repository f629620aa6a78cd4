//! Requests that a controller takes on its admin queue alone: allocation queries.
//!
//! The admin queue lives on one core, those who ask on any. They leave requests here and wake the admin queue's connection, which does them and
//! wakes the asker. Whatever an association has not answered when it ends is gone from here: its askers see that it has ended, and send it again.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use ::volume::{Completion, Request, Tag};

use super::link::Link;

/// The requests of one volume, and the answers.
#[derive(Debug, Default)]
pub(super) struct AdminRequests {
    /// Somebody waits for an answer: the admin queue's connection looks at this in each of its turns, and at the rest only then.
    open: Arc<AtomicBool>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The association that does them; zero while there is none.
    number: u64,
    /// Wakes its admin queue's connection.
    admin: Option<Waker>,
    /// Requests were given these tags toward the controller so far.
    given: u64,
    waiting: VecDeque<Request>,
    /// Who asked, by the tag toward the controller: the I/O queue, and the tag that it has there.
    askers: HashMap<Tag, (u16, Tag)>,
    answers: HashMap<u16, Vec<Completion>>,
}

impl AdminRequests {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True while somebody waits for an answer.
    pub(super) fn open(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.open)
    }

    /// From now on, that association does them.
    pub(super) fn begin(&self, number: u64, admin: Waker) {
        let mut inner = self.lock();
        *inner = Inner { number, admin: Some(admin), ..Inner::default() };
        self.open.store(false, Ordering::Release);
    }

    /// That association has ended, if it was the one: its admin queue is to look.
    pub(super) fn end(&self, number: u64) {
        let mut inner = self.lock();
        if inner.number == number {
            let Inner { admin, .. } = std::mem::take(&mut *inner);
            self.open.store(false, Ordering::Release);
            drop(inner);
            if let Some(admin) = admin {
                admin.wake();
            }
        }
    }

    /// Asks that association for a queue. One that has ended does nothing: the asker is about to see that.
    pub(super) fn ask(&self, number: u64, qid: u16, request: Request) {
        let mut inner = self.lock();
        if inner.number != number {
            return;
        }
        inner.given += 1;
        let tag = Tag(inner.given);
        inner.askers.insert(tag, (qid, request.tag));
        inner.waiting.push_back(Request { tag, ..request });
        self.open.store(true, Ordering::Release);
        if let Some(admin) = &inner.admin {
            admin.wake_by_ref();
        }
    }

    /// Lets the admin queue of that association do what is asked, and takes what it has done. Calls `wake` for each queue that has an answer.
    pub(super) fn work(&self, number: u64, link: &Link, wake: impl Fn(u16)) {
        let mut done = Vec::new();
        link.take_done(&mut done);
        let mut inner = self.lock();
        if inner.number != number {
            return;
        }
        for completion in done {
            if let Some((qid, tag)) = inner.askers.remove(&completion.tag) {
                inner.answers.entry(qid).or_default().push(Completion { tag, ..completion });
                wake(qid);
            }
        }
        for request in std::mem::take(&mut inner.waiting) {
            link.submit(request);
        }
        self.open.store(!inner.askers.is_empty(), Ordering::Release);
    }

    /// Moves the answers to a queue.
    pub(super) fn take(&self, qid: u16, answers: &mut Vec<Completion>) {
        if let Some(found) = self.lock().answers.get_mut(&qid) {
            answers.append(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use ::volume::{Extent, Operation, VolumeErrorKind};

    use super::*;
    use crate::remote::link::LinkInput;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn query(tag: u64) -> Request {
        Request { tag: Tag(tag), operation: Operation::QueryAllocation { extent: Extent::new(tag, 1) } }
    }

    /// The tags toward the controller of what the connection is to do.
    fn submitted(link: &Link) -> Vec<Tag> {
        let mut inputs = VecDeque::new();
        link.take_inputs(&mut inputs);
        let submitted = inputs.into_iter().filter_map(|input| match input {
            LinkInput::Submit(request) => Some(request.tag),
            _ => None,
        });
        submitted.collect()
    }

    fn ready() -> std::rc::Rc<Link> {
        let link = Link::new(Waker::noop().clone());
        link.ready();
        link
    }

    #[test]
    fn each_queue_is_answered_what_it_asked() {
        let (admin_requests, woken, link) = (AdminRequests::default(), Arc::new(Count::default()), ready());
        admin_requests.begin(1, Waker::from(Arc::clone(&woken)));
        admin_requests.ask(1, 4, query(9));
        admin_requests.ask(1, 5, query(9));
        assert_eq!(woken.0.load(Ordering::Relaxed), 2);
        admin_requests.work(1, &link, |_| panic!("there is no answer"));
        let tags = submitted(&link);
        assert_eq!(tags.len(), 2);
        // In the other order.
        for (tag, qid) in [(tags[1], 5), (tags[0], 4)] {
            link.complete(Completion::failed(tag, VolumeErrorKind::Media));
            admin_requests.work(1, &link, |woken| assert_eq!(woken, qid));
            let mut answers = Vec::new();
            admin_requests.take(9 - qid, &mut answers);
            assert!(answers.is_empty(), "it is not for the other queue");
            admin_requests.take(qid, &mut answers);
            assert_eq!(answers.iter().map(|answer| answer.tag).collect::<Vec<_>>(), [Tag(9)]);
        }
    }

    #[test]
    fn what_an_association_has_left_ends_with_it() {
        let (admin_requests, link) = (AdminRequests::default(), ready());
        admin_requests.begin(1, Waker::noop().clone());
        admin_requests.ask(1, 4, query(1));
        admin_requests.work(1, &link, |_| {});
        let tags = submitted(&link);
        admin_requests.ask(1, 4, query(2));
        admin_requests.end(1);
        admin_requests.begin(2, Waker::noop().clone());
        admin_requests.ask(1, 4, query(3));
        link.complete(Completion::failed(tags[0], VolumeErrorKind::Media));
        admin_requests.work(1, &link, |_| panic!("it has ended"));
        admin_requests.work(2, &link, |_| panic!("it was asked nothing"));
        assert!(submitted(&link).is_empty());
        let mut answers = Vec::new();
        admin_requests.take(4, &mut answers);
        assert!(answers.is_empty());
    }

    #[test]
    fn the_admin_queue_hears_at_once_that_its_association_has_ended() {
        let (admin_requests, woken) = (AdminRequests::default(), Arc::new(Count::default()));
        admin_requests.begin(1, Waker::from(Arc::clone(&woken)));
        admin_requests.end(7);
        assert_eq!(woken.0.load(Ordering::Relaxed), 0, "that is another one");
        admin_requests.end(1);
        admin_requests.end(1);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    }
}
