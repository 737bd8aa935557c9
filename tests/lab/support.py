"""What the lab cases share: a lab with a running appliance, and eyes and hands inside it."""

import contextlib
import ctypes
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts", "lab"))

import plan  # noqa: E402
from appliance import Appliance, Refused, programs  # noqa: E402, F401
from lab import HERE, Lab, end_on_signals, wait_until  # noqa: E402, F401
from quickstart import first_errors, requests  # noqa: E402

PACKET_OUTGOING = 4
ETH_P_ALL = 3
ETH_IPV4, ETH_ARP, ETH_IPV6 = 0x0800, 0x0806, 0x86DD
SYN, ACK, RST = 0x02, 0x10, 0x04
VIP = {4: plan.VIP4, 6: plan.VIP6}
CLIENT = {4: plan.CLIENT4, 6: plan.CLIENT6}
FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WAIT_ALL = 0x40000000  # __WALL: threads are children that waitpid hides otherwise


@contextlib.contextmanager
def inside(lab, role):
    """This thread is in a namespace of the lab; sockets made meanwhile stay there."""

    with lab.namespaces[role].inside():
        yield


class Packet:
    """An IP packet, cut to the length that its header states."""

    def __init__(self, data):
        self.version = data[0] >> 4
        if self.version == 4:
            self.bytes = data[:struct.unpack_from("!H", data, 2)[0]]
            self.protocol, self.start = data[9], (data[0] & 15) * 4
            family, source, destination = socket.AF_INET, data[12:16], data[16:20]
        else:
            self.bytes = data[:40 + struct.unpack_from("!H", data, 4)[0]]
            self.protocol, self.start = data[6], 40
            family, source, destination = socket.AF_INET6, data[8:24], data[24:40]
        self.source = socket.inet_ntop(family, source)
        self.destination = socket.inet_ntop(family, destination)

    @property
    def inner(self):
        """The packet inside of an IPIP packet, or None."""
        return Packet(self.bytes[self.start:]) if self.protocol in (4, 41) else None

    @property
    def ports(self):
        """(source port, destination port)"""
        return struct.unpack_from("!HH", self.bytes, self.start)

    @property
    def flags(self):
        """TCP flags; 0 for anything else."""
        return self.bytes[self.start + 13] if self.protocol == socket.IPPROTO_TCP else 0

    @property
    def is_opening_syn(self):
        """SYN without ACK."""
        return self.flags & (SYN | ACK) == SYN


class Capture:
    """Takes copies of the frames on an interface from now on.

    The appliance's own frames are looked at on the switch's end of its link (`lb-lb0`): the packet
    socket of its driver may bypass captures on its own interface.
    """

    def __init__(self, lab, role, interface):
        with inside(lab, role):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
            self.socket.bind((interface, ETH_P_ALL))
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        self.socket.setblocking(False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def frames(self):
        """(ethertype, whether it was sent, what follows the Ethernet header) since the last call."""
        with contextlib.suppress(BlockingIOError):
            while True:
                data, (_, ethertype, kind, *_rest) = self.socket.recvfrom(65535)
                yield ethertype, kind == PACKET_OUTGOING, data

    def packets(self):
        """([received], [sent]) IP packets since the last call."""
        received, sent = [], []
        for ethertype, was_sent, data in self.frames():
            if ethertype in (ETH_IPV4, ETH_IPV6):
                (sent if was_sent else received).append(Packet(data))
        return received, sent


class Connection:
    """A TCP connection from the client to an echo server behind the VIP."""

    def __init__(self, lab, family, port, source_port=0, timeout=5):
        with inside(lab, "client"):
            self.socket = socket.socket(FAMILY[family], socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind((CLIENT[family], source_port))
        self.socket.connect((VIP[family], port))
        greeting = self.read_line().split()
        self.backend, self.seen = greeting[0].decode(), (greeting[1].decode(), int(greeting[2]))

    def read_line(self):
        """Up to a newline, byte by byte: what follows is the echo's."""
        line = b""
        while not line.endswith(b"\n"):
            byte = self.socket.recv(1)
            if not byte:
                raise ConnectionError("the connection ended before its greeting")
            line += byte
        return line

    def echo(self, data):
        """Sends `data` and returns as many bytes as come back."""
        self.socket.sendall(data)
        back = b""
        while len(back) < len(data):
            part = self.socket.recv(65536)
            if not part:
                break
            back += part
        return back

    def abort(self):
        """Ends it by RST: no TIME_WAIT keeps the port."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def ask_datagram(lab, family, port, data, attempts=3):
    """Sends a datagram to a VIP; returns (backend, echo). UDP may lose one: a few attempts."""
    with inside(lab, "client"):
        client = socket.socket(FAMILY[family], socket.SOCK_DGRAM)
    with client:
        client.settimeout(2)
        client.connect((VIP[family], port))
        for attempt in range(attempts):
            client.send(data)
            try:
                answer = client.recv(65536)
                break
            except TimeoutError:
                if attempt + 1 == attempts:
                    raise
    greeting, _, echo = answer.partition(b"\n")
    return greeting.split()[0].decode(), echo


class SynSender:
    """Sends SYNs or other segments of many source ports, with correct checksums, to an IPv4 VIP."""

    def __init__(self, lab, port):
        with inside(lab, "client"):
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
        # Nobody reads it; the kernel shall not queue answers.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        self.port = port

    def send(self, source_port, flags=SYN):
        """One segment without data."""
        header = struct.pack("!HHIIBBHHH", source_port, self.port, source_port, 0, 5 << 4, flags,
                             65535, 0, 0)
        pseudo = socket.inet_aton(plan.CLIENT4) + socket.inet_aton(plan.VIP4) \
            + struct.pack("!HH", socket.IPPROTO_TCP, len(header))
        total = sum(struct.unpack(f"!{(len(pseudo) + len(header)) // 2}H", pseudo + header))
        total = (total & 0xFFFF) + (total >> 16)
        total = (total & 0xFFFF) + (total >> 16)
        header = header[:16] + struct.pack("!H", ~total & 0xFFFF) + header[18:]
        self.socket.sendto(header, (plan.VIP4, 0))

    def burst(self, source_ports, rate=2000, flags=SYN):
        """Many, at a pace that a busy machine carries without loss."""
        begin = time.monotonic()
        for index, source_port in enumerate(source_ports):
            self.send(source_port, flags)
            if index % 20 == 0:
                time.sleep(max(0.0, begin + index / rate - time.monotonic()))


LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long


def ptrace(request, thread):
    """One ptrace call without arguments."""
    if LIBC.ptrace(request, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace({request:#x}, {thread})")


@contextlib.contextmanager
def stopped(threads):
    """These threads stand still: a signal would stop the whole process, ptrace stops one thread."""
    held = []
    try:
        for thread in threads:
            ptrace(PTRACE_SEIZE, thread)
            held.append(thread)
            ptrace(PTRACE_INTERRUPT, thread)
            os.waitpid(thread, WAIT_ALL)
        yield
    finally:
        for thread in held:
            ptrace(PTRACE_DETACH, thread)


def thread_state(thread):
    """A thread's state letter; `t` is stopped by a tracer."""
    with open(f"/proc/{thread}/stat", encoding="utf-8", errors="replace") as stat:
        return stat.read().rpartition(")")[2].split()[0]


class SteadyLoad:
    """curl at a steady rate from the client, over IPv4 and IPv6, for as long as the block runs."""

    def __init__(self, lab, rate=20):
        self.lab, self.rate = lab, rate
        self.made = []

    def __enter__(self):
        self.process = self.lab.popen(
            "client", sys.executable, os.path.join(HERE, "load.py"), "--rate", str(self.rate),
            "--ipv4", f"http://{plan.VIP4}/", "--ipv6", f"http://[{plan.VIP6}]/",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(
            target=lambda: self.made.extend(requests(self.process.stdout.read())))
        self.reader.start()
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join()
        self.process.stdout.close()


class LabCase(unittest.TestCase):
    """Cases that share one lab; by default with an appliance whose backends are all up."""

    variant = plan.ONE_ARM
    # What makes the appliance's ports, if not the lab's own.
    ports = None
    # As for `configuration.toml`.
    settings = {}
    # Ports of the backends' echo servers.
    echo_ports = ()
    starts = True

    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(cls.variant, cls.ports() if cls.ports else None)
        cls.addClassCleanup(cls.lab.down)
        cls.lab.up()
        for backend in plan.BACKENDS if cls.echo_ports else ():
            cls.lab.start_echo(backend, cls.echo_ports)
        cls.appliance = Appliance(cls.lab, **cls.settings)
        if cls.starts:
            cls.appliance.start()

    def curl(self, family, path="/", *words, limit=5):
        """One request through the VIP; returns the body, fails the test if there is none."""
        host = VIP[family] if family == 4 else f"[{VIP[family]}]"
        result = self.lab.run("client", "curl", "-q", "-sS", "--noproxy", "*", "--fail",
                              "--max-time", str(limit), *words, f"http://{host}{path}")
        self.assertEqual(result.returncode, 0, f"curl {host}{path}: {result.stderr}")
        return result.stdout

    def ask_until_all_served(self, family, limit=100):
        """Requests until every backend answered one; returns how many were made."""
        served = set()
        for count in range(1, limit + 1):
            served.add(self.curl(family).strip())
            if served == set(plan.BACKENDS):
                return count
        self.fail(f"{limit} requests over IPv{family} reached only {sorted(served)}")

    def assert_all_answered(self, made, at_least):
        """No request failed, and enough were made to say so."""
        self.assertTrue(all(request["ok"] for request in made),
                        f"{sum(not r['ok'] for r in made)} of {len(made)}: {first_errors(made)}")
        self.assertGreaterEqual(len(made), at_least)

    def settle(self, *captures, quiet=0.3, seconds=5):
        """Lets packets under way arrive: returns when no capture saw one for `quiet` seconds."""
        deadline = time.monotonic() + seconds
        seen = [([], []) for _ in captures]
        sockets = [capture.socket for capture in captures]
        while time.monotonic() < deadline and select.select(sockets, [], [], quiet)[0]:
            for (received, sent), capture in zip(seen, captures):
                more = capture.packets()
                received.extend(more[0])
                sent.extend(more[1])
        return seen
