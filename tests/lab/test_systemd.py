"""What the daemon tells systemd. The test is the manager: it reads the notification socket."""

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import threading
import time

from support import ROOT, LabCase, programs, stopped, wait_until

# Short, so that a beat is due every second.
TIMEOUT = 2
F_SETPIPE_SZ = 1031


class Manager:
    """A notification socket, and every line that came, with its time."""

    def __init__(self, path):
        self.path = path
        self.lines = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.socket.settimeout(0.2)
        self.ends = threading.Event()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    @property
    def environment(self):
        """What systemd gives a service of `Type=notify` with `WatchdogSec=`."""
        return {"NOTIFY_SOCKET": self.path, "WATCHDOG_USEC": str(TIMEOUT * 1_000_000)}

    def read(self):
        """Until the end."""
        while not self.ends.is_set():
            with contextlib.suppress(TimeoutError):
                for line in self.socket.recv(65536).decode().splitlines():
                    self.lines.append((time.monotonic(), line))

    def close(self):
        """Ends the reader and removes the socket."""
        self.ends.set()
        self.reader.join()
        self.socket.close()
        os.unlink(self.path)

    def times(self, line, since=0.0):
        """When this line came."""
        return [at for at, said in list(self.lines) if said == line and at >= since]

    def wait_for(self, line, since=0.0, seconds=20):
        """Waits for this line; returns when it came."""
        wait_until(lambda: self.times(line, since), seconds, f"{line} comes", pause=0.01)
        return self.times(line, since)[0]

    def status(self):
        """The newest status line."""
        return next((line for _, line in reversed(list(self.lines)) if line.startswith("STATUS=")),
                    "")

    def longest_gap(self, begin, end):
        """The longest time without a beat between two points in time."""
        beats = [at for at in self.times("WATCHDOG=1") if begin <= at <= end]
        points = [begin, *beats, end]
        return max(after - before for before, after in zip(points, points[1:]))


class UnderSystemd(LabCase):
    """Each case starts a daemon of its own."""

    starts = False

    def setUp(self):
        self.manager = Manager(self.lab.path("notify.sock"))
        self.addCleanup(self.manager.close)

    def start(self):
        """Starts the daemon and waits until it is ready."""
        self.appliance.start(environment=self.manager.environment)
        self.addCleanup(self.stop)
        return self.manager.wait_for("READY=1")

    def stop(self):
        """Stops it, unless the case did."""
        if "lodestoned" in self.lab.processes:
            self.appliance.stop()

    def worker(self):
        """The worker's thread."""
        return next(thread for thread, (name, _) in self.appliance.threads().items()
                    if name.startswith("worker"))

    def test_ready_when_it_forwards(self):
        begin = time.monotonic()
        self.lab.spawn("lodestoned", "lb", os.path.join(programs(), "lodestoned"), "--config",
                       self.appliance.config, environment=self.manager.environment)
        self.addCleanup(self.appliance.stop)
        self.manager.wait_for("READY=1", begin)
        # At once, and before a second SYN: not one packet is lost after READY.
        self.assertTrue(self.curl(4, limit=0.9).strip())
        self.assertTrue(self.curl(6, limit=0.9).strip())
        self.assertIn("the VIPs are served", self.appliance.log_tail(100))
        self.assertEqual(len(self.manager.times("READY=1")), 1)
        self.assertEqual(self.manager.status(), "STATUS=forwards with 1 worker")

    def test_beats_come_twice_a_timeout(self):
        self.start()
        begin = time.monotonic()
        time.sleep(4 * TIMEOUT)
        end = time.monotonic()
        self.assertLess(self.manager.longest_gap(begin, end), TIMEOUT * 0.9)
        count = len([at for at in self.manager.times("WATCHDOG=1") if begin <= at <= end])
        self.assertIn(count, range(5, 10), "half the interval, not a flood")

    def test_management_that_hangs_misses_no_beat(self):
        self.start()
        begin = time.monotonic()
        with stopped([self.appliance.pid]):
            time.sleep(7)
            self.assertIn("management stands still", self.manager.status())
            self.assertTrue(self.curl(4).strip(), "forwarding goes on")
        end = time.monotonic()
        self.assertLess(self.manager.longest_gap(begin, end), TIMEOUT * 0.9)
        wait_until(lambda: self.manager.status() == "STATUS=forwards with 1 worker", 5,
                   "the status says that it goes on")
        alarms = self.appliance.show("status")["alarms"]
        self.assertTrue(any("management stood still for 7 s" in alarm for alarm in alarms), alarms)
        self.assertIn("management stands still for 5", self.appliance.log_tail())
        self.assertIn("management goes on", self.appliance.log_tail())

    def test_a_worker_that_hangs_ends_the_beats(self):
        self.start()
        with stopped([self.worker()]):
            # The beat that was on its way, and the one that covers the last polls.
            time.sleep(TIMEOUT)
            begin = time.monotonic()
            time.sleep(2 * TIMEOUT)
            self.assertEqual(self.manager.times("WATCHDOG=1", begin), [])
            self.assertIn("does not poll: worker 0", self.manager.status())
            self.assertIn("worker 0 has not polled", self.appliance.log_tail())
        released = time.monotonic()
        self.manager.wait_for("WATCHDOG=1", released, seconds=TIMEOUT)
        self.assertTrue(self.curl(4).strip())
        self.assertIn("worker 0 polls again", self.appliance.log_tail())
        self.assertEqual(self.manager.status(), "STATUS=forwards with 1 worker")

    def test_reload_is_told(self):
        self.start()
        begin = time.monotonic()
        os.kill(self.appliance.pid, signal.SIGHUP)
        reloading = self.manager.wait_for("RELOADING=1", begin, seconds=5)
        self.assertGreaterEqual(self.manager.wait_for("READY=1", begin, seconds=5), reloading)
        self.assertEqual(self.manager.status(), "STATUS=forwards with 1 worker")

    def test_stop_is_told(self):
        self.start()
        begin = time.monotonic()
        self.assertTrue(self.appliance.stop(), "it obeys")
        self.manager.wait_for("STOPPING=1", begin, seconds=1)
        self.assertEqual(self.manager.status(), "STATUS=stops with 1 worker")

    def test_a_log_that_nobody_reads_misses_no_beat(self):
        # Management blocks as it logs, and keeps standard error locked.
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        fcntl.fcntl(write, F_SETPIPE_SZ, 4096)
        daemon = self.lab.popen("lb", os.path.join(programs(), "lodestoned"), "--config",
                                self.appliance.config, stdout=subprocess.DEVNULL, stderr=write,
                                env={**os.environ, **self.manager.environment})
        os.close(write)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        self.manager.wait_for("READY=1")
        # Each has an audit line, and none of those is ever left out.
        request = {"jsonrpc": "2.0", "id": 1, "method": "backend.enable",
                   "params": {"backend": "web4/b1"}}
        operator = socket.socket(socket.AF_UNIX)
        self.addCleanup(operator.close)
        operator.connect(self.appliance.socket)
        operator.sendall((json.dumps(request) + "\n").encode() * 200)
        wait_until(lambda: "management stands still" in self.manager.status(), 10,
                   "management hangs at its log")
        begin = time.monotonic()
        time.sleep(2 * TIMEOUT)
        self.assertLess(self.manager.longest_gap(begin, time.monotonic()), TIMEOUT * 0.9)
        self.assertTrue(self.curl(4).strip(), "forwarding goes on")


class DeafManager(LabCase):
    """A notification socket that nobody reads."""

    starts = False

    def test_the_daemon_forwards_and_stops(self):
        path = self.lab.path("deaf.sock")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
            deaf.bind(path)
            # One beat every 50 ms: the queue is full soon.
            self.appliance.start(environment={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "100000"})
            deaf.setblocking(False)
            time.sleep(3)
            self.assertTrue(self.curl(4).strip())
            self.assertTrue(self.appliance.stop(), "it obeys in time")


class Sandbox(LabCase):
    """With no more than the unit file leaves it: capabilities, files, /sys."""

    starts = False

    def test_the_daemon_forwards(self):
        with open(os.path.join(ROOT, "conf", "lodestone.service"), encoding="utf-8") as unit:
            settings = dict(line.rstrip("\n").split("=", 1) for line in unit
                            if "=" in line and not line.startswith("#"))
        self.assertEqual(settings["ProtectSystem"], "strict")
        self.assertEqual(settings["ProtectKernelTunables"], "yes")
        allowed = settings["CapabilityBoundingSet"].split()
        bounding = ",".join(["-all", *("+" + name.removeprefix("CAP_").lower() for name in allowed)])
        runtime = os.path.dirname(self.appliance.socket)
        # Mounts of a process's own; `setpriv` takes from it what the kernel then refuses.
        script = (f"mount --bind {runtime} {runtime} && mount -o remount,bind,ro / && "
                  "mount -o remount,bind,ro /sys && exec \"$@\"")
        original = self.lab.popen

        def sandboxed(role, *command, **options):
            if not command[0].endswith("lodestoned"):
                return original(role, *command, **options)
            return original(role, "unshare", "--mount", "sh", "-c", script, "sh",
                            "setpriv", "--no-new-privs", "--bounding-set", bounding, *command,
                            **options)

        self.lab.popen = sandboxed
        self.addCleanup(setattr, self.lab, "popen", original)
        self.appliance.start()
        self.addCleanup(self.appliance.stop)
        with open(f"/proc/{self.appliance.pid}/status", encoding="utf-8") as status:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in status)
        self.assertEqual(fields["NoNewPrivs"], "1")
        self.assertEqual(bin(int(fields["CapEff"], 16)).count("1"), len(allowed), fields["CapEff"])
        for family in (4, 6):
            self.ask_until_all_served(family)
