"""SR-IOV: virtual functions of `igb` by vfio, with MAC addresses and VLANs of the PF's: L4-01, L4-03."""

import time

import plan
from guest import (
    FUNCTION_MACS, WIRE_VLANS, GuestCase, Pulse, Wires, command, nics, physical_function,
    sriov_one_arm, sriov_two_arms
)
from support import Capture, wait_until

ECHO_PORT = 7777
# Generous: an emulated NIC negotiates its link for seconds.
RESUMES_WITHIN = 30


class TwoFunctions(GuestCase):
    """One virtual function toward clients, one toward backends."""

    variant = plan.TWO_ARM
    ports = sriov_two_arms
    settings = {"ports": '"any"'}
    echo_ports = (ECHO_PORT,)

    def test_requests_cross_and_answers_do_not(self):  # L4-01, L4-03
        with Capture(self.lab, "switch", "lb-lb0") as front, \
                Capture(self.lab, "switch", "lb-lb1") as back:
            for family in (4, 6):
                self.ask_until_all_served(family)
                self.curl(family, "/big", "-o", "/dev/null", limit=60)
            (from_front, _), (to_backends, from_backends) = self.settle(front, back)
        self.assertEqual([p for p in from_front if p.protocol in (4, 6, 17, 41)], [])
        self.assertTrue(any(p.inner for p in to_backends))
        self.assertEqual([p for p in from_backends if p.protocol in (4, 6, 41)], [])
        for name, mac in zip(("service", "backends"), FUNCTION_MACS):
            row = self.port_row(name)
            self.assertEqual((row["driver"], row["mac"]), ("net_e1000_igb_vf", mac))

    def links_changed(self):
        """(times that port `service` went down, came up), by the events."""
        texts = [event["message"] for event in self.appliance.show("show", "events")["events"]
                 if event["kind"] == "link-changed" and event["subject"] == "port service"]
        return sum("down" in text for text in texts), sum("up" in text for text in texts)

    def interrupted(self, take_down, bring_up):
        """Traffic flows, its way is taken down and brought up; how long it was dark after that."""
        down, up = self.links_changed()
        with Pulse(self.lab, 4, ECHO_PORT) as pulse:
            take_down()
            try:
                wait_until(lambda: self.links_changed()[0] > down, 20, "an event tells of the lost link")
                time.sleep(1)
            finally:
                bring_up()
            begin = time.monotonic()
            resumed = pulse.wait_for_answer(begin, RESUMES_WITHIN)
        wait_until(lambda: self.port_row()["link_up"], 20, "lodectl shows the link up")
        self.assertGreater(self.links_changed()[1], up)
        row = self.port_row()
        self.assertGreaterEqual(row["link_changes"], 2)
        self.assertGreaterEqual(row["resets"], 1, "the function was started anew")
        kinds = [event["kind"] for event in self.appliance.show("show", "events")["events"]]
        self.assertIn("port-reset", kinds)
        # Neighbour discovery needs the multicast groups that the function had lost.
        self.lab.namespaces["client"].ip("neighbour", "flush", "dev", "eth0")
        self.curl_until_answered(6, RESUMES_WITHIN)
        return resumed

    def test_cable_is_pulled_and_plugged(self):
        wires = Wires()
        resumed = self.interrupted(lambda: wires.set(nics.IGB, "down"), lambda: wires.set(nics.IGB, "up"))
        print(f"        cable: traffic again {resumed:.2f} s after it was plugged", flush=True)

    def test_physical_function_goes_down_and_up(self):
        physical = physical_function()
        resumed = self.interrupted(lambda: command("ip", "link", "set", physical, "down"),
                                   lambda: command("ip", "link", "set", physical, "up"))
        print(f"        PF: traffic again {resumed:.2f} s after it was up", flush=True)


class OneFunction(GuestCase):
    """One virtual function toward both; the appliance tags its frames."""

    ports = sriov_one_arm
    settings = {"port_keys": (f"vlan = {WIRE_VLANS[0]}",)}

    def test_tcp_over_both_families(self):  # L4-01, L4-03
        for family in (4, 6):
            self.ask_until_all_served(family)
            self.curl(family, "/big", "-o", "/dev/null", limit=60)
        row = self.port_row()
        self.assertEqual((row["driver"], row["vlan"]), ("net_e1000_igb_vf", WIRE_VLANS[0]))
