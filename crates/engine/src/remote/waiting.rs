//! Answers that connections fetch, and how a caller waits for them.

use std::cell::RefCell;
use std::rc::Rc;

use ::volume::OpenError;

/// Where a connection puts its answer.
pub(super) type Place<T> = Rc<RefCell<Option<T>>>;

/// A target or subsystem that a portal offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// Where it is reached.
    pub address: String,
    /// Why nobody knows what it offers: a referral named this discovery service, and it did not answer.
    pub error: Option<String>,
}

/// Returns the answer once there is one.
type Look<T> = dyn FnMut() -> Option<Result<T, OpenError>>;

/// An answer that connections are fetching.
pub(super) struct Waiting<T>(Box<Look<T>>);

impl<T: 'static> Waiting<T> {
    pub(super) fn new(look: impl FnMut() -> Option<Result<T, OpenError>> + 'static) -> Self {
        Self(Box::new(look))
    }

    pub(super) fn failed(why: &str) -> Self {
        let error = OpenError::new(why);
        Self::new(move || Some(Err(error.clone())))
    }

    pub(super) fn poll(&mut self) -> Option<Result<T, OpenError>> {
        (self.0)()
    }
}
