use std::net::Ipv4Addr;

use super::*;
use crate::conntrack::{Ipv4Bucket, Ipv4Key};
use crate::id::{BackendEpoch, BackendId, BackendRef, VipId};

fn backend(id: u16) -> BackendRef {
    BackendRef { id: BackendId(id), epoch: BackendEpoch(1) }
}

// L4-17
#[test]
fn a_flow_keeps_the_backend_it_was_given_until_it_expires() {
    let mut table = FlowTable::new(Ipv4Bucket::on_heap(100));
    let key = Ipv4Key::new(Ipv4Addr::new(192, 0, 2, 1), 40_000, 80, VipId(3));
    let now = Tick(u32::MAX - 100);
    let at = table.candidates(FlowHash(0x1234_5678_9abc_def0));
    assert!(table.find(&key, at, now).is_none());
    let flow = Flow::new(backend(7), EntryState::HalfOpen, now, 1_600);
    assert_eq!(table.insert(key, at, flow, now), Ok(Inserted { removed: None }));

    let later = now.plus(1_600);
    let found = table.find(&key, at, later).unwrap();
    assert_eq!(found.flow(), flow);
    found.touch(EntryState::Established, later, 3_200);
    assert_eq!(table.peek(&key, at, later.plus(3_200)).unwrap().backend, backend(7));
    assert_eq!(table.peek(&key, at, later.plus(3_400)), None);
    assert_eq!(table.len(), 1, "expired, and not aged yet");
    let mut expired = Vec::new();
    table.age(later.plus(3_400), usize::MAX, |flow| expired.push(flow.backend));
    assert_eq!(expired, [backend(7)]);
    assert!(table.is_empty());
}
