//! What a physical function lets its virtual function do, where both are of this machine.
//!
//! The driver of a virtual function asks for a MAC address over a mailbox, and several drivers take a
//! refusal in silence. The kernel tells the outcome: it lists each function's address with the physical
//! function's interface (rtnetlink(7), `IFLA_VFINFO_LIST`).

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use super::pci;
use crate::packet::MacAddress;

/// `RTEXT_FILTER_VF` of `linux/rtnetlink.h`.
const WITH_FUNCTIONS: u32 = 1;
/// `IFLA_EXT_MASK`, `IFLA_VFINFO_LIST`, `IFLA_VF_INFO` and `IFLA_VF_MAC` of `linux/if_link.h`.
const EXT_MASK: u16 = 29;
const FUNCTION_LIST: u16 = 22;
const FUNCTION: u16 = 1;
const FUNCTION_MAC: u16 = 1;
/// `NLA_TYPE_MASK`: without the flags for nested attributes and byte order.
const TYPE_MASK: u16 = 0x3fff;

const MESSAGE_HEADER_LEN: usize = 16;
const LINK_HEADER_LEN: usize = 16;
const ATTRIBUTE_HEADER_LEN: usize = 4;
/// A message about an interface with 128 functions takes about 30 KiB.
const REPLY_CAP: usize = 256 * 1024;

/// The address that a physical function holds one of its functions to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldMac {
    /// The address; all zeros where the function may choose.
    pub mac: MacAddress,
    /// Interface of the physical function.
    pub physical: String,
    /// Number of the virtual function.
    pub number: u32,
}

/// Asks the kernel. `None` for a device that is no virtual function, whose physical function is another
/// machine's (a function passed through to a guest) or in another network namespace, or if the kernel
/// does not say.
pub(super) fn held_mac(device: &str) -> Option<HeldMac> {
    let (physical, number) = place(Path::new(pci::SYSFS), device)?;
    let index = fs::read_to_string(format!("/sys/class/net/{physical}/ifindex")).ok()?;
    let reply = ask(index.trim().parse().ok()?).ok()?;
    Some(HeldMac { mac: mac_of(&reply, number)?, physical, number })
}

/// Interface of the physical function, and which of its functions this is.
fn place(sysfs: &Path, device: &str) -> Option<(String, u32)> {
    let physical = sysfs.join("bus/pci/devices").join(device).join("physfn");
    let entries = fs::read_dir(&physical).ok()?;
    let number = entries.filter_map(Result::ok).find_map(|entry| {
        let number = entry.file_name().to_str()?.strip_prefix("virtfn")?.parse().ok()?;
        let target = fs::read_link(entry.path()).ok()?;
        (target.file_name()?.to_str()? == device).then_some(number)
    })?;
    let interface = fs::read_dir(physical.join("net")).ok()?.next()?.ok()?.file_name();
    Some((interface.into_string().ok()?, number))
}

/// `RTM_GETLINK` for one interface, with its functions.
fn request(index: u32) -> Vec<u8> {
    let attribute_len = ATTRIBUTE_HEADER_LEN + 4;
    let len = MESSAGE_HEADER_LEN + LINK_HEADER_LEN + attribute_len;
    let mut bytes = Vec::with_capacity(len);
    let word = |bytes: &mut Vec<u8>, value: u32| bytes.extend(value.to_ne_bytes());
    // struct nlmsghdr: length, type and flags, sequence, sender.
    word(&mut bytes, u32::try_from(len).unwrap_or(0));
    bytes.extend(libc::RTM_GETLINK.to_ne_bytes());
    bytes.extend(u16::try_from(libc::NLM_F_REQUEST).unwrap_or(0).to_ne_bytes());
    word(&mut bytes, 1);
    word(&mut bytes, 0);
    // struct ifinfomsg: family and type, index, flags, change.
    word(&mut bytes, 0);
    word(&mut bytes, index);
    word(&mut bytes, 0);
    word(&mut bytes, 0);
    bytes.extend(u16::try_from(attribute_len).unwrap_or(0).to_ne_bytes());
    bytes.extend(EXT_MASK.to_ne_bytes());
    word(&mut bytes, WITH_FUNCTIONS);
    bytes
}

fn ask(index: u32) -> io::Result<Vec<u8>> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let number = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    let message = request(index);
    // SAFETY: the pointer leads as many bytes. Without an address it goes to the kernel.
    let sent = unsafe { libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut reply = vec![0_u8; REPLY_CAP];
    // The kernel answers within `send`, so what there is to come is there.
    let flags = libc::MSG_DONTWAIT;
    // SAFETY: the pointer leads as many writable bytes.
    let len =
        unsafe { libc::recv(socket.as_raw_fd(), reply.as_mut_ptr().cast(), reply.len(), flags) };
    let Ok(len) = usize::try_from(len) else { return Err(io::Error::last_os_error()) };
    reply.truncate(len);
    Ok(reply)
}

/// The MAC address of function `number` in an answer to [`request`].
fn mac_of(reply: &[u8], number: u32) -> Option<MacAddress> {
    let is_link = reply.get(4..6)? == libc::RTM_NEWLINK.to_ne_bytes();
    let attributes = reply.get(MESSAGE_HEADER_LEN + LINK_HEADER_LEN..).filter(|_| is_link)?;
    let list = Attributes(attributes).find(|(kind, _)| *kind == FUNCTION_LIST)?.1;
    let mac = Attributes(list).filter(|(kind, _)| *kind == FUNCTION).find_map(|(_, function)| {
        // struct ifla_vf_mac: the number, then 32 bytes for an address.
        let value = Attributes(function).find(|(kind, _)| *kind == FUNCTION_MAC)?.1;
        let (told, mac) = value.split_first_chunk()?;
        (u32::from_ne_bytes(*told) == number).then(|| mac.first_chunk().copied())?
    });
    mac.map(MacAddress)
}

/// Walks attributes: (type without flags, value). Ends at the first that is cut short.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let ([a, b, c, d], _) = self.0.split_first_chunk::<ATTRIBUTE_HEADER_LEN>()?;
        let len = usize::from(u16::from_ne_bytes([*a, *b]));
        let kind = u16::from_ne_bytes([*c, *d]) & TYPE_MASK;
        let value = self.0.get(ATTRIBUTE_HEADER_LEN..len)?;
        // Each begins at a multiple of four.
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let len = u16::try_from(ATTRIBUTE_HEADER_LEN + value.len()).unwrap();
        let mut bytes = [len.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn function(number: u32, last: u8) -> Vec<u8> {
        let mut value = number.to_ne_bytes().to_vec();
        value.extend([2, 0, 0, 0, 0, last]);
        value.resize(36, 0);
        // A VLAN comes before the address in none of the kernels, but the order is not promised.
        let inside = [attribute(2, &[0; 12]), attribute(FUNCTION_MAC, &value)].concat();
        attribute(FUNCTION | 0x8000, &inside)
    }

    fn reply() -> Vec<u8> {
        let mut bytes = vec![0; MESSAGE_HEADER_LEN + LINK_HEADER_LEN];
        bytes[4..6].copy_from_slice(&libc::RTM_NEWLINK.to_ne_bytes());
        bytes.extend(attribute(3, b"eth2\0"));
        bytes.extend(attribute(FUNCTION_LIST, &[function(0, 10), function(1, 11)].concat()));
        bytes
    }

    #[test]
    fn each_function_has_its_own_address() {
        assert_eq!(mac_of(&reply(), 0), Some(MacAddress([2, 0, 0, 0, 0, 10])));
        assert_eq!(mac_of(&reply(), 1), Some(MacAddress([2, 0, 0, 0, 0, 11])));
        assert_eq!(mac_of(&reply(), 2), None);
    }

    #[test]
    fn what_is_cut_short_or_is_no_link_says_nothing() {
        let whole = reply();
        for len in 0..whole.len() {
            let _ = mac_of(&whole[..len], 1);
        }
        let mut error = whole.clone();
        error[4] = 2;
        assert_eq!(mac_of(&error, 0), None);
        let mut endless = whole;
        let at = MESSAGE_HEADER_LEN + LINK_HEADER_LEN;
        endless[at..at + 2].copy_from_slice(&[0, 0]);
        assert_eq!(mac_of(&endless, 0), None, "a length of zero ends the walk");
    }

    #[test]
    fn a_function_finds_its_place() {
        let root = tempfile::tempdir().unwrap();
        let devices = root.path().join("bus/pci/devices");
        let physical = devices.join("0000:01:00.0");
        fs::create_dir_all(physical.join("net/eth2")).unwrap();
        for (number, address) in [(0, "0000:01:10.0"), (1, "0000:01:10.2")] {
            fs::create_dir_all(devices.join(address)).unwrap();
            symlink("../0000:01:00.0", devices.join(address).join("physfn")).unwrap();
            symlink(format!("../{address}"), physical.join(format!("virtfn{number}"))).unwrap();
        }
        assert_eq!(place(root.path(), "0000:01:10.2"), Some(("eth2".to_owned(), 1)));
        assert_eq!(place(root.path(), "0000:01:00.0"), None);
    }

    #[test]
    fn the_kernel_answers() {
        // The loopback interface has no functions, and an answer of its own all the same.
        let reply = ask(1).unwrap();
        assert_eq!(reply[4..6], libc::RTM_NEWLINK.to_ne_bytes());
        assert_eq!(mac_of(&reply, 0), None);
    }
}
