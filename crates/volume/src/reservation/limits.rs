//! How large the state of one volume's reservations can become.

/// Registrations of one volume: each costs a name of up to about 500 bytes in memory and in READ FULL STATUS, whose
/// allocation length of 16 bits (SPC-4 §6.15) holds about this many with their usual names.
pub const MAX_REGISTRATIONS: usize = 512;
