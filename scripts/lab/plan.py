"""The lab's address plan, the same for the kernel's side and the appliance's configuration."""

VIP4, VIP6 = "10.77.0.100", "fd77::100"
VIPS = (VIP4, VIP6)
CLIENT4, CLIENT6 = "10.77.0.10", "fd77::10"
APPLIANCE4, APPLIANCE6 = "10.77.0.2", "fd77::2"
APPLIANCE_MANAGEMENT = "10.78.0.2"
BACKENDS = ("b1", "b2", "b3")
ONE_ARM, TWO_ARM = "one-arm", "two-arm"
# Port of the backends' HTTP server.
HTTP_PORT = 80


def number(backend):
    """`b2` is 2."""
    return int(backend[1:])


def backend_address(variant, backend, family):
    """Where the appliance sends a backend's packets; `family` is 4 or 6."""
    network = 77 if variant == ONE_ARM else 79
    host = 10 + number(backend)
    return f"10.{network}.0.{host}" if family == 4 else f"fd{network}::{host}"


def probe_address(backend):
    """Where the appliance probes a backend, over the management network."""
    return f"10.78.0.{10 + number(backend)}"


def router_address(network, family):
    """The plain router of the two-arm lab, on network 77 (clients) or 79 (backends)."""
    return f"10.{network}.0.1" if family == 4 else f"fd{network}::1"
