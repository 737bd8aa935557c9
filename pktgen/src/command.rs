//! The command line.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::{ArgGroup, Parser, ValueEnum};
use ipnet::IpNet;
use lodestone::packet::MacAddress;

use crate::session::Place;

/// Generates traffic and verifies what comes back.
///
/// With --profile the traffic is a file's: to devices, or with --in-process to an appliance in this
/// process. Without, a bounded number of packets goes to one address. It sends to the addresses that
/// the profile or --destination names, and to no other.
///
/// The exit status is 0 only if every packet was sent and, where packets are verified, none is wrong
/// or missing.
#[derive(Debug, Parser)]
#[command(version)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[command(group(ArgGroup::new("what").required(true).args(["profile", "destination", "self_test"]).multiple(true)))]
pub struct Arguments {
    /// What to send, and what to do with what comes back.
    #[arg(long, value_name = "FILE", conflicts_with = "destination")]
    profile: Option<PathBuf>,
    /// Configuration of an appliance to run in this process: its worker on its core, the generator
    /// on another.
    #[arg(long, value_name = "CONFIG", requires = "profile", conflicts_with = "device")]
    in_process: Option<PathBuf>,
    /// Measures how fast the generator itself sends and counts, with nothing at the other end.
    #[arg(long, conflicts_with_all = ["destination", "in_process", "device"])]
    self_test: bool,
    /// PCI address (`0000:3b:02.0`) or virtual device (`net_af_packet0,iface=eth1`); with a profile
    /// one for each port of the appliance, in its order. The first sends.
    #[arg(long)]
    device: Vec<String>,
    /// Configuration of the appliance behind the devices, which says what is expected.
    #[arg(long, value_name = "CONFIG", requires = "profile", conflicts_with = "in_process")]
    appliance: Option<PathBuf>,
    /// Admin socket of the appliance behind the devices, for the profile's changes.
    #[arg(long, value_name = "PATH", requires = "appliance")]
    admin_socket: Option<PathBuf>,
    /// Ethernet address of the next hop.
    #[arg(long)]
    destination_mac: Option<MacAddress>,
    /// Largest IP packet of the devices, in bytes.
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u16).range(576..=9200))]
    mtu: u16,
    /// Core that sends and receives.
    #[arg(long)]
    core: Option<usize>,
    /// Takes packet memory from ordinary pages; enough for virtual devices.
    #[arg(long)]
    no_hugepages: bool,
    /// Prints the result as JSON.
    #[arg(long)]
    pub json: bool,
    /// Writes the results of a search into this folder, as `rate.csv` and `latency.csv`.
    #[arg(long, value_name = "FOLDER", requires = "profile")]
    pub csv: Option<PathBuf>,
    /// Plots the results of a search into this folder, as `rate.svg` and `latency.svg`.
    #[arg(long, value_name = "FOLDER", requires = "profile")]
    pub svg: Option<PathBuf>,
    /// Shows nothing while it goes on.
    #[arg(long)]
    quiet: bool,

    /// Without a profile: address that the packets go to.
    #[arg(long, requires_all = ["port", "source", "count", "destination_mac", "device"])]
    destination: Option<IpAddr>,
    /// Port that the packets go to.
    #[arg(long, requires = "destination")]
    port: Option<u16>,
    /// Prefix whose addresses the packets come from, as in `198.51.100.0/24`.
    #[arg(long, requires = "destination")]
    source: Option<IpNet>,
    /// Number of flows; packet n belongs to flow n modulo this.
    #[arg(long, requires = "destination", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    flows: Option<u32>,
    /// Number of packets.
    #[arg(long, requires = "destination", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Packets a second; as fast as the device takes them if absent.
    #[arg(long, requires = "destination", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rate: Option<u64>,
    /// What each packet is.
    #[arg(long, requires = "destination", value_enum, default_value_t = Kind::TcpSyn)]
    kind: Kind,
    /// Bytes behind the TCP or UDP header.
    #[arg(long, requires = "destination", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=1440))]
    payload: u16,
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A TCP segment that opens a connection.
    TcpSyn,
    /// A TCP segment in the middle of a connection.
    TcpAck,
    /// A UDP datagram.
    Udp,
}

/// What is to be done.
pub enum Task {
    /// A profile.
    Run(PathBuf),
    /// The generator alone, with the traffic of a profile.
    SelfTest(Option<PathBuf>),
    /// Packets to one address.
    Send(Send),
}

/// A bounded number of packets to one address.
#[derive(Clone, Debug)]
pub struct Send {
    /// The device.
    pub device: String,
    /// Where packets go.
    pub destination: (IpAddr, u16),
    /// Where they come from.
    pub source: IpNet,
    /// The next hop.
    pub destination_mac: MacAddress,
    /// How many flows.
    pub flows: u32,
    /// How many packets.
    pub count: u64,
    /// Packets a second.
    pub rate: Option<u64>,
    /// What they are.
    pub kind: Kind,
    /// Bytes behind their headers.
    pub payload: u16,
}

impl Arguments {
    /// What is to be done.
    ///
    /// # Errors
    /// An argument is missing.
    pub fn task(&self) -> anyhow::Result<Task> {
        if self.self_test {
            return Ok(Task::SelfTest(self.profile.clone()));
        }
        if let Some(profile) = &self.profile {
            return Ok(Task::Run(profile.clone()));
        }
        let [device] = &self.device[..] else {
            anyhow::bail!("packets to one address go out by one device; give --device once");
        };
        let destination = self.destination.context("give --profile or --destination")?;
        Ok(Task::Send(Send {
            device: device.clone(),
            destination: (destination, self.port.context("give --port")?),
            source: self.source.context("give --source")?,
            destination_mac: self.destination_mac.context("give --destination-mac")?,
            flows: self.flows.unwrap_or(1),
            count: self.count.context("give --count")?,
            rate: self.rate,
            kind: self.kind,
            payload: self.payload,
        }))
    }

    /// Where it is to be done.
    pub fn place(&self) -> Place {
        Place {
            in_process: self.in_process.clone(),
            devices: self.device.clone(),
            appliance: self.appliance.clone(),
            admin_socket: self.admin_socket.clone(),
            destination_mac: self.destination_mac,
            core: self.core,
            hugepages: !self.no_hugepages,
            mtu: self.mtu,
            is_quiet: self.quiet || self.json,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_goes_together_is_taken() {
        for (line, is_good) in [
            ("--profile a", true),
            ("--profile a --in-process b", true),
            ("--profile a --in-process b --device net_null0", false),
            ("--profile a --destination ::1", false),
            ("--self-test", true),
            ("--self-test --profile a", true),
            ("--in-process b", false),
            ("", false),
            ("--destination ::1", false),
            ("--profile a --kind udp", false),
        ] {
            let words = std::iter::once("pktgen").chain(line.split_whitespace());
            let outcome = Arguments::try_parse_from(words);
            assert_eq!(outcome.is_ok(), is_good, "{line}: {outcome:?}");
        }
    }
}
