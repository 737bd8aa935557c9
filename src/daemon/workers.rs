//! Starting and stopping the worker threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, bounded};

use super::{StartError, cores, numbered};
use crate::config::{Config, Idle};
use crate::conntrack::{Bucket, Conntrack, Ipv4Bucket, Ipv6Bucket};
use crate::control::{BACKEND_CAP, WorkerRemote};
use crate::dpdk::{
    Clock, Eal, HardwarePrefetch, PooledQueues, ThreadRegistration, tsc_hz, zeroed_storage,
};
use crate::forward::{Forwarder, Tables};
use crate::id::WorkerId;
use crate::snapshot::Reader;
use crate::stats;
use crate::worker::{Worker, mailbox, mesh};

/// Frames that wait between a worker and management, in each direction.
const MAILBOX_CAP: usize = 256;

/// The threads, and what management sees of them.
pub(super) struct Workers {
    pub remotes: Vec<WorkerRemote>,
    pub handles: Handles,
}

/// The threads. They stop when this goes, also where a start fails half way: none may poll a port
/// while the process exits.
pub(super) struct Handles {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Handles {
    /// Stops every worker at its next round and waits for it.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A worker that panicked has ended the process already.
            let _ = thread.join();
        }
    }
}

type AppWorker = Worker<
    PooledQueues,
    Forwarder<&'static mut [Ipv4Bucket], &'static mut [Ipv6Bucket], HardwarePrefetch>,
>;

/// Starts one thread a worker, each on its core and registered with EAL; returns when all poll.
pub(super) fn spawn(
    eal: &'static Eal,
    config: &Config,
    queues: Vec<Vec<PooledQueues>>,
    readers: Vec<Reader<Tables>>,
) -> Result<Workers, StartError> {
    let stop = Arc::new(AtomicBool::new(false));
    let clock = Clock::new(eal);
    let idle = config.cpu.idle;
    let (started, all_started) = bounded(config.cpu.workers.len().max(1));
    let mut remotes = Vec::new();
    let mut handles = Handles { stop: Arc::clone(&stop), threads: Vec::new() };
    let cycles_per_second = tsc_hz(eal);
    let peers = mesh(u16::try_from(config.cpu.workers.len()).unwrap_or(u16::MAX));
    let ends = queues.into_iter().zip(readers).zip(peers);
    for ((id, core), ((queues, reader), peers)) in numbered(config).zip(ends) {
        let ipv4 = zeroed_storage(Ipv4Bucket::count_for(config.conntrack.ipv4_flows))?;
        let ipv6 = zeroed_storage(Ipv6Bucket::count_for(config.conntrack.ipv6_flows))?;
        let conntrack = Conntrack::new(ipv4, ipv6);
        let capacity = (conntrack.ipv4.capacity(), conntrack.ipv6.capacity());
        let (counters, view) = stats::worker(BACKEND_CAP);
        let (mailbox, remote) = mailbox(MAILBOX_CAP);
        remotes.push(WorkerRemote {
            id,
            core,
            capacity,
            cycles_per_second,
            stats: view,
            mailbox: remote,
        });
        let worker: AppWorker =
            Worker::new(id, queues, Forwarder::new(conntrack), reader, counters, mailbox)
                .with_peers(peers);
        let (stop, started) = (Arc::clone(&stop), started.clone());
        let thread = std::thread::Builder::new()
            .name(format!("worker-{id}"))
            .spawn(move || guarded(id, || run(eal, core, worker, &clock, idle, &stop, &started)))
            .map_err(|source| StartError::Thread { worker: id.0, source })?;
        handles.threads.push(thread);
    }
    for _ in &handles.threads {
        let outcome: Result<(u16, Result<(), String>), _> = all_started.recv();
        if let Ok((worker, Err(reason))) = outcome {
            return Err(StartError::Worker { worker, reason });
        }
    }
    Ok(Workers { remotes, handles })
}

/// A half-dead worker is worse than a restart: its panic ends the process. The log has said why
/// already ([`super::log::init`]); the line here says what comes of it.
pub(super) fn guarded(id: WorkerId, body: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(body)).is_err() {
        tracing::error!("worker {id} panicked; the daemon ends, so that it can be started again");
        std::process::abort();
    }
}

fn run(
    eal: &'static Eal,
    core: usize,
    mut worker: AppWorker,
    clock: &Clock,
    idle: Idle,
    stop: &AtomicBool,
    started: &Sender<(u16, Result<(), String>)>,
) {
    let id = worker.id().0;
    let registered = cores::pin(core)
        .and_then(|()| ThreadRegistration::new(eal).map_err(StartError::from))
        .map_err(|error| error.to_string());
    let (registration, outcome) = match registered {
        Ok(registration) => (Some(registration), Ok(())),
        Err(reason) => (None, Err(reason)),
    };
    let _ = started.send((id, outcome));
    if registration.is_none() {
        return;
    }
    worker.run(stop, *clock, || give_way(idle, std::thread::yield_now));
}

/// What an idle worker does: `yield_now`, the one system call of its loop, only if it was told to.
fn give_way(idle: Idle, yield_now: impl FnOnce()) {
    match idle {
        Idle::Spin => std::hint::spin_loop(),
        Idle::Yield => yield_now(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_spins_makes_no_system_call_and_one_that_yields_makes_one() {
        for (idle, expected) in [(Idle::Spin, 0), (Idle::Yield, 1)] {
            let mut calls = 0;
            give_way(idle, || calls += 1);
            assert_eq!(calls, expected, "{idle:?}");
        }
    }
}
