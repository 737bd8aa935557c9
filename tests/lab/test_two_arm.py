"""The two-arm lab: clients on one port, backends on another, answers over a plain router."""

import plan
from support import CLIENT, Capture, LabCase


class TwoArm(LabCase):
    """Traffic crosses from one port to the other and never comes back that way."""

    variant = plan.TWO_ARM

    def test_requests_cross_and_answers_do_not(self):  # L4-01, L4-03
        with Capture(self.lab, "switch", "lb-lb0") as front, \
                Capture(self.lab, "switch", "lb-lb1") as back:
            for family in (4, 6):
                self.ask_until_all_served(family)
                self.curl(family, "/big", "-o", "/dev/null", limit=30)
            # From the switch's view "received" is what the appliance sent.
            (from_front, to_front), (to_backends, from_backends) = self.settle(front, back)
        self.assertEqual([p for p in from_front if p.protocol in (4, 6, 17, 41)], [])
        self.assertTrue(any(p.protocol == 6 for p in to_front))
        # Beside them only neighbour discovery, and reports of listeners (hop-by-hop options, 0).
        self.assertEqual([p.protocol for p in to_backends if not p.inner and p.protocol not in (0, 58)], [])
        self.assertTrue(any(p.inner for p in to_backends))
        self.assertEqual([p for p in from_backends if p.protocol in (4, 6, 41)], [])
        self.assertEqual([p for p in to_backends if p.destination in CLIENT.values()], [])

    def test_other_family_behind(self):  # L4-03
        self.appliance.write(family="other")
        self.appliance.lodectl("reload")
        for name in plan.BACKENDS:
            self.appliance.wait_for_health(name, "up")
        for family in (4, 6):
            self.ask_until_all_served(family)
