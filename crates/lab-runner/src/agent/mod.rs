//! The lab on another host: an agent starts and stops what a scenario needs there, and counts what it costs.
//!
//! `linerate lab agent` is the [`server`]; the lab's end is [`client`]. An agent runs only what the lab itself knows how to run ([`crate::arm`], [`crate::tool`]) and a few named
//! actions of the host's kernel ([`action`]), with arguments that it checks; there is no request that carries a command.
//! `docs/protocols/lab-agent.md` describes what goes over the wire.

pub mod action;
mod channel;
pub mod client;
mod files;
pub(crate) mod guard;
pub(crate) mod hex;
pub mod limits;
pub(crate) mod message;
pub mod server;
mod session;
mod settings;
mod token;

pub use server::Agent;
pub use settings::Settings;
pub use token::Token;
