//! What can be wrong with what comes back, and what is counted beside it.

use serde::Serialize;

/// What is wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Violation {
    /// Wrong link-layer addresses, VLAN or Ethertype.
    OuterLink,
    /// A field of the outer header that depends on no address has another value than it must.
    OuterHeader,
    /// The outer IPv4 checksum is wrong.
    OuterChecksum,
    /// Outer length, inner length and frame disagree.
    OuterLength,
    /// It comes from another address than the port's.
    OuterSource,
    /// It goes to an address that no backend has, or ever had.
    UnknownBackend,
    /// The inner IPv4 checksum is wrong.
    InnerChecksum,
    /// The checksum of TCP or UDP is wrong.
    TransportChecksum,
    /// A byte differs from what was sent.
    InnerChanged,
    /// It is none of the packets of this run.
    Foreign,
    /// It should have been dropped.
    NotDropped,
    /// A new flow went to a backend that no table in force gives it.
    WrongBackend,
    /// A connection left its backend, which keeps its flows, for the table's choice.
    LeftForTable,
    /// A connection left its backend, which drains and keeps its flows.
    LeftWhileDraining,
    /// A connection left its backend for one that is not the table's choice either.
    LeftAstray,
    /// A flow stayed on a backend that is removed or disabled.
    StayedOnGone,
    /// It came after a later packet of its flow.
    Reordered,
    /// It came twice.
    Repeated,
    /// It did not come back.
    Missing,
    /// The appliance's counters do not add up: frames that it lost without a count, or counted
    /// twice.
    Uncounted,
}

impl Violation {
    /// All of them, in order.
    pub const ALL: [Self; 20] = [
        Self::OuterLink,
        Self::OuterHeader,
        Self::OuterChecksum,
        Self::OuterLength,
        Self::OuterSource,
        Self::UnknownBackend,
        Self::InnerChecksum,
        Self::TransportChecksum,
        Self::InnerChanged,
        Self::Foreign,
        Self::NotDropped,
        Self::WrongBackend,
        Self::LeftForTable,
        Self::LeftWhileDraining,
        Self::LeftAstray,
        Self::StayedOnGone,
        Self::Reordered,
        Self::Repeated,
        Self::Missing,
        Self::Uncounted,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OuterLink => "outer_link",
            Self::OuterHeader => "outer_header",
            Self::OuterChecksum => "outer_checksum",
            Self::OuterLength => "outer_length",
            Self::OuterSource => "outer_source",
            Self::UnknownBackend => "unknown_backend",
            Self::InnerChecksum => "inner_checksum",
            Self::TransportChecksum => "transport_checksum",
            Self::InnerChanged => "inner_changed",
            Self::Foreign => "foreign",
            Self::NotDropped => "not_dropped",
            Self::WrongBackend => "wrong_backend",
            Self::LeftForTable => "left_for_table",
            Self::LeftWhileDraining => "left_while_draining",
            Self::LeftAstray => "left_astray",
            Self::StayedOnGone => "stayed_on_gone",
            Self::Reordered => "reordered",
            Self::Repeated => "repeated",
            Self::Missing => "missing",
            Self::Uncounted => "uncounted",
        }
    }

    /// Whether it breaks a connection: per-connection consistency.
    pub const fn breaks_connection(self) -> bool {
        matches!(
            self,
            Self::LeftForTable | Self::LeftWhileDraining | Self::LeftAstray | Self::StayedOnGone
        )
    }
}

/// Why a flow moved without a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moves {
    /// It outlived the drain of its backend, which was removed then.
    pub outlived_drain: u64,
    /// Its backend was removed or disabled without a drain.
    pub backend_gone: u64,
    /// It had been silent for longer than the appliance remembers.
    pub forgotten: u64,
}

/// Examples that are kept of each violation.
const EXAMPLE_CAP: usize = 3;

/// Violations, counted, with some examples in words.
#[derive(Clone, Debug, Default)]
pub struct Violations {
    counts: [u64; Violation::ALL.len()],
    examples: Vec<(Violation, String)>,
}

impl Violations {
    /// Counts one; `example` is asked for in words if it is one of the first.
    #[cold]
    pub fn add(&mut self, violation: Violation, count: u64, example: impl FnOnce() -> String) {
        if count == 0 {
            return;
        }
        self.counts[violation as usize] += count;
        let known = self.examples.iter().filter(|(kind, _)| *kind == violation).count();
        if known < EXAMPLE_CAP {
            self.examples.push((violation, example()));
        }
    }

    /// How many of a kind.
    pub fn count(&self, violation: Violation) -> u64 {
        self.counts[violation as usize]
    }

    /// How many in all.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many broke a connection.
    pub fn consistency(&self) -> u64 {
        let breaks = Violation::ALL.into_iter().filter(|kind| kind.breaks_connection());
        breaks.map(|kind| self.count(kind)).sum()
    }

    /// Those that happened.
    pub fn by_kind(&self) -> impl Iterator<Item = (Violation, u64)> + '_ {
        let counted = Violation::ALL.into_iter().map(|kind| (kind, self.count(kind)));
        counted.filter(|&(_, count)| count > 0)
    }

    /// Examples in words.
    pub fn examples(&self) -> &[(Violation, String)] {
        &self.examples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_counts_in_its_place() {
        let mut violations = Violations::default();
        for (place, kind) in Violation::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
            violations.add(kind, 2, || kind.name().to_owned());
            violations.add(kind, 0, || unreachable!("nothing happened"));
        }
        assert_eq!(violations.total(), 40);
        assert_eq!(violations.consistency(), 8);
        assert_eq!(violations.by_kind().count(), 20);
        assert_eq!(violations.examples().len(), 20);
    }
}
