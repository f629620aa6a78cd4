//! What each block may hold, by the promises of the contract alone.

/// What a check found to be wrong.
#[derive(Debug)]
pub(super) struct Finding(String);

impl<T: ToString> From<T> for Finding {
    fn from(text: T) -> Self {
        Self(text.to_string())
    }
}

impl Finding {
    /// For people.
    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

/// What a check came to.
pub(super) type Checked<T = ()> = Result<T, Finding>;

/// A value that a block was written with, or may have been.
#[derive(Debug, Clone, Copy)]
struct Written {
    at: u64,
    value: u64,
    /// The write succeeded. Otherwise nobody knows.
    surely: bool,
}

#[derive(Debug, Clone)]
struct Block {
    /// What a crash may leave, oldest first; all before the first is gone for good.
    history: Vec<Written>,
    /// What a read may answer.
    possible: Vec<u64>,
}

/// All blocks.
#[derive(Debug)]
pub(super) struct Model {
    blocks: Vec<Block>,
    clock: u64,
    /// The capacity disk has lost something in this life: reads may answer older content until every queue has been told.
    untold_loss: bool,
}

impl Model {
    pub(super) fn new(blocks: u64) -> Self {
        let zero = Written { at: 0, value: 0, surely: true };
        let block = Block { history: vec![zero], possible: vec![0] };
        Self { blocks: vec![block; usize::try_from(blocks).unwrap()], clock: 0, untold_loss: false }
    }

    fn block(&mut self, block: u64) -> &mut Block {
        &mut self.blocks[usize::try_from(block).unwrap()]
    }

    /// A moment, for a flush that is submitted now.
    pub(super) fn now(&self) -> u64 {
        self.clock
    }

    pub(super) fn written(&mut self, block: u64, value: u64, durable: bool) {
        self.clock += 1;
        let (at, untold_loss) = (self.clock, self.untold_loss);
        let block = self.block(block);
        if durable {
            block.history.clear();
        }
        block.history.push(Written { at, value, surely: true });
        // It may have been among what was lost.
        let first = if untold_loss { 0 } else { block.history.len() - 1 };
        block.possible = block.history[first..].iter().map(|written| written.value).collect();
    }

    /// A write failed, or nobody heard how it ended.
    pub(super) fn maybe_written(&mut self, block: u64, value: u64) {
        self.clock += 1;
        let at = self.clock;
        let block = self.block(block);
        block.history.push(Written { at, value, surely: false });
        block.possible.push(value);
    }

    /// A flush that was submitted at `moment` has succeeded.
    pub(super) fn flushed(&mut self, moment: u64) {
        for block in &mut self.blocks {
            let last = block.history.iter().rposition(|written| written.surely && written.at <= moment);
            if let Some(last) = last {
                block.history.drain(..last);
            }
        }
    }

    /// A read answered this. It must be possible, and is what later reads answer.
    pub(super) fn read(&mut self, block: u64, value: u64) -> Checked {
        self.clock += 1;
        let (at, untold_loss) = (self.clock, self.untold_loss);
        let found = self.block(block);
        if !found.possible.contains(&value) {
            let text = format!("block {block} was read as {value} and may hold {:?}", found.possible);
            return Err(text.into());
        }
        if untold_loss {
            return Ok(());
        }
        if found.possible.len() > 1 {
            // What it holds is known now, and a flush covers it.
            found.history.push(Written { at, value, surely: true });
        }
        found.possible = vec![value];
        Ok(())
    }

    /// What was not flushed may be lost, and the next flush tells so.
    pub(super) fn lost(&mut self) {
        self.untold_loss = true;
        for block in &mut self.blocks {
            block.possible = block.history.iter().map(|written| written.value).collect();
        }
    }

    /// A flush has failed: what no good one has covered is to be written again. Other queues may not have been told yet, so that reads may still differ.
    pub(super) fn told(&mut self) {
        if self.untold_loss {
            for written in self.blocks.iter_mut().flat_map(|block| &mut block.history) {
                written.surely = false;
            }
        }
    }

    /// Everything that was not flushed may be lost.
    pub(super) fn crashed(&mut self) {
        self.untold_loss = false;
        for block in &mut self.blocks {
            block.possible = block.history.iter().map(|written| written.value).collect();
            // Which of them it is, nobody knows until it is read: a flush covers that one, and gives the others up no sooner.
            block.history.iter_mut().for_each(|written| written.surely = false);
        }
    }

    /// The power was cut, and all blocks were read since: what they hold is on the media.
    pub(super) fn settled(&mut self) {
        for block in &mut self.blocks {
            let value = block.possible[0];
            block.history = vec![Written { at: 0, value, surely: true }];
        }
    }

    /// What a block surely holds.
    pub(super) fn sure(&self, block: u64) -> Option<u64> {
        match self.blocks[usize::try_from(block).unwrap()].possible.as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    }

    pub(super) fn may_hold(&self, block: u64, value: u64) -> bool {
        self.blocks[usize::try_from(block).unwrap()].possible.contains(&value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_covers_what_had_completed_and_a_crash_leaves_anything_since() {
        let mut model = Model::new(1);
        model.written(0, 1, false);
        let moment = model.now();
        model.written(0, 2, false);
        model.flushed(moment);
        model.maybe_written(0, 3);
        model.crashed();
        assert!([1, 2, 3].iter().all(|value| model.may_hold(0, *value)) && !model.may_hold(0, 0));
        model.read(0, 2).unwrap();
        assert!(model.read(0, 3).is_err(), "it has flipped");
    }
}
