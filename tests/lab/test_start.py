"""How the daemon starts: which cores its threads may use, and what it says when it cannot start."""

import os

import configuration
from support import LabCase


class Cores(LabCase):
    """No thread but the workers may run on a worker's core."""

    def test_threads_keep_off_the_workers_core(self):
        management, (worker_core,) = configuration.cores()
        self.assertNotEqual(management, worker_core, "this test needs two cores")
        threads = self.appliance.threads()
        workers = {name for name, cores in threads.values() if worker_core in cores}
        self.assertTrue(workers, "a worker runs")
        self.assertTrue(all(name.startswith("worker") for name in workers), threads)
        for name, cores in threads.values():
            expected = {worker_core} if name.startswith("worker") else {management}
            self.assertEqual(cores, expected, f"{name}: {threads}")


class Second(LabCase):
    """One admin socket, one daemon."""

    def test_second_daemon_is_refused(self):
        code, said = self.appliance.try_start()
        self.assertEqual(code, 1, said)
        self.assertIn(self.appliance.socket, said)
        # The first one lives, with its socket.
        self.assertIn("generation", self.appliance.show("status"))
        self.curl(4)


class StartErrors(LabCase):
    """Each is one sentence that says what to do, and exit code 1."""

    starts = False

    def refused(self, *words, **settings):
        """Starts with these settings; the last line it says must hold all words."""
        self.appliance.write(**settings)
        self.assert_refused(words)

    def assert_refused(self, words):
        """The daemon ends with 1 and a sentence with these words."""
        code, said = self.appliance.try_start()
        lines = [line for line in said.splitlines() if line.strip()]
        self.assertEqual(code, 1, said)
        self.assertNotIn("panicked", said)
        self.assertTrue(lines, "it says why")
        for word in words:
            self.assertIn(word.lower(), said.lower())
        self.assertFalse(os.path.exists(self.appliance.socket), "no socket stays behind")

    def rewrite(self, *changes):
        """The good configuration with these (old, new) changes."""
        self.appliance.write()
        with open(self.appliance.config, encoding="utf-8") as file:
            text = file.read()
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new)
        with open(self.appliance.config, "w", encoding="utf-8") as file:
            file.write(text)

    def test_wrong_configuration_names_every_mistake(self):
        self.rewrite(("fall = 3", "fall = 0"), ('monitor = "http"', 'monitor = "nobody"'),
                     ('idle = "yield"', 'idle = "sleep"'), ("rise = 2", "rise = 2\ncolour = 1"))
        self.assert_refused(("fall", "nobody", "idle", "colour"))

    def test_port_that_cannot_start(self):
        self.rewrite(("iface=lb0", "iface=absent0"))
        self.assert_refused(("service", "absent0"))

    def test_too_few_queues(self):
        management, (worker_core,) = configuration.cores()
        self.refused("queue", workers=[management, worker_core], queues=1)

    def test_core_that_does_not_exist(self):
        self.refused("core", "1000", workers=[1000])

    def test_no_hugepages(self):
        # Hides the kernel's hugepage pools from this one process, whatever the machine has.
        original = self.lab.popen

        def without_hugepages(role, *command, **options):
            return original(role, "unshare", "--mount", "sh", "-c",
                            'mount -t tmpfs none /sys/kernel/mm/hugepages && exec "$@"',
                            "sh", *command, **options)

        self.lab.popen = without_hugepages
        self.addCleanup(setattr, self.lab, "popen", original)
        self.refused("hugepages", hugepages=True)
