//! Properties and examples of the whole module, and the flows and frames they are made of.

mod encapsulation;
mod flow_hash;
mod originate;
mod parse;
mod reply;

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Builder, FlowKey, MacAddress};

const CLIENT_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const OUR_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
const CLIENT_V4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const VIP_V4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const CLIENT_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
const VIP_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);

/// A frame from the client to the appliance, nothing in it yet.
fn link() -> Builder {
    Builder::ethernet(CLIENT_MAC, OUR_MAC)
}

/// A packet from the client to the VIP, nothing in it yet.
fn ipv4() -> Builder {
    link().ipv4(CLIENT_V4, VIP_V4)
}

/// A packet from the client to the VIP, nothing in it yet.
fn ipv6() -> Builder {
    link().ipv6(CLIENT_V6, VIP_V6)
}

/// Repeatable random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.next().to_le_bytes()[0])
    }

    /// A flow of random ports between random addresses that may be sources.
    fn flow(&mut self, ipv6: bool, protocol: u8) -> FlowKey {
        let [a, b, c, d] = self.bytes();
        let (source_port, destination_port) =
            (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        if ipv6 {
            let mut source: [u8; 16] = self.bytes();
            source[0] = 0x20;
            FlowKey::V6 {
                source: source.into(),
                destination: self.bytes::<16>().into(),
                source_port,
                destination_port,
                protocol,
            }
        } else {
            let mut source: [u8; 4] = self.bytes();
            source[0] = 10;
            FlowKey::V4 {
                source: source.into(),
                destination: self.bytes::<4>().into(),
                source_port,
                destination_port,
                protocol,
            }
        }
    }
}
