"""What the appliance's ports are, and how backends decapsulate: the parts of a lab that differ by machine.

Here they are interfaces of the kernel, so that the lab runs anywhere. The guest of scripts/vm-test has
NICs for its ports and tunnel modules in its kernel (tests/vm/guest.py).
"""

import network


class PacketSockets:
    """Each port is one end of a veth pair, driven through a packet socket."""

    # Settings of every configuration, as for `configuration.toml`.
    settings = {}
    # A shell script that sets up a backend's VIPs and decapsulation; None: a program and a TUN device.
    recipe = None
    # Largest packet of client and backends; the wires carry it with the largest outer header.
    mtu = 1500

    @property
    def carrier_mtu(self):
        """The wires' MTU."""
        return self.mtu + network.OUTER_ROOM

    def plug(self, lab, index, interface, bridge):
        """Joins port `index` to a bridge of the switch; `lb-INTERFACE` is the switch's end."""
        del index
        network.plug(lab.namespaces["lb"], interface, lab.namespaces["switch"], bridge,
                     self.carrier_mtu, self.carrier_mtu)

    def unplug(self, lab):
        """Takes back what does not end with the lab's namespaces."""

    def device(self, index, interface, queues):
        """The device string of port `index`; frames of 2 KiB hold the MTU."""
        return (f"net_af_packet{index},iface={interface},qpairs={queues},"
                "blocksz=65536,framesz=2048,framecnt=1024,qdisc_bypass=0")
