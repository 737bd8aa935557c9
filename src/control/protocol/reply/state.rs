//! Words that several answers use.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$title:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal shown $shown:literal,)+ }) => {
        $(#[$title])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
            JsonSchema,
        )]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Every word, as the wire has it.
            pub const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self {
                    $(Self::$variant => $shown,)+
                })
            }
        }
    };
}

words! {
    /// What the operator wants of a backend, a pool or a service.
    AdminState {
        /// It takes new flows when healthy.
        Enabled = "enabled" shown "enabled",
        /// It takes no new flows; established ones stay.
        Draining = "draining" shown "draining",
        /// It takes no flows at all.
        Disabled = "disabled" shown "disabled",
    }
}

words! {
    /// What a backend's monitor says.
    Health {
        /// Its probes pass.
        Up = "up" shown "up",
        /// Its probes fail.
        Down = "down" shown "down",
        /// It was not probed yet.
        Unknown = "unknown" shown "unknown",
    }
}

words! {
    /// Address family.
    Family {
        /// IPv4.
        Ipv4 = "ipv4" shown "IPv4",
        /// IPv6.
        Ipv6 = "ipv6" shown "IPv6",
    }
}

words! {
    /// Transport protocol of a VIP.
    Protocol {
        /// RFC 9293.
        Tcp = "tcp" shown "tcp",
        /// RFC 768.
        Udp = "udp" shown "udp",
    }
}
