//! `explain flow`: the pipeline's decisions in the operator's words.
//!
//! What the tables say is asked of the published tables by the pipeline's own functions
//! (`forward::explain`); what workers track is found by a job on each of them.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::protocol::params::ExplainParams;
use super::protocol::reply::{
    AffinityInput, Encapsulated, ExplainReply, Level1Choice, Level2Choice, Outcome, Protocol,
    Tracked, VipMatch,
};
use super::protocol::{ErrorCode, RequestError};
use super::route::route;
use super::show::{count, ports, ratio};
use super::state::State;
use crate::config;
use crate::conntrack::EntryState;
use crate::forward::explain::{self, EntryOutcome, Explanation, Level1Slot, Level2Slot};
use crate::forward::{Leaves, Tables};
use crate::id::{BackendId, BackendRef, PoolId, ServiceId};
use crate::packet::{FlowKey, MacAddress, protocol};

/// A flow's entry on a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackedFlow {
    /// The worker that has it.
    pub worker: u16,
    /// Where it goes.
    pub backend: BackendRef,
    /// How far it has come.
    pub state: EntryState,
    /// Milliseconds until it is forgotten if it stays silent.
    pub expires_in_ms: u32,
}

/// The flow that the parameters name.
///
/// # Errors
/// Its ends are of two families.
pub fn flow_of(params: &ExplainParams) -> Result<FlowKey, RequestError> {
    let ExplainParams { source, source_port, destination, destination_port, .. } = *params;
    let protocol = match params.protocol {
        Protocol::Tcp => protocol::TCP,
        Protocol::Udp => protocol::UDP,
    };
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Ok(FlowKey::V4 { source, destination, source_port, destination_port, protocol })
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Ok(FlowKey::V6 { source, destination, source_port, destination_port, protocol })
        }
        _ => Err(RequestError::new(
            ErrorCode::INVALID_PARAMS,
            format!(
                "no packet goes from {source} to {destination}; give two addresses of one family"
            ),
        )),
    }
}

/// Everything about a flow. `tracked` is what workers have of it, `silent` are those that did not
/// say.
#[must_use]
pub fn explain(
    state: &State,
    tables: &Tables,
    generation: u64,
    (params, flow): (&ExplainParams, &FlowKey),
    tracked: &[TrackedFlow],
    silent: Vec<u16>,
) -> ExplainReply {
    let teller = Teller { state, tables };
    let explanation = explain::explain(tables, flow);
    let service = explanation.vip.and_then(|(_, id)| teller.service(id));
    let first_packet = teller.outcome("tables", &explanation.by_tables);
    // An entry that counts decides; one that does not is as none.
    let entries: Vec<_> = tracked
        .iter()
        .map(|entry| (entry, explain::explain_entry(tables, flow, entry.backend)))
        .collect();
    let followed = entries.iter().find_map(|(_, outcome)| match outcome {
        EntryOutcome::Follows(outcome) => Some(teller.outcome("entry", outcome)),
        EntryOutcome::Leaves(_) => None,
    });
    ExplainReply {
        source: params.source,
        source_port: params.source_port,
        destination: params.destination,
        destination_port: params.destination_port,
        protocol: params.protocol,
        generation,
        vip: teller.vip(&explanation, params),
        affinity: explanation.hash.map(|_| affinity(params)),
        hash: explanation.hash.map(|hash| format!("{:016x}", hash.0)),
        level1: explanation.level1.zip(service).map(|(slot, service)| teller.level1(slot, service)),
        level2: explanation
            .level1
            .zip(explanation.level2)
            .and_then(|(level1, level2)| teller.level2(level1.pool, level2)),
        tracked: entries.iter().map(|(entry, outcome)| teller.tracked(entry, outcome)).collect(),
        silent_workers: silent,
        later_packet: followed.unwrap_or_else(|| first_packet.clone()),
        first_packet,
    }
}

fn affinity(params: &ExplainParams) -> AffinityInput {
    AffinityInput {
        kind: "client-ip-port-proto".to_owned(),
        fields: vec![
            format!("source {}", params.source),
            format!("source port {}", params.source_port),
            format!("destination {}", params.destination),
            format!("destination port {}", params.destination_port),
            format!("protocol {}", params.protocol),
        ],
    }
}

/// Puts ids into names.
struct Teller<'a> {
    state: &'a State,
    tables: &'a Tables,
}

impl<'a> Teller<'a> {
    fn service(&self, id: ServiceId) -> Option<&'a config::Service> {
        let standing = self.state.standing_service(id)?;
        self.state.config().services.iter().find(|service| service.name == standing.name)
    }

    fn backend(&self, id: BackendId) -> Option<(&'a config::Pool, &'a config::Backend)> {
        self.state.configured(self.state.slots().tenant(id)?)
    }

    fn name(&self, id: BackendId) -> Option<String> {
        self.state.name_of(self.state.slots().tenant(id)?)
    }

    fn pool(&self, id: PoolId) -> &'a str {
        self.state.standing_pool(id).map_or("?", |pool| &pool.name)
    }

    fn vip(&self, explanation: &Explanation, params: &ExplainParams) -> Option<VipMatch> {
        let (vip, service) = explanation.vip?;
        let service = self.service(service)?;
        let protocol = match params.protocol {
            Protocol::Tcp => config::Protocol::Tcp,
            Protocol::Udp => config::Protocol::Udp,
        };
        let port = params.destination_port;
        let matched = service.vips.iter().find(|vip| {
            vip.address == params.destination
                && vip.protocol == protocol
                && vip.ports.iter().any(|range| (range.first..=range.last).contains(&port))
        })?;
        Some(VipMatch { vip: vip.0, ports: ports(&matched.ports), service: service.name.clone() })
    }

    fn level1(&self, choice: Level1Slot, service: &config::Service) -> Level1Choice {
        let reason = self.state.decide(&service.name).map(|decision| decision.reason);
        let names: Vec<_> = service.pools.iter().map(String::as_str).collect();
        Level1Choice {
            pool: self.pool(choice.pool).to_owned(),
            slots: choice.slot.map_or(0, |(slots, _)| count(slots)),
            slot: choice.slot.map(|(_, slot)| count(slot)),
            reason: reason.map_or(String::new(), |reason| reason.sentence(&names)),
        }
    }

    fn level2(&self, pool: PoolId, choice: Level2Slot) -> Option<Level2Choice> {
        let (_, backend) = self.backend(choice.backend)?;
        let table = &self.tables.pools.get(pool.index())?.current;
        let own = table.owners().filter(|owner| *owner == choice.backend).count();
        let share = ratio(own as u64, choice.slots as u64) * 100.0;
        Some(Level2Choice {
            slots: count(choice.slots),
            slot: count(choice.slot),
            current: self.name(choice.backend)?,
            reason: format!(
                "it owns {own} of the pool's {} slots ({share:.1} %) by its weight of {}",
                choice.slots, backend.weight
            ),
        })
    }

    fn tracked(&self, entry: &TrackedFlow, outcome: &EntryOutcome) -> Tracked {
        let is_current = explain::current_epoch(self.tables, entry.backend.id)
            .is_some_and(|epoch| epoch == entry.backend.epoch);
        let (stays, reason) = match outcome {
            EntryOutcome::Follows(_) => (true, "the flow stays there"),
            EntryOutcome::Leaves(Leaves::BackendGone) => {
                (false, "the flow leaves: the backend was removed")
            }
            EntryOutcome::Leaves(Leaves::NotKept) => {
                (false, "the flow leaves: the backend keeps none, since it is disabled or down")
            }
            EntryOutcome::Leaves(Leaves::PoolGone) => {
                (false, "the flow leaves: the service does not use the backend's pool any more")
            }
        };
        Tracked {
            worker: entry.worker,
            backend: if is_current { self.name(entry.backend.id) } else { None },
            state: entry.state.name().to_owned(),
            expires_in_ms: entry.expires_in_ms.into(),
            stays,
            reason: reason.to_owned(),
        }
    }

    fn outcome(&self, basis: &str, outcome: &explain::Outcome) -> Outcome {
        Outcome {
            basis: basis.to_owned(),
            backend: outcome.backend.and_then(|id| self.name(id)),
            drop: outcome.way.as_ref().err().map(|reason| reason.name().to_owned()),
            encapsulation: outcome
                .way
                .as_ref()
                .ok()
                .and_then(|way| self.encapsulated(outcome.backend?, way)),
        }
    }

    fn encapsulated(&self, backend: BackendId, way: &explain::Way) -> Option<Encapsulated> {
        let config = self.state.config();
        let (_, backend) = self.backend(backend)?;
        let path = route(&config.ports, backend.address)?;
        // The link-layer destination is the header's first field.
        let mac = way.header.first_chunk::<6>().map(|bytes| MacAddress(*bytes))?;
        let mut header = String::new();
        for byte in &way.header {
            // A string takes all.
            let _ = write!(header, "{byte:02x}");
        }
        Some(Encapsulated {
            kind: "ipip".to_owned(),
            port: config.ports.get(way.port.index())?.name.clone(),
            next_hop: path.next_hop,
            next_hop_mac: mac.to_string(),
            outer_source: path.source,
            outer_destination: backend.address,
            header,
            inner_len: count(way.inner_len),
            longest_inner_len: count(way.longest_inner_len),
        })
    }
}
