//! The management loop: one task that owns all state of management and does one thing at a time.
//!
//! Workers do not depend on it. If it hangs they go on with the tables they have; if it panics it
//! is started again with its last state.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc};
use tokio::time::sleep_until;

use super::admin::{Command, Server};
use super::adoption::Adoption;
use super::alarms::Alarms;
use super::audit::Audit;
use super::compile::Compiler;
use super::events::{EventKind, EventLog, Severity};
use super::jobs::Asker;
use super::laggards::Laggards;
use super::links::NeighbourLinks;
use super::metrics::{self, SlotShares, Tally};
use super::ports::{Ports, WorkerRemote};
use super::protocol::Request;
use super::protocol::params::NoParams;
use super::pulse::{Notice, Pulse};
use super::restarts::{SignalAsks, Signals};
use super::state::{ApplyError, State};
use super::traffic::Traffic;
use crate::config::{self, BackendKey, Config};
use crate::forward::Tables;
use crate::health::{Report, Supervisor, Target};
use crate::snapshot::{Generation, PublishError, Publisher};
use crate::stats::{BackendTotals, ServiceTotals};
use crate::steer::Health;

/// How often mailboxes, neighbours and links are looked at.
const TICK: Duration = Duration::from_millis(10);

/// How often adoption is looked at while a verb waits for it.
const ADOPTION_TICK: Duration = Duration::from_millis(1);

/// Neighbour changes are published at most this often (design.md §4.5).
const NEIGHBOUR_PUBLISH_INTERVAL: Duration = Duration::from_millis(100);

/// How long the first probes may take beyond their timeout: they are spread over a second.
const FIRST_PROBES: Duration = Duration::from_millis(1_200);

/// The longest that VIPs wait for the first probes, however long these may take: who starts the
/// daemon waits for its word that it forwards, and not for ever.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Reports and commands that wait.
const CHANNEL_CAP: usize = 1_024;

/// What management is made of.
#[derive(Debug)]
pub struct ManagementParts {
    /// The file that `reload` reads.
    pub config_path: PathBuf,
    /// What it said at start.
    pub config: Config,
    /// The tables' way to the workers.
    pub publisher: Publisher<Tables>,
    /// Every worker, in the order of the publisher's readers.
    pub workers: Vec<WorkerRemote>,
    /// The ports.
    pub ports: Box<dyn Ports>,
    /// The admin socket.
    pub admin: Server,
    /// Where metrics are served, if anywhere.
    pub metrics: Option<metrics::Endpoint>,
    /// How many messages the log has left out.
    pub log_left_out: LogLeftOut,
}

/// How many messages a log has left out since start. Written by: the log. Read by: management.
pub type LogLeftOut = Arc<std::sync::atomic::AtomicU64>;

/// Why management cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ManagementError {
    /// The configuration has more than there are numbers for.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The operating system refused a part of the runtime.
    #[error("management cannot run: {0}; check the limits of open files and threads")]
    Runtime(#[from] std::io::Error),
}

/// The management core's work and all its state.
#[derive(Debug)]
pub struct Management {
    pub(super) config_path: PathBuf,
    pub(super) state: State,
    pub(super) compiler: Compiler,
    pub(super) publisher: Publisher<Tables>,
    pub(super) workers: Vec<WorkerRemote>,
    pub(super) ports: Box<dyn Ports>,
    pub(super) neighbours: NeighbourLinks,
    pub(super) adoption: Adoption,
    laggards: Laggards,
    pub(super) probes: super::show::Probes,
    pub(super) drains: super::drains::Drains,
    /// The first tables that have all of the configuration. Later ones differ in health and next
    /// hops alone, and no verb waits for those.
    pub(super) configured_by: Generation,
    /// Until then probes may not have found anything of a backend that is new.
    pub(super) probes_due: Duration,
    pub(super) jobs: super::jobs::Jobs,
    /// What the file said when it was loaded or saved last.
    pub(super) saved: Config,
    pub(super) backend_baselines: super::Baselines<BackendTotals>,
    pub(super) service_baselines: super::Baselines<ServiceTotals>,
    pub(super) events: EventLog,
    /// The alarms that have been told.
    pub(super) raised: Alarms,
    /// When it is looked for alarms again.
    pub(super) alarms_at: Duration,
    pub(super) tally: Tally,
    /// Of the tables that are published.
    pub(super) shares: SlotShares,
    pub(super) log_left_out: LogLeftOut,
    /// When the daemon started, in milliseconds since 1970.
    pub(super) started_ms: u64,
    metrics: Option<Arc<metrics::Endpoint>>,
    pub(super) admin: Arc<Server>,
    pub(super) pulse: Arc<Pulse>,
    pub(super) traffic: Traffic,
    stop: Arc<Notify>,
    started: Instant,
    dirty: Dirty,
    published_at: Duration,
    /// Until then the VIPs wait for what the first probes find.
    pub(super) waits_until: Option<Duration>,
    /// Whether every worker has had tables with all VIPs.
    has_served: bool,
}

/// Ends [`Management::run`] from any thread, as SIGTERM does from outside.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Notify>);

impl Stopper {
    /// Ends the run that goes on, or else the next one.
    pub fn stop(&self) {
        self.0.notify_one();
    }
}

/// What the workers do not know yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Dirty {
    Clean,
    /// Next hops only: may wait a little for more of them.
    Neighbours,
    /// What probes found too: what it makes of the tables is known when they are compiled.
    Health,
    /// Anything else.
    Now,
}

/// How long VIPs wait for what the first probes find; `None` if nobody is probed.
pub(super) fn wait_for_probes(config: &Config) -> Option<Duration> {
    let timeouts = config.monitors.iter().map(|monitor| monitor.timeout);
    timeouts.max().map(|timeout| (timeout + FIRST_PROBES).min(LONGEST_WAIT))
}

impl Management {
    /// Management of these parts. The first tables are published when it runs.
    ///
    /// # Errors
    /// The configuration has more backends or VIPs than there are numbers for.
    #[expect(clippy::disallowed_methods, reason = "management is a shell: it reads the clock")]
    pub fn new(parts: ManagementParts) -> Result<Self, ManagementError> {
        let ManagementParts { config_path, config, publisher, workers, ports, .. } = parts;
        let next = Generation(publisher.generation().0 + 1);
        let neighbours = NeighbourLinks::new(&config, ports.as_ref());
        let waits_until = wait_for_probes(&config);
        let started = Instant::now();
        Ok(Self {
            config_path,
            saved: config.clone(),
            state: State::new(config, next)?,
            compiler: Compiler::default(),
            publisher,
            workers,
            ports,
            neighbours,
            adoption: Adoption::default(),
            laggards: Laggards::default(),
            probes: super::show::Probes::default(),
            drains: super::drains::Drains::default(),
            configured_by: next,
            probes_due: Duration::ZERO,
            jobs: super::jobs::Jobs::default(),
            backend_baselines: super::Baselines::default(),
            service_baselines: super::Baselines::default(),
            events: EventLog::default(),
            raised: Alarms::default(),
            alarms_at: Duration::ZERO,
            tally: Tally::default(),
            shares: SlotShares::default(),
            log_left_out: parts.log_left_out,
            started_ms: super::record::unix_ms(),
            metrics: parts.metrics.map(Arc::new),
            admin: Arc::new(parts.admin),
            pulse: Arc::new(Pulse::new(started)),
            traffic: Traffic::default(),
            stop: Arc::default(),
            started,
            dirty: Dirty::Now,
            published_at: Duration::ZERO,
            waits_until,
            has_served: false,
        })
    }

    /// What ends [`Self::run`].
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }

    /// What shows from any thread whether the loop turns, and how far it is.
    #[must_use]
    pub fn pulse(&self) -> Arc<Pulse> {
        Arc::clone(&self.pulse)
    }

    /// What a [`Stopper`] notifies.
    pub(super) fn stop_notice(&self) -> Arc<Notify> {
        Arc::clone(&self.stop)
    }

    /// Time since the daemon started.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// The loop, until it is told to stop.
    pub(super) async fn serve(&mut self, signals: &mut Signals) {
        let (report_sender, mut reports) = mpsc::channel(CHANNEL_CAP);
        let (command_sender, mut commands) = mpsc::channel(CHANNEL_CAP);
        let seed = u64::from(std::process::id());
        let mut supervisor = Supervisor::new(report_sender, self.started.into(), seed);
        supervisor.remember(self.state.known_health());
        supervisor.set_targets(Target::all(self.state.config()));
        let admin = Arc::clone(&self.admin);
        tokio::spawn(async move { admin.run(command_sender).await });
        let (scrape_sender, mut scrapes) = mpsc::channel(1);
        if let Some(metrics) = self.metrics.clone() {
            tokio::spawn(async move {
                let Err(error) = metrics.run(scrape_sender).await;
                tracing::error!(%error, "metrics are not served");
            });
        }
        let stop = Arc::clone(&self.stop);
        let mut next_tick = tokio::time::Instant::now();
        // Before the first tick asks for neighbours: a worker without tables drops their answers,
        // and the next question comes a second later.
        self.publish_if_due();
        loop {
            self.pulse.turn();
            tokio::select! {
                () = stop.notified() => return,
                asked = signals.next() => match asked {
                    SignalAsks::Stop => return,
                    SignalAsks::Reload => self.hangup(&mut supervisor),
                },
                Some(command) = commands.recv() => self.command(command, &mut supervisor),
                Some(report) = reports.recv() => self.report(report),
                Some(scrape) = scrapes.recv() => self.scrape(scrape),
                () = sleep_until(next_tick) => {
                    self.tick();
                    let pause = if self.is_awaited() { ADOPTION_TICK } else { TICK };
                    next_tick = tokio::time::Instant::now() + pause;
                }
            }
            self.publish_if_due();
            if self.is_awaited() {
                next_tick = next_tick.min(tokio::time::Instant::now() + ADOPTION_TICK);
            }
        }
    }

    /// SIGHUP is `reload` without anyone to tell.
    pub(super) fn hangup(&mut self, supervisor: &mut Supervisor) {
        self.pulse.tell(Notice::Reloading);
        let outcome = self.reload(false, supervisor);
        match &outcome {
            Ok((_, warnings)) => warnings.iter().for_each(|warning| tracing::warn!("{warning}")),
            Err(error) => error.data.iter().for_each(|mistake| tracing::error!("{mistake}")),
        }
        let changed = outcome.as_ref().map(|(changed, _)| *changed);
        Audit::of_signal("SIGHUP (reload)", changed).log();
        self.record_reload(&outcome);
        if self.has_served {
            self.pulse.tell(Notice::Reloaded);
        }
    }

    fn command(&mut self, command: Command, supervisor: &mut Supervisor) {
        let Command { request, role, peer, reply } = command;
        let answer = match &request {
            Request::ShowFlows(params) => {
                let params = params.clone();
                return self.ask_flows(&params, Asker { request, role, peer, client: reply });
            }
            Request::ExplainFlow(params) => {
                let params = params.clone();
                return self.ask_explain(&params, Asker { request, role, peer, client: reply });
            }
            Request::ConntrackFlush(params) => {
                let params = params.clone();
                return self.ask_flush(&params, Asker { request, role, peer, client: reply });
            }
            Request::ConfigSave(params) => Some(self.save_config(params.force).map(Into::into)),
            // Of a subscriber, whose counters are due: it asked once, and this is no request.
            Request::Subscribe(_) => {
                let counters = self.show(&Request::ShowWorkers(NoParams {}));
                let _ = reply.send(counters);
                return;
            }
            request if !request.is_change() => Some(self.show(request)),
            _ => None,
        };
        if let Some(answer) = answer {
            return self.settle(Asker { request, role, peer, client: reply }, answer, false);
        }
        let outcome = self.change(&request, supervisor);
        self.record_change(&request, role, peer, &outcome);
        match outcome {
            Ok((changed, warnings)) => {
                self.publish_if_due();
                // If a laggard holds up publishing, the verb names it when its patience ends.
                let now = self.now();
                self.adoption.wait_for(self.configured_by, now, (changed, warnings), reply);
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        }
    }

    pub(super) fn report(&mut self, report: Report) {
        let Report { key, result, transition, damping } = report;
        if !self.state.is_monitored(&key) {
            // It was on its way when its backend went, or the monitor of its pool.
            return;
        }
        self.tally.probe(&key, &result);
        if let Some(transition) = transition {
            self.record_health(&key, transition, &damping);
        }
        let health: Health = damping.health();
        if self.state.set_health(&key, health) {
            self.dirty = self.dirty.max(Dirty::Health);
        }
        self.probes.record(key, damping);
    }

    fn tick(&mut self) {
        let now = self.now();
        for news in self.ports.tend(now) {
            self.neighbours.hear_news(&news);
        }
        if self.neighbours.tick(now, self.ports.as_ref(), &mut self.workers) {
            self.dirty = self.dirty.max(Dirty::Neighbours);
        }
        // First what all have adopted, then what they still count (`BackendSlots::adopted`).
        let acknowledged = self.publisher.acknowledged();
        let workers = &self.workers;
        self.state.adopted(acknowledged, |slot| {
            workers.iter().map(|worker| worker.stats.backend(slot).flows).sum()
        });
        self.publisher.reclaim();
        self.compiler.reclaim();
        let workers = u16::try_from(self.workers.len()).unwrap_or(u16::MAX);
        self.adoption.settle(&self.publisher, workers, now);
        self.answer_jobs();
        self.record_alarms(now);
        self.tell_when_serving();
    }

    /// Notes which backends drain from now on, and which do not any more.
    fn watch_drains(&mut self, now: Duration) {
        let pools = &self.state.config().pools;
        let members = pools.iter().flat_map(|pool| pool.backends.iter().map(move |b| (pool, b)));
        let draining: Vec<_> = members
            .filter(|(pool, backend)| pool.admin_state_of(backend) == config::AdminState::Draining)
            .map(|(pool, backend)| BackendKey::new(pool, backend))
            .map(|key| {
                let counted = self.counted(&key);
                (key, counted)
            })
            .collect();
        self.drains.update(draining, now);
    }

    /// Says once that the appliance forwards: no VIP waits for a probe, and every worker has adopted
    /// the tables that say so.
    pub(super) fn tell_when_serving(&mut self) {
        let is_serving = self.waits_until.is_none()
            && self.is_published()
            && self.publisher.acknowledged() >= self.publisher.generation();
        if is_serving && !self.has_served {
            self.has_served = true;
            self.record_appliance(EventKind::Started, Severity::Info, "the appliance forwards");
            self.pulse.tell(Notice::Serving);
        }
    }

    /// The next tables differ in more than next hops.
    pub(super) fn mark_changed(&mut self) {
        self.dirty = Dirty::Now;
    }

    /// Whether somebody waits for the workers.
    fn is_awaited(&self) -> bool {
        !self.adoption.is_idle() || !self.jobs.is_idle()
    }

    /// Whether the workers can know all there is.
    pub(super) fn is_published(&self) -> bool {
        self.dirty != Dirty::Now
    }

    /// The workers that had the time to adopt a generation and did not, by their places in
    /// `workers`.
    pub(super) fn lagging(&self) -> Vec<usize> {
        self.laggards.find(&self.publisher, self.now())
    }

    pub(super) fn publish_if_due(&mut self) {
        let now = self.now();
        if self.waits_until.is_some_and(|until| now >= until || self.state.is_probed()) {
            self.waits_until = None;
            self.mark_changed();
            tracing::info!("the VIPs are served");
        }
        let is_due = match self.dirty {
            Dirty::Clean => false,
            Dirty::Neighbours => {
                now.saturating_sub(self.published_at) >= NEIGHBOUR_PUBLISH_INTERVAL
            }
            Dirty::Health | Dirty::Now => true,
        };
        // Without room a laggard holds the old snapshots: nothing is compiled in vain.
        if !is_due || !self.publisher.has_room() {
            return;
        }
        self.watch_drains(now);
        let mut tables = self.compiler.compile(&self.state, &self.neighbours);
        if self.waits_until.is_some() {
            // Tables of backends that nobody has asked yet would send established flows astray
            // after a restart. Clients repeat what they sent meanwhile. The published ones have no
            // VIPs either.
            tables.vips = Arc::clone(&self.publisher.current().vips);
        }
        if self.dirty < Dirty::Now && tables.is_shared_with(self.publisher.current()) {
            // Such as the health of a backend that is disabled: workers need not know.
            self.dirty = Dirty::Clean;
            return;
        }
        match self.publisher.publish(tables) {
            Ok(generation) => {
                self.dirty = Dirty::Clean;
                self.published_at = now;
                self.laggards.published(generation, now);
                self.shares.follow(self.publisher.current());
                tracing::debug!(%generation, "tables published");
            }
            Err(PublishError::TooManyHeld { .. }) => {}
        }
    }
}
