"""The appliance's configuration for a lab, as TOML."""

import os

import plan

# Monitor of the lab: a dead backend is out after interval × fall + timeout at most.
INTERVAL, TIMEOUT, RISE, FALL = 0.5, 0.4, 2, 3
DETECTION_LIMIT = INTERVAL * FALL + TIMEOUT + 1


def cores():
    """(management core, worker cores): the first and the last core that we may use."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], [allowed[-1]]


def milliseconds(seconds):
    """A duration as the configuration writes it."""
    return f'"{round(seconds * 1000)}ms"'


def toml(lab, socket, *, family="same", backends=plan.BACKENDS, ports="[80]", weights=None,
         management=None, workers=None, hugepages=False, queues=1,
         table_size=None, port_keys=(), packet_memory=128, interval=INTERVAL, timeout=TIMEOUT,
         idle_timeout=None):
    """The whole configuration of a lab's appliance.

    `family` is the family of the backends' addresses: "same" as the VIP's, "other", 4 or 6.
    `ports` is written as it is and holds for TCP and, if it is `"any"`, for UDP too.
    """
    default_management, default_workers = cores()
    management = default_management if management is None else management
    workers = default_workers if workers is None else workers
    variant, wired = lab.variant, lab.ports
    two_arm = variant == plan.TWO_ARM
    lines = [
        "[appliance]",
        'name = "lab"',
        'flow_hash_key = "6c6f6465737461722d6c61622d6b6579"',
        "",
        "[cpu]",
        f"management = {management}",
        f"workers = {workers}",
        'idle = "yield"',
        "",
        "[memory]",
        f"hugepages = {str(hugepages).lower()}",
        f"packet_memory = {packet_memory}",
        "",
        "[conntrack]",
        "ipv4_flows = 65536",
        "ipv6_flows = 65536",
        "",
        "[admin]",
        f'socket = "{socket}"',
        "",
        "[[port]]",
        'name = "service"',
        f'device = "{wired.device(0, "lb0", queues)}"',
        f'addresses = ["{plan.APPLIANCE4}/24", "{plan.APPLIANCE6}/64"]',
        f"mtu = {wired.carrier_mtu}",
        *port_keys,
        "",
    ]
    if two_arm:
        lines += [
            "[[port]]",
            'name = "backends"',
            f'device = "{wired.device(1, "lb1", queues)}"',
            'addresses = ["10.79.0.2/24", "fd79::2/64"]',
            f"mtu = {wired.carrier_mtu}",
            "",
        ]
    lines += [
        "[[monitor]]",
        'name = "http"',
        'type = "http"',
        'path = "direct"',
        'http_path = "/health"',
        f"port = {plan.HTTP_PORT}",
        f"interval = {milliseconds(interval)}",
        f"timeout = {milliseconds(timeout)}",
        f"rise = {RISE}",
        f"fall = {FALL}",
        "",
    ]
    for vip in (4, 6):
        outer = {"same": vip, "other": 10 - vip}.get(family, family)
        lines += ["[[pool]]", f'name = "web{vip}"', 'monitor = "http"']
        lines += [f"table_size = {table_size}", ""] if table_size else [""]
        for backend in backends:
            lines += [
                "[[pool.backend]]",
                f'name = "{backend}"',
                f'address = "{plan.backend_address(variant, backend, outer)}"',
                f'probe_address = "{plan.probe_address(backend)}"',
                f"weight = {(weights or {}).get(backend, 1)}",
                "",
            ]
    for vip, address in ((4, plan.VIP4), (6, plan.VIP6)):
        lines += ["[[service]]", f'name = "web{vip}"', 'steering = "failover"',
                  f'pools = ["web{vip}"]']
        lines += [f"idle_timeout = {milliseconds(idle_timeout)}", ""] if idle_timeout else [""]
        for protocol in ("tcp", "udp") if ports == '"any"' else ("tcp",):
            lines += [
                "[[service.vip]]",
                f'address = "{address}"',
                f'protocol = "{protocol}"',
                f"ports = {ports}",
                'encapsulation = "ipip"',
                "arp = true",
                "",
            ]
    return "\n".join(lines)
