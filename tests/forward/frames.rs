//! The fixtures through the pipeline alone, and frames that no fixture thought of.

use std::collections::BTreeSet;

use crate::world::fixtures::{self, Expected};
use crate::world::{BACK, FRONT, World, tcp};
use lodestone::config::AdminState;
use lodestone::forward::{DropReason, Verdict};
use lodestone::packet::encapsulation::decapsulate;
use lodestone::packet::{HeapBuf, Network, PacketBuf, TcpFlags, parse};

#[test] // L4-02, L4-03, L4-33
fn each_fixture_gets_its_verdict_and_leaves_as_it_should() {
    let key = World::new(16).tables.flow_hash_key;
    for fixture in fixtures::all(&key) {
        let mut world = World::new(1_024);
        let (verdict, buf) = world.send(fixture.port, &fixture.frame);
        let seen = match verdict {
            Verdict::Transmit(port) => {
                assert_eq!(port, BACK, "{}", fixture.words);
                Expected::Carried(buf.bytes().to_vec())
            }
            Verdict::Reply => Expected::Answered(buf.bytes().to_vec()),
            Verdict::Punt(reason) => Expected::Punted(reason, buf.bytes().to_vec()),
            Verdict::Drop(reason) => Expected::Dropped(reason),
            Verdict::Handoff(..) => panic!("nothing is handed over yet"),
        };
        assert_eq!(seen, fixture.expected, "{}", fixture.words);
    }
}

#[test]
fn every_drop_reason_has_a_frame() {
    let mut seen: BTreeSet<_> =
        fixtures::dropped_frames().iter().map(|(_, _, reason)| reason.index()).collect();
    let mut world = World::new(1_024);
    let packet = tcp("10.1.0.100", 1, 4_000, 80, TcpFlags::SYN);
    let mut burst = [HeapBuf::new(&packet).into_segmented(), HeapBuf::with_headroom(&packet, 20)];
    for (verdict, reason) in world
        .burst(FRONT, &mut burst)
        .into_iter()
        .zip([DropReason::NotLinear, DropReason::NoHeadroom])
    {
        assert_eq!(verdict, Verdict::Drop(reason));
        seen.insert(reason.index());
    }
    // These are the worker's to give (src/worker/tests.rs).
    let workers = [
        DropReason::HandoffFull,
        DropReason::HandoffLoop,
        DropReason::PuntFull,
        DropReason::NoBuffer,
        DropReason::TxFull,
    ];
    seen.extend(workers.map(DropReason::index));
    let missing: Vec<_> =
        DropReason::ALL.into_iter().filter(|reason| !seen.contains(&reason.index())).collect();
    assert!(missing.is_empty(), "no frame for {missing:?}");
}

#[test]
fn a_service_whose_backends_are_all_disabled_has_a_reason_and_serves_again() {
    let mut world = World::new(1_024);
    let packet = tcp("10.1.0.100", 1, 4_000, 80, TcpFlags::SYN);
    for (admin, expected) in [
        (AdminState::Disabled, Verdict::Drop(DropReason::NoBackend)),
        (AdminState::Enabled, Verdict::Transmit(BACK)),
    ] {
        world.set_admin("v4", "a", admin);
        assert_eq!(world.send(FRONT, &packet).0, expected);
    }
}

/// What must hold of any frame that came in by `FRONT` or `BACK`, whatever it is.
fn check(frame: &[u8], verdict: Verdict, out: &[u8], words: &str) {
    match verdict {
        Verdict::Transmit(port) => {
            assert_eq!(port, BACK, "{words}");
            let seen = decapsulate(out).expect(words).expect(words);
            let Network::Ip(came) = parse::parse(frame).expect(words).network else {
                panic!("{words}: carried, and no IP packet")
            };
            assert_eq!(seen.inner_bytes, came.l3(frame), "{words}: the inner packet changed");
            assert_eq!(seen.outer_ip.end(), out.len(), "{words}: bytes behind the packet");
            assert!(seen.outer_ip.ip_len <= 1_540, "{words}: beyond the MTU");
        }
        Verdict::Reply => {
            let parsed = parse::parse(out).expect(words);
            assert!(
                [crate::world::FRONT_MAC, crate::world::BACK_MAC].contains(&parsed.link.source),
                "{words}"
            );
            assert_eq!(parsed.link.vlan, parse::link(frame).expect(words).vlan, "{words}");
        }
        Verdict::Punt(_) => {
            assert!(frame.starts_with(out), "{words}: a punted frame is as it came");
            assert!(out.len() <= lodestone::forward::PUNT_CAP, "{words}");
        }
        Verdict::Drop(_) => {}
        Verdict::Handoff(..) => panic!("nothing is handed over yet"),
    }
}

#[test]
fn every_truncation_of_every_fixture_gets_a_verdict_that_holds() {
    let mut world = World::new(1_024);
    for fixture in fixtures::all(&world.tables.flow_hash_key) {
        for len in (0..fixture.frame.len()).take(200).chain([fixture.frame.len()]) {
            let frame = &fixture.frame[..len];
            let (verdict, buf) = world.send(fixture.port, frame);
            check(frame, verdict, buf.bytes(), fixture.words);
            if len < 14 {
                assert_eq!(verdict, Verdict::Drop(DropReason::Truncated));
            }
        }
    }
}

#[test]
fn any_change_to_any_fixture_gets_a_verdict_that_holds() {
    let fixtures = fixtures::all(&World::new(16).tables.flow_hash_key);
    bolero::check!().with_iterations(2_000).with_type::<(u8, Vec<(u16, u8)>, bool)>().for_each(
        |(seed, changes, back)| {
            let mut world = World::new(16);
            let fixture = &fixtures[usize::from(*seed) % fixtures.len()];
            let mut frame = fixture.frame.clone();
            // Most of what matters is in front.
            for (place, value) in changes {
                let place = usize::from(*place) % frame.len().min(96);
                frame[place] = *value;
            }
            let port = if *back { BACK } else { fixture.port };
            let (verdict, buf) = world.send(port, &frame);
            check(&frame, verdict, buf.bytes(), fixture.words);
        },
    );
}

#[test]
fn a_burst_is_decided_as_its_frames_are_one_by_one() {
    let key = World::new(16).tables.flow_hash_key;
    let fixtures = fixtures::all(&key);
    let fixtures: Vec<_> = fixtures.iter().filter(|fixture| fixture.port == FRONT).collect();
    bolero::check!().with_iterations(200).with_type::<[u8; 32]>().for_each(|picks| {
        let (mut one_by_one, mut together) = (World::new(256), World::new(256));
        let count = usize::from(picks[0]) % 33;
        let frames: Vec<_> = picks[..count]
            .iter()
            .map(|pick| &fixtures[usize::from(*pick) % fixtures.len()].frame)
            .collect();
        let mut burst: Vec<_> = frames.iter().map(|frame| HeapBuf::new(frame)).collect();
        let verdicts = together.burst(FRONT, &mut burst);
        assert_eq!(verdicts.len(), count);
        for ((frame, buf), verdict) in frames.iter().zip(&burst).zip(verdicts) {
            let (alone, alone_buf) = one_by_one.send(FRONT, frame);
            assert_eq!((verdict, buf.bytes()), (alone, alone_buf.bytes()));
        }
        assert_eq!(together.view.snapshot(), one_by_one.view.snapshot());
    });
}
