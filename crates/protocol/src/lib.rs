//! The contract of a sans-IO connection, and a test pair that joins two of them
