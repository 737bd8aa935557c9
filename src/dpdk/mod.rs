//! The safe wrapper over DPDK, and the only module with `unsafe`.
//!
//! Ownership is the contract (`docs/decisions`): [`Eal`] starts once a process and every
//! constructor takes it; [`Mempool`]s and [`Port`]s live until exit, because EAL cannot be started
//! again and a pool must outlive the device that holds its buffers; an [`Mbuf`] has one owner and
//! frees itself; a [`RxQueue`] or [`TxQueue`] exists once and is used through `&mut`, so that one
//! thread at a time polls it. What could not be sent stays in the caller's [`Burst`].
//!
//! Order of calls at start: narrow the process to the management core, [`Eal::init`],
//! [`Mempool::new`], [`Port::start`] for each port, then one thread a worker, each of which calls
//! [`ThreadRegistration::new`] before its first burst.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod capability;
mod cycles;
mod device;
mod device_events;
mod eal;
mod error;
mod gate;
mod hugepages;
mod kernel_mtu;
mod log;
mod mbuf;
mod memory;
mod mempool;
mod pci;
mod pooled;
mod port;
mod port_start;
mod prefetch;
mod queue;
mod restart;
mod ring;
mod rss;
mod thread;
mod virtual_function;

pub use capability::{Capabilities, DoneBy, Feature};
pub use cycles::{Clock, cycles, tsc_hz};
pub use eal::{Eal, EalConfig};
pub use error::DpdkError;
pub use mbuf::{BURST, Burst, Mbuf, free_burst};
pub use memory::zeroed_storage;
pub use mempool::{Mempool, MempoolConfig};
pub use pooled::PooledQueues;
pub use port::{LinkStatus, Port, PortStats};
pub use port_start::PortConfig;
pub use prefetch::{HardwarePrefetch, prefetch_read};
pub use queue::{QueuePair, RxQueue, TxQueue};
pub use restart::{Restart, Tending};
pub use ring::connected_rings;
pub use rss::{Rss, RssLayout, RssTypes};
pub use thread::{LcoreId, ThreadRegistration};

use std::ffi::CStr;

/// A NUMA node, as the kernel numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NumaNode(pub u16);

/// `rte_strerror` of an error number, of either sign.
fn error_text(number: i32) -> String {
    // SAFETY: takes any number and returns a string that is valid until this thread's next call.
    let text = unsafe { dpdk_sys::rte_strerror(number.saturating_abs()) };
    // SAFETY: as said, it is a valid string, and it is copied before anything else is called.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// The text of the calling thread's `rte_errno`.
fn last_error_text() -> String {
    // SAFETY: reads a thread-local integer.
    let number = unsafe { dpdk_sys::lodestone_rte_errno() };
    error_text(number)
}
