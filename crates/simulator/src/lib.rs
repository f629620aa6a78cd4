//! The engine in a seeded world: clock, network, crash disks, faults, checkers
