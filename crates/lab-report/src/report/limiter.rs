//! Which resource was exhausted, and when: a strip for each arm over the time of the run.
//!
//! It is drawn here, without the script. A resource is named only where it was measured above 90 %.

use std::collections::BTreeMap;
use std::fmt::Write;

use lab_model::result::{PointResult, point_name};

use super::plan::Drawn;
use super::run::Run;
use super::svg::{colour, escaped};
use super::table::{Cell, Table};
use super::words;

/// Where the strips begin and how wide they are.
const LEFT: f64 = 60.0;
const WIDTH: f64 = 820.0;
/// Height of a strip, and from one to the next.
const HEIGHT: f64 = 22.0;
const STEP: f64 = 32.0;
/// Below this many pixels nobody sees a window.
const THINNEST: f64 = 1.5;

/// A window in the strip.
struct Window<'a> {
    arm: &'a str,
    /// Seconds since the run's first window.
    start: f64,
    seconds: f64,
    limiter: &'a str,
    point: String,
}

/// Draws the timeline.
pub(crate) fn draw(run: &Run) -> Drawn {
    let windows = windows(&run.points);
    let limiters = limiters(&windows);
    let table = table(&run.points);
    let named = windows.iter().filter(|window| !window.limiter.is_empty()).count();
    let note = format!(
        "A resource is named where it was measured above 90 %: in {named} of {}.",
        words::count(windows.len(), "window")
    );
    Drawn {
        id: "lab-limiter".to_owned(),
        title: "Limiter over time".to_owned(),
        notes: vec![note],
        charts: Vec::new(),
        svg: if windows.is_empty() { String::new() } else { strips(run, &windows, &limiters) },
        table,
        comparisons: Vec::new(),
    }
}

fn windows(points: &[PointResult]) -> Vec<Window<'_>> {
    let at = |result: &PointResult| {
        result.started.parse::<jiff::Timestamp>().ok().map(|time| time.as_duration().as_secs_f64())
    };
    let first = points.iter().filter_map(at).reduce(f64::min).unwrap_or(0.0);
    let window = |result| -> Option<Window<'_>> {
        let result: &PointResult = result;
        let limiter = result.limiter.as_deref().unwrap_or_default();
        let (start, point) = (at(result)? - first, point_name(&result.point));
        Some(Window { arm: &result.arm, start, seconds: result.seconds, limiter, point })
    };
    points.iter().filter_map(window).collect()
}

/// Every resource that was exhausted, and its colour.
fn limiters<'a>(windows: &[Window<'a>]) -> BTreeMap<&'a str, usize> {
    let mut names: Vec<&str> =
        windows.iter().map(|window| window.limiter).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().zip(0..).collect()
}

fn strips(run: &Run, windows: &[Window<'_>], limiters: &BTreeMap<&str, usize>) -> String {
    let arms = &run.scenario.arms;
    let end = windows.iter().map(|window| window.start + window.seconds).fold(1.0, f64::max);
    let mut svg = String::new();
    let mut top = 4.0;
    for arm in arms {
        let own: Vec<&Window<'_>> = windows.iter().filter(|window| window.arm == arm.key).collect();
        if !own.is_empty() {
            let strip = Strip { arm: &arm.key, windows: &own, top, end };
            draw_strip(&mut svg, &strip, limiters);
            top += STEP;
        }
    }
    scale(&mut svg, top, end);
    let key = key(limiters);
    let (width, height) = (LEFT + WIDTH + 20.0, top + 26.0);
    format!(
        "<svg class=\"limiter\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"The exhausted resource of every window, over the time of the run\">{svg}</svg>{key}"
    )
}

/// An arm's strip.
struct Strip<'a> {
    arm: &'a str,
    windows: &'a [&'a Window<'a>],
    /// Where it is drawn.
    top: f64,
    /// When the run ends, in seconds.
    end: f64,
}

fn draw_strip(svg: &mut String, strip: &Strip<'_>, limiters: &BTreeMap<&str, usize>) {
    let Strip { arm: key, windows, top, end } = *strip;
    let baseline = top + HEIGHT / 2.0 + 5.0;
    let _ = write!(
        svg,
        "<text class=\"title\" x=\"{}\" y=\"{baseline}\" text-anchor=\"end\">{}</text>",
        LEFT - 12.0,
        escaped(key)
    );
    let _ = write!(
        svg,
        "<rect class=\"ground\" x=\"{LEFT}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>"
    );
    for window in windows {
        let (left, width) = (LEFT + window.start / end * WIDTH, (window.seconds / end * WIDTH).max(THINNEST));
        let style = match limiters.get(window.limiter) {
            Some(place) => format!("fill:{}", colour(*place)),
            None => "fill:var(--faint)".to_owned(),
        };
        let what = if window.limiter.is_empty() { "none named" } else { window.limiter };
        let words = escaped(&format!("{key} at {}: {what}", window.point));
        let _ = write!(
            svg,
            "<rect x=\"{left:.2}\" y=\"{top}\" width=\"{width:.2}\" height=\"{HEIGHT}\" style=\"{style}\"><title>{words}</title></rect>"
        );
    }
}

/// Five marks of time below the strips.
fn scale(svg: &mut String, top: f64, end: f64) {
    for fifth in 0..=4_u32 {
        let share = f64::from(fifth) / 4.0;
        let x = LEFT + share * WIDTH;
        let anchor = match fifth {
            0 => "start",
            4 => "end",
            _ => "middle",
        };
        let _ = write!(
            svg,
            "<text class=\"fine\" x=\"{x}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            top + 14.0,
            clock(share * end)
        );
    }
}

/// Hours, minutes and seconds: `2:05:09`, `5:09`.
fn clock(seconds: f64) -> String {
    let minutes = (seconds / 60.0).floor();
    let (hours, rest) = ((minutes / 60.0).floor(), seconds - minutes * 60.0);
    if hours > 0.0 {
        format!("{hours}:{:02}:{rest:02.0}", minutes - hours * 60.0)
    } else {
        format!("{minutes}:{rest:02.0}")
    }
}

fn key(limiters: &BTreeMap<&str, usize>) -> String {
    let mut html = String::from("<ul class=\"legend\">");
    let names = limiters.iter().map(|(name, place)| (escaped(name), colour(*place)));
    for (name, colour) in names.chain([("none above 90 %".to_owned(), "var(--faint)".to_owned())]) {
        let _ = write!(html, "<li><span class=\"swatch\" style=\"background:{colour}\"></span>{name}</li>");
    }
    html.push_str("</ul>");
    html
}

/// How often which resource was exhausted, by point and arm.
fn table(points: &[PointResult]) -> Table {
    let mut table = Table::new(["point", "arm", "evidence", "limiter", "windows"]);
    let mut counts: Vec<([String; 4], u32)> = Vec::new();
    for result in points {
        let limiter = result.limiter.clone().unwrap_or_else(|| "none above 90 %".to_owned());
        let key =
            [point_name(&result.point), result.arm.clone(), result.evidence.label().to_owned(), limiter];
        match counts.iter_mut().find(|(known, _)| *known == key) {
            Some((_, count)) => *count += 1,
            None => counts.push((key, 1)),
        }
    }
    let row = |(key, count): ([String; 4], u32)| {
        key.into_iter().map(Cell::Text).chain([Cell::Number(f64::from(count))]).collect()
    };
    table.rows = counts.into_iter().map(row).collect();
    table
}
