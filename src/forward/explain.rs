//! The pipeline's decisions about a flow, told instead of carried out.
//!
//! Every step is the pipeline's own function on a packet that is made for the purpose: what is told
//! cannot differ from what would be done. Cold: it allocates.

use crate::id::{BackendEpoch, BackendId, BackendRef, PoolId, PortId, ServiceId, VipId};
use crate::packet::{
    Builder, FlowHash, FlowKey, HeapBuf, MacAddress, Network, PacketBuf, TcpFlags, parse, protocol,
};

use super::classify::{VipPacket, service_of};
use super::decide::{self, Leaves};
use super::tables::{Level1, ServiceTable, Tables};
use super::verdict::{DropReason, Verdict};

/// What the tables say about a flow. Steps that were not reached are absent.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The VIP and the service that has its port.
    pub vip: Option<(VipId, ServiceId)>,
    /// The flow hash.
    pub hash: Option<FlowHash>,
    /// Which pool takes a new flow.
    pub level1: Option<Level1Slot>,
    /// Which backend of the pool does.
    pub level2: Option<Level2Slot>,
    /// What happens to a packet without an entry in the connection table.
    pub by_tables: Outcome,
}

/// The slot of level 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level1Slot {
    /// The pool that owns it.
    pub pool: PoolId,
    /// Slots, and which one; absent if one pool takes all, without a table.
    pub slot: Option<(usize, usize)>,
}

/// The slot of level 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level2Slot {
    /// Slots of the pool's table.
    pub slots: usize,
    /// Which one.
    pub slot: usize,
    /// The backend that owns it.
    pub backend: BackendId,
}

/// What happens to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The backend that is chosen, if any.
    pub backend: Option<BackendId>,
    /// How the packet leaves, or why it does not.
    pub way: Result<Way, DropReason>,
}

/// How a packet leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The port that sends it.
    pub port: PortId,
    /// The outer headers, as in front of a packet of `inner_len` bytes.
    pub header: Vec<u8>,
    /// Length of a packet of the flow without payload, in bytes.
    pub inner_len: usize,
    /// The longest packet of the flow that the port can send, in bytes.
    pub longest_inner_len: usize,
}

/// What becomes of a packet whose flow has an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryOutcome {
    /// It follows the entry.
    Follows(Outcome),
    /// The entry does not count, and the tables decide.
    Leaves(Leaves),
}

impl Outcome {
    fn dropped(reason: DropReason) -> Self {
        Self { backend: None, way: Err(reason) }
    }
}

/// What the tables say about a flow of TCP or UDP.
#[must_use]
#[cold]
pub fn explain(tables: &Tables, flow: &FlowKey) -> Explanation {
    let nothing = |reason| Explanation {
        vip: None,
        hash: None,
        level1: None,
        level2: None,
        by_tables: Outcome::dropped(reason),
    };
    let (_, packet) = match packet_of(tables, flow) {
        Ok(made) => made,
        Err(reason) => return nothing(reason),
    };
    let hash = tables.flow_hash_key.hash(flow);
    let service = tables.services.get(packet.service.index());
    let level1 = service.and_then(|service| level1(tables, service, hash));
    let level2 = level1.and_then(|level1| level2(tables, level1.pool, hash));
    let by_tables = match service.and_then(|service| tables.select(service, hash)) {
        Some(backend) => outcome(tables, flow, backend),
        None => Outcome::dropped(DropReason::NoBackend),
    };
    let vip = Some((packet.vip, packet.service));
    Explanation { vip, hash: Some(hash), level1, level2, by_tables }
}

/// What becomes of a packet of a flow whose entry in the connection table names `backend`, and that
/// does not open the flow (a SYN does, and then the tables decide).
#[must_use]
#[cold]
pub fn explain_entry(tables: &Tables, flow: &FlowKey, backend: BackendRef) -> EntryOutcome {
    let (_, packet) = match packet_of(tables, flow) {
        Ok(made) => made,
        Err(reason) => return EntryOutcome::Follows(Outcome::dropped(reason)),
    };
    let Some(service) = tables.services.get(packet.service.index()) else {
        return EntryOutcome::Follows(Outcome::dropped(DropReason::NotVipPort));
    };
    match decide::stays(tables, service, backend, flow.protocol() == protocol::TCP) {
        Ok(_) => EntryOutcome::Follows(outcome(tables, flow, backend.id)),
        Err(leaves) => EntryOutcome::Leaves(leaves),
    }
}

/// The epoch that a slot is in now.
#[must_use]
pub fn current_epoch(tables: &Tables, backend: BackendId) -> Option<BackendEpoch> {
    tables.backends.get(backend.index()).map(|record| record.epoch)
}

/// A packet of the flow without payload, and what the first stage makes of it.
fn packet_of(tables: &Tables, flow: &FlowKey) -> Result<(HeapBuf, VipPacket), DropReason> {
    let nobody = MacAddress([2, 0, 0, 0, 0, 0]);
    let frame = Builder::ethernet(nobody, nobody).flow(flow);
    let (source, destination) = (flow.source_port(), flow.destination_port());
    let frame = match flow.protocol() {
        protocol::TCP => frame.tcp(source, destination, TcpFlags::ACK),
        _ => frame.udp(source, destination),
    };
    let buf = HeapBuf::new(&frame.build());
    let parsed = parse::parse(buf.bytes())?;
    let Network::Ip(ip) = parsed.network else { return Err(DropReason::UnknownEthertype) };
    let (vip, service) = service_of(tables, &ip.flow)?;
    Ok((buf, VipPacket { ip, vip, service }))
}

fn level1(tables: &Tables, service: &ServiceTable, hash: FlowHash) -> Option<Level1Slot> {
    let pool = tables.select_pool(service, hash)?;
    let slot = match &service.level1 {
        Level1::Weighted(pools) => Some((pools.slot_count(), pools.slot(hash.level1())?)),
        Level1::Empty | Level1::Single(_) => None,
    };
    Some(Level1Slot { pool, slot })
}

fn level2(tables: &Tables, pool: PoolId, hash: FlowHash) -> Option<Level2Slot> {
    let table = &tables.pools.get(pool.index())?.current;
    let backend = table.lookup(hash.level2())?;
    Some(Level2Slot { slots: table.slot_count(), slot: table.slot(hash.level2())?, backend })
}

/// What happens to a packet of the flow that goes to `backend`.
fn outcome(tables: &Tables, flow: &FlowKey, backend: BackendId) -> Outcome {
    let way = || {
        let (mut buf, packet) = packet_of(tables, flow)?;
        let record = tables.backends.get(backend.index()).ok_or(DropReason::NoBackend)?;
        let hash = tables.flow_hash_key.hash(flow);
        let port = match decide::transmit(tables, record, &mut buf, &packet, hash)? {
            Verdict::Transmit(port) => port,
            Verdict::Drop(reason) => return Err(reason),
            _ => return Err(DropReason::NoNextHop),
        };
        let mtu = tables.ports.get(port.index()).map_or(0, |port| usize::from(port.mtu));
        let shape = record.shape();
        Ok(Way {
            port,
            header: buf.bytes().get(..shape.header_len()).unwrap_or_default().to_vec(),
            inner_len: packet.ip.ip_len,
            longest_inner_len: mtu.saturating_sub(shape.ip_header_len()),
        })
    };
    Outcome { backend: Some(backend), way: way() }
}
