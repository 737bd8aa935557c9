//! What a worker needs of its pipeline. [`Forwarder`] is the real one; tests have pipelines that
//! hand packets over on purpose.

use std::ops::DerefMut;

use super::job::Job;
use super::mesh::{Handed, Resolution, Resolutions};
use crate::conntrack::{Ipv4Bucket, Ipv6Bucket, Prefetch};
use crate::forward::{Counters, Forwarder, Tables, Verdicts};
use crate::id::PortId;
use crate::packet::PacketBuf;
use crate::time::Tick;

/// Decides what becomes of packets, and owns the state that this takes. It runs on the worker's
/// thread: it neither waits, allocates nor logs.
pub trait Pipeline<B: PacketBuf> {
    /// Decides about at most [`BURST`](crate::forward::BURST) frames that came in by `port`: one
    /// verdict a frame, in their order. Calls `classified` between the stages that the worker tells
    /// apart.
    fn process(
        &mut self,
        tables: &Tables,
        now: Tick,
        port: PortId,
        burst: &mut [B],
        counters: &mut Counters,
        classified: impl FnOnce(),
    ) -> Verdicts;

    /// Decides about at most [`BURST`](crate::forward::BURST) packets that other workers handed
    /// over: one resolution a packet, in their order.
    fn process_handed(
        &mut self,
        tables: &Tables,
        now: Tick,
        burst: &mut [Handed<B>],
        counters: &mut Counters,
    ) -> Resolutions;

    /// Forgets what has expired in the next `buckets` buckets of each table.
    fn age(&mut self, now: Tick, buckets: usize, counters: &mut Counters);

    /// Goes on with a job of management by at most `buckets` buckets; returns how many it visited.
    fn work(&mut self, job: &mut Job, now: Tick, buckets: usize, counters: &mut Counters) -> usize;
}

impl<B, S4, S6, P> Pipeline<B> for Forwarder<S4, S6, P>
where
    B: PacketBuf,
    S4: DerefMut<Target = [Ipv4Bucket]>,
    S6: DerefMut<Target = [Ipv6Bucket]>,
    P: Prefetch,
{
    #[inline]
    fn process(
        &mut self,
        tables: &Tables,
        now: Tick,
        port: PortId,
        burst: &mut [B],
        counters: &mut Counters,
        classified: impl FnOnce(),
    ) -> Verdicts {
        self.process_in_stages(tables, now, port, burst, counters, classified)
    }

    /// Whatever the purpose, each is decided here as a packet of this worker's own: nothing in the
    /// pipeline hands over yet. Sessions, fragments and the ICMP relay will look at the purpose.
    fn process_handed(
        &mut self,
        tables: &Tables,
        now: Tick,
        burst: &mut [Handed<B>],
        counters: &mut Counters,
    ) -> Resolutions {
        let decided = burst.iter_mut().flat_map(|handed| {
            let one = std::slice::from_mut(&mut handed.buf);
            Forwarder::process(self, tables, now, handed.port, one, counters)
        });
        decided.map(Resolution::Verdict).collect()
    }

    #[inline]
    fn age(&mut self, now: Tick, buckets: usize, counters: &mut Counters) {
        Forwarder::age(self, now, buckets, counters);
    }

    fn work(&mut self, job: &mut Job, now: Tick, buckets: usize, counters: &mut Counters) -> usize {
        job.advance::<_, _, P>(&mut self.conntrack, now, buckets, counters)
    }
}
