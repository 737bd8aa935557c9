//! The answers. Counters count from the daemon's start and never go back; shares are fractions of
//! 1. New members may be added; members here keep their name, unit and meaning.

mod backend;
mod change;
mod config;
mod conntrack;
mod event;
mod explain;
mod health;
mod port;
mod service;
mod state;
mod status;
mod tables;
mod worker;

use serde::Serialize;

pub use backend::{BackendState, BackendsReply, DrainState, DrainsReply, PoolBackends};
pub use change::{ChangeReply, FlushReply, SaveReply, SubscribeReply};
pub use config::{ConfigReply, DiffReply, DifferenceState, VersionReply};
pub use conntrack::{ConntrackReply, DropState, DropsReply, FlowState, FlowsReply, ShardState};
pub use event::{Event, EventKind, EventsReply, HealthChange, Severity, Votes};
pub use explain::{
    AffinityInput, Encapsulated, ExplainReply, Level1Choice, Level2Choice, Outcome, Tracked,
    VipMatch,
};
pub use health::{BackendHealth, HealthReply, ProbeResult};
pub use port::{DoneBy, NeighbourEntry, NeighboursReply, PortDetail, PortFeature, PortsReply};
pub use service::{
    PoolDetail, PoolState, PoolsReply, ServiceState, ServiceTraffic, ServicesReply, VipState,
};
pub use state::{AdminState, Family, Health, Protocol};
pub use status::{
    Digests, ManagementStatus, PoolSummary, PortStatus, ServiceSummary, StatusReply, WorkerStatus,
};
pub use tables::{PoolTableState, ServiceTableState, TablesReply};
pub use worker::{LatencyBucket, Runtime, StageCycles, WorkerState, WorkersReply};

macro_rules! replies {
    ($($reply:ident,)+) => {
        /// Any answer.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum Reply {
            $(
                #[doc = concat!("[`", stringify!($reply), "`]")]
                $reply(Box<$reply>),
            )+
        }

        $(impl From<$reply> for Reply {
            fn from(reply: $reply) -> Self {
                Self::$reply(Box::new(reply))
            }
        })+
    };
}

replies! {
    StatusReply, ServicesReply, PoolsReply, BackendsReply, HealthReply, DrainsReply, WorkersReply,
    PortsReply, TablesReply, ConntrackReply, FlowsReply, DropsReply, NeighboursReply, EventsReply,
    ConfigReply, VersionReply, DiffReply, ExplainReply, SubscribeReply, ChangeReply, FlushReply,
    SaveReply,
}
