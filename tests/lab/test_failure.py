"""Forwarding goes on whatever management suffers; a backend that dies or moves is dealt with."""

import contextlib
import socket
import time

import configuration
import plan
from support import LabCase, SteadyLoad, stopped, thread_state

STOPPED = 30
HALF_OPEN = 100


class FailStatic(LabCase):
    """Management hangs, starves or is flooded; no request fails."""

    def test_management_stopped(self):
        _, (worker_core,) = configuration.cores()
        threads = self.appliance.threads()
        others = [thread for thread, (_, cores) in threads.items() if cores != {worker_core}]
        self.assertIn(self.appliance.pid, others, "the main thread is no worker")
        self.assertLess(len(others), len(threads), "there is a worker to run on")
        with SteadyLoad(self.lab, rate=20) as load:
            with stopped(others):
                time.sleep(STOPPED)
                states = {thread: thread_state(thread) for thread in others}
        self.assertEqual(set(states.values()), {"t"}, "all stood still to the end")
        self.assert_all_answered(load.made, at_least=5 * STOPPED)
        # And it comes back.
        self.assertEqual(set(self.appliance.health().values()), {"up"})

    def test_half_requests(self):
        connections = []
        try:
            for _ in range(HALF_OPEN):
                connection = socket.socket(socket.AF_UNIX)
                connections.append(connection)
                connection.settimeout(5)
                connection.connect(self.appliance.socket)
                connection.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "sta')
            with SteadyLoad(self.lab, rate=20) as load:
                for _ in range(5):
                    begin = time.monotonic()
                    self.assertIn("generation", self.appliance.show("status"))
                    self.assertLess(time.monotonic() - begin, 5)
                    time.sleep(1)
            self.assert_all_answered(load.made, at_least=25)
        finally:
            for connection in connections:
                connection.close()

    def test_broken_requests(self):
        for line in (b"\xff\xfe\x00\n", b"{}\n", b"[]\n", b"{" * 5000 + b"\n", b"\n" * 100,
                     b'{"jsonrpc":"2.0","id":1,"method":"no.such"}\n', b"x" * 200_000 + b"\n"):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(5)
                connection.connect(self.appliance.socket)
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    connection.sendall(line)
                    self.assertIn(b'"error"', connection.recv(65536), line[:40])
        self.assertIn("generation", self.appliance.show("status"))
        self.curl(4)


class Death(LabCase):
    """A backend dies and comes back; another one changes its MAC address."""

    def test_a_dead_backend_is_left_and_taken_back(self):
        self.lab.kill_backend("b2")
        killed = time.time()
        try:
            detected = self.appliance.wait_for_health("b2", "down", 15)
            self.assertLess(detected - killed, configuration.DETECTION_LIMIT)
            for family in (4, 6):
                served = {self.curl(family).strip() for _ in range(40)}
                self.assertEqual(served, {"b1", "b3"})
            for row in self.appliance.backends():  # OPS-05
                self.assertLessEqual(len(row["probes"]), 10)
                if row["name"] == "b2":
                    self.assertTrue(row["probes"][-1]["failure"], "the last probe says why")
        finally:
            self.lab.revive_backend("b2")
        self.appliance.wait_for_health("b2", "up", 15)
        for family in (4, 6):
            self.ask_until_all_served(family)

    def test_a_new_mac_is_found(self):
        self.ask_until_all_served(4)
        space = self.lab.namespaces["b1"]
        # The kernel says nothing of it: arp_notify and ndisc_notify are off.
        space.ip("link", "set", "eth0", "address", "02:00:00:00:77:11")
        deadline = time.monotonic() + 60
        for family in (4, 6):
            while True:
                answers = [self.lab.run("client", "curl", "-qs", "--noproxy", "*", "--max-time", "1",
                                        f"http://{host(family)}/").stdout.strip()
                           for _ in range(30)]
                if "" not in answers and set(answers) == set(plan.BACKENDS):
                    break
                self.assertLess(time.monotonic(), deadline, f"IPv{family}: {answers}")


def host(family):
    """The VIP as a URL has it."""
    return plan.VIP4 if family == 4 else f"[{plan.VIP6}]"
