//! Arguments with a form of their own. What is wrong is told with an example.

use std::str::FromStr;
use std::time::Duration;

use crate::control::protocol::params::{NewBackend, NewVip};
use crate::control::protocol::reply::{AdminState, Family, Protocol};

/// A whole or decimal number of seconds, above 0 and at most a day.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "write a number of seconds, as in 2 or 0.5")?;
    if seconds > 0.0 && seconds <= 86_400.0 {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("write a number of seconds above 0 and up to 86400".to_owned())
    }
}

/// `tcp` or `udp`.
pub(super) fn protocol(text: &str) -> Result<Protocol, String> {
    word(text, Protocol::WORDS)
}

/// `ipv4` or `ipv6`.
pub(super) fn family(text: &str) -> Result<Family, String> {
    word(text, Family::WORDS)
}

/// `enabled`, `draining` or `disabled`.
pub(super) fn admin_state(text: &str) -> Result<AdminState, String> {
    word(text, AdminState::WORDS)
}

fn word<T: serde::de::DeserializeOwned>(text: &str, words: &[&str]) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|_| format!("write one of {}", words.join(", ")))
}

/// `NAME=ADDRESS[,KEY=VALUE…]`
pub(super) fn new_backend(text: &str) -> Result<NewBackend, String> {
    let form = || {
        "write NAME=ADDRESS and, behind commas, weight=N, virtual_network=NAME or \
         probe_address=ADDRESS"
            .to_owned()
    };
    let mut parts = text.split(',');
    let (name, address) = parts.next().and_then(|part| part.split_once('=')).ok_or_else(form)?;
    let mut backend = NewBackend {
        name: name.to_owned(),
        address: address.parse().map_err(|_| form())?,
        weight: None,
        virtual_network: None,
        probe_address: None,
    };
    for part in parts {
        let repeated = |is_repeated: bool| {
            if is_repeated { Err(format!("{part}: write each key once")) } else { Ok(()) }
        };
        match part.split_once('=').ok_or_else(form)? {
            ("weight", value) => {
                repeated(backend.weight.is_some())?;
                backend.weight = Some(value.parse().map_err(|_| form())?);
            }
            ("virtual_network", value) => {
                repeated(backend.virtual_network.is_some())?;
                backend.virtual_network = Some(value.to_owned());
            }
            ("probe_address", value) => {
                repeated(backend.probe_address.is_some())?;
                backend.probe_address = Some(value.parse().map_err(|_| form())?);
            }
            _ => return Err(form()),
        }
    }
    Ok(backend)
}

/// `ADDRESS/PROTOCOL/PORTS[/no-arp]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VipArgument(pub NewVip);

impl FromStr for VipArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || {
            "write ADDRESS/PROTOCOL/PORTS, as in 192.0.2.1/tcp/80,443, and /no-arp behind it if ports \
             are not to answer for the address"
                .to_owned()
        };
        let fields: Vec<_> = text.split('/').collect();
        let (address, kind, ports, arp) = match fields[..] {
            [address, kind, ports] => (address, kind, ports, None),
            [address, kind, ports, "no-arp"] => (address, kind, ports, Some(false)),
            _ => return Err(form()),
        };
        Ok(Self(NewVip {
            address: address.parse().map_err(|_| form())?,
            protocol: protocol(kind).map_err(|_| form())?,
            ports: ports.to_owned(),
            arp,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_and_vips_are_written_in_one_word() {
        let backend = new_backend("b1=10.0.0.1,weight=0,probe_address=10.9.0.1").unwrap();
        assert_eq!((backend.name.as_str(), backend.weight), ("b1", Some(0)));
        assert_eq!(backend.probe_address, Some("10.9.0.1".parse().unwrap()));
        assert_eq!(new_backend("b1=10.0.0.1").unwrap().weight, None, "absent is not 0");
        for wrong in ["b1", "b1=x", "b1=10.0.0.1,weight", "b1=10.0.0.1,color=red"] {
            assert!(new_backend(wrong).unwrap_err().contains("NAME=ADDRESS"), "{wrong}");
        }
        let twice = new_backend("b1=10.0.0.1,weight=1,weight=2").unwrap_err();
        assert!(twice.contains("once"), "{twice}");

        let VipArgument(vip) = "fd00::1/udp/any/no-arp".parse().unwrap();
        assert_eq!(
            (vip.protocol, vip.ports.as_str(), vip.arp),
            (Protocol::Udp, "any", Some(false))
        );
        let VipArgument(vip) = "192.0.2.1/tcp/80,443".parse().unwrap();
        assert_eq!((vip.ports.as_str(), vip.arp), ("80,443", None));
        for wrong in ["192.0.2.1", "192.0.2.1/tcp", "x/tcp/80", "192.0.2.1/icmp/1", "a/b/c/d/e"] {
            assert!(wrong.parse::<VipArgument>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_networks_and_seconds() {
        assert_eq!(protocol("udp"), Ok(Protocol::Udp));
        assert_eq!(protocol("UDP").unwrap_err(), "write one of tcp, udp");
        assert_eq!(admin_state("draining"), Ok(AdminState::Draining));
        assert_eq!(family("ipv6"), Ok(Family::Ipv6));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["", "x", "0", "-1", "nan", "1e9"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
