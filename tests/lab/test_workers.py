"""Two workers share a port whose driver spreads flows over two queues."""

import configuration
from support import LabCase


class TwoWorkers(LabCase):
    """One of them shares its core with management; both carry traffic."""

    settings = {"workers": [configuration.cores()[0], *configuration.cores()[1]], "queues": 2}

    def test_both_carry_connections(self):
        for family in (4, 6):
            self.ask_until_all_served(family)
            for _ in range(20):
                self.curl(family)
            self.curl(family, "/big", "-o", "/dev/null", limit=30)
        workers = self.appliance.show("show", "workers")["workers"]
        self.assertEqual(len(workers), 2)
        self.assertTrue(all(worker["rx_packets"] > 0 for worker in workers), workers)
        generations = {worker["generation"] for worker in workers}
        self.assertEqual(len(generations), 1, workers)
