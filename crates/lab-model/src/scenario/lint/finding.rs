//! What all the looks for mistakes share: how one is told, and how names are compared.

use std::collections::BTreeSet;
use std::fmt;

use super::super::Scenario;

/// Something wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where: `arm B`, `axis bs`, `claim line-rate`.
    pub place: String,
    /// What, and what to do.
    pub message: String,
}

impl Finding {
    pub(super) fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Whether the scenario warns of a trap by name.
pub(super) fn warns_of(scenario: &Scenario, name: &str) -> bool {
    scenario.traps.iter().any(|text| text.split_once(':').is_some_and(|(trap, _)| trap == name))
}

/// Those that occur more than once.
pub(super) fn doubles<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    names.into_iter().filter(|name| !seen.insert(*name)).collect()
}
