"""The guest: a QEMU machine with emulated NICs, an emulated IOMMU, and two ways to talk to it.

The appliance's NICs are each joined to a NIC that the guest's own kernel drives, its *peer*: client,
backends and routers are network namespaces inside the guest. Wires are hubs inside of QEMU; a NIC with
several queues needs a TAP device, which exists in a network namespace of the machine that this module
makes and removes.
"""

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import nics

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
QEMU = "qemu-system-x86_64"
# Emulation: what runs here runs everywhere, and takes as long.
ACCELERATION = "tcg,thread=multi"
MEMORY_MIB = 2560
CORES = 2
BOOT_LIMIT = 180
# What the guest gets of the repository.
PARTS = ("scripts/lab", "scripts/vm", "scripts/setup-host", "tests/lab", "tests/vm", "conf",
         "docs/backends.md")


class GuestLost(RuntimeError):
    """The guest did not come up, ended, or did not answer in time."""


def run(*command):
    """Runs a command of the set-up to its end."""
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        raise GuestLost(f"`{' '.join(command)}` failed: {result.stdout.strip()}")
    return result.stdout


def archive(programs, target):
    """Writes the repository's parts and the two programs as an archive that the kernel unpacks."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(target)) as folder:
        work = os.path.join(folder, "work")
        for part in PARTS:
            source, copy = os.path.join(ROOT, part), os.path.join(work, part)
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            if os.path.isdir(source):
                shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, copy)
        os.makedirs(os.path.join(work, "bin"))
        for program in ("lodestoned", "lodectl"):
            # Memory of the guest is too dear for lines of source.
            run("strip", "--strip-debug", "-o", os.path.join(work, "bin", program),
                os.path.join(programs, program))
        names = subprocess.run(["find", "work"], cwd=folder, check=True, stdout=subprocess.PIPE)
        with open(target, "wb") as file:
            subprocess.run(["cpio", "--quiet", "--create", "--format", "newc", "--owner", "0:0"],
                           cwd=folder, check=True, input=names.stdout, stdout=file)


class Lines:
    """A socket that carries lines."""

    def __init__(self, connection):
        self.connection = connection
        self.pending = b""

    def write(self, text):
        """Sends one line."""
        self.connection.sendall(text.encode() + b"\n")

    def read(self, deadline=None):
        """The next line; None at the end. Raises `TimeoutError` at the deadline."""
        while b"\n" not in self.pending:
            rest = None if deadline is None else max(0.001, deadline - time.monotonic())
            self.connection.settimeout(rest)
            part = self.connection.recv(65536)
            if not part:
                return None
            self.pending += part
        line, _, self.pending = self.pending.partition(b"\n")
        return line.decode(errors="replace")


class Machine:
    """One guest. `with Machine(…) as guest` boots it, and removes all that was made at the end."""

    def __init__(self, image, programs, iommu=True):
        self.image, self.programs, self.iommu = image, programs, iommu
        self.directory = tempfile.mkdtemp(prefix="lodestone-vm-")
        self.namespace = f"lodevm{secrets.token_hex(3)}"
        self.has_namespace = False
        self.process = None
        self.sockets = []

    def path(self, name):
        """A path in the machine's own directory."""
        return os.path.join(self.directory, name)

    def __enter__(self):
        try:
            self.boot()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    # --- starting and ending --------------------------------------------------------------------

    def boot(self):
        """Starts QEMU and waits until the guest takes orders."""
        begin = time.monotonic()
        initrd = self.path("initrd")
        with open(initrd, "wb") as whole:
            parts = self.path("work.cpio")
            archive(self.programs, parts)
            for part in (os.path.join(self.image, "root.cpio"), parts):
                with open(part, "rb") as source:
                    shutil.copyfileobj(source, whole)
            os.remove(parts)
        self.wire()
        with open(self.path("qemu.log"), "wb") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, QEMU, *self.arguments(initrd)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.control, self.wires = self.connect("control.sock"), self.connect("wires.sock")
        self.monitor = self.connect("monitor.sock")
        self.monitor_lock = threading.Lock()
        self.monitor.read(time.monotonic() + 30)
        self.command("qmp_capabilities")
        threading.Thread(target=self.serve_wires, daemon=True).start()
        self.expect("ready", time.monotonic() + BOOT_LIMIT)
        self.boot_seconds = time.monotonic() - begin

    def wire(self):
        """The namespace, and in it a bridge with the TAP devices of NICs with several queues."""
        run("ip", "netns", "add", self.namespace)
        self.has_namespace = True
        script = ["sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1",
                  "ip link set lo up"]
        for bridge in sorted({nic.wire for nic in nics.ALL if nic.is_tap}):
            script += [f"ip link add {bridge} mtu 9200 type bridge stp_state 0 forward_delay 0 "
                       "mcast_snooping 0", f"ip link set {bridge} up"]
        for nic in nics.ALL:
            if nic.is_tap:
                several = " multi_queue" if nic.queues > 1 else ""
                script += [f"ip tuntap add {nic.tap} mode tap{several} vnet_hdr",
                           f"ip link set {nic.tap} mtu 9200 master {nic.wire} up"]
        run("ip", "netns", "exec", self.namespace, "sh", "-ec", "\n".join(script))

    def arguments(self, initrd):
        """QEMU's command line."""
        kernel_line = "console=ttyS0 quiet loglevel=4 panic=-1 iommu=pt"
        words = ["-name", "lodestone", "-machine", "q35,kernel-irqchip=split",
                 "-accel", ACCELERATION, "-cpu", "max", "-smp", str(CORES), "-m", str(MEMORY_MIB),
                 "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
        if self.iommu:
            kernel_line += " intel_iommu=on"
            words += ["-device", "intel-iommu,intremap=on,caching-mode=on"]
        words += ["-kernel", os.path.join(self.image, "vmlinuz"), "-initrd", initrd,
                  "-append", kernel_line, "-serial", f"file:{self.path('console.log')}",
                  "-qmp", f"unix:{self.path('monitor.sock')},server=on,wait=off",
                  "-device", "virtio-serial-pci,addr=0x02"]
        for name, device in (("control", "virtserialport,name=lodestone.control"),
                             ("wires", "virtserialport,name=lodestone.wires"),
                             ("shell", "virtconsole,name=lodestone.shell")):
            words += ["-chardev", f"socket,id={name},path={self.path(name + '.sock')},server=on,wait=off",
                      "-device", f"{device},chardev={name}"]
        for nic in nics.ALL:
            words += nic.arguments(self.iommu)
        return words

    def connect(self, name):
        """A socket to one of QEMU's own."""
        deadline = time.monotonic() + 30
        connection = socket.socket(socket.AF_UNIX)
        while True:
            if self.process.poll() is not None:
                raise GuestLost(f"QEMU ended at its start: {self.tail('qemu.log')}")
            try:
                connection.connect(self.path(name))
            except OSError:
                if time.monotonic() > deadline:
                    raise GuestLost(f"QEMU made no {name}") from None
                time.sleep(0.05)
            else:
                self.sockets.append(connection)
                return Lines(connection)

    def remove(self):
        """Ends the guest and removes all that was made."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for connection in self.sockets:
            connection.close()
        if self.has_namespace:
            with contextlib.suppress(GuestLost):
                run("ip", "netns", "delete", self.namespace)
        shutil.rmtree(self.directory, ignore_errors=True)

    # --- talking --------------------------------------------------------------------------------

    def command(self, execute, **arguments):
        """One command of QEMU's monitor; its answer. Events in between are left aside."""
        with self.monitor_lock:
            self.monitor.write(json.dumps({"execute": execute, "arguments": arguments}))
            while True:
                line = self.monitor.read(time.monotonic() + 30)
                if line is None:
                    raise GuestLost("QEMU's monitor closed")
                answer = json.loads(line)
                if "error" in answer:
                    raise GuestLost(f"QEMU: {answer['error']['desc']}")
                if "return" in answer:
                    return answer["return"]

    def serve_wires(self):
        """Plugs and unplugs cables as the guest asks: `NIC up` or `NIC down`, a line each."""
        with contextlib.suppress(OSError):
            while (line := self.wires.read()) is not None:
                try:
                    name, state = line.split()
                    self.command("set_link", name=name, up=state == "up")
                    answer = "done"
                except (GuestLost, ValueError) as error:
                    answer = str(error)
                self.wires.write(answer)

    def expect(self, key, deadline, each=None):
        """Waits for a message with this key and returns its value; `each` gets the others' text."""
        while True:
            try:
                line = self.control.read(deadline)
            except TimeoutError:
                raise GuestLost("the guest did not answer in time") from None
            if line is None:
                raise GuestLost("the guest ended")
            message = json.loads(line)
            if key in message:
                return message[key]
            if each is not None and "out" in message:
                each(message["out"])

    def order(self, words, seconds, each):
        """Runs a command in the guest; returns its exit code, `each` gets every line it writes."""
        self.control.write(json.dumps({"run": words, "seconds": seconds}))
        return self.expect("exit", time.monotonic() + seconds + 30, each)

    def tail(self, name, lines=60):
        """The end of one of its logs."""
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as log:
                return "".join(log.readlines()[-lines:])
        except OSError:
            return ""
