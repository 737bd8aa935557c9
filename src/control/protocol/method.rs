//! The table of methods: the one place that says which there are, what each takes and answers, and
//! whether it changes something. Requests, their wire form and the documentation follow from it.

use schemars::{Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::value::RawValue;

use super::envelope::read_params;
use super::error::shortened;
use super::params::{
    ApplyParams, BackendAddParams, BackendParams, BackendWeightParams, EventsParams, ExplainParams,
    FlowsParams, FlushParams, ForceParams, NoParams, PoolAddParams, PoolParams,
    PoolThresholdParams, ServiceAddParams, ServiceParams, ServicePoolsParams, SubscribeParams,
};
use super::reply::{
    BackendsReply, ChangeReply, ConfigReply, ConntrackReply, DiffReply, DrainsReply, DropsReply,
    EventsReply, ExplainReply, FlowsReply, FlushReply, HealthReply, NeighboursReply, PoolsReply,
    PortsReply, SaveReply, ServicesReply, StatusReply, SubscribeReply, TablesReply, VersionReply,
    WorkersReply,
};
use super::{ErrorCode, RequestError};

/// What a method does to the appliance. The socket that a request comes by may refuse a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It only tells.
    Read,
    /// It changes what the appliance does.
    Change,
}

/// A method as documentation sees it.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// Its name on the wire.
    pub name: &'static str,
    /// What it does, a line of text each.
    pub description: &'static [&'static str],
    /// What it does to the appliance.
    pub access: Access,
    /// The schema of its parameters.
    pub params: fn(&mut SchemaGenerator) -> Schema,
    /// The schema of its result.
    pub reply: fn(&mut SchemaGenerator) -> Schema,
}

macro_rules! methods {
    ($($(#[doc = $doc:literal])+ $access:ident $name:literal $variant:ident($params:ty) -> $reply:ty,)+) => {
        /// What an operator asks of the daemon.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Request {
            $($(#[doc = $doc])+ $variant($params),)+
        }

        impl Request {
            /// Every method, in the order of the documentation.
            pub const METHODS: &'static [Method] = &[
                $(Method {
                    name: $name,
                    description: &[$($doc),+],
                    access: Access::$access,
                    params: |generator| generator.subschema_for::<$params>(),
                    reply: |generator| generator.subschema_for::<$reply>(),
                },)+
            ];

            /// The method's name on the wire.
            #[must_use]
            pub const fn method(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)+
                }
            }

            /// What the method does to the appliance.
            #[must_use]
            pub const fn access(&self) -> Access {
                match self {
                    $(Self::$variant(_) => Access::$access,)+
                }
            }

            /// The request of this method with these parameters.
            ///
            /// # Errors
            /// There is no such method, or it does not take them.
            pub fn read(method: &str, params: Option<&RawValue>) -> Result<Self, RequestError> {
                match method {
                    $($name => read_params::<$params>(method, params).map(Self::$variant),)+
                    unknown => Err(unknown_method(unknown)),
                }
            }

            /// The parameters as a member of an object, left out if there are none.
            pub(super) fn serialize_params<S: serde::ser::SerializeStruct>(
                &self,
                object: &mut S,
            ) -> Result<(), S::Error> {
                match self {
                    $(Self::$variant(params) => serialize_params(params, object),)+
                }
            }
        }
    };
}

methods! {
    /// The appliance at a glance, with alarms: what an operator should look at.
    Read "status" Status(NoParams) -> StatusReply,
    /// Services, their VIPs, and where new flows go: each pool's share of them and why.
    Read "show.services" ShowServices(NoParams) -> ServicesReply,
    /// Pools: how many of their backends are healthy, and what they carry.
    Read "show.pools" ShowPools(NoParams) -> PoolsReply,
    /// Backends by pool: admin state, health, share of the pool's slots, traffic.
    Read "show.backends" ShowBackends(NoParams) -> BackendsReply,
    /// What the monitors found: each backend's health, since when and why, and the last ten probes.
    Read "show.health" ShowHealth(NoParams) -> HealthReply,
    /// What drains, and how many tracked flows are still there.
    Read "show.drains" ShowDrains(NoParams) -> DrainsReply,
    /// What each worker did, and what its time went into.
    Read "show.workers" ShowWorkers(NoParams) -> WorkersReply,
    /// Ports: device, link, what is used of it, and its counters.
    Read "show.ports" ShowPorts(NoParams) -> PortsReply,
    /// The published tables: digests, slots of each pool, where each service's flows go.
    Read "show.tables" ShowTables(NoParams) -> TablesReply,
    /// The connection tables, by worker and family.
    Read "show.conntrack" ShowConntrack(NoParams) -> ConntrackReply,
    /// Tracked flows that match a filter. Walks the connection tables of all workers a few buckets
    /// a burst, so that forwarding does not notice.
    Read "show.flows" ShowFlows(FlowsParams) -> FlowsReply,
    /// Dropped frames by reason, also the reasons that never occurred.
    Read "show.drops" ShowDrops(NoParams) -> DropsReply,
    /// The next hops: their link-layer addresses and how fresh they are.
    Read "show.neighbours" ShowNeighbours(NoParams) -> NeighboursReply,
    /// The last events, oldest first.
    Read "show.events" ShowEvents(EventsParams) -> EventsReply,
    /// The running configuration as a file would say it; the flow hash key is hidden.
    Read "show.config" ShowConfig(NoParams) -> ConfigReply,
    /// Versions of the daemon.
    Read "show.version" ShowVersion(NoParams) -> VersionReply,
    /// The running configuration against the file.
    Read "config.diff" ConfigDiff(NoParams) -> DiffReply,
    /// Every decision about a flow, with its numbers: what happens to its first packet, and to one
    /// that follows.
    Read "explain.flow" ExplainFlow(ExplainParams) -> ExplainReply,
    /// Makes the connection a stream: events as they happen, counters at an interval, both as
    /// notifications. Further requests on it are still answered.
    Read "subscribe" Subscribe(SubscribeParams) -> SubscribeReply,
    /// Adds a service.
    Change "service.add" ServiceAdd(ServiceAddParams) -> ChangeReply,
    /// Removes a service: its VIPs are served no more.
    Change "service.remove" ServiceRemove(ServiceParams) -> ChangeReply,
    /// The service takes no new flows; tracked ones stay.
    Change "service.drain" ServiceDrain(ServiceParams) -> ChangeReply,
    /// The service takes new flows again: ends a drain, and undoes `service.disable`.
    Change "service.enable" ServiceEnable(ServiceParams) -> ChangeReply,
    /// The service forwards nothing.
    Change "service.disable" ServiceDisable(ServiceParams) -> ChangeReply,
    /// Replaces the list of a service's pools, or its order.
    Change "service.reorder" ServiceReorder(ServicePoolsParams) -> ChangeReply,
    /// Adds a pool with its first backends.
    Change "pool.add" PoolAdd(PoolAddParams) -> ChangeReply,
    /// Removes a pool that no service uses, with its backends.
    Change "pool.remove" PoolRemove(PoolParams) -> ChangeReply,
    /// No backend of the pool takes new flows; tracked ones stay.
    Change "pool.drain" PoolDrain(PoolParams) -> ChangeReply,
    /// The pool's backends take new flows again, each by its own admin state.
    Change "pool.enable" PoolEnable(PoolParams) -> ChangeReply,
    /// The pool's backends get nothing.
    Change "pool.disable" PoolDisable(PoolParams) -> ChangeReply,
    /// Sets the fewest healthy backends with which a pool takes new flows.
    Change "pool.threshold" PoolThreshold(PoolThresholdParams) -> ChangeReply,
    /// Adds a backend to a pool.
    Change "backend.add" BackendAdd(BackendAddParams) -> ChangeReply,
    /// Removes a backend. Its flows are decided anew.
    Change "backend.remove" BackendRemove(BackendParams) -> ChangeReply,
    /// Sets a backend's share of its pool's new flows; 0 takes none.
    Change "backend.weight" BackendWeight(BackendWeightParams) -> ChangeReply,
    /// The backend takes no new flows; tracked ones stay.
    Change "backend.drain" BackendDrain(BackendParams) -> ChangeReply,
    /// The backend takes new flows when it is healthy: ends a drain, and undoes `backend.disable`.
    Change "backend.enable" BackendEnable(BackendParams) -> ChangeReply,
    /// The backend gets no packet.
    Change "backend.disable" BackendDisable(BackendParams) -> ChangeReply,
    /// Several changes at once: all of them or none, in one publish.
    Change "apply" Apply(ApplyParams) -> ChangeReply,
    /// Forgets the tracked flows that match a filter; the tables decide about their next packets.
    /// Refused if the filter names no backend, no VIP and no client network longer than /0, unless
    /// forced: it would forget all flows, or all of a family.
    Change "conntrack.flush" ConntrackFlush(FlushParams) -> FlushReply,
    /// Applies the configuration file again: all of it, or nothing. Refused if it would undo
    /// changes made at run time that were not saved, unless forced.
    Change "reload" Reload(ForceParams) -> ChangeReply,
    /// Writes the running configuration back to the file; comments and order of what did not
    /// change stay. Refused if the file was changed since it was loaded, unless forced.
    Change "config.save" ConfigSave(ForceParams) -> SaveReply,
}

impl Request {
    /// Whether it changes something. Such a request is answered when every worker has adopted the
    /// change.
    #[must_use]
    pub const fn is_change(&self) -> bool {
        matches!(self.access(), Access::Change)
    }

    /// The service, pool or backend that it changes, if it is one.
    #[must_use]
    pub fn subject(&self) -> Option<String> {
        Some(match self {
            Self::BackendAdd(params) => params.backend.to_string(),
            Self::BackendRemove(params)
            | Self::BackendDrain(params)
            | Self::BackendEnable(params)
            | Self::BackendDisable(params) => params.backend.to_string(),
            Self::BackendWeight(params) => params.backend.to_string(),
            Self::PoolAdd(params) => format!("pool {}", params.pool),
            Self::PoolRemove(params)
            | Self::PoolDrain(params)
            | Self::PoolEnable(params)
            | Self::PoolDisable(params) => format!("pool {}", params.pool),
            Self::PoolThreshold(params) => format!("pool {}", params.pool),
            Self::ServiceAdd(params) => format!("service {}", params.service),
            Self::ServiceRemove(params)
            | Self::ServiceDrain(params)
            | Self::ServiceEnable(params)
            | Self::ServiceDisable(params) => format!("service {}", params.service),
            Self::ServiceReorder(params) => format!("service {}", params.service),
            _ => return None,
        })
    }

    /// Whether it asks to do what is refused otherwise; of several changes, whether one does.
    #[must_use]
    pub fn force(&self) -> bool {
        match self {
            Self::BackendRemove(params)
            | Self::BackendDrain(params)
            | Self::BackendEnable(params)
            | Self::BackendDisable(params) => params.force,
            Self::BackendWeight(params) => params.force,
            Self::PoolRemove(params)
            | Self::PoolDrain(params)
            | Self::PoolEnable(params)
            | Self::PoolDisable(params) => params.force,
            Self::PoolThreshold(params) => params.force,
            Self::ServiceRemove(params)
            | Self::ServiceDrain(params)
            | Self::ServiceEnable(params)
            | Self::ServiceDisable(params) => params.force,
            Self::ServiceReorder(params) => params.force,
            Self::Apply(params) => {
                params.force || params.changes.iter().any(|change| change.request().force())
            }
            Self::ConntrackFlush(params) => params.force,
            Self::Reload(params) | Self::ConfigSave(params) => params.force,
            _ => false,
        }
    }
}

fn unknown_method(method: &str) -> RequestError {
    let names: Vec<_> = Request::METHODS.iter().map(|method| method.name).collect();
    RequestError::new(
        ErrorCode::METHOD_NOT_FOUND,
        format!("there is no method {:?}; the methods are {}", shortened(method), names.join(", ")),
    )
}

fn serialize_params<S: serde::ser::SerializeStruct>(
    params: &impl Serialize,
    object: &mut S,
) -> Result<(), S::Error> {
    let params = serde_json::value::to_raw_value(params).map_err(serde::ser::Error::custom)?;
    if params.get() == "{}" {
        object.skip_field("params")
    } else {
        object.serialize_field("params", &params)
    }
}
