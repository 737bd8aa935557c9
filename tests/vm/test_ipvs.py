"""The kernel's IPVS (`mh` scheduler, tunnel mode) beside Lodestone: same client, same backends, same changes.
How many open connections each change breaks is counted for both."""

import network
import plan
from guest import GuestCase, command, virtio_one_arm
from support import Connection, wait_until

ECHO_PORT = 7777
OPEN = 60
DIRECTOR4 = "10.77.0.3"
TUNNEL = ("-i", "--tun-type", "ipip")


class Lodestone:
    """The appliance of the lab."""

    name = "Lodestone"

    def __init__(self, case):
        self.case = case
        self.settings = case.settings

    def start(self, backends):
        """Only these take traffic."""
        self.case.appliance.write(**self.settings, backends=backends)
        self.case.appliance.start(seconds=60)

    def add(self, backends):
        """A change to these backends, by configuration."""
        self.case.appliance.write(**self.settings, backends=backends)
        # A drain that the file does not have is undone by it: that is meant here.
        self.case.appliance.lodectl("reload", "--force")
        for backend in backends:
            self.case.appliance.wait_for_health(backend, "up", 30)

    remove = add

    def drain(self, backend):
        """No new flows."""
        self.case.appliance.each_pool("drain", backend)

    def stop(self):
        """Gives the VIP up."""
        self.case.appliance.stop()


class Ipvs:
    """A director in a namespace of its own, on the service network."""

    name = "IPVS"

    def __init__(self, case):
        self.case = case
        self.space = network.Namespace(f"{case.lab.prefix}-director")
        self.service = f"{plan.VIP4}:{ECHO_PORT}"

    def start(self, backends):
        """Only these take traffic."""
        command("modprobe", "-a", "ip_vs", "ip_vs_mh", "ipip")
        self.space.create()
        self.case.lab.namespaces["director"] = self.space
        self.case.lab.plug(self.space, "eth0", "service", self.case.lab.ports.carrier_mtu)
        self.space.batch(f"address add {DIRECTOR4}/24 dev eth0", f"address add {plan.VIP4}/32 dev eth0")
        self.ipvsadm("-A", "-t", self.service, "-s", "mh",
                     # Without the second, connections of a drained backend's slots are refused.
                     "-b", "mh-port,mh-fallback")
        self.add(backends)

    def ipvsadm(self, *words):
        """One command of IPVS."""
        self.space.exec("ipvsadm", *words)

    def real(self, backend):
        """A backend as IPVS calls it."""
        return ("-t", self.service, "-r", f"{plan.backend_address(self.case.variant, backend, 4)}:{ECHO_PORT}")

    def present(self):
        """The backends it has."""
        listed = self.space.exec("ipvsadm", "-L", "-n")
        return {name for name in plan.BACKENDS
                if f"{plan.backend_address(self.case.variant, name, 4)}:" in listed}

    def add(self, backends):
        """The missing ones."""
        for backend in sorted(set(backends) - self.present()):
            self.ipvsadm("-a", *self.real(backend), *TUNNEL, "-w", "1")

    def drain(self, backend):
        """Weight 0, as its manual says."""
        self.ipvsadm("-e", *self.real(backend), *TUNNEL, "-w", "0")

    def remove(self, backends):
        """All but these."""
        for backend in sorted(self.present() - set(backends)):
            self.ipvsadm("-d", *self.real(backend))

    def stop(self):
        """Gives the VIP up."""
        self.space.exec("ip", "link", "set", "eth0", "down")


class Comparison(GuestCase):
    """Both, one after the other."""

    ports = virtio_one_arm
    settings = {"ports": '"any"'}
    echo_ports = (ECHO_PORT,)
    starts = False

    def broken(self, connections):
        """How many no longer carry data; they are closed."""
        count = 0
        for connection in connections:
            try:
                connection.socket.settimeout(2)
                count += connection.echo(b"still there?") != b"still there?"
            except OSError:
                count += 1
        return count

    def opened(self, source_port):
        """Connections that are open, from fixed ports: both balancers get the same flows."""
        return [Connection(self.lab, 4, ECHO_PORT, source_port + number, timeout=10)
                for number in range(OPEN)]

    def shares(self, connections):
        """Connections by backend."""
        served = [connection.backend for connection in connections]
        return {name: served.count(name) for name in plan.BACKENDS}

    def play(self, balancer):
        """[(change, open connections, those of the backend that is changed, broken)]"""
        rows = []
        balancer.start(("b1", "b2"))
        # The client must not keep the address of who had the VIP before.
        self.lab.namespaces["client"].ip("neighbour", "flush", "dev", "eth0")
        wait_until(self.answers, 20, f"{balancer.name} answers")
        connections = self.opened(20000)
        self.assertEqual(set(name for name, count in self.shares(connections).items() if count), {"b1", "b2"})
        balancer.add(plan.BACKENDS)
        rows.append(("add b3", OPEN, 0, self.broken(connections)))
        fresh = self.opened(21000)
        self.assertGreater(self.shares(fresh)["b3"], 0, "the added one takes new connections")
        balancer.drain("b1")
        of_b1 = self.shares(connections)["b1"]
        rows.append(("drain b1", OPEN, of_b1, self.broken(connections)))
        after = self.opened(22000)
        self.assertEqual(self.shares(after)["b1"], 0, "a drained one takes none")
        balancer.remove(("b2", "b3"))
        rows.append(("remove b1", OPEN, of_b1, self.broken(connections)))
        for connection in (*connections, *fresh, *after):
            connection.abort()
        balancer.stop()
        return rows

    def answers(self):
        """Whether a new connection works."""
        try:
            Connection(self.lab, 4, ECHO_PORT, timeout=2).abort()
        except OSError:
            return False
        return True

    def test_changes_beside_ipvs(self):
        tables = {balancer.name: self.play(balancer) for balancer in (Lodestone(self), Ipvs(self))}
        print("        | change | open connections | of them on b1 | broken: Lodestone | broken: IPVS |")
        print("        |---|---|---|---|---|")
        for ours, theirs in zip(tables["Lodestone"], tables["IPVS"]):
            print(f"        | {ours[0]} | {ours[1]} | {ours[2]} and {theirs[2]} | {ours[3]} | {theirs[3]} |",
                  flush=True)
        for (change, _, of_b1, broken), theirs in zip(tables["Lodestone"], tables["IPVS"]):
            # A backend that is removed takes its own connections with it, and nobody else's.
            self.assertLessEqual(broken, of_b1 if change == "remove b1" else 0, change)
            self.assertLessEqual(broken, theirs[3] + of_b1, change)

