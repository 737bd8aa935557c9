"""What the cases of bad input share: a daemon that is expected to refuse."""

import os
import subprocess
import unittest

import plan
from appliance import Appliance
from lab import Lab

NR_HUGEPAGES = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
FREE_HUGEPAGES = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"


def number(path):
    """A number that the kernel shows."""
    with open(path, encoding="ascii") as file:
        return int(file.read())


def driver(address):
    """The name of a device's driver, or None."""
    try:
        return os.path.basename(os.readlink(f"/sys/bus/pci/devices/{address}/driver"))
    except OSError:
        return None


class Here:
    """A lab without wires: the daemon that refuses runs in the guest's own network namespace."""

    variant = plan.ONE_ARM

    def __init__(self, ports):
        self.ports = ports
        self.lab = Lab()
        self.path = self.lab.path

    def popen(self, role, *words, **options):
        """As the lab's, but here."""
        del role
        return subprocess.Popen(words, **options)

    def down(self):
        """Removes the lab's directory; it has nothing else."""
        self.lab.down()


class RefusalCase(unittest.TestCase):
    """A daemon that ends with one sentence."""

    def refused(self, ports, words, **settings):
        """The daemon says one sentence with these words, and ends with 1."""
        here = Here(ports)
        self.addCleanup(here.down)
        appliance = Appliance(here, **settings)
        code, said = appliance.try_start()
        self.assertEqual(code, 1, said)
        errors = [line for line in said.splitlines() if "ERROR" in line]
        self.assertEqual(len(errors), 1, said)
        self.assertNotIn("panicked", said)
        for word in words:
            self.assertIn(word, errors[0])
        self.assertFalse(os.path.exists(appliance.socket), "no socket stays behind")
        print(f"        {errors[0].split('ERROR')[1].strip()}", flush=True)
