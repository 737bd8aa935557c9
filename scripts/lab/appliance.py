"""The appliance's daemon in a lab, and its command line."""

import json
import os
import signal
import subprocess
import time

import configuration
from lab import ENVIRONMENT, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Refused(RuntimeError):
    """`lodectl` ended with a failure; the message is what it said."""


def programs():
    """The directory of `lodestoned` and `lodectl`: LODESTONE_BIN, or the release build."""
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    return os.environ.get("LODESTONE_BIN", os.path.join(target, "release"))


class Appliance:
    """One daemon with one configuration file in a lab's `lb` namespace."""

    def __init__(self, lab, **settings):
        self.lab = lab
        self.config = lab.path("lodestone.toml")
        self.socket = lab.path("admin.sock")
        self.write(**settings)

    def write(self, **settings):
        """Writes the configuration; `settings` as for `configuration.toml`."""
        text = configuration.toml(self.lab, self.socket, **{**self.lab.ports.settings, **settings})
        with open(self.config + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(self.config + ".new", self.config)

    # --- the daemon ---------------------------------------------------------------------------

    def start(self, up=None, seconds=20, environment=None):
        """Starts the daemon and waits until all backends (or those named in `up`) are up."""
        self.process = self.lab.spawn("lodestoned", "lb", os.path.join(programs(), "lodestoned"),
                                      "--config", self.config, environment=environment)
        deadline = time.monotonic() + seconds
        while True:
            if not self.lab.is_alive("lodestoned"):
                raise RuntimeError(f"lodestoned ended at its start: {self.log_tail()}")
            try:
                states = self.health()
                if states and all(health == "up" for (_, name), health in states.items()
                                  if up is None or name in up):
                    return self
            except Refused as refused:
                states = refused
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {seconds} s not all backends are up: {states}\n"
                                   f"{self.log_tail()}")
            time.sleep(0.1)

    def try_start(self):
        """Runs a daemon that is expected to refuse; returns its exit code and what it said."""
        process = self.lab.popen("lb", os.path.join(programs(), "lodestoned"),
                                 "--config", self.config, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
        try:
            said = process.communicate(timeout=20)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return None, "it runs"
        return process.returncode, said

    def stop(self, number=signal.SIGTERM):
        """Ends the daemon; True if it obeyed in time."""
        return self.lab.stop("lodestoned", number)

    def log_tail(self, lines=15):
        """The end of what the daemon wrote."""
        with open(self.lab.path("lodestoned.log"), encoding="utf-8", errors="replace") as log:
            return "".join(log.readlines()[-lines:])

    @property
    def pid(self):
        """The daemon's process id."""
        return self.lab.processes["lodestoned"]["pid"]

    def threads(self):
        """{thread id: (name, allowed cores)} of the daemon."""
        threads = {}
        for task in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{task}/status", encoding="utf-8") as status:
                fields = dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)
            threads[int(task)] = (fields["Name"], core_list(fields["Cpus_allowed_list"]))
        return threads

    # --- lodectl ------------------------------------------------------------------------------

    def lodectl(self, *words):
        """Runs `lodectl` and returns its text; raises `Refused` if it failed."""
        return self.lodectl_at(self.socket, *words)

    def lodectl_at(self, admin_socket, *words, timeout=30):
        """The same with another socket."""
        result = subprocess.run(
            [os.path.join(programs(), "lodectl"), "--socket", admin_socket, *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=ENVIRONMENT, timeout=timeout)
        if result.returncode != 0:
            raise Refused((result.stderr + result.stdout).strip())
        return result.stdout

    def show(self, *words):
        """What `lodectl --json …` says, decoded."""
        return json.loads(self.lodectl("--json", *words))

    def backends(self):
        """The rows of `show backends`, each with the name of its pool."""
        return [{"pool": pool["pool"], **backend}
                for pool in self.show("show", "backends")["pools"] for backend in pool["backends"]]

    def health(self):
        """{(pool, backend): "up", "down" or "unknown"}"""
        return {(row["pool"], row["name"]): row["health"] for row in self.backends()}

    def wait_for_health(self, backend, health, seconds=10):
        """Waits until a backend has this health in every pool; returns when that was seen."""
        wait_until(
            lambda: all(state == health for (_, name), state in self.health().items()
                        if name == backend),
            seconds, f"lodectl shows {backend} {health}", pause=0.05)
        return time.time()

    def each_pool(self, verb, backend):
        """`backend drain|enable|disable` in every pool that has this backend."""
        for pool, name in self.health():
            if name == backend:
                self.lodectl("backend", verb, f"{pool}/{backend}")


def core_list(text):
    """`0,2-3` as a set."""
    cores = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cores.update(range(int(first), int(last or first) + 1))
    return cores
