//! What every section of a command line is made of: which volume it is about, and how an option is spelt.

use super::super::settings::Settings;
use crate::arm::Endpoint;

/// The volumes of the load and that of the log: the last one when there are several, else the same.
pub(super) fn divide<'a>(
    settings: Settings<'_>,
    endpoints: &'a [Endpoint],
) -> (&'a [Endpoint], Option<&'a Endpoint>) {
    match endpoints.split_last() {
        Some((last, [])) if settings.has_log() => (endpoints, Some(last)),
        Some((last, others)) if settings.has_log() => (others, Some(last)),
        _ => (endpoints, None),
    }
}

pub(super) fn option(name: &str, value: &str) -> String {
    format!("--{name}={value}")
}
