//! What a core looks at while it is awake, and asks to notify it before it sleeps.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use host::Polled;

/// A core's list. Whoever drops what is in it takes it out.
#[derive(Default)]
pub(crate) struct PolledList(RefCell<Vec<Weak<dyn Polled>>>);

impl PolledList {
    pub(crate) fn add(&self, polled: &Rc<dyn Polled>) {
        let mut list = self.0.borrow_mut();
        list.retain(|one| one.strong_count() > 0);
        list.push(Rc::downgrade(polled));
    }

    /// Asks each, also behind one that has news: each wakes its own.
    fn any(&self, ask: impl Fn(&dyn Polled) -> bool) -> bool {
        let mut found = false;
        for one in self.0.borrow().iter().filter_map(Weak::upgrade) {
            found |= ask(&*one);
        }
        found
    }

    /// Whether something has come.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        !self.0.borrow().is_empty() && self.any(|one| one.has_news())
    }

    /// Asks for notifications; true if something has come already.
    pub(crate) fn begin_sleep(&self) -> bool {
        self.any(|one| one.begin_sleep())
    }

    /// Asks for none.
    pub(crate) fn end_sleep(&self) {
        let list = self.0.borrow();
        list.iter().filter_map(Weak::upgrade).for_each(|one| one.end_sleep());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[derive(Default)]
    struct Box {
        news: Cell<bool>,
        asked: Cell<u32>,
        asks_for_notification: Cell<bool>,
    }

    impl Polled for Box {
        fn has_news(&self) -> bool {
            self.asked.set(self.asked.get() + 1);
            self.news.get()
        }

        fn begin_sleep(&self) -> bool {
            self.asks_for_notification.set(true);
            self.news.get()
        }

        fn end_sleep(&self) {
            self.asks_for_notification.set(false);
        }
    }

    #[test]
    fn each_is_asked_and_who_has_gone_is_not() {
        let (list, boxes) = (PolledList::default(), [Rc::new(Box::default()), Rc::new(Box::default())]);
        for one in &boxes {
            list.add(&(Rc::clone(one) as Rc<dyn Polled>));
        }
        assert!(!list.has_news() && !list.begin_sleep());
        boxes[0].news.set(true);
        assert!(list.has_news());
        assert_eq!(boxes.each_ref().map(|one| one.asked.get()), [2, 2]);
        assert!(list.begin_sleep() && boxes[1].asks_for_notification.get());
        list.end_sleep();
        assert!(!boxes[1].asks_for_notification.get());
        let [first, second] = boxes;
        drop(first);
        assert!(!list.has_news());
        drop(second);
        list.add(&(Rc::new(Box::default()) as Rc<dyn Polled>));
        assert_eq!(list.0.borrow().len(), 1);
    }
}
