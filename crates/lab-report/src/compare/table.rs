//! Comparisons as tables for a terminal, and as JSON.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;

use super::{Comparison, Party, Regression};
use lab_model::result::point_name;

impl Comparison {
    /// Who is compared, what differs around it, a table of verdicts, and what to be careful about.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for party in [&self.a, &self.b] {
            let _ = writeln!(text, "{}", about(party));
        }
        if !self.environment.is_empty() {
            let mut table = table(["differs", &self.a.name, &self.b.name]);
            for fact in &self.environment {
                let cell = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
                table.add_row([fact.name.clone(), cell(&fact.a), cell(&fact.b)]);
            }
            let _ = writeln!(text, "{table}");
        }
        let mut table = table(["arm", "point", "metric", &self.a.name, &self.b.name, "verdict"]);
        for row in &self.rows {
            let metric = row.verdict.metric;
            let cell =
                |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| metric.format(value));
            table.add_row([
                row.arm.clone(),
                point_name(&row.verdict.point),
                metric.name().to_owned(),
                cell(row.a),
                cell(row.b),
                row.words.clone(),
            ]);
        }
        let _ = writeln!(text, "{table}");
        for line in
            self.notes.iter().map(|note| format!("note: {note}")).chain(self.unmatched.iter().cloned())
        {
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// Everything, for machines.
    pub fn json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).context("cannot write the comparison as JSON")
    }
}

impl Regression {
    /// The comparison, then what failed and what could not be tested.
    pub fn text(&self) -> String {
        let mut text = self.comparison.text();
        for failure in &self.failed {
            let (threshold, arm, point, words) =
                (failure.threshold, &failure.arm, &failure.point, &failure.words);
            let _ = writeln!(text, "regression: {threshold} broken by arm {arm} at {point}: {words}");
        }
        for threshold in &self.untested {
            let _ = writeln!(
                text,
                "not testable: {threshold}: no point of both runs has enough repetitions with {}",
                threshold.metric.name()
            );
        }
        for why in &self.invalid {
            let _ = writeln!(text, "invalid: {why}");
        }
        if self.failed.is_empty() && self.untested.is_empty() && self.invalid.is_empty() {
            let _ = writeln!(text, "no regression shown");
        }
        text
    }

    /// Everything and the outcome, for machines.
    pub fn json(&self) -> Result<String> {
        let mut value = serde_json::to_value(self).context("cannot write the regression as JSON")?;
        if let Some(members) = value.as_object_mut() {
            let outcome = serde_json::to_value(self.outcome()).context("cannot write the outcome as JSON")?;
            members.insert("outcome".to_owned(), outcome);
        }
        serde_json::to_string_pretty(&value).context("cannot write the regression as JSON")
    }
}

fn about(party: &Party) -> String {
    let commit = party.commit.as_deref().unwrap_or("an unknown commit");
    let evidence = party.evidence.join(", ");
    format!(
        "{}: {} ({}, from {commit}, {}; {evidence})",
        party.name, party.folder, party.scenario, party.started
    )
}

fn table<const N: usize>(head: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(head);
    table
}
