//! Questions that only workers can answer: what they track, and that they forget it.
//!
//! A question becomes a job on each worker; a job covers a span of the connection table and comes
//! back, and is resumed until it is through. A client that has gone is noticed between two spans:
//! its jobs are then not resumed, and what they did counts. A worker that does not give its job back in time is named.

use std::time::Duration;

use tokio::sync::oneshot;

use super::admin::{PeerCredentials, Role};
use super::explain::TrackedFlow;
use super::ports::WorkerRemote;
use super::protocol::params::ExplainParams;
use super::protocol::{ErrorCode, Reply, Request, RequestError};
use crate::packet::FlowKey;
use crate::worker::job::{Filter, FinishedJob, FlowEntry, FlowKeyAndHash, Job, Task};

/// A worker that gives no job back for longer does not poll: a span is a few thousand bursts.
const PATIENCE: Duration = Duration::from_secs(2);

/// Questions that wait at a time.
const QUESTION_CAP: usize = 64;

/// Flows that a worker lists at a time.
const LIST_MEMORY: usize = 1_024;

/// Where an answer goes.
pub(super) type Answer = oneshot::Sender<Result<Reply, RequestError>>;

/// What is asked of the workers.
#[derive(Debug)]
pub(super) enum Question {
    /// Who tracks this flow?
    Explain { params: ExplainParams, flow: FlowKey, job: FlowKeyAndHash },
    /// Which flows match? At most `limit` of them; all are counted.
    List { filter: Filter, limit: usize },
    /// Forget the flows that match.
    Flush { filter: Filter },
}

/// Who asked, and what: to be written down when the outcome is known.
#[derive(Debug)]
pub(super) struct Asker {
    pub request: Request,
    pub role: Role,
    pub peer: PeerCredentials,
    /// Where the answer goes.
    pub client: Answer,
}

/// A question with what was found.
#[derive(Debug)]
pub(super) struct Answered {
    pub question: Question,
    pub asker: Asker,
    /// By worker: its flows.
    pub flows: Vec<(u16, FlowEntry)>,
    /// Flows that matched, as far as workers told.
    pub matched: u64,
    /// Buckets that were walked.
    pub buckets: u64,
    /// Workers that did not answer in time.
    pub silent: Vec<u16>,
    /// Whether who asked left, and some workers were therefore not asked to go on.
    pub is_left: bool,
}

impl Answered {
    /// What was found of one flow.
    pub fn tracked(&self) -> Vec<TrackedFlow> {
        self.flows
            .iter()
            .map(|(worker, entry)| TrackedFlow {
                worker: *worker,
                backend: entry.backend,
                state: entry.state,
                expires_in_ms: entry.idle_expires_in_ms,
            })
            .collect()
    }
}

/// The questions that wait.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    next: u64,
    waiting: Vec<Waiting>,
    /// By place of the worker: when it gave a job back last. Jobs take turns in a worker, so one
    /// that gives others back is not silent.
    progress: Vec<Duration>,
}

#[derive(Debug)]
struct Waiting {
    id: u64,
    found: Answered,
    /// By place of the worker.
    shares: Vec<Share>,
}

/// A worker's share of a question.
#[derive(Debug)]
struct Share {
    step: Step,
    since: Duration,
    /// Flows that matched so far.
    matched: u64,
    /// Buckets that were walked so far.
    buckets: u64,
    /// Those of them that were walked to list, before the rest was only counted.
    listed_buckets: u64,
}

impl Share {
    fn new(job: Job, since: Duration) -> Self {
        let step = Step::Ready(Some(job));
        Self { step, since, matched: 0, buckets: 0, listed_buckets: 0 }
    }
}

/// How far a worker is.
#[derive(Debug)]
enum Step {
    /// A job waits for room in its mailbox.
    Ready(Option<Job>),
    /// It has the job.
    Running,
    /// It is through, or was given up.
    Done,
}

impl Jobs {
    /// Whether no question waits.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether another question may wait.
    ///
    /// # Errors
    /// Too many do.
    pub fn check_room(&self) -> Result<(), RequestError> {
        if self.waiting.len() < QUESTION_CAP {
            return Ok(());
        }
        Err(RequestError::new(
            ErrorCode::TOO_MANY_CONNECTIONS,
            format!("{QUESTION_CAP} questions wait for the workers; ask again in a second"),
        ))
    }

    /// Takes a question for `workers` workers. There must be room.
    pub fn ask(&mut self, question: Question, asker: Asker, workers: usize, now: Duration) {
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        self.progress.resize(workers, Duration::ZERO);
        let share = |_| Share::new(first_job(id, &question, false), now);
        let shares = (0..workers).map(share).collect();
        let found = Answered {
            question,
            asker,
            flows: Vec::new(),
            matched: 0,
            buckets: 0,
            silent: Vec::new(),
            is_left: false,
        };
        self.waiting.push(Waiting { id, found, shares });
    }

    /// Takes what came back, sends what goes on, and returns what is answered.
    pub fn tick(&mut self, workers: &mut [WorkerRemote], now: Duration) -> Vec<Answered> {
        for (place, worker) in workers.iter_mut().enumerate() {
            while let Some(finished) = worker.mailbox.next_finished() {
                if let Some(progress) = self.progress.get_mut(place) {
                    *progress = now;
                }
                self.take(place, worker.id.0, finished, now);
            }
            let progress = self.progress.get(place).copied().unwrap_or_default();
            for waiting in &mut self.waiting {
                let Some(share) = waiting.shares.get_mut(place) else { continue };
                if matches!(share.step, Step::Ready(_)) && waiting.found.asker.client.is_closed() {
                    share.step = Step::Done;
                    waiting.found.is_left = true;
                }
                if let Step::Ready(job) = &mut share.step
                    && let Some(ready) = job.take()
                {
                    match worker.mailbox.start(ready) {
                        Ok(()) => share.step = Step::Running,
                        Err(back) => *job = Some(back),
                    }
                }
                let quiet = now.saturating_sub(share.since.max(progress));
                if !matches!(share.step, Step::Done) && quiet >= PATIENCE {
                    share.step = Step::Done;
                    waiting.found.silent.push(worker.id.0);
                }
            }
        }
        let is_through =
            |waiting: &Waiting| waiting.shares.iter().all(|share| matches!(share.step, Step::Done));
        // Of a client that left, what workers have begun is awaited: it is done, and counts.
        let summed = |mut waiting: Waiting| {
            for share in &waiting.shares {
                waiting.found.matched += share.matched;
                waiting.found.buckets += share.buckets;
            }
            waiting.found
        };
        self.waiting.extract_if(.., |waiting| is_through(waiting)).map(summed).collect()
    }

    fn take(&mut self, place: usize, worker: u16, finished: FinishedJob, now: Duration) {
        // The question may have been answered, or given up, without it.
        let id = finished.id();
        let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.id == id) else {
            return;
        };
        let Some(share) = waiting.shares.get_mut(place) else { return };
        if !matches!(share.step, Step::Running) {
            return;
        }
        share.since = now;
        share.matched = finished.matched();
        share.buckets = share.listed_buckets + finished.visited();
        let found = &mut waiting.found;
        let limit = match found.question {
            Question::List { limit, .. } => limit,
            Question::Explain { .. } => usize::MAX,
            Question::Flush { .. } => 0,
        };
        let room = limit.saturating_sub(found.flows.len());
        let listed = finished.entries().iter().take(room);
        found.flows.extend(listed.map(|entry| (worker, *entry)));
        let is_listing = matches!(finished.task(), Task::List);
        if is_listing && found.flows.len() >= limit && !finished.is_complete() {
            // Enough is listed: the rest, and what was listed, is counted.
            let count = first_job(id, &found.question, true);
            share.matched = 0;
            share.listed_buckets = share.buckets;
            share.step = Step::Ready(Some(count));
        } else if finished.is_complete() {
            share.step = Step::Done;
        } else {
            share.step = Step::Ready(finished.resume());
        }
    }
}

fn first_job(id: u64, question: &Question, count: bool) -> Job {
    match question {
        Question::Explain { job, .. } => Job::find(id, *job),
        Question::List { filter, .. } if count => Job::count(id, *filter),
        Question::List { filter, .. } => Job::list(id, *filter, LIST_MEMORY),
        Question::Flush { filter } => Job::flush(id, *filter),
    }
}

#[cfg(test)]
mod tests;
