//! What a run is: read from TOML, checked as a whole before anything is sent.

mod check;
mod written;

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use lodestone::control::protocol::Request;
use serde::Deserialize;

use crate::pace::Rate;
use crate::tuples::{Order, Tuples};

/// What happens to what comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Every packet is checked.
    Verify,
    /// Packets are counted.
    Count,
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Connections that open, live and end.
    Tcp,
    /// Datagrams.
    Udp,
    /// Only segments that open a connection.
    Syn,
    /// Only answers to such segments, which no client sends.
    SynAck,
    /// Only segments from the middle of a connection.
    Ack,
    /// Segments with control bits at random.
    RandomFlags,
    /// IPv4 datagrams in two fragments.
    UdpFragments,
}

/// Which sources a flow set has, and in which order they are visited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Set {
    /// Addresses in order, then ports; in turn.
    Grid,
    /// Addresses and ports at random; in turn.
    Random,
    /// Addresses and ports at random; visited as often as Zipf's law with this exponent says.
    Zipf(f64),
}

/// How connections live.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Life {
    /// Connections that are open at once.
    pub concurrent: u32,
    /// The least and the most packets of a connection.
    pub length: [u32; 2],
    /// Share of connections that begin with a SYN; the others are seen from their middle.
    #[serde(default = "all")]
    pub syn: f64,
    /// Share of connections that end with a FIN.
    #[serde(default = "all")]
    pub fin: f64,
    /// Share of connections that end with a RST; the rest just stop.
    #[serde(default)]
    pub rst: f64,
}

fn all() -> f64 {
    1.0
}

/// What becomes of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// They come back encapsulated.
    Forwarded,
    /// None comes back.
    Dropped,
}

/// A flow set.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Its part of all packets, relative to the others.
    pub share: f64,
    /// What its packets are.
    pub kind: Kind,
    /// Where they come from.
    pub source: IpNet,
    /// Where they go.
    pub destination: IpAddr,
    /// The port that they go to.
    pub port: u16,
    /// How many flows there are.
    pub flows: u32,
    /// Which.
    pub set: Set,
    /// Frame lengths in bytes without the check sequence, one after the other.
    pub sizes: Vec<u16>,
    /// Of [`Kind::Tcp`].
    pub life: Option<Life>,
    /// What becomes of them.
    pub expect: Expect,
    seed: u64,
}

impl Traffic {
    /// The sources of its flows.
    pub fn tuples(&self) -> Tuples {
        let order = match self.set {
            Set::Grid => Order::Grid,
            Set::Random | Set::Zipf(_) => Order::Random(self.seed),
        };
        Tuples::new(self.source, order)
    }
}

/// A change of the appliance during the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// It is asked for when so many packets were sent.
    pub at_packet: u64,
    /// And not before all connections of its backend have ended.
    pub when_drained: bool,
    /// The verb.
    pub request: Request,
}

/// A search for rates (RFC 2544 §26.1).
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// Seconds that a trial sends.
    pub trial: f64,
    /// The rate of the first trial, packets a second.
    pub highest: f64,
    /// The search ends when the rate is known to this part of it.
    pub precision: f64,
    /// The part of packets that the partial-drop rate may lose.
    pub partial_drop: f64,
    /// Flow counts to search for, each a search of its own; those of the traffic if there are none.
    pub flows: Vec<u32>,
    /// Parts of the no-drop rate at which latency is measured.
    pub loads: Vec<f64>,
}

/// A capture that is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// The capture file.
    pub file: PathBuf,
    /// Where all its packets go.
    pub destination: IpAddr,
    /// The port that they go to; their own if absent.
    pub port: Option<u16>,
    /// Where they come from: their own sources mapped onto this prefix, if there is one.
    pub source: Option<IpNet>,
}

/// A checked profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Check or count.
    pub mode: Mode,
    /// Packets to send; without it [`Self::duration`] ends the run.
    pub packets: Option<u64>,
    /// Seconds to send.
    pub duration: Option<f64>,
    /// What all random choices follow from.
    pub seed: u64,
    /// Packets on their way at once at most.
    pub window: Option<u32>,
    /// How fast; as fast as they are taken without it.
    pub rate: Option<Rate>,
    /// The flow sets.
    pub traffic: Vec<Traffic>,
    /// Instead of flow sets.
    pub replay: Option<Replay>,
    /// What happens to the appliance meanwhile, in order.
    pub changes: Vec<Change>,
    /// Searches instead of one run.
    pub search: Option<Search>,
}

/// Why a profile was not taken: one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError(String);

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProfileError {}

impl Profile {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or says something that cannot be done.
    pub fn load(path: &Path) -> Result<Self, ProfileError> {
        let name = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| ProfileError(format!("profile {name} cannot be read: {error}")))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse(&text, folder).map_err(|error| ProfileError(format!("profile {name}: {error}")))
    }

    /// Reads a text; files that it names are relative to `folder`.
    ///
    /// # Errors
    /// It says something that cannot be done.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, ProfileError> {
        let written: written::Profile = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
            let what = error.message().lines().next().unwrap_or("it is no TOML").to_owned();
            ProfileError(line.map_or(what.clone(), |line| format!("line {line}: {what}")))
        })?;
        check::checked(written, folder).map_err(ProfileError)
    }

    /// Flows of all sets together.
    pub fn flow_count(&self) -> u64 {
        self.traffic.iter().map(|traffic| u64::from(traffic.flows)).sum()
    }

    /// Gives all flow sets together so many flows, in their proportions.
    pub fn set_flows(&mut self, flows: u32) {
        let before = self.flow_count().max(1);
        for traffic in &mut self.traffic {
            let wanted = u64::from(traffic.flows) * u64::from(flows) / before;
            let room = traffic.tuples().room();
            traffic.flows = u32::try_from(wanted.clamp(1, room)).unwrap_or(u32::MAX);
            if let Some(life) = &mut traffic.life {
                life.concurrent = life.concurrent.min(traffic.flows);
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn profile(text: &str) -> Profile {
        Profile::parse(text, Path::new(".")).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A flow set of 1000 flows.
    pub fn traffic(kind: &str, source: &str, destination: &str) -> Traffic {
        let expect = if kind == "udp-fragments" { "expect = \"dropped\"" } else { "" };
        let life = if kind == "tcp" { "life = { concurrent = 10, length = [2, 9] }" } else { "" };
        let text = format!(
            "mode = \"verify\"\npackets = 1000\n[[traffic]]\nkind = \"{kind}\"\nsource = \
             \"{source}\"\ndestination = \"{destination}\"\nport = 80\nflows = 1000\n{expect}\n{life}"
        );
        profile(&text).traffic.remove(0)
    }

    const GOOD: &str = r#"
mode = "count"
packets = 1000
[rate]
packets_per_second = 1e6
shape = "bursts"
burst = 16
[[traffic]]
kind = "udp"
source = "198.51.100.0/24"
destination = "203.0.113.1"
port = 53
flows = 100
set = "zipf"
size = "imix"
"#;

    #[test]
    fn a_profile_says_what_it_says() {
        let profile = profile(GOOD);
        assert_eq!((profile.mode, profile.packets, profile.seed), (Mode::Count, Some(1000), 1));
        assert_eq!(profile.rate.unwrap().shape, crate::pace::Shape::Bursts(16));
        let traffic = &profile.traffic[0];
        assert_eq!((traffic.set, traffic.expect), (Set::Zipf(1.0), Expect::Forwarded));
        assert_eq!(traffic.sizes.len(), 12, "seven short, four middling, one long");
        assert_eq!(profile.flow_count(), 100);
    }

    #[test]
    fn mistakes_are_one_sentence_with_the_mend() {
        for (from, to, needle) in [
            ("burst = 16", "burts = 16", "line 7: unknown field `burts`"),
            ("burst = 16", "burst = 0", "`burst` is 1 to 1024"),
            ("\"bursts\"", "\"poisson\"", "`burst` belongs to shape = \"bursts\""),
            ("1e6", "0", "`packets_per_second` is above 0 and at most 1e9"),
            ("1e6", "nan", "`packets_per_second` is above 0 and at most 1e9"),
            ("1e6", "2e9", "`packets_per_second` is above 0 and at most 1e9"),
            ("1e6", "inf", "`packets_per_second` is above 0 and at most 1e9"),
            ("packets = 1000", "", "give `packets` or `duration`"),
            ("packets = 1000", "packets = 0", "`packets` is at least 1"),
            ("packets = 1000", "duration = \"fast\"", "`duration`"),
            ("203.0.113.1", "2001:db8::1", "are of two IP versions"),
            ("198.51.100.0/24", "198.51.100.1/32", ""),
            ("flows = 100", "flows = 0", "`flows` is 1 to 10000000"),
            ("flows = 100", "flows = 10000001", "`flows` is 1 to 10000000"),
            ("100.0/24\"", "100.1/32\"\nshare = -1", "`share` is above 0"),
            ("\"zipf\"", "\"zipf\"\nexponent = 0", "`exponent` is above 0 and at most 5"),
            ("\"zipf\"", "\"grid\"\nexponent = 1", "`exponent` belongs to set = \"zipf\""),
            ("\"imix\"", "[]", "`size`"),
            ("\"imix\"", "9300", "`size`"),
            ("\"imix\"", "\"big\"", "`size`"),
            ("\"udp\"", "\"tcp\"", "kind = \"tcp\" needs `life`"),
            ("\"udp\"", "\"frames\"", "unknown variant `frames`"),
            (
                "[[traffic]]",
                "[[change]]\nat_packet = 1\nmethod = \"status\"\n[[traffic]]",
                "status",
            ),
            ("[[traffic]]", "[search]\ntrial = \"0s\"\n[[traffic]]", "`trial`"),
        ] {
            let text = GOOD.replacen(from, to, 1);
            let outcome = Profile::parse(&text, Path::new("."));
            if needle.is_empty() {
                assert!(outcome.is_ok(), "{outcome:?}");
                continue;
            }
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains(needle), "{to}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn the_profiles_that_come_with_the_program_are_good() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let profile = Profile::load(&entry.unwrap().path());
            assert!(profile.is_ok(), "{profile:?}");
            count += 1;
        }
        assert!(count > 4, "{count}");
    }

    #[test]
    fn room_is_checked() {
        let text = GOOD.replace("100.0/24", "100.1/32").replace("flows = 100", "flows = 70_000");
        let error = Profile::parse(&text, Path::new(".")).unwrap_err().to_string();
        assert!(error.contains("has room for 64512 flows"), "{error}");
    }
}
