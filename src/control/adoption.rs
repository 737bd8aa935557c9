//! Verbs that wait until every worker has adopted their change.

use std::time::Duration;

use tokio::sync::oneshot;

use super::protocol::reply::ChangeReply;
use super::protocol::{ErrorCode, Reply, RequestError};
use crate::snapshot::{Generation, Publisher};

/// How long a verb waits before it names the laggards.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// Who waits for what.
#[derive(Debug, Default)]
pub struct Adoption {
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    generation: Generation,
    until: Duration,
    changed: bool,
    warnings: Vec<String>,
    reply: oneshot::Sender<Result<Reply, RequestError>>,
}

impl Adoption {
    /// Answers `reply` when every reader runs `generation`, or at `now` plus [`PATIENCE`]. The answer
    /// says whether anything changed, and the warnings.
    pub fn wait_for(
        &mut self,
        generation: Generation,
        now: Duration,
        (changed, warnings): (bool, Vec<String>),
        reply: oneshot::Sender<Result<Reply, RequestError>>,
    ) {
        self.waiting.push(Waiting { generation, until: now + PATIENCE, changed, warnings, reply });
    }

    /// Whether anyone waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Answers all that can be answered at `now`. `workers` is how many readers there are.
    pub fn settle<T>(&mut self, publisher: &Publisher<T>, workers: u16, now: Duration) {
        for waiting in std::mem::take(&mut self.waiting) {
            // A generation that is not out yet makes every worker a laggard.
            let lagging = publisher.lagging(waiting.generation);
            let answer = if lagging.is_empty() {
                Ok(Reply::from(ChangeReply {
                    generation: waiting.generation.0,
                    changed: waiting.changed,
                    workers_adopted: workers,
                    warnings: waiting.warnings,
                }))
            } else if now >= waiting.until {
                let is_published = waiting.generation <= publisher.generation();
                Err(not_adopted(waiting.generation, &lagging, is_published))
            } else {
                self.waiting.push(waiting);
                continue;
            };
            // Who asked may have gone; the change stands.
            let _ = waiting.reply.send(answer);
        }
    }
}

fn not_adopted(generation: Generation, lagging: &[usize], is_published: bool) -> RequestError {
    let workers: Vec<_> = lagging.iter().map(|index| format!("worker {index}")).collect();
    let standing = if is_published { "is published" } else { "waits to be published" };
    RequestError::new(
        ErrorCode::NOT_ADOPTED,
        format!(
            "the change {standing} as generation {generation}, but {} did not adopt it within \
             {} s; look at `lodectl show workers` for one that does not poll",
            workers.join(", "),
            PATIENCE.as_secs(),
        ),
    )
    .with_data(workers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::shared;

    #[test]
    fn a_verb_returns_when_all_have_adopted_and_names_who_has_not() {
        let (mut publisher, mut readers) = shared(0, 2);
        let generation = publisher.publish(1).unwrap();
        let mut adoption = Adoption::default();
        let (first, mut first_answer) = oneshot::channel();
        adoption.wait_for(generation, Duration::ZERO, (true, vec!["w".into()]), first);
        readers[0].refresh();
        adoption.settle(&publisher, 2, PATIENCE / 2);
        assert!(first_answer.try_recv().is_err(), "worker 1 has not adopted, and there is time");
        readers[1].refresh();
        adoption.settle(&publisher, 2, PATIENCE / 2);
        let Ok(Ok(Reply::ChangeReply(change))) = first_answer.try_recv() else {
            panic!("no answer")
        };
        assert_eq!((change.generation, change.changed), (generation.0, true));
        assert_eq!((change.workers_adopted, change.warnings.len()), (2, 1));

        let later = publisher.publish(2).unwrap();
        readers[0].refresh();
        let (second, mut second_answer) = oneshot::channel();
        adoption.wait_for(later, Duration::ZERO, (true, Vec::new()), second);
        adoption.settle(&publisher, 2, PATIENCE);
        let Ok(Err(error)) = second_answer.try_recv() else { panic!("no answer") };
        assert_eq!(error.code, ErrorCode::NOT_ADOPTED);
        assert_eq!(error.data, ["worker 1"]);
        assert!(adoption.is_idle());
    }
}
