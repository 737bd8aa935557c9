//! Each flow's account: how many packets it sent, how far it came back, on which backend it is.

use lodestone::config::AdminState;

use super::violation::{Moves, Violation};
use crate::expect::Expectation;
use crate::expect::maglev::NOBODY;
use crate::stamp::Stamp;
use crate::wire;

/// How long the appliance remembers a flow at least, in milliseconds, if its service's idle timeout
/// is no shorter (docs/configuration.md): after a SYN, after a FIN or RST, and after one packet from
/// the middle.
const HALF_OPEN_MS: u32 = 10_000;
const CLOSING_MS: u32 = 60_000;
const UNVERIFIED_MS: u32 = 80_000;

/// The flow's last packet opened it.
const HALF_OPEN: u8 = 1;
/// The flow has sent FIN or RST.
const CLOSING: u8 = 2;
/// One packet was seen that opened nothing.
const UNVERIFIED: u8 = 4;
/// The connection sends no more.
const ENDED: u8 = 8;
/// It counts among the live connections of its backend.
const LIVE: u8 = 16;

/// A flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Packets sent.
    pub sent: u32,
    /// The newest packet that came back.
    last: u32,
    /// When, in milliseconds.
    heard: u32,
    backend: u16,
    bits: u8,
}

const _: () = assert!(size_of::<Flow>() == 16);

impl Flow {
    /// A flow that has sent nothing.
    pub const NEW: Self = Self { sent: 0, last: 0, heard: 0, backend: NOBODY, bits: 0 };

    /// Its next packet is sent; returns the packet's number.
    #[inline]
    pub fn send(&mut self, is_last: bool) -> u32 {
        self.sent = self.sent.wrapping_add(1);
        self.bits = if is_last { self.bits | ENDED } else { self.bits & !ENDED };
        self.sent
    }

    /// Packets that did not come back, from the newest that did on.
    pub fn missing_at_end(&self) -> u32 {
        self.sent.wrapping_sub(self.last)
    }

    fn memory_ms(&self, idle_timeout_ms: u32) -> u32 {
        let memory = match self.bits & (HALF_OPEN | CLOSING | UNVERIFIED) {
            0 => idle_timeout_ms,
            bits if bits & CLOSING != 0 => CLOSING_MS,
            bits if bits & HALF_OPEN != 0 => HALF_OPEN_MS,
            _ => UNVERIFIED_MS,
        };
        memory.min(idle_timeout_ms)
    }
}

/// A packet that came back whole.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Its stamp.
    pub stamp: Stamp,
    /// The place of its service.
    pub service: usize,
    /// The service's idle timeout.
    pub idle_timeout_ms: u32,
    /// Its flow's hash.
    pub hash: u64,
    /// The lives of the backend that it went to, the newest last.
    pub lives: &'a [(std::net::IpAddr, u16)],
    /// It is TCP.
    pub is_tcp: bool,
    /// TCP's control bits.
    pub flags: u8,
    /// Now, in milliseconds.
    pub now: u32,
}

/// The accounts of all flows.
pub struct Accounts {
    /// By number.
    pub flows: Vec<Flow>,
    /// By backend: connections that are open on it.
    live: Vec<u64>,
    /// Flows that moved rightly.
    pub moves: Moves,
}

impl Accounts {
    /// Of so many flows.
    pub fn new(count: usize) -> Self {
        Self { flows: vec![Flow::NEW; count], live: Vec::new(), moves: Moves::default() }
    }

    /// Connections that are open on a backend.
    pub fn live(&self, backend: u16) -> u64 {
        self.live.get(usize::from(backend)).copied().unwrap_or(0)
    }

    /// Enters an arrival, whose flow exists; returns what is wrong with its order, and with its
    /// backend.
    pub fn enter(
        &mut self,
        expectation: &Expectation,
        arrival: &Arrival<'_>,
    ) -> (Option<Violation>, Option<Violation>) {
        let mut flow = self.flows[arrival.stamp.flow as usize];
        let before = flow;
        let sequence = arrival.stamp.sequence;
        let order = match sequence.wrapping_sub(flow.last).cast_signed() {
            0 => Some(Violation::Repeated),
            ..0 => Some(Violation::Reordered),
            _ => {
                flow.last = sequence;
                None
            }
        };
        let opens = arrival.is_tcp && wire::opens(arrival.flags);
        let choice = if opens || flow.backend == NOBODY {
            check_new(expectation, arrival, &mut flow)
        } else {
            self.check_known(expectation, arrival, &mut flow)
        };
        flow.bits = state_after(flow.bits, arrival, opens, before.backend == NOBODY);
        flow.heard = arrival.now;
        self.count_live(before, &mut flow);
        self.flows[arrival.stamp.flow as usize] = flow;
        (order, choice)
    }

    /// A connection stays where it is as long as its backend keeps it.
    fn check_known(
        &mut self,
        expectation: &Expectation,
        arrival: &Arrival<'_>,
        flow: &mut Flow,
    ) -> Option<Violation> {
        let old = flow.backend;
        let versions = || expectation.since(arrival.stamp.version);
        let keeps = |version| expectation.keeps(version, arrival.service, old);
        let stayed = arrival.lives.iter().any(|&(_, life)| life == old);
        if stayed && versions().any(keeps) {
            return None;
        }
        let Some(chosen) = chosen(expectation, arrival) else {
            if stayed {
                return Some(Violation::StayedOnGone);
            }
            flow.backend = newest(arrival);
            return Some(Violation::LeftAstray);
        };
        flow.backend = chosen;
        if !versions().all(keeps) {
            let was_drained = (0..=*versions().end()).any(|version| {
                expectation.state(version, arrival.service, old) == Some(AdminState::Draining)
            });
            if was_drained {
                self.moves.outlived_drain += 1;
            } else {
                self.moves.backend_gone += 1;
            }
            return None;
        }
        let silence = arrival.now.wrapping_sub(flow.heard);
        if silence >= flow.memory_ms(arrival.idle_timeout_ms) {
            self.moves.forgotten += 1;
            return None;
        }
        let state = expectation.state(*versions().end(), arrival.service, old);
        Some(match state {
            Some(AdminState::Draining) => Violation::LeftWhileDraining,
            _ => Violation::LeftForTable,
        })
    }

    fn count_live(&mut self, before: Flow, flow: &mut Flow) {
        if before.bits & LIVE != 0
            && let Some(live) = self.live.get_mut(usize::from(before.backend))
        {
            *live -= 1;
        }
        let has_ended = flow.bits & ENDED != 0 && flow.last == flow.sent;
        if has_ended || flow.backend == NOBODY {
            flow.bits &= !LIVE;
            return;
        }
        flow.bits |= LIVE;
        let place = usize::from(flow.backend);
        if self.live.len() <= place {
            self.live.resize(place + 1, 0);
        }
        self.live[place] += 1;
    }
}

/// A new connection goes where a table sends it.
fn check_new(
    expectation: &Expectation,
    arrival: &Arrival<'_>,
    flow: &mut Flow,
) -> Option<Violation> {
    let chosen = chosen(expectation, arrival);
    flow.backend = chosen.unwrap_or_else(|| newest(arrival));
    chosen.is_none().then_some(Violation::WrongBackend)
}

/// The life of the backend that a table in force gives the flow, if that is where it went.
fn chosen(expectation: &Expectation, arrival: &Arrival<'_>) -> Option<u16> {
    let choices = expectation
        .since(arrival.stamp.version)
        .rev()
        .map(|version| expectation.choice(version, arrival.service, arrival.hash));
    choices.into_iter().find(|choice| arrival.lives.iter().any(|(_, life)| life == choice))
}

fn newest(arrival: &Arrival<'_>) -> u16 {
    arrival.lives.last().map_or(NOBODY, |&(_, life)| life)
}

/// What the appliance remembers of a flow after an arrival, as far as it says how long.
fn state_after(bits: u8, arrival: &Arrival<'_>, opens: bool, is_first: bool) -> u8 {
    let kept = bits & (ENDED | LIVE);
    if !arrival.is_tcp {
        return kept | if is_first { UNVERIFIED } else { 0 };
    }
    if opens {
        kept | HALF_OPEN
    } else if bits & CLOSING != 0 || arrival.flags & (wire::FIN | wire::RST) != 0 {
        kept | CLOSING
    } else if is_first {
        kept | UNVERIFIED
    } else if bits & HALF_OPEN != 0 && arrival.flags & wire::ACK == 0 {
        kept | HALF_OPEN
    } else {
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expect::tests::{fleet, request};

    struct Case {
        expectation: Expectation,
        accounts: Accounts,
    }

    /// Backends of the tests' fleet, and one that joins.
    const A: u16 = 0;
    const B: u16 = 1;
    const C: u16 = 2;
    const D: u16 = 3;

    impl Case {
        fn new() -> Self {
            Self { expectation: Expectation::new(fleet(), [0; 16]), accounts: Accounts::new(1) }
        }

        fn change(&mut self, method: &str, params: &str) {
            let next = self.expectation.fleet().after(&request(method, params)).unwrap();
            self.expectation.begin(next);
        }

        /// A hash that the newest table gives `new`, and the first gave `old`.
        fn hash(&self, old: u16, new: u16) -> u64 {
            let newest = *self.expectation.since(0).end();
            let fits = |hash: &u64| {
                self.expectation.choice(0, 0, *hash) == old
                    && self.expectation.choice(newest, 0, *hash) == new
            };
            (0..1021).find(fits).unwrap()
        }

        fn arrive(&mut self, hash: u64, backend: u16, flags: u8) -> Option<Violation> {
            self.arrive_at(hash, backend, flags, 0).1
        }

        fn arrive_at(
            &mut self,
            hash: u64,
            backend: u16,
            flags: u8,
            now: u32,
        ) -> (Option<Violation>, Option<Violation>) {
            let is_last = flags & wire::FIN != 0;
            let sequence = self.accounts.flows[0].send(is_last);
            let version = self.expectation.oldest();
            let address = self.expectation.known()[usize::from(backend)].address;
            let arrival = Arrival {
                stamp: Stamp { flow: 0, sequence, version },
                service: 0,
                idle_timeout_ms: 600_000,
                hash,
                lives: self.expectation.at(address),
                is_tcp: true,
                flags,
                now,
            };
            self.accounts.enter(&self.expectation, &arrival)
        }
    }

    const ADD: &str = r#"{"backend":"web/d","address":"10.9.0.4","weight":4}"#;

    #[test]
    fn a_new_connection_goes_where_a_table_in_force_sends_it() {
        let mut case = Case::new();
        case.change("backend.add", ADD);
        let hash = case.hash(A, D);
        assert_eq!(case.arrive(hash, A, wire::SYN), None, "the change is under way");
        assert_eq!(case.arrive(hash, D, wire::SYN), None);
        assert_eq!(case.arrive(hash, B, wire::SYN), Some(Violation::WrongBackend));
        case.expectation.adopted();
        assert_eq!(case.arrive(hash, A, wire::SYN), Some(Violation::WrongBackend));
        assert_eq!(case.arrive(hash, D, wire::SYN), None);
    }

    // L4-09
    #[test]
    fn a_connection_stays_whatever_the_tables_say() {
        let mut case = Case::new();
        let mut probe = Case::new();
        probe.change("backend.add", ADD);
        let hash = probe.hash(A, D);
        assert_eq!(case.arrive(hash, A, wire::SYN), None);
        case.change("backend.add", ADD);
        case.expectation.adopted();
        assert_eq!(case.arrive(hash, A, wire::ACK), None);
        assert_eq!(case.arrive(hash, D, wire::ACK), Some(Violation::LeftForTable));
        assert_eq!(case.arrive(hash, D, wire::ACK), None, "it is told once");
        assert_eq!(case.arrive(hash, B, wire::ACK), Some(Violation::LeftAstray));
    }

    #[test]
    fn a_drain_keeps_connections_and_who_outlives_it_is_told_apart() {
        let mut case = Case::new();
        let mut probe = Case::new();
        probe.change("backend.drain", r#"{"backend":"web/b"}"#);
        let hash = probe.hash(B, C);
        assert_eq!(case.arrive(hash, B, wire::SYN), None);
        case.change("backend.drain", r#"{"backend":"web/b"}"#);
        case.expectation.adopted();
        assert_eq!(case.arrive(hash, B, wire::ACK), None);
        assert_eq!(case.accounts.live(B), 1);
        let mut strayed = case.accounts.flows[0];
        assert_eq!(case.arrive(hash, C, wire::ACK), Some(Violation::LeftWhileDraining));
        strayed.sent += 1;
        case.accounts = Accounts { flows: vec![strayed], ..Accounts::new(1) };
        case.accounts.live = vec![0, 1];
        case.change("backend.remove", r#"{"backend":"web/b"}"#);
        case.expectation.adopted();
        let before = case.accounts.flows[0];
        assert_eq!(case.arrive(hash, B, wire::ACK), Some(Violation::StayedOnGone));
        case.accounts.flows[0] = Flow { sent: before.sent + 1, ..before };
        assert_eq!(case.arrive(hash, C, wire::ACK), None);
        assert_eq!(case.accounts.moves.outlived_drain, 1);
        assert_eq!(case.arrive(hash, C, wire::ACK), None);
    }

    #[test]
    fn a_backend_that_comes_back_has_none_of_its_flows() {
        let mut case = Case::new();
        let hash = case.hash(B, B);
        assert_eq!(case.arrive(hash, B, wire::SYN), None);
        case.change("backend.remove", r#"{"backend":"web/b"}"#);
        case.change("backend.add", r#"{"backend":"web/x","address":"10.9.0.2"}"#);
        case.expectation.adopted();
        // The same table as before, so the same choice: in another life.
        assert_eq!(case.arrive(hash, D, wire::ACK), None);
        assert_eq!(case.accounts.moves.backend_gone, 1);
        assert_eq!((case.accounts.live(B), case.accounts.live(D)), (0, 1));
    }

    #[test]
    fn what_the_appliance_may_forget_may_move() {
        let mut case = Case::new();
        let mut probe = Case::new();
        probe.change("backend.add", ADD);
        let hash = probe.hash(A, D);
        case.arrive(hash, A, wire::SYN);
        case.change("backend.add", ADD);
        case.expectation.adopted();
        assert_eq!(case.arrive_at(hash, D, wire::ACK, HALF_OPEN_MS).1, None);
        assert_eq!(case.accounts.moves.forgotten, 1);
    }

    #[test]
    fn order_and_ends_are_kept() {
        let mut case = Case::new();
        let hash = case.hash(A, A);
        case.arrive(hash, A, wire::SYN);
        assert_eq!(case.accounts.live(A), 1);
        case.accounts.flows[0].sent = 0;
        assert_eq!(case.arrive_at(hash, A, wire::ACK, 0).0, Some(Violation::Repeated));
        case.accounts.flows[0].sent = 4;
        assert_eq!(case.arrive_at(hash, A, wire::ACK, 0).0, None, "a gap is a loss");
        case.accounts.flows[0].sent = 2;
        assert_eq!(case.arrive_at(hash, A, wire::ACK, 0).0, Some(Violation::Reordered));
        case.accounts.flows[0].sent = 5;
        case.arrive(hash, A, wire::FIN | wire::ACK);
        assert_eq!(case.accounts.live(A), 0);
        assert_eq!(case.accounts.flows[0].missing_at_end(), 0);
    }
}
