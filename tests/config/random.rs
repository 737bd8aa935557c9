//! Random valid configurations as texts, in many of the ways in which one can write them.
//!
//! Names and addresses come from a few, so that two configurations have much in common.

use std::fmt::Write as _;

/// A stream of random numbers: splitmix64.
pub struct Random(pub u64);

impl Random {
    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) >> 33).unwrap() % end
    }

    /// True in `of` out of a hundred cases.
    pub fn percent(&mut self, of: usize) -> bool {
        self.below(100) < of
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// `least..=most` of them, each once, in a random order.
    pub fn some<T: Clone>(&mut self, values: &[T], least: usize, most: usize) -> Vec<T> {
        let mut left = values.to_vec();
        let count = (least + self.below(most - least + 1)).min(left.len());
        (0..count).map(|_| left.remove(self.below(left.len()))).collect()
    }
}

/// A table of the text to be.
struct Block {
    header: String,
    keys: Vec<(&'static str, String)>,
    inside: Vec<Block>,
}

pub const POOLS: [&str; 4] = ["web", "api", "dns", "x.y-z"];
pub const SERVICES: [&str; 4] = ["www", "app", "names", "s_1"];
pub const MONITORS: [&str; 3] = ["http", "tcp", "m"];
pub const BACKENDS: [&str; 6] =
    ["192.0.2.11", "192.0.2.12", "10.1.0.11", "10.1.0.12", "2001:db8::11", "2001:db8:1::12"];
pub const VIPS: [&str; 4] = ["192.0.2.100", "192.0.2.101", "203.0.113.1", "2001:db8::100"];
const STATES: [&str; 3] = ["enabled", "draining", "disabled"];

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// The text of a valid configuration. The comment `# keep` belongs to a table that none lacks.
pub fn text(random: &mut Random) -> String {
    let mut blocks = process(random);
    let monitors = random.some(&MONITORS, 0, 3);
    blocks.extend(monitors.iter().map(|name| monitor(random, name)));
    let pools = random.some(&POOLS, 1, 4);
    blocks.extend(pools.iter().map(|name| pool(random, name, &monitors)));
    let mut free: Vec<_> = VIPS
        .iter()
        .flat_map(|address| ["tcp", "udp"].map(|protocol| (*address, protocol)))
        .flat_map(|(address, protocol)| (1..4).map(move |thousand| (address, protocol, thousand)))
        .collect();
    for name in random.some(&SERVICES, 0, 3) {
        let pools = random.some(&pools, 1, 3);
        let vips = random.some(&free, 1, 3);
        free.retain(|vip| !vips.contains(vip));
        blocks.push(service(random, name, &pools, &vips));
    }
    // Tables may have any order, but for those of one name.
    if random.percent(50) {
        for place in (1..blocks.len()).rev() {
            blocks.swap(place, random.below(place + 1));
        }
    }
    let mut text = String::new();
    // What is written inline, or with dots, goes before the first header.
    let (first, then): (Vec<_>, Vec<_>) = blocks
        .into_iter()
        .partition(|block| block.header == "[metrics]" || block.header == "[conntrack]");
    for block in first {
        let name = block.header.trim_matches(['[', ']']).to_owned();
        for (key, value) in block.keys {
            writeln!(text, "{name}.{key} = {value} # dotted").unwrap();
        }
    }
    for block in then {
        put(random, &block, &mut text);
    }
    text
}

fn put(random: &mut Random, block: &Block, text: &mut String) {
    if random.percent(30) {
        writeln!(text, "\n# about {}", block.header).unwrap();
    }
    writeln!(text, "{}", block.header).unwrap();
    let mut keys = block.keys.clone();
    if random.percent(50) {
        keys.reverse();
    }
    for (key, value) in keys {
        let above = if random.percent(20) { format!("# about {key}\n") } else { String::new() };
        let behind = if random.percent(20) { "  # behind" } else { "" };
        writeln!(text, "{above}{key} = {value}{behind}").unwrap();
    }
    if !block.inside.is_empty() && random.percent(20) {
        let header = block.inside[0].header.trim_matches(['[', ']']);
        let key = header.rsplit('.').next().unwrap();
        writeln!(text, "{key} = [").unwrap();
        for inside in &block.inside {
            let keys: Vec<_> =
                inside.keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            writeln!(text, "    {{ {} }}, # inline", keys.join(", ")).unwrap();
        }
        *text += "]\n";
        return;
    }
    for inside in &block.inside {
        put(random, inside, text);
    }
}

fn process(random: &mut Random) -> Vec<Block> {
    let mut blocks = Vec::new();
    let block = |header: &str, keys| Block { header: header.to_owned(), keys, inside: Vec::new() };
    let mut keys = vec![
        ("name", quoted(random.pick(&["lb1", "lb2"]))),
        ("flow_hash_key", format!("\"{:032x}\" # keep", random.below(3) + 1)),
    ];
    for key in ["site", "region", "zone"] {
        maybe(random, &mut keys, key, &["\"a\"", "\"b\""]);
    }
    blocks.push(block("[appliance]", keys));

    let mut keys = Vec::new();
    maybe(random, &mut keys, "management", &["0", "3"]);
    maybe(random, &mut keys, "workers", &["[1]", "[1, 2]", "[2, 1]"]);
    maybe(random, &mut keys, "idle", &["\"spin\"", "\"yield\""]);
    blocks.push(block("[cpu]", keys));
    let mut keys = Vec::new();
    maybe(random, &mut keys, "hugepages", &["true", "false"]);
    maybe(random, &mut keys, "packet_memory", &["256", "512"]);
    blocks.push(block("[memory]", keys));
    let mut keys = Vec::new();
    maybe(random, &mut keys, "ipv4_flows", &["1_000_000", "2048"]);
    maybe(random, &mut keys, "ipv6_flows", &["0x1000", "250000"]);
    blocks.push(block("[conntrack]", keys));
    let mut keys = Vec::new();
    maybe(random, &mut keys, "listen", &["\"off\"", "\"127.0.0.1:9640\"", "\"[::1]:9640\""]);
    blocks.push(block("[metrics]", keys));
    let mut keys = Vec::new();
    maybe(random, &mut keys, "socket", &["\"/run/lodestone/admin.sock\"", "\"/run/a//b\""]);
    maybe(random, &mut keys, "group", &["\"adm\"", "\"ops\""]);
    if random.percent(40) {
        keys.push(("read_only_socket", quoted("/run/ro")));
        maybe(random, &mut keys, "read_only_group", &["\"users\""]);
    }
    blocks.push(block("[admin]", keys));

    let mut keys = vec![
        ("name", quoted("wan")),
        ("device", quoted(random.pick(&["net_tap0", "net_af_packet0,iface=x"]))),
        (
            "addresses",
            random
                .pick(&[
                    "[\"192.0.2.2/24\", \"2001:db8::2/64\"]",
                    "['2001:db8::2/64', '192.0.2.2/24']",
                ])
                .to_string(),
        ),
        ("gateway_ipv4", quoted("192.0.2.1")),
        ("gateway_ipv6", quoted("2001:db8::1")),
    ];
    maybe(random, &mut keys, "mtu", &["1500", "9000"]);
    maybe(random, &mut keys, "vlan", &["1", "2"]);
    maybe(random, &mut keys, "mac", &["\"02:00:00:00:00:01\"", "\"02:00:00:00:00:0A\""]);
    let wan = block("[[port]]", keys);
    if random.percent(50) {
        blocks.push(wan);
        return blocks;
    }
    let keys = vec![
        ("name", quoted("lan")),
        ("device", quoted("net_tap1")),
        ("addresses", "[\"198.51.100.2/24\"]".to_owned()),
    ];
    let lan = block("[[port]]", keys);
    blocks.extend(if random.percent(50) { [wan, lan] } else { [lan, wan] });
    blocks
}

fn maybe(
    random: &mut Random,
    keys: &mut Vec<(&'static str, String)>,
    key: &'static str,
    values: &[&str],
) {
    if random.percent(50) {
        keys.push((key, random.pick(values).to_owned()));
    }
}

fn state(random: &mut Random, keys: &mut Vec<(&'static str, String)>) {
    maybe(random, keys, "admin_state", &STATES.map(quoted).each_ref().map(String::as_str));
}

fn monitor(random: &mut Random, name: &str) -> Block {
    let mut keys = vec![("name", quoted(name)), ("port", random.pick(&["80", "8080"]).to_string())];
    maybe(random, &mut keys, "interval", &["\"1s\"", "\"5s\"", "\"2500ms\"", "\"1m\""]);
    maybe(random, &mut keys, "timeout", &["\"1s\"", "\"500ms\"", "\"1000ms\""]);
    maybe(random, &mut keys, "rise", &["2", "5"]);
    maybe(random, &mut keys, "fall", &["3", "1"]);
    maybe(random, &mut keys, "path", &["\"direct\""]);
    if random.percent(50) {
        keys.push(("type", quoted("tcp")));
    } else {
        keys.push(("type", quoted("http")));
        maybe(random, &mut keys, "http_path", &["\"/\"", "\"/health?a=%20\""]);
        maybe(random, &mut keys, "http_host", &["\"www.example.com\"", "\"[::1]:80\""]);
        maybe(random, &mut keys, "http_status", &["[200]", "[204, 200]"]);
    }
    Block { header: "[[monitor]]".to_owned(), keys, inside: Vec::new() }
}

fn pool(random: &mut Random, name: &str, monitors: &[&str]) -> Block {
    let addresses = random.some(&BACKENDS, 1, 4);
    let mut keys = vec![("name", quoted(name))];
    state(random, &mut keys);
    maybe(random, &mut keys, "region", &["\"europe\"", "\"asia\""]);
    maybe(random, &mut keys, "zone", &["\"a\"", "\"b\""]);
    maybe(random, &mut keys, "table_size", &["65537", "251"]);
    if random.percent(40) {
        keys.push(("threshold", (1 + random.below(addresses.len())).to_string()));
    }
    if let Some(monitor) = random.some(monitors, 0, 1).first() {
        keys.push(("monitor", quoted(monitor)));
    }
    let names = random.some(&["b1", "b2", "b3", "b4"], 4, 4);
    let inside = addresses.iter().zip(names).enumerate().map(|(place, (address, name))| {
        let mut keys = vec![("name", quoted(name)), ("address", quoted(address))];
        if place == 0 {
            maybe(random, &mut keys, "weight", &["1", "5"]);
        } else {
            maybe(random, &mut keys, "weight", &["0", "1", "1_000_000"]);
        }
        maybe(random, &mut keys, "virtual_network", &["\"blue\"", "\"red\""]);
        maybe(random, &mut keys, "probe_address", &["\"10.9.0.1\"", "\"fd00::1\""]);
        state(random, &mut keys);
        Block { header: "[[pool.backend]]".to_owned(), keys, inside: Vec::new() }
    });
    let inside = inside.collect();
    Block { header: "[[pool]]".to_owned(), keys, inside }
}

fn service(random: &mut Random, name: &str, pools: &[&str], vips: &[(&str, &str, u16)]) -> Block {
    let pools: Vec<_> = pools.iter().map(|pool| quoted(pool)).collect();
    let mut keys = vec![("name", quoted(name)), ("pools", format!("[{}]", pools.join(", ")))];
    state(random, &mut keys);
    maybe(random, &mut keys, "steering", &["\"failover\""]);
    maybe(random, &mut keys, "affinity", &["\"none\"", "\"client-ip-port-proto\""]);
    maybe(random, &mut keys, "idle_timeout", &["\"10m\"", "\"600s\"", "\"1500ms\"", "\"16h\""]);
    let inside = vips.iter().map(|(address, protocol, thousand)| {
        let ports = match random.below(4) {
            0 => format!("{thousand}000"),
            1 => format!("\"{thousand}000\""),
            2 => format!("\"{thousand}000-{thousand}999\""),
            _ => format!("[{thousand}443, \"{thousand}001-{thousand}009\", {thousand}080]"),
        };
        let mut keys =
            vec![("address", quoted(address)), ("protocol", quoted(protocol)), ("ports", ports)];
        maybe(random, &mut keys, "encapsulation", &["\"ipip\""]);
        maybe(random, &mut keys, "arp", &["true", "false"]);
        Block { header: "[[service.vip]]".to_owned(), keys, inside: Vec::new() }
    });
    let inside = inside.collect();
    Block { header: "[[service]]".to_owned(), keys, inside }
}
