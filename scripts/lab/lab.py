#!/usr/bin/env python3
"""Builds and removes a lab: client, appliance and backends, each in a network namespace.

    lab.py up [--variant one-arm|two-arm]     builds one, prints the path of its state file
    lab.py exec --state FILE ROLE COMMAND…    runs a command in one of its namespaces
    lab.py config --state FILE                prints the appliance's configuration
    lab.py down --state FILE                  removes all of it

Whoever builds a `Lab` in Python uses `with`: it is removed at the end, on failure and on Ctrl-C.
"""

import argparse
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import configuration
import network
import plan
import wiring

HERE = os.path.dirname(os.path.abspath(__file__))
# What the lab's processes get of our environment: no proxy settings, no locale.
ENVIRONMENT = {"PATH": os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin", "LC_ALL": "C"}
SLOW_RATE = 128 << 10
SLOW_LENGTH = 32 * SLOW_RATE
BIG_LENGTH = 4 << 20

NGINX = """\
user root;
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log;
events {{ worker_connections 4096; }}
http {{
    log_format lab '$remote_addr $remote_port $server_addr $request_uri $status';
    access_log {directory}/access.log lab;
    client_body_temp_path {directory}/client_body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    default_type text/plain;
    server {{
        listen 0.0.0.0:{port} backlog=4096;
        listen [::]:{port} backlog=4096;
        add_header X-Backend {name};
        location = / {{ return 200 "{name}\\n"; }}
        location = /health {{ return 200 "healthy\\n"; access_log off; }}
        location = /big {{ alias {directory}/big; }}
        location = /slow {{ alias {directory}/slow; limit_rate {slow_rate}; }}
    }}
}}
"""


def start_time(pid):
    """When a process started (clock ticks since boot): with the pid, its identity; None if gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def wait_until(condition, seconds, what, pause=0.02):
    """Waits for `condition()` to be true and returns its value; raises TimeoutError naming `what`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s in vain until {what}")
        time.sleep(pause)


class Lab:
    """One lab. Everything it made is in its state file, so another process can remove it."""

    def __init__(self, variant=plan.ONE_ARM, ports=None):
        self.variant = variant
        self.ports = ports or wiring.PacketSockets()
        self.prefix = f"lode{secrets.token_hex(3)}"
        self.directory = tempfile.mkdtemp(prefix="lodestone-lab-")
        self.state = os.path.join(self.directory, "state.json")
        self.processes = {}
        self.children = {}
        roles = ["switch", "client", "lb", *plan.BACKENDS]
        if variant == plan.TWO_ARM:
            roles.append("router")
        self.namespaces = {role: network.Namespace(f"{self.prefix}-{role}") for role in roles}
        self.save()

    @classmethod
    def load(cls, state):
        """The lab that a state file tells of."""
        with open(state, encoding="utf-8") as file:
            told = json.load(file)
        lab = cls.__new__(cls)
        lab.variant, lab.prefix = told["variant"], told["prefix"]
        lab.directory, lab.state = told["directory"], os.path.abspath(state)
        lab.processes = told["processes"]
        lab.children = {}
        lab.ports = wiring.PacketSockets()
        lab.namespaces = {role: network.Namespace(name) for role, name in told["namespaces"].items()}
        return lab

    def save(self):
        """Writes the state file."""
        told = {"variant": self.variant, "prefix": self.prefix, "directory": self.directory,
                "processes": self.processes,
                "namespaces": {role: space.name for role, space in self.namespaces.items()}}
        with open(self.state + ".new", "w", encoding="utf-8") as file:
            json.dump(told, file, indent=2)
        os.replace(self.state + ".new", self.state)

    def __enter__(self):
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_):
        self.down()

    # --- building -----------------------------------------------------------------------------

    def up(self):
        """Builds everything but the appliance's daemon."""
        for space in self.namespaces.values():
            space.create()
        switch = self.namespaces["switch"]
        # The switch is wire: its kernel must not speak.
        switch.sysctl(("net.ipv6.conf.all.disable_ipv6", 1),
                      ("net.ipv6.conf.default.disable_ipv6", 1))
        network.bridge(switch, "service", self.ports.carrier_mtu)
        network.bridge(switch, "management", self.ports.carrier_mtu)
        if self.variant == plan.TWO_ARM:
            network.bridge(switch, "backends", self.ports.carrier_mtu)
        self.build_client()
        self.build_appliance()
        if self.variant == plan.TWO_ARM:
            self.build_router()
        for backend in plan.BACKENDS:
            self.build_backend(backend)

    def build_client(self):
        """The client: on the service network, like a router's last hop."""
        client = self.namespaces["client"]
        self.plug(client, "eth0", "service", self.ports.mtu)
        client.add_address("eth0", f"{plan.CLIENT4}/24")
        client.add_address("eth0", f"{plan.CLIENT6}/64")

    def build_appliance(self):
        """The appliance's ports, which its kernel leaves alone, and its management interface."""
        lb = self.namespaces["lb"]
        # Or the kernel's router solicitations and multicast reports leave through the port.
        lb.sysctl(("net.ipv6.conf.all.disable_ipv6", 1),
                  ("net.ipv6.conf.default.disable_ipv6", 1),
                  # Nor may it answer ARP for an address of another interface.
                  ("net.ipv4.conf.all.arp_ignore", 1))
        self.ports.plug(self, 0, "lb0", "service")
        if self.variant == plan.TWO_ARM:
            self.ports.plug(self, 1, "lb1", "backends")
        self.plug(lb, "mgmt0", "management", 1500)
        lb.add_address("mgmt0", f"{plan.APPLIANCE_MANAGEMENT}/24")

    def build_router(self):
        """The way back of the two-arm lab: a plain kernel that routes backends' answers."""
        router = self.namespaces["router"]
        router.sysctl(("net.ipv4.ip_forward", 1), ("net.ipv6.conf.all.forwarding", 1))
        for interface, bridge_name, net in (("eth0", "service", 77), ("eth1", "backends", 79)):
            self.plug(router, interface, bridge_name, self.ports.carrier_mtu)
            router.batch(f"address add {plan.router_address(net, 4)}/24 dev {interface}",
                         f"address add {plan.router_address(net, 6)}/64 dev {interface} nodad")

    def build_backend(self, name):
        """A backend as its set-up recipe says: VIPs on loopback, silent in ARP, decapsulating."""
        space = self.namespaces[name]
        # The VIP is everybody's: never answer ARP for it, never announce it.
        space.sysctl(("net.ipv4.conf.all.arp_ignore", 1), ("net.ipv4.conf.all.arp_announce", 2))
        one_arm = self.variant == plan.ONE_ARM
        self.plug(space, "eth0", "service" if one_arm else "backends", self.ports.carrier_mtu)
        self.plug(space, "mgmt0", "management", 1500)
        commands = [f"address add {plan.backend_address(self.variant, name, 4)}/24 dev eth0",
                    f"address add {plan.backend_address(self.variant, name, 6)}/64 dev eth0 nodad",
                    f"address add {plan.probe_address(name)}/24 dev mgmt0"]
        if not one_arm:
            commands += [f"route add default via {plan.router_address(79, family)}" for family in (4, 6)]
        space.batch(*commands)
        if self.ports.recipe is None:
            space.add_address("lo", f"{plan.VIP4}/32")
            space.add_address("lo", f"{plan.VIP6}/128")
            space.ip("tuntap", "add", "decap0", "mode", "tun")
            space.ip("link", "set", "decap0", "mtu", str(self.ports.mtu), "up")
            space.sysctl(("net.ipv4.conf.decap0.rp_filter", 0))
        else:
            space.exec("sh", "-ec", self.ports.recipe)
        self.start_services(name)

    def plug(self, space, interface, bridge, mtu):
        """Joins a namespace to one of the switch's bridges."""
        network.plug(space, interface, self.namespaces["switch"], bridge, mtu, self.ports.carrier_mtu)

    def start_services(self, backend):
        """Starts a backend's decapsulator and HTTP server and waits for both."""
        directory = self.path(backend)
        os.makedirs(directory, exist_ok=True)
        for file, length in (("big", BIG_LENGTH), ("slow", SLOW_LENGTH)):
            with open(os.path.join(directory, file), "wb") as target:
                target.truncate(length)
        config = os.path.join(directory, "nginx.conf")
        with open(config, "w", encoding="utf-8") as target:
            target.write(NGINX.format(directory=directory, name=backend, port=plan.HTTP_PORT,
                                      slow_rate=SLOW_RATE))
        status = self.path(backend, "decapsulate.json")
        with contextlib.suppress(FileNotFoundError):
            os.remove(status)
        if self.ports.recipe is None:
            self.spawn(f"{backend}/decapsulate", backend, sys.executable,
                       os.path.join(HERE, "decapsulate.py"), "--status", status)
        self.spawn(f"{backend}/nginx", backend, "nginx", "-p", directory, "-c", config,
                   "-e", self.path(backend, "error.log"))
        wait_until(lambda: self.ports.recipe or os.path.exists(status), 10, f"{backend} decapsulates")
        wait_until(lambda: os.path.exists(self.path(backend, "nginx.pid")), 30,
                   f"{backend} serves HTTP")

    # --- processes ----------------------------------------------------------------------------

    def path(self, *parts):
        """A path in the lab's own directory."""
        return os.path.join(self.directory, *parts)

    def popen(self, role, *command, **options):
        """A process in a namespace; its pid is the command's own. The caller ends it."""
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("env", ENVIRONMENT)
        return subprocess.Popen(
            ["ip", "netns", "exec", self.namespaces[role].name, *command], **options)

    def run(self, role, *command, **options):
        """Runs a command in a namespace to its end, its output captured as text."""
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        process = self.popen(role, *command, text=True, **options)
        try:
            out, err = process.communicate()
        except BaseException:
            process.kill()
            process.wait()
            raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def spawn(self, name, role, *command, environment=None):
        """Starts a process that lives as long as the lab, logging to `NAME.log`."""
        log = self.path(f"{name}.log")
        os.makedirs(os.path.dirname(log), exist_ok=True)
        with open(log, "ab") as output:
            # A session of its own: Ctrl-C goes to us, and we end it in order.
            process = self.popen(role, *command, stdout=output, stderr=output,
                                 start_new_session=True, env={**ENVIRONMENT, **(environment or {})})
        self.children[name] = process
        self.processes[name] = {"pid": process.pid, "start": start_time(process.pid)}
        self.save()
        return process

    def is_alive(self, name):
        """Whether the process spawned as `name` is still the one we started."""
        process = self.processes[name]
        return process["start"] is not None and start_time(process["pid"]) == process["start"]

    def stop(self, name, number=signal.SIGTERM, seconds=5):
        """Ends a spawned process; what does not obey in time is killed. True if it obeyed."""
        obeyed = True
        process = self.processes[name]
        if self.is_alive(name):
            os.kill(process["pid"], number)
            try:
                wait_until(lambda: not self.is_alive(name), seconds, f"{name} ends")
            except TimeoutError:
                obeyed = False
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process["pid"], signal.SIGKILL)
        if name in self.children:
            self.children.pop(name).wait()
        del self.processes[name]
        self.save()
        return obeyed

    # --- what the tests do to it --------------------------------------------------------------

    def kill_backend(self, backend):
        """A dead machine: its links go down at once, its processes are gone."""
        space = self.namespaces[backend]
        space.exec("sh", "-c", "ip link set eth0 down; ip link set mgmt0 down")
        for pid in space_pids(space):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for name in [name for name in self.processes if name.startswith(f"{backend}/")]:
            self.stop(name, signal.SIGKILL)

    def revive_backend(self, backend):
        """Undoes `kill_backend`."""
        space = self.namespaces[backend]
        for interface in ("eth0", "mgmt0"):
            space.ip("link", "set", interface, "up")
        # IPv6 addresses went with the link.
        space.ip("address", "replace", f"{plan.backend_address(self.variant, backend, 6)}/64",
                 "dev", "eth0", "nodad")
        if self.variant == plan.TWO_ARM:
            for family in (4, 6):
                space.ip(f"-{family}", "route", "replace", "default",
                         "via", plan.router_address(79, family))
        self.start_services(backend)

    def decapsulated(self, backend):
        """The decapsulator's counts as of now."""
        status = self.path(backend, "decapsulate.json")

        def told():
            with open(status, encoding="ascii") as file:
                return json.load(file)

        before = told()["sequence"]
        os.kill(self.processes[f"{backend}/decapsulate"]["pid"], signal.SIGUSR1)
        wait_until(lambda: told()["sequence"] > before, 5, f"{backend} tells its counts")
        return told()

    def start_echo(self, backend, ports):
        """Starts a backend's echo server for TCP and UDP on `ports` of both VIPs."""
        self.spawn(f"{backend}/echo", backend, sys.executable, os.path.join(HERE, "echo.py"),
                   "--name", backend, "--address", *plan.VIPS, "--port", *map(str, ports))
        last = f"{ports[-1]:04X}"
        # /proc/net lists sockets in hexadecimal; UDP over IPv6 on the last port is bound last.
        wait_until(lambda: f":{last} " in self.namespaces[backend].exec("cat", "/proc/net/udp6"),
                   10, f"{backend} echoes")

    # --- removing -----------------------------------------------------------------------------

    def down(self):
        """Removes all that was made; what is gone already is no mistake."""
        # A second Ctrl-C must not leave half of the lab behind.
        held = {}
        with contextlib.suppress(ValueError):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                held[number] = signal.signal(number, signal.SIG_IGN)
        try:
            for name in list(self.processes):
                self.stop(name)
            self.ports.unplug(self)
            for space in self.namespaces.values():
                for pid in space_pids(space):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                network.run("ip", "netns", "delete", space.name, check=False)
            shutil.rmtree(self.directory, ignore_errors=True)
        finally:
            for number, handler in held.items():
                signal.signal(number, handler)


def space_pids(space):
    """The processes inside one of the lab's namespaces; all of them are the lab's."""
    listed = network.run("ip", "netns", "pids", space.name, check=False)
    return [int(pid) for pid in listed.split()]


def end_on_signals():
    """Makes SIGTERM and SIGHUP raise, like Ctrl-C does, so that `with Lab()` cleans up."""

    def end(number, _frame):
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGHUP, end)


def main():
    """The command line."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    verbs = arguments.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="build a lab")
    up.add_argument("--variant", choices=(plan.ONE_ARM, plan.TWO_ARM), default=plan.ONE_ARM)
    for verb, text in (("down", "remove a lab"), ("config", "print the appliance's configuration"),
                       ("exec", "run a command in a namespace")):
        parser = verbs.add_parser(verb, help=text)
        parser.add_argument("--state", required=True, help="the lab's state file")
        if verb == "exec":
            parser.add_argument("role")
            parser.add_argument("command", nargs=argparse.REMAINDER)
    options = arguments.parse_args()

    if os.geteuid() != 0:
        sys.exit("lab: network namespaces need root; run it as root.")
    if options.verb == "up":
        end_on_signals()
        lab = Lab(options.variant)
        try:
            lab.up()
        except BaseException:
            lab.down()
            raise
        print(lab.state)
        return
    try:
        lab = Lab.load(options.state)
    except FileNotFoundError:
        sys.exit(f"lab: {options.state} does not exist: that lab is removed already.")
    if options.verb == "down":
        lab.down()
    elif options.verb == "config":
        print(configuration.toml(lab, lab.path("admin.sock")), end="")
    else:
        if options.role not in lab.namespaces:
            sys.exit(f"lab: no {options.role}; it has {', '.join(lab.namespaces)}.")
        os.execvp("ip", ["ip", "netns", "exec", lab.namespaces[options.role].name, *options.command])


if __name__ == "__main__":
    main()
