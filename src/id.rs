//! Small numbers that stand for things: one type each, so that none is taken for another.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            /// The number as an index.
            #[must_use]
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<$inner> for $name {
            fn from(number: $inner) -> Self {
                Self(number)
            }
        }

        impl From<$name> for $inner {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// A slot in [`Tables::backends`](crate::forward::Tables): one member of one pool.
    BackendId(u16)
}
number! {
    /// How often a backend's slot was re-used. A connection remembers the epoch it was made in, so
    /// that it never follows the slot's next tenant.
    BackendEpoch(u16)
}
number! {
    /// A pool's index in [`Tables::pools`](crate::forward::Tables); the same as long as the pool is
    /// configured.
    PoolId(u16)
}
number! {
    /// A service's index in [`Tables::services`](crate::forward::Tables); the same as long as the
    /// service is configured, since workers count by it.
    ServiceId(u16)
}
number! {
    /// An interned VIP address and protocol: the part of a connection's key that stands for its
    /// destination address. Ids are quarantined before re-use, since connections outlive tables.
    VipId(u16)
}
number! {
    /// A worker, and its RX and TX queue index on every port.
    WorkerId(u16)
}
/// Ports that an appliance can have.
pub const PORT_CAP: usize = 16;

number! {
    /// A port of the appliance, in the order of the configuration; below [`PORT_CAP`].
    PortId(u8)
}

/// A backend and the epoch of its slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BackendRef {
    /// The slot.
    pub id: BackendId,
    /// The slot's epoch when the reference was made.
    pub epoch: BackendEpoch,
}

/// Address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}
