"""How long `lodectl` takes: short enough for a prompt, a loop in a script, a completion."""

import os
import statistics
import subprocess
import time

from lab import ENVIRONMENT
from support import LabCase, programs

# From before fork to after wait, process and answer included; the median of 50.
LIMIT = 0.020


class StartTime(LabCase):
    """`lodectl` with and without the daemon."""

    def median(self, *words):
        """The median of 50 runs, in seconds."""
        command = [os.path.join(programs(), "lodectl"), "--socket", self.appliance.socket, *words]
        took = []
        for _ in range(50):
            begin = time.monotonic()
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           check=True, env=ENVIRONMENT)
            took.append(time.monotonic() - begin)
        return statistics.median(took)

    def test_it_answers_before_a_person_waits(self):
        for words in (("version",), ("status",)):
            with self.subTest(words=words):
                median = self.median(*words)
                print(f"        lodectl {' '.join(words)}: median {median * 1000:.1f} ms", flush=True)
                self.assertLess(median, LIMIT)
