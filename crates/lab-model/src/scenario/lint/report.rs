//! Figures, published numbers and claims: each speaks of axes, arms and values that exist.

use std::collections::BTreeMap;

use super::finding::{Finding, doubles};
use crate::claims::grammar::Test;
use crate::scenario::{
    Claim, Figure, FigureKind, Published, PublishedStatus, Scenario, needs, place, primary,
};

/// What a figure may have along x that is no axis of the sweep.
const TIME: &str = "time";
const LATENCY: &str = "latency";

/// What is wrong with what the report shall show.
pub(super) fn findings(scenario: &Scenario) -> Vec<Finding> {
    let mut findings = Vec::new();
    for id in doubles(scenario.figures.iter().map(|figure| figure.id.as_str())) {
        findings.push(Finding::new(format!("figure {id}"), "two figures have this id"));
    }
    for id in doubles(scenario.claims.iter().map(|claim| claim.id.as_str())) {
        findings.push(Finding::new(format!("claim {id}"), "two claims have this id"));
    }
    let named = scenario.claims.iter().filter(|claim| claim.primary).count();
    if named > primary::MOST {
        let message = format!(
            "{named} claims are primary, and the report can stand for {} at most: leave the others exploratory",
            primary::MOST
        );
        findings.push(Finding::new("claims", message));
    }
    let mut add = |place: String, messages: Vec<String>| {
        findings.extend(messages.into_iter().map(|message| Finding::new(place.clone(), message)));
    };
    for figure in &scenario.figures {
        add(format!("figure {}", figure.id), self::figure(scenario, figure));
    }
    for published in &scenario.published {
        add(format!("published {:?}", published.title), self::published(published));
    }
    for claim in &scenario.claims {
        add(format!("claim {}", claim.id), self::claim(scenario, claim));
    }
    findings
}

fn figure(scenario: &Scenario, figure: &Figure) -> Vec<String> {
    let mut messages = nowhere(scenario, &figure.at);
    for axis in &figure.series {
        if !is_axis(scenario, axis) {
            messages.push(format!("its series {axis:?} is not an axis of the sweep"));
        }
    }
    let x = figure.x.as_deref();
    let fits = match figure.kind {
        FigureKind::OverTime => x == Some(TIME),
        FigureKind::Histogram | FigureKind::HistogramZoom => x == Some(LATENCY),
        _ => x.is_none_or(|axis| is_axis(scenario, axis)),
    };
    if !fits {
        messages.push(format!(
            "its x {:?} is not an axis that a {:?} figure of this sweep has",
            x.unwrap_or("-"),
            figure.kind
        ));
    }
    match (figure.kind, figure.y.len()) {
        (_, 0) => messages.push("it shows nothing: y is empty".to_owned()),
        (FigureKind::DualAxis, count) if count % 2 != 0 => {
            messages.push("a figure with two axes has metrics in twos".to_owned());
        }
        _ => {}
    }
    messages
}

fn is_axis(scenario: &Scenario, name: &str) -> bool {
    values(scenario, name).next().is_some()
}

/// The values of an axis, or of a setting in which arms differ.
fn values<'a>(scenario: &'a Scenario, name: &'a str) -> impl Iterator<Item = &'a str> {
    let swept = scenario.sweep.iter().filter(move |axis| axis.axis == name).flat_map(|axis| &axis.values);
    let own = scenario.arms.iter().filter_map(move |arm| arm.with.get(name));
    swept.chain(own).map(String::as_str)
}

/// The publication of scenarios whose claims are our own: what they mean is not read into them.
const OURSELVES: &str = "Linerate";

/// Whether axes and values name points that exist.
fn nowhere(scenario: &Scenario, at: &BTreeMap<String, String>) -> Vec<String> {
    let absent = at.iter().filter(|(axis, value)| !values(scenario, axis).any(|one| place::lies(one, value)));
    absent.map(|(axis, value)| format!("it speaks of {axis} = {value:?}, which no point has")).collect()
}

fn published(published: &Published) -> Vec<String> {
    let mut messages = Vec::new();
    for row in published.rows.iter().filter(|row| row.values.len() != published.columns.len()) {
        let (values, columns) = (row.values.len(), published.columns.len());
        messages.push(format!("row {:?} has {values} values for {columns} columns", row.label));
    }
    let lost = published.status == PublishedStatus::Lost;
    if lost && published.note.is_none() {
        messages.push("it is lost, and no note says what it was".to_owned());
    }
    if lost != published.rows.is_empty() {
        messages.push("rows are what survived: lost ones have none, all others have some".to_owned());
    }
    messages
}

fn claim(scenario: &Scenario, claim: &Claim) -> Vec<String> {
    let mut messages = nowhere(scenario, &claim.at);
    for need in claim.needs.iter().filter(|need| needs::find(need).is_none()) {
        let known: Vec<&str> = needs::NEEDS.iter().map(|need| need.name).collect();
        messages.push(format!("it needs {need:?}, which is none of {}", known.join(", ")));
    }
    if claim.here.is_some() && (claim.test.is_none() || scenario.arms.is_empty()) {
        messages.push("it says what a verdict here would speak of, and nothing here can test it".to_owned());
    }
    if claim.primary && claim.test.is_none() {
        messages.push("it is primary, and nothing tests it".to_owned());
    }
    if let Some(test) = &claim.test {
        messages.extend(self::test(scenario, test));
        messages.extend(unmarked(scenario, claim, test));
    }
    messages
}

/// A test with numbers of which the publication's words have none: somebody read them into it, and the report must say so.
fn unmarked(scenario: &Scenario, claim: &Claim, test: &str) -> Option<String> {
    let own = scenario.source.publication == OURSELVES;
    let told = [Some(&claim.text), claim.derived.as_ref()];
    let told = told.into_iter().flatten().any(|words| words.contains(|letter: char| letter.is_ascii_digit()));
    let numbers = Test::parse(test).map(|test| test.thresholds()).unwrap_or_default();
    (!own && !told && !numbers.is_empty() && claim.inferred.is_none()).then(|| {
        "its test has numbers, and its words have none: `inferred` says how they were read into it".to_owned()
    })
}

/// What is wrong with a test: its language, the arms and the places that it names.
fn test(scenario: &Scenario, test: &str) -> Vec<String> {
    let test = match Test::parse(test) {
        Ok(test) => test,
        Err(error) => return vec![format!("{error:#}")],
    };
    // Without arms it speaks of the published systems.
    let arms = scenario.arms.iter().map(|arm| arm.key.as_str());
    let systems = scenario.systems.iter().map(|system| system.key.as_str());
    let known: Vec<&str> = if scenario.arms.is_empty() { systems.collect() } else { arms.collect() };
    let unknown = test.arms().into_iter().filter(|key| !known.contains(key));
    let mut messages: Vec<String> = unknown
        .map(|key| format!("its test speaks of {key}, and there are only {}", known.join(", ")))
        .collect();
    let places = test.places().into_iter().map(|at| (at.axis.clone(), at.value.clone())).collect();
    messages.extend(nowhere(scenario, &places));
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(rest: &str, part: &str) {
        let text = format!(
            "id='f.n'\ntitle='t'\nquestion='q'\nmissing=['m']\nsource={{publication='p'}}\n[workload]\ntool='fio'\n\
             [[sweep]]\naxis='bs'\nvalues=['4k','8k']\n[[system]]\nkey='A'\nname='a'\n{rest}"
        );
        let found: Vec<String> =
            findings(&toml::from_str(&text).unwrap()).iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|one| one.contains(part)), "{part:?} is not in {found:?}");
    }

    #[test]
    fn figures() {
        let figure = |rest: &str| format!("[[figure]]\nid='f'\ntitle='t'\n{rest}");
        refused(&figure("kind='bars'\nx='rw'\ny=['iops']"), "\"rw\"");
        refused(&figure("kind='bars'\nx='bs'\ny=[]"), "y is empty");
        refused(&figure("kind='dual-axis'\nx='bs'\ny=['iops']"), "in twos");
        refused(&figure("kind='over-time'\nx='bs'\ny=['iops']"), "OverTime");
        refused(&figure("kind='bars'\nx='bs'\ny=['iops']\nseries=['mtu']"), "mtu");
        refused(&figure("kind='bars'\nx='bs'\ny=['iops']\nat={bs='1m'}"), "no point has");
        let two = figure("kind='bars'\nx='bs'\ny=['iops']");
        refused(&format!("{two}\n{two}"), "two figures");
    }

    #[test]
    fn published_numbers() {
        let table = |rest: &str| format!("[[published]]\ntitle='t'\n{rest}");
        refused(
            &table("status='published'\ncolumns=['a']\nrows=[{label='l',values=['1','2']}]"),
            "2 values for 1",
        );
        refused(&table("status='lost'"), "no note");
        refused(&table("status='derived'"), "all others have some");
    }

    #[test]
    fn claims() {
        let claim = |rest: &str| format!("[[claim]]\nid='c'\ntext='t'\n{rest}");
        refused(&claim("at={bs='2k'}"), "no point has");
        refused(&claim("needs=['luck']"), "luck");
        refused(&claim("here='something'"), "nothing here can test it");
        refused(&claim("test='iops(A) / iops(Z) > 1'"), "speaks of Z");
        refused(&claim("test='iops(A, bs=2k) > 1'"), "no point has");
        refused(&claim("test='speed(A) > 1'"), "speed");
        refused(&format!("{}\n{}", claim(""), claim("")), "two claims");
        refused(&claim("primary=true"), "nothing tests it");
        refused(&claim("at={bs='16k..'}"), "no point has");
        refused(&claim("test='ratio(iops) >= 0.98'"), "`inferred` says how");
        let six: Vec<String> = (0..6)
            .map(|id| format!("[[claim]]\nid='{id}'\ntext='t'\nprimary=true\ntest='iops(A) > 1'\n"))
            .collect();
        refused(&six.concat(), "6 claims are primary");
    }
}
