//! How far a flow has come, and how long it is remembered in each state.

use crate::packet::TcpFlags;
use crate::time::Tick;

/// How long a flow is remembered after its client's SYN while nothing else comes, in ms: long
/// enough for a SYN-ACK that was lost twice (sent again after 1 s and 3 s; RFC 6298 §2.1) and a
/// slow round trip, short enough that a SYN flood is forgotten soon.
pub const HALF_OPEN_TIMEOUT: u32 = 10_000;

/// How long a flow is remembered after its client's last packet once the client has sent a FIN or
/// RST, in ms. It covers the other half of a close (the client still acknowledges data, and then
/// sits in TIME-WAIT, 60 s on Linux, where it answers the server's repeated FIN).
pub const CLOSING_TIMEOUT: u32 = 60_000;

/// How long a flow is remembered that began in the middle (a single packet, no SYN seen), in ms:
/// longer than a common probe of a quiet TCP peer takes to be repeated (75 s between keep-alives
/// on Linux, `tcp_keepalive_intvl`), as such a packet is what a flow sends that outlived a restart.
pub const UNVERIFIED_TIMEOUT: u32 = 80_000;

/// No deadline lies further ahead than this, in ms (12.4 days): half of what wrapping ticks can
/// compare. The other half is the time by which ageing may be late.
pub const MAX_TIMEOUT: u32 = 1 << 30;

/// A deadline is moved only if it moves by this part of the timeout, so that the packets of a busy
/// flow do not dirty its line.
const SLACK_DIVISOR: u32 = 16;

/// What the client's half of a flow has shown. The appliance never sees the backend's half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EntryState {
    /// A SYN was seen, and nothing since.
    HalfOpen = 1,
    /// One packet was seen that began no TCP connection: the flow is older than the shard's memory
    /// of it, or the packet is forged; or it is the first of a protocol without connections.
    Unverified = 2,
    /// The flow has gone on after its first packet.
    Established = 3,
    /// The client has sent a FIN or RST.
    Closing = 4,
}

impl EntryState {
    /// Its name in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HalfOpen => "half-open",
            Self::Unverified => "unverified",
            Self::Established => "established",
            Self::Closing => "closing",
        }
    }

    /// The state of a new entry whose first TCP packet carries `flags`.
    #[must_use]
    #[inline]
    pub const fn first(flags: TcpFlags) -> Self {
        if flags.contains(TcpFlags::RST) || flags.contains(TcpFlags::FIN) {
            Self::Closing
        } else if flags.contains(TcpFlags::SYN) {
            Self::HalfOpen
        } else {
            Self::Unverified
        }
    }

    /// The state after one more TCP packet from the client.
    ///
    /// `Closing` is final until a SYN makes a new entry: acknowledgements of what the server still
    /// sends must not make a finished flow look alive. The flow keeps its backend meanwhile, so a
    /// forged RST costs a real flow no more than the length of its memory.
    #[must_use]
    #[inline]
    pub const fn after(self, flags: TcpFlags) -> Self {
        if flags.contains(TcpFlags::RST) || flags.contains(TcpFlags::FIN) {
            return Self::Closing;
        }
        match self {
            // A SYN sent again shows nothing new.
            Self::HalfOpen if flags.contains(TcpFlags::SYN) || !flags.contains(TcpFlags::ACK) => {
                Self::HalfOpen
            }
            Self::HalfOpen | Self::Unverified | Self::Established => Self::Established,
            Self::Closing => Self::Closing,
        }
    }

    /// The state after one more packet of a protocol without connections.
    #[must_use]
    #[inline]
    pub const fn after_datagram(self) -> Self {
        Self::Established
    }

    /// What an entry is worth when room is short; more is better.
    const fn worth(self) -> u8 {
        match self {
            Self::Closing => 0,
            Self::HalfOpen => 1,
            Self::Unverified => 2,
            Self::Established => 3,
        }
    }

    /// Whether a newcomer in this state may take the place of a live entry in state `victim`.
    pub(super) const fn may_evict(self, victim: Self) -> bool {
        victim.worth() < self.worth() || matches!((self, victim), (Self::HalfOpen, Self::HalfOpen))
    }

    /// The order in which entries are evicted: the least worth first, then the first to expire.
    pub(super) const fn eviction_order(self, expiry: Tick, now: Tick) -> (u8, u32) {
        (self.worth(), expiry.since(now))
    }

    pub(super) const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            1 => Some(Self::HalfOpen),
            2 => Some(Self::Unverified),
            3 => Some(Self::Established),
            4 => Some(Self::Closing),
            _ => None,
        }
    }
}

/// How long a flow may be silent before it is forgotten, by state, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// In [`EntryState::HalfOpen`].
    pub half_open: u32,
    /// In [`EntryState::Unverified`].
    pub unverified: u32,
    /// In [`EntryState::Established`]: the service's idle timeout.
    pub established: u32,
    /// In [`EntryState::Closing`].
    pub closing: u32,
}

impl Timeouts {
    /// The timeouts of a service with this idle timeout in ms; no other state outlasts it.
    #[must_use]
    #[inline]
    pub const fn new(idle_timeout: u32) -> Self {
        const fn at_most(timeout: u32, limit: u32) -> u32 {
            if timeout < limit { timeout } else { limit }
        }
        Self {
            half_open: at_most(HALF_OPEN_TIMEOUT, idle_timeout),
            unverified: at_most(UNVERIFIED_TIMEOUT, idle_timeout),
            established: idle_timeout,
            closing: at_most(CLOSING_TIMEOUT, idle_timeout),
        }
    }

    /// The timeout of `state`.
    #[must_use]
    #[inline]
    pub const fn of(&self, state: EntryState) -> u32 {
        match state {
            EntryState::HalfOpen => self.half_open,
            EntryState::Unverified => self.unverified,
            EntryState::Established => self.established,
            EntryState::Closing => self.closing,
        }
    }
}

/// When an entry that was used at `now` expires: the timeout and the slack later, so that it is
/// never forgotten early though its deadline is not moved for every packet.
#[inline]
pub(super) const fn deadline(now: Tick, timeout: u32) -> Tick {
    let after = timeout.saturating_add(timeout / SLACK_DIVISOR);
    now.plus(if after < MAX_TIMEOUT { after } else { MAX_TIMEOUT })
}

/// Whether a deadline that would become `new` has to be written.
#[inline]
pub(super) fn must_move(old: Tick, new: Tick, timeout: u32) -> bool {
    let moved = new.since(old).min(old.since(new));
    moved != 0 && moved >= timeout / SLACK_DIVISOR
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYN: TcpFlags = TcpFlags::SYN;
    const ACK: TcpFlags = TcpFlags::ACK;
    const FIN_ACK: TcpFlags = TcpFlags(TcpFlags::FIN.0 | TcpFlags::ACK.0);
    const RST: TcpFlags = TcpFlags::RST;

    #[test]
    fn a_connection_opens_lives_and_closes_by_the_clients_half() {
        let mut state = EntryState::first(SYN);
        assert_eq!(state, EntryState::HalfOpen);
        for (flags, expected) in [
            (SYN, EntryState::HalfOpen),
            (TcpFlags(0), EntryState::HalfOpen),
            (ACK, EntryState::Established),
            (ACK, EntryState::Established),
            (FIN_ACK, EntryState::Closing),
            (ACK, EntryState::Closing),
            (RST, EntryState::Closing),
        ] {
            state = state.after(flags);
            assert_eq!(state, expected, "{flags:?}");
        }
    }

    #[test]
    fn a_flow_seen_from_its_middle_is_trusted_from_its_second_packet() {
        assert_eq!(EntryState::first(ACK), EntryState::Unverified);
        assert_eq!(EntryState::Unverified.after(ACK), EntryState::Established);
        assert_eq!(EntryState::Unverified.after(RST), EntryState::Closing);
        assert_eq!(EntryState::first(FIN_ACK), EntryState::Closing);
    }

    #[test]
    fn only_a_bare_syn_opens() {
        assert!(SYN.is_opening());
        assert!(TcpFlags(0xc2).is_opening(), "with ECE and CWR (RFC 3168 §6.1.1)");
        for flags in [0x00, 0x10, 0x12, 0x03, 0x06, 0x01, 0x04] {
            assert!(!TcpFlags(flags).is_opening(), "{flags:#x}");
        }
    }

    // L4-42
    #[test]
    fn no_newcomer_evicts_an_established_entry() {
        use EntryState::{Closing, Established, HalfOpen, Unverified};
        let may = |newcomer: EntryState| {
            [HalfOpen, Unverified, Established, Closing].map(|victim| newcomer.may_evict(victim))
        };
        assert_eq!(may(HalfOpen), [true, false, false, true]);
        assert_eq!(may(Unverified), [true, false, false, true]);
        assert_eq!(may(Established), [true, true, false, true]);
        assert_eq!(may(Closing), [false; 4]);
    }

    #[test]
    fn a_deadline_is_rarely_written_and_never_early() {
        let timeout = 1600;
        let mut written = 0;
        let mut expiry = deadline(Tick(u32::MAX - 5000), timeout);
        for step in 0..10_000 {
            let now = Tick(u32::MAX - 5000).plus(step);
            let next = deadline(now, timeout);
            if must_move(expiry, next, timeout) {
                expiry = next;
                written += 1;
            }
            assert!(expiry.since(now) >= timeout && expiry.since(now) <= timeout + timeout / 16);
        }
        assert_eq!(written, 99, "once in 100 ms");
        assert!(must_move(Tick(10_000), Tick(5_000), timeout), "a shorter timeout takes hold");
        assert_eq!(deadline(Tick(7), u32::MAX), Tick(7).plus(MAX_TIMEOUT));
    }

    #[test]
    fn no_state_outlasts_the_idle_timeout() {
        let short = Timeouts::new(5_000);
        for state in [
            EntryState::HalfOpen,
            EntryState::Unverified,
            EntryState::Established,
            EntryState::Closing,
        ] {
            assert_eq!(short.of(state), 5_000);
        }
        let long = Timeouts::new(600_000);
        assert_eq!(long.of(EntryState::Established), 600_000);
        assert_eq!(long.of(EntryState::HalfOpen), HALF_OPEN_TIMEOUT);
    }
}
