"""What a passthrough VIP promises about packets: L4-01, L4-02, L4-03, OPS-06."""

import os
import re
from collections import Counter

import plan
from support import CLIENT, VIP, Capture, LabCase, wait_until

TCP = 6
RECIPE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/backends.md")


class Passthrough(LabCase):
    """HTTP through the VIP, watched on every wire."""

    def test_answers_do_not_cross_the_appliance(self):  # L4-01
        with Capture(self.lab, "switch", "lb-lb0") as link:
            for family in (4, 6):
                for _ in range(30):
                    self.curl(family)
            # Seen from the switch: what it receives here, the appliance sent.
            [(sent, received)] = self.settle(link)
        syns = Counter(packet.ports[0] for packet in received if packet.is_opening_syn)
        self.assertEqual(len(syns), 60, "one SYN for each request went to the appliance")
        answers = [packet for packet in received
                   if packet.protocol == TCP and packet.ports[0] == plan.HTTP_PORT]
        self.assertEqual(answers, [], "answers went to the appliance")
        backends = {plan.backend_address(self.variant, name, family)
                    for name in plan.BACKENDS for family in (4, 6)}
        self.assertEqual([p for p in sent if p.protocol == TCP], [], "it spoke TCP itself")
        tunnelled = [packet for packet in sent if packet.inner]
        self.assertLessEqual({packet.destination for packet in tunnelled}, backends)
        forwarded = Counter(p.inner.ports[0] for p in tunnelled if p.inner.is_opening_syn)
        self.assertEqual(forwarded, syns, "each SYN left once, encapsulated")
        self.assertEqual([packet for packet in sent if packet.destination in CLIENT.values()
                          and packet.protocol not in (1, 58)], [])

    def test_backends_are_set_up_by_the_recipe(self):  # OPS-06
        with open(RECIPE, encoding="utf-8") as file:
            recipe = file.read()
        settings = dict(re.findall(r"sysctl -w (net[.a-z0-9_]+)=(\d+)", recipe))
        addresses = re.findall(r"address add (\S+) dev lo", recipe)
        self.assertEqual(set(addresses), {f"{plan.VIP4}/32", f"{plan.VIP6}/128"})
        self.assertIn("net.ipv4.conf.all.arp_ignore", settings)
        for name in plan.BACKENDS:
            for key, value in settings.items():
                # The lab's tunnel device is a TUN device (scripts/lab/decapsulate.py).
                key = key.replace("tunl0", "decap0")
                seen = self.lab.run(name, "sysctl", "-n", key).stdout.strip()
                self.assertEqual(seen, value, f"{name}: {key}")
            owned = self.lab.run(name, "ip", "-oneline", "address", "show", "dev", "lo").stdout
            for address in addresses:
                self.assertIn(f" {address} ", owned, name)

    def test_inner_packet_is_the_clients(self):  # L4-02
        taps = [Capture(self.lab, name, "decap0") for name in plan.BACKENDS]
        with Capture(self.lab, "client", "eth0") as client:
            for family in (4, 6):
                for _ in range(10):
                    self.curl(family)
                self.curl(family, "/big", "-o", "/dev/null", limit=30)
            (_, sent), *arrived = self.settle(client, *taps)
        for tap in taps:
            tap.socket.close()
        sent = Counter(p.bytes for p in sent if p.destination in VIP.values() and p.protocol == TCP)
        arrived = Counter(packet.bytes for received, _ in arrived for packet in received
                          if packet.destination in VIP.values())
        self.assertGreater(sum(sent.values()), 100)
        self.assertEqual(arrived - sent, Counter(), "packets arrived that no client sent so")
        self.assertEqual(sent - arrived, Counter(), "packets did not arrive as they were sent")

    def test_backend_sees_the_clients_address(self):  # L4-02
        def seen():
            lines = []
            for name in plan.BACKENDS:
                with open(self.lab.path(name, "access.log"), encoding="utf-8") as log:
                    lines += [line.split()[:3] for line in log if "/?address" in line]
            return lines

        for family in (4, 6):
            self.curl(family, "/?address")
        wait_until(lambda: len(seen()) == 2, 5, "both requests are in the logs")
        self.assertEqual(sorted((client, server) for client, _, server in seen()),
                         sorted((CLIENT[family], VIP[family]) for family in (4, 6)))


class Families(LabCase):
    """All four pairs of inner and outer families carry real TCP: L4-03."""

    def carry(self, pairs):
        """Requests over both families arrive in these tunnels and no other."""
        before = self.counts()
        for family in (4, 6):
            self.ask_until_all_served(family)
            self.curl(family, "/big", "-o", "/dev/null", limit=30)
        after = self.counts()
        grown = {pair for pair in after if after[pair] > before[pair]}
        self.assertEqual(grown, pairs)

    def counts(self):
        """Packets by pair, of all backends."""
        total = Counter()
        for name in plan.BACKENDS:
            for pair, counts in self.lab.decapsulated(name)["pairs"].items():
                total[pair] += counts["packets"]
        return {pair: total[pair] for pair in ("4in4", "6in4", "4in6", "6in6")}

    def reload(self, **settings):
        """Changes the backends' addresses and waits for the new backends to be up."""
        self.appliance.write(**settings)
        self.appliance.lodectl("reload")
        for name in plan.BACKENDS:
            self.appliance.wait_for_health(name, "up")

    def test_same_family(self):  # L4-03
        self.reload(family="same")
        self.carry({"4in4", "6in6"})

    def test_other_family(self):  # L4-03
        self.reload(family="other")
        self.carry({"6in4", "4in6"})
