//! The filters that a URL names.

use std::sync::Arc;

use names::{ByteSize, Filter, OperationKind};

use super::{Delay, Fail, Limit, OperationSet, ReadOnly, Stats};
use crate::{Extent, Volume, VolumeErrorKind};

/// Puts filters, the outermost first, before a volume.
pub fn apply_filters(filters: &[Filter], volume: Arc<dyn Volume>) -> Arc<dyn Volume> {
    filters.iter().rev().fold(volume, |inner, filter| apply_filter(filter, inner))
}

fn apply_filter(filter: &Filter, inner: Arc<dyn Volume>) -> Arc<dyn Volume> {
    match filter {
        Filter::Delay(names::Delay { time, jitter, seed, on }) => {
            Arc::new(Delay::new(inner, time.0).with_jitter(jitter.0, *seed).on(operations(on)))
        }
        Filter::Fail(fail) => {
            let extent = fail.blocks.map(|(first, count)| Extent::new(first, count));
            let filter = Fail::new(inner, fail.rate, kind_of(fail.kind)).on(operations(&fail.on));
            Arc::new(filter.within(extent).with_seed(fail.seed))
        }
        Filter::Limit(names::Limit { iops, bandwidth }) => {
            Arc::new(Limit::new(inner, *iops, bandwidth.map(|ByteSize(size)| size)))
        }
        Filter::Stats => Arc::new(Stats::new(inner)),
        Filter::ReadOnly => Arc::new(ReadOnly::new(inner)),
    }
}

fn kind_of(kind: names::FailKind) -> VolumeErrorKind {
    match kind {
        names::FailKind::Busy => VolumeErrorKind::Busy,
        names::FailKind::Media => VolumeErrorKind::Media,
        names::FailKind::NoSpace => VolumeErrorKind::NoSpace,
        names::FailKind::Protection => VolumeErrorKind::Protection,
        names::FailKind::TimedOut => VolumeErrorKind::TimedOut,
        names::FailKind::Unreachable => VolumeErrorKind::Unreachable,
    }
}

fn operations(on: &[OperationKind]) -> OperationSet {
    if on.is_empty() {
        return OperationSet::all();
    }
    let named = on.iter().map(|kind| match kind {
        OperationKind::Read => OperationSet::READ,
        OperationKind::Write => OperationSet::WRITE,
        OperationKind::Flush => OperationSet::FLUSH,
        OperationKind::Discard => OperationSet::DISCARD,
        OperationKind::Zero => OperationSet::ZERO,
        OperationKind::Compare => OperationSet::COMPARE,
        OperationKind::Verify => OperationSet::VERIFY,
    });
    named.fold(OperationSet::empty(), OperationSet::union)
}
