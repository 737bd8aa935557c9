//! Questions that only workers can answer: what they track, and that they forget it.
//!
//! A question becomes a job on each worker; a job covers a span of the connection table and comes
//! back, and is resumed until it is through. A client that has gone is noticed between two spans:
//! its jobs are then not resumed. A worker that does not give its job back in time is named.

use std::time::Duration;

use tokio::sync::oneshot;

use super::explain::TrackedFlow;
use super::ports::WorkerRemote;
use super::protocol::params::ExplainParams;
use super::protocol::{ErrorCode, Reply, RequestError};
use crate::packet::FlowKey;
use crate::worker::job::{Filter, FinishedJob, FlowEntry, FlowKeyAndHash, Job, Task};

/// A worker that takes longer for one span does not poll: a span is a few thousand bursts.
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

/// A question with what was found.
#[derive(Debug)]
pub(super) struct Answered {
    pub question: Question,
    pub answer: Answer,
    /// By worker: its flows.
    pub flows: Vec<(u16, FlowEntry)>,
    /// Flows that matched.
    pub matched: u64,
    /// Buckets that were walked.
    pub buckets: u64,
    /// Workers that did not answer in time.
    pub silent: Vec<u16>,
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

    /// Takes a question for `workers` workers.
    pub fn ask(&mut self, question: Question, answer: Answer, workers: usize, now: Duration) {
        if self.waiting.len() >= QUESTION_CAP {
            // Who asked may have gone.
            let _ = answer.send(Err(RequestError::new(
                ErrorCode::TOO_MANY_CONNECTIONS,
                format!("{QUESTION_CAP} questions wait for the workers; ask again in a second"),
            )));
            return;
        }
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        let share =
            |_| Share { step: Step::Ready(Some(first_job(id, &question, false))), since: now };
        let shares = (0..workers).map(share).collect();
        let found = Answered {
            question,
            answer,
            flows: Vec::new(),
            matched: 0,
            buckets: 0,
            silent: Vec::new(),
        };
        self.waiting.push(Waiting { id, found, shares });
    }

    /// Takes what came back, sends what goes on, and returns what is answered.
    pub fn tick(&mut self, workers: &mut [WorkerRemote], now: Duration) -> Vec<Answered> {
        for (place, worker) in workers.iter_mut().enumerate() {
            while let Some(finished) = worker.mailbox.next_finished() {
                self.take(place, worker.id.0, finished, now);
            }
            for waiting in &mut self.waiting {
                let Some(share) = waiting.shares.get_mut(place) else { continue };
                if let Step::Ready(job) = &mut share.step
                    && let Some(ready) = job.take()
                {
                    match worker.mailbox.start(ready) {
                        Ok(()) => share.step = Step::Running,
                        Err(back) => *job = Some(back),
                    }
                }
                if !matches!(share.step, Step::Done) && now.saturating_sub(share.since) >= PATIENCE
                {
                    share.step = Step::Done;
                    waiting.found.silent.push(worker.id.0);
                }
            }
        }
        let is_through = |waiting: &mut Waiting| {
            waiting.shares.iter().all(|share| matches!(share.step, Step::Done))
                || waiting.found.answer.is_closed()
        };
        self.waiting.extract_if(.., is_through).map(|waiting| waiting.found).collect()
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
            found.buckets += finished.visited();
            share.step = Step::Ready(Some(count));
        } else if finished.is_complete() {
            found.matched += finished.matched();
            found.buckets += finished.visited();
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
