//! Volume URLs: filters from the outside in, each with a `+`, and the source that they stand before.

use alloc::vec::Vec;
use core::fmt;

use crate::filter::Filter;
use crate::parse::parse_by_read;
use crate::piece::{Fault, Piece};
use crate::source::Source;

/// The most filters before a source.
const MOST_FILTERS: usize = 16;

/// A volume, named by URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeUrl {
    /// Filters, the outermost first: the order in which a request meets them.
    pub filters: Vec<Filter>,
    /// What they filter.
    pub source: Source,
}

impl VolumeUrl {
    /// True when a `readonly` filter stands anywhere before the source, which then need not be opened for writing.
    pub fn is_read_only(&self) -> bool {
        self.filters.contains(&Filter::ReadOnly)
    }

    fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        let mut filters = Vec::new();
        let mut rest = piece;
        while let Some((filter, after)) = Filter::read(rest)? {
            if filters.len() == MOST_FILTERS {
                return Err(rest.fault("there are more than 16 filters", "use fewer"));
            }
            filters.push(filter);
            rest = after;
        }
        Ok(Self { filters, source: Source::read(rest)? })
    }
}

impl From<Source> for VolumeUrl {
    fn from(source: Source) -> Self {
        Self { filters: Vec::new(), source }
    }
}

impl fmt::Display for VolumeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.filters.iter().try_for_each(|filter| write!(f, "{filter}+"))?;
        write!(f, "{}", self.source)
    }
}

parse_by_read!(VolumeUrl, "volume URL");
