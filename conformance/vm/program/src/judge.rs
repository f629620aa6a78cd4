//! Whether a history of reads and writes is linearizable, for every block by itself, and whether fences held.
//!
//! Each write has a value of its own. So a block's history splits into clusters, a write and the reads that returned it, and the question is
//! decided by the zones between a cluster's first completion and its last invocation (Gibbons and Korach, *Testing Shared Memories*, 1997): where
//! the completion comes first, the block certainly held the value all that time. No two such times may overlap, and no other cluster may lie
//! inside one. This is stricter than `simulator::history`, which judges each read by itself and is told of power cuts; here clients see one
//! disk that never loses power, and a value that was seen may not go away again.
//!
//! A write that ended in an error may have happened, may still happen at any later time, or never. A client that was fenced writes nothing
//! from when the fence was acknowledged until it may have been lifted: a write that it began before happened before, or afterwards.

use std::collections::BTreeMap;
use std::fmt;

/// A moment, in nanoseconds from the history's beginning.
pub(crate) type Moment = u64;

/// What an operation was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Write,
    Read,
}

/// One operation on a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) client: usize,
    pub(crate) kind: Kind,
    pub(crate) block: u64,
    /// What was written, or returned. `None` is what no write has written: parts of several.
    pub(crate) value: Option<u64>,
    pub(crate) invoked: Moment,
    pub(crate) completed: Moment,
    pub(crate) succeeded: bool,
}

/// A time in which a client was certainly fenced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fence {
    pub(crate) client: usize,
    pub(crate) from: Moment,
    pub(crate) until: Moment,
    /// Whether it may not read either.
    pub(crate) reads: bool,
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) block: u64,
    pub(crate) words: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}: {}", self.block, self.words)
    }
}

/// A write and the reads that returned it: the first completion, the last invocation.
#[derive(Debug, Clone, Copy)]
struct Cluster {
    value: u64,
    completion: Moment,
    invocation: Moment,
}

/// Judges a history. The blocks were blank at its beginning.
pub(crate) fn judge(history: &[Operation], fences: &[Fence]) -> Result<(), Violation> {
    for operation in history {
        if let Some(words) = fenced_read(operation, fences) {
            return Err(Violation { block: operation.block, words });
        }
    }
    let mut blocks: BTreeMap<u64, Vec<&Operation>> = BTreeMap::new();
    for operation in history {
        blocks.entry(operation.block).or_default().push(operation);
    }
    for (block, operations) in blocks {
        judge_block(&operations, fences).map_err(|words| Violation { block, words })?;
    }
    Ok(())
}

fn fenced_read(read: &Operation, fences: &[Fence]) -> Option<String> {
    let fence = fences.iter().find(|fence| {
        fence.reads
            && fence.client == read.client
            && fence.from < read.invoked
            && read.completed < fence.until
    })?;
    (read.kind == Kind::Read && read.succeeded).then(|| {
        format!("client {} read at {}, and was fenced from {} on", read.client, read.invoked, fence.from)
    })
}

fn judge_block(operations: &[&Operation], fences: &[Fence]) -> Result<(), String> {
    let mut clusters = Vec::new();
    let blank = Operation {
        client: usize::MAX,
        kind: Kind::Write,
        block: 0,
        value: Some(0),
        invoked: 0,
        completed: 0,
        succeeded: true,
    };
    let writes = operations.iter().copied().filter(|operation| operation.kind == Kind::Write).chain([&blank]);
    let mut reads: BTreeMap<u64, Vec<&Operation>> = BTreeMap::new();
    for read in operations.iter().filter(|operation| operation.kind == Kind::Read && operation.succeeded) {
        let value = read
            .value
            .ok_or_else(|| format!("a read at {} returned parts of several values", read.invoked))?;
        reads.entry(value).or_default().push(read);
    }
    for write in writes {
        let value = write.value.unwrap_or_default();
        clusters.extend(cluster(write, &reads.remove(&value).unwrap_or_default(), fences)?);
    }
    if let Some((value, _)) = reads.first_key_value() {
        return Err(format!("{value:x} was read and never written"));
    }
    compare(&clusters)
}

/// The cluster of a write; none for one that failed and was never seen.
fn cluster(write: &Operation, reads: &[&Operation], fences: &[Fence]) -> Result<Option<Cluster>, String> {
    let value = write.value.unwrap_or_default();
    let own = write.succeeded.then_some(write.completed);
    let Some(mut latest) = reads.iter().map(|read| read.completed).chain(own).min() else { return Ok(None) };
    let mut earliest = write.invoked;
    for fence in fences.iter().filter(|fence| fence.client == write.client) {
        let inside = |moment: Moment| fence.from < moment && moment < fence.until;
        if inside(latest) {
            latest = fence.from;
        }
        if inside(earliest) {
            earliest = fence.until;
        }
    }
    if latest < earliest {
        return Err(format!(
            "{value:x} of client {} was written between {} and {}, and could be written only from {earliest} to {latest}",
            write.client, write.invoked, write.completed
        ));
    }
    let invocation = reads.iter().map(|read| read.invoked).fold(earliest, Moment::max);
    Ok(Some(Cluster { value, completion: latest, invocation }))
}

/// No two values at one time.
fn compare(clusters: &[Cluster]) -> Result<(), String> {
    let certain = clusters.iter().filter(|cluster| cluster.completion < cluster.invocation);
    for held in certain {
        for other in clusters.iter().filter(|other| other.value != held.value) {
            let clash = if other.completion < other.invocation {
                held.completion.max(other.completion) < held.invocation.min(other.invocation)
            } else {
                held.completion < other.invocation && other.completion < held.invocation
            };
            if clash {
                return Err(format!(
                    "held {:x} from {} to {}, and {:x} in between ({} to {})",
                    held.value,
                    held.completion,
                    held.invocation,
                    other.value,
                    other.completion,
                    other.invocation
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(client: usize, value: u64, (invoked, completed): (Moment, Moment)) -> Operation {
        Operation {
            client,
            kind: Kind::Write,
            block: 0,
            value: Some(value),
            invoked,
            completed,
            succeeded: true,
        }
    }

    fn read(value: u64, times: (Moment, Moment)) -> Operation {
        Operation { kind: Kind::Read, ..write(9, value, times) }
    }

    fn failed(operation: Operation) -> Operation {
        Operation { succeeded: false, ..operation }
    }

    fn verdict(history: &[Operation]) -> Result<(), String> {
        judge(history, &[]).map_err(|violation| violation.to_string())
    }

    const FENCE: Fence = Fence { client: 1, from: 100, until: 200, reads: false };

    #[test]
    fn what_overlaps_may_be_in_any_order() {
        let both = [write(1, 1, (10, 30)), write(2, 2, (20, 40))];
        for last in [1, 2] {
            verdict(&[both[0], both[1], read(last, (50, 60))]).unwrap();
        }
        verdict(&[write(1, 1, (10, 30)), read(0, (15, 20)), read(1, (21, 25)), read(1, (40, 50))]).unwrap();
    }

    #[test]
    fn an_acknowledged_write_that_is_lost_is_found() {
        assert!(verdict(&[write(1, 1, (10, 20)), read(0, (30, 40))]).is_err());
        assert!(verdict(&[write(1, 1, (10, 20)), write(1, 2, (30, 40)), read(1, (50, 60))]).is_err());
    }

    #[test]
    fn what_was_seen_does_not_go_away_again() {
        let under_way = write(1, 1, (10, 100));
        assert!(verdict(&[under_way, read(1, (20, 30)), read(0, (40, 50))]).is_err());
        let both = [write(1, 1, (10, 30)), write(2, 2, (20, 40))];
        assert!(
            verdict(&[both[0], both[1], read(1, (50, 60)), read(2, (70, 80)), read(1, (90, 95))]).is_err()
        );
    }

    #[test]
    fn a_failed_write_happens_once_at_any_time_or_never() {
        let lost = failed(write(1, 1, (10, 20)));
        let next = write(1, 2, (30, 40));
        verdict(&[lost, next, read(2, (50, 60))]).unwrap();
        verdict(&[lost, next, read(2, (50, 60)), read(1, (70, 80))]).unwrap();
        assert!(verdict(&[lost, next, read(1, (50, 60)), read(2, (70, 80)), read(1, (90, 95))]).is_err());
        assert!(verdict(&[read(1, (2, 5)), lost]).is_err(), "never before it began");
    }

    #[test]
    fn values_that_nobody_wrote_and_torn_ones_are_found() {
        assert!(verdict(&[read(7, (10, 20))]).unwrap_err().contains("never written"));
        let torn = Operation { value: None, ..read(0, (10, 20)) };
        assert!(verdict(&[torn]).unwrap_err().contains("several"));
    }

    #[test]
    fn a_fenced_client_writes_nothing() {
        let judged = |history: &[Operation]| judge(history, &[FENCE]);
        assert!(
            judged(&[write(1, 1, (110, 120))]).unwrap_err().to_string().contains("could be written only")
        );
        judged(&[failed(write(1, 1, (110, 120)))]).unwrap();
        assert!(judged(&[failed(write(1, 1, (110, 120))), read(1, (130, 140))]).is_err());
        judged(&[failed(write(1, 1, (110, 120))), read(1, (210, 220))]).unwrap();
        judged(&[write(2, 1, (110, 120))]).unwrap();
        // Begun before, and told afterwards: it happened before the other client's write.
        let late = write(1, 1, (90, 150));
        let other = write(2, 2, (160, 170));
        judged(&[late, other, read(2, (180, 190))]).unwrap();
        let unfenced = [failed(late), write(2, 2, (110, 120)), read(2, (130, 135)), read(1, (140, 150))];
        judge(&unfenced, &[]).unwrap();
        assert!(judged(&unfenced).is_err());
    }

    #[test]
    fn a_fenced_read_is_found() {
        let inside = Operation { client: 1, ..read(0, (110, 120)) };
        judge(&[inside], &[FENCE]).unwrap();
        let fence = Fence { reads: true, ..FENCE };
        assert!(judge(&[inside], &[fence]).is_err());
        judge(&[failed(inside)], &[fence]).unwrap();
    }
}
