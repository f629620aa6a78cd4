//! Small drawings that need no script: keys of legends, and text that is safe inside a drawing.

use std::fmt::Write;

/// How many colours the style sheet has for series.
pub(crate) const COLOURS: usize = 8;
/// Dashes of lines; the script uses the same in the same order.
const DASHES: [&str; 4] = ["", "6 3", "2 3", "8 3 2 3"];
/// Opacities of bars; the script uses the same in the same order.
const FILLS: [&str; 4] = ["1", "0.55", "0.25", "0.1"];

/// The custom property of a series' colour.
pub(crate) fn colour(place: usize) -> String {
    format!("var(--s{})", place % COLOURS)
}

/// Text with what would be markup escaped.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A piece of a bar.
pub(crate) fn bar_key(place: usize, variant: usize) -> String {
    let (colour, fill) = (colour(place), FILLS[variant % FILLS.len()]);
    format!(
        "<svg class=\"key\" viewBox=\"0 0 28 14\" aria-hidden=\"true\"><rect x=\"7\" y=\"1\" width=\"14\" height=\"12\" rx=\"2\" \
         style=\"fill:{colour};fill-opacity:{fill};stroke:{colour}\"/></svg>"
    )
}

/// A piece of a line with its symbol.
pub(crate) fn line_key(place: usize, variant: usize) -> String {
    let (colour, dash) = (colour(place), DASHES[variant % DASHES.len()]);
    let mut svg = format!(
        "<svg class=\"key\" viewBox=\"0 0 28 14\" aria-hidden=\"true\"><line x1=\"1\" y1=\"7\" x2=\"27\" y2=\"7\" \
         style=\"stroke:{colour};stroke-width:2;stroke-dasharray:{dash}\"/>"
    );
    let symbol = match place % 4 {
        0 => "<circle cx=\"14\" cy=\"7\" r=\"3.5\"",
        1 => "<rect x=\"10.5\" y=\"3.5\" width=\"7\" height=\"7\"",
        2 => "<path d=\"M14 2.5 18.5 10.5 9.5 10.5Z\"",
        _ => "<path d=\"M14 2 19 7 14 12 9 7Z\"",
    };
    let _ = write!(svg, "{symbol} style=\"fill:{colour}\"/></svg>");
    svg
}
