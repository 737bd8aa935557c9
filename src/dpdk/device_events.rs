//! What drivers report by interrupt: that a device was reset, or removed.
//!
//! Links are not among it. With link interrupts on, DPDK answers from memory, and a driver that loses one
//! would show a link that is not there; so management asks for links instead (`control::links`).

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use dpdk_sys::rte_eth_event_type;

const PORT_CAP: usize = dpdk_sys::RTE_MAX_ETHPORTS as usize;

/// What happened to a port since it was last asked for.
#[derive(Debug)]
struct Flags {
    was_reset: AtomicBool,
    was_removed: AtomicBool,
}

/// By DPDK's port number. Written by: DPDK's interrupt thread. Read and taken back by: management.
static FLAGS: [Flags; PORT_CAP] =
    [const { Flags { was_reset: AtomicBool::new(false), was_removed: AtomicBool::new(false) } };
        PORT_CAP];

/// The reports of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceEvents {
    port: u16,
}

impl DeviceEvents {
    /// Asks for the reports of a port. A driver that has none never reports.
    pub(super) fn watch(port: u16) -> Self {
        for kind in [dpdk_sys::RTE_ETH_EVENT_INTR_RESET, dpdk_sys::RTE_ETH_EVENT_INTR_RMV] {
            // SAFETY: EAL runs, since the port exists; the callback takes no argument and lives as
            // long as the program. A failure (out of memory) leaves the port without reports.
            let _ = unsafe {
                dpdk_sys::rte_eth_dev_callback_register(port, kind, Some(note), ptr::null_mut())
            };
        }
        Self { port }
    }

    /// Whether the device was reset since the last call.
    pub(super) fn take_reset(self) -> bool {
        FLAGS
            .get(usize::from(self.port))
            .is_some_and(|flags| flags.was_reset.swap(false, Ordering::AcqRel))
    }

    /// Whether the device was removed; it never comes back as this port.
    pub(super) fn was_removed(self) -> bool {
        FLAGS
            .get(usize::from(self.port))
            .is_some_and(|flags| flags.was_removed.load(Ordering::Acquire))
    }
}

/// Called by DPDK's interrupt thread.
extern "C" fn note(
    port: u16,
    kind: rte_eth_event_type,
    _argument: *mut c_void,
    _result: *mut c_void,
) -> i32 {
    if let Some(flags) = FLAGS.get(usize::from(port)) {
        match kind {
            dpdk_sys::RTE_ETH_EVENT_INTR_RESET => flags.was_reset.store(true, Ordering::Release),
            dpdk_sys::RTE_ETH_EVENT_INTR_RMV => flags.was_removed.store(true, Ordering::Release),
            _ => {}
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_is_told_once_and_a_removal_for_good() {
        // The highest number is no port of any other test of this program.
        let port = u16::try_from(PORT_CAP - 1).unwrap();
        let events = DeviceEvents { port };
        assert!(!events.take_reset() && !events.was_removed());
        note(port, dpdk_sys::RTE_ETH_EVENT_INTR_RESET, ptr::null_mut(), ptr::null_mut());
        assert!(events.take_reset());
        assert!(!events.take_reset());
        note(port, dpdk_sys::RTE_ETH_EVENT_INTR_RMV, ptr::null_mut(), ptr::null_mut());
        assert!(events.was_removed() && events.was_removed());
        note(u16::MAX, dpdk_sys::RTE_ETH_EVENT_INTR_RESET, ptr::null_mut(), ptr::null_mut());
    }
}
