"""conf/virtio.toml and conf/sriov.toml, word for word: scripts/setup-host prepares what they need, the daemon
starts with them, and requests are answered through their VIPs."""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
import unittest

import network
from appliance import programs
from guest import (
    ROOT, WIRE_VLANS, command, functions, interface, nics, recipe, setup_host
)
from lab import ENVIRONMENT, space_pids, wait_until

VIPS_OF_RECIPE = ("10.77.0.100/32", "fd77::100/128")
SOCKET = "/run/lodestone/admin.sock"
# A server for anything that connects: a request line and headers, then an answer; or a greeting.
SERVER = """
import http.server, socketserver, sys
name, ports = sys.argv[1], [int(port) for port in sys.argv[2:]]
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = name.encode() + b"\\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    address_family = __import__("socket").AF_INET6
import threading
for port in ports:
    threading.Thread(target=Server(("::", port), Answer).serve_forever).start()
"""


class Files(unittest.TestCase):
    """One file, one test."""

    def setUp(self):
        self.spaces, self.processes = {}, []
        self.prefix = f"lode{secrets.token_hex(3)}"
        self.addCleanup(self.remove)
        os.makedirs("/run/lodestone", exist_ok=True)

    def remove(self):
        """All that was made."""
        for process in self.processes:
            process.terminate()
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for space in self.spaces.values():
            for pid in space_pids(space):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for end, peer in getattr(self, "moved", ()):
            with contextlib.suppress(network.CommandFailed):
                self.spaces["wire"].ip("link", "set", end, "netns", "1", "name", peer)
        for space in self.spaces.values():
            network.run("ip", "netns", "delete", space.name, check=False)
        # What the daemon's own namespace, the guest's first, was given.
        for name in ("mgmt0",):
            network.run("ip", "link", "delete", name, check=False)

    def space(self, name):
        """A new namespace."""
        self.spaces[name] = network.Namespace(f"{self.prefix}-{name}")
        self.spaces[name].create()
        return self.spaces[name]

    def spawn(self, space, *words):
        """A process that ends with the test."""
        self.processes.append(subprocess.Popen(
            ["ip", "netns", "exec", space.name, *words], stdin=subprocess.DEVNULL, env=ENVIRONMENT))

    def backend(self, space, vips, ports):
        """The recipe with these VIPs, and a server."""
        script = recipe()
        for given, ours in zip(VIPS_OF_RECIPE, vips):
            script = script.replace(given, ours)
        space.exec("sh", "-ec", script)
        for extra in vips[2:]:
            space.ip("address", "add", extra, "dev", "lo")
        self.spawn(space, sys.executable, "-c", SERVER, space.name.rsplit("-", 1)[1], *map(str, ports))

    def start(self, file, up):
        """Prepares the machine as the file says, starts the daemon, waits for these backends."""
        path = os.path.join(ROOT, "conf", file)
        code, said = setup_host(path)
        self.assertEqual(code, 0, said)
        self.processes.insert(0, subprocess.Popen(
            [os.path.join(programs(), "lodestoned"), "--config", path], stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT, env=ENVIRONMENT))
        self.daemon = self.processes[0]

        def healthy():
            self.assertIsNone(self.daemon.poll(), "the daemon ended at its start")
            with contextlib.suppress(ValueError):
                pools = json.loads(self.lodectl("--json", "show", "backends") or "null") or {"pools": []}
                return up <= {row["name"] for pool in pools["pools"] for row in pool["backends"]
                              if row["health"] == "up"}
            return False

        wait_until(healthy, 60, f"{sorted(up)} are up", pause=0.5)

    def lodectl(self, *words):
        """Its output, empty if it fails."""
        result = subprocess.run([os.path.join(programs(), "lodectl"), "--socket", SOCKET, *words],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                text=True, env=ENVIRONMENT)
        return result.stdout if result.returncode == 0 else ""

    def served(self, client, url, backends):
        """Requests until each of these answered one."""
        seen, deadline = set(), time.monotonic() + 60
        while seen != backends:
            said = client.exec("curl", "-q", "-sS", "--noproxy", "*", "--connect-timeout", "3", "--max-time",
                               "5", url, check=False).strip()
            seen |= {said} - {""}
            self.assertLessEqual(seen, backends)
            self.assertLess(time.monotonic(), deadline, f"{url}: {seen}")

    def tell_features(self):
        """What `lodectl show ports` says, for docs/deploy.md."""
        for line in self.lodectl("show", "ports").splitlines():
            print(f"        {line}", flush=True)

    def test_virtio(self):
        wire = self.space("wire")
        wire.sysctl(("net.ipv6.conf.all.disable_ipv6", 1), ("net.ipv6.conf.default.disable_ipv6", 1))
        network.bridge(wire, "lan", 1600)
        peer = interface(nics.SERVICE_PEER)
        self.moved = [("lb-lan", peer)]
        network.run("ip", "link", "set", peer, "netns", wire.name, "name", "lb-lan")
        network.without_offloads(wire, "lb-lan")
        wire.ip("link", "set", "lb-lan", "mtu", "1600", "master", "lan", "up")
        client = self.space("client")
        network.plug(client, "eth0", wire, "lan", 1400, 1600)
        client.add_address("eth0", "192.168.10.50/24")
        for number in (1, 2):
            space = self.space(f"s{number}")
            network.plug(space, "eth0", wire, "lan", 1500, 1600)
            space.add_address("eth0", f"192.168.10.{10 + number}/24")
            self.backend(space, ("192.168.10.100/32", "fd00:10::100/128"), (22,))
        # The daemon's kernel probes on the same network, by an interface of its own.
        network.run("ip", "link", "add", "mgmt0", "type", "veth", "peer", "name", "mgmt", "netns", wire.name)
        wire.ip("link", "set", "mgmt", "master", "lan", "up")
        network.run("ip", "address", "add", "192.168.10.3/24", "dev", "mgmt0")
        network.run("ip", "link", "set", "mgmt0", "up")
        self.start("virtio.toml", {"s1", "s2"})
        self.served(client, "http://192.168.10.100:22/", {"s1", "s2"})
        self.tell_features()

    def test_sriov(self):
        # The file tags the frames and sets the address itself.
        physical, _ = functions(0, 0)
        command("ip", "link", "set", physical, "vf", "0", "mac", "02:00:00:00:00:01")
        peer = interface(nics.SRIOV_PEER)
        command("ip", "link", "set", peer, "mtu", "1700", "up")
        edge = self.space("edge")
        command("ip", "link", "add", "link", peer, "name", "edge", "type", "vlan", "id", str(WIRE_VLANS[0]))
        command("ip", "link", "set", "edge", "netns", edge.name)
        network.without_offloads(edge, "edge")
        edge.sysctl(("net.ipv4.ip_forward", 1), ("net.ipv6.conf.all.forwarding", 1))
        edge.batch("link set edge mtu 1600 up", "address add 192.0.2.1/24 dev edge",
                   "address add 2001:db8:0:1::1/64 dev edge nodad",
                   *(f"route add {vip} via 192.0.2.2" for vip in ("203.0.113.80", "203.0.113.53")),
                   "route add 2001:db8:80::80 via 2001:db8:0:1::2")
        backends = {"a1": ("10.1.0.11", "10.9.0.11"), "a2": ("10.1.0.12", "10.9.0.12"),
                    "b1": ("2001:db8:2::11", "10.9.0.21"), "d1": ("198.51.100.53", "10.9.0.53")}
        vips = ("203.0.113.80/32", "2001:db8:80::80/128", "203.0.113.53/32")
        network.bridge(edge, "inside", 1600)
        edge.batch("address add 10.1.0.1/24 dev inside", "address add 198.51.100.1/24 dev inside",
                   "address add 2001:db8:2::1/64 dev inside nodad", "address add 10.9.0.1/24 dev inside")
        for name, (address, probe) in backends.items():
            space = self.space(name)
            network.plug(space, "eth0", edge, "inside", 1600, 1600)
            length = 64 if ":" in address else 24
            space.add_address("eth0", f"{address}/{length}")
            space.add_address("eth0", f"{probe}/24")
            if ":" in address:
                space.ip("-6", "route", "add", "default", "via", "2001:db8:2::1")
                space.ip("route", "add", "default", "via", "10.9.0.1")
            else:
                space.ip("route", "add", "default", "via",
                         "10.1.0.1" if address.startswith("10.") else "198.51.100.1")
                space.add_address("eth0", f"2001:db8:2::{address.rpartition('.')[2]}0/64")
                space.ip("-6", "route", "add", "default", "via", "2001:db8:2::1")
            self.backend(space, vips, (53,) if name == "d1" else (80,))
        client = self.space("client")
        network.bridge(edge, "outside", 1600)
        network.plug(client, "eth0", edge, "outside", 1500, 1600)
        edge.batch("address add 198.18.0.1/24 dev outside", "address add 2001:db8:18::1/64 dev outside nodad")
        client.batch("address add 198.18.0.9/24 dev eth0", "address add 2001:db8:18::9/64 dev eth0 nodad",
                     "route add default via 198.18.0.1", "route add default via 2001:db8:18::1")
        # The daemon's kernel probes over the management network.
        network.run("ip", "link", "add", "mgmt0", "type", "veth", "peer", "name", "mgmt", "netns", edge.name)
        edge.ip("link", "set", "mgmt", "master", "inside", "up")
        network.run("ip", "address", "add", "10.9.0.2/24", "dev", "mgmt0")
        network.run("ip", "link", "set", "mgmt0", "up")
        self.start("sriov.toml", set(backends))
        self.served(client, "http://203.0.113.80/", {"a1", "a2"})
        self.served(client, "http://[2001:db8:80::80]/", {"a1", "a2"})
        self.served(client, "http://203.0.113.53:53/", {"d1"})
        self.tell_features()
