"""A machine without IOMMU, as most clouds' guests are: vfio-pci is refused with a sentence, and
uio_pci_generic carries traffic."""

from guest import GuestCase, command, nics, setup_host, virtio_one_arm
from refusal import RefusalCase, driver


class Refused(RefusalCase):
    """What setup-host and the daemon say."""

    def test_vfio_is_refused(self):
        address = nics.BACKENDS.address
        code, said = setup_host("--bind", address)
        self.assertEqual((code, driver(address)), (1, "virtio-pci"), said)
        self.assertIn("this machine has no IOMMU", said)
        self.assertIn("--driver uio_pci_generic", said)
        # The daemon says so too, to who went past the script.
        command("modprobe", "vfio-pci")
        command("sh", "-c", f"echo vfio-pci > /sys/bus/pci/devices/{address}/driver_override; "
                f"echo {address} > /sys/bus/pci/devices/{address}/driver/unbind; "
                f"echo {address} > /sys/bus/pci/drivers_probe", check=False)
        self.addCleanup(setup_host, "--release", address)
        self.refused(Wanted(address), ("this machine has no IOMMU", "scripts/setup-host"))


class Wanted:
    """A port on a device that nobody bound."""

    settings = {"hugepages": True, "packet_memory": 192}
    carrier_mtu = 1600

    def __init__(self, address):
        setup_host("--hugepages", "192")
        self.address = address

    def device(self, *_):
        """The PCI address."""
        return self.address

    def unplug(self, lab):
        """Nothing was plugged."""


def uio():
    """A virtio NIC by uio_pci_generic."""
    return virtio_one_arm(driver="uio_pci_generic")


class Uio(GuestCase):
    """Traffic without an IOMMU."""

    ports = uio

    def test_tcp_over_both_families(self):
        for family in (4, 6):
            self.ask_until_all_served(family)
            self.curl(family, "/big", "-o", "/dev/null", limit=60)
