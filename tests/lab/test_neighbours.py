"""The appliance is a neighbour on its network: ARP, neighbour discovery, echo."""

import socket
import struct
import time

import plan
from support import ETH_ARP, ETH_IPV6, CLIENT, FAMILY, Capture, LabCase, inside, wait_until

ECHO = {4: (8, 0), 6: (128, 129)}
ICMP = {4: socket.IPPROTO_ICMP, 6: socket.IPPROTO_ICMPV6}
OWN = {4: plan.APPLIANCE4, 6: plan.APPLIANCE6}
VIP = {4: plan.VIP4, 6: plan.VIP6}


def checksum(data):
    """RFC 1071."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def announcement(ethertype, data):
    """The address that a gratuitous ARP or an unsolicited neighbour advertisement announces."""
    if ethertype == ETH_ARP and data[14:18] == data[24:28]:
        return socket.inet_ntop(socket.AF_INET, data[14:18])
    if ethertype == ETH_IPV6 and data[6] == socket.IPPROTO_ICMPV6 and data[40] == 136 \
            and socket.inet_ntop(socket.AF_INET6, data[24:40]) == "ff02::1":
        return socket.inet_ntop(socket.AF_INET6, data[48:64])
    return None


class Neighbour(LabCase):
    """Seen from the client's kernel."""

    def test_addresses_are_resolved(self):
        mac = self.lab.namespaces["lb"].mac("lb0")
        client = self.lab.namespaces["client"]
        for family in (4, 6):
            for address in (OWN[family], VIP[family]):
                client.ip("neighbour", "flush", "to", address)
                with inside(self.lab, "client"), socket.socket(FAMILY[family], socket.SOCK_DGRAM) as s:
                    s.sendto(b"", (address, 9))
                wait_until(lambda a=address: mac in client.ip("neighbour", "show", a), 3,
                           f"the client's kernel resolves {address} to {mac}")

    def test_addresses_are_announced_at_start(self):
        self.appliance.stop()
        wanted = {OWN[4], VIP[4], OWN[6], VIP[6]}
        with Capture(self.lab, "client", "eth0") as capture:
            self.appliance.start()
            announced = set()

            def all_came():
                for ethertype, was_sent, data in capture.frames():
                    if not was_sent:
                        announced.add(announcement(ethertype, data))
                return wanted <= announced

            wait_until(all_came, 5, f"{wanted} are announced")

    def test_own_addresses_answer_echo(self):
        for family in (4, 6):
            for length in (0, 56, 1400):
                self.assertTrue(self.ping(family, bytes(i & 255 for i in range(length))),
                                f"{OWN[family]} answers {length} bytes")

    def test_kernel_of_the_appliance_says_nothing_on_the_port(self):
        addresses = self.lab.namespaces["lb"].ip("address", "show", "lb0")
        self.assertNotIn("inet", addresses)

    def ping(self, family, payload):
        """Whether an echo request with this payload is answered with it within 2 s."""
        request, reply = ECHO[family]
        with inside(self.lab, "client"):
            raw = socket.socket(FAMILY[family], socket.SOCK_RAW, ICMP[family])
        with raw:
            raw.settimeout(2)
            raw.bind((CLIENT[family], 0))
            message = struct.pack("!BBHHH", request, 0, 0, 0x77, len(payload)) + payload
            if family == 4:  # the kernel fills ICMPv6's in
                message = message[:2] + struct.pack("!H", checksum(message)) + message[4:]
            raw.sendto(message, (OWN[family], 0))
            deadline = time.monotonic() + 2
            try:
                while time.monotonic() < deadline:
                    data, peer = raw.recvfrom(65535)
                    if family == 4:
                        self.assertEqual(checksum(data[:20]), 0)
                        data = data[20:]
                    if peer[0] == OWN[family] and data[0] == reply:
                        return data[4:] == message[4:]
            except TimeoutError:
                pass
        return False
