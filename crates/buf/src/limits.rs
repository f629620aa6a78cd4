//! Every number of the pool's accounts, with its unit and its reason.

/// The part of a pool that is kept for those who hold little: one in so many. With 64 MiB it is 8 MiB.
pub(crate) const RESERVED: usize = 8;
/// The part of a pool that tables may take together: one in so many, so that connections which stay and do nothing leave the rest to data.
pub(crate) const TABLES: usize = 4;
/// Accounts among which half of that part is divided: as many connections as a core serves unless more are configured. With 64 MiB each of them has 4 KiB
/// whatever the others hold, which is a block or an answer; the other half is divided among those that there are.
pub(crate) const ACCOUNTS: usize = 1024;
/// How often others, within their equal share, pass by whoever is first in line for memory before it gathers for that one: small requests go on
/// while a large one waits, and the large one's turn comes.
pub(crate) const PASSED_BY: u32 = 64;
