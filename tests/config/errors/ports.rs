//! `[[port]]`.

use super::*;

#[test]
fn ports() {
    check_rows(&[
        ("device = \"0000:3b:02.0\"\n", "", &[&["port[0].device (port `wan`)", "is missing"]]),
        ("\"0000:3b:02.0\"", "\"\"", &[&["port[0].device", "is empty"]]),
        (
            "\"0000:3b:02.0\"",
            "\"eth0\"",
            &[&["port[0].device", "neither a PCI address", "net_af_packet0,iface=eth1"]],
        ),
        (
            "addresses = [\"192.0.2.2/24\", \"2001:db8::2/64\"]\n",
            "",
            &[&["port[0].addresses", "missing or empty"]],
        ),
        (
            "2001:db8::2/64",
            "2001:db8::2",
            &[&["port[0].addresses[1] (port `wan`) = \"2001:db8::2\"", "prefix length"]],
        ),
        ("2001:db8::2/64", "ff02::1/64", &[&["multicast"]]),
        ("2001:db8::2/64", "::/64", &[&["unspecified"]]),
        ("2001:db8::2/64", "2001:db8::/64", &[&["address of the network 2001:db8::/64 itself"]]),
        ("2001:db8::2/64", "::1/64", &[&["loopback"]]),
        ("2001:db8::2/64", "198.51.100.255/24", &[&["broadcast address of 198.51.100.0/24"]]),
        (
            "2001:db8::2/64",
            "192.0.2.2/25",
            &[&["port[0].addresses[1]", "port[0].addresses[0] (line 13) has it already"]],
        ),
        ("2001:db8::2/64", "198.51.100.1/0", &[&["prefix length 0"]]),
        ("mtu = 1600", "mtu = 575", &[&["port[0].mtu (port `wan`) = 575", "576 to 9200"]]),
        ("mtu = 1600", "mtu = 9201", &[&["576 to 9200"]]),
        ("mtu = 1600", "mtu = 1279", &[&["1280 or more"]]),
        ("mtu = 1600", "mtu = 0", &[&["port[0].mtu (port `wan`) = 0", "576 to 9200"]]),
        ("mtu = 1600", "vlan = 0", &[&["port[0].vlan (port `wan`) = 0", "1 to 4094"]]),
        ("mtu = 1600", "vlan = 4095", &[&["1 to 4094"]]),
        ("mtu = 1600", "mac = \"01:00:5e:00:00:01\"", &[&["port[0].mac", "unicast"]]),
        ("mtu = 1600", "mac = \"2:0:0:0:0:1\"", &[&["port[0].mac", "six pairs"]]),
        (
            "mtu = 1600",
            "gateway = \"192.0.2.1\"",
            &[&["port[0].gateway", "gateway_ipv4 or gateway_ipv6"]],
        ),
        (
            "\"192.0.2.1\"",
            "\"2001:db8::1\"",
            &[&["port[0].gateway_ipv4", "IPv6 address; write an IPv4"]],
        ),
        (
            "\"192.0.2.1\"",
            "\"198.51.100.1\"",
            &[&["port[0].gateway_ipv4", "none of the port's networks"]],
        ),
        ("\"192.0.2.1\"", "\"192.0.2.2\"", &[&["address of this appliance"]]),
        ("\"192.0.2.1\"", "\"192.0.2.255\"", &[&["broadcast"]]),
        (
            "mtu = 1600",
            "gateway_ipv6 = \"fd00::1\"",
            &[&["port[0].gateway_ipv6", "none of the port's networks"]],
        ),
        (
            "mtu = 1600",
            "mtu = 1600\n[[port]]\nname = \"lan\"\naddresses = [\"10.0.0.1/8\"]\ndevice = \"3b:02.0\"",
            &[&["port[1].device (port `lan`)", "port[0].device"]],
        ),
        (
            "name = \"wan\"",
            "name = \"wan\"\naddress = 1",
            &[&["port[0].address", "write addresses"]],
        ),
        ("[[port]]", "[port]", &[&["line 10: port", "write [[port]]"]]),
    ]);
    let port = |number| {
        format!(
            "[[port]]\nname = \"p{number}\"\ndevice = \"net_tap{number}\"\naddresses = \
             [\"10.9.{number}.1/24\"]\n"
        )
    };
    let many = (0..256).map(port).collect::<Vec<_>>().concat();
    let text = format!("{GOOD}{many}");
    check(&text, &messages(&text), &[&["port", "is there 257 times; at most 16"]]);
    let text = "[appliance]\nname = \"a\"\nflow_hash_key = \"000102030405060708090a0b0c0d0e0f\"\n";
    check(text, &messages(text), &[&["line 1: there is no port"]]);
}
