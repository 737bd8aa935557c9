//! One neighbour: when to ask for it, and how.

use std::time::Duration;

use crate::health::Jitter;
use crate::packet::MacAddress;

/// So many questions go out a second apart before asking slows down.
const QUICK_ASKS: u32 = 3;
/// From one question to the next, at first.
const QUICK: Duration = Duration::from_secs(1);
/// From one question to the next, at last.
const SLOW: Duration = Duration::from_secs(10);
/// A neighbour that was heard is asked again after between this …
const CHECK_FROM: Duration = Duration::from_secs(20);
/// … and this, so that neighbours found together are not asked together.
const CHECK_TO: Duration = Duration::from_secs(30);

/// How a neighbour stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// Never heard: its MAC is not known.
    Incomplete,
    /// Heard lately.
    Reachable,
    /// Asked, and the answer is not yet overdue.
    Probing,
    /// Silent. Its last MAC stays in use: silence may as well be ours, and a dead next hop that is
    /// kept harms no more than one that is missing.
    Stale,
}

/// How to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// The MAC that it had last.
    Unicast(MacAddress),
    /// Everyone.
    Multicast,
}

/// What is known of one neighbour.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    mac: Option<MacAddress>,
    /// When it was last heard.
    heard: Option<Duration>,
    /// Questions since it was last heard.
    asked: u32,
    /// When the last question went out.
    last_ask: Option<Duration>,
    /// When the next one is due.
    due: Duration,
}

impl Entry {
    /// One that is asked for at once.
    pub(super) const fn new() -> Self {
        Self { mac: None, heard: None, asked: 0, last_ask: None, due: Duration::ZERO }
    }

    pub(super) const fn mac(&self) -> Option<MacAddress> {
        self.mac
    }

    pub(super) const fn heard_at(&self) -> Option<Duration> {
        self.heard
    }

    pub(super) const fn due(&self) -> Duration {
        self.due
    }

    pub(super) const fn state(&self) -> NeighbourState {
        match (self.mac, self.asked) {
            (None, _) => NeighbourState::Incomplete,
            // Remembered only, and not asked yet.
            (Some(_), 0) if self.heard.is_none() => NeighbourState::Stale,
            (Some(_), 0) => NeighbourState::Reachable,
            (Some(_), 1..=QUICK_ASKS) => NeighbourState::Probing,
            (Some(_), _) => NeighbourState::Stale,
        }
    }

    /// The question that goes out now, which must be at or after [`Self::due`]. First the known MAC
    /// is asked, so that a link of many neighbours is not flooded, and then everyone.
    pub(super) fn ask(&mut self, now: Duration) -> Ask {
        let ask = match self.mac {
            Some(mac) if self.asked < QUICK_ASKS => Ask::Unicast(mac),
            _ => Ask::Multicast,
        };
        self.asked = self.asked.saturating_add(1);
        self.last_ask = Some(now);
        // 1, 1, 1, 2, 4, 8, 10, 10, … seconds.
        let doublings = self.asked.saturating_sub(QUICK_ASKS).min(4);
        self.due = now + (QUICK * (1 << doublings)).min(SLOW);
        ask
    }

    /// Puts the next question off, as there is no way to ask it.
    pub(super) fn cannot_ask(&mut self, now: Duration) {
        self.due = now + SLOW;
    }

    /// The neighbour said that it is at `mac`. Whether that is news.
    ///
    /// A move is believed at once, since fail-over of a gateway announces itself so, and checked at
    /// once, since anyone can say so.
    pub(super) fn hear(&mut self, mac: MacAddress, now: Duration, jitter: &mut Jitter) -> bool {
        let before = self.mac.replace(mac);
        self.heard = Some(now);
        self.asked = 0;
        if before.is_some_and(|before| before != mac) {
            self.check(now);
        } else {
            self.due = now + jitter.between(CHECK_FROM, CHECK_TO);
        }
        before != Some(mac)
    }

    /// Asks soon whether the neighbour is still there: now, but a second after the last question at
    /// the earliest, or whoever sends claims in bulk would be answered in bulk.
    pub(super) fn check(&mut self, now: Duration) {
        let earliest = self.last_ask.map_or(now, |last| now.max(last + QUICK));
        self.due = self.due.min(earliest);
    }

    /// Asks soon and as quickly as at first: the link is another than it was.
    pub(super) fn hasten(&mut self, now: Duration) {
        self.asked = if self.mac.is_none() { 0 } else { self.asked.min(QUICK_ASKS) };
        self.check(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
    const OTHER: MacAddress = MacAddress([2, 0, 0, 0, 0, 10]);

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    /// Asks whenever due until `until`; the seconds of the questions and whether they are unicast.
    fn run(entry: &mut Entry, until: u64) -> Vec<(u64, bool)> {
        let mut asked = Vec::new();
        while entry.due() <= seconds(until) {
            let now = entry.due();
            asked.push((now.as_secs(), matches!(entry.ask(now), Ask::Unicast(_))));
        }
        asked
    }

    #[test]
    fn an_unknown_neighbour_is_asked_for_every_second_and_then_more_slowly() {
        let mut entry = Entry::new();
        assert_eq!(entry.state(), NeighbourState::Incomplete);
        let asked = run(&mut entry, 40);
        let at: Vec<_> = asked.iter().map(|(second, _)| *second).collect();
        assert_eq!(at, [0, 1, 2, 3, 5, 9, 17, 27, 37]);
        assert!(asked.iter().all(|(_, unicast)| !unicast));
        assert_eq!(entry.state(), NeighbourState::Incomplete);
    }

    #[test]
    fn a_known_neighbour_is_checked_and_kept_when_it_is_silent() {
        let mut jitter = Jitter::new(1);
        let mut entry = Entry::new();
        entry.ask(seconds(0));
        assert!(entry.hear(MAC, seconds(0), &mut jitter));
        assert_eq!(entry.state(), NeighbourState::Reachable);
        assert!((seconds(20)..seconds(30)).contains(&entry.due()));
        assert!(!entry.hear(MAC, seconds(5), &mut jitter), "no news");
        assert!((seconds(25)..seconds(35)).contains(&entry.due()));

        let asked: Vec<_> = run(&mut entry, 3600).iter().map(|(_, unicast)| *unicast).collect();
        assert_eq!(asked[..5], [true, true, true, false, false], "the MAC first, then everyone");
        assert!(asked.len() > 300, "it never gives up");
        assert_eq!((entry.state(), entry.mac()), (NeighbourState::Stale, Some(MAC)));
        assert!(!entry.hear(MAC, seconds(3601), &mut jitter), "back, with the same MAC");
        assert_eq!(entry.state(), NeighbourState::Reachable);
    }

    #[test]
    fn a_move_is_believed_at_once_and_checked_at_most_every_second() {
        let mut jitter = Jitter::new(1);
        let mut entry = Entry::new();
        entry.hear(MAC, seconds(0), &mut jitter);
        assert!(entry.hear(OTHER, seconds(4), &mut jitter));
        assert_eq!((entry.mac(), entry.due()), (Some(OTHER), seconds(4)));
        assert_eq!(entry.ask(seconds(4)), Ask::Unicast(OTHER));
        let soon = seconds(4) + Duration::from_millis(10);
        assert!(entry.hear(MAC, soon, &mut jitter));
        assert_eq!(entry.due(), seconds(5));
    }

    #[test]
    fn a_new_link_makes_asking_quick_again() {
        let mut entry = Entry::new();
        run(&mut entry, 98);
        entry.hasten(seconds(100));
        let asked = run(&mut entry, 106);
        assert_eq!(
            asked.iter().map(|(second, _)| *second).collect::<Vec<_>>(),
            [100, 101, 102, 103, 105]
        );
    }
}
