"""Bad input on real devices: one sentence that says what to run, and exit code 1."""

import unittest

from guest import (
    FUNCTION_MACS, PACKET_MEMORY, WIRE_VLANS, NicPorts, command, functions, interface, nics, setup_host
)
from refusal import FREE_HUGEPAGES, NR_HUGEPAGES, RefusalCase, driver, number

class Refusals(RefusalCase):
    """The daemon."""

    def bound(self, nic):
        """Ports on this NIC, bound to vfio."""
        return NicPorts([(nic.address, None, None)], with_recipe=False)

    def test_device_still_bound_to_the_kernels_driver(self):
        ports = self.bound(nics.SERVICE)
        setup_host("--release", nics.SERVICE.address)
        self.assertEqual(driver(nics.SERVICE.address), "virtio-pci")
        self.refused(ports, (nics.SERVICE.address, "driven by the kernel", interface(nics.SERVICE),
                             f"scripts/setup-host --bind {nics.SERVICE.address}"))
        # What the sentence says to run is the mend.
        code, said = setup_host("--bind", nics.SERVICE.address)
        self.assertEqual((code, driver(nics.SERVICE.address)), (0, "vfio-pci"), said)

    def test_device_without_a_driver(self):
        ports = self.bound(nics.SERVICE)
        with open(f"/sys/bus/pci/devices/{nics.SERVICE.address}/driver/unbind", "w", encoding="ascii") as file:
            file.write(nics.SERVICE.address)
        self.refused(ports, ("has no driver", f"scripts/setup-host --bind {nics.SERVICE.address}"))

    def test_no_hugepages(self):
        ports = self.bound(nics.SERVICE)
        before = number(NR_HUGEPAGES)
        self.addCleanup(command, "sh", "-c", f"echo {before} > {NR_HUGEPAGES}")
        command("sh", "-c", f"echo 0 > {NR_HUGEPAGES}")
        self.refused(ports, ("hugepages", f"echo {PACKET_MEMORY // 2} > {NR_HUGEPAGES}"))

    def test_more_workers_than_queues(self):
        self.refused(self.bound(nics.SERVICE), ("1 queue pairs", "2 are needed", "`[cpu] workers` to 1"),
                     workers=[0, 1])

    def test_address_that_the_physical_function_forbids(self):
        physical, addresses = functions(*WIRE_VLANS)
        ports = NicPorts([(addresses[0], None, None)], with_recipe=False)
        self.refused(ports, ("02:00:00:00:00:99", f"only {FUNCTION_MACS[0]}",
                             f"ip link set {physical} vf 0 mac 02:00:00:00:00:99"),
                     port_keys=('mac = "02:00:00:00:00:99"',))


class SetupHost(unittest.TestCase):
    """scripts/setup-host itself."""

    def test_dry_run_changes_nothing(self):
        setup_host("--release", nics.BACKENDS.address)
        before = number(NR_HUGEPAGES)
        wanted = 2 * (number(FREE_HUGEPAGES) + 10)
        code, said = setup_host("--dry-run", "--hugepages", str(wanted), "--bind", nics.BACKENDS.address)
        self.assertEqual(code, 0, said)
        self.assertIn(f"> /sys/bus/pci/devices/{nics.BACKENDS.address}/driver_override", said)
        self.assertIn(f"> {NR_HUGEPAGES}", said)
        self.assertEqual((number(NR_HUGEPAGES), driver(nics.BACKENDS.address)), (before, "virtio-pci"))

    def test_bind_and_release_twice_over(self):
        address = nics.BACKENDS.address
        for word in ("done", "ok"):
            code, said = setup_host("--bind", address)
            self.assertEqual((code, driver(address)), (0, "vfio-pci"), said)
            self.assertRegex(said, f"{word} +{address} is bound to vfio-pci")
        for word in ("done", "ok"):
            code, said = setup_host("--release", address)
            self.assertEqual((code, driver(address)), (0, "virtio-pci"), said)

    def test_an_interface_in_use_is_left_alone(self):
        setup_host("--release", nics.BACKENDS.address)
        name = interface(nics.BACKENDS)
        command("ip", "address", "add", "192.0.2.77/24", "dev", name)
        self.addCleanup(command, "ip", "address", "flush", "dev", name, check=False)
        code, said = setup_host("--bind", nics.BACKENDS.address)
        self.assertEqual((code, driver(nics.BACKENDS.address)), (1, "virtio-pci"), said)
        self.assertIn("192.0.2.77", said)
        code, said = setup_host("--force", "--bind", nics.BACKENDS.address)
        self.assertEqual((code, driver(nics.BACKENDS.address)), (0, "vfio-pci"), said)
        self.addCleanup(setup_host, "--release", nics.BACKENDS.address)

    def test_what_cannot_be_is_said(self):
        for words, text in (
            (("--bind", "0000:7f:1f.7"), "no PCI device"),
            (("--functions", "lo=2"), "no SR-IOV"),
            (("/nonexistent.toml",), "cannot be used"),
        ):
            code, said = setup_host(*words)
            self.assertEqual(code, 1, said)
            self.assertIn(text, said)
