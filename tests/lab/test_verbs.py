"""Verbs of the operator, many of them, at random, while two workers carry traffic."""

import json
import os
import random
import socket
import time

import configuration
import plan
from appliance import Appliance
from support import (ACK, SYN, Capture, LabCase, Refused, SteadyLoad, SynSender,
                     wait_until)

VERBS = int(os.environ.get("LODESTONE_VERBS", "1000"))
# One more address of b1.
GONE = "10.77.0.216"
# Addresses on link that no host has.
SPARE = [f"10.77.0.{number}" for number in range(200, 216)]
POOL = "web4"


class Admin:
    """The admin socket: one request, one answer."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(path)
        self.stream = self.socket.makefile("rwb")
        self.number = 0

    def call(self, method, **params):
        """(result, error): one of them is None."""
        self.number += 1
        request = {"jsonrpc": "2.0", "id": self.number, "method": method}
        if params:
            request["params"] = params
        self.stream.write(json.dumps(request).encode() + b"\n")
        self.stream.flush()
        answer = json.loads(self.stream.readline())
        assert answer["id"] == self.number, answer
        return answer.get("result"), answer.get("error")


class RandomVerbs(LabCase):
    """Many verbs (LODESTONE_VERBS): nothing leaks, nothing crashes, nothing reaches what was removed."""

    settings = {"workers": [configuration.cores()[0], *configuration.cores()[1]], "queues": 2,
                "table_size": 251}

    def test_random_verbs_under_load(self):
        appliance, admin = self.appliance, Admin(self.appliance.socket)
        choose = random.Random(int(os.environ.get("SEED", "3")))
        added = {}
        counts = {"done": 0, "refused": 0}
        resident = {}
        self.ask_until_all_served(4)
        self.sender = SynSender(self.lab, 80)
        self.lab.namespaces["b1"].ip("address", "add", f"{GONE}/24", "dev", "eth0")
        before = self.held(admin)
        # Five times, however few the verbs are (but each verb once at most).
        removals = {VERBS * part // 5 for part in range(5)}
        with SteadyLoad(self.lab, rate=20) as load:
            for number in range(VERBS):
                self.verb(admin, choose, added, counts)
                if number in (VERBS // 2, VERBS - 1):
                    resident[number] = self.resident()
                if number in removals:
                    self.nothing_reaches_what_was_removed(admin, choose)
        # What was added goes, what was changed comes back: then everything is as before.
        for backend in list(added):
            self.done(admin, "backend.remove", backend=f"{POOL}/{backend}")
        for backend in plan.BACKENDS:
            self.done(admin, "backend.enable", backend=f"{POOL}/{backend}")
            self.done(admin, "backend.weight", backend=f"{POOL}/{backend}", weight=1)
        for method in ("pool.enable", "service.enable"):
            self.done(admin, method, **{method.split(".")[0]: POOL})
        print(f"{counts['done']} verbs done, {counts['refused']} refused, "
              f"{len(load.made)} requests meanwhile, resident {resident} KiB")
        self.assertGreater(counts["done"], VERBS // 3)
        self.assertGreater(counts["refused"], VERBS // 100)
        self.assertGreater(len(load.made), 10)
        self.wait_until_equal(lambda: self.held(admin), before)
        first, last = resident[VERBS // 2], resident[VERBS - 1]
        self.assertLess(last, first * 1.01, "resident memory grows")
        self.ask_until_all_served(4)
        self.equal_to_a_fresh_daemon(admin, choose, added, counts)

    def verb(self, admin, choose, added, counts):
        """One verb at random, sensible or not."""
        kind = choose.randrange(12)
        known = f"{POOL}/{choose.choice([*plan.BACKENDS, *added])}"
        params = {"backend": known}
        if kind < 2:
            free = [address for address in SPARE if address not in added.values()]
            name = f"n{choose.randrange(1000)}"
            if not free or name in added:
                return
            address = choose.choice(free)
            method = "backend.add"
            params = {"backend": f"{POOL}/{name}", "address": address,
                      "weight": choose.randrange(4)}
        elif kind < 4 and added:
            method, params = "backend.remove", {"backend": f"{POOL}/{choose.choice(list(added))}"}
        elif kind < 6:
            method, params["weight"] = "backend.weight", choose.randrange(5)
        elif kind == 6:
            method, params["force"] = "backend.drain", choose.random() < 0.5
        elif kind == 7:
            method, params["force"] = "backend.disable", choose.random() < 0.5
        elif kind < 10:
            method = "backend.enable"
        elif kind == 10:
            verb = choose.choice(["drain", "disable", "enable", "enable", "enable"])
            target = choose.choice(["pool", "service"])
            method, params = f"{target}.{verb}", {target: POOL, "force": choose.random() < 0.3}
        else:
            method, params = "backend.drain", {"backend": f"{POOL}/nobody"}
        _, error = admin.call(method, **params)
        if error is None:
            counts["done"] += 1
            if method == "backend.add":
                added[params["backend"].split("/")[1]] = params["address"]
            elif method == "backend.remove":
                del added[params["backend"].split("/")[1]]
        else:
            counts["refused"] += 1
            self.assertIn(error["code"], (1, 6, 7), error)

    def done(self, admin, method, **params):
        """A verb that must not be refused."""
        _, error = admin.call(method, **params, force=True)
        self.assertIsNone(error)

    def held(self, admin):
        """What a change could leak: old tables, slot arrays, buffers."""
        tables, _ = admin.call("show.tables")
        ports, _ = admin.call("show.ports")
        return tables["held"], tables["slot_arrays"], ports["buffers_in_use"]

    def wait_until_equal(self, observe, expected, seconds=10):
        """Buffers on their way come back soon."""
        deadline = time.monotonic() + seconds
        while (seen := observe()) != expected and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(seen, expected, "old tables held, slot arrays, buffers in use")

    def resident(self):
        """KiB of the daemon in memory."""
        with open(f"/proc/{self.appliance.pid}/status", encoding="utf-8") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))

    def nothing_reaches_what_was_removed(self, admin, choose):
        """After the verb that removes a backend has returned, no packet goes there."""
        gone = f"{POOL}/gone"
        for target in ("pool", "service"):
            self.done(admin, f"{target}.enable", **{target: POOL})
        # b1 answers for this address and for the probes, so that packets do go there.
        _, error = admin.call("backend.add", backend=gone, address=GONE, weight=100,
                              probe_address=plan.probe_address("b1"))
        self.assertIsNone(error)
        wait_until(lambda: self.takes_flows(admin, "gone"), 10, f"{gone} is up and resolved")
        with Capture(self.lab, "switch", "lb-lb0") as link:
            first = choose.randrange(1024, 60000)
            old = range(first, first + 200)
            self.sender.burst(old)
            wait_until(lambda: self.sent_to(link, GONE) > 0, 5, f"packets reach {gone}")
            time.sleep(0.2)
            self.sent_to(link, GONE)
            # A SYN is a new decision by the tables; what follows goes by the connection table.
            self.sender.burst(old, flags=ACK)
            wait_until(lambda: self.sent_to(link, GONE) > 0, 5, f"what follows reaches {gone}")
            flows, error = admin.call("show.flows", filter={"backend": gone}, limit=1)
            self.assertIsNone(error)
            self.assertGreater(flows["matched"], 0, "flows are tracked to it")
            time.sleep(0.2)
            self.sent_to(link, GONE)
            self.done(admin, "backend.remove", backend=gone)
            # The verb has returned: what is captured from here on was sent before, or must not be.
            time.sleep(0.05)
            self.sent_to(link, GONE)
            for what, ports, flags in [("of an old flow", old, ACK),
                                       ("that opens a flow", range(first, first + 400), SYN)]:
                self.sender.burst(ports, flags=flags)
                time.sleep(0.2)
                self.assertEqual(self.sent_to(link, GONE), 0,
                                 f"a packet {what} went to a removed backend")

    @staticmethod
    def sent_to(link, address):
        """Packets that the appliance sent to an address since the last call."""
        received, _ = link.packets()
        return sum(packet.destination == address for packet in received)

    def takes_flows(self, admin, name):
        """Whether a backend is up and its next hop known."""
        pools = admin.call("show.backends")[0]["pools"]
        row = next(row for pool in pools if pool["pool"] == POOL
                   for row in pool["backends"] if row["name"] == name)
        return row["health"] == "up" and row["next_hop"] is not None

    def equal_to_a_fresh_daemon(self, admin, choose, added, counts):
        """A daemon that starts with the saved configuration has the same digests."""
        for _ in range(200):
            self.verb(admin, choose, added, counts)
        for target in ("pool", "service"):
            self.done(admin, f"{target}.enable", **{target: POOL})
        self.assertIsNone(admin.call("config.save", force=True)[1])
        wait_until(lambda: "unknown" not in self.appliance.health().values(), 10,
                   "every backend was probed")
        digests = self.appliance.show("status")["digests"]
        self.assertEqual(self.appliance.show("diff")["differences"], [])
        self.appliance.stop()
        fresh = Appliance.__new__(Appliance)
        fresh.lab, fresh.config, fresh.socket = self.lab, self.appliance.config, self.appliance.socket
        fresh.start(up=plan.BACKENDS)
        deadline = time.monotonic() + 20
        while fresh.show("status")["digests"] != digests and time.monotonic() < deadline:
            time.sleep(0.2)
        self.assertEqual(fresh.show("status")["digests"], digests)


class RefusedVerbs(LabCase):
    """What would lose something is refused, and says how to do it all the same."""

    def test_the_last_backend_needs_force(self):
        for backend in ("b1", "b2"):
            self.appliance.lodectl("backend", "drain", f"{POOL}/{backend}")
        with self.assertRaises(Refused) as refused:
            self.appliance.lodectl("backend", "drain", f"{POOL}/b3")
        self.assertIn(f"pool {POOL} would have no backend", str(refused.exception))
        self.appliance.lodectl("backend", "drain", f"{POOL}/b3", "--force")
        for backend in plan.BACKENDS:
            self.appliance.lodectl("backend", "enable", f"{POOL}/{backend}")

    def test_a_reload_does_not_undo_what_was_not_saved(self):
        self.appliance.lodectl("backend", "weight", f"{POOL}/b1", "0")
        self.assertIn("weight", self.appliance.lodectl("diff"))
        with self.assertRaises(Refused) as refused:
            self.appliance.lodectl("reload")
        self.assertIn("config save", str(refused.exception))
        self.assertIn("wrote 1 change", self.appliance.lodectl("config", "save"))
        self.assertIn("nothing to change", self.appliance.lodectl("reload"))
        # HP-40: a weight of 0 was written, read again and shown as 0.
        rows = {(row["pool"], row["name"]): row["weight"] for row in self.appliance.backends()}
        self.assertEqual(rows[POOL, "b1"], 0)
        self.appliance.lodectl("backend", "weight", f"{POOL}/b1", "1")
        self.appliance.lodectl("config", "save")

    def test_a_batch_is_all_or_nothing(self):
        generation = self.appliance.show("status")["generation"]
        file = self.lab.path("batch")
        with open(file, "w", encoding="utf-8") as batch:
            batch.write(f"# two at once\nbackend weight {POOL}/b1 3\nbackend drain {POOL}/nobody\n")
        with self.assertRaises(Refused):
            self.appliance.lodectl("batch", file)
        self.assertEqual(self.appliance.show("status")["generation"], generation)
        with open(file, "w", encoding="utf-8") as batch:
            batch.write(f"backend weight {POOL}/b1 3\nbackend drain {POOL}/b2\n")
        self.appliance.lodectl("batch", file)
        self.assertEqual(self.appliance.show("status")["generation"], generation + 1)
        self.appliance.lodectl("reload", "--force")

    def test_explain_names_the_backend_that_answers(self):
        told = self.appliance.show("explain", "flow", plan.CLIENT4, "40000", plan.VIP4, "80", "tcp")
        body = self.curl(4, "/", "--local-port", "40000")
        self.assertEqual(told["first_packet"]["backend"], f"{POOL}/{body.strip()}")
        self.assertEqual(told["tracked"], [])
        told = self.appliance.show("explain", "flow", plan.CLIENT4, "40000", plan.VIP4, "80", "tcp")
        self.assertEqual([entry["backend"] for entry in told["tracked"]],
                         [f"{POOL}/{body.strip()}"])
        text = self.appliance.lodectl("explain", "flow", plan.CLIENT4, "40000", plan.VIP4, "80",
                                      "tcp")
        self.assertIn("level 2", text)
        flows = self.appliance.show("show", "flows", "--client", plan.CLIENT4)
        self.assertGreaterEqual(flows["matched"], 1)
        self.assertIn("forgot", self.appliance.lodectl("conntrack", "flush", "--client",
                                                       plan.CLIENT4))
        flows = self.appliance.show("show", "flows", "--client", plan.CLIENT4)
        self.assertEqual(flows["matched"], 0)
