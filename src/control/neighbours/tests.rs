//! The resolver on a link of frames, with time as a number.

use std::net::Ipv6Addr;

use super::*;
use crate::packet::originate::Origin;
use crate::packet::{ALL_NODES, Builder, icmpv6, solicited_node};

const PORT: PortId = PortId(0);
const OTHER_PORT: PortId = PortId(1);
const OURS: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const GATEWAY: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
const STANDBY: MacAddress = MacAddress([2, 0, 0, 0, 0, 10]);
const VLAN: Option<u16> = Some(7);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn identity(port: PortId) -> PortIdentity {
    PortIdentity {
        port,
        mac: OURS,
        vlan: VLAN,
        addresses: vec![
            "198.51.100.1/24".parse().unwrap(),
            "192.0.2.1/24".parse().unwrap(),
            "2001:db8::1/64".parse().unwrap(),
        ],
        vips: vec![ip("192.0.2.80"), ip("2001:db8::80")],
    }
}

fn hop(address: &str) -> NextHop {
    NextHop { port: PORT, address: ip(address) }
}

/// A resolver with one port that has announced itself, and these next hops.
fn resolver(hops: &[&str]) -> Neighbours {
    let mut neighbours = Neighbours::new(1);
    neighbours.set_ports(vec![identity(PORT)], Duration::ZERO);
    for second in 0..3 {
        neighbours.poll(seconds(second));
    }
    neighbours.set_targets(&hops.iter().copied().map(hop).collect::<Vec<_>>());
    neighbours
}

/// A frame as a sentence.
fn words(originated: &Originated) -> String {
    let frame = &originated.frame;
    let link = parse::link(frame).unwrap();
    assert_eq!((link.source, link.vlan), (OURS, VLAN));
    let to = link.destination;
    let packet = match parse::network(frame, &link).unwrap() {
        Network::Arp => {
            let arp = arp::parse(&frame[link.l3_offset..]).unwrap();
            assert_eq!((arp.operation, arp.sender_mac), (arp::Operation::Request, OURS));
            return format!("arp {} asks for {} to {to}", arp.sender, arp.target);
        }
        Network::Ip(packet) => packet,
    };
    if let Ok(asked) = ndp::solicitation(&packet, frame) {
        assert_eq!(asked.source_mac, Some(OURS));
        return format!("ndp {} asks for {} to {to}", asked.source, asked.target);
    }
    if let Ok(said) = ndp::advertisement(&packet, frame) {
        assert!(said.overrides && !said.solicited);
        assert_eq!(said.target_mac, Some(OURS));
        return format!("ndp {} is here to {to}", said.target);
    }
    assert_eq!(icmpv6::message_type(packet.l4(frame)), Some(icmpv6::LISTENER_REPORT_V2));
    format!("mld {} groups", (packet.l4(frame).len() - 8) / 20)
}

fn said(poll: &Poll) -> Vec<String> {
    poll.frames.iter().map(words).collect()
}

/// ARP from `mac`, on the port's VLAN.
fn arp_from(mac: MacAddress, operation: arp::Operation, sender: &str, target: &str) -> Vec<u8> {
    // The originator builds requests only: the operation is set by hand, at byte 7 of the packet.
    let origin = Origin { mac, vlan: VLAN };
    let mut frame = origin.arp_request(sender.parse().unwrap(), target.parse().unwrap());
    if operation == arp::Operation::Reply {
        frame[18 + 7] = 2;
    }
    frame
}

fn arp_reply(mac: MacAddress, sender: &str) -> Vec<u8> {
    arp_from(mac, arp::Operation::Reply, sender, "192.0.2.1")
}

const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// A neighbour advertisement with any flags, with or without the option that tells the MAC.
fn advertisement(
    frame_source: MacAddress,
    target: &str,
    flags: u8,
    mac: Option<MacAddress>,
) -> Vec<u8> {
    let mut message = vec![icmpv6::NEIGHBOUR_ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0];
    message.extend_from_slice(&v6(target).octets());
    if let Some(mac) = mac {
        message.extend_from_slice(&[2, 1]);
        message.extend_from_slice(&mac.0);
    }
    let destination = if flags & SOLICITED == 0 { ALL_NODES } else { link_local(OURS) };
    Builder::ethernet(frame_source, OURS)
        .vlan(7)
        .ipv6(v6(target), destination)
        .ttl(255)
        .icmpv6(&message)
        .build()
}

#[test]
fn next_hops_are_asked_for_from_the_address_of_their_network() {
    let mut neighbours = resolver(&["192.0.2.254", "203.0.113.9", "2001:db8::fe", "192.0.2.80"]);
    let poll = neighbours.poll(seconds(10));
    assert_eq!(
        said(&poll),
        [
            "arp 192.0.2.1 asks for 192.0.2.254 to ff:ff:ff:ff:ff:ff",
            "arp 198.51.100.1 asks for 203.0.113.9 to ff:ff:ff:ff:ff:ff",
            "ndp fe80::ff:fe00:1 asks for 2001:db8::fe to 33:33:ff:00:00:fe",
        ],
        "our own VIP is not asked for"
    );
    assert_eq!(poll.next, Some(seconds(11)));
    assert!(neighbours.poll(seconds(10)).frames.is_empty(), "not twice");
}

#[test]
fn answers_resolve_and_later_polls_ask_the_known_mac() {
    let mut neighbours = resolver(&["192.0.2.254", "2001:db8::fe"]);
    neighbours.poll(seconds(3));
    let at = seconds(4);
    assert_eq!(neighbours.lookup(PORT, ip("192.0.2.254")), None);
    assert!(neighbours.heard(PORT, &arp_reply(GATEWAY, "192.0.2.254"), at).changed);
    let frame =
        advertisement(GATEWAY, "2001:db8::fe", SOLICITED | OVERRIDE | ROUTER, Some(GATEWAY));
    assert!(neighbours.heard(PORT, &frame, at).changed);
    assert!(!neighbours.heard(PORT, &frame, at).changed, "no news");
    assert_eq!(neighbours.lookup(PORT, ip("192.0.2.254")), Some(GATEWAY));
    assert_eq!(neighbours.lookup(PORT, ip("2001:db8::fe")), Some(GATEWAY));
    assert_eq!(neighbours.lookup(OTHER_PORT, ip("192.0.2.254")), None);
    assert!(neighbours.entries().all(|entry| entry.state == NeighbourState::Reachable));

    let check = neighbours.poll(seconds(4)).next.unwrap();
    assert!((seconds(24)..seconds(34)).contains(&check), "{check:?}");
    let mut polled = said(&neighbours.poll(seconds(34)));
    polled.sort();
    assert_eq!(
        polled,
        [
            "arp 192.0.2.1 asks for 192.0.2.254 to 02:00:00:00:00:09",
            "ndp fe80::ff:fe00:1 asks for 2001:db8::fe to 02:00:00:00:00:09",
        ]
    );
    // RFC 4861 §4.4: the answer to a unicast question may leave the MAC out.
    let short = advertisement(GATEWAY, "2001:db8::fe", SOLICITED, None);
    assert!(!neighbours.heard(PORT, &short, seconds(35)).changed);
    let states: Vec<_> = neighbours.entries().map(|entry| entry.state).collect();
    assert_eq!(states, [NeighbourState::Probing, NeighbourState::Reachable]);
}

// design.md §4.11: an entry never expires.
#[test]
fn a_silent_neighbour_keeps_its_mac_and_is_stale() {
    let mut neighbours = resolver(&["192.0.2.254"]);
    neighbours.heard(PORT, &arp_reply(GATEWAY, "192.0.2.254"), seconds(3));
    let mut now = seconds(3);
    while now < seconds(3600) {
        now = neighbours.poll(now).next.unwrap();
    }
    let entry = neighbours.entries().next().unwrap();
    assert_eq!((entry.state, entry.mac), (NeighbourState::Stale, Some(GATEWAY)));
    assert_eq!(entry.heard, Some(seconds(3)));
    assert_eq!(neighbours.lookup(PORT, ip("192.0.2.254")), Some(GATEWAY));
}

#[test]
fn a_gateway_that_fails_over_is_followed_at_once() {
    for frame in [
        arp_from(STANDBY, arp::Operation::Request, "192.0.2.254", "192.0.2.254"),
        arp_from(STANDBY, arp::Operation::Reply, "192.0.2.254", "192.0.2.254"),
        arp_from(STANDBY, arp::Operation::Request, "192.0.2.254", "192.0.2.77"),
        advertisement(STANDBY, "2001:db8::fe", OVERRIDE, Some(STANDBY)),
        Origin { mac: STANDBY, vlan: VLAN }
            .neighbour_solicitation(v6("2001:db8::fe"), v6("2001:db8::1")),
    ] {
        let mut neighbours = resolver(&["192.0.2.254", "2001:db8::fe"]);
        neighbours.poll(seconds(3));
        neighbours.heard(PORT, &arp_reply(GATEWAY, "192.0.2.254"), seconds(3));
        let first = advertisement(GATEWAY, "2001:db8::fe", SOLICITED, Some(GATEWAY));
        neighbours.heard(PORT, &first, seconds(3));
        assert!(neighbours.heard(PORT, &frame, seconds(9)).changed);
        let moved = neighbours.entries().filter(|entry| entry.mac == Some(STANDBY)).count();
        assert_eq!(moved, 1);
        let asked = said(&neighbours.poll(seconds(9)));
        assert_eq!(asked.len(), 1);
        assert!(asked[0].ends_with(" to 02:00:00:00:00:0a"), "it is checked: {asked:?}");
    }
}

#[test]
fn an_advertisement_without_override_only_raises_a_doubt() {
    let mut neighbours = resolver(&["2001:db8::fe"]);
    let first = advertisement(GATEWAY, "2001:db8::fe", 0, Some(GATEWAY));
    assert!(neighbours.heard(PORT, &first, seconds(3)).changed, "any MAC is better than none");
    let proxy = advertisement(STANDBY, "2001:db8::fe", SOLICITED, Some(STANDBY));
    assert!(!neighbours.heard(PORT, &proxy, seconds(5)).changed);
    assert_eq!(neighbours.lookup(PORT, ip("2001:db8::fe")), Some(GATEWAY));
    assert_eq!(
        said(&neighbours.poll(seconds(5))),
        ["ndp fe80::ff:fe00:1 asks for 2001:db8::fe to 02:00:00:00:00:09"]
    );
}

#[test]
fn what_was_not_asked_for_is_not_believed() {
    let mut neighbours = resolver(&["192.0.2.254", "2001:db8::fe"]);
    let good = arp_reply(GATEWAY, "192.0.2.254");
    let mut untagged = good.clone();
    untagged.drain(12..16);
    let mut forwarded = advertisement(GATEWAY, "2001:db8::fe", OVERRIDE, Some(GATEWAY));
    forwarded[18 + 7] = 254;
    let group = MacAddress([3, 0, 0, 0, 0, 9]);
    for (port, frame, why) in [
        (OTHER_PORT, good.clone(), "a port that does not exist"),
        (PORT, arp_reply(GATEWAY, "192.0.2.253"), "another address"),
        (PORT, arp_reply(group, "192.0.2.254"), "a group's MAC"),
        (PORT, arp_reply(MacAddress::default(), "192.0.2.254"), "a MAC of zeros"),
        (PORT, arp_reply(OURS, "192.0.2.254"), "our own MAC"),
        (PORT, untagged, "another VLAN"),
        (PORT, forwarded, "an advertisement from beyond a router"),
        (PORT, advertisement(GATEWAY, "2001:db8::fe", OVERRIDE, Some(group)), "a group's MAC"),
        (PORT, advertisement(GATEWAY, "2001:db8::fe", SOLICITED, None), "no MAC at all"),
        (PORT, arp_from(GATEWAY, arp::Operation::Request, "0.0.0.0", "192.0.2.254"), "a probe"),
    ] {
        assert_eq!(neighbours.heard(port, &frame, seconds(3)), Heard::default(), "{why}");
    }
    for len in 0..good.len().min(18 + 28) {
        assert_eq!(neighbours.heard(PORT, &good[..len], seconds(3)), Heard::default(), "cut");
    }
    assert!(neighbours.entries().all(|entry| entry.mac.is_none()));
    assert!(neighbours.heard(PORT, &good, seconds(3)).changed);
}

#[test]
fn a_claim_to_our_address_is_a_conflict_and_is_answered_at_most_every_ten_seconds() {
    let mut neighbours = resolver(&["192.0.2.80"]);
    for (frame, address) in [
        (arp_reply(STANDBY, "192.0.2.80"), "192.0.2.80"),
        (arp_reply(STANDBY, "192.0.2.1"), "192.0.2.1"),
        (advertisement(STANDBY, "2001:db8::80", OVERRIDE, Some(STANDBY)), "2001:db8::80"),
        (advertisement(STANDBY, "fe80::ff:fe00:1", OVERRIDE, None), "fe80::ff:fe00:1"),
    ] {
        let conflict = Conflict { port: PORT, address: ip(address), mac: STANDBY };
        let heard = neighbours.heard(PORT, &frame, seconds(3));
        assert_eq!(heard, Heard { changed: false, conflict: Some(conflict) });
    }
    assert_eq!(neighbours.lookup(PORT, ip("192.0.2.80")), None, "even if it is a next hop");
    assert_eq!(neighbours.poll(seconds(3)).frames.len(), 4);
    let again = arp_reply(STANDBY, "192.0.2.80");
    assert!(neighbours.heard(PORT, &again, seconds(12)).conflict.is_some());
    assert_eq!(said(&neighbours.poll(seconds(12))), [""; 0]);
    neighbours.heard(PORT, &again, seconds(13));
    assert_eq!(
        said(&neighbours.poll(seconds(13))),
        ["arp 192.0.2.80 asks for 192.0.2.80 to ff:ff:ff:ff:ff:ff"]
    );
    assert_eq!(neighbours.conflict_count(), 6);
    let own = Origin { mac: OURS, vlan: VLAN }.arp_announcement("192.0.2.1".parse().unwrap());
    assert_eq!(neighbours.heard(PORT, &own, seconds(14)), Heard::default(), "our own, sent back");
}

#[test]
fn addresses_are_announced_three_times_at_start_at_link_up_and_when_they_change() {
    let round = [
        // ::1, ::80 and fe80::ff:fe00:1, whose last 24 bits are those of ::1.
        "mld 2 groups",
        "arp 198.51.100.1 asks for 198.51.100.1 to ff:ff:ff:ff:ff:ff",
        "arp 192.0.2.1 asks for 192.0.2.1 to ff:ff:ff:ff:ff:ff",
        "ndp 2001:db8::1 is here to 33:33:00:00:00:01",
        "arp 192.0.2.80 asks for 192.0.2.80 to ff:ff:ff:ff:ff:ff",
        "ndp 2001:db8::80 is here to 33:33:00:00:00:01",
        "ndp fe80::ff:fe00:1 is here to 33:33:00:00:00:01",
    ];
    let mut neighbours = Neighbours::new(1);
    let rounds_from = |neighbours: &mut Neighbours, start: u64| {
        for second in start..start + 3 {
            let poll = neighbours.poll(seconds(second));
            assert_eq!(said(&poll), round, "second {second}");
            let next = (second < start + 2).then_some(seconds(second + 1));
            assert_eq!(poll.next, next);
        }
        assert_eq!(neighbours.poll(seconds(start + 9)), Poll::default());
    };
    neighbours.set_ports(vec![identity(PORT)], seconds(0));
    rounds_from(&mut neighbours, 0);
    neighbours.set_ports(vec![identity(PORT)], seconds(20));
    assert_eq!(neighbours.poll(seconds(20)), Poll::default(), "nothing changed");
    neighbours.link_up(PORT, seconds(30));
    rounds_from(&mut neighbours, 30);
    let mut smaller = identity(PORT);
    smaller.vips.clear();
    neighbours.set_ports(vec![smaller], seconds(50));
    assert_eq!(neighbours.poll(seconds(50)).frames.len(), 5);
    neighbours.set_ports(vec![], seconds(51));
    assert_eq!(neighbours.poll(seconds(51)), Poll::default());
}

#[test]
fn many_announcements_are_paced() {
    let mut neighbours = Neighbours::new(1);
    let mut many = identity(PORT);
    many.vips = (0..200).map(|n| IpAddr::from([192, 0, 2, n])).collect();
    neighbours.set_ports(vec![many], seconds(0));
    let (mut now, mut sent) = (seconds(0), 0);
    while now < seconds(1) {
        let poll = neighbours.poll(now);
        assert!(poll.frames.len() <= FRAMES_PER_POLL);
        sent += poll.frames.len();
        now = poll.next.unwrap();
    }
    assert_eq!(sent, 200 + 5, "one round: VIPs, three addresses, link-local, one report");
    assert_eq!(now, seconds(1));
}

/// A listener query for `group` (RFC 3810 §5.1).
fn query(group: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![icmpv6::LISTENER_QUERY, 0, 0, 0, 0x27, 0x10, 0, 0];
    message.extend_from_slice(&group.octets());
    message.extend_from_slice(&[2, 125, 0, 0]);
    Builder::ethernet(GATEWAY, MacAddress::for_ipv6_multicast(ALL_NODES))
        .vlan(7)
        .ipv6(link_local(GATEWAY), ALL_NODES)
        .ttl(1)
        .extension(0, &[5, 2, 0, 0, 1, 0])
        .icmpv6(&message)
        .build()
}

#[test]
fn listener_queries_for_our_groups_are_answered_within_a_second() {
    for (group, answered) in [
        (Ipv6Addr::UNSPECIFIED, true),
        (solicited_node(v6("2001:db8::80")), true),
        (solicited_node(v6("2001:db8::81")), false),
    ] {
        let mut neighbours = resolver(&[]);
        neighbours.heard(PORT, &query(group), seconds(5));
        neighbours.heard(PORT, &query(group), seconds(5));
        let early = said(&neighbours.poll(seconds(5)));
        let late = said(&neighbours.poll(seconds(6)));
        let expected: &[&str] = if answered { &["mld 2 groups"] } else { &[] };
        assert_eq!([early, late].concat(), expected);
        assert_eq!(neighbours.poll(seconds(60)), Poll::default());
    }
}

#[test]
fn next_hops_that_stay_keep_their_mac() {
    let mut neighbours = resolver(&["192.0.2.254", "192.0.2.9"]);
    neighbours.heard(PORT, &arp_reply(GATEWAY, "192.0.2.254"), seconds(3));
    neighbours.set_targets(&[hop("192.0.2.254"), hop("192.0.2.254"), hop("192.0.2.10")]);
    assert_eq!(neighbours.lookup(PORT, ip("192.0.2.254")), Some(GATEWAY));
    assert_eq!(neighbours.entries().count(), 2);
}

// Whatever arrives, nothing panics and nobody but the next hops gets a MAC.
#[test]
fn any_bytes_are_survived() {
    bolero::check!().with_iterations(20_000).for_each(|bytes| {
        let mut neighbours = resolver(&["192.0.2.254", "2001:db8::fe"]);
        neighbours.heard(PORT, bytes, seconds(3));
        // Behind a real link layer more of it is looked at.
        for ethertype in [[8, 0], [8, 6], [0x86, 0xdd]] {
            let mut frame = [&OURS.0[..], &GATEWAY.0, &[0x81, 0, 0, 7]].concat();
            frame.extend_from_slice(&ethertype);
            frame.extend_from_slice(bytes);
            neighbours.heard(PORT, &frame, seconds(3));
        }
        let poll = neighbours.poll(seconds(4));
        assert!(poll.frames.len() <= FRAMES_PER_POLL);
        assert!(neighbours.entries().all(|entry| entry.mac.is_none_or(|mac| !mac.is_group())));
    });
}
