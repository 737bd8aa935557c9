//! Ethernet II and one IEEE 802.1Q tag.

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::MacAddress;

/// What an Ethernet frame carries.
pub mod ethertype {
    /// IPv4 (RFC 894).
    pub const IPV4: u16 = 0x0800;
    /// ARP (RFC 826).
    pub const ARP: u16 = 0x0806;
    /// A customer VLAN tag (IEEE 802.1Q).
    pub const VLAN: u16 = 0x8100;
    /// IPv6 (RFC 2464).
    pub const IPV6: u16 = 0x86dd;
}

/// Length of an Ethernet header without a tag, in bytes.
pub const ETHERNET_LEN: usize = size_of::<EthernetHeader>();
/// Length of an 802.1Q tag, in bytes.
pub const VLAN_TAG_LEN: usize = size_of::<VlanTag>();
/// The shortest frame on the wire without its check sequence (IEEE 802.3 §3.2.8), in bytes.
pub const MINIMUM_FRAME_LEN: usize = 60;

/// An Ethernet II header.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct EthernetHeader {
    /// Destination address.
    pub destination: MacAddress,
    /// Source address.
    pub source: MacAddress,
    /// One of [`ethertype`], or a value below 0x600 in an 802.3 frame.
    pub ethertype: U16,
}

/// An 802.1Q tag, from behind its own ethertype to the ethertype of what it carries.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct VlanTag {
    /// Priority (3 bits), drop eligibility (1), VLAN id (12).
    pub control: U16,
    /// What the frame carries.
    pub ethertype: U16,
}

impl VlanTag {
    /// The VLAN's number, or `None` for 0: such a frame has a priority and no VLAN.
    #[must_use]
    #[inline]
    pub fn id(&self) -> Option<u16> {
        let id = self.control.get() & 0x0fff;
        (id != 0).then_some(id)
    }
}

const _: () = assert!(ETHERNET_LEN == 14);
const _: () = assert!(VLAN_TAG_LEN == 4);
