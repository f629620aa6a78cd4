//! Finds sequential streams: requests that each begin where another one ended. What is long enough goes past the cache, which would gain nothing and lose what it has.

use volume::Extent;

use crate::limits::STREAMS;

#[derive(Debug, Clone, Copy)]
struct Stream {
    next: u64,
    blocks: u64,
    used: u64,
}

/// The streams that a queue watches.
#[derive(Debug)]
pub(crate) struct Streams {
    watched: Vec<Stream>,
    /// Blocks from which a stream goes past; `None` if none does.
    bypass: Option<u64>,
    clock: u64,
}

impl Streams {
    /// Streams of `bypass` blocks and more go past.
    pub(crate) fn new(bypass: Option<u64>) -> Self {
        Self { watched: Vec::with_capacity(STREAMS), bypass, clock: 0 }
    }

    /// Notes a request; true if it belongs to a stream that goes past.
    pub(crate) fn passes(&mut self, extent: Extent) -> bool {
        let Some(bypass) = self.bypass else { return false };
        self.clock += 1;
        let next = extent.end().unwrap_or(u64::MAX);
        if let Some(stream) = self.watched.iter_mut().find(|stream| stream.next == extent.start) {
            let blocks = stream.blocks.saturating_add(extent.blocks);
            *stream = Stream { next, blocks, used: self.clock };
            return blocks >= bypass;
        }
        let new = Stream { next, blocks: extent.blocks, used: self.clock };
        if self.watched.len() < STREAMS {
            self.watched.push(new);
        } else if let Some(oldest) = self.watched.iter_mut().min_by_key(|stream| stream.used) {
            *oldest = new;
        }
        extent.blocks >= bypass
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_goes_past_once_it_is_long_even_among_others() {
        let mut streams = Streams::new(Some(8));
        let mut scattered = 1_u64;
        for step in 0..20 {
            assert_eq!(streams.passes(Extent::new(1000 + step, 1)), step >= 7, "step {step}");
            assert_eq!(streams.passes(Extent::new(5000 + 2 * step, 2)), step >= 3, "step {step}");
            scattered = scattered.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            assert!(!streams.passes(Extent::new(scattered >> 20, 1)));
        }
        assert!(streams.passes(Extent::new(0, 8)), "one request may be long enough");
    }

    #[test]
    fn nothing_goes_past_where_that_is_wished() {
        let mut streams = Streams::new(None);
        assert!((0..100).all(|step| !streams.passes(Extent::new(step * 64, 64))));
    }
}
