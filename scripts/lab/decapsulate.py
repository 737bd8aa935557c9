#!/usr/bin/env python3
"""The lab's decapsulating backend: IPIP in, plain packets to the kernel.

Raw sockets take packets of protocol 4 (IPv4 inside) and 41 (IPv6 inside) that arrive over IPv4
and over IPv6; their inner packets are written to a TUN device, so the kernel receives them as if
they had come without the tunnel. It owns the VIP on its loopback and answers the client directly.

A status file says how many packets came for each pair of families, and how many of them were a
TCP SYN that opens a connection:

    {"pid": 1, "sequence": 7, "pairs": {"4in4": {"packets": 10, "syn": 1}, "6in4": …}, "broken": 0}

It is replaced as a whole when numbers changed (every 0.2 s at most) and on SIGUSR1 at once.
"""

import argparse
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
IPPROTO_IPV4, IPPROTO_IPV6 = 4, 41
PAIRS = ("4in4", "6in4", "4in6", "6in6")
RECEIVE_BUFFER = 32 << 20
# Packets read from one socket before the next has its turn.
BATCH = 256


def open_tun(name):
    """Opens the TUN device `name`, which exists already or is made."""
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return tun


def open_raw(family, protocol):
    """A raw socket with a large buffer: a burst must not be lost while Python wakes up."""
    raw = socket.socket(family, socket.SOCK_RAW, protocol)
    raw.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), RECEIVE_BUFFER)
    raw.setblocking(False)
    return raw


def is_opening_syn(packet, inner):
    """Whether an inner packet (`inner` is 4 or 6) is a TCP segment with SYN and without ACK."""
    if inner == 4:
        start, protocol = (packet[0] & 15) * 4, packet[9]
    else:
        start, protocol = 40, packet[6]
    return protocol == socket.IPPROTO_TCP and len(packet) > start + 13 \
        and packet[start + 13] & 0x12 == 0x02


class Status:
    """The counts and the file they are told in."""

    def __init__(self, path):
        self.path = path
        self.sequence = 0
        self.broken = 0
        self.pairs = {pair: {"packets": 0, "syn": 0} for pair in PAIRS}

    def write(self):
        """Replaces the file, so that a reader never sees half of it."""
        self.sequence += 1
        text = json.dumps({"pid": os.getpid(), "sequence": self.sequence,
                           "pairs": self.pairs, "broken": self.broken})
        with open(self.path + ".new", "w", encoding="ascii") as file:
            file.write(text)
        os.replace(self.path + ".new", self.path)


def drain(raw, outer, inner, tun, status):
    """Moves at most one batch from a raw socket to the TUN device."""
    counts = status.pairs[f"{inner}in{outer}"]
    for _ in range(BATCH):
        try:
            packet = raw.recv(65535)
        except BlockingIOError:
            return
        if outer == 4:
            # An IPv4 raw socket hands over the outer header; an IPv6 one does not.
            packet = packet[(packet[0] & 15) * 4:]
        if len(packet) < (20 if inner == 4 else 40) or packet[0] >> 4 != inner:
            status.broken += 1
            continue
        try:
            os.write(tun, packet)
        except OSError:
            # The kernel refused it, for instance while the device is down.
            status.broken += 1
            continue
        counts["packets"] += 1
        counts["syn"] += is_opening_syn(packet, inner)


def main():
    """Runs until it is told to end."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--tun", default="decap0", help="name of the TUN device")
    arguments.add_argument("--status", required=True, help="path of the status file")
    options = arguments.parse_args()

    tun = open_tun(options.tun)
    sources = {}
    for outer, family in ((4, socket.AF_INET), (6, socket.AF_INET6)):
        for inner, protocol in ((4, IPPROTO_IPV4), (6, IPPROTO_IPV6)):
            raw = open_raw(family, protocol)
            sources[raw.fileno()] = (raw, outer, inner)
    status = Status(options.status)

    # Signals become readable bytes: nothing interrupts a half-written status file.
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)

    poll = select.epoll()
    for number in (*sources, wake_read):
        poll.register(number, select.EPOLLIN)
    status.write()
    changed = False
    told = 0.0
    while True:
        ready = poll.poll(0.2)
        for number, _ in ready:
            if number == wake_read:
                signals = os.read(wake_read, 64)
                if set(signals) - {signal.SIGUSR1}:
                    status.write()
                    return 0
                # What came before the signal belongs into the answer.
                for source in sources.values():
                    drain(*source, tun, status)
                status.write()
                changed = False
            else:
                drain(*sources[number], tun, status)
                changed = True
        now = os.times().elapsed
        if changed and now - told >= 0.2:
            status.write()
            changed, told = False, now


if __name__ == "__main__":
    sys.exit(main())
