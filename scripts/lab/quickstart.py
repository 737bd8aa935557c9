#!/usr/bin/env python3
"""The run of `scripts/quickstart`: a lab, requests through the VIP, the death of a backend.

A request belongs to the phase in which it started; one under way when the backend dies belongs to
*during detection*. Detection ends when `lodectl` shows the backend down. Outside of it every
request must be answered at its first attempt.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import Counter

import configuration
import lab as lab_module
import plan
from appliance import Appliance, programs
from lab import HERE, Lab, wait_until

REQUESTS = 300
# A curl costs some 20 ms of a core, and the lab may have but two.
RATE = 25
STEADY = 6.0
VICTIM = "b2"
URLS = ("--ipv4", f"http://{plan.VIP4}/", "--ipv6", f"http://[{plan.VIP6}]/")


class Failed(Exception):
    """The quickstart's promise does not hold; the message says what was seen."""


def say(text=""):
    """A line at once, even through a pipe."""
    print(text, flush=True)


def step(text):
    """A line that opens a part."""
    say(f"\n== {text}")


def requests(lines):
    """What the load program told, decoded."""
    return [json.loads(line) for line in lines.splitlines()]


def first_errors(made):
    """A few failures in words."""
    failed = [request for request in made if not request["ok"]]
    return "; ".join(f"IPv{r['family']}: {r['error']}" for r in failed[:3])


def table(rows):
    """Prints rows in aligned columns, the first left, the others right."""
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [str(row[0]).ljust(widths[0])]
        cells += [str(cell).rjust(width) for cell, width in zip(row[1:], widths[1:])]
        say("  " + "  ".join(cells))


def counts(name, made):
    """A table row: how many were made, answered, failed, and by whom answered."""
    served = Counter(request["backend"] for request in made if request["ok"])
    answered = sum(served.values())
    return [name, len(made), answered, len(made) - answered,
            *(served[backend] for backend in plan.BACKENDS)]


def head(name):
    """The heading of `counts`."""
    return [name, "requests", "answered", "failed", *plan.BACKENDS]


def even(lab):
    """Requests while nothing happens; returns them."""
    result = lab.run("client", sys.executable, f"{HERE}/load.py", *URLS,
                     "--count", str(REQUESTS), "--parallel", "4")
    made = requests(result.stdout)
    families = [[r for r in made if r["family"] == family] for family in (4, 6)]
    table([head("over"), counts("IPv4", families[0]), counts("IPv6", families[1])])
    if len(made) != 2 * REQUESTS:
        raise Failed(f"only {len(made)} of {2 * REQUESTS} requests were made: {result.stderr}")
    if not all(r["ok"] for r in made):
        raise Failed(f"requests failed while all backends were up: {first_errors(made)}")
    for family, part in zip((4, 6), families):
        idle = set(plan.BACKENDS) - {r["backend"] for r in part}
        if idle:
            raise Failed(f"over IPv{family} no request reached {', '.join(sorted(idle))}")
    return made


def death(lab, appliance):
    """One backend dies under steady load; returns (before, during, after, seconds)."""
    with open(lab.path("load.jsonl"), "w", encoding="utf-8") as output:
        process = lab.popen("client", sys.executable, f"{HERE}/load.py", *URLS,
                            "--rate", str(RATE), stdin=subprocess.PIPE, stdout=output)
        try:
            time.sleep(STEADY)
            killed = time.time()
            lab.kill_backend(VICTIM)
            limit = configuration.DETECTION_LIMIT
            try:
                # Past the limit it has failed; waiting longer tells by how much.
                detected = appliance.wait_for_health(VICTIM, "down", seconds=limit + 10)
            except TimeoutError as error:
                raise Failed(f"the dead backend was not detected: {error}") from error
            time.sleep(STEADY)
            process.stdin.close()
            wait_until(lambda: process.poll() is not None, 30, "the last requests end")
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
    with open(lab.path("load.jsonl"), encoding="utf-8") as told:
        made = requests(told.read())
    before = [r for r in made if r["end"] <= killed]
    after = [r for r in made if r["start"] > detected]
    during = [r for r in made if r["end"] > killed and r["start"] <= detected]
    return before, during, after, detected - killed


def judge(before, during, after, seconds):
    """Shows the phases and raises `Failed` if one is not as promised."""
    table([head("phase"), counts("before", before), counts("during detection", during),
           counts("after", after)])
    limit = configuration.DETECTION_LIMIT
    failed = sum(not r["ok"] for r in during)
    say(f"  detection took {seconds:.2f} s (limit {limit:.2f} s = interval × fall + timeout + 1 s);"
        f" {failed} requests failed in it")
    if seconds > limit:
        raise Failed(f"detection took {seconds:.2f} s, more than {limit:.2f} s")
    survivors = set(plan.BACKENDS) - {VICTIM}
    for name, phase in (("before", before), ("during detection", during), ("after", after)):
        if name != "during detection" and not all(r["ok"] for r in phase):
            raise Failed(f"requests failed {name}: {first_errors(phase)}")
        idle = survivors - {r["backend"] for r in phase if r["ok"]}
        if idle:
            raise Failed(f"{', '.join(sorted(idle))} served nothing in the phase: {name}")
    if len(after) < 50:
        raise Failed(f"only {len(after)} requests were made after the detection, 50 are needed")


def play(lab):
    """The whole show; returns how many requests outside of the detection were answered."""
    appliance = Appliance(lab)
    appliance.start()
    say(f"  lodestoned runs, {len(plan.BACKENDS)} backends are up")
    step(f"{REQUESTS} requests each over IPv4 and IPv6 through the VIPs {plan.VIP4} and {plan.VIP6}")
    made = even(lab)
    step(f"{VICTIM} dies under {RATE} requests a second: links down, processes killed")
    before, during, after, seconds = death(lab, appliance)
    judge(before, during, after, seconds)
    step("lodectl status")
    say(appliance.lodectl("status").rstrip())
    outside = made + before + after
    if len(outside) < 2 * REQUESTS:
        raise Failed(f"only {len(outside)} requests lie outside of the detection")
    return len(outside)


def explain(lab):
    """How to look around in a lab that stays, and how to remove it."""
    tool = f"python3 {HERE}/lab.py"
    say(f"""
The lab stays ({VICTIM} is dead). Look around:
  {tool} exec --state {lab.state} client curl http://{plan.VIP4}/
  {programs()}/lodectl --socket {lab.path("admin.sock")} show backends
  {tool} exec --state {lab.state} b1 ip address
  {lab.path('')[:-1]}: configuration, admin socket, logs
Remove it:
  {tool} down --state {lab.state}""")


def main():
    """Builds, plays, removes; the last line and the exit code tell the result."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--keep", action="store_true", help="leave the lab up")
    options = arguments.parse_args()
    lab_module.end_on_signals()
    step("a lab of network namespaces: client, appliance, three backends")
    keep = False
    lab = Lab()
    try:
        lab.up()
        answered = play(lab)
        keep = options.keep
        result, code = f"OK: {answered}/{answered} requests answered", 0
    except KeyboardInterrupt:
        result, code = "FAILED: interrupted", 130
    except (Failed, RuntimeError, OSError, subprocess.SubprocessError) as error:
        keep = options.keep
        result, code = f"FAILED: {error}", 1
    finally:
        if not keep:
            lab.down()
    if keep:
        explain(lab)
    say()
    say(result)
    return code


if __name__ == "__main__":
    sys.exit(main())
