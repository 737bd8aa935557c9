"""VIPs with `ports = "any"`, byte-identical payload, and affinity: L4-05, L4-12, L4-33."""

import random
from collections import Counter

import plan
from support import Connection, LabCase, ask_datagram

# SSH, SMTP, DNS, NTP and the like, and some at random but the same in every run.
SAMPLED = (21, 22, 25, 53, 110, 123, 143, 389, 443, 853, 993, 1883, 3306, 5060, 5432, 6379, 8080,
           25565, 50000, 65535)
SPREAD = 300


class AnyPort(LabCase):
    """Echo servers on twenty ports of the VIPs, TCP and UDP."""

    settings = {"ports": '"any"'}
    echo_ports = SAMPLED

    def test_tcp_passes(self):  # L4-33
        for family in (4, 6):
            for port in SAMPLED:
                with self.subTest(family=family, port=port):
                    connection = Connection(self.lab, family, port)
                    self.assertEqual(connection.echo(b"hello"), b"hello")
                    # L4-02: the backend's getpeername is the client's own address and port.
                    self.assertEqual(connection.seen, connection.socket.getsockname()[:2])
                    connection.socket.close()

    def test_udp_passes(self):  # L4-33
        for family in (4, 6):
            for port in SAMPLED:
                with self.subTest(family=family, port=port):
                    backend, echo = ask_datagram(self.lab, family, port, b"\x00binary\xff")
                    self.assertIn(backend, plan.BACKENDS)
                    self.assertEqual(echo, b"\x00binary\xff")

    def test_http_request_is_untouched(self):  # L4-05
        request = (b"POST /form?a=1 HTTP/1.1\r\nHost: example.test\r\nuser-AGENT:  odd spaces \r\n"
                   b"Content-Length: 5000\r\n\r\n" + random.Random(5).randbytes(5000))
        for family in (4, 6):
            connection = Connection(self.lab, family, 8080)
            self.assertEqual(connection.echo(request), request)
            connection.socket.close()

    def test_same_tuple_same_backend_and_ports_spread(self):  # L4-12
        for family in (4, 6):
            served = {}
            for source_port in range(30000, 30000 + SPREAD):
                connection = Connection(self.lab, family, 8080, source_port)
                served[source_port] = connection.backend
                connection.abort()
            shares = Counter(served.values())
            # A fair share is 100; 60 is five standard deviations off.
            self.assertTrue(all(shares[name] > SPREAD // 5 for name in plan.BACKENDS), shares)
            for source_port in range(30000, 30000 + SPREAD, 6):
                connection = Connection(self.lab, family, 8080, source_port)
                self.assertEqual(connection.backend, served[source_port], source_port)
                connection.abort()
