//! What passes between a worker and management: frames, by value, through bounded channels.
//!
//! Neither side waits for the other: a full channel is a counted drop.

use arrayvec::ArrayVec;
use crossbeam_channel::{Receiver, Sender, bounded};

use crate::forward::PUNT_CAP;
use crate::id::PortId;
use crate::packet::originate::REPORT_CAP;

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
    outgoing: Receiver<Frame>,
    punted: Sender<Frame>,
}

/// Management's end.
#[derive(Debug)]
pub struct MailboxRemote {
    outgoing: Sender<Frame>,
    punted: Receiver<Frame>,
}

/// Both ends of a mailbox that holds at most `capacity` frames in each direction.
#[must_use]
pub fn mailbox(capacity: usize) -> (Mailbox, MailboxRemote) {
    let (outgoing_sender, outgoing) = bounded(capacity);
    let (punted, punted_receiver) = bounded(capacity);
    (
        Mailbox { outgoing, punted },
        MailboxRemote { outgoing: outgoing_sender, punted: punted_receiver },
    )
}

impl Mailbox {
    /// The next frame that management wants sent.
    #[inline]
    pub fn next_outgoing(&mut self) -> Option<Frame> {
        self.outgoing.try_recv().ok()
    }

    /// Hands a frame to management; `false` if the channel is full, or management is gone.
    #[inline]
    #[must_use]
    pub fn punt(&mut self, frame: Frame) -> bool {
        self.punted.try_send(frame).is_ok()
    }
}

impl MailboxRemote {
    /// Asks the worker to send a frame; `false` if the channel is full or the worker is gone: who asks sends again.
    #[must_use]
    pub fn send(&self, frame: Frame) -> bool {
        self.outgoing.try_send(frame).is_ok()
    }

    /// The next frame that the worker punted.
    #[must_use]
    pub fn next_punted(&self) -> Option<Frame> {
        self.punted.try_recv().ok()
    }
}
