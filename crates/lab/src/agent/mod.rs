//! The lab on another host: an agent starts and stops what a scenario needs there, and counts what it costs.
//!
//! `linerate lab agent` is the [`server`]; the lab's end is [`client`], and [`afar`] is an arm whose sides stand on hosts of a site
//! file. An agent runs only what the lab itself knows how to run ([`crate::arm`], [`crate::tool`]) and a few named
//! actions of the host's kernel ([`action`]), with arguments that it checks; there is no request that carries a command.
//! `docs/protocols/lab-agent.md` describes what goes over the wire.

pub mod action;
pub mod afar;
mod channel;
pub mod client;
mod files;
mod guard;
mod hex;
pub mod limits;
mod message;
pub mod server;
mod session;
mod token;

pub use afar::{Afar, Fleet};
pub use server::{Agent, Settings};
pub use token::Token;
