//! `[[monitor]]` and `[[pool]]`.

use super::*;

#[test]
fn monitors() {
    check_rows(&[
        ("type = \"http\"\n", "", &[&["monitor[0].type (monitor `http`)", "is missing"]]),
        (
            "type = \"http\"",
            "type = \"ping\"",
            &[&["monitor[0].type", "\"ping\"", "not available yet"]],
        ),
        ("type = \"http\"", "type = \"htp\"", &[&["did you mean \"http\"?"]]),
        ("port = 80", "port = 0", &[&["monitor[0].port (monitor `http`) = 0", "1 to 65535"]]),
        ("port = 80\n", "", &[&["monitor[0].port", "is missing"]]),
        (
            "timeout = \"1s\"",
            "timeout = \"2001ms\"",
            &[&["monitor[0].timeout", "longer than the interval", "\"2s\""]],
        ),
        (
            "timeout = \"1s\"",
            "timeout = \"0s\"",
            &[&["monitor[0].timeout (monitor `http`) = \"0s\"", "out of range", "\"10ms\""]],
        ),
        (
            "interval = \"2s\"",
            "interval = 2",
            &[&["monitor[0].interval", "a duration with its unit"]],
        ),
        ("interval = \"2s\"", "interval = \"2\"", &[&["is not a duration", "ms, s, m or h"]]),
        ("interval = \"2s\"", "interval = \"2 s\"", &[&["is not a duration"]]),
        ("interval = \"2s\"", "interval = \"99999999999999999999h\"", &[&["is not a duration"]]),
        ("interval = \"2s\"", "interval = \"61m\"", &[&["out of range", "\"3600s\""]]),
        (
            "port = 80",
            "port = 80\nrise = 0",
            &[&["monitor[0].rise (monitor `http`) = 0", "1 to 1000"]],
        ),
        (
            "port = 80",
            "port = 80\nfall = 0",
            &[&["monitor[0].fall (monitor `http`) = 0", "1 to 1000"]],
        ),
        (
            "port = 80",
            "port = 80\npath = \"vip\"",
            &[&["monitor[0].path", "not available yet", "\"direct\""]],
        ),
        ("port = 80", "port = 80\npath = \"/health\"", &[&["monitor[0].path", "http_path"]]),
        (
            "port = 80",
            "port = 80\nhttp_path = \"health\"",
            &[&["monitor[0].http_path", "does not begin with /"]],
        ),
        ("port = 80", "port = 80\nhttp_path = \"/a b\"", &[&["monitor[0].http_path", "%XX"]]),
        (
            "port = 80",
            "port = 80\nhttp_path = \"/a\\r\\nb\"",
            &[&["monitor[0].http_path", "control character"]],
        ),
        (
            "port = 80",
            "port = 80\nhttp_host = \"http://a/\"",
            &[&["monitor[0].http_host", "host name"]],
        ),
        (
            "port = 80",
            "port = 80\nhttp_status = [99, 600]",
            &[&["http_status[0]", "100 to 599"], &["http_status[1]", "100 to 599"]],
        ),
        ("port = 80", "port = 80\nhttp_status = []", &[&["monitor[0].http_status", "is empty"]]),
        (
            "port = 80",
            "port = 80\nhttp_status = [200, 200]",
            &[&["http_status[1]", "is there twice"]],
        ),
        (
            "type = \"http\"",
            "type = \"tcp\"\nhttp_path = \"/\"",
            &[&["monitor[0].http_path", "type \"http\""]],
        ),
        (
            "[[pool]]",
            "[[monitor]]\nname = \"http\"\ntype = \"tcp\"\nport = 1\n[[pool]]",
            &[&["monitor[1].name", "another monitor", "monitor[0].name"]],
        ),
    ]);
}

#[test]
fn pools_and_backends() {
    check_rows(&[
        (
            "monitor = \"http\"",
            "monitor = \"ftp\"",
            &[&["pool[0].monitor (pool `web`) = \"ftp\"", "does not exist", "http"]],
        ),
        (
            "monitor = \"http\"",
            "threshold = 0",
            &[&["pool[0].threshold (pool `web`) = 0", "out of range"]],
        ),
        ("monitor = \"http\"", "threshold = 3", &[&["pool[0].threshold", "write 1 to 2"]]),
        (
            "monitor = \"http\"",
            "table_size = 65536",
            &[&["pool[0].table_size", "not a prime", "65537"]],
        ),
        ("monitor = \"http\"", "table_size = 1", &[&["pool[0].table_size", "out of range"]]),
        ("monitor = \"http\"", "backends = []", &[&["pool[0].backends", "[[pool.backend]]"]]),
        (
            "weight = 2",
            "weight = -5",
            &[&["line 30: pool[0].backend[0].weight (backend `b1`) = -5", "0 to 1000000"]],
        ),
        ("weight = 2", "weight = 1_000_001", &[&["0 to 1000000"]]),
        ("weight = 2", "weight = 1.5", &[&["pool[0].backend[0].weight", "not a float"]]),
        (
            "weight = 2",
            "weigth = 2",
            &[&["pool[0].backend[0].weigth (backend `b1`) = 2", "did you mean `weight`?"]],
        ),
        ("weight = 2", "port = 8080", &[&["pool[0].backend[0].port", "the port it was sent to"]]),
        ("weight = 2", "colour = 2", &[&["is not a key; the keys here are name, address"]]),
        ("weight = 2", "probe_address = \"::\"", &[&["probe_address", "unspecified"]]),
        (
            "name = \"b2\"",
            "name = \"b1\"",
            &[&["pool[0].backend[1].name", "another backend of the pool"]],
        ),
        ("name = \"b2\"\n", "", &[&["pool[0].backend[1].name (pool `web`): is missing"]]),
        (
            "\"10.1.2.3\"",
            "\"192.0.2.11\"",
            &[&["pool[0].backend[1].address (backend `b2`)", "is one backend"]],
        ),
        ("\"10.1.2.3\"", "\"10.1.2.3/32\"", &[&["without a prefix"]]),
        ("\"10.1.2.3\"", "\"224.0.0.1\"", &[&["multicast"]]),
        ("\"10.1.2.3\"", "\"255.255.255.255\"", &[&["240.0.0.0/4"]]),
        ("\"10.1.2.3\"", "\"0.1.2.3\"", &[&["0.0.0.0/8"]]),
        ("\"10.1.2.3\"", "\"::ffff:10.1.2.3\"", &[&["IPv4-mapped"]]),
        ("\"10.1.2.3\"", "\"192.0.2.255\"", &[&["broadcast"]]),
        (
            "\"10.1.2.3\"",
            "\"192.0.2.100\"",
            &[&["pool[0].backend[1].address", "is a VIP (service[0].vip[0].address)"]],
        ),
        ("\"10.1.2.3\"", "\"192.0.2.2\"", &[&["appliance's own address (port[0].addresses[0])"]]),
        (
            "\"10.1.2.3\"",
            "\"2001:db8:1::1\"",
            &[&["cannot be reached", "no port has a gateway_ipv6"]],
        ),
        (
            "gateway_ipv4 = \"192.0.2.1\"\n",
            "",
            &[&["pool[0].backend[1].address", "cannot be reached", "gateway_ipv4"]],
        ),
        (
            "addresses = [\"192.0.2.2/24\", \"2001:db8::2/64\"]\ngateway_ipv4 = \"192.0.2.1\"",
            "addresses = [\"2001:db8::2/64\"]",
            &[
                &["backend[0].address", "no port has an IPv4 address"],
                &["backend[1].address", "no port has an IPv4 address"],
            ],
        ),
        (
            "[[service]]",
            "[[pool]]\nname = \"empty\"\n[[service]]",
            &[&["pool[1] (pool `empty`)", "has no backend"]],
        ),
        (
            "[[service]]",
            "[[pool]]\nname = \"web\"\n[[pool.backend]]\nname=\"b\"\naddress=\"10.0.0.1\"\n[[service]]",
            &[&["pool[1].name", "another pool"]],
        ),
        (
            "weight = 2",
            "weight = 0\n[[pool.backend]]\nname = \"b3\"\naddress = \"10.1.2.9\"\nweight = -1",
            &[&["backend[1].weight", "= -1"]],
        ),
    ]);
    let text =
        changed("weight = 2", "weight = 0").replace("\"10.1.2.3\"", "\"10.1.2.3\"\nweight = 0");
    check(&text, &messages(&text), &[&["pool[0] (pool `web`)", "every backend weight 0"]]);
    let text = changed("monitor = \"http\"", "table_size = 2").replace(
        "\"10.1.2.3\"",
        "\"10.1.2.3\"\n[[pool.backend]]\nname = \"b3\"\naddress = \"10.1.2.4\"",
    );
    check(&text, &messages(&text), &[&["pool[0].table_size", "less than the pool's 3 backends"]]);
}

// L4-38
#[test]
fn private_and_public_backends_load_alike() {
    for private in ["10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "203.0.113.9"] {
        let (config, warnings) =
            config::parse(&changed("\"10.1.2.3\"", &format!("\"{private}\""))).unwrap();
        assert_eq!(config.pools[0].backends[1].address, private.parse::<IpAddr>().unwrap());
        assert_eq!(warnings, []);
    }
}
