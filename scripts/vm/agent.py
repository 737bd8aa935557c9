#!/usr/bin/env python3
"""Runs in the guest: takes orders from scripts/vm-test over a virtio serial port, one JSON line each.

    {"run": [WORD…], "seconds": N}    runs a command; {"out": LINE}… and {"exit": CODE} come back
    {"shell": true}                   a shell on the second port, until it ends; {"exit": CODE}
    {"off": true}                     the agent ends, and init powers the guest off
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import threading

PORTS = "/sys/class/virtio-ports"
WORK = "/work"


def port(name):
    """The device of a virtio serial port."""
    for device in os.listdir(PORTS):
        try:
            with open(f"{PORTS}/{device}/name", encoding="ascii") as file:
                if file.read().strip() == name:
                    return f"/dev/{device}"
        except OSError:
            continue
    sys.exit(f"agent: there is no port {name}")


def run(words, seconds, tell):
    """Runs a command, tells each line, and ends it when its time is up."""
    environment = dict(os.environ, LODESTONE_BIN=f"{WORK}/bin", PYTHONDONTWRITEBYTECODE="1")
    process = subprocess.Popen(words, cwd=WORK, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)

    def end():
        tell({"out": f"not done after {seconds} s: ended"})
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        for line in process.stdout:
            tell({"out": line.decode(errors="replace").rstrip("\n")})
        return process.wait()
    finally:
        timer.cancel()


def shell():
    """An interactive shell on the console port."""
    terminal = os.open("/dev/hvc0", os.O_RDWR | os.O_NOCTTY)

    def lead():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(["bash", "-i"], cwd=WORK, stdin=terminal, stdout=terminal,
                               stderr=terminal, preexec_fn=lead,
                               env=dict(os.environ, TERM="xterm", LODESTONE_BIN=f"{WORK}/bin"))
    os.close(terminal)
    return process.wait()


def main():
    """Takes orders until it is told to end."""
    with open(port("lodestone.control"), "r+b", buffering=0) as control:

        def tell(message):
            control.write(json.dumps(message).encode() + b"\n")

        tell({"ready": True})
        pending = b""
        while True:
            while b"\n" not in pending:
                pending += control.read(65536) or b""
            line, _, pending = pending.partition(b"\n")
            order = json.loads(line)
            if "run" in order:
                tell({"exit": run(order["run"], order["seconds"], tell)})
            elif "shell" in order:
                tell({"exit": shell()})
            else:
                return


if __name__ == "__main__":
    main()
