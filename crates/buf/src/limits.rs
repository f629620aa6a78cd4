//! Every number of the pool's accounts, with its unit and its reason.

/// The part of a pool that is kept for those who hold little: one in so many. With 64 MiB it is 8 MiB.
pub(crate) const RESERVED: usize = 8;
/// The part of a pool that tables may take together: one in so many, so that connections which stay and do nothing leave the rest to data.
pub(crate) const TABLES: usize = 4;
/// The part of a pool that posted receives may take together: one in so many. With 64 MiB that is 61 queue pairs of 128 receives of 4 KiB, and what the others
/// hold, tables too, still leaves room for one of the largest buffers.
pub(crate) const RECEIVES: usize = 2;
/// Accounts among which half of that part is divided: as many connections as a core serves unless more are configured. With 64 MiB each of them has 4 KiB
/// whatever the others hold, which is a block or an answer; the other half is divided among those that there are.
pub(crate) const ACCOUNTS: usize = 1024;
/// How often others, within their equal share, pass by whoever is first in line for memory before it gathers for that one: small requests go on
/// while a large one waits, and the large one's turn comes.
pub(crate) const PASSED_BY: u32 = 64;
/// Bytes of an arena: of one for small blocks after the first, and for large ones up to this. A device registers 64 MiB as 32 of them, and what is
/// not used of one costs addresses, no memory, where its source gives it so.
pub(crate) const ARENA: usize = 2 << 20;
/// Bytes of the first arena for small blocks: what a source has to give a pool that serves little.
pub(crate) const FIRST_ARENA: usize = 256 << 10;
/// Blocks of up to so many bytes share arenas, apart from larger ones.
pub(crate) const SMALL_BLOCK: usize = 64 << 10;
/// What a pool's arenas, and what was charged to it, may take beyond its limit, in bytes: blocks that are out keep arenas that are free for the most part, and
/// this much is left beside them for one of the largest.
pub const ARENA_SLACK: usize = crate::memory::LARGEST;
