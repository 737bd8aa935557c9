"""Network namespaces, veth pairs and bridges: the wires of the lab.

Every namespace has the lab's prefix in its name, so several labs can exist side by side, and all
interfaces live inside such namespaces: the machine's own network is never touched.
"""

import subprocess

# Larger than a full client packet plus the largest outer header (40 bytes of IPv6).
CARRIER_MTU = 1600


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

    def sysctl(self, *settings):
        """Writes kernel settings, each a pair of dotted name and value.

        /proc/sys/net shows the namespace of its reader, so the writing happens inside; names of
        interfaces must not contain dots.
        """
        script = "".join(
            f"echo {value} > /proc/sys/{name.replace('.', '/')} && " for name, value in settings
        )
        self.exec("sh", "-c", script + "true")

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


def bridge(switch, name):
    """Makes a bridge in the `switch` namespace that forwards at once and floods multicast."""
    switch.ip("link", "add", name, "mtu", str(CARRIER_MTU), "type", "bridge",
              "stp_state", "0", "forward_delay", "0", "mcast_snooping", "0")
    switch.ip("link", "set", name, "up")


def plug(namespace, interface, switch, bridge_name, mtu=CARRIER_MTU):
    """Joins `namespace` to a bridge by a veth pair and brings both ends up.

    veth leaves checksums and segmentation to hardware that does not exist; a packet picked up by
    a packet socket would carry an unfinished checksum. So both ends do without.
    """
    peer = f"{namespace.name.rsplit('-', 1)[1]}-{interface}"
    namespace.ip("link", "add", interface, "mtu", str(mtu), "type", "veth",
                 "peer", "name", peer, "mtu", str(CARRIER_MTU), "netns", switch.name)
    for end, name in ((namespace, interface), (switch, peer)):
        end.exec("ethtool", "-K", name, "tx", "off", "rx", "off", "sg", "off",
                 "tso", "off", "gso", "off", "gro", "off")
    switch.ip("link", "set", peer, "master", bridge_name, "up")
    namespace.ip("link", "set", interface, "up")
