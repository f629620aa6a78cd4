//! Which resource was exhausted, and when: a strip for each arm over the time of the run.
//!
//! It is drawn here, without the script. A resource is named only where it was measured above 90 %. Its key has a resource once,
//! however near its end it was, and at most as many as can be told apart.

use std::collections::BTreeMap;
use std::fmt::Write;

use lab_model::result::{PointResult, point_name};

use super::plan::{Drawn, MOST_SERIES};
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
    /// The limiter without its per cent.
    resource: String,
    point: String,
}

/// What stands in the key for all resources beyond those that can be told apart.
const OTHERS: &str = "other resources";

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
        let resource = resource(limiter);
        Some(Window { arm: &result.arm, start, seconds: result.seconds, limiter, resource, point })
    };
    points.iter().filter_map(window).collect()
}

/// `processor 1 (target) 98 % or link 96 %` is one of processor 1 and the link, whatever their per cent.
fn resource(limiter: &str) -> String {
    let name = |part: &str| {
        let words = part.strip_suffix(" %").and_then(|part| part.rsplit_once(' '));
        words.filter(|(_, number)| number.parse::<f64>().is_ok()).map_or(part, |(name, _)| name).to_owned()
    };
    limiter.split(" or ").map(name).collect::<Vec<_>>().join(" or ")
}

/// The resources that were exhausted most often, and their colours; the key has room for the others as one, and for none.
fn limiters(windows: &[Window<'_>]) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for window in windows.iter().filter(|window| !window.resource.is_empty()) {
        *counts.entry(window.resource.as_str()).or_default() += 1;
    }
    let mut names: Vec<(&str, usize)> = counts.into_iter().collect();
    names.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let room = MOST_SERIES - 1;
    let mut shown: Vec<String> = names.iter().map(|(name, _)| (*name).to_owned()).collect();
    if shown.len() > room {
        shown.truncate(room - 1);
        shown.push(OTHERS.to_owned());
    }
    shown.into_iter().zip(0..).collect()
}

fn strips(run: &Run, windows: &[Window<'_>], limiters: &BTreeMap<String, usize>) -> String {
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

fn draw_strip(svg: &mut String, strip: &Strip<'_>, limiters: &BTreeMap<String, usize>) {
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
        let place = limiters.get(&window.resource).or_else(|| limiters.get(OTHERS));
        let style = match place.filter(|_| !window.resource.is_empty()) {
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

fn key(limiters: &BTreeMap<String, usize>) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn window(limiter: &str) -> Window<'_> {
        Window {
            arm: "A",
            start: 0.0,
            seconds: 1.0,
            limiter,
            resource: resource(limiter),
            point: String::new(),
        }
    }

    #[test]
    fn a_resource_stands_once_in_the_key_whatever_its_per_cent() {
        let windows = [
            "all processors 99 %",
            "all processors 98 %",
            "",
            "device sdb 95 % or link from the target 95 %",
        ];
        let key = limiters(&windows.map(window));
        let names: Vec<&str> = key.keys().map(String::as_str).collect();
        assert_eq!(names, ["all processors", "device sdb or link from the target"]);
    }

    #[test]
    fn the_key_has_eight_entries_at_most_with_none_among_them() {
        let many: Vec<String> = (0..12).map(|device| format!("device sd{device} 95 %")).collect();
        let mut windows: Vec<Window<'_>> = many.iter().map(|limiter| window(limiter)).collect();
        windows.extend(["device sd9 99 %", "device sd9 97 %"].map(window));
        let limiters = limiters(&windows);
        assert_eq!(limiters.len(), MOST_SERIES - 1);
        assert!(limiters.contains_key(OTHERS) && limiters.contains_key("device sd9"), "{limiters:?}");
        assert_eq!(key(&limiters).matches("<li>").count(), MOST_SERIES);
    }
}
