//! What was asked on the command line, as a request, and how its answer is shown.

use std::time::Duration;

use serde::de::DeserializeOwned;

use super::command::{
    BackendArgument, BackendVerb, ConfigVerb, ConntrackVerb, Explain, Filter, Force, PoolArgument,
    PoolVerb, ServiceArgument, ServiceVerb, Show, Verb, Watch,
};
use super::render;
use crate::control::protocol::Request;
use crate::control::protocol::params::{
    BackendAddParams, BackendParams, BackendWeightParams, EventsParams, ExplainParams, FlowFilter,
    FlowsParams, FlushParams, ForceParams, NoParams, PoolAddParams, PoolParams,
    PoolThresholdParams, ServiceAddParams, ServiceParams, ServicePoolsParams,
};

/// JSON of a result to text for people.
pub(super) type View = Box<dyn Fn(&str) -> serde_json::Result<String>>;

/// A request, how its answer is shown, and how often.
pub(super) struct Question {
    pub request: Request,
    pub view: View,
    pub watch: Option<Duration>,
}

impl Question {
    fn new<T: DeserializeOwned>(request: Request, render: impl Fn(&T) -> String + 'static) -> Self {
        let view = move |result: &str| serde_json::from_str(result).map(|reply| render(&reply));
        Self { request, view: Box::new(view), watch: None }
    }

    fn every(self, Watch { watch }: Watch) -> Self {
        Self { watch, ..self }
    }

    /// The question that a verb asks of the daemon; `None` if it asks none.
    pub(super) fn of(verb: &Verb) -> Option<Self> {
        if let Some(request) = change(verb) {
            return Some(Self::new(request, render::change));
        }
        Some(match verb {
            Verb::Status(watch) => {
                Self::new(Request::Status(NoParams {}), render::status).every(*watch)
            }
            Verb::Show(show) => Self::show(show),
            Verb::Explain(Explain::Flow {
                source,
                source_port,
                destination,
                destination_port,
                protocol,
            }) => Self::new(
                Request::ExplainFlow(ExplainParams {
                    source: *source,
                    source_port: *source_port,
                    destination: *destination,
                    destination_port: *destination_port,
                    protocol: *protocol,
                }),
                render::explain,
            ),
            Verb::Conntrack(ConntrackVerb::Flush { filter, force }) => Self::new(
                Request::ConntrackFlush(FlushParams {
                    filter: flow_filter(filter),
                    force: force.force,
                }),
                render::flush,
            ),
            Verb::Reload(force) => Self::new(Request::Reload(forced(*force)), render::change),
            Verb::Config(ConfigVerb::Save(force)) => {
                Self::new(Request::ConfigSave(forced(*force)), render::save)
            }
            Verb::Diff => Self::new(Request::ConfigDiff(NoParams {}), render::diff),
            _ => return None,
        })
    }

    fn show(show: &Show) -> Self {
        let none = NoParams {};
        match show {
            Show::Services(watch) => {
                Self::new(Request::ShowServices(none), render::services).every(*watch)
            }
            Show::Pools(watch) => Self::new(Request::ShowPools(none), render::pools).every(*watch),
            Show::Backends(watch) => {
                Self::new(Request::ShowBackends(none), render::backends).every(*watch)
            }
            Show::Health(watch) => {
                Self::new(Request::ShowHealth(none), render::health).every(*watch)
            }
            Show::Drains(watch) => {
                Self::new(Request::ShowDrains(none), render::drains).every(*watch)
            }
            Show::Workers(watch) => {
                Self::new(Request::ShowWorkers(none), render::workers).every(*watch)
            }
            Show::Ports(watch) => Self::new(Request::ShowPorts(none), render::ports).every(*watch),
            Show::Tables(watch) => {
                Self::new(Request::ShowTables(none), render::tables).every(*watch)
            }
            Show::Conntrack(watch) => {
                Self::new(Request::ShowConntrack(none), render::conntrack).every(*watch)
            }
            Show::Flows { filter, limit } => {
                let params = FlowsParams { filter: flow_filter(filter), limit: *limit };
                Self::new(Request::ShowFlows(params), render::flows)
            }
            Show::Drops { all, watch } => {
                let all = *all;
                let show = move |reply: &_| render::drops(reply, all);
                Self::new(Request::ShowDrops(none), show).every(*watch)
            }
            Show::Neighbours(watch) => {
                Self::new(Request::ShowNeighbours(none), render::neighbours).every(*watch)
            }
            Show::Events { limit, .. } => {
                let params = EventsParams { after: None, limit: *limit };
                Self::new(Request::ShowEvents(params), render::events)
            }
            Show::Config => Self::new(Request::ShowConfig(none), render::config),
            Show::Version => Self::new(Request::ShowVersion(none), render::version),
        }
    }
}

/// The change of a service, a pool or a backend that a verb asks for; `None` if it asks for none.
pub(super) fn change(verb: &Verb) -> Option<Request> {
    Some(match verb {
        Verb::Service(verb) => service(verb),
        Verb::Pool(verb) => pool(verb),
        Verb::Backend(verb) => backend(verb),
        _ => return None,
    })
}

fn service(verb: &ServiceVerb) -> Request {
    let of = |ServiceArgument { service, force }: &ServiceArgument| ServiceParams {
        service: service.clone(),
        force: force.force,
    };
    match verb {
        ServiceVerb::Add { service, pools, vips, idle_timeout } => {
            Request::ServiceAdd(ServiceAddParams {
                service: service.clone(),
                pools: pools.clone(),
                vips: vips.iter().map(|vip| vip.0.clone()).collect(),
                idle_timeout_ms: idle_timeout
                    .map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            })
        }
        ServiceVerb::Remove(service) => Request::ServiceRemove(of(service)),
        ServiceVerb::Drain(service) => Request::ServiceDrain(of(service)),
        ServiceVerb::Enable(service) => Request::ServiceEnable(of(service)),
        ServiceVerb::Disable(service) => Request::ServiceDisable(of(service)),
        ServiceVerb::Reorder { service, pools, force } => {
            Request::ServiceReorder(ServicePoolsParams {
                service: service.clone(),
                pools: pools.clone(),
                force: force.force,
            })
        }
    }
}

fn pool(verb: &PoolVerb) -> Request {
    let of = |PoolArgument { pool, force }: &PoolArgument| PoolParams {
        pool: pool.clone(),
        force: force.force,
    };
    match verb {
        PoolVerb::Add { pool, backends, monitor, threshold, table_size, region, zone } => {
            Request::PoolAdd(PoolAddParams {
                pool: pool.clone(),
                backends: backends.clone(),
                monitor: monitor.clone(),
                threshold: *threshold,
                table_size: *table_size,
                region: region.clone(),
                zone: zone.clone(),
            })
        }
        PoolVerb::Remove(pool) => Request::PoolRemove(of(pool)),
        PoolVerb::Drain(pool) => Request::PoolDrain(of(pool)),
        PoolVerb::Enable(pool) => Request::PoolEnable(of(pool)),
        PoolVerb::Disable(pool) => Request::PoolDisable(of(pool)),
        PoolVerb::Threshold { pool, threshold, force } => {
            Request::PoolThreshold(PoolThresholdParams {
                pool: pool.clone(),
                threshold: *threshold,
                force: force.force,
            })
        }
    }
}

fn backend(verb: &BackendVerb) -> Request {
    let of = |BackendArgument { backend, force }: &BackendArgument| BackendParams {
        backend: backend.clone(),
        force: force.force,
    };
    match verb {
        BackendVerb::Add {
            backend,
            address,
            weight,
            virtual_network,
            probe_address,
            admin_state,
        } => Request::BackendAdd(BackendAddParams {
            backend: backend.clone(),
            address: *address,
            weight: *weight,
            virtual_network: virtual_network.clone(),
            probe_address: *probe_address,
            admin_state: *admin_state,
        }),
        BackendVerb::Remove(backend) => Request::BackendRemove(of(backend)),
        BackendVerb::Weight { backend, weight, force } => {
            Request::BackendWeight(BackendWeightParams {
                backend: backend.clone(),
                weight: *weight,
                force: force.force,
            })
        }
        BackendVerb::Drain(backend) => Request::BackendDrain(of(backend)),
        BackendVerb::Enable(backend) => Request::BackendEnable(of(backend)),
        BackendVerb::Disable(backend) => Request::BackendDisable(of(backend)),
    }
}

fn forced(Force { force }: Force) -> ForceParams {
    ForceParams { force }
}

fn flow_filter(filter: &Filter) -> FlowFilter {
    FlowFilter {
        family: filter.family,
        client: filter.client,
        backend: filter.backend.clone(),
        vip: filter.vip,
        protocol: filter.protocol,
    }
}
