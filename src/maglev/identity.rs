//! What a table knows its members by.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// First byte of a backend's identity.
const BACKEND: u8 = 1;
/// First byte of a pool's identity.
const POOL: u8 = 2;

/// The stable identity of a table's member: the canonical bytes that are hashed for its place in
/// the table and that the members are sorted by, bytewise. Equal on every appliance, whatever
/// names, ids and order its configuration uses.
///
/// To the byte:
///
/// | Member | Bytes |
/// |---|---|
/// | backend | `01`, length of the virtual network's name (u32, big endian), the name (UTF-8), address (16 bytes) |
/// | pool | `02`, name (UTF-8, to the end) |
///
/// A backend without a virtual network has the empty name. An IPv4 address is written as its
/// IPv4-mapped IPv6 address (`::ffff:192.0.2.1`, RFC 4291 §2.5.5.2); the two are the same backend.
/// No two backends, and no backend and pool, share their bytes: the kind and all lengths are
/// explicit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(Box<[u8]>);

impl Identity {
    /// The identity of a backend: its virtual network (`None` and `""` are the same, the default
    /// one) and its address. Its name is for people and no part of it.
    #[must_use]
    pub fn backend(virtual_network: Option<&str>, address: IpAddr) -> Self {
        let network = virtual_network.unwrap_or_default();
        // No configuration holds a name of 4 GiB.
        let length = u32::try_from(network.len()).unwrap_or(u32::MAX);
        let address = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let mut bytes = Vec::with_capacity(1 + 4 + network.len() + 16);
        bytes.push(BACKEND);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(network.as_bytes());
        bytes.extend_from_slice(&address.octets());
        Self(bytes.into_boxed_slice())
    }

    /// The identity of a pool: its name.
    #[must_use]
    pub fn pool(name: &str) -> Self {
        let mut bytes = Vec::with_capacity(1 + name.len());
        bytes.push(POOL);
        bytes.extend_from_slice(name.as_bytes());
        Self(bytes.into_boxed_slice())
    }

    /// The canonical bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Identity {
    /// In words: ``backend 192.0.2.1``, ``backend 192.0.2.1 of virtual network `blue` ``,
    /// ``pool `web` ``.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            [BACKEND, _, _, _, _, rest @ ..] => {
                let Some((network, address)) = rest.split_last_chunk::<16>() else {
                    return f.write_str("backend");
                };
                let address = Ipv6Addr::from(*address).to_canonical();
                write!(f, "backend {address}")?;
                if !network.is_empty() {
                    write!(f, " of virtual network `{}`", String::from_utf8_lossy(network))?;
                }
                Ok(())
            }
            [POOL, name @ ..] => write!(f, "pool `{}`", String::from_utf8_lossy(name)),
            _ => f.write_str("member"),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn bytes_are_as_documented() {
        let plain = Identity::backend(None, ip("192.0.2.1"));
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1];
        assert_eq!(plain.as_bytes(), [&[1, 0, 0, 0, 0][..], &mapped].concat());

        let blue = Identity::backend(Some("blue"), ip("2001:db8::1"));
        let address = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(blue.as_bytes(), [&[1, 0, 0, 0, 4][..], b"blue", &address].concat());

        assert_eq!(Identity::pool("web").as_bytes(), b"\x02web");
    }

    #[test]
    fn nothing_shares_its_bytes_with_another() {
        let all = [
            Identity::backend(None, ip("192.0.2.1")),
            Identity::backend(None, ip("192.0.2.2")),
            Identity::backend(None, ip("::192.0.2.1")),
            Identity::backend(Some("a"), ip("192.0.2.1")),
            Identity::backend(Some("ab"), ip("192.0.2.1")),
            Identity::pool("a"),
            Identity::pool("192.0.2.1"),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn spellings_of_one_backend_are_one() {
        let plain = Identity::backend(None, ip("192.0.2.1"));
        assert_eq!(plain, Identity::backend(Some(""), ip("192.0.2.1")));
        assert_eq!(plain, Identity::backend(None, ip("::ffff:192.0.2.1")));
    }

    #[test]
    fn reads_as_words() {
        assert_eq!(Identity::backend(None, ip("192.0.2.1")).to_string(), "backend 192.0.2.1");
        assert_eq!(
            Identity::backend(Some("blue"), ip("2001:db8::1")).to_string(),
            "backend 2001:db8::1 of virtual network `blue`"
        );
        assert_eq!(Identity::pool("web").to_string(), "pool `web`");
    }
}
