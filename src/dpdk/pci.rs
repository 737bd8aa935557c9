//! Whether a PCI device can be opened, asked before EAL starts: of what is missing DPDK says only that
//! there is no port.

use std::fs;
use std::path::Path;

use super::DpdkError;

/// Where the kernel shows its devices.
pub(super) const SYSFS: &str = "/sys";

/// Drivers that leave a device to DPDK.
const VFIO: &str = "vfio-pci";
const USER_SPACE: &[&str] = &[VFIO, "uio_pci_generic", "igb_uio"];

/// Drivers that share a device between the kernel and DPDK.
const SHARING: &[&str] = &["mlx4_core", "mlx5_core", "mana"];

/// Bridges of PCI Express; vfio leaves them out of a group.
const BRIDGE_DRIVER: &str = "pcieport";

/// Checks the driver and the IOMMU group of the device with this full address.
pub(super) fn check(sysfs: &Path, address: &str) -> Result<(), DpdkError> {
    let path = sysfs.join("bus/pci/devices").join(address);
    let device = || address.to_owned();
    if !path.exists() {
        return Err(DpdkError::NoSuchPciDevice { device: device() });
    }
    let driver = link(&path.join("driver"));
    let is_vfio = driver.as_deref() == Some(VFIO);
    match driver {
        Some(driver) if SHARING.contains(&driver.as_str()) => return Ok(()),
        Some(driver) if !USER_SPACE.contains(&driver.as_str()) => {
            return Err(DpdkError::KernelDriver {
                device: device(),
                driver,
                interface: interface(&path),
            });
        }
        // Without an IOMMU vfio-pci refuses every device, so the device has no driver.
        None if !has_iommu(sysfs) => return Err(DpdkError::NoIommu { device: device() }),
        None => return Err(DpdkError::NoDriver { device: device() }),
        Some(_) => {}
    }
    if !is_vfio {
        return Ok(());
    }
    let Some(group) = link(&path.join("iommu_group")) else {
        return Err(DpdkError::NoIommu { device: device() });
    };
    let members = sysfs.join("kernel/iommu_groups").join(&group).join("devices");
    for other in names(&members).into_iter().filter(|other| other != address) {
        let driver = link(&members.join(&other).join("driver"));
        if let Some(driver) = driver.filter(|driver| driver != VFIO && driver != BRIDGE_DRIVER) {
            return Err(DpdkError::GroupShared { device: device(), group, other, driver });
        }
    }
    Ok(())
}

fn has_iommu(sysfs: &Path) -> bool {
    !names(&sysfs.join("kernel/iommu_groups")).is_empty()
}

/// The kernel's interface on a device: its own, or that of the virtio device on it.
fn interface(path: &Path) -> Option<String> {
    let own = names(&path.join("net"));
    let of_virtio = names(path)
        .into_iter()
        .filter(|name| name.starts_with("virtio"))
        .flat_map(|name| names(&path.join(name).join("net")));
    own.into_iter().chain(of_virtio).next()
}

/// The name of what a link leads to.
fn link(path: &Path) -> Option<String> {
    fs::read_link(path).ok()?.file_name()?.to_str().map(str::to_owned)
}

/// What is in a folder, in order.
fn names(path: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const DEVICE: &str = "0000:3b:02.0";

    /// A machine with one device: its driver, its group with another device's driver.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(driver: Option<&str>) -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            machine.add(DEVICE, driver);
            machine
        }

        fn path(&self, path: &str) -> std::path::PathBuf {
            self.0.path().join(path)
        }

        fn add(&self, address: &str, driver: Option<&str>) {
            let device = self.path("bus/pci/devices").join(address);
            fs::create_dir_all(&device).unwrap();
            if let Some(driver) = driver {
                symlink(format!("../../../bus/pci/drivers/{driver}"), device.join("driver"))
                    .unwrap();
            }
        }

        fn group(self, members: &[&str]) -> Self {
            let folder = self.path("kernel/iommu_groups/13/devices");
            fs::create_dir_all(&folder).unwrap();
            for member in members {
                let device = self.path("bus/pci/devices").join(member);
                symlink(&device, folder.join(member)).unwrap();
                symlink("/x/iommu_groups/13", device.join("iommu_group")).unwrap();
            }
            self
        }

        fn said(&self) -> String {
            check(self.0.path(), DEVICE).map_or_else(|error| error.to_string(), |()| "ok".into())
        }
    }

    #[test]
    fn a_device_of_vfio_in_a_group_of_its_own_can_be_opened() {
        assert_eq!(Machine::new(Some("vfio-pci")).group(&[DEVICE]).said(), "ok");
        assert_eq!(Machine::new(Some("uio_pci_generic")).said(), "ok", "it needs no group");
        assert_eq!(Machine::new(Some("mlx5_core")).said(), "ok", "it shares");
    }

    #[test]
    fn the_kernels_driver_is_named_with_its_interface() {
        let machine = Machine::new(Some("igbvf")).group(&[DEVICE]);
        fs::create_dir_all(machine.path("bus/pci/devices/0000:3b:02.0/net/eth3")).unwrap();
        assert_eq!(
            machine.said(),
            "PCI device 0000:3b:02.0 is still driven by the kernel (igbvf, interface eth3); run \
             `scripts/setup-host --bind 0000:3b:02.0` to give it to vfio-pci"
        );
        let machine = Machine::new(Some("virtio-pci")).group(&[DEVICE]);
        fs::create_dir_all(machine.path("bus/pci/devices/0000:3b:02.0/virtio1/net/eth0")).unwrap();
        assert!(machine.said().contains("(virtio-pci, interface eth0)"), "{}", machine.said());
    }

    #[test]
    fn without_a_driver_it_is_the_iommu_or_nobody_bound_it() {
        assert!(Machine::new(None).said().starts_with("this machine has no IOMMU"));
        assert!(Machine::new(None).group(&[DEVICE]).said().contains("has no driver"));
        assert!(Machine::new(Some("vfio-pci")).said().starts_with("this machine has no IOMMU"));
    }

    #[test]
    fn a_group_is_taken_as_a_whole() {
        for (driver, expected) in [
            (Some("vfio-pci"), "ok"),
            (Some("pcieport"), "ok"),
            (None, "ok"),
            (Some("ixgbe"), "shares IOMMU group 13 with 0000:3b:02.1, which ixgbe has"),
        ] {
            let machine = Machine::new(Some("vfio-pci"));
            machine.add("0000:3b:02.1", driver);
            let said = machine.group(&[DEVICE, "0000:3b:02.1"]).said();
            assert!(said.contains(expected), "{driver:?}: {said}");
        }
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let machine = Machine::new(None);
        assert!(matches!(
            check(machine.0.path(), "0000:00:1f.7"),
            Err(DpdkError::NoSuchPciDevice { .. })
        ));
    }
}
