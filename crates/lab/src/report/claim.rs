//! Each claim of the publication with its verdict.

use crate::scenario::Claim;

use super::run::Run;
use super::series::Measured;

/// A claim and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judged {
    /// As the scenario names it.
    pub(crate) id: String,
    /// The claim.
    pub(crate) text: String,
    /// `reproduced`, `contradicted`, `not testable here`, `not enough`.
    pub(crate) verdict: String,
    /// The verdict as a class of the style sheet.
    pub(crate) class: &'static str,
    /// Why, with the numbers.
    pub(crate) why: Vec<String>,
    /// When it holds.
    pub(crate) test: String,
    /// Corrected by arithmetic.
    pub(crate) derived: String,
}

/// Every claim.
pub(crate) fn judge(run: &Run, _measured: &Measured<'_>) -> Vec<Judged> {
    run.scenario.claims.iter().map(judged).collect()
}

fn judged(claim: &Claim) -> Judged {
    Judged {
        id: claim.id.clone(),
        text: claim.text.clone(),
        verdict: if claim.test.is_none() { "not testable by numbers" } else { "not tested" }.to_owned(),
        class: "untested",
        why: claim.needs.iter().map(|need| format!("needs {need}")).collect(),
        test: claim.test.clone().unwrap_or_default(),
        derived: claim.derived.clone().unwrap_or_default(),
    }
}
