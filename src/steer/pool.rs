//! What a pool's backends may be used for.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the operator wants of a backend. Health never changes it, and it never changes health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AdminState {
    /// New flows go to it.
    #[default]
    Enabled,
    /// The flows that it has stay, new ones go elsewhere.
    Draining,
    /// Nothing goes to it.
    Disabled,
}

impl fmt::Display for AdminState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enabled => "enabled",
            Self::Draining => "draining",
            Self::Disabled => "disabled",
        })
    }
}

/// What the monitor says of a backend. A pool without a monitor has backends that are always up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// It passes its probes.
    Up,
    /// It fails its probes.
    Down,
    /// It has not been probed often enough to say. Used like one that is down: not while another
    /// is up.
    #[default]
    Unknown,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Unknown => "unknown",
        })
    }
}

/// A backend, as the brain sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendState {
    /// What the operator wants.
    pub admin: AdminState,
    /// What the monitor says.
    pub health: Health,
    /// Relative share of the pool's new flows; 0 takes none, whatever happens to the others.
    pub weight: u32,
}

impl BackendState {
    /// Whether new flows may go to it at all: enabled, with a weight.
    const fn is_usable(self) -> bool {
        matches!(self.admin, AdminState::Enabled) && self.weight > 0
    }

    /// Whether new flows should go to it.
    const fn is_ready(self) -> bool {
        self.is_usable() && matches!(self.health, Health::Up)
    }
}

/// A pool, as the brain sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolState {
    /// With fewer ready backends than this the pool yields to one further down a service's list.
    /// 0 is taken for 1.
    pub threshold: usize,
    /// Its backends, in the order of the configuration.
    pub backends: Vec<BackendState>,
}

impl PoolState {
    /// How many backends may take new flows whatever their health: enabled and of weight above 0.
    #[must_use]
    pub fn usable_count(&self) -> usize {
        self.backends.iter().filter(|backend| backend.is_usable()).count()
    }

    /// How many backends should take new flows: usable and up. This is what the threshold counts:
    /// a backend of weight 0 carries no load, however healthy.
    #[must_use]
    pub fn ready_count(&self) -> usize {
        self.backends.iter().filter(|backend| backend.is_ready()).count()
    }

    /// Whether enough backends are ready for the pool to take all flows of a service.
    #[must_use]
    pub fn reaches_threshold(&self) -> bool {
        self.ready_count() >= self.threshold.max(1)
    }
}

/// On what ground a pool's backends were chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Some are ready, and these are used.
    Ready,
    /// None is ready, so all that are usable are used: the monitor may be wrong, and if it is
    /// right nothing is lost.
    LastResort,
    /// None is usable.
    Nobody,
}

/// The backends of a pool that get slots in its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eligible {
    /// Indices into [`PoolState::backends`], ascending.
    pub members: Vec<usize>,
    /// Why these.
    pub basis: Basis,
}

/// Which backends of a pool get slots in its table: those that are enabled, up and of weight above
/// 0; if there are none, those that are enabled and of weight above 0. Never one that drains or is
/// disabled.
///
/// It looks at nothing but the pool, since all services that use the pool share its table. So the
/// table of a pool without a ready backend is that of the last resort even while every service has
/// another pool to go to; then no new flow comes to it.
#[must_use]
pub fn eligible(pool: &PoolState) -> Eligible {
    let indices = |chosen: fn(BackendState) -> bool| -> Vec<usize> {
        let backends = pool.backends.iter().enumerate();
        backends.filter(|(_, backend)| chosen(**backend)).map(|(index, _)| index).collect()
    };
    let ready = indices(BackendState::is_ready);
    if !ready.is_empty() {
        return Eligible { members: ready, basis: Basis::Ready };
    }
    let usable = indices(BackendState::is_usable);
    let basis = if usable.is_empty() { Basis::Nobody } else { Basis::LastResort };
    Eligible { members: usable, basis }
}

/// Which tracked flows may stay on a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeps {
    /// Established TCP connections.
    pub tcp: bool,
    /// Flows of other protocols.
    pub other: bool,
}

/// Which tracked flows may stay on a backend of a pool whose table has this basis (the default
/// persistence, field-notes §2).
///
/// TCP stays on a backend that is enabled or draining, whatever its health: only the backend can
/// end the connection in order. Other protocols stay while it is up; if not, their next packet is a
/// new flow. In the last resort health decides nothing, so there they stay too. A disabled backend
/// keeps nothing.
#[must_use]
pub const fn keeps(admin: AdminState, health: Health, basis: Basis) -> Keeps {
    let tcp = matches!(admin, AdminState::Enabled | AdminState::Draining);
    let up = matches!(health, Health::Up) || matches!(basis, Basis::LastResort);
    Keeps { tcp, other: tcp && up }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AdminState::{Disabled, Draining, Enabled};
    use Health::{Down, Unknown, Up};

    fn pool(backends: &[(AdminState, Health, u32)]) -> PoolState {
        let state = |&(admin, health, weight)| BackendState { admin, health, weight };
        PoolState { threshold: 1, backends: backends.iter().map(state).collect() }
    }

    fn chosen(backends: &[(AdminState, Health, u32)]) -> (Vec<usize>, Basis) {
        let Eligible { members, basis } = eligible(&pool(backends));
        (members, basis)
    }

    #[test]
    fn ready_backends_get_slots() {
        let mixed = [
            (Enabled, Up, 1),
            (Draining, Up, 1),
            (Disabled, Up, 1),
            (Enabled, Down, 1),
            (Enabled, Unknown, 1),
            (Enabled, Up, 0),
            (Enabled, Up, 9),
        ];
        assert_eq!(chosen(&mixed), (vec![0, 6], Basis::Ready));
        assert_eq!(pool(&mixed).ready_count(), 2);
        assert_eq!(pool(&mixed).usable_count(), 4);
    }

    // L4-43
    #[test]
    fn all_unhealthy_share_the_flows_as_a_last_resort() {
        assert_eq!(chosen(&[(Enabled, Down, 1); 5]), (vec![0, 1, 2, 3, 4], Basis::LastResort));
        let rest = [(Enabled, Down, 1), (Draining, Up, 1), (Enabled, Down, 0), (Disabled, Up, 1)];
        assert_eq!(chosen(&rest), (vec![0], Basis::LastResort));
    }

    #[test]
    fn before_the_first_probes_everyone_is_used() {
        assert_eq!(chosen(&[(Enabled, Unknown, 1); 2]), (vec![0, 1], Basis::LastResort));
        assert_eq!(chosen(&[(Enabled, Unknown, 1), (Enabled, Up, 1)]), (vec![1], Basis::Ready));
    }

    #[test]
    fn nobody_is_an_answer() {
        assert_eq!(chosen(&[]), (vec![], Basis::Nobody));
        assert_eq!(chosen(&[(Draining, Up, 1), (Disabled, Up, 1)]), (vec![], Basis::Nobody));
        assert_eq!(chosen(&[(Enabled, Up, 0)]), (vec![], Basis::Nobody));
    }

    // L4-22: an established TCP connection stays on a backend that turned unhealthy.
    // L4-23: a UDP flow does not.
    #[test]
    fn who_keeps_what() {
        for (admin, health, tcp, other) in [
            (Enabled, Up, true, true),
            (Enabled, Down, true, false),
            (Enabled, Unknown, true, false),
            (Draining, Up, true, true),
            (Draining, Down, true, false),
            (Disabled, Up, false, false),
            (Disabled, Down, false, false),
        ] {
            let kept = keeps(admin, health, Basis::Ready);
            assert_eq!(kept, Keeps { tcp, other }, "{admin} and {health}");
            let last = keeps(admin, health, Basis::LastResort);
            assert_eq!(last, Keeps { tcp, other: tcp }, "{admin} and {health}, last resort");
        }
    }

    #[test]
    fn words_are_the_same_in_text_and_json() {
        for admin in [Enabled, Draining, Disabled] {
            assert_eq!(serde_json::to_string(&admin).unwrap(), format!("\"{admin}\""));
        }
        for health in [Up, Down, Unknown] {
            assert_eq!(serde_json::to_string(&health).unwrap(), format!("\"{health}\""));
        }
        assert_eq!(serde_json::from_str::<AdminState>("\"draining\"").unwrap(), Draining);
        assert!(serde_json::from_str::<Health>("\"Up\"").is_err());
    }
}
