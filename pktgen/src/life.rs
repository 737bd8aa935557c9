//! Connections that open, live and end.

use crate::profile::Life;
use crate::random::Random;
use crate::wire;

/// One packet of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The flow.
    pub flow: u32,
    /// TCP's control bits.
    pub flags: u8,
    /// The connection has no further packet.
    pub is_last: bool,
}

/// The connections of a flow set: so many at once, each of so many packets.
#[derive(Clone, Debug)]
pub struct Connections {
    life: Life,
    open: Vec<Connection>,
    turn: usize,
    random: Random,
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    flow: u32,
    /// Packets to come; 0 is a place without a connection.
    left: u32,
    is_new: bool,
}

impl Connections {
    /// No connection is open yet.
    pub fn new(life: &Life, seed: u64) -> Self {
        let free = Connection { flow: 0, left: 0, is_new: false };
        let open = vec![free; life.concurrent as usize];
        Self { life: life.clone(), open, turn: 0, random: Random::new(seed) }
    }

    /// The next packet. The open connections take turns; `next_flow` names the flow of a new one.
    #[inline]
    pub fn step(&mut self, next_flow: impl FnOnce() -> u32) -> Step {
        let turn = self.turn;
        self.turn = if turn + 1 == self.open.len() { 0 } else { turn + 1 };
        if self.open[turn].left == 0 {
            let [least, most] = self.life.length;
            let left = least + self.random.below(most - least + 1);
            self.open[turn] = Connection { flow: next_flow(), left, is_new: true };
        }
        let connection = &mut self.open[turn];
        let was_new = std::mem::replace(&mut connection.is_new, false);
        connection.left -= 1;
        let (flow, is_last) = (connection.flow, connection.left == 0);
        let flags = if was_new && self.random.unit() < self.life.syn {
            wire::SYN
        } else if is_last {
            self.last_flags()
        } else {
            wire::ACK
        };
        Step { flow, flags, is_last }
    }

    fn last_flags(&mut self) -> u8 {
        let by = self.random.unit();
        if by < self.life.fin {
            wire::FIN | wire::ACK
        } else if by < self.life.fin + self.life.rst {
            wire::RST
        } else {
            wire::ACK
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(syn: f64, fin: f64, rst: f64) -> Life {
        Life { concurrent: 4, length: [3, 5], syn, fin, rst }
    }

    #[test]
    fn a_connection_opens_lives_and_ends_while_others_do() {
        let mut connections = Connections::new(&life(1.0, 1.0, 0.0), 1);
        let mut next = 0..;
        let mut lives: Vec<Vec<u8>> = vec![Vec::new(); 1000];
        for _ in 0..400 {
            let step = connections.step(|| next.next().unwrap());
            lives[step.flow as usize].push(step.flags);
            assert_eq!(step.is_last, step.flags & wire::FIN != 0);
        }
        let ended: Vec<_> =
            lives.iter().filter(|life| life.last() == Some(&(wire::FIN | wire::ACK))).collect();
        assert!(ended.len() > 80, "{}", ended.len());
        for life in ended {
            assert!((3..=5).contains(&life.len()), "{life:?}");
            assert_eq!(life[0], wire::SYN);
            assert!(life[1..life.len() - 1].iter().all(|&flags| flags == wire::ACK));
        }
    }

    #[test]
    fn shares_of_beginnings_and_ends_are_kept() {
        let mut connections = Connections::new(&life(0.5, 0.25, 0.25), 1);
        let mut counts = [0_u32; 4];
        let mut next = 0..;
        let mut begun = 0;
        for _ in 0..40_000 {
            let step = connections.step(|| {
                begun += 1;
                next.next().unwrap()
            });
            let place = match step.flags {
                wire::SYN => 0,
                wire::RST => 1,
                wire::ACK => 3,
                _ => 2,
            };
            counts[place] += 1;
        }
        let share = |count: u32| f64::from(count) / f64::from(begun);
        assert!((share(counts[0]) - 0.5).abs() < 0.03, "{counts:?}");
        assert!((share(counts[1]) - 0.25).abs() < 0.03, "{counts:?}");
        assert!((share(counts[2]) - 0.25).abs() < 0.03, "{counts:?}");
    }
}
