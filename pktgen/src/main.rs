//! `pktgen`: sends a bounded number of packets of many flows to one address, from any DPDK device,
//! and says how many went out.

mod flow;
mod send;

use std::io::Write;
use std::net::IpAddr;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};
use ipnet::IpNet;
use lodestone::dpdk::{Eal, EalConfig, Mempool, MempoolConfig, Port, PortConfig};
use lodestone::packet::MacAddress;

use crate::flow::Flows;
use crate::send::Report;

/// Sends a bounded number of packets to one address, and to no other.
///
/// The exit status is 0 only if every packet was sent.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// PCI address (`0000:3b:02.0`) or virtual device (`net_af_packet0,iface=eth1`).
    #[arg(long)]
    device: String,
    /// Address that the packets go to.
    #[arg(long)]
    destination: IpAddr,
    /// Port that the packets go to.
    #[arg(long)]
    port: u16,
    /// Prefix whose addresses the packets come from, as in `198.51.100.0/24`.
    #[arg(long)]
    source: IpNet,
    /// Ethernet address of the next hop.
    #[arg(long)]
    destination_mac: MacAddress,
    /// Number of flows; packet n belongs to flow n modulo this.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    flows: u32,
    /// Number of packets.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Packets a second; as fast as the device takes them if absent.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rate: Option<u64>,
    /// What each packet is.
    #[arg(long, value_enum, default_value_t = Kind::TcpSyn)]
    kind: Kind,
    /// Bytes behind the TCP or UDP header.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=1440))]
    payload: u16,
    /// Core that sends.
    #[arg(long, default_value_t = 0)]
    core: usize,
    /// Takes packet memory from ordinary pages; enough for virtual devices.
    #[arg(long)]
    no_hugepages: bool,
    /// Prints the result as JSON.
    #[arg(long)]
    json: bool,
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A TCP segment that opens a connection.
    TcpSyn,
    /// A TCP segment in the middle of a connection.
    TcpAck,
    /// A UDP datagram.
    Udp,
}

const MTU: u16 = 1500;
const PACKET_MEMORY_MIB: u32 = 64;
const LINK_PATIENCE: Duration = Duration::from_secs(5);
const LINK_POLL: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(report) => {
            let line = if arguments.json { report.to_json() } else { report.to_string() };
            // A closed pipe loses the line, not the status.
            let _ = writeln!(std::io::stdout(), "{line}");
            if report.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "pktgen: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<Report> {
    // What the arguments get wrong is told before DPDK starts.
    let flows = Flows::new(
        arguments.source,
        (arguments.destination, arguments.port),
        arguments.kind,
        arguments.payload,
        arguments.flows,
    )?;

    let eal = Eal::init(&EalConfig {
        management_core: arguments.core,
        hugepages: !arguments.no_hugepages,
        packet_memory_mib: PACKET_MEMORY_MIB,
        devices: vec![arguments.device.clone()],
    })?;
    let descriptor_count = PortConfig::DEFAULT_DESCRIPTOR_COUNT;
    let pool = Mempool::new(
        eal,
        &MempoolConfig {
            name: "pktgen".to_owned(),
            mbuf_count: MempoolConfig::mbufs_for(1, 1, descriptor_count.into()),
            mtu: MTU,
            numa: None,
        },
    )?;
    let config = PortConfig {
        device: arguments.device.clone(),
        name: "pktgen".to_owned(),
        queue_count: 1,
        descriptor_count,
        mtu: MTU,
        mac: None,
    };
    let (port, mut queues) = Port::start(eal, &config, &pool)?;
    wait_for_link(&port)?;
    let frames = flows.frames(port.mac(), arguments.destination_mac);
    let (_, tx) = queues.first_mut().context("the port has no queue")?;
    let report = send::send(eal, &pool, tx, &frames, arguments.count, arguments.rate);
    let report = report.with_device_errors(send::settle(&port));
    port.stop(eal, queues)?;
    Ok(report)
}

/// Real links come up a while after their port starts, and lose what is sent before.
fn wait_for_link(port: &Port) -> anyhow::Result<()> {
    let polls = LINK_PATIENCE.as_millis() / LINK_POLL.as_millis();
    for _ in 0..polls {
        if port.link_up() {
            return Ok(());
        }
        pause(LINK_POLL);
    }
    ensure!(
        port.link_up(),
        "the link of device `{}` is down; connect it or bring its interface up",
        port.device()
    );
    Ok(())
}

/// Sleeps; nothing else runs in this program.
#[expect(clippy::disallowed_methods, reason = "not a worker and no tokio: one thread that waits")]
fn pause(duration: Duration) {
    thread::sleep(duration);
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
