//! A seeded world: the same code that the daemon runs, with a clock, a network and disks that do what a seed says.
//!
//! One seed is one history. A world runs on one thread; whatever could happen in another order (which operation ends first,
//! how long a chunk travels, which sector of an unflushed write survives) is thrown by one [`Dice`]. A failure is
//! therefore one line: the seed, and the command that plays it again ([`replay`]).
//!
//! * [`disk`]: the crash disk. It has a volatile write cache, completes out of order, fails, and on a cut loses, reorders and
//!   tears what was not flushed. Its header states the fault model.
//! * [`folder`]: a folder that loses on a crash what was not synced, for the state store; [`records`] are its trials.
//! * [`world`]: a server and its clients, joined by streams that delay, cut and reset. Its header states the fault model.
//! * [`sockets`]: sockets for datagrams in that world, and a network that loses, doubles, delays and damages what they send.
//! * [`history`]: the checker for lost writes, which knows what every block may hold; [`workload`] keeps a volume busy and tells
//!   the checker what it was promised; [`trial`] puts them together.
//! * [`failure`]: why a trial fails.
//! * [`losses`]: trials of a page cache that fails to write back.
//! * [`lasting`]: trials of a volume that stays open while its server dies, freezes and comes back; [`careless`] has the bugs that
//!   they must find.
//! * [`moves`]: trials of a volume whose connections come to another portal or controller each time.
//! * [`hostility`]: what makes an honest end hostile.
//! * [`consuming`]: trials of volumes on hostile servers; [`villains`] are those, [`rdma_villains`] both roles' over software iWARP, and [`roce_villains`]
//!   over software RoCEv2.
//! * [`random_connections`]: trials of connections over software iWARP and RoCE of any shape.
//! * [`reconfiguration`]: volumes and portals that come and go while clients of both protocols use them.
//! * [`fencing`]: clients of both protocols that take a disk from each other, through a server of several cores; [`slow`] is that disk,
//!   [`mail`] what its cores tell each other.
//!
//! Architecture invariant: nothing here reads a clock, opens a socket or a file, or starts a thread.
#![forbid(unsafe_code)]

pub mod attacks;
pub mod careless;
mod client_machine;
pub mod consuming;
pub mod damage;
mod dialects;
pub mod dice;
pub mod disk;
mod end;
pub mod failure;
pub mod fencing;
pub mod folder;
mod forsaken;
mod fpdus;
mod front;
mod greedy;
mod hasty;
pub mod history;
pub mod hostile;
pub mod hostility;
mod interlude;
mod keeper;
mod ladder;
pub mod lasting;
pub mod limits;
mod link;
pub mod losses;
mod machines;
pub mod mail;
pub mod marks;
pub mod moves;
pub mod network_conditions;
mod nexus;
pub mod observed;
mod peers;
mod queue_pair_peers;
mod random_clients;
pub mod random_connections;
mod random_datagram_clients;
mod rdma_attackers;
pub mod rdma_villains;
pub mod reconfiguration;
pub mod records;
pub mod replay;
mod reserving;
pub mod resets;
mod retirement;
mod roce_packets;
pub mod roce_villains;
mod script;
mod serving;
pub mod slow;
mod socket_groups;
pub mod sockets;
mod spread;
pub mod trial;
pub mod villains;
mod visitor;
pub mod workload;
pub mod world;

pub use dice::{Dice, Odds};
pub use disk::{CrashDisk, DiskOptions};
pub use failure::TrialFailure;
pub use folder::CrashFolder;
pub use history::{History, Violation};
pub use workload::Workload;
pub use world::World;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; a world lives on one thread, so a poisoned lock only means that a test has already failed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
