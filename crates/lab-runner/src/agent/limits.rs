//! Bounds of what a lab, or anybody who reaches the agent's port, can make it hold, wait for or start.

use std::time::Duration;

/// Bytes of a frame before the lab has proved that it knows the token: a nonce, a proof and little else.
pub const GREETING_BYTES: usize = 1024;
/// Bytes of a lab's request: a thousand endpoints fit.
pub const REQUEST_BYTES: usize = 512 << 10;
/// Bytes of an agent's reply: a window of a day with a second each, or a chunk of a file.
pub const REPLY_BYTES: usize = 32 << 20;
/// Time in which a lab must have proved that it knows the token; a silent peer costs one thread for that long.
pub const GREETING_TIMEOUT: Duration = Duration::from_secs(5);
/// Time in which the rest of a frame must follow its length: the largest reply at 10 MB/s takes less.
pub const FRAME_TIMEOUT: Duration = Duration::from_secs(10);
/// Time without a request after which the lab is taken for dead, and all that runs for it is ended.
pub const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
/// Time after which the lab says that it is still there: a sixth of what the agent waits, so that several may be lost.
pub const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(10);
/// Time in which an agent must accept a connection: hosts of a lab are near each other.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time in which an agent must reply: starting a hundred targets one after the other takes less.
pub const REPLY_TIMEOUT: Duration = Duration::from_mins(5);
/// Time between two questions whether a load has ended: late by that at most, and too rare to show in its processor time.
pub const POLL_EVERY: Duration = Duration::from_millis(200);
/// Time that a load may take, whatever the scenario says: a day.
pub const LONGEST_LOAD: Duration = Duration::from_hours(24);
/// Connections that have not proved anything yet; one more is closed at once.
pub const STRANGERS: usize = 8;
/// Least bytes of a token: 128 bits cannot be guessed.
pub const LEAST_TOKEN: usize = 16;
/// Most bytes of a token: a file that is longer is another one by mistake.
pub const MOST_TOKEN: usize = 4096;
/// Arms that stand at a time, both sides counted: scenarios have less than ten.
pub const ARMS: usize = 64;
/// Arms that are started while one lab is connected: every one is noted in the ledger.
pub const STARTS: usize = 10_000;
/// Volumes of an arm, and endpoints of a load.
pub const VOLUMES: usize = 1024;
/// Settings of a load: no tool has as many.
pub const SETTINGS: usize = 64;
/// Bytes of a name, value or URL.
pub const WORD: usize = 1024;
/// Bytes of a file's part in one reply: the file is written as hexadecimal digits, twice as many.
pub const CHUNK: usize = 256 << 10;
/// Raw files of one load that the lab fetches: a job has a few logs.
pub const FILES: usize = 1000;
/// Bytes of all raw files of one load that the lab fetches: a busy pgbench logs a million transactions in 64 MiB.
pub const FILES_BYTES: u64 = 1 << 30;
/// Readings of the clock on connecting; the one whose reply came fastest says how far the clocks are apart.
pub const CLOCK_READINGS: usize = 5;
