//! Bytes to typed headers and back. No state, no tables.
//!
//! Header types are `zerocopy` views in network byte order; everything outside this module is in
//! host order. Lengths are taken from the IP header and checked against the frame, never the other
//! way round.

mod address;
mod buffer;
mod flow;

pub use address::MacAddress;
pub use buffer::{HeapBuf, PacketBuf};
pub use flow::{FlowHash, FlowHashKey, FlowKey};
