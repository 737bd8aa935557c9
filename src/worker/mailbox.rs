//! What passes between a worker and management: frames and jobs, by value, through bounded rings of
//! one producer and one consumer.
//!
//! Neither side waits for the other: a full ring is a counted drop, or a job that is not taken.

use arrayvec::ArrayVec;
use rtrb::{Consumer, Producer, PushError, RingBuffer};

use super::job::{FinishedJob, Job};
use crate::forward::PUNT_CAP;
use crate::id::PortId;
use crate::packet::originate::REPORT_CAP;

/// Jobs that a worker has at a time: one that runs, and those that wait for it or to be fetched.
pub const JOB_CAP: usize = 8;

/// A small frame that management sends or receives: ARP, neighbour discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The port it came from or goes to.
    pub port: PortId,
    /// From the first byte of the Ethernet header.
    pub bytes: ArrayVec<u8, PUNT_CAP>,
}

impl Frame {
    /// A frame with this content; `None` if it is longer than [`PUNT_CAP`].
    #[must_use]
    pub fn new(port: PortId, frame: &[u8]) -> Option<Self> {
        let mut bytes = ArrayVec::new();
        bytes.try_extend_from_slice(frame).ok()?;
        Some(Self { port, bytes })
    }
}

// The longest frame that management makes: a report that did not fit would never be sent.
const _: () = assert!(REPORT_CAP <= PUNT_CAP);

/// The worker's end.
#[derive(Debug)]
pub struct Mailbox {
    outgoing: Consumer<Frame>,
    punted: Producer<Frame>,
    jobs: Consumer<Job>,
    finished: Producer<Job>,
    /// The job that runs.
    running: Option<Job>,
}

/// Management's end.
#[derive(Debug)]
pub struct MailboxRemote {
    outgoing: Producer<Frame>,
    punted: Consumer<Frame>,
    jobs: Producer<Job>,
    finished: Consumer<Job>,
    /// Jobs that were started and have not been fetched.
    in_flight: usize,
}

/// Both ends of a mailbox that holds at most `capacity` frames in each direction, and [`JOB_CAP`]
/// jobs.
#[must_use]
pub fn mailbox(capacity: usize) -> (Mailbox, MailboxRemote) {
    let (outgoing_producer, outgoing) = RingBuffer::new(capacity);
    let (punted, punted_consumer) = RingBuffer::new(capacity);
    let (jobs_producer, jobs) = RingBuffer::new(JOB_CAP);
    let (finished, finished_consumer) = RingBuffer::new(JOB_CAP);
    (
        Mailbox { outgoing, punted, jobs, finished, running: None },
        MailboxRemote {
            outgoing: outgoing_producer,
            punted: punted_consumer,
            jobs: jobs_producer,
            finished: finished_consumer,
            in_flight: 0,
        },
    )
}

impl Mailbox {
    /// The next frame that management wants sent.
    #[inline]
    pub fn next_outgoing(&mut self) -> Option<Frame> {
        self.outgoing.pop().ok()
    }

    /// Hands a frame to management; `false` if the ring is full, or management is gone.
    #[inline]
    #[must_use]
    pub fn punt(&mut self, frame: Frame) -> bool {
        !self.punted.is_abandoned() && self.punted.push(frame).is_ok()
    }

    /// The job that runs: the next one if none does.
    #[inline]
    pub fn job(&mut self) -> Option<&mut Job> {
        if self.running.is_none() {
            self.running = self.jobs.pop().ok();
        }
        self.running.as_mut()
    }

    /// Gives the job that runs back if it is finished. The ring has room for every job that
    /// management may have started; if it had none, the job would wait here, since freeing its
    /// memory is not for the worker.
    pub fn give_back_finished(&mut self) {
        if let Some(job) = self.running.take_if(|job| job.is_finished())
            && let Err(PushError::Full(job)) = self.finished.push(job)
        {
            self.running = Some(job);
        }
    }
}

impl MailboxRemote {
    /// Asks the worker to send a frame; `false` if the ring is full or the worker is gone: who asks
    /// sends again.
    #[must_use]
    pub fn send(&mut self, frame: Frame) -> bool {
        !self.outgoing.is_abandoned() && self.outgoing.push(frame).is_ok()
    }

    /// The next frame that the worker punted.
    #[must_use]
    pub fn next_punted(&mut self) -> Option<Frame> {
        self.punted.pop().ok()
    }

    /// Gives the worker a job. It runs after those that were started before.
    ///
    /// # Errors
    ///
    /// The job, if [`JOB_CAP`] jobs were started and not fetched by [`Self::next_finished`], or the
    /// worker is gone.
    #[expect(clippy::result_large_err, reason = "the job itself, moved once and far from packets")]
    pub fn start(&mut self, job: Job) -> Result<(), Job> {
        if self.in_flight >= JOB_CAP || self.jobs.is_abandoned() {
            return Err(job);
        }
        self.jobs.push(job).map_err(|PushError::Full(job)| job)?;
        self.in_flight += 1;
        Ok(())
    }

    /// The next job that came back, in the order in which they were started.
    #[must_use]
    pub fn next_finished(&mut self) -> Option<FinishedJob> {
        let job = self.finished.pop().ok()?;
        self.in_flight = self.in_flight.saturating_sub(1);
        Some(FinishedJob(job))
    }

    /// Jobs that were started and have not come back.
    #[must_use]
    pub fn jobs_in_flight(&self) -> usize {
        self.in_flight
    }
}
