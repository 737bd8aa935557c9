"""virtio-net-pci by vfio: real TCP through a real driver, on one arm and on two: L4-01, L4-03, L4-05."""

from collections import Counter

import plan
from guest import GuestCase, virtio_one_arm, virtio_two_arms
from support import CLIENT, Capture


class Crossing(GuestCase):
    """What holds on any number of arms."""

    def assert_conserved(self):
        """Every packet has its end: no counter of a port says that one was lost."""
        for row in self.appliance.show("show", "ports")["ports"]:
            self.assertEqual((row["rx_errors"], row["rx_no_buffer"], row["tx_errors"]), (0, 0, 0), row)


class OneArm(Crossing):
    """Clients and backends on one network."""

    ports = virtio_one_arm

    def test_tcp_over_both_families(self):  # L4-01, L4-03
        with Capture(self.lab, "switch", "lb-lb0") as link:
            for family in (4, 6):
                self.ask_until_all_served(family)
                self.curl(family, "/big", "-o", "/dev/null", limit=60)
            # Seen from the switch: what it receives here, the appliance sent.
            [(sent, received)] = self.settle(link)
        syns = Counter(packet.ports[0] for packet in received if packet.is_opening_syn)
        tunnelled = [packet for packet in sent if packet.inner]
        forwarded = Counter(p.inner.ports[0] for p in tunnelled if p.inner.is_opening_syn)
        self.assertGreaterEqual(len(syns), 8)
        self.assertEqual(forwarded, syns, "each SYN left once, encapsulated")
        self.assertEqual([p for p in received if p.protocol == 6 and p.ports[0] == plan.HTTP_PORT], [],
                         "answers went to the appliance")
        self.assertEqual([p for p in sent if p.protocol == 6], [], "it spoke TCP itself")
        self.assertEqual([p for p in sent if p.destination in CLIENT.values()
                          and p.protocol not in (1, 58)], [])
        row = self.port_row()
        self.assertEqual(row["driver"], "net_virtio")
        self.assertTrue(row["link_up"])
        self.assert_conserved()


class TwoArms(Crossing):
    """Clients on one NIC, backends on another, answers over a plain router."""

    variant = plan.TWO_ARM
    ports = virtio_two_arms

    def test_requests_cross_and_answers_do_not(self):  # L4-01, L4-03
        with Capture(self.lab, "switch", "lb-lb0") as front, \
                Capture(self.lab, "switch", "lb-lb1") as back:
            for family in (4, 6):
                self.ask_until_all_served(family)
                self.curl(family, "/big", "-o", "/dev/null", limit=60)
            (from_front, to_front), (to_backends, from_backends) = self.settle(front, back)
        self.assertEqual([p for p in from_front if p.protocol in (4, 6, 17, 41)], [])
        self.assertTrue(any(p.protocol == 6 for p in to_front))
        self.assertTrue(any(p.inner for p in to_backends))
        self.assertEqual([p for p in from_backends if p.protocol in (4, 6, 41)], [])
        self.assertEqual([p for p in to_backends if p.destination in CLIENT.values()], [])
        self.assert_conserved()
