//! Joins connections with volume queues
