//! The names users type: volume URLs, IQNs, NQNs, sizes, durations
