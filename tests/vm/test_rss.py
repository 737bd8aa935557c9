"""Two queues and RSS on virtio: the queue predicted from key and table is the queue seen; two workers share
the flows; without the feature the alarm comes and names the fix."""

import random
import socket
import struct

import configuration
from guest import GuestCase, NicPorts, interface, nics
from support import VIP, inside, wait_until

TUPLES = 10_000
# So many frames before the workers' counts are compared.
BATCH = 1000
TCP, UDP = 6, 17
ETHERTYPE = {4: 0x0800, 6: 0x86DD}
PORT = 80
WORKERS = [configuration.cores()[0], *configuration.cores()[1]]


def with_rss():
    """The NIC with two queues and RSS."""
    return NicPorts([(nics.RSS.address, interface(nics.QUEUES_PEER), None)])


def without_rss():
    """The NIC with two queues and nothing that spreads flows."""
    return NicPorts([(nics.NO_RSS.address, interface(nics.QUEUES_PEER), None)])


def windows(key):
    """The 32 bits of the key at each of its places."""
    number, width = int.from_bytes(key, "big"), len(key) * 8
    return [number >> (width - 32 - place) & 0xFFFFFFFF for place in range(width - 32 + 1)]


def toeplitz(places, data):
    """The hash of RSS, over the windows of its key."""
    number, width = int.from_bytes(data, "big"), len(data) * 8
    result = 0
    for place in range(width):
        if number >> (width - 1 - place) & 1:
            result ^= places[place]
    return result


def checksum(data):
    """The Internet checksum (RFC 1071)."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data)) if len(data) % 2 == 0 else 0
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Tuple:
    """A flow's five fields, and its first packet."""

    def __init__(self, choose):
        self.family, self.protocol = choose.choice((4, 6)), choose.choice((TCP, UDP))
        # Clients of everywhere: nobody answers them.
        self.source = choose.randbytes(3).rjust(4, b"\x0b") if self.family == 4 \
            else b"\x20\x01\x0d\xb8" + choose.randbytes(12)
        self.destination = socket.inet_pton(
            socket.AF_INET if self.family == 4 else socket.AF_INET6, VIP[self.family])
        self.port = choose.randrange(1024, 65536)

    def hashed(self):
        """What RSS hashes: addresses and ports (all types of them are on)."""
        return self.source + self.destination + struct.pack("!HH", self.port, PORT)

    def frame(self, ours, theirs):
        """An opening SYN, or an empty datagram."""
        if self.protocol == TCP:
            segment = struct.pack("!HHIIBBHHH", self.port, PORT, 1, 0, 5 << 4, 2, 65535, 0, 0)
            place = 16
        else:
            segment = struct.pack("!HHHH", self.port, PORT, 8, 0)
            place = 6
        pseudo = self.source + self.destination + struct.pack("!II", len(segment), self.protocol)
        segment = segment[:place] + struct.pack("!H", checksum(pseudo + segment)) + segment[place + 2:]
        if self.family == 4:
            header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(segment), 1, 0, 64, self.protocol, 0) \
                + self.source + self.destination
            header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
        else:
            header = struct.pack("!IHBB", 6 << 28, len(segment), self.protocol, 64) \
                + self.source + self.destination
        return theirs + ours + struct.pack("!H", ETHERTYPE[self.family]) + header + segment


class Spread(GuestCase):
    """Two workers, two queues, RSS."""

    ports = with_rss
    settings = {"workers": WORKERS, "ports": '"any"', "idle_timeout": 600}

    def flows(self):
        """Flows that each worker began to track, of both families: half-open ones are forgotten soon."""
        shards = self.appliance.show("show", "conntrack")["shards"]
        return [sum(shard["new"] + shard["unverified"] for shard in shards if shard["worker"] == number)
                for number in range(len(WORKERS))]

    def test_predicted_queue_is_the_queue_seen(self):
        row = self.port_row()
        self.assertEqual(row["rss"], "on (ipv4+ipv6+tcp+udp)")
        places, table = windows(bytes.fromhex(row["rss_key"])), row["rss_table"]
        self.assertEqual(set(table), {0, 1})
        ours = bytes.fromhex(self.lab.namespaces["client"].mac("eth0").replace(":", ""))
        theirs = bytes.fromhex(row["mac"].replace(":", ""))
        choose = random.Random(5)
        queues = [[], []]
        seen = set()
        while len(seen) < TUPLES:
            flow = Tuple(choose)
            hashed = flow.hashed() + bytes([flow.protocol])
            if hashed not in seen:
                seen.add(hashed)
                queues[table[toeplitz(places, flow.hashed()) % len(table)]].append(flow)
        # A fair share is a half; five standard deviations are 250.
        self.assertTrue(all(abs(len(flows) - TUPLES / 2) < 250 for flows in queues), list(map(len, queues)))
        with inside(self.lab, "client"):
            wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            wire.bind(("eth0", 0))
        expected = self.flows()
        with wire:
            for queue, flows in enumerate(queues):
                for begin in range(0, len(flows), BATCH):
                    batch = flows[begin:begin + BATCH]
                    for flow in batch:
                        wire.send(flow.frame(ours, theirs))
                    expected[queue] += len(batch)
                    wait_until(lambda: sum(self.flows()) >= sum(expected), 20, "the batch is tracked")
                    # Each flow is tracked by the worker whose queue it came to, and by no other.
                    self.assertEqual(self.flows(), expected, f"batch {begin // BATCH} for queue {queue}")

    def test_both_workers_carry_connections(self):
        for family in (4, 6):
            self.ask_until_all_served(family)
            for _ in range(8):
                self.curl(family)
        workers = self.appliance.show("show", "workers")["workers"]
        self.assertTrue(all(worker["rx_packets"] > 0 for worker in workers), workers)


class NoSpread(GuestCase):
    """Two workers, two queues, and nothing that spreads flows."""

    ports = without_rss
    settings = {"workers": WORKERS}

    def test_alarm_names_the_fix(self):
        row = self.port_row()
        self.assertEqual(row["rss"], "missing")
        [alarm] = [alarm for alarm in self.appliance.show("status")["alarms"] if "RSS" in alarm]
        self.assertIn("rss=on", alarm)
        self.assertIn("RSS", self.appliance.log_tail(200))
        rss = next(feature for feature in row["features"] if feature["name"] == "rss")
        self.assertEqual(rss["done_by"], "missing")
        for family in (4, 6):
            self.ask_until_all_served(family)
