"""Network namespaces, veth pairs and bridges: the wires of the lab.

Every namespace has the lab's prefix in its name, so several labs can exist side by side, and all
interfaces live inside such namespaces: the machine's own network is never touched.
"""

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess

# What a wire carries beyond a client's packet: more than the largest outer header (40 bytes of IPv6).
OUTER_ROOM = 100

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
SIOCETHTOOL = 0x8946
# ETHTOOL_SRXCSUM, STXCSUM, SSG, STSO, SGSO, SGRO: each with a value of one word.
OFFLOADS = (0x15, 0x17, 0x19, 0x1F, 0x24, 0x2C)


class CommandFailed(RuntimeError):
    """A command of the set-up did not succeed; the message holds its words and what it said."""


def run(*command, check=True):
    """Runs a command to its end and returns what it wrote to standard output."""
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if check and result.returncode != 0:
        said = (result.stderr or result.stdout).strip()
        raise CommandFailed(f"`{' '.join(command)}` failed: {said}")
    return result.stdout


class Namespace:
    """One network namespace."""

    def __init__(self, name):
        self.name = name

    def create(self):
        """Makes it, with settings that keep its kernel quiet and permissive."""
        run("ip", "netns", "add", self.name)
        self.sysctl(
            # Decapsulated packets arrive on a TUN device to which no route points back.
            ("net.ipv4.conf.all.rp_filter", 0),
            ("net.ipv4.conf.default.rp_filter", 0),
            # Static addresses of the lab must work at once.
            ("net.ipv6.conf.default.accept_dad", 0),
            ("net.ipv6.conf.default.dad_transmits", 0),
            ("net.ipv6.conf.default.router_solicitations", 0),
        )
        self.ip("link", "set", "lo", "up")

    def ip(self, *arguments, check=True):
        """`ip` inside this namespace."""
        return run("ip", "-n", self.name, *arguments, check=check)

    def exec(self, *command, check=True):
        """Runs a command inside this namespace to its end."""
        return run("ip", "netns", "exec", self.name, *command, check=check)

    def batch(self, *commands):
        """Several commands of `ip` inside this namespace, by one process; the first failure ends it."""
        text = "".join(f"{command}\n" for command in commands)
        result = subprocess.run(("ip", "-n", self.name, "-batch", "-"), input=text, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if result.returncode != 0:
            raise CommandFailed(f"ip -batch in {self.name}: {result.stdout.strip()}; it was:\n{text}")

    @contextlib.contextmanager
    def inside(self):
        """The calling thread is in this namespace; sockets made meanwhile stay there."""
        with inside(f"/run/netns/{self.name}"):
            yield

    def sysctl(self, *settings):
        """Writes kernel settings, each a pair of dotted name and value.

        /proc/sys/net shows the namespace of its reader, so the writing happens inside; names of
        interfaces must not contain dots.
        """
        with self.inside():
            for name, value in settings:
                path = f"/proc/sys/{name.replace('.', '/')}"
                try:
                    with open(path, "w", encoding="ascii") as file:
                        file.write(f"{value}\n")
                except OSError as error:
                    raise CommandFailed(f"{self.name}: {path} = {value}: {error.strerror}") from error

    def add_address(self, interface, address):
        """Adds an address; an IPv6 one is usable at once."""
        nodad = ("nodad",) if ":" in address else ()
        self.ip("address", "add", address, "dev", interface, *nodad)

    def mac(self, interface):
        """The interface's MAC address."""
        return self.exec("cat", f"/sys/class/net/{interface}/address").strip()

    def counter(self, interface, name):
        """One of the interface's counters, such as `tx_packets`."""
        return int(self.exec("cat", f"/sys/class/net/{interface}/statistics/{name}"))


@contextlib.contextmanager
def inside(path):
    """The calling thread is in the network namespace that this file stands for."""

    def enter(space):
        if LIBC.setns(space.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns({space.name})")

    with open("/proc/thread-self/ns/net", "rb") as home:
        with open(path, "rb") as space:
            enter(space)
        try:
            yield
        finally:
            if LIBC.setns(home.fileno(), CLONE_NEWNET) != 0:
                # A thread that cannot go home must not go on in the wrong network.
                os._exit(70)


def bridge(switch, name, mtu):
    """Makes a bridge in the `switch` namespace that forwards at once and floods multicast."""
    switch.batch(f"link add name {name} mtu {mtu} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
                 f"link set dev {name} up")


def plug(namespace, interface, switch, bridge_name, mtu, carrier_mtu):
    """Joins `namespace` to a bridge by a veth pair and brings both ends up; `mtu` is its own end's.

    veth leaves checksums and segmentation to hardware that does not exist; a packet picked up by
    a packet socket would carry an unfinished checksum. So both ends do without.
    """
    peer = f"{namespace.name.rsplit('-', 1)[1]}-{interface}"
    namespace.ip("link", "add", interface, "mtu", str(mtu), "type", "veth",
                 "peer", "name", peer, "mtu", str(carrier_mtu), "netns", switch.name)
    for end, name in ((namespace, interface), (switch, peer)):
        without_offloads(end, name)
    switch.ip("link", "set", peer, "master", bridge_name, "up")
    namespace.ip("link", "set", interface, "up")


def without_offloads(namespace, interface):
    """The kernel finishes every checksum and every segment before this interface."""
    with namespace.inside(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in OFFLOADS:
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            request = struct.pack("16sQ16x", interface.encode(), ctypes.addressof(value))
            # An interface may not know one of them; then there is nothing to turn off.
            with contextlib.suppress(OSError):
                fcntl.ioctl(control, SIOCETHTOOL, request)
