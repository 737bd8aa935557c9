//! What can go wrong with DPDK, in sentences that say the mend.

use std::io;

use crate::packet::MacAddress;

/// Why a part of DPDK did not start.
#[derive(Debug, thiserror::Error)]
pub enum DpdkError {
    /// EAL starts once a process, even if it failed.
    #[error("EAL was started before in this process; it starts only once, so restart the program")]
    AlreadyInitialised,

    /// The management core is not there.
    #[error("core {core} does not exist (online: {online}); correct `[cpu] management`")]
    NoSuchCore {
        /// What was asked for.
        core: usize,
        /// The kernel's list, as in `0-3,8`.
        online: String,
    },

    /// Two devices could not be connected by rings.
    #[error(
        "the devices {names} could not be connected by rings of {len} packets ({reason}); give \
         them other names, or a length that is a power of two"
    )]
    Rings {
        /// Their names.
        names: String,
        /// Packets that each ring holds.
        len: u32,
        /// DPDK's reason.
        reason: String,
    },

    /// The device string has neither form.
    #[error(
        "`{device}` is neither a PCI address such as `0000:3b:02.0` nor a virtual device such as \
         `net_af_packet0,iface=eth1`; correct `[[port]] device`"
    )]
    BadDevice {
        /// What was asked for.
        device: String,
    },

    /// Two ports have one device.
    #[error("device `{device}` is named twice; give each `[[port]]` a device of its own")]
    DuplicateDevice {
        /// Its name, without arguments.
        device: String,
    },

    /// There is no such PCI function.
    #[error(
        "no PCI device has the address {device}; look for the right one with \
         `dpdk-devbind.py --status` and correct `[[port]] device`"
    )]
    NoSuchPciDevice {
        /// The full address.
        device: String,
    },

    /// The kernel's own driver has the device.
    #[error(
        "PCI device {device} is still driven by the kernel ({driver}{}); run `scripts/setup-host --bind \
         {device}` to give it to vfio-pci", .interface.as_ref().map(|name| format!(", interface {name}")).unwrap_or_default()
    )]
    KernelDriver {
        /// The full address.
        device: String,
        /// The driver.
        driver: String,
        /// The kernel's interface on it.
        interface: Option<String>,
    },

    /// No driver has the device.
    #[error(
        "PCI device {device} has no driver; run `scripts/setup-host --bind {device}` to give it to vfio-pci"
    )]
    NoDriver {
        /// The full address.
        device: String,
    },

    /// vfio needs an IOMMU.
    #[error(
        "this machine has no IOMMU, which vfio-pci needs for PCI device {device}; turn it on in the firmware \
         and add `intel_iommu=on iommu=pt` (AMD: `iommu=pt`) to the kernel command line, or in a guest run \
         `scripts/setup-host --driver uio_pci_generic --bind {device}`"
    )]
    NoIommu {
        /// The full address.
        device: String,
    },

    /// vfio opens a group of devices only as a whole.
    #[error(
        "PCI device {device} shares IOMMU group {group} with {other}, which {driver} has, and vfio takes \
         only both; run `scripts/setup-host --bind {device} {other}`, or put the card into another slot"
    )]
    GroupShared {
        /// The full address.
        device: String,
        /// The group.
        group: String,
        /// The other device.
        other: String,
        /// Its driver.
        driver: String,
    },

    /// A real device was asked for without hugepages.
    #[error(
        "PCI device {device} needs hugepages; set `[memory] hugepages = true` (without them only \
         virtual devices work)"
    )]
    PciNeedsHugepages {
        /// The full address.
        device: String,
    },

    /// Not enough hugepages are free.
    #[error(
        "{free_mib} MiB of hugepages are free but `[memory] packet_memory` asks for {wanted_mib} \
         MiB; run `echo {page_count} > \
         /sys/kernel/mm/hugepages/hugepages-{page_kib}kB/nr_hugepages`, or set `[memory] \
         hugepages = false` if all ports are virtual devices"
    )]
    NoHugepages {
        /// What is free, in MiB.
        free_mib: u64,
        /// What was asked for, in MiB.
        wanted_mib: u64,
        /// Pages to ask the kernel for.
        page_count: u64,
        /// Their size in KiB.
        page_kib: u64,
    },

    /// `rte_eal_init` failed.
    #[error(
        "DPDK did not start: {reason}{}; mend what it names and start again", said(.detail.as_ref())
    )]
    EalStart {
        /// The text of its error number.
        reason: String,
        /// What it logged first.
        detail: Option<String>,
    },

    /// A pool was not made.
    #[error(
        "packet pool `{name}` of {mbuf_count} buffers ({wanted_mib} MiB) was not made: {reason}; \
         raise `[memory] packet_memory`"
    )]
    PoolCreate {
        /// Its name.
        name: String,
        /// Its size in buffers.
        mbuf_count: u32,
        /// Its size in MiB, rounded up.
        wanted_mib: u64,
        /// The text of the error number.
        reason: String,
    },

    /// A pool's name or size is out of range.
    #[error(
        "packet pool `{name}` cannot be made; give it a name of 1 to 25 bytes without NUL, and at \
         least one buffer"
    )]
    BadPool {
        /// Its name.
        name: String,
    },

    /// A port frees its buffers on the promise that there is one pool.
    #[error(
        "a packet pool was asked for after a port had started; make all pools before all ports"
    )]
    PoolAfterPort,

    /// EAL has no device of that name.
    #[error(
        "port `{port}`: device `{device}` was not found by DPDK{}; check `[[port]] device` (a PCI device must be \
         bound to `vfio-pci`, an interface named in `iface=` must exist)", said(.detail.as_ref())
    )]
    DeviceNotFound {
        /// Name of the port.
        port: String,
        /// The device string.
        device: String,
        /// What DPDK logged about it.
        detail: Option<String>,
    },

    /// The device has a [`Port`](super::Port) already.
    #[error("device `{device}` is in use by another port; name it once")]
    DeviceTaken {
        /// Its name, without arguments.
        device: String,
    },

    /// One queue a worker is more than there are.
    #[error(
        "port `{port}` (device `{device}`) has {offered} queue pairs but {wanted} are needed, one a \
         worker; lower the number of `[cpu] workers` to {offered}, or give the device more queues"
    )]
    TooFewQueues {
        /// Name of the port.
        port: String,
        /// Its device.
        device: String,
        /// Queue pairs asked for.
        wanted: u16,
        /// The smaller of its RX and TX queue limits.
        offered: u16,
    },

    /// The device fills more queues than there are workers to poll them.
    #[error(
        "port `{port}` (device `{device}`) receives on {queues} queues but there are {workers} \
         workers: what comes to the others would be lost; set `qpairs={workers}` in `[[port]] \
         device`, or name {queues} `[cpu] workers`"
    )]
    UnpolledQueues {
        /// Name of the port.
        port: String,
        /// Its device.
        device: String,
        /// Queues that packets come to.
        queues: u16,
        /// Queues that are polled: one a worker.
        workers: u16,
    },

    /// No queues, or no descriptors.
    #[error(
        "port `{port}` was asked to start without queues; name at least one of `[cpu] workers`"
    )]
    NoQueues {
        /// Name of the port.
        port: String,
    },

    /// The device or the packet pool cannot carry the MTU.
    #[error("port `{port}` cannot have an MTU of {mtu}: {reason}; correct `[[port]] mtu`")]
    MtuRefused {
        /// Name of the port.
        port: String,
        /// What was asked for.
        mtu: u16,
        /// The range, or the text of the error number.
        reason: String,
    },

    /// The device keeps its own MAC address.
    #[error("port `{port}` does not let its MAC address be set: {reason}; remove `[[port]] mac`")]
    MacRefused {
        /// Name of the port.
        port: String,
        /// The text of the error number.
        reason: String,
    },

    /// The physical function holds a virtual one to another MAC address.
    #[error(
        "port `{port}` has the MAC address {mac}, but its physical function {physical} lets it use only \
         {held}; run `ip link set {physical} vf {number} mac {mac}`, or remove `[[port]] mac`"
    )]
    MacHeld {
        /// Name of the port.
        port: String,
        /// What was asked for.
        mac: MacAddress,
        /// What is allowed.
        held: MacAddress,
        /// Interface of the physical function.
        physical: String,
        /// Number of the virtual one.
        number: u32,
    },

    /// The device filters VLANs, and does not let this one in.
    #[error(
        "port `{port}` does not let VLAN {vlan} in: {reason}; remove `[[port]] vlan` if the host tags its \
         frames, or allow the VLAN there"
    )]
    VlanRefused {
        /// Name of the port.
        port: String,
        /// What was asked for.
        vlan: u16,
        /// The text of the error number.
        reason: String,
    },

    /// Another step of starting the port failed.
    #[error(
        "port `{port}` (device `{device}`) did not start: {step} failed: {reason}{}; check that no \
         other program uses the device and that `[memory] packet_memory` is large enough",
        said(.detail.as_ref())
    )]
    PortStart {
        /// Name of the port.
        port: String,
        /// Its device.
        device: String,
        /// Which step.
        step: &'static str,
        /// The text of the error number.
        reason: String,
        /// What DPDK logged first.
        detail: Option<String>,
    },

    /// A port is stopped only by who holds all its queues.
    #[error("port `{port}` still has queues in use; stop every worker and hand all of them back")]
    QueuesInUse {
        /// Name of the port.
        port: String,
    },

    /// The device did not stop.
    #[error("port `{port}` did not stop: {reason}; its device is released when the program ends")]
    PortStop {
        /// Name of the port.
        port: String,
        /// The text of the error number.
        reason: String,
    },

    /// The thread has an lcore id already.
    #[error("this thread is registered with EAL already (lcore {lcore}); register it once")]
    ThreadRegistered {
        /// The id it has.
        lcore: u32,
    },

    /// EAL has no lcore id left, or refuses threads.
    #[error(
        "a worker thread could not be registered with EAL: {reason}; use fewer `[cpu] workers`"
    )]
    ThreadRefused {
        /// The text of the error number.
        reason: String,
    },

    /// Memory for a large table was not to be had.
    #[error(
        "{mib} MiB of memory for a table could not be had ({source}); lower `[conntrack] \
         ipv4_flows` or `ipv6_flows`, or add memory"
    )]
    Storage {
        /// Size in MiB, rounded up.
        mib: usize,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// What DPDK logged, as a subordinate clause.
fn said(detail: Option<&String>) -> String {
    detail.map(|line| format!(" (DPDK says: {line})")).unwrap_or_default()
}
