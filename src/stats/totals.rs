//! What is counted by one number each, as the worker's cells and as plain numbers.

use std::ops::AddAssign;

use super::Counter;

macro_rules! totals {
    ($cells:ident, $(#[$title:meta])* $totals:ident { $($(#[$doc:meta])* $name:ident,)+ }) => {
        #[derive(Debug, Default)]
        pub(super) struct $cells {
            $(pub $name: Counter,)+
        }

        impl $cells {
            pub fn read(&self) -> $totals {
                $totals { $($name: self.$name.read(),)+ }
            }
        }

        $(#[$title])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $totals {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl AddAssign for $totals {
            fn add_assign(&mut self, other: Self) {
                $(self.$name = self.$name.wrapping_add(other.$name);)+
            }
        }
    };
}

totals! {
    Cells,
    /// What a worker has counted since it started, but for drops, flows and backends.
    Totals {
        /// Frames received from ports.
        rx_packets,
        /// Their bytes, without the frame check sequence.
        rx_bytes,
        /// Frames that ports took for sending: encapsulated, replies and originated ones.
        tx_packets,
        /// Their bytes, without the frame check sequence.
        tx_bytes,
        /// Frames that management made and this worker was given to send.
        originated,
        /// Received frames that were turned into an answer (ARP, neighbour advertisement, echo reply).
        replies,
        /// Received frames that went to management.
        punted,
        /// Polls that found frames.
        bursts,
        /// Polls that found nothing.
        empty_polls,
        /// Times that a burst was offered to a port again, since it had not taken all of it.
        tx_retries,
        /// Bursts of which a port did not take all in the end, so that the rest was dropped.
        tx_full_bursts,
        /// Packets that other workers handed over to this one. They are transmitted, dropped, punted
        /// or handed on (an answer, a relay) afterwards, as any other.
        handed_in,
        /// Packets that this worker handed over to others.
        handed_out,
        /// Buckets of the connection table that were visited for management's jobs.
        job_buckets,
    }
}

totals! {
    FlowCells,
    /// What a worker has counted of the flows of one family.
    FlowTotals {
        /// Packets whose flow had an entry that they could follow.
        hits,
        /// Decisions for a TCP SYN, or for a packet of another protocol without an entry: as a rule
        /// the flow's first, but every one of a flow that found no room.
        new,
        /// TCP packets other than a SYN without an entry: decided by the tables.
        unverified,
        /// Decisions that found no room for an entry, so that the tables decide about the flow's
        /// next packet as well, which then counts again.
        refused,
        /// Entries that were removed since they had been silent too long, by ageing or to make
        /// room.
        expired,
        /// Entries that management had removed (`flush`).
        removed,
        /// Gauge: entries now.
        entries,
    }
}

totals! {
    RuntimeCells,
    /// Where a worker's cycles went since it started, as VPP's `show runtime` tells it. Together
    /// they are all cycles from the first round to the last.
    RuntimeTotals {
        /// Cycles of polls that brought frames, from the mark before to the return of the receive:
        /// empty polls of other ports in the same round are among them.
        receive,
        /// Cycles of parsing, finding the VIP and hashing.
        classify,
        /// Cycles of decision and encapsulation; all handling of packets that others handed over.
        decide,
        /// Cycles of handing frames to transmit queues, retries among them.
        transmit,
        /// Cycles of busy rounds beside bursts: mailbox, jobs, ageing, adoption of new tables.
        other,
        /// Cycles of rounds that brought nothing, the time given away among them.
        idle,
    }
}

impl RuntimeTotals {
    /// All cycles.
    #[must_use]
    pub const fn all(&self) -> u64 {
        let Self { receive, classify, decide, transmit, other, idle } = *self;
        let stages = receive.wrapping_add(classify).wrapping_add(decide).wrapping_add(transmit);
        stages.wrapping_add(other).wrapping_add(idle)
    }
}

impl Totals {
    /// Polls in all.
    #[must_use]
    pub const fn polls(&self) -> u64 {
        self.bursts.wrapping_add(self.empty_polls)
    }
}
