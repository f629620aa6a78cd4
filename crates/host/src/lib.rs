//! What the outside world must offer the engine and the backends: storage, streams, time, other cores, and state that outlives the process.
//!
//! The reactor implements these traits with real files, sockets and clocks; the simulator with seeded ones.
//! Whoever is written against them runs unchanged in both.
//!
//! Architecture invariant: nothing here knows a protocol or makes a system call.
#![forbid(unsafe_code)]

mod adapter;
mod block;
mod datagram;
mod endpoint_id;
mod folder;
mod journal;
mod look_up;
mod polled;
mod service;
mod state;
mod stream;
mod tree;
mod watch;

pub use adapter::{
    AdapterError, AdapterPair, AdapterPort, AdapterQueuePair, Adapters, NoAdapters, OpenedPair, PairId,
    PairNeeds, PairRequest, PairWish,
};
pub use block::{
    BlockDone, BlockFile, BlockInfo, BlockKind, BlockOperation, BlockQueue, BlockRequest, IoError, OpenMode,
    OpenOptions, Storage,
};
pub use datagram::{
    DatagramEndpoint, Datagrams, Membership, OpenSocket, Path, SlotField, SocketGroup, SocketSlot,
};
pub use endpoint_id::{EndpointId, ListenerId};
pub use folder::Folder;
pub use journal::{Event, Journal, Kind, Level, Recording, Silent};
pub use look_up::{Resolver, SecretReader};
pub use polled::Polled;
pub use service::{CoreIndex, Postbox, Service, World};
pub use state::{MemoryState, StateError, StateErrorKind, StateStore, VolumeState};
pub use stream::{Accepted, Dialer, Endpoint, Refusal};
pub use tree::{
    Actor, DataAccess, DataPlace, DeviceNumber, Glance, KernelHandle, Named, NewNode, NewTime, NodeEntry,
    NodeKind, NodeStat, NodeTime, RangeChange, Right, Tree, TreeDone, TreeQueue, TreeSpace, WriteSync,
};
pub use watch::WatchEndpoint;
