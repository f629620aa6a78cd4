//! A volume as a vhost-user block device: queues in memory of virtual machines and of other programs, served from this process without a monitor or a protocol in between.
//!
//! | module | what |
//! |---|---|
//! | `server` | the process: cores, sockets, signals |
//! | `device` | what a front end asks over its socket |
//! | `service` | a core, with the rings that it serves |
//! | `ring` | a queue and its requests |
//! | `request` | what a buffer asks for |
//! | `guest` | the memory that front ends lend |

mod device;
mod guest;
mod limits;
mod request;
mod ring;
mod server;
mod service;
#[cfg(test)]
mod trials;

pub use server::{VhostConfig, VhostVolume, serve};
