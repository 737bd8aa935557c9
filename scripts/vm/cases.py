#!/usr/bin/env python3
"""Runs the cases of scripts/vm-test: boots a guest, runs each case's tests in it, sums up.

A case is a module of tests/vm. Cases share a guest; one that lost its guest, or ran out of time, costs
the next one a boot.
"""

import argparse
import dataclasses
import os
import re
import select
import signal
import sys
import termios
import time
import tty

import machine

# What all of it may take.
WHOLE_LIMIT = 20 * 60
ALL_LIMIT = 60 * 60
RESULT = re.compile(r"(\d+) passed, (\d+) failed(?:, (\d+) skipped)?")


@dataclasses.dataclass(frozen=True)
class Case:
    """A module `tests/vm/test_NAME.py`."""

    name: str
    text: str
    # Seconds that it may take.
    limit: int
    has_iommu: bool = True
    # Whether it runs without being named.
    is_default: bool = True

    @property
    def module(self):
        """The name of its module."""
        return f"test_{self.name.replace('-', '_')}"


CASES = (
    Case("virtio", "virtio-net-pci: TCP over IPv4 and IPv6, on one arm and on two", 300),
    Case("rss", "two queues and RSS: predicted queue = queue seen; the alarm without RSS", 400),
    Case("sriov", "SR-IOV: functions of igb, VLAN and MAC by the PF, cable and PF down and up", 400),
    Case("ipip", "IPIP in four pairs against the kernel's own tunnels, MTU 1500 and 9000", 400),
    Case("restart", "kill -9 and clean stop: how long each kind of port is dark", 400),
    Case("ipvs", "beside the kernel's IPVS: connections broken by each change", 300),
    Case("conf", "conf/virtio.toml and conf/sriov.toml, prepared by scripts/setup-host", 300),
    Case("refusals", "bad input: one sentence, what to run, exit code 1; scripts/setup-host", 300),
    Case("no-iommu", "a guest without IOMMU: refused by vfio, carried by uio_pci_generic", 300,
         has_iommu=False),
)


def chosen(options):
    """The cases to run, those of one kind of guest together."""
    names = {case.name: case for case in CASES}
    for name in options.cases:
        if name not in names:
            sys.exit(f"vm-test: there is no case {name}; there are {', '.join(names)}.")
    if options.cases:
        cases = [case for case in CASES if case.name in options.cases]
    else:
        cases = [case for case in CASES if case.is_default or options.all]
    return sorted(cases, key=lambda case: not case.has_iommu)


class Runner:
    """The guest that is up, if any, and the sums."""

    def __init__(self, options, limit):
        self.options = options
        self.deadline = time.monotonic() + limit
        self.guest = None
        self.passed = self.failed = self.skipped = 0

    def end_guest(self):
        """Ends the guest that is up."""
        if self.guest is not None:
            self.guest.remove()
            self.guest = None

    def boot(self, case):
        """A guest as the case needs it."""
        if self.guest is not None and self.guest.iommu != case.has_iommu:
            self.end_guest()
        if self.guest is None:
            self.guest = machine.Machine(self.options.image, self.options.programs, case.has_iommu)
            self.guest.boot()
            print(f"        guest: up after {self.guest.boot_seconds:.0f} s", flush=True)

    def run(self, case):
        """One case; its tests tell themselves."""
        begin = time.monotonic()
        seconds = min(case.limit, self.deadline - begin)
        if seconds <= 0:
            self.failed += 1
            print(f"FAILED  {case.name}: no time is left of all that the cases may take", flush=True)
            return
        said = []

        def each(line):
            said.append(line)
            if not RESULT.fullmatch(line):
                print(line, flush=True)

        words = ["tests/lab/run", "--folder", "tests/vm", "-k", f"{case.module}."]
        try:
            self.boot(case)
            code = self.guest.order(words, round(seconds), each)
        except machine.GuestLost as lost:
            print(f"FAILED  {case.name}: {lost}", flush=True)
            code = None
        sums = RESULT.fullmatch(said[-1]) if said else None
        passed, failed, skipped = (int(number or 0) for number in sums.groups()) if sums else (0, 0, 0)
        if code != 0 and not failed:
            failed = 1
            print(f"FAILED  {case.name}: ended with {code} and no sum", flush=True)
        elif not passed + failed:
            failed = 1
            print(f"FAILED  {case.name}: no test ran", flush=True)
        self.passed, self.failed = self.passed + passed, self.failed + failed
        self.skipped += skipped
        if failed and self.guest is not None:
            print("        the guest's log:")
            print("".join(f"        | {line}\n" for line in self.guest.tail("console.log").splitlines()),
                  end="")
        # What a case that was cut short left behind is not to be known.
        if not sums:
            self.end_guest()
        print(f"        {case.name}: {time.monotonic() - begin:.0f} s", flush=True)


def shell(guest):
    """Joins this terminal to a shell in the guest, until that ends."""
    console = guest.connect("shell.sock").connection
    guest.control.write('{"shell": true}')
    print("A shell in the guest (`exit` ends it, and the guest with it):", flush=True)
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor) if sys.stdin.isatty() else None
    try:
        if before:
            tty.setraw(descriptor)
        sources = [console, guest.control.connection, descriptor]
        while True:
            ready, _, _ = select.select(sources, [], [])
            if console in ready:
                os.write(sys.stdout.fileno(), console.recv(65536))
            # The agent says that the shell has ended.
            if guest.control.connection in ready:
                return
            if descriptor in ready:
                typed = os.read(descriptor, 4096)
                if typed:
                    console.sendall(typed)
                else:
                    # The end of a script's input: the shell ends when it has read it all.
                    console.sendall(b"\nexit\n")
                    sources.remove(descriptor)
    finally:
        if before:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def main():
    """The command line."""
    arguments = argparse.ArgumentParser(prog="vm-test", description=__doc__.splitlines()[0])
    arguments.add_argument("cases", nargs="*", metavar="CASE")
    arguments.add_argument("--all", action="store_true", help="every case")
    arguments.add_argument("--list", action="store_true", help="name the cases and end")
    arguments.add_argument("--keep", action="store_true", help="then a shell in the guest")
    arguments.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    arguments.add_argument("--image", help=argparse.SUPPRESS)
    arguments.add_argument("--programs", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.list:
        for case in CASES:
            print(f"{case.name:12}{case.text}{'' if case.is_default else ' (only named, or with --all)'}")
        return 0
    cases = chosen(options)
    if options.check:
        return 0

    def end(number, _frame):
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    runner = Runner(options, ALL_LIMIT if options.all or options.cases else WHOLE_LIMIT)
    try:
        for case in cases:
            runner.run(case)
        if options.keep and runner.guest is not None:
            shell(runner.guest)
    finally:
        runner.end_guest()
    skipped = f", {runner.skipped} skipped" if runner.skipped else ""
    print(f"{runner.passed} passed, {runner.failed} failed{skipped}")
    return int(runner.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
