#!/usr/bin/env python3
"""A backend's echo server: TCP and UDP on many ports of the VIPs.

What comes is sent back as it came, after one line that says who answered and whom it saw:

    b2 10.77.0.10 40312\n

It binds to the VIPs, not to the wildcard: an answer to a datagram must come from the VIP.
"""

import argparse
import selectors
import socket
import sys


def greeting(name, peer):
    """The line before the echo."""
    return f"{name} {peer[0]} {peer[1]}\n".encode()


class Echo:
    """All sockets, in one loop."""

    def __init__(self, name):
        self.name = name
        self.selector = selectors.DefaultSelector()

    def listen(self, address, port):
        """Takes TCP connections and datagrams for one address and port."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        for kind, handler in ((socket.SOCK_STREAM, self.accept), (socket.SOCK_DGRAM, self.datagram)):
            server = socket.socket(family, kind)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((address, port))
            if kind == socket.SOCK_STREAM:
                server.listen(1024)
            server.setblocking(False)
            self.selector.register(server, selectors.EVENT_READ, handler)

    def accept(self, server):
        """Greets a new connection."""
        connection, peer = server.accept()
        connection.sendall(greeting(self.name, peer))
        self.selector.register(connection, selectors.EVENT_READ, self.stream)

    def stream(self, connection):
        """Echoes what a connection sent; the peer's end is answered by ours."""
        try:
            data = connection.recv(65536)
            connection.sendall(data)
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(connection)
            connection.close()

    def datagram(self, server):
        """Answers one datagram by one."""
        data, peer = server.recvfrom(65536)
        server.sendto(greeting(self.name, peer) + data, peer)

    def run(self):
        """Serves until the process is ended."""
        while True:
            for key, _ in self.selector.select():
                try:
                    key.data(key.fileobj)
                except OSError as error:
                    print(f"echo: {error}", file=sys.stderr, flush=True)


def main():
    """Reads `--name NAME --address A… --port P…` and serves."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--name", required=True)
    arguments.add_argument("--address", nargs="+", required=True)
    arguments.add_argument("--port", nargs="+", type=int, required=True)
    options = arguments.parse_args()
    echo = Echo(options.name)
    for address in options.address:
        for port in options.port:
            echo.listen(address, port)
    echo.run()


if __name__ == "__main__":
    main()
