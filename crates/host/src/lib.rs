//! What the outside world must offer the engine: blocks, dialling, timers, stored state
