//! What does not change while a process runs.

use std::fmt;
use std::sync::Arc;

use host::{Adapters, Journal};
use protocol::Entropy;

use crate::catalogue::ControlObserver;

/// Makes a source of randomness for a connection.
pub type EntropySource = Arc<dyn Fn() -> Box<dyn Entropy> + Send + Sync>;

/// What every core is given for life.
#[derive(Clone)]
pub struct EngineConfig {
    /// The most memory for data buffers on each core, in bytes.
    pub pool_limit: usize,
    /// Where connections get their randomness.
    pub entropy: EntropySource,
    /// Queue pairs in hardware.
    pub adapters: Arc<dyn Adapters>,
    /// Where events are recorded.
    pub journal: Arc<dyn Journal>,
    /// Who hears what becomes of catalogues and volumes.
    pub observer: Arc<dyn ControlObserver>,
    /// What packets of RoCEv2 went through, on all cores.
    pub roce: Arc<roce::Counters>,
}

impl fmt::Debug for EngineConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineConfig").field("pool_limit", &self.pool_limit).finish_non_exhaustive()
    }
}
