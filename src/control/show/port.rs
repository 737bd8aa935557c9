//! `show ports` and `show neighbours`.

use super::milliseconds;
use crate::control::management::Management;
use crate::control::neighbours::NeighbourState;
use crate::control::protocol::reply::{NeighbourEntry, NeighboursReply, PortDetail, PortsReply};

impl Management {
    pub(super) fn port_details(&self) -> PortsReply {
        let ports = self.port_states().map(|(id, port, state)| PortDetail {
            name: port.name.clone(),
            device: port.device.clone(),
            driver: state.driver,
            mac: self.ports.mac(id).to_string(),
            addresses: port.addresses.iter().map(ToString::to_string).collect(),
            mtu: port.mtu,
            vlan: port.vlan,
            link_up: state.link_up,
            speed_mbps: state.speed_mbps,
            queues: state.queues,
            rss: state.spread,
            rss_key: state.rss_key,
            rss_table: state.rss_table,
            rx_packets: state.rx_packets,
            rx_bytes: state.rx_bytes,
            rx_missed: state.rx_missed,
            rx_errors: state.rx_errors,
            rx_no_buffer: state.rx_no_buffer,
            tx_packets: state.tx_packets,
            tx_bytes: state.tx_bytes,
            tx_errors: state.tx_errors,
            link_changes: self.neighbours.link_changes(id),
            resets: state.resets,
            features: state.features,
        });
        let ports = ports.collect();
        let (buffers_in_use, buffers) = self.ports.buffers();
        PortsReply { ports, buffers_in_use, buffers }
    }

    pub(super) fn neighbour_entries(&self) -> NeighboursReply {
        let now = self.now();
        let neighbours = self.neighbours.entries().map(|neighbour| NeighbourEntry {
            port: self.neighbours.port_name(neighbour.hop.port).to_owned(),
            address: neighbour.hop.address,
            mac: neighbour.mac.map(|mac| mac.to_string()),
            state: match neighbour.state {
                NeighbourState::Incomplete => "incomplete".to_owned(),
                NeighbourState::Reachable => "reachable".to_owned(),
                NeighbourState::Probing => "probing".to_owned(),
                NeighbourState::Stale => "stale".to_owned(),
            },
            heard_ms: neighbour.heard.map(|heard| milliseconds(now.saturating_sub(heard))),
        });
        NeighboursReply { neighbours: neighbours.collect() }
    }
}
