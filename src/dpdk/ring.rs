//! Two devices of one process, back to back: what one sends, the other receives.

use std::ffi::{CStr, CString};
use std::ptr::NonNull;

use dpdk_sys::rte_ring;

use super::{DpdkError, Eal, last_error_text};

/// Makes two devices (`net_ring_A` and `net_ring_B` for the names `A` and `B`) with one queue each,
/// connected both ways by rings that hold `len` packets less one; returns the devices' names, for
/// [`PortConfig::device`](super::PortConfig::device). They live until the program exits.
///
/// Each end may be polled by another thread, as [`RxQueue`](super::RxQueue) and
/// [`TxQueue`](super::TxQueue) see to it that only one polls.
///
/// # Errors
///
/// A name that is taken or no name, or a length that is no power of two.
pub fn connected_rings(_eal: &Eal, names: [&str; 2], len: u32) -> Result<[String; 2], DpdkError> {
    let refused = |reason: String| DpdkError::Rings { names: names.join(" and "), len, reason };
    let [there, back] = [0, 1].map(|place| -> Result<NonNull<rte_ring>, DpdkError> {
        let name = CString::new(format!("{}_{place}", names[0]))
            .map_err(|_| refused("a name with a NUL byte".to_owned()))?;
        ring(&name, len).ok_or_else(|| refused(last_error_text()))
    });
    let (there, back) = (there?, back?);
    for (name, rx, tx) in [(names[0], back, there), (names[1], there, back)] {
        let c_name =
            CString::new(name).map_err(|_| refused("a name with a NUL byte".to_owned()))?;
        let (rx, tx) = ([rx.as_ptr()], [tx.as_ptr()]);
        // SAFETY: EAL runs (`_eal`); the name is a valid C string and the lists hold one ring each;
        // DPDK copies all three, and the rings live until exit.
        let port = unsafe {
            dpdk_sys::rte_eth_from_rings(
                c_name.as_ptr(),
                rx.as_ptr(),
                1,
                tx.as_ptr(),
                1,
                dpdk_sys::SOCKET_ID_ANY.cast_unsigned(),
            )
        };
        if port < 0 {
            return Err(refused(last_error_text()));
        }
    }
    Ok(names.map(|name| format!("net_ring_{name}")))
}

/// A ring of one producer and one consumer, on any memory node.
fn ring(name: &CStr, len: u32) -> Option<NonNull<rte_ring>> {
    let flags = dpdk_sys::RING_F_SP_ENQ | dpdk_sys::RING_F_SC_DEQ;
    // SAFETY: the name is a valid C string, which DPDK copies.
    let raw =
        unsafe { dpdk_sys::rte_ring_create(name.as_ptr(), len, dpdk_sys::SOCKET_ID_ANY, flags) };
    NonNull::new(raw)
}
