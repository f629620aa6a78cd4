//! What volumes with a `stats` filter were asked to do, and what the event loops took for it, told when serving ends.

use std::fmt::Write;
use std::sync::Arc;

use engine::RoceCounters;
use reactor::Turns;
use volume::filter::{OperationSet, StatsSnapshot};

use crate::exports::Opened;
use crate::shares::OpenedShare;

/// A line for each volume that counts.
pub(crate) fn lines(volumes: &[Opened]) -> Vec<String> {
    let counting = volumes.iter().filter_map(|entry| Some((&entry.name, entry.volume.statistics()?)));
    counting.map(|(name, counted)| format!("volume {name} counted{}", list(&counted))).collect()
}

/// A line for each volume that is a cache.
pub(crate) fn caches(volumes: &[Opened]) -> Vec<String> {
    let caches = volumes.iter().filter_map(|entry| Some((&entry.name, entry.volume.cache()?.status())));
    caches.map(|(name, status)| format!("cache {name} {status}")).collect()
}

/// A line for each share.
pub(crate) fn shares(shares: &[OpenedShare]) -> Vec<String> {
    let line = |share: &OpenedShare| {
        let counted = share.filesystem.statistics();
        let (name, requests, failed) = (&share.entry.name, counted.requests, counted.failed);
        let (read, written) = (counted.bytes_read, counted.bytes_written);
        format!(
            "share {name} counted: {requests} requests, {failed} failed; {read} bytes read, {written} bytes written"
        )
    };
    shares.iter().map(line).collect()
}

/// A line for each event loop: its longest turn since it serves, and how many were above a millisecond.
pub(crate) fn turns(cores: &[Arc<Turns>]) -> Vec<String> {
    let line = |(core, turns): (usize, &Arc<Turns>)| {
        let (micros, stalls) = (turns.longest().as_micros(), turns.stalls());
        format!("core {core}: longest turn {micros} us of processor time, {stalls} above 1 ms")
    };
    cores.iter().enumerate().map(line).collect()
}

/// A line of what packets of RoCEv2 went through, if anything but to come once and in order.
pub(crate) fn packets(counted: &RoceCounters) -> Option<String> {
    (!counted.is_empty()).then(|| format!("RoCE counted {counted}"))
}

/// The operations that have happened.
fn list(counted: &StatsSnapshot) -> String {
    let mut text = String::new();
    for kind in StatsSnapshot::kinds() {
        let stats = counted.of(kind);
        if stats.count == 0 {
            continue;
        }
        let separator = if text.is_empty() { ":" } else { "," };
        let (count, bytes, errors) = (stats.count, stats.bytes, stats.errors);
        // Writing to a string does not fail.
        let _ = write!(text, "{separator} {count} {} of {bytes} bytes, {errors} failed", plural(kind));
    }
    if text.is_empty() { " no request".to_owned() } else { text }
}

fn plural(kind: OperationSet) -> &'static str {
    match kind {
        OperationSet::READ => "reads",
        OperationSet::WRITE => "writes",
        OperationSet::FLUSH => "flushes",
        OperationSet::DISCARD => "discards",
        OperationSet::ZERO => "zeroings",
        OperationSet::COMPARE => "comparisons",
        OperationSet::VERIFY => "verifications",
        OperationSet::RESERVATION => "reservation commands",
        _ => "allocation queries",
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use volume::filter::{Delay, Stats};
    use volume::{CoreId, Extent, Operation, QueueContext, Request, Tag, Volume};

    use super::*;

    fn opened(name: &str, volume: Arc<dyn Volume>) -> Opened {
        Opened::plain(name, volume)
    }

    #[test]
    fn volumes_that_count_tell_what_was_done_and_others_nothing() {
        let null = || Arc::new(volume::Null::new(1 << 20, 512).unwrap());
        let busy: Arc<dyn Volume> = Arc::new(Stats::new(null()));
        let mut queue =
            busy.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone())).unwrap();
        let operations = [
            Operation::Flush,
            Operation::Verify { extent: Extent::new(0, 1) },
            Operation::Verify { extent: Extent::new(4096, 1) },
        ];
        for (tag, operation) in (0..).map(Tag).zip(operations) {
            queue.submit(protocol::Instant::ZERO, Request { tag, operation }).unwrap();
            queue.poll(protocol::Instant::ZERO, &mut Vec::new());
        }
        let hidden = Delay::new(Arc::new(Stats::new(null())), std::time::Duration::ZERO);
        let volumes = [opened("busy", busy), opened("idle", Arc::new(hidden)), opened("plain", null())];
        assert_eq!(
            lines(&volumes),
            [
                "volume busy counted: 1 flushes of 0 bytes, 0 failed, 2 verifications of 512 bytes, 1 failed",
                "volume idle counted no request"
            ]
        );
    }

    #[test]
    fn every_event_loop_tells_of_its_longest_turn() {
        let cores = [Arc::default(), Arc::default()];
        let line = |core| format!("core {core}: longest turn 0 us of processor time, 0 above 1 ms");
        assert_eq!(turns(&cores), [line(0), line(1)]);
    }
}
