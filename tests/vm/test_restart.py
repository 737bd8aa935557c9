"""Restart on real drivers: after `kill -9` and after a clean stop the port starts again at once. How long
the service is dark is measured for each kind of port."""

import signal
import time

import plan
from guest import GuestCase, Pulse, sriov_two_arms, virtio_one_arm

ECHO_PORT = 7777
# Generous: on an emulated CPU the start alone takes seconds.
DARK_LIMIT = 30


class Restarts(GuestCase):
    """What holds for any kind of port."""

    settings = {"ports": '"any"'}
    echo_ports = (ECHO_PORT,)
    kind = None

    def restarted_after(self, number, word):
        """Ends the daemon by a signal, starts it again, measures the dark time."""
        with Pulse(self.lab, 4, ECHO_PORT) as pulse:
            begin = time.monotonic()
            self.assertTrue(self.appliance.stop(number), "it did not end in time")
            self.appliance.start(seconds=60)
            resumed = pulse.wait_for_answer(time.monotonic(), DARK_LIMIT)
            dark = pulse.dark(begin)
        print(f"        {self.kind}, {word}: dark for {dark:.2f} s", flush=True)
        self.assertLess(dark, DARK_LIMIT)
        self.assertLess(resumed, DARK_LIMIT)
        for family in (4, 6):
            self.ask_until_all_served(family)


class Virtio(Restarts):
    """A virtio NIC."""

    ports = virtio_one_arm
    kind = "virtio"

    def test_after_kill(self):
        self.restarted_after(signal.SIGKILL, "kill -9")

    def test_after_clean_stop(self):
        self.restarted_after(signal.SIGTERM, "clean stop")


class Functions(Restarts):
    """Two virtual functions of SR-IOV."""

    variant = plan.TWO_ARM
    ports = sriov_two_arms
    kind = "SR-IOV"

    def test_after_kill(self):
        self.restarted_after(signal.SIGKILL, "kill -9")

    def test_after_clean_stop(self):
        self.restarted_after(signal.SIGTERM, "clean stop")


# What they share is no case of its own.
del Restarts
