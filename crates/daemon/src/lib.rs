//! The server: engine, reactor and backends in one ordinary process.
//!
//! [`Config`] says what is wanted; [`serve`] checks it whole, opens every volume and portal, and runs one event
//! loop per core until a signal asks it to stop. Nothing is served before everything could be opened. What a server begins with and what it
//! changes to later are put in place in one way: by the controller, which alone says what is served.

mod access;
mod accounts;
mod check;
mod config;
mod control;
mod control_input;
mod departures;
mod descriptors;
mod exports;
mod findings;
mod fresh;
mod help;
mod identity;
mod kept;
mod log;
mod loss;
mod nfs_state;
mod openings;
mod prepare;
mod randomness;
mod ready_file;
mod rescan;
mod safety;
mod secrets;
mod serve;
mod serving_core;
mod shares;
mod signals;
mod state;
mod statistics;

pub use check::check;
pub use config::{
    AccessEntry, ChapEntry, Config, Daemon, Digests, Discovery, Limits, PortalEntry, PortalKind, Protocol,
    ShareEntry, Squash, Transport, VolumeEntry, check_name,
};
pub use findings::Findings;
pub use identity::{IQN_PREFIX, Identity, NQN_PREFIX};
pub use log::{Filter, FilterError, Format, LONGEST_DRAIN, Log, Output};
pub use loss::{LossAction, losses};
pub use serve::{ConfigSource, ServeOptions, serve};
