"""Changes while connections are open: drain, removal by reload, restart."""

import os
import signal
import socket
import threading
import time

import plan
from support import (
    FAMILY, VIP, Connection, LabCase, Refused, SteadyLoad, SynSender, inside, wait_until
)

ECHO_PORT = 7777
OPEN = 500
SYNS = 10_000


class Download(threading.Thread):
    """A transfer of half a minute, whose backend is known from the first byte on."""

    def __init__(self, lab, family):
        super().__init__()
        with inside(lab, "client"):
            self.socket = socket.create_connection((VIP[family], plan.HTTP_PORT), timeout=10)
        self.socket.sendall(b"GET /slow HTTP/1.0\r\nHost: lab\r\n\r\n")
        self.stream = self.socket.makefile("rb")
        self.headers = {}
        self.status = self.stream.readline().split()[1]
        while (line := self.stream.readline().strip()):
            name, _, value = line.decode().partition(": ")
            self.headers[name.lower()] = value
        self.backend = self.headers["x-backend"]
        self.length, self.seconds = 0, 0.0

    def run(self):
        begin = time.monotonic()
        try:
            while part := self.stream.read1(65536):
                self.length += len(part)
        except OSError as error:
            self.headers["error"] = str(error)
        self.seconds = time.monotonic() - begin
        self.socket.close()


class Drain(LabCase):
    """`backend drain`: what is open ends in peace, nothing new begins."""

    def test_drain_keeps_the_open_and_takes_no_new(self):
        downloads = [Download(self.lab, 4)]
        backend = downloads[0].backend
        # One over IPv6 of the same backend.
        while len(downloads) < 2:
            other = Download(self.lab, 6)
            if other.backend == backend:
                downloads.append(other)
            else:
                other.stream.close()
                other.socket.close()
        for download in downloads:
            download.start()
        sender = SynSender(self.lab, plan.HTTP_PORT)
        self.addCleanup(sender.socket.close)
        self.appliance.each_pool("drain", backend)
        before = {name: self.syns(name) for name in plan.BACKENDS}
        # The verb has returned: the very next SYN counts.
        sender.burst(range(20000, 20000 + 1 + SYNS))
        others = [name for name in plan.BACKENDS if name != backend]
        wait_until(lambda: sum(self.syns(name) - before[name] for name in others) > SYNS, 10,
                   f"{1 + SYNS} SYNs reach {others}")
        self.assertEqual(self.syns(backend) - before[backend], 0, "the drained one got a SYN")
        for download in downloads:
            download.join(120)
            self.assertEqual(download.length, int(download.headers["content-length"]),
                             download.headers.get("error"))
            self.assertGreaterEqual(download.seconds, 29)
        states = {row["admin_state"] for row in self.appliance.backends() if row["name"] == backend}
        self.assertEqual(states, {"draining"})
        self.appliance.each_pool("enable", backend)
        for family in (4, 6):
            self.ask_until_all_served(family)

    def test_disable_and_enable(self):
        self.appliance.each_pool("disable", "b1")
        for family in (4, 6):
            served = {self.curl(family).strip() for _ in range(30)}
            self.assertEqual(served, {"b2", "b3"})
        self.appliance.each_pool("enable", "b1")
        for family in (4, 6):
            self.ask_until_all_served(family)

    def test_unknown_backend_is_refused(self):
        with self.assertRaises(Refused) as refused:
            self.appliance.lodectl("backend", "drain", "web4/nobody")
        self.assertIn("nobody", str(refused.exception))

    def syns(self, backend):
        """Opening SYNs that this backend has decapsulated."""
        return sum(counts["syn"] for counts in self.lab.decapsulated(backend)["pairs"].values())


class Reload(LabCase):
    """The configuration changes under open connections."""

    settings = {"ports": f"[80, {ECHO_PORT}]"}
    echo_ports = (ECHO_PORT,)

    def test_removal_of_another_backend_moves_nothing(self):  # L4-17
        connections = [Connection(self.lab, family, ECHO_PORT)
                       for family in (4, 6) for _ in range(OPEN)]
        for connection in connections:
            self.addCleanup(connection.abort)
        staying = [connection for connection in connections if connection.backend != "b3"]
        self.assertGreater(len(staying), OPEN)
        with SteadyLoad(self.lab, rate=10) as load:
            self.appliance.write(backends=("b1", "b2"), **self.settings)
            self.appliance.lodectl("reload")
            for connection in staying:
                # A segment at another backend would be answered by RST.
                self.assertEqual(connection.echo(b"still here"), b"still here")
            for family in (4, 6):
                served = {self.curl(family).strip() for _ in range(30)}
                self.assertEqual(served, {"b1", "b2"})
            # Long enough for a health check to run and for slots to settle.
            time.sleep(2)
            for connection in staying:
                self.assertEqual(connection.echo(b"and here"), b"and here")
        self.assert_all_answered(load.made, at_least=10)
        self.appliance.write(**self.settings)
        self.appliance.lodectl("reload")
        self.appliance.wait_for_health("b3", "up")
        for connection in staying:
            self.assertEqual(connection.echo(b"to the end"), b"to the end")

    def test_wrong_file_is_refused_as_a_whole(self):
        before = self.appliance.show("status")["generation"]
        with open(self.appliance.config, encoding="utf-8") as file:
            good = file.read()
        try:
            with open(self.appliance.config, "w", encoding="utf-8") as file:
                file.write(good.replace("fall = 3", "fall = 0").replace("mtu = 1600", "mtu = 1"))
            with self.assertRaises(Refused) as refused:
                self.appliance.lodectl("reload")
        finally:
            with open(self.appliance.config, "w", encoding="utf-8") as file:
                file.write(good)
        for key in ("fall", "mtu"):
            self.assertIn(key, str(refused.exception))
        self.assertEqual(self.appliance.show("status")["generation"], before)
        self.curl(4)


class Restart(LabCase):
    """The daemon ends and comes back."""

    def test_clean_stop_removes_the_socket(self):
        self.assertTrue(self.appliance.stop(signal.SIGTERM), "SIGTERM ends it within 5 s")
        self.assertFalse(os.path.exists(self.appliance.socket))
        with self.assertRaises(Refused):
            self.appliance.lodectl("status")
        self.appliance.start()
        for family in (4, 6):
            self.ask_until_all_served(family)

    def test_kill_and_restart(self):
        self.appliance.stop(signal.SIGKILL)
        self.appliance.start()
        for family in (4, 6):
            self.ask_until_all_served(family)

    def test_open_connections_survive_a_restart(self):
        # Without entries the tables decide, and equal inputs give equal tables.
        with inside(self.lab, "client"):
            connections = [socket.create_connection((VIP[family], plan.HTTP_PORT), timeout=10)
                           for family in (4, 6) for _ in range(20)]
        self.assertEqual({c.family for c in connections}, set(FAMILY.values()))
        self.appliance.stop(signal.SIGTERM)
        self.appliance.start()
        for connection in connections:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            self.assertIn(b" 200 OK", connection.recv(65536))
            connection.close()
