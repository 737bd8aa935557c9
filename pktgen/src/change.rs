//! Changes of the appliance while packets flow, asked for over its admin socket as an operator
//! would.

use std::collections::VecDeque;

use anyhow::{Context, bail};
use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use lodestone::cli::Client;
use lodestone::control::protocol::Request;
use serde::Serialize;

use crate::expect::VERSION_CAP;
use crate::expect::maglev::NOBODY;
use crate::neighbour::Hosts;
use crate::profile::Change;
use crate::verify::Verifier;

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeReport {
    /// The verb.
    pub method: String,
    /// Packets that were sent when it was asked for.
    pub asked_at_packet: u64,
    /// Packets that were sent when every worker had adopted it; absent if that never was.
    pub adopted_at_packet: Option<u64>,
}

/// The changes of a run.
pub struct Timeline {
    waiting: VecDeque<Change>,
    requests: Sender<Request>,
    answers: Receiver<anyhow::Result<()>>,
    is_asked: bool,
    /// Packets that had been sent when the last change was adopted.
    fence: u64,
    /// What became of those that were asked for.
    pub reports: Vec<ChangeReport>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Packets sent that were to come back.
    pub sent: u64,
    /// Packets that came back or were given up.
    pub settled: u64,
    /// Whether all are sent.
    pub is_over: bool,
}

impl Timeline {
    /// The changes of a profile, for the appliance behind `client`.
    ///
    /// # Errors
    /// There are more than a run can tell apart, or no thread.
    pub fn new(changes: Vec<Change>, mut client: Client) -> anyhow::Result<Self> {
        if changes.len() >= VERSION_CAP {
            bail!("{} changes are too many for one run; give at most {VERSION_CAP}", changes.len());
        }
        let (requests, asked) = bounded::<Request>(1);
        let (answer, answers) = bounded(1);
        std::thread::Builder::new().name("changes".into()).spawn(move || {
            for request in asked {
                let method = request.method();
                let outcome = client
                    .call(&request)
                    .map(|_| ())
                    .with_context(|| format!("the appliance does not do `{method}`"));
                if answer.send(outcome).is_err() {
                    return;
                }
            }
        })?;
        let (is_asked, fence, reports) = (false, 0, Vec::new());
        Ok(Self { waiting: changes.into(), requests, answers, is_asked, fence, reports })
    }

    /// Whether every change was asked for and adopted.
    pub fn is_done(&self) -> bool {
        self.waiting.is_empty() && !self.is_asked
    }

    /// What the next change waits for, in words.
    pub fn waits_for(&self) -> Option<String> {
        let next = self.waiting.front()?;
        let why = if next.when_drained { ", for its connections had not ended" } else { "" };
        Some(format!("`{}` was never asked for{why}", next.request.method()))
    }

    /// Looks whether something was adopted or is due.
    ///
    /// # Errors
    /// The appliance refuses, or the change is of something that there is not.
    pub fn poll(
        &mut self,
        progress: Progress,
        verifier: &mut Verifier,
        hosts: &mut Hosts,
    ) -> anyhow::Result<()> {
        if self.is_asked {
            match self.answers.try_recv() {
                Ok(outcome) => outcome?,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => bail!("the admin client has ended"),
            }
            self.is_asked = false;
            self.fence = progress.sent;
            verifier.expectation.adopted();
            if let Some(report) = self.reports.last_mut() {
                report.adopted_at_packet = Some(progress.sent);
            }
        }
        let Some(next) = self.waiting.front() else { return Ok(()) };
        if next.at_packet > progress.sent && !progress.is_over {
            return Ok(());
        }
        if next.when_drained && (progress.settled < self.fence || live(&next.request, verifier) > 0)
        {
            return Ok(());
        }
        let Some(change) = self.waiting.pop_front() else { return Ok(()) };
        let fleet = verifier.expectation.fleet().after(&change.request)?;
        // First it may be in force, then it is asked for.
        for backend in fleet.pools.iter().flat_map(|pool| &pool.backends) {
            hosts.add(backend.address);
        }
        verifier.expectation.begin(fleet);
        self.reports.push(ChangeReport {
            method: change.request.method().to_owned(),
            asked_at_packet: progress.sent,
            adopted_at_packet: None,
        });
        self.is_asked = true;
        self.requests.send(change.request).context("the admin client has ended")
    }
}

/// Connections that are open on the backend that a request removes.
fn live(request: &Request, verifier: &Verifier) -> u64 {
    let Request::BackendRemove(params) = request else { return 0 };
    let fleet = verifier.expectation.fleet();
    let pool = fleet.pools.iter().find(|pool| pool.name == params.backend.pool);
    let backend =
        pool.and_then(|pool| pool.backends.iter().find(|known| known.name == params.backend.name));
    backend.map_or(0, |backend| match verifier.expectation.index(backend) {
        NOBODY => 0,
        index => verifier.live(index),
    })
}
