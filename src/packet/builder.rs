//! Frames for tests and generators, right by default and wrong where told.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zerocopy::IntoBytes;

use super::checksum::{Sum, checksum, pseudo_header};
use super::ethernet::{EthernetHeader, VlanTag, ethertype};
use super::icmp::{self, EchoHeader};
use super::ipv4::{DONT_FRAGMENT, IPV4_LEN, Ipv4Header};
use super::ipv6::Ipv6Header;
use super::tcp::{TCP_LEN, TcpFlags, TcpHeader};
use super::udp::{UDP_LEN, UdpHeader};
use super::{FlowKey, MacAddress, icmpv6, protocol};

/// Builds one Ethernet frame. Lengths and checksums are right unless a method sets them; a packet
/// that is too long for its length field states the largest length.
///
/// ```
/// use lodestone::packet::{Builder, MacAddress, TcpFlags, parse};
///
/// let frame = Builder::ethernet(MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2]))
///     .vlan(5)
///     .ipv4("198.51.100.7".parse()?, "203.0.113.1".parse()?)
///     .tcp(50_000, 443, TcpFlags::SYN)
///     .pad_to(60)
///     .build();
/// assert_eq!(parse::parse(&frame)?.link.vlan, Some(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    source_mac: MacAddress,
    destination_mac: MacAddress,
    vlan_control: Option<u16>,
    ethertype: Option<u16>,
    addresses: Option<(IpAddr, IpAddr)>,
    ttl: u8,
    traffic_class: u8,
    flow_label: u32,
    identification: u16,
    fragment: u16,
    options: Vec<u8>,
    extensions: Vec<(u8, Vec<u8>)>,
    upper: Upper,
    payload: Vec<u8>,
    pad_to: usize,
    wrong: Wrong,
}

/// What is in front of the payload.
#[derive(Clone, Debug)]
enum Upper {
    Raw { protocol: u8 },
    Tcp { source_port: u16, destination_port: u16, flags: TcpFlags, options: Vec<u8> },
    Udp { source_port: u16, destination_port: u16 },
    Icmp { protocol: u8, message: Vec<u8> },
}

/// Fields that are set by hand.
#[derive(Clone, Copy, Debug, Default)]
struct Wrong {
    version: Option<u8>,
    header_words: Option<u8>,
    ip_length: Option<u16>,
    ip_checksum: Option<u16>,
    l4_checksum: Option<u16>,
    data_offset: Option<u8>,
    udp_length: Option<u16>,
}

/// The link layer.
impl Builder {
    /// A frame from `source` to `destination`, without anything in it.
    pub const fn ethernet(source: MacAddress, destination: MacAddress) -> Self {
        Self {
            source_mac: source,
            destination_mac: destination,
            vlan_control: None,
            ethertype: None,
            addresses: None,
            ttl: 64,
            traffic_class: 0,
            flow_label: 0,
            identification: 0,
            fragment: DONT_FRAGMENT,
            options: Vec::new(),
            extensions: Vec::new(),
            upper: Upper::Raw { protocol: protocol::NO_NEXT_HEADER },
            payload: Vec::new(),
            pad_to: 0,
            wrong: Wrong {
                version: None,
                header_words: None,
                ip_length: None,
                ip_checksum: None,
                l4_checksum: None,
                data_offset: None,
                udp_length: None,
            },
        }
    }

    /// An 802.1Q tag of this VLAN; its upper four bits are the priority and drop eligibility. 0 is a
    /// priority tag.
    pub const fn vlan(mut self, control: u16) -> Self {
        self.vlan_control = Some(control);
        self
    }

    /// Another ethertype than that of the packet.
    pub const fn ethertype(mut self, ethertype: u16) -> Self {
        self.ethertype = Some(ethertype);
        self
    }

    /// Padding of zeros behind the packet, up to this length of the frame in bytes.
    pub const fn pad_to(mut self, frame_len: usize) -> Self {
        self.pad_to = frame_len;
        self
    }
}

/// The IP header.
impl Builder {
    /// An IPv4 packet.
    pub const fn ipv4(mut self, source: Ipv4Addr, destination: Ipv4Addr) -> Self {
        self.addresses = Some((IpAddr::V4(source), IpAddr::V4(destination)));
        self
    }

    /// An IPv6 packet.
    pub const fn ipv6(mut self, source: Ipv6Addr, destination: Ipv6Addr) -> Self {
        self.addresses = Some((IpAddr::V6(source), IpAddr::V6(destination)));
        self
    }

    /// An IP packet of this flow: addresses, protocol and ports. TCP segments have the ACK flag.
    pub fn flow(mut self, flow: &FlowKey) -> Self {
        self.addresses = Some((flow.source(), flow.destination()));
        let (source_port, destination_port) = (flow.source_port(), flow.destination_port());
        match flow.protocol() {
            protocol::TCP => self.tcp(source_port, destination_port, TcpFlags::ACK),
            protocol::UDP => self.udp(source_port, destination_port),
            protocol => self.protocol(protocol),
        }
    }

    /// TTL or hop limit; 64 unless set.
    pub const fn ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    /// DSCP and ECN: TOS byte or traffic class.
    pub const fn traffic_class(mut self, traffic_class: u8) -> Self {
        self.traffic_class = traffic_class;
        self
    }

    /// IPv6's flow label, of which 20 bits count.
    pub const fn flow_label(mut self, label: u32) -> Self {
        self.flow_label = label & 0x000f_ffff;
        self
    }

    /// IPv4's identification.
    pub const fn identification(mut self, identification: u16) -> Self {
        self.identification = identification;
        self
    }

    /// IPv4 without the don't-fragment bit.
    pub const fn may_fragment(mut self) -> Self {
        self.fragment &= !DONT_FRAGMENT;
        self
    }

    /// A fragment whose payload begins `offset` bytes (a multiple of 8) into the datagram's. In
    /// IPv6 it is a further extension header.
    pub fn fragment(mut self, offset: u16, more: bool) -> Self {
        if let Some((IpAddr::V6(_), _)) = self.addresses {
            let [high, low] = ((offset & !7) | u16::from(more)).to_be_bytes();
            self.extensions.push((protocol::FRAGMENT, vec![high, low, 0, 0, 0, 1]));
        } else {
            self.fragment = offset >> 3 | u16::from(more) << 13;
        }
        self
    }

    /// IPv4 options, padded with zeros to whole words.
    pub fn ipv4_options(mut self, options: &[u8]) -> Self {
        self.options = padded(options, 4);
        self
    }

    /// A further IPv6 extension header: its number, and what follows its next header and length.
    /// It is padded with zeros to whole units of eight bytes (authentication header: four).
    pub fn extension(mut self, number: u8, body: &[u8]) -> Self {
        self.extensions.push((number, body.to_vec()));
        self
    }

    /// Another IP version in the header.
    pub const fn version(mut self, version: u8) -> Self {
        self.wrong.version = Some(version);
        self
    }

    /// Another IPv4 header length, in words.
    pub const fn header_words(mut self, words: u8) -> Self {
        self.wrong.header_words = Some(words);
        self
    }

    /// Another IPv4 total length or IPv6 payload length.
    pub const fn ip_length(mut self, length: u16) -> Self {
        self.wrong.ip_length = Some(length);
        self
    }

    /// Another IPv4 header checksum.
    pub const fn ip_checksum(mut self, checksum: u16) -> Self {
        self.wrong.ip_checksum = Some(checksum);
        self
    }
}

/// The upper layer.
impl Builder {
    /// A TCP segment.
    pub fn tcp(mut self, source_port: u16, destination_port: u16, flags: TcpFlags) -> Self {
        self.upper = Upper::Tcp { source_port, destination_port, flags, options: Vec::new() };
        self
    }

    /// Options of the TCP segment, padded with zeros to whole words.
    pub fn tcp_options(mut self, bytes: &[u8]) -> Self {
        if let Upper::Tcp { options, .. } = &mut self.upper {
            *options = padded(bytes, 4);
        }
        self
    }

    /// A UDP datagram.
    pub fn udp(mut self, source_port: u16, destination_port: u16) -> Self {
        self.upper = Upper::Udp { source_port, destination_port };
        self
    }

    /// An ICMP message; its bytes 2 and 3 become the checksum. The payload follows it.
    pub fn icmp(mut self, message: &[u8]) -> Self {
        self.upper = Upper::Icmp { protocol: protocol::ICMP, message: message.to_vec() };
        self
    }

    /// An ICMPv6 message; its bytes 2 and 3 become the checksum. The payload follows it.
    pub fn icmpv6(mut self, message: &[u8]) -> Self {
        self.upper = Upper::Icmp { protocol: protocol::ICMPV6, message: message.to_vec() };
        self
    }

    /// An echo request of the packet's family.
    pub fn echo_request(self, identifier: u16, sequence: u16) -> Self {
        let ipv6 = matches!(self.addresses, Some((IpAddr::V6(_), _)));
        let header = EchoHeader {
            message_type: if ipv6 { icmpv6::ECHO_REQUEST } else { icmp::ECHO_REQUEST },
            code: 0,
            checksum: 0.into(),
            identifier: identifier.into(),
            sequence: sequence.into(),
        };
        if ipv6 { self.icmpv6(header.as_bytes()) } else { self.icmp(header.as_bytes()) }
    }

    /// Another protocol; its header is part of the payload.
    pub fn protocol(mut self, protocol: u8) -> Self {
        self.upper = Upper::Raw { protocol };
        self
    }

    /// What comes last.
    pub fn payload(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    /// Another TCP, UDP or ICMP checksum.
    pub const fn l4_checksum(mut self, checksum: u16) -> Self {
        self.wrong.l4_checksum = Some(checksum);
        self
    }

    /// Another TCP header length, in words.
    pub const fn tcp_data_offset(mut self, words: u8) -> Self {
        self.wrong.data_offset = Some(words);
        self
    }

    /// Another UDP length.
    pub const fn udp_length(mut self, length: u16) -> Self {
        self.wrong.udp_length = Some(length);
        self
    }
}

/// Putting it together, from the inside out.
impl Builder {
    /// The frame.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let (packet_type, packet) = match self.addresses {
            None => (0, self.payload.clone()),
            Some((IpAddr::V4(source), IpAddr::V4(destination))) => {
                (ethertype::IPV4, self.ipv4_packet(source, destination))
            }
            Some((source, destination)) => {
                (ethertype::IPV6, self.ipv6_packet(to_ipv6(source), to_ipv6(destination)))
            }
        };
        let packet_type = self.ethertype.unwrap_or(packet_type);
        let outer_type = if self.vlan_control.is_some() { ethertype::VLAN } else { packet_type };
        let ethernet = EthernetHeader {
            destination: self.destination_mac,
            source: self.source_mac,
            ethertype: outer_type.into(),
        };
        let mut frame = ethernet.as_bytes().to_vec();
        if let Some(control) = self.vlan_control {
            let tag = VlanTag { control: control.into(), ethertype: packet_type.into() };
            frame.extend_from_slice(tag.as_bytes());
        }
        frame.extend_from_slice(&packet);
        if frame.len() < self.pad_to {
            frame.resize(self.pad_to, 0);
        }
        frame
    }

    fn ipv4_packet(&self, source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
        let upper = self.upper_layer(source.into(), destination.into());
        let header_len = IPV4_LEN + self.options.len();
        let words = self.wrong.header_words.unwrap_or_else(|| low_byte(header_len / 4));
        let mut header = Ipv4Header {
            version_ihl: self.wrong.version.unwrap_or(4) << 4 | (words & 0x0f),
            tos: self.traffic_class,
            total_length: self.wrong.ip_length.unwrap_or(length(header_len + upper.len())).into(),
            identification: self.identification.into(),
            fragment: self.fragment.into(),
            ttl: self.ttl,
            protocol: self.protocol_number(),
            checksum: 0.into(),
            source: source.octets(),
            destination: destination.octets(),
        };
        let right = Sum::ZERO.bytes(header.as_bytes()).bytes(&self.options).checksum();
        header.checksum = self.wrong.ip_checksum.unwrap_or(right).into();
        [header.as_bytes(), &self.options, &upper].concat()
    }

    fn ipv6_packet(&self, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
        let upper = self.upper_layer(source.into(), destination.into());
        // Back to front: each header names the one behind it.
        let mut next = self.protocol_number();
        let mut payload = upper;
        for (number, body) in self.extensions.iter().rev() {
            let header = extension_header(*number, next, body);
            payload.splice(0..0, header);
            next = *number;
        }
        let version = u32::from(self.wrong.version.unwrap_or(6) & 0x0f);
        let class = u32::from(self.traffic_class);
        let header = Ipv6Header {
            version_class_label: (version << 28 | class << 20 | self.flow_label).into(),
            payload_length: self.wrong.ip_length.unwrap_or(length(payload.len())).into(),
            next_header: next,
            hop_limit: self.ttl,
            source: source.octets(),
            destination: destination.octets(),
        };
        [header.as_bytes(), &payload].concat()
    }

    const fn protocol_number(&self) -> u8 {
        match self.upper {
            Upper::Tcp { .. } => protocol::TCP,
            Upper::Udp { .. } => protocol::UDP,
            Upper::Raw { protocol } | Upper::Icmp { protocol, .. } => protocol,
        }
    }

    fn upper_layer(&self, source: IpAddr, destination: IpAddr) -> Vec<u8> {
        let sum = |len: usize| {
            pseudo_header(source, destination, self.protocol_number(), len).unwrap_or_default()
        };
        match &self.upper {
            Upper::Raw { .. } => self.payload.clone(),
            Upper::Tcp { source_port, destination_port, flags, options } => {
                let header_len = TCP_LEN + options.len();
                let words = self.wrong.data_offset.unwrap_or_else(|| low_byte(header_len / 4));
                let mut header = TcpHeader {
                    source_port: (*source_port).into(),
                    destination_port: (*destination_port).into(),
                    sequence: 1.into(),
                    acknowledgement: u32::from(flags.contains(TcpFlags::ACK)).into(),
                    data_offset: words << 4,
                    flags: *flags,
                    window: 0xffff.into(),
                    checksum: 0.into(),
                    urgent: 0.into(),
                };
                let sum = sum(header_len + self.payload.len())
                    .bytes(header.as_bytes())
                    .bytes(options)
                    .bytes(&self.payload);
                header.checksum = self.wrong.l4_checksum.unwrap_or(sum.checksum()).into();
                [header.as_bytes(), options, &self.payload].concat()
            }
            Upper::Udp { source_port, destination_port } => {
                let len = UDP_LEN + self.payload.len();
                let mut header = UdpHeader {
                    source_port: (*source_port).into(),
                    destination_port: (*destination_port).into(),
                    length: self.wrong.udp_length.unwrap_or(length(len)).into(),
                    checksum: 0.into(),
                };
                let sum = sum(len).bytes(header.as_bytes()).bytes(&self.payload).checksum();
                // RFC 768: a sum of 0 is sent as all ones.
                let right = if sum == 0 { 0xffff } else { sum };
                header.checksum = self.wrong.l4_checksum.unwrap_or(right).into();
                [header.as_bytes(), &self.payload].concat()
            }
            Upper::Icmp { protocol, message } => {
                let mut message = [message.as_slice(), &self.payload].concat();
                put_word(&mut message, 2, 0);
                let right = if *protocol == protocol::ICMPV6 {
                    sum(message.len()).bytes(&message).checksum()
                } else {
                    checksum(&message)
                };
                put_word(&mut message, 2, self.wrong.l4_checksum.unwrap_or(right));
                message
            }
        }
    }
}

/// IPv6 has no place for an IPv4 address but as a mapped one (RFC 4291 §2.5.5.2).
const fn to_ipv6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

fn extension_header(number: u8, next: u8, body: &[u8]) -> Vec<u8> {
    let mut header = vec![next, 0];
    header.extend_from_slice(body);
    let (unit, less) = if number == protocol::AUTHENTICATION { (4, 2) } else { (8, 1) };
    let mut header = padded(&header, unit);
    let units = low_byte((header.len() / unit).saturating_sub(less));
    // A fragment header has no length; the byte is reserved (RFC 8200 §4.5).
    if let (Some(byte), true) = (header.get_mut(1), number != protocol::FRAGMENT) {
        *byte = units;
    }
    header
}

fn padded(bytes: &[u8], unit: usize) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(unit), 0);
    padded
}

fn put_word(bytes: &mut [u8], at: usize, word: u16) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<2>()) {
        *place = word.to_be_bytes();
    }
}

/// A length as its 16-bit field states it.
fn length(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

fn low_byte(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}
