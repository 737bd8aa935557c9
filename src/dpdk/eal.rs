//! EAL: DPDK's start, once a process.

use std::ffi::{CString, c_char};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::device::Device;
use super::log::{self, Lines};
use super::{DpdkError, hugepages, last_error_text, pci};

/// What EAL is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EalConfig {
    /// The core that the management thread runs on.
    pub management_core: usize,
    /// Whether packet memory comes from hugepages. Without them only virtual devices work.
    pub hugepages: bool,
    /// Packet memory in MiB, taken at start.
    pub packet_memory_mib: u32,
    /// Every device that will be a port: a PCI address (`0000:3b:02.0`) or a virtual device with
    /// its arguments (`net_af_packet0,iface=eth1`), told apart by their syntax. No other device of
    /// the machine is touched.
    pub devices: Vec<String>,
}

/// The proof that DPDK runs. There is one a process, and it is never undone.
#[derive(Debug)]
pub struct Eal {
    /// What DPDK logged while it looked for devices.
    probe_log: Lines,
    /// Bit n: DPDK's port n has a [`Port`](super::Port). Written by: whoever starts or stops one.
    pub(super) started_ports: AtomicU32,
    /// How many pools there are, and whether there may be more; see [`super::mempool`].
    pub(super) pools: AtomicU32,
}

static EAL: OnceLock<Eal> = OnceLock::new();
static ATTEMPTED: AtomicBool = AtomicBool::new(false);

impl Eal {
    /// Starts DPDK on the calling thread, which is the management thread.
    ///
    /// Call it once, before anything else of DPDK, after the process narrowed its affinity to the
    /// management core: EAL's helper threads inherit that affinity, and must not run on a worker's
    /// core.
    ///
    /// # Errors
    ///
    /// What can be seen beforehand is told without starting EAL: a core that is not online, a
    /// device string of neither form, a device named twice, a PCI address without a device, too
    /// few free hugepages. After that, what EAL itself refuses, such as a virtual device of a
    /// driver that does not exist. A device that its driver could not open is no error here, but
    /// [`DpdkError::DeviceNotFound`] when its port is started.
    pub fn init(config: &EalConfig) -> Result<&'static Self, DpdkError> {
        let devices = check(config)?;
        if ATTEMPTED.swap(true, Ordering::AcqRel) {
            return Err(DpdkError::AlreadyInitialised);
        }
        let (result, lines) = log::captured(|| start(&arguments(config, &devices)));
        if let Err(reason) = result {
            return Err(DpdkError::EalStart { reason, detail: lines.first() });
        }
        Ok(EAL.get_or_init(|| Self {
            probe_log: lines,
            started_ports: AtomicU32::new(0),
            pools: AtomicU32::new(0),
        }))
    }

    /// What DPDK said about a device while it looked for devices.
    pub(super) fn probe_complaint(&self, device: &str) -> Option<String> {
        self.probe_log.about(device).or_else(|| self.probe_log.first())
    }
}

/// What can be told before EAL starts.
fn check(config: &EalConfig) -> Result<Vec<Device>, DpdkError> {
    if let Ok(online) = fs::read_to_string("/sys/devices/system/cpu/online")
        && !list_contains(&online, config.management_core)
    {
        let online = online.trim().to_owned();
        return Err(DpdkError::NoSuchCore { core: config.management_core, online });
    }
    let mut checked: Vec<Device> = Vec::new();
    for text in &config.devices {
        let device = Device::parse(text)?;
        if checked.iter().any(|other| other.name() == device.name()) {
            return Err(DpdkError::DuplicateDevice { device: device.name().to_owned() });
        }
        if let Device::Pci { name, .. } = &device {
            if !config.hugepages {
                return Err(DpdkError::PciNeedsHugepages { device: name.clone() });
            }
            pci::check(Path::new(pci::SYSFS), name)?;
        }
        checked.push(device);
    }
    if config.hugepages {
        hugepages::check(Path::new(hugepages::SYSFS), config.packet_memory_mib.into())?;
    }
    Ok(checked)
}

/// Whether a list of the kernel's form (`0-3,8`) contains a number.
fn list_contains(ranges: &str, number: usize) -> bool {
    ranges.trim().split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) => (first..=last).contains(&number),
            _ => false,
        }
    })
}

/// EAL's command line.
fn arguments(config: &EalConfig, devices: &[Device]) -> Vec<String> {
    let mut arguments = vec![
        "lodestone".to_owned(),
        // Lcore 0 on the management core, by number: `-l` stops at RTE_MAX_LCORE, machines do not.
        format!("--lcores=0@{}", config.management_core),
        // Nothing is shared with another process: no files, no sockets, no secondary.
        "--no-shconf".to_owned(),
        "--no-telemetry".to_owned(),
        "--log-level=error".to_owned(),
        format!("-m{}", config.packet_memory_mib),
    ];
    // The two exclude one another. In-memory hugepages need no hugetlbfs mount and vanish with the
    // process.
    arguments.push(if config.hugepages { "--in-memory" } else { "--no-huge" }.to_owned());
    let mut has_pci = false;
    for device in devices {
        match device {
            Device::Pci { argument, .. } => {
                has_pci = true;
                arguments.push(format!("--allow={argument}"));
            }
            Device::Virtual { argument, .. } => arguments.push(format!("--vdev={argument}")),
        }
    }
    if !has_pci {
        arguments.push("--no-pci".to_owned());
    }
    arguments
}

/// Calls `rte_eal_init`; the error is the text of its error number.
fn start(arguments: &[String]) -> Result<(), String> {
    let mut pointers: Vec<*mut c_char> = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let argument = CString::new(argument.as_str())
            .map_err(|_| format!("argument `{argument}` has a NUL byte"))?;
        // Leaked on purpose: EAL keeps pointers into some of them.
        pointers.push(argument.into_raw());
    }
    let count = i32::try_from(pointers.len()).map_err(|_| "too many devices".to_owned())?;
    // argv ends with a null pointer (C11 §5.1.2.2.1).
    pointers.push(std::ptr::null_mut());
    let argv = pointers.leak();
    // SAFETY: `argv` has `count` writable C strings and a final null, all valid until exit, and
    // `ATTEMPTED` makes this the only call in the process.
    let parsed = unsafe { dpdk_sys::rte_eal_init(count, argv.as_mut_ptr()) };
    if parsed < 0 { Err(last_error_text()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(devices: &[&str]) -> EalConfig {
        EalConfig {
            management_core: 0,
            hugepages: false,
            packet_memory_mib: 64,
            devices: devices.iter().map(|&device| device.to_owned()).collect(),
        }
    }

    #[test]
    fn without_a_pci_device_the_bus_is_left_alone() {
        let config = config(&["net_null0,size=64", "net_ring0"]);
        let devices = check(&config).unwrap();
        let line = arguments(&config, &devices).join(" ");
        assert!(line.contains("--no-pci") && line.contains("--no-huge"), "{line}");
        assert!(line.contains("--vdev=net_null0,size=64 --vdev=net_ring0"), "{line}");
        assert!(!line.contains("--allow"), "{line}");
    }

    #[test]
    fn only_the_named_pci_devices_are_probed() {
        let mut config = config(&[]);
        config.hugepages = true;
        let devices = [Device::parse("3b:02.0").unwrap()];
        let line = arguments(&config, &devices).join(" ");
        assert!(line.contains("--allow=0000:3b:02.0") && line.contains("--in-memory"), "{line}");
        assert!(!line.contains("--no-pci") && !line.contains("--no-huge"), "{line}");
    }

    #[test]
    fn mistakes_are_told_before_eal_starts() {
        let mut no_core = config(&[]);
        no_core.management_core = 100_000;
        for (config, needle) in [
            (no_core, "core 100000 does not exist"),
            (config(&["net_null0", "net_null0,size=64"]), "`net_null0` is named twice"),
            (config(&["0000:3b:02.0"]), "needs hugepages"),
            (config(&["eth0"]), "neither a PCI address"),
        ] {
            let error = Eal::init(&config).unwrap_err().to_string();
            assert!(error.contains(needle), "{error}");
        }
    }

    #[test]
    fn kernel_lists_are_read() {
        assert!(list_contains("0-3,8\n", 3));
        assert!(list_contains("0-3,8\n", 8));
        assert!(!list_contains("0-3,8\n", 4));
        assert!(!list_contains("", 0));
    }
}
