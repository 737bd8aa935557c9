"""What the cases in the guest share: the appliance's ports as NICs, and cables that can be pulled."""

import contextlib
import glob
import os
import re
import select
import socket
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "lab"), os.path.join(ROOT, "scripts", "vm")]

import network  # noqa: E402
import nics  # noqa: E402
import plan  # noqa: E402
import support  # noqa: E402
import wiring  # noqa: E402
from support import LabCase, wait_until  # noqa: E402

SETUP_HOST = os.path.join(ROOT, "scripts", "setup-host")
RECIPE = os.path.join(ROOT, "docs", "backends.md")
PACKET_MEMORY = 192
# An emulated CPU is slow: what the lab asks for in milliseconds would be missed for no fault.
PROBE_INTERVAL, PROBE_TIMEOUT = 2.0, 2.0


def recipe():
    """The commands of docs/backends.md, as a reader copies them."""
    with open(RECIPE, encoding="utf-8") as file:
        return re.search(r"```sh\n(.*?)```", file.read(), re.DOTALL)[1]


def command(*words, check=True):
    """Runs a command of the guest to its end; returns what it wrote."""
    result = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    if check and result.returncode != 0:
        raise RuntimeError(f"`{' '.join(words)}` failed: {result.stdout.strip()}")
    return result.stdout


def setup_host(*words):
    """Runs scripts/setup-host; (exit code, what it said)."""
    result = subprocess.run([SETUP_HOST, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    return result.returncode, result.stdout


def interfaces(address):
    """The kernel's interfaces on a PCI device, in the guest's first network namespace."""
    path = f"/sys/bus/pci/devices/{address}"
    return [os.path.basename(found)
            for found in glob.glob(f"{path}/net/*") + glob.glob(f"{path}/virtio*/net/*")]


def interface(nic, seconds=10):
    """The kernel's interface on a NIC; it comes back a moment after its namespace went."""
    return wait_until(lambda: interfaces(nic.address), seconds, f"{nic.name} has an interface")[0]


class Wires:
    """The cables of the guest's NICs, which its host holds."""

    def __init__(self):
        for port in os.listdir("/sys/class/virtio-ports"):
            with open(f"/sys/class/virtio-ports/{port}/name", encoding="ascii") as file:
                if file.read().strip() == "lodestone.wires":
                    self.device = f"/dev/{port}"

    def set(self, nic, state):
        """Plugs (`up`) or pulls (`down`) the cable of a NIC."""
        with open(self.device, "r+b", buffering=0) as port:
            port.write(f"{nic.name} {state}\n".encode())
            answer = port.readline().decode().strip()
        if answer != "done":
            raise RuntimeError(f"cable of {nic.name}: {answer}")


class NicPorts(wiring.PacketSockets):
    """Ports are NICs, bound to vfio by scripts/setup-host; each has a peer that the kernel drives.

    `pairs` are (the port's PCI address, the peer's interface in the guest, VLAN of the peer or None).
    """

    def __init__(self, pairs, mtu=1500, with_recipe=True, driver="vfio-pci"):
        self.pairs = pairs
        self.mtu = mtu
        self.recipe = recipe() if with_recipe else None
        self.driver = driver
        self.taken = []
        self.settings = {"hugepages": True, "packet_memory": PACKET_MEMORY, "interval": PROBE_INTERVAL,
                         "timeout": PROBE_TIMEOUT}
        code, said = setup_host("--hugepages", str(PACKET_MEMORY), "--driver", driver,
                                "--bind", *(address for address, *_ in pairs))
        if code != 0:
            raise RuntimeError(f"setup-host failed:\n{said}")

    def plug(self, lab, index, name, bridge):
        """Moves the port's peer into the switch."""
        _, peer, vlan = self.pairs[index]
        switch, end = lab.namespaces["switch"], f"lb-{name}"
        if vlan is None:
            network.run("ip", "link", "set", peer, "netns", switch.name, "name", end)
            self.taken.append((end, peer))
        else:
            network.run("ip", "link", "set", peer, "up", "mtu", str(self.carrier_mtu + 4))
            network.run("ip", "link", "add", "link", peer, "name", end, "type", "vlan", "id", str(vlan))
            network.run("ip", "link", "set", end, "netns", switch.name)
        network.without_offloads(switch, end)
        switch.ip("link", "set", end, "mtu", str(self.carrier_mtu), "master", bridge, "up")

    def unplug(self, lab):
        """Gives the peers back: a NIC would come back by itself, but later, and with another name."""
        for end, peer in self.taken:
            switch = lab.namespaces["switch"]
            with contextlib.suppress(network.CommandFailed):
                switch.ip("link", "set", end, "down")
                switch.ip("link", "set", end, "netns", "1", "name", peer)
        self.taken = []

    def device(self, index, name, queues):
        """The device string: the PCI address."""
        del name, queues
        return self.pairs[index][0]


def virtio(*pairs, **settings):
    """Ports of (NIC, its peer) each."""
    return NicPorts([(nic.address, interface(peer), None) for nic, peer in pairs], **settings)


def virtio_one_arm(**settings):
    """One virtio NIC toward clients and backends."""
    return virtio((nics.SERVICE, nics.SERVICE_PEER), **settings)


def virtio_two_arms(**settings):
    """One toward clients, one toward backends."""
    return virtio((nics.SERVICE, nics.SERVICE_PEER), (nics.BACKENDS, nics.BACKENDS_PEER), **settings)


class GuestCase(LabCase):
    """A lab whose appliance runs on NICs."""

    def port_row(self, name="service"):
        """`lodectl show ports`, one row."""
        return next(row for row in self.appliance.show("show", "ports")["ports"] if row["name"] == name)

    def curl_until_answered(self, family, seconds):
        """Requests until one is answered; returns the seconds that took."""
        begin = time.monotonic()
        while True:
            host = plan.VIP4 if family == 4 else f"[{plan.VIP6}]"
            result = self.lab.run("client", "curl", "-q", "-sS", "--noproxy", "*", "--fail",
                                  "--connect-timeout", "1", "--max-time", "3", f"http://{host}/")
            passed = time.monotonic() - begin
            if result.returncode == 0:
                return passed
            if passed > seconds:
                self.fail(f"no answer over IPv{family} for {passed:.1f} s: {result.stderr}")


class Pulse(threading.Thread):
    """Datagrams of one flow to an echo server behind the VIP, at a steady pace, and when they came back."""

    PACE = 0.02

    def __init__(self, lab, family, port):
        super().__init__(daemon=True)
        with support.inside(lab, "client"):
            self.socket = socket.socket(support.FAMILY[family], socket.SOCK_DGRAM)
        self.socket.connect((support.VIP[family], port))
        self.ends = threading.Event()
        self.sent = 0
        self.answers = []

    def run(self):
        while not self.ends.is_set():
            with contextlib.suppress(OSError):
                self.socket.send(b"%d" % self.sent)
            self.sent += 1
            due = time.monotonic() + self.PACE
            while (rest := due - time.monotonic()) > 0:
                if select.select([self.socket], [], [], rest)[0]:
                    with contextlib.suppress(OSError):
                        self.socket.recv(2048)
                        self.answers.append(time.monotonic())

    def __enter__(self):
        self.start()
        self.wait_for_answer(time.monotonic(), 20)
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.join()
        self.socket.close()

    def wait_for_answer(self, since, seconds):
        """Waits for an answer that came after `since`; how long after."""
        return wait_until(lambda: next((at for at in self.answers[-200:] if at > since), None), seconds,
                          "a datagram comes back") - since

    def dark(self, since):
        """The longest time without an answer after `since`, in seconds, and none before its start."""
        times = [since, *(at for at in self.answers if at > since)]
        return max((after - before for before, after in zip(times, times[1:])), default=0.0)


WIRE_VLANS = (100, 200)
FUNCTION_MACS = ("02:4c:4f:00:01:00", "02:4c:4f:00:01:01")


def physical_function():
    """The interface of the physical function, its driver loaded."""
    command("modprobe", "igb")
    return interface(nics.IGB)


def functions(*vlans):
    """Two virtual functions with MAC addresses of the PF's choice and these VLANs (0: none); the PF's
    interface and the functions' PCI addresses."""
    physical = physical_function()
    code, said = setup_host("--functions", f"{physical}=2")
    if code != 0:
        raise RuntimeError(f"setup-host failed:\n{said}")
    addresses = []
    for number, (mac, vlan) in enumerate(zip(FUNCTION_MACS, vlans)):
        command("ip", "link", "set", physical, "vf", str(number), "mac", mac)
        command("ip", "link", "set", physical, "vf", str(number), "vlan", str(vlan))
        link = f"/sys/class/net/{physical}/device/virtfn{number}"
        addresses.append(os.path.basename(os.readlink(link)))
    # Longer frames than the standard's: the functions carry what the physical one lets through.
    command("ip", "link", "set", physical, "mtu", "9000", "up")
    return physical, addresses


def sriov_two_arms(**settings):
    """A virtual function toward clients, one toward backends, told apart by VLANs that the PF sets."""
    _, addresses = functions(*WIRE_VLANS)
    peer = interface(nics.SRIOV_PEER)
    return NicPorts([(address, peer, vlan) for address, vlan in zip(addresses, WIRE_VLANS)], **settings)


def sriov_one_arm(**settings):
    """One virtual function; the appliance tags its frames itself."""
    _, addresses = functions(0, 0)
    return NicPorts([(addresses[0], interface(nics.SRIOV_PEER), WIRE_VLANS[0])], **settings)
