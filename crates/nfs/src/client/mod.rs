//! An NFS client of versions 4.1 and 4.2, and of version 3: a file at a server as a volume (RFC 8881, RFC 7862, RFC 1813).
//!
//! [`NfsClient`] is one connection's upper layer, over a byte stream ([`connect`]) or a queue pair ([`connect_over`]); [`version3`] has that of version 3. Each queue of a volume has a client of its own in the standard's sense: a client ID,
//! a session and one open, which [`Keep`] hands from one connection to the next. docs/decisions/0038-nfs-client.md has the reasons.
//!
//! | RFC 8881 | file |
//! |---|---|
//! | §18.35, §18.36, §18.34, §18.51, §18.13, §18.16: from a connection to an open file | `mount` |
//! | §2.10.6: slots, and sequence IDs by which nothing is carried out twice | `slots`, `session` |
//! | §18.22, §18.32, §18.3; RFC 7862 §15.4: the volume's requests | `transfers` |
//! | §15: what statuses mean | `verdict` |
//! | §16.2: COMPOUND | `arguments`, `results`, `plan` |
//! | RFC 1813: version 3, with the same `transfers` | [`version3`] |
//! | §18.4, §18.13, §18.16, §18.23, §18.25: names, without data | [`names`] |

mod arguments;
mod clocks;
mod config;
mod connection;
mod data;
mod found;
pub mod limits;
mod mount;
pub mod names;
mod plan;
mod refusal;
mod remedy;
mod remote;
mod results;
mod session;
mod slots;
mod subject;
mod transfers;
mod transport;
mod verdict;
pub mod version3;

pub use config::{Access, Config, Versions};
pub use connection::{Action, ClientResults, Input, NfsClient};
pub use remote::{RemoteFile, Version};
pub use session::Keep;
pub use transport::{
    ClientConfig, FileConfig, TcpClient, TcpMount, TcpNames, TcpNfs3, connect, connect_over, needs,
    private_data,
};
