//! RoCEv2: the packets of InfiniBand's transport inside of UDP datagrams, and the CRC that guards them end to end.
//!
//! | standard | module |
//! |---|---|
//! | IBTA §9.2, §9.3: base and extended transport headers | [`header`], [`opcode`] |
//! | IBTA §9.7.5.2: acknowledgements | [`syndrome`] |
//! | IBTA annex A17: packets inside of UDP | [`packet`] |
//! | IBTA §7.8.1, annex A17: the invariant CRC | [`icrc`] |
//!
//! IBTA is the InfiniBand Architecture Specification, volume 1, release 1.4.
//!
//! Bytes from the network never panic and are never copied: a [`packet::Packet`] refers to its datagram.
//!
//! Architecture invariant: no socket, clock, thread or source of randomness; no memory is allocated.
#![no_std]
#![forbid(unsafe_code)]

pub mod header;
pub mod icrc;
pub mod limits;
pub mod opcode;
pub mod packet;
pub mod syndrome;
