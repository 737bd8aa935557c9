//! The command line: noun then verb, in the words of the types.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use super::argument::{VipArgument, new_backend, seconds};
use super::{color, completions};
use crate::control::protocol::params::{NewBackend, parse_network};
use crate::control::protocol::reply::{AdminState, Family, Protocol};
use crate::control::protocol::{BackendName, DEFAULT_SOCKET};

/// What was asked on the command line.
#[derive(Debug, Parser)]
#[command(
    name = "lodectl",
    about = "Ask and steer the Lodestone daemon",
    disable_version_flag = true
)]
pub struct Arguments {
    /// The daemon's admin socket; the read-only one does for everything that only tells.
    #[arg(long, global = true, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    pub socket: PathBuf,
    /// Print the daemon's answer as one line of JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// When to colour the output.
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    pub color: color::When,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// The appliance at a glance.
    Status(Watch),
    /// Show a part of the daemon's state.
    #[command(subcommand)]
    Show(Show),
    /// Tell every decision about something, with its numbers.
    #[command(subcommand)]
    Explain(Explain),
    /// Add, remove or change a service.
    #[command(subcommand)]
    Service(ServiceVerb),
    /// Add, remove or change a pool.
    #[command(subcommand)]
    Pool(PoolVerb),
    /// Add, remove or change a backend.
    #[command(subcommand)]
    Backend(BackendVerb),
    /// Do several changes of services, pools and backends at once: all of them or none.
    Batch {
        /// A file with one change a line, as on the command line; `-` is standard input.
        file: PathBuf,
        #[command(flatten)]
        force: Force,
    },
    /// The connection tables.
    #[command(subcommand)]
    Conntrack(ConntrackVerb),
    /// Apply the daemon's configuration file again.
    Reload(Force),
    /// The daemon's configuration file.
    #[command(subcommand)]
    Config(ConfigVerb),
    /// Show where the running configuration and the file differ.
    Diff,
    /// Check a configuration file without the daemon.
    CheckConfig {
        /// The file.
        file: PathBuf,
    },
    /// Write the completions of lodectl for a shell.
    Completions {
        /// The shell.
        shell: completions::Shell,
    },
    /// Write the manual pages of lodectl and lodestoned.
    Man {
        /// A folder for one file a page; without it an overview is printed.
        directory: Option<PathBuf>,
    },
    /// The version of lodectl.
    Version,
}

/// Asks again and again.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Watch {
    /// Show it again every so many seconds until interrupted.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2",
          value_parser = seconds)]
    pub watch: Option<Duration>,
}

/// What to show.
#[derive(Debug, Subcommand)]
pub enum Show {
    /// Services, their VIPs, and where new flows go.
    Services(Watch),
    /// Pools: healthy backends, thresholds, traffic.
    Pools(Watch),
    /// Backends: state, health, traffic, probes.
    Backends(Watch),
    /// What the monitors found, and why.
    Health(Watch),
    /// What drains, and how many flows are left.
    Drains(Watch),
    /// Workers: what they did, and what their time went into.
    Workers(Watch),
    /// Ports: device, link, counters.
    Ports(Watch),
    /// The published tables and their digests.
    Tables(Watch),
    /// The connection tables.
    Conntrack(Watch),
    /// Tracked flows.
    Flows {
        #[command(flatten)]
        filter: Filter,
        /// Show at most so many.
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
    },
    /// Dropped frames by reason.
    Drops {
        /// Also the reasons that never occurred.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        watch: Watch,
    },
    /// Next hops and their link-layer addresses.
    Neighbours(Watch),
    /// What happened lately.
    Events {
        /// Go on with what happens, until interrupted.
        #[arg(long, short)]
        follow: bool,
        /// At most so many, the newest ones.
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
    },
    /// The running configuration.
    Config,
    /// The versions of the daemon.
    Version,
}

/// What to explain.
#[derive(Debug, Subcommand)]
pub enum Explain {
    /// A flow by its five fields.
    Flow {
        /// The client's address.
        source: IpAddr,
        /// The client's port.
        source_port: u16,
        /// The VIP.
        destination: IpAddr,
        /// The VIP's port.
        destination_port: u16,
        /// tcp or udp.
        #[arg(value_parser = super::argument::protocol)]
        protocol: Protocol,
    },
}

/// Whether to do what is refused otherwise.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Force {
    /// Do it although something would be lost; the answer says what.
    #[arg(long)]
    pub force: bool,
}

/// What to do with a service.
#[derive(Debug, Subcommand)]
pub enum ServiceVerb {
    /// Add a service.
    Add {
        /// Its name.
        service: String,
        /// Its pools, in order of preference.
        #[arg(long = "pool", value_name = "POOL", required = true)]
        pools: Vec<String>,
        /// An entry point, as in `192.0.2.1/tcp/80,443` or `fd00::1/udp/any/no-arp`.
        #[arg(long = "vip", value_name = "ADDRESS/PROTOCOL/PORTS[/no-arp]", required = true)]
        vips: Vec<VipArgument>,
        /// Forget an established flow after so many seconds of silence.
        #[arg(long, value_name = "SECONDS", value_parser = seconds)]
        idle_timeout: Option<Duration>,
    },
    /// Remove a service: its VIPs are served no more.
    Remove(ServiceArgument),
    /// No new flows; tracked ones stay.
    Drain(ServiceArgument),
    /// New flows again.
    Enable(ServiceArgument),
    /// Forward nothing.
    Disable(ServiceArgument),
    /// Set all pools of a service, in order of preference.
    Reorder {
        /// The service.
        service: String,
        /// All its pools.
        #[arg(required = true)]
        pools: Vec<String>,
        #[command(flatten)]
        force: Force,
    },
}

/// A service.
#[derive(Debug, clap::Args)]
pub struct ServiceArgument {
    /// The service.
    pub service: String,
    #[command(flatten)]
    pub force: Force,
}

/// What to do with a pool.
#[derive(Debug, Subcommand)]
pub enum PoolVerb {
    /// Add a pool with its first backends.
    Add {
        /// Its name.
        pool: String,
        /// A backend, as in `b1=10.0.0.1` or `b1=10.0.0.1,weight=3`.
        #[arg(long = "backend", value_name = "NAME=ADDRESS[,KEY=VALUE…]", required = true,
              value_parser = new_backend)]
        backends: Vec<NewBackend>,
        /// Its monitor; without one its backends are always up.
        #[arg(long)]
        monitor: Option<String>,
        /// With fewer healthy backends it takes no new flows.
        #[arg(long)]
        threshold: Option<u32>,
        /// Slots of its table, a prime.
        #[arg(long)]
        table_size: Option<u32>,
        /// Where it stands.
        #[arg(long)]
        region: Option<String>,
        /// Where it stands.
        #[arg(long)]
        zone: Option<String>,
    },
    /// Remove a pool that no service uses.
    Remove(PoolArgument),
    /// No new flows to any of its backends; tracked ones stay.
    Drain(PoolArgument),
    /// New flows again, to each backend by its own admin state.
    Enable(PoolArgument),
    /// No flows at all.
    Disable(PoolArgument),
    /// Set the fewest healthy backends with which it takes new flows.
    Threshold {
        /// The pool.
        pool: String,
        /// 1 to the number of its backends.
        threshold: u32,
        #[command(flatten)]
        force: Force,
    },
}

/// A pool.
#[derive(Debug, clap::Args)]
pub struct PoolArgument {
    /// The pool.
    pub pool: String,
    #[command(flatten)]
    pub force: Force,
}

/// What to do with a backend.
#[derive(Debug, Subcommand)]
pub enum BackendVerb {
    /// Add a backend to a pool.
    Add {
        /// The pool and the new name, as in web/b4.
        #[arg(value_name = "POOL/NAME")]
        backend: BackendName,
        /// Where encapsulated packets go.
        address: IpAddr,
        /// Its share of new flows beside the others'; 0 takes none.
        #[arg(long)]
        weight: Option<u32>,
        /// Part of its identity, beside the address.
        #[arg(long)]
        virtual_network: Option<String>,
        /// Where probes go, if not to the address.
        #[arg(long)]
        probe_address: Option<IpAddr>,
        /// enabled, draining or disabled.
        #[arg(long, value_parser = super::argument::admin_state)]
        admin_state: Option<AdminState>,
    },
    /// Remove a backend; its flows are decided anew.
    Remove(BackendArgument),
    /// Set its share of new flows; 0 takes none.
    Weight {
        /// The backend, as in web/b1.
        #[arg(value_name = "POOL/NAME")]
        backend: BackendName,
        /// Its share beside the others'.
        weight: u32,
        #[command(flatten)]
        force: Force,
    },
    /// No new flows; tracked ones stay.
    Drain(BackendArgument),
    /// New flows when healthy.
    Enable(BackendArgument),
    /// No flows at all.
    Disable(BackendArgument),
}

/// A backend.
#[derive(Debug, clap::Args)]
pub struct BackendArgument {
    /// The backend, as in web/b1.
    #[arg(value_name = "POOL/NAME")]
    pub backend: BackendName,
    #[command(flatten)]
    pub force: Force,
}

/// What to do with the connection tables.
#[derive(Debug, Subcommand)]
pub enum ConntrackVerb {
    /// Forget tracked flows; the tables decide about their next packets. Without a backend, a VIP or a
    /// client network longer than /0 it would forget all of a family, and needs --force.
    Flush {
        #[command(flatten)]
        filter: Filter,
        #[command(flatten)]
        force: Force,
    },
}

/// Which flows.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Filter {
    /// Those of this family.
    #[arg(long, value_parser = super::argument::family)]
    pub family: Option<Family>,
    /// Those from this address or network.
    #[arg(long, value_name = "ADDRESS[/LENGTH]", value_parser = parse_network)]
    pub client: Option<ipnet::IpNet>,
    /// Those on this backend.
    #[arg(long, value_name = "POOL/NAME")]
    pub backend: Option<BackendName>,
    /// Those to this VIP.
    #[arg(long, value_name = "ADDRESS")]
    pub vip: Option<IpAddr>,
    /// Those of this protocol, of a VIP that has several; needs --vip.
    #[arg(long, requires = "vip", value_parser = super::argument::protocol)]
    pub protocol: Option<Protocol>,
}

/// What to do with the configuration file.
#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Write what runs back to the file.
    Save(Force),
}
