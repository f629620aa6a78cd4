//! Lets one queue at a time have what only one can: a session that the user named, a file that is opened exclusively.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use ::volume::OpenError;

/// Held by the queue that has it.
pub(super) type Claim = Arc<()>;

/// Claims what `taken` says who has.
///
/// # Errors
/// `why`, if a queue has it.
pub(super) fn claim(taken: &Mutex<Weak<()>>, why: &'static str) -> Result<Claim, OpenError> {
    let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
    if taken.strong_count() > 0 {
        return Err(OpenError::new(why));
    }
    let claimed = Arc::new(());
    *taken = Arc::downgrade(&claimed);
    Ok(claimed)
}
