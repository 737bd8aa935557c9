//! What workers track: `show flows`, `conntrack flush`, and the entries in `explain flow`.

use std::collections::HashMap;

use super::count;
use crate::conntrack::{Ipv4Key, Ipv6Key};
use crate::control::explain;
use crate::control::flush;
use crate::control::jobs::{Answered, Asker, Question};
use crate::control::management::Management;
use crate::control::protocol::params::{ExplainParams, FlowFilter, FlowsParams, FlushParams};
use crate::control::protocol::reply::{self, FlowState, FlowsReply, FlushReply};
use crate::control::protocol::{ErrorCode, Reply, RequestError};
use crate::forward;
use crate::id::{BackendRef, Family, VipId};
use crate::packet::FlowKey;
use crate::worker::job::{
    BackendFilter, ClientPrefix, Filter, FlowEntry, FlowKeyAndHash, TableKey,
};

/// Flows that are listed unless more are asked for.
const DEFAULT_LIMIT: u32 = 100;
/// The most flows that are listed.
const LIMIT_CAP: u32 = 10_000;

impl Management {
    /// Asks the workers; the answer comes later.
    pub(in crate::control) fn ask_flows(&mut self, params: &FlowsParams, asker: Asker) {
        let limit = params.limit.unwrap_or(DEFAULT_LIMIT);
        let question = if (1..=LIMIT_CAP).contains(&limit) {
            self.filter(&params.filter)
                .map(|filter| Question::List { filter, limit: limit as usize })
        } else {
            Err(RequestError::new(
                ErrorCode::INVALID_PARAMS,
                format!("a limit of {limit} is out of range; write 1 to {LIMIT_CAP}"),
            ))
        };
        self.ask_workers(question, asker);
    }

    /// Asks the workers; the answer comes later.
    pub(in crate::control) fn ask_flush(&mut self, params: &FlushParams, asker: Asker) {
        let question = self.flush_filter(params).map(|filter| Question::Flush { filter });
        self.ask_workers(question, asker);
    }

    fn flush_filter(&self, params: &FlushParams) -> Result<Filter, RequestError> {
        if let Some(refusal) = flush::refusal(params) {
            return Err(refusal);
        }
        self.filter(&params.filter)
    }

    /// Asks the workers; the answer comes later.
    pub(in crate::control) fn ask_explain(&mut self, params: &ExplainParams, asker: Asker) {
        let flow = match explain::flow_of(params) {
            Ok(flow) => flow,
            Err(error) => return self.ask_workers(Err(error), asker),
        };
        let told = forward::explain::explain(self.publisher.current(), &flow);
        let Some(((vip, _), hash)) = told.vip.zip(told.hash) else {
            // No worker tracks what is no VIP's.
            let reply = self.explained(params, &flow, &[], Vec::new());
            return self.settle(asker, Ok(reply.into()), false);
        };
        let job = FlowKeyAndHash { key: table_key(&flow, vip), hash };
        let question = Question::Explain { params: params.clone(), flow, job };
        self.ask_workers(Ok(question), asker);
    }

    fn ask_workers(&mut self, question: Result<Question, RequestError>, asker: Asker) {
        match question.and_then(|question| self.jobs.check_room().map(|()| question)) {
            Ok(question) => {
                let now = self.now();
                self.jobs.ask(question, asker, self.workers.len(), now);
                self.answer_jobs();
            }
            Err(error) => self.settle(asker, Err(error), false),
        }
    }

    /// Answers what the workers have done.
    pub(in crate::control) fn answer_jobs(&mut self) {
        let now = self.now();
        for answered in self.jobs.tick(&mut self.workers, now) {
            let reply = self.job_reply(&answered);
            // A worker that is silent does what it was asked for when it goes on.
            let has_begun = answered.matched > 0 || !answered.silent.is_empty();
            self.settle(answered.asker, reply, has_begun);
        }
    }

    fn job_reply(&self, answered: &Answered) -> Result<Reply, RequestError> {
        if let Question::Explain { params, flow, .. } = &answered.question {
            let tracked = answered.tracked();
            return Ok(self.explained(params, flow, &tracked, answered.silent.clone()).into());
        }
        let so_far = match answered.question {
            Question::Flush { .. } => {
                let at_least = if answered.silent.is_empty() { "" } else { "at least " };
                format!("; {at_least}{} flows were forgotten", answered.matched)
            }
            _ => String::new(),
        };
        if !answered.silent.is_empty() {
            let silent: Vec<_> =
                answered.silent.iter().map(|worker| format!("worker {worker}")).collect();
            let message = format!(
                "{} did not answer; look at `lodectl show workers` for one that does not \
                 poll{so_far}",
                silent.join(", ")
            );
            return Err(RequestError::new(ErrorCode::NOT_ADOPTED, message).with_data(silent));
        }
        if answered.is_left {
            let message = format!("who asked left before the workers were through{so_far}");
            return Err(RequestError::new(ErrorCode::NOT_ADOPTED, message));
        }
        Ok(match answered.question {
            Question::Flush { .. } => {
                FlushReply { removed: answered.matched, buckets: answered.buckets }.into()
            }
            _ => self.listed(answered).into(),
        })
    }

    fn explained(
        &self,
        params: &ExplainParams,
        flow: &FlowKey,
        tracked: &[explain::TrackedFlow],
        silent: Vec<u16>,
    ) -> reply::ExplainReply {
        explain::explain(
            &self.state,
            self.publisher.current(),
            self.publisher.generation().0,
            (params, flow),
            tracked,
            silent,
        )
    }

    fn listed(&self, answered: &Answered) -> FlowsReply {
        // Many flows are on few backends.
        let mut names = HashMap::new();
        let mut flow = |(worker, entry): &(u16, FlowEntry)| {
            let name =
                names.entry(entry.backend).or_insert_with(|| self.name_of_slot(entry.backend));
            self.flow(*worker, entry, name.clone())
        };
        FlowsReply {
            flows: answered.flows.iter().map(&mut flow).collect(),
            matched: answered.matched,
            buckets: answered.buckets,
        }
    }

    fn flow(&self, worker: u16, entry: &FlowEntry, backend: Option<String>) -> FlowState {
        let vip = self.state.vip_ids().vip(entry.vip);
        FlowState {
            worker,
            source: entry.source,
            source_port: entry.source_port,
            destination: vip.map(|(address, _)| address),
            destination_port: entry.destination_port,
            protocol: vip.map(|(_, protocol)| super::protocol(protocol)),
            backend,
            state: entry.state.name().to_owned(),
            expires_in_ms: entry.idle_expires_in_ms.into(),
        }
    }

    /// The backend that a slot has in this epoch, as `pool/name`.
    fn name_of_slot(&self, of: BackendRef) -> Option<String> {
        let slots = self.state.slots();
        let tenant = slots.tenant(of.id).filter(|_| slots.epoch(of.id) == of.epoch)?;
        self.state.name_of(tenant)
    }

    fn filter(&self, written: &FlowFilter) -> Result<Filter, RequestError> {
        let not_found = |what: String| RequestError::new(ErrorCode::NOT_FOUND, what);
        let backend = written
            .backend
            .as_ref()
            .map(|name| {
                let key = self.state.find(&name.pool, &name.name);
                let slot = key.and_then(|key| self.state.slots().find(&key));
                slot.ok_or_else(|| {
                    not_found(format!(
                        "there is no backend {name}; `lodectl show backends` lists them"
                    ))
                })
            })
            .transpose()?;
        Ok(Filter {
            family: written.family.map(|family| match family {
                reply::Family::Ipv4 => Family::Ipv4,
                reply::Family::Ipv6 => Family::Ipv6,
            }),
            backend: backend.map(|slot| BackendFilter { id: slot.id, epoch: Some(slot.epoch) }),
            vip: self.vip_filter(written)?,
            client: written
                .client
                .and_then(|client| ClientPrefix::new(client.addr(), client.prefix_len())),
            state: None,
        })
    }

    /// The VIP that is meant. An address has an id for each of its protocols: if it has several,
    /// one must be named.
    fn vip_filter(&self, written: &FlowFilter) -> Result<Option<VipId>, RequestError> {
        let Some(address) = written.vip else {
            return match written.protocol {
                None => Ok(None),
                Some(_) => Err(RequestError::new(
                    ErrorCode::INVALID_PARAMS,
                    "a protocol needs a VIP: name both",
                )),
            };
        };
        let mut ids = Vec::new();
        for (protocol, word) in [
            (crate::config::Protocol::Tcp, reply::Protocol::Tcp),
            (crate::config::Protocol::Udp, reply::Protocol::Udp),
        ] {
            if written.protocol.is_none_or(|wanted| wanted == word) {
                ids.extend(self.state.vip_ids().find((address, protocol)));
            }
        }
        match *ids {
            [] => Err(RequestError::new(
                ErrorCode::NOT_FOUND,
                format!("there is no such VIP {address}; `lodectl show services` lists them"),
            )),
            [only] => Ok(Some(only)),
            _ => Err(RequestError::new(
                ErrorCode::INVALID_PARAMS,
                format!("{address} is a VIP of {} protocols; name one", count(ids.len())),
            )),
        }
    }
}

fn table_key(flow: &FlowKey, vip: VipId) -> TableKey {
    match *flow {
        FlowKey::V4 { source, source_port, destination_port, .. } => {
            TableKey::Ipv4(Ipv4Key::new(source, source_port, destination_port, vip))
        }
        FlowKey::V6 { source, source_port, destination_port, .. } => {
            TableKey::Ipv6(Ipv6Key::new(source, source_port, destination_port, vip))
        }
    }
}
