use std::hash::Hasher;
use std::net::IpAddr;

use siphasher::sip::SipHasher13;

use super::Random;
use crate::packet::{
    FlowHash, FlowHashKey, FlowKey, ParseFlowHashKeyError, ipv4_message, ipv6_message,
};

const KEY: &str = "000102030405060708090a0b0c0d0e0f";

/// The definition of `docs/flow-hash.md` by another implementation.
fn reference(key: FlowHashKey, flow: &FlowKey) -> FlowHash {
    let mut message = Vec::new();
    for address in [flow.source(), flow.destination()] {
        match address {
            IpAddr::V4(address) => message.extend(address.octets()),
            IpAddr::V6(address) => message.extend(address.octets()),
        }
    }
    message.extend(flow.source_port().to_be_bytes());
    message.extend(flow.destination_port().to_be_bytes());
    message.push(flow.protocol());
    let mut hasher = SipHasher13::new_with_key(&key.0);
    hasher.write(&message);
    FlowHash(hasher.finish())
}

fn flow(source: IpAddr, destination: IpAddr, ports: (u16, u16), protocol: u8) -> FlowKey {
    let (source_port, destination_port) = ports;
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            FlowKey::V4 { source, destination, source_port, destination_port, protocol }
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            FlowKey::V6 { source, destination, source_port, destination_port, protocol }
        }
        _ => panic!("two families"),
    }
}

#[test]
fn the_vectors_of_the_document_hold() {
    // L4-12
    let document = include_str!("../../../docs/flow-hash.md");
    let key: FlowHashKey = KEY.parse().unwrap();
    let (_, vectors) = document.split_once("## Vectors").unwrap();
    let (mut ipv4, mut ipv6) = (0, 0);
    for row in vectors.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [source, source_port, destination, destination_port, protocol, hash] = cells[..] else {
            panic!("{row}");
        };
        let ports = (source_port.parse().unwrap(), destination_port.parse().unwrap());
        let flow = flow(
            source.parse().unwrap(),
            destination.parse().unwrap(),
            ports,
            protocol.parse().unwrap(),
        );
        let expected = u64::from_str_radix(hash.trim_matches('`'), 16).unwrap();
        assert_eq!(key.hash(&flow), FlowHash(expected), "{row}");
        if flow.is_ipv6() { ipv6 += 1 } else { ipv4 += 1 }
    }
    assert!(ipv4 >= 3 && ipv6 >= 3, "{ipv4} and {ipv6} vectors");
}

#[test]
fn single_and_burst_equal_the_reference_implementation() {
    let mut random = Random(1);
    for len in 0..=33 {
        let key = FlowHashKey(random.bytes());
        let ipv4: Vec<_> = (0..len).map(|_| random.flow(false, 6)).collect();
        let ipv6: Vec<_> = (0..len).map(|_| random.flow(true, 17)).collect();
        let mut ipv4_messages = Vec::new();
        let mut ipv6_messages = Vec::new();
        for flow in ipv4.iter().chain(&ipv6) {
            assert_eq!(key.hash(flow), reference(key, flow));
            match *flow {
                FlowKey::V4 { source, destination, source_port, destination_port, protocol } => {
                    ipv4_messages.push(ipv4_message(
                        source,
                        destination,
                        source_port,
                        destination_port,
                        protocol,
                    ));
                }
                FlowKey::V6 { source, destination, source_port, destination_port, protocol } => {
                    ipv6_messages.push(ipv6_message(
                        source,
                        destination,
                        source_port,
                        destination_port,
                        protocol,
                    ));
                }
            }
        }
        let mut hashes = vec![FlowHash(0); len + 1];
        key.hash_ipv4_burst(&ipv4_messages, &mut hashes);
        for (flow, hash) in ipv4.iter().zip(&hashes) {
            assert_eq!(*hash, reference(key, flow));
        }
        key.hash_ipv6_burst(&ipv6_messages, &mut hashes);
        for (flow, hash) in ipv6.iter().zip(&hashes) {
            assert_eq!(*hash, reference(key, flow));
        }
        assert_eq!(hashes[len], FlowHash(0), "no message, no hash");
    }
}

#[test]
fn each_input_bit_changes_each_output_bit_half_the_time() {
    const TRIALS: u32 = 1000;
    let mut random = Random(2);
    let key = FlowHashKey(random.bytes());
    for bit in 0..104 {
        let mut changed = [0u32; 64];
        for _ in 0..TRIALS {
            let input: [u8; 13] = random.bytes();
            let mut flipped = input;
            flipped[bit / 8] ^= 1 << (bit % 8);
            let [before, after] =
                [input, flipped].map(|[a, b, c, d, e, f, g, h, i, j, k, l, m]| {
                    key.hash(&FlowKey::V4 {
                        source: [a, b, c, d].into(),
                        destination: [e, f, g, h].into(),
                        source_port: u16::from_be_bytes([i, j]),
                        destination_port: u16::from_be_bytes([k, l]),
                        protocol: m,
                    })
                });
            let difference = before.0 ^ after.0;
            for (place, count) in changed.iter_mut().enumerate() {
                *count += u32::from(difference >> place & 1 == 1);
            }
        }
        // Six standard deviations of a fair coin: 6 * sqrt(1000 / 4) = 95.
        assert!(changed.iter().all(|count| count.abs_diff(TRIALS / 2) < 95), "bit {bit}");
    }
}

#[test]
fn both_halves_spread_neighbouring_flows_evenly() {
    // L4-12. Only the source port differs, and chi-square over 16 buckets with 15 degrees of
    // freedom stays below 37.7 (p = 0.001).
    let key: FlowHashKey = KEY.parse().unwrap();
    let mut buckets = [[0u32; 16]; 2];
    for source_port in 0..10_000 {
        let hash = key.hash(&FlowKey::V4 {
            source: super::CLIENT_V4,
            destination: super::VIP_V4,
            source_port,
            destination_port: 443,
            protocol: 6,
        });
        for (counts, half) in buckets.iter_mut().zip([hash.level1(), hash.level2()]) {
            counts[(half >> 28) as usize] += 1;
        }
    }
    for counts in buckets {
        let expected = 10_000.0 / 16.0;
        let chi_square: f64 =
            counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
        assert!(chi_square < 37.7, "{chi_square} for {counts:?}");
    }
}

#[test]
fn a_key_is_32_hex_digits_and_never_shown() {
    let key: FlowHashKey = KEY.parse().unwrap();
    assert_eq!(key.0, std::array::from_fn(|place| u8::try_from(place).unwrap()));
    assert_eq!("000102030405060708090A0B0C0D0E0F".parse(), Ok(key));
    assert_eq!(format!("{key:?}"), "FlowHashKey(..)");

    let error = |text: &str| text.parse::<FlowHashKey>().unwrap_err();
    assert_eq!(error(""), ParseFlowHashKeyError::Length(0));
    assert_eq!(error(&KEY[1..]), ParseFlowHashKeyError::Length(31));
    assert_eq!(error(&KEY.repeat(2)), ParseFlowHashKeyError::Length(64));
    assert_eq!(error(&KEY.replace('9', "g")), ParseFlowHashKeyError::Digit(20));
    assert_eq!(error(&KEY.replace('9', "ü")), ParseFlowHashKeyError::Digit(20));
    assert!(error("+0").to_string().contains("32 hex digits"));
}
