//! Bytes to typed headers and back. No state, no tables.
//!
//! Header types are `zerocopy` views in network byte order; everything outside this module is in
//! host order. Lengths are taken from the IP header and checked against the frame, never the other
//! way round.
//!
//! A frame comes in through [`parse`], its flow is hashed by [`FlowHashKey`], and it leaves through
//! [`encapsulation`] or, answered in place, through [`reply`]. [`originate`] makes the frames that
//! the appliance sends on its own account, [`Builder`] those of tests and generators.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod address;
pub mod arp;
mod buffer;
mod builder;
pub mod checksum;
pub mod encapsulation;
pub mod ethernet;
mod flow;
mod flow_hash;
pub mod icmp;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod ndp;
pub mod originate;
pub mod parse;
pub mod protocol;
pub mod reply;
pub mod tcp;
#[cfg(test)]
mod tests;
pub mod udp;

pub use address::{ALL_NODES, MacAddress, ParseMacAddressError, solicited_node};
pub use buffer::{HeapBuf, PacketBuf};
pub use builder::Builder;
pub use flow::{FlowHash, FlowKey};
pub use flow_hash::{
    FlowHashKey, Ipv4Message, Ipv6Message, ParseFlowHashKeyError, ipv4_message, ipv6_message,
};
pub use parse::{IpPacket, Link, Network, ParseError, Parsed};
pub use tcp::TcpFlags;
