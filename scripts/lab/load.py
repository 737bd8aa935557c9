#!/usr/bin/env python3
"""Requests with curl, each a single attempt with a hard limit, told one JSON line a request.

Runs inside the client's namespace. Without `--rate`, `--parallel` loops ask one after the other
until `--count` requests were made. With `--rate`, a request starts every 1/rate seconds whether
earlier ones were answered or not, as real clients do, until standard input ends: a request that
waits for a dead backend holds nothing else up.

    {"family": 4, "start": 1000.1, "end": 1000.2, "ok": true, "backend": "b1", "error": ""}
"""

import argparse
import json
import os
import queue
import select
import subprocess
import sys
import threading
import time

# Requests under way at once. One third of 25 a second that wait 2 s for a dead backend are 17; a
# machine too slow for the pace makes fewer requests instead of an ever longer queue.
OUTSTANDING = 48


def ask(family, url, limit):
    """One request; says when it ran, whether it was answered with 200, and by whom."""
    start = time.time()
    result = subprocess.run(
        ["curl", "-q", "--silent", "--show-error", "--noproxy", "*", "--max-time", str(limit),
         "--write-out", "\n%{http_code}", url],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    body, _, code = result.stdout.rpartition("\n")
    ok = result.returncode == 0 and code == "200"
    error = "" if ok else (result.stderr.strip() or f"HTTP status {code}")
    return {"family": family, "start": start, "end": time.time(), "ok": ok,
            "backend": body.strip() if ok else "", "error": error}


class Load:
    """The threads that ask, and the writer of lines."""

    def __init__(self, targets, limit):
        self.targets = targets
        self.limit = limit
        self.jobs = queue.Queue()
        self.lock = threading.Lock()

    def work(self):
        """Asks for one job after the other until the end mark."""
        while (index := self.jobs.get()) is not None:
            family, url = self.targets[index % len(self.targets)]
            line = json.dumps(ask(family, url, self.limit))
            with self.lock:
                print(line, flush=True)

    def start(self, count):
        """Starts `count` threads."""
        threads = [threading.Thread(target=self.work) for _ in range(count)]
        for thread in threads:
            thread.start()
        return threads

    def finish(self, threads):
        """Lets every started request end."""
        for _ in threads:
            self.jobs.put(None)
        for thread in threads:
            thread.join()

    def pace(self, rate):
        """Queues requests at a steady rate until standard input ends."""
        begin, index = time.monotonic(), 0
        while True:
            wait = max(0.0, begin + index / rate - time.monotonic())
            if select.select([0], [], [], wait)[0] and not os.read(0, 1):
                return
            if self.jobs.qsize() < OUTSTANDING // 4:
                self.jobs.put(index)
            index += 1


def main():
    """Parses the command line and makes the load."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--ipv4", metavar="URL")
    arguments.add_argument("--ipv6", metavar="URL")
    arguments.add_argument("--count", type=int, default=300, help="requests for each URL")
    arguments.add_argument("--parallel", type=int, default=4)
    arguments.add_argument("--rate", type=float, help="requests a second in all")
    arguments.add_argument("--max-time", type=float, default=2)
    options = arguments.parse_args()
    targets = [(4, options.ipv4)] * bool(options.ipv4) + [(6, options.ipv6)] * bool(options.ipv6)
    if not targets:
        sys.exit("load: give --ipv4 or --ipv6")
    threading.stack_size(256 << 10)
    load = Load(targets, options.max_time)
    if options.rate:
        threads = load.start(OUTSTANDING)
        load.pace(options.rate)
    else:
        for index in range(options.count * len(targets)):
            load.jobs.put(index)
        threads = load.start(options.parallel)
    load.finish(threads)


if __name__ == "__main__":
    main()
