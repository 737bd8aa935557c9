"""The guest's NICs: where each is on the PCI bus, what it can do, and what its cable leads to.

Read on both sides: the machine is made of it, and the cases in the guest find their ports by it.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Nic:
    """A NIC with its cable."""

    name: str
    # Its slot on PCI bus 0, or of the root port before it.
    slot: int
    # NICs of one wire hear one another.
    wire: str
    # "virtio" or "igb".
    model: str = "virtio"
    queues: int = 1
    has_rss: bool = False
    # Whether the appliance may drive it: it then is behind the IOMMU.
    is_port: bool = False

    @property
    def is_tap(self):
        """Whether the wire is a bridge of the machine: a hub inside of QEMU has one queue."""
        return self.wire.startswith("tap")

    @property
    def tap(self):
        """The name of its TAP device."""
        return f"t-{self.name}"[:15]

    @property
    def address(self):
        """Its PCI address; `igb` is the only device behind a root port."""
        return "0000:01:00.0" if self.model == "igb" else f"0000:00:{self.slot:02x}.0"

    def arguments(self, iommu):
        """QEMU's words for it."""
        if self.is_tap:
            queues = f",queues={self.queues}" if self.queues > 1 else ""
            netdev = f"tap,id={self.name}-net,ifname={self.tap},script=no,downscript=no,vhost=off{queues}"
        else:
            netdev = f"hubport,id={self.name}-net,hubid={WIRES.index(self.wire)}"
        words = ["-netdev", netdev]
        if self.model == "igb":
            words += ["-device", f"pcie-root-port,id={self.name}-port,slot=1,addr=0x{self.slot:02x}"]
            device = f"igb,id={self.name},bus={self.name}-port"
        else:
            device = f"virtio-net-pci,id={self.name},addr=0x{self.slot:02x},disable-legacy=on"
            if self.is_port and iommu:
                device += ",iommu_platform=on"
            if self.is_port:
                device += ",host_mtu=9100"
            if self.queues > 1:
                device += f",mq=on,vectors={2 * self.queues + 2}"
            if self.has_rss:
                device += ",rss=on"
        words += ["-device", f"{device},netdev={self.name}-net,mac=02:4c:4f:00:00:{self.slot:02x}"]
        return words


# Wires inside of QEMU, and one that is a bridge of the machine.
WIRES = ("service", "backends", "sriov", "tap-queues")

SERVICE = Nic("service", 3, "service", is_port=True)
SERVICE_PEER = Nic("service-peer", 4, "service")
BACKENDS = Nic("backends", 5, "backends", is_port=True)
BACKENDS_PEER = Nic("backends-peer", 6, "backends")
# Two queues, and what spreads flows over them.
RSS = Nic("rss", 7, "tap-queues", queues=2, has_rss=True, is_port=True)
# Two queues, and nothing that does.
NO_RSS = Nic("no-rss", 8, "tap-queues", queues=2, is_port=True)
QUEUES_PEER = Nic("queues-peer", 9, "tap-queues")
# A physical function, whose virtual functions the appliance drives.
IGB = Nic("igb", 10, "sriov", model="igb")
SRIOV_PEER = Nic("sriov-peer", 11, "sriov")

ALL = (SERVICE, SERVICE_PEER, BACKENDS, BACKENDS_PEER, RSS, NO_RSS, QUEUES_PEER, IGB, SRIOV_PEER)
