//! Device strings: a PCI address or a virtual device, told apart by their syntax.

use super::DpdkError;

/// A device as EAL is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Device {
    /// A PCI function: `0000:3b:02.0` or `3b:02.0`, with arguments of its driver after a comma.
    Pci {
        /// The full address, lower case: also the name of its DPDK port.
        name: String,
        /// The string with the full address.
        argument: String,
    },
    /// A virtual device: `net_tap0,iface=tap0`.
    Virtual {
        /// The part before the comma: also the name of its DPDK port.
        name: String,
        /// The whole string.
        argument: String,
    },
}

impl Device {
    /// Reads a device string.
    pub(super) fn parse(text: &str) -> Result<Self, DpdkError> {
        let (name, arguments) = match text.split_once(',') {
            Some((name, arguments)) => (name, Some(arguments)),
            None => (text, None),
        };
        if text.chars().all(|c| c.is_ascii_graphic()) {
            if let Some(name) = full_pci_address(name) {
                let argument = match arguments {
                    Some(arguments) => format!("{name},{arguments}"),
                    None => name.clone(),
                };
                return Ok(Self::Pci { name, argument });
            }
            if is_virtual_name(name) {
                return Ok(Self::Virtual { name: name.to_owned(), argument: text.to_owned() });
            }
        }
        Err(DpdkError::BadDevice { device: text.to_owned() })
    }

    /// The name of its DPDK port.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Pci { name, .. } | Self::Virtual { name, .. } => name,
        }
    }
}

/// `[domain:]bus:device.function` in hexadecimal, with the domain 0000 if it is left out.
fn full_pci_address(text: &str) -> Option<String> {
    let (path, function) = text.split_once('.')?;
    let mut parts = path.rsplit(':');
    let device = hex(parts.next()?, 2, 0x1f)?;
    let bus = hex(parts.next()?, 2, 0xff)?;
    let domain = parts.next().map_or(Some(0), |domain| hex(domain, 8, u32::MAX))?;
    let function = hex(function, 1, 7)?;
    parts.next().is_none().then(|| format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
}

fn hex(text: &str, digits: usize, max: u32) -> Option<u32> {
    let is_hex = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = (is_hex && text.len() <= digits).then(|| u32::from_str_radix(text, 16).ok())??;
    (number <= max).then_some(number)
}

/// A driver's name and a number: `net_tap0`, `virtio_user1`.
fn is_virtual_name(text: &str) -> bool {
    let stem = text.trim_end_matches(|c: char| c.is_ascii_alphanumeric());
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && stem.ends_with('_')
        && text.len() < 64
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses_are_completed_and_keep_their_arguments() {
        for (text, name, argument) in [
            ("0000:3b:02.0", "0000:3b:02.0", "0000:3b:02.0"),
            ("3B:02.7", "0000:3b:02.7", "0000:3b:02.7"),
            ("10000:01:00.0,speed=1", "10000:01:00.0", "10000:01:00.0,speed=1"),
        ] {
            assert_eq!(
                Device::parse(text).unwrap(),
                Device::Pci { name: name.to_owned(), argument: argument.to_owned() }
            );
        }
    }

    #[test]
    fn virtual_devices_are_named_by_what_stands_before_the_comma() {
        for (text, name) in [
            ("net_af_packet0,iface=veth-lb", "net_af_packet0"),
            ("net_ring0", "net_ring0"),
            ("virtio_user0,path=/dev/vhost-net", "virtio_user0"),
        ] {
            assert_eq!(
                Device::parse(text).unwrap(),
                Device::Virtual { name: name.to_owned(), argument: text.to_owned() }
            );
        }
    }

    #[test]
    fn anything_else_is_refused_with_both_forms_named() {
        for text in [
            "",
            "eth0",
            ",",
            "3b:02",
            "3b:02.8",
            "3b:20.0",
            "0:0:0:0.0",
            "net tap0",
            "--no-pci",
            "_x",
        ] {
            let error = Device::parse(text).unwrap_err().to_string();
            assert!(error.contains("0000:3b:02.0") && error.contains("net_af_packet0"), "{text}");
        }
    }
}
