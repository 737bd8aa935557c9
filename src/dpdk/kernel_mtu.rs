//! The MTU of a port that is an interface of the kernel (`net_af_packet`).
//!
//! That driver states a limit of 1500 bytes whatever its ring and interface carry, and would set
//! the interface's MTU to it. So the two real limits are checked here, and DPDK is told no more
//! than it can hear.

use std::fs;

/// Bytes in front of a frame in a slot of the packet ring: `TPACKET2_HDRLEN` and its alignment.
const RING_OVERHEAD: u32 = 84;

/// What the driver uses if the device string does not say `framesz=`.
const DEFAULT_FRAME_SIZE: u32 = 2048;

/// Why the interface cannot carry packets of `mtu` bytes; `None` if it can.
pub(super) fn refusal(device: &str, if_index: u32, mtu: u16) -> Option<String> {
    let frame_size = frame_size(device);
    let needed = u32::from(mtu) + 18 + RING_OVERHEAD;
    if frame_size < needed {
        return Some(format!(
            "framesz={frame_size} of the device holds less; give it framesz={}",
            needed.next_power_of_two()
        ));
    }
    let (name, interface_mtu) = interface(if_index)?;
    (interface_mtu < u32::from(mtu)).then(|| {
        format!("interface {name} has {interface_mtu}; run `ip link set {name} mtu {mtu}`")
    })
}

fn frame_size(device: &str) -> u32 {
    device
        .split(',')
        .find_map(|argument| argument.strip_prefix("framesz=")?.parse().ok())
        .unwrap_or(DEFAULT_FRAME_SIZE)
}

/// Name and MTU of the kernel's interface with this index.
fn interface(index: u32) -> Option<(String, u32)> {
    let number = |path: std::path::PathBuf| fs::read_to_string(path).ok()?.trim().parse().ok();
    fs::read_dir("/sys/class/net").ok()?.flatten().find_map(|entry| {
        let path = entry.path();
        if number(path.join("ifindex"))? != index {
            return None;
        }
        Some((entry.file_name().to_string_lossy().into_owned(), number(path.join("mtu"))?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_and_the_interface_both_limit_the_mtu() {
        assert_eq!(refusal("net_af_packet0,iface=lo,framesz=2048", 1, 1600), None, "lo has 65536");
        let ring = refusal("net_af_packet0,iface=lo,framesz=1024", 1, 1500).unwrap();
        assert!(ring.ends_with("give it framesz=2048"), "{ring}");
        assert!(refusal("net_af_packet0,iface=lo", 1, 1960).unwrap().contains("framesz=4096"));
        assert_eq!(frame_size("net_af_packet0,iface=lo,framesz=4096,qpairs=1"), 4096);
    }
}
