//! State, tables and the loop together, on configurations as files say them.

mod answer;
mod events;
mod guard;
mod laws;
mod metrics;
mod operator;
mod parts;
mod probes;
mod running;
mod sharing;
mod slots;
mod tables;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::State;
use crate::config::{self, Config};
use crate::snapshot::Generation;

pub(super) use answer::Answer;

/// What precedes the pools.
const HEAD: &str = r#"
[appliance]
name = "lb1"
flow_hash_key = "000102030405060708090a0b0c0d0e0f"
[cpu]
management = 0
workers = [1]
[[port]]
name = "lan"
device = "net_lan"
addresses = ["10.0.0.2/16", "fd00::2/64"]
vlan = 7
mtu = 1600
"#;

const MONITOR: &str = r#"
[[monitor]]
name = "probe"
type = "tcp"
port = 1
interval = "60s"
timeout = "1s"
"#;

/// A backend: its name, the end of its address 10.0.0.0/16, its weight.
type Backend = (String, u8, u32);

fn backend(number: u8, weight: u32) -> Backend {
    (format!("b{number}"), number, weight)
}

fn pool(name: &str, more: &str, backends: &[Backend]) -> String {
    let mut text = format!("[[pool]]\nname = \"{name}\"\ntable_size = 1021\n{more}\n");
    for (name, number, weight) in backends {
        let address =
            if *number >= 200 { format!("fd00::{number}") } else { format!("10.0.1.{number}") };
        writeln!(
            text,
            "[[pool.backend]]\nname = \"{name}\"\naddress = \"{address}\"\nweight = {weight}"
        )
        .expect("a string takes all");
    }
    text
}

fn service(name: &str, pools: &[&str], vip: &str) -> String {
    format!(
        "[[service]]\nname = \"{name}\"\npools = {pools:?}\n[[service.vip]]\naddress = \"{vip}\"\n\
         protocol = \"tcp\"\nports = [80]\n"
    )
}

fn text(parts: &[String]) -> String {
    HEAD.to_owned() + MONITOR + &parts.concat()
}

/// Edits the configuration in force so that it says this of a backend.
fn set_admin(state: &mut State, pool: &str, backend: &str, admin_state: config::AdminState) {
    let (pool, backend) = (pool.to_owned(), backend.to_owned());
    let edit = config::Edit::SetBackendAdminState { pool, backend, admin_state };
    let edited = state.config().edit(&[edit]).unwrap();
    // Nothing comes or goes, so that no number is taken and none begins to rest.
    state.apply(edited.config, Generation(0), Duration::ZERO).unwrap();
}

fn parsed(text: &str) -> Config {
    config::parse(text).unwrap_or_else(|errors| panic!("{errors}\nin\n{text}")).0
}
