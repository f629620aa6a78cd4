//! What the lab asks and what it finds: the types that its runner and its reports share, and what can be said of them.
//!
//! A [`scenario`] says what is compared; a [`result::PointResult`] is what one arm did at one point, once, with its [`evidence`];
//! [`statistics`] turn results into verdicts in words, and [`claims`] hold them against what was published. Nothing here starts a
//! process or looks at the machine: the same input gives the same words. `docs/howto/lab.md` shows the way from nothing to a report.
#![forbid(unsafe_code)]

pub mod claims;
pub mod effectiveness;
pub mod evidence;
pub mod jetstress;
pub mod offered;
pub mod offsets;
pub mod precondition;
pub mod prices;
pub mod result;
pub mod scenario;
pub mod seal;
pub mod statistics;
