//! Last stage: which backend, and the packet in its outer header.
//!
//! Connection table first, then tables (design.md §4.8). An entry counts only while its backend's
//! slot is in the same epoch, the backend still keeps flows of this protocol, and the service still
//! has the backend's pool. A SYN is always a new decision (L4-19).

use std::ops::DerefMut;

use super::classify::VipPacket;
use super::tables::{BackendFlags, BackendRecord, ServiceTable, Tables};
use super::verdict::{Counters, DropReason, Verdict};
use crate::conntrack::{Bucket, Candidates, EntryState, Flow, FlowTable, Full, Removed, Timeouts};
use crate::id::{BackendId, BackendRef, Family};
use crate::packet::encapsulation::{EncapsulationError, Inner, OuterShape, encapsulate};
use crate::packet::{FlowHash, PacketBuf, protocol};
use crate::time::Tick;

/// Everything about a packet to a VIP that a decision depends on.
pub(super) struct Question<'a, K> {
    pub packet: &'a VipPacket,
    pub key: K,
    pub hash: FlowHash,
    pub candidates: Candidates,
}

/// The backend of the packet's flow. The flow is tracked from now on, if there is room.
#[inline]
pub(super) fn backend<'t, B, S>(
    tables: &'t Tables,
    shard: &mut FlowTable<B, S>,
    question: &Question<'_, B::Key>,
    now: Tick,
    counters: &mut Counters,
) -> Result<(BackendId, &'t BackendRecord), DropReason>
where
    B: Bucket,
    S: DerefMut<Target = [B]>,
{
    let Question { packet, key, hash, candidates } = question;
    let service = tables.services.get(packet.service.index()).ok_or(DropReason::NotVipPort)?;
    let timeouts = Timeouts::new(service.idle_timeout);
    let flags = packet.ip.tcp_flags;
    let is_tcp = packet.ip.flow.protocol() == protocol::TCP;
    let family = if packet.ip.flow.is_ipv6() { Family::Ipv6 } else { Family::Ipv4 };
    let is_new = is_tcp && flags.is_opening();
    if !is_new && let Some(found) = shard.find(key, *candidates, now) {
        let flow = found.flow();
        if let Ok(record) = stays(tables, service, flow.backend, is_tcp) {
            let state = if is_tcp { flow.state.after(flags) } else { flow.state.after_datagram() };
            found.touch(state, now, timeouts.of(state));
            counters.conntrack_hit(family);
            return Ok((flow.backend.id, record));
        }
    }

    let id = tables.select(service, *hash).ok_or(DropReason::NoBackend)?;
    let record = tables.backends.get(id.index()).ok_or(DropReason::NoBackend)?;
    let state = if is_tcp { EntryState::first(flags) } else { EntryState::Unverified };
    let reference = BackendRef { id, epoch: record.epoch };
    let flow = Flow::new(reference, state, now, timeouts.of(state));
    if is_new || !is_tcp {
        counters.new_flow(family, packet.service, id);
    } else {
        counters.unverified_flow(family, packet.service, id);
    }
    match shard.insert(*key, *candidates, flow, now) {
        Ok(inserted) => {
            counters.open_flow(id);
            if let Some(removed) = inserted.removed {
                counters.close_flow(removed.flow().backend.id);
                if let Removed::Expired(_) = removed {
                    counters.expired_flow(family);
                }
            }
        }
        // The tables alone decide for this flow: consistent while they do not change.
        Err(Full) => counters.refused_flow(family),
    }
    Ok((id, record))
}

/// Why an entry does not count, so that the tables decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// Its backend was removed.
    BackendGone,
    /// Its backend does not keep flows of this protocol: it is disabled, or down.
    NotKept,
    /// The service does not use its backend's pool any more.
    PoolGone,
}

/// The record of the backend that an entry names, if the flow may stay there.
#[inline]
pub(super) fn stays<'t>(
    tables: &'t Tables,
    service: &ServiceTable,
    backend: BackendRef,
    is_tcp: bool,
) -> Result<&'t BackendRecord, Leaves> {
    let record = tables.backends.get(backend.id.index()).ok_or(Leaves::BackendGone)?;
    let keeps = if is_tcp { BackendFlags::KEEPS_TCP } else { BackendFlags::KEEPS_OTHER };
    if record.epoch != backend.epoch {
        return Err(Leaves::BackendGone);
    }
    if !record.flags.contains(keeps) {
        return Err(Leaves::NotKept);
    }
    if !service.pools.contains(&record.pool) {
        return Err(Leaves::PoolGone);
    }
    Ok(record)
}

/// Puts the packet into its outer header.
#[inline]
pub(super) fn transmit<B: PacketBuf>(
    tables: &Tables,
    record: &BackendRecord,
    buf: &mut B,
    packet: &VipPacket,
    hash: FlowHash,
) -> Result<Verdict, DropReason> {
    if !record.flags.contains(BackendFlags::RESOLVED) {
        return Err(DropReason::NoNextHop);
    }
    let port = tables.ports.get(record.port.index()).ok_or(DropReason::NoNextHop)?;
    let shape = record.shape();
    if packet.ip.ip_len + shape.ip_header_len() > usize::from(port.mtu) {
        return Err(DropReason::TooBig);
    }
    let inner = Inner::new(&packet.ip, hash);
    encapsulate(buf, packet.ip.l3_offset, &record.header, shape, inner).map_err(
        |error| match error {
            EncapsulationError::TooBig => DropReason::TooBig,
            EncapsulationError::NoHeadroom => DropReason::NoHeadroom,
        },
    )?;
    Ok(Verdict::Transmit(record.port))
}

impl BackendRecord {
    /// The headers that `header` consists of.
    #[must_use]
    #[inline]
    pub const fn shape(&self) -> OuterShape {
        OuterShape {
            vlan: self.flags.contains(BackendFlags::VLAN),
            ipv6: self.flags.contains(BackendFlags::OUTER_IPV6),
        }
    }
}
