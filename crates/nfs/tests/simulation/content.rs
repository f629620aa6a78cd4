//! What a file may hold: what was promised of each of its blocks, and what may have reached the disk beside that.

/// Blocks of a file.
pub const BLOCKS: usize = 4;
/// Bytes from block to block: what a crash keeps or takes, it does by pages.
pub const BLOCK: u64 = 4096;

pub type Verifier = [u8; 8];

/// One block: a number that was written at its beginning.
#[derive(Debug, Clone, Default)]
pub struct Block {
    /// Was promised to be durable.
    pub durable: u64,
    /// What was written since, oldest first: each of them may be there.
    pub maybe: Vec<u64>,
    /// What was written last and answered, with the number of crashes then. Nothing while that is not known.
    pub last: Option<(u64, usize)>,
    /// What was answered, and has to be committed under this verifier.
    pub unstable: Option<(u64, Verifier)>,
    /// It has to be written again: nobody knows what it holds.
    pub doubtful: bool,
    /// A write or a read of it is under way.
    pub busy: bool,
}

impl Block {
    pub fn may_hold(&self, value: u64) -> bool {
        value == self.durable || self.maybe.contains(&value)
    }

    /// A value is durable: what was written before it cannot come back.
    pub fn secure(&mut self, value: u64) {
        if let Some(at) = self.maybe.iter().position(|one| *one == value) {
            self.maybe.drain(..=at);
            self.durable = value;
        }
    }

    /// Nobody knows what it holds.
    pub fn doubt(&mut self) {
        self.unstable = None;
        self.last = None;
        self.doubtful = true;
    }

    pub fn is_settled(&self) -> bool {
        !self.busy && !self.doubtful && self.unstable.is_none()
    }
}
