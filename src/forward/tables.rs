//! The published snapshot: everything a worker needs to decide about a packet.
//!
//! Made by `control::compile`, shared by all workers, never changed after it was published. It is
//! a spine of `Arc`s, so that what did not change is shared between generations.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::vip_map::VipMap;
use crate::id::{BackendEpoch, BackendId, PoolId, PortId};
use crate::maglev::Maglev;
use crate::packet::{FlowHash, FlowHashKey, MacAddress};

/// One snapshot of all that forwarding depends on.
#[derive(Clone, Debug)]
pub struct Tables {
    /// The key of the flow hash; the same on all appliances of a cluster.
    pub flow_hash_key: FlowHashKey,
    /// VIP address, protocol and port to service.
    pub vips: Arc<VipMap>,
    /// By [`ServiceId`].
    pub services: Arc<[ServiceTable]>,
    /// By [`PoolId`].
    pub pools: Arc<[Arc<PoolTable>]>,
    /// By [`BackendId`].
    pub backends: Arc<[BackendRecord]>,
    /// By [`PortId`].
    pub ports: Arc<[PortRecord]>,
}

impl Tables {
    /// Tables that know nothing: every VIP lookup misses.
    #[must_use]
    pub fn empty(flow_hash_key: FlowHashKey) -> Self {
        Self {
            flow_hash_key,
            vips: Arc::new(VipMap::default()),
            services: Arc::from([]),
            pools: Arc::from([]),
            backends: Arc::from([]),
            ports: Arc::from([]),
        }
    }

    /// Whether every part is the same as in `other`, by pointer: then both decide alike.
    #[must_use]
    pub fn is_shared_with(&self, other: &Self) -> bool {
        let Self { flow_hash_key, vips, services, pools, backends, ports } = self;
        *flow_hash_key == other.flow_hash_key
            && Arc::ptr_eq(vips, &other.vips)
            && Arc::ptr_eq(services, &other.services)
            && Arc::ptr_eq(pools, &other.pools)
            && Arc::ptr_eq(backends, &other.backends)
            && Arc::ptr_eq(ports, &other.ports)
    }

    /// The table's choice for a new flow: level 1 picks the pool, level 2 the backend. `None` if
    /// the service has no pool or the pool has no backend.
    #[must_use]
    #[inline]
    pub fn select(&self, service: &ServiceTable, hash: FlowHash) -> Option<BackendId> {
        let pool = self.select_pool(service, hash)?;
        self.pools.get(pool.index())?.current.lookup(hash.level2())
    }

    /// Level 1's choice: the pool that takes a new flow.
    #[must_use]
    #[inline]
    pub fn select_pool(&self, service: &ServiceTable, hash: FlowHash) -> Option<PoolId> {
        match &service.level1 {
            Level1::Empty => None,
            Level1::Single(pool) => Some(*pool),
            Level1::Weighted(pools) => pools.lookup(hash.level1()),
        }
    }
}

/// What is balanced, as the pipeline sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceTable {
    /// Which pool takes a new flow.
    pub level1: Level1,
    /// The pools whose backends tracked flows of this service may stay on.
    pub pools: Box<[PoolId]>,
    /// How long an established flow may be silent before it is forgotten, in milliseconds.
    pub idle_timeout: u32,
}

impl ServiceTable {
    /// What stands at a number that no service has.
    #[must_use]
    pub fn vacant() -> Self {
        Self { level1: Level1::Empty, pools: Box::default(), idle_timeout: 0 }
    }
}

/// Level 1 of the tables: flow to pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Level1 {
    /// No pool takes new flows.
    Empty,
    /// One pool takes all of them; costs nothing.
    Single(PoolId),
    /// Several pools share them by quota.
    Weighted(Arc<Maglev<PoolId>>),
}

/// Level 2 of the tables: flow to backend, for one pool.
#[derive(Clone, Debug)]
pub struct PoolTable {
    /// A pure function of the pool's eligible backends and their weights.
    pub current: Maglev<BackendId>,
}

/// One backend, as the pipeline sees it: one cache line with the outer header ready to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct BackendRecord {
    /// Outer headers for this backend: Ethernet, 802.1Q if the port has a VLAN, IPv4 or IPv6. Only
    /// the fields that depend on the packet are open (`packet::encapsulation`).
    pub header: [u8; 58],
    /// The slot's epoch. A connection of another epoch is not this backend's.
    pub epoch: BackendEpoch,
    /// The pool that this slot is a member of.
    pub pool: PoolId,
    /// The port that leads to it.
    pub port: PortId,
    /// What it may still be used for, and the shape of `header`.
    pub flags: BackendFlags,
}

const _: () = assert!(size_of::<BackendRecord>() == 64);

impl BackendRecord {
    /// The record of a slot that no backend uses.
    #[must_use]
    pub const fn vacant(epoch: BackendEpoch) -> Self {
        Self { header: [0; 58], epoch, pool: PoolId(0), port: PortId(0), flags: BackendFlags(0) }
    }

    /// The bytes of `header` that are in use.
    #[must_use]
    #[inline]
    pub const fn header_len(&self) -> usize {
        let vlan = if self.flags.contains(BackendFlags::VLAN) { 4 } else { 0 };
        let ip = if self.flags.contains(BackendFlags::OUTER_IPV6) { 40 } else { 20 };
        14 + vlan + ip
    }
}

/// What a backend may be used for, and the shape of its outer header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendFlags(pub u8);

impl BackendFlags {
    /// Established TCP flows stay: the backend is enabled, or draining, whatever its health.
    pub const KEEPS_TCP: Self = Self(1);
    /// Tracked flows of other protocols stay: enabled or draining, and healthy.
    pub const KEEPS_OTHER: Self = Self(2);
    /// The next hop's link-layer address is known and in `header`.
    pub const RESOLVED: Self = Self(4);
    /// `header` carries an 802.1Q tag.
    pub const VLAN: Self = Self(8);
    /// The outer header is IPv6, else IPv4.
    pub const OUTER_IPV6: Self = Self(16);

    /// Whether all bits of `other` are set.
    #[must_use]
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    #[must_use]
    #[inline]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// One port, as the pipeline sees it. Lists are sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortRecord {
    /// Its link-layer address. Unicast frames for any other are not ours.
    pub mac: MacAddress,
    /// The 802.1Q VLAN its frames carry, if any (1..=4094).
    pub vlan: Option<u16>,
    /// The largest IP packet it sends, in bytes.
    pub mtu: u16,
    /// IPv4 addresses that it answers ARP for: its own and its VIPs with `arp = true`.
    pub arp: Box<[Ipv4Addr]>,
    /// IPv6 addresses that it answers neighbour solicitations for.
    pub neighbour_discovery: Box<[Ipv6Addr]>,
    /// Its own IPv4 addresses: it answers echo requests on them.
    pub ipv4: Box<[Ipv4Addr]>,
    /// Its own IPv6 addresses, the link-local one among them.
    pub ipv6: Box<[Ipv6Addr]>,
}
