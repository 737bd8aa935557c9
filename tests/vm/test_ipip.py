"""IPIP in all four pairs of families, taken out by the guest kernel's own `ipip`, `sit` and `ip6tnl`, which
docs/backends.md sets up word for word: L4-01, L4-03, L4-04, L4-38, OPS-06."""

import os

import plan
from guest import GuestCase, virtio_one_arm
from support import CLIENT, Capture, Connection, wait_until

ECHO_PORT = 7777
# The kernel's device that takes a pair's packets out.
DEVICES = {"4in4": "tunl0", "6in4": "sit0", "4in6": "ip6tnl0", "6in6": "ip6tnl0"}
UPLOAD = 256 << 10


class Pairs(GuestCase):
    """What holds for any MTU."""

    settings = {"ports": '"any"'}
    echo_ports = (ECHO_PORT,)

    def received(self, device):
        """Packets that a tunnel device took out, of all backends."""
        return sum(self.lab.namespaces[name].counter(device, "rx_packets") for name in plan.BACKENDS)

    def outer_family(self, family):
        """The backends' addresses are of the VIP's family, or of the other one."""
        self.appliance.write(**self.settings, family=family)
        self.appliance.lodectl("reload")
        for name in plan.BACKENDS:
            self.appliance.wait_for_health(name, "up", 30)

    def carry(self, pairs):
        """Uploads of full packets arrive whole, by the kernel's device of each pair."""
        for pair in pairs:
            family, device = int(pair[0]), DEVICES[pair]
            with self.subTest(pair=pair, mtu=self.mtu):
                before = self.received(device)
                with Capture(self.lab, "client", "eth0") as client:
                    self.ask_until_all_served(family)
                    connection = Connection(self.lab, family, ECHO_PORT, timeout=30)
                    data = os.urandom(UPLOAD)
                    self.assertEqual(connection.echo(data), data)
                    connection.abort()
                    [(_, sent)] = self.settle(client)
                longest = max(len(p.bytes) for p in sent if p.source == CLIENT[family])
                # IPv6's header is in the MTU, TCP's options are not always there.
                self.assertGreater(longest, self.mtu - 60, "the client sent full packets")
                self.assertLessEqual(longest, self.mtu)
                grown = self.received(device) - before
                self.assertGreater(grown, UPLOAD // self.mtu, f"{device} took them out")

    def all_pairs(self):
        """Both families outside, both inside."""
        self.outer_family("same")
        self.carry(("4in4", "6in6"))
        self.outer_family("other")
        self.carry(("6in4", "4in6"))


class Mtu1500(Pairs):
    """The Internet's MTU."""

    ports = virtio_one_arm
    mtu = 1500

    def test_all_pairs(self):  # L4-03, L4-38, OPS-06
        self.all_pairs()

    def test_backend_without_the_vip_is_told_apart(self):  # L4-04
        # Its probes go over the management network and pass; only traffic shows what is wrong.
        backend = self.lab.namespaces["b1"]
        backend.ip("address", "del", f"{plan.VIP4}/32", "dev", "lo")
        self.addCleanup(backend.ip, "address", "add", f"{plan.VIP4}/32", "dev", "lo")
        self.appliance.write(**self.settings, backends=("b1",))
        self.addCleanup(self.outer_family, "same")
        self.appliance.lodectl("reload")
        self.appliance.wait_for_health("b1", "up", 30)
        before = self.received("tunl0")
        result = self.lab.run("client", "curl", "-q", "-sS", "--noproxy", "*", "--connect-timeout", "2",
                              f"http://{plan.VIP4}/")
        self.assertNotEqual(result.returncode, 0, "who should have answered?")
        wait_until(lambda: self.received("tunl0") > before, 5, "the tunnel device took the SYN out")
        said = backend.exec("ip", "route", "get", plan.VIP4, check=False)
        self.assertNotIn("local", said, "the recipe's check tells that the VIP is not the backend's")


def jumbo():
    """The same NIC with room for 9000 bytes inside."""
    return virtio_one_arm(mtu=9000)


class Mtu9000(Pairs):
    """Jumbo frames."""

    ports = jumbo
    mtu = 9000

    def test_all_pairs(self):  # L4-03
        self.all_pairs()


# What they share is no case of its own.
del Pairs
