//! Services and pools.

#![expect(
    clippy::format_push_string,
    reason = "a few lines for a person; write! would return an error that cannot happen"
)]

use super::time::milliseconds;
use crate::cli::color;
use crate::cli::table::{Table, count, percent, wrap};
use crate::control::protocol::reply::{AdminState, PoolsReply, ServiceTraffic, ServicesReply};

/// `lodectl show services`
#[must_use]
pub fn services(reply: &ServicesReply) -> String {
    let mut parts = Vec::new();
    for service in &reply.services {
        let mut text = match service.admin_state {
            AdminState::Enabled => format!("{}\n", service.name),
            state => format!("{} ({})\n", service.name, color::state(&state.to_string())),
        };
        for vip in &service.vips {
            text += &format!("  VIP {} {} ports {}\n", vip.address, vip.protocol, vip.ports);
        }
        let idle = milliseconds(service.idle_timeout_ms);
        let line = format!(
            "steering {}, affinity {}, idle timeout {idle}",
            service.steering, service.affinity
        );
        text += &wrap(&line, 2);
        text += &wrap(&service.reason, 2);
        let mut table = Table::new(["  POOL", "HEALTHY", "THRESHOLD", "NEW FLOWS"]);
        for pool in &service.pools {
            table.row([
                format!("  {}", pool.name),
                format!("{}/{}", pool.healthy, pool.total),
                pool.threshold.to_string(),
                percent(pool.share),
            ]);
        }
        text += &table.render();
        let ServiceTraffic { packets, bytes, new_flows } = service.traffic;
        text += &format!(
            "  carried {} packets, {} bytes, {} new flows\n",
            count(packets),
            count(bytes),
            count(new_flows)
        );
        parts.push(text);
    }
    parts.join("\n")
}

/// `lodectl show pools`
#[must_use]
pub fn pools(reply: &PoolsReply) -> String {
    let mut table = Table::new([
        "POOL",
        "STATE",
        "HEALTHY",
        "THRESHOLD",
        "TABLE",
        "PACKETS",
        "BYTES",
        "NEW",
        "FLOWS",
    ]);
    for pool in &reply.pools {
        table.row([
            pool.name.clone(),
            color::state(&pool.admin_state.to_string()),
            format!("{}/{}", pool.healthy, pool.total),
            pool.threshold.to_string(),
            pool.basis.clone(),
            count(pool.packets),
            count(pool.bytes),
            count(pool.new_flows),
            count(pool.flows),
        ]);
        let place = match (&pool.region, &pool.zone) {
            (None, None) => String::new(),
            (Some(place), None) | (None, Some(place)) => format!("in {place}, "),
            (Some(region), Some(zone)) => format!("in {region}/{zone}, "),
        };
        let monitor = match &pool.monitor {
            Some(monitor) => format!("monitor {monitor}"),
            None => "no monitor: its backends are always up".to_owned(),
        };
        let users = if pool.services.is_empty() {
            "no service uses it".to_owned()
        } else {
            format!("used by {}", pool.services.join(", "))
        };
        table.note(&format!("{place}{monitor}; {users}"));
    }
    table.render()
}
