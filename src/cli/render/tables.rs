//! The published tables.

#![expect(
    clippy::format_push_string,
    reason = "a few lines for a person; write! would return an error that cannot happen"
)]

use crate::cli::table::Table;
use crate::control::protocol::reply::TablesReply;

/// `lodectl show tables`
#[must_use]
pub fn tables(reply: &TablesReply) -> String {
    let mut text = format!("generation {}\n", reply.generation);
    text += &format!("digest of the configuration  {}\n", reply.digests.configuration);
    text += &format!("digest of the inputs         {}\n", reply.digests.inputs);
    text += &format!("digest of the tables         {}\n", reply.digests.tables);
    text += &format!(
        "older generations held: {}; slot arrays in use: {}, free: {}\n\n",
        reply.held, reply.slot_arrays, reply.slot_arrays_free
    );
    let mut table = Table::new(["SERVICE", "LEVEL 1", "NEW FLOWS TO"]);
    for service in &reply.services {
        let pools =
            if service.pools.is_empty() { "nobody".to_owned() } else { service.pools.join(" ") };
        table.row([service.service.clone(), service.level1.clone(), pools]);
    }
    text += &table.render();
    text.push('\n');
    let mut table = Table::new(["POOL", "SLOTS", "MEMBERS", "EVENNESS"]);
    for pool in &reply.pools {
        table.row([
            pool.pool.clone(),
            pool.slots.to_string(),
            pool.members.to_string(),
            format!("{:.4}", pool.evenness),
        ]);
    }
    text + &table.render()
}
