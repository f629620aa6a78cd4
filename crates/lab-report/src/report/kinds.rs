//! Which file draws which kind of figure.

use lab_model::scenario::{Figure, FigureKind};

use super::plan::Drawn;
use super::series::Measured;
use super::{compare, distribution, figure, trace};

/// One figure by its kind.
pub(crate) fn draw(measured: &Measured<'_>, figure: &Figure) -> Drawn {
    match figure.kind {
        FigureKind::OverTime => trace::draw(measured, figure),
        FigureKind::Histogram | FigureKind::HistogramZoom => distribution::draw(measured, figure),
        _ => Drawn { comparisons: compare::comparisons(measured, figure), ..figure::draw(measured, figure) },
    }
}
