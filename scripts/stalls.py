#!/usr/bin/env python3
"""The longest turn of our own making: what the event loops of target and initiator kept their processors for, under load.

`stalls.py [--minutes 10] [--only TEXT] [--program target/release/linerate]` divides the time among loads over both protocols, each with a server of its own, and prints a
line for each: the longest turn at either end and how many took more than a millisecond. A turn's time is the thread's own
(CLOCK_THREAD_CPUTIME_ID): sleep and preemption by other programs do not count, the kernel's work for the turn's calls does,
and so does the network's interrupts' where the kernel does not account them apart (CONFIG_IRQ_TIME_ACCOUNTING). It is told up to 250 us too
long (see crates/reactor/src/turns.rs); nobody spins, so nothing is told too short. Beside it stand the machine's own
disturbances: how much of the time a hypervisor took, and the largest latency that the load saw. Ends with 1 if any turn took more than a millisecond.
"""
import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NAMES = {"iscsi": "iscsi://{}/iqn.2026-11.org.linerate:disk/0", "nvme": "nvme+tcp://{}/nqn.2026-11.org.linerate:disk/1"}
# What is run, an equal share of the time each: protocol, volume, connections, and the words of `linerate bench`.
LOADS = [
    (protocol, volume, connections, words)
    for protocol in NAMES
    for volume, connections, words in (
        ("null:16G", 1, "--rw randread --bs 4k --qd 32"),
        ("ram:256M", 8, "--rw randrw --bs 4k --qd 128"),
        ("ram:256M", 4, "--rw randrw --bs 128k --qd 32"),
        ("ram:256M", 32, "--rw randwrite --bs 64k --qd 128"),
        ("null:16G", 8, "--rw randread --bs 1m --qd 64"),
    )
]
TOLD = re.compile(r"^core (\d+): longest turn (\d+) us of processor time, (\d+) above 1 ms$", re.MULTILINE)
# What is waited for until a server listens, and until it has ended.
PATIENCE = 20.0


def stolen():
    """Seconds that a hypervisor has taken from the processors."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    return int(fields[8]) / 100


class Server:
    """A server that tells of its turns when it ends."""

    def __init__(self, program, volume, folder):
        ready, self.said = Path(folder) / "ready", Path(folder) / "said"
        ports = ["--iscsi", "127.0.0.1:0", "--nvme", "127.0.0.1:0"]
        command = [program, "serve", f"disk={volume}", *ports, "--cores", "1", "--spin", "0", "--turns", "--ready-file", str(ready)]
        with self.said.open("w") as said:
            self.child = subprocess.Popen(command, stdout=said)
        begin = time.monotonic()
        while not (ready.exists() and ready.read_text().count("\n") >= 2):
            if self.child.poll() is not None or time.monotonic() - begin > PATIENCE:
                self.child.kill()
                sys.exit(f"stalls: {' '.join(command)} does not listen")
            time.sleep(0.01)
        self.addresses = dict(line.split() for line in ready.read_text().splitlines())

    def stop(self):
        """Longest turn in us, and turns above a millisecond."""
        self.child.send_signal(signal.SIGTERM)
        self.child.wait(PATIENCE)
        told = TOLD.findall(self.said.read_text())
        if not told:
            sys.exit("stalls: the server told nothing of its turns")
        return max(int(micros) for _, micros, _ in told), sum(int(count) for _, _, count in told)


def named(load):
    protocol, volume, connections, words = load
    return f"{protocol}, {volume}, {connections} connections, {words.replace('--', '')}"


def measure(program, load, seconds):
    """One row: longest turn and stalls of the target and of the initiator, largest latency in ms, per cent stolen."""
    protocol, volume, connections, words = load
    with tempfile.TemporaryDirectory() as folder:
        server = Server(program, volume, folder)
        try:
            urls = [NAMES[protocol].format(server.addresses[protocol])] * connections
            command = [program, "bench", "--json", "--spin", "0", "--runtime", str(seconds), *words.split(), *urls]
            before, begin = stolen(), time.monotonic()
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
            share = (stolen() - before) / (time.monotonic() - begin)
        except BaseException:
            server.child.kill()
            raise
        if done.returncode != 0:
            server.child.kill()
            sys.exit(f"stalls: {' '.join(command)} failed")
        target = server.stop()
    told = json.loads(done.stdout)
    worst = max(told[side]["latency_ns"]["max"] for side in ("read", "write") if side in told)
    return target, (round(told["longest_turn_us"]), told["stalls"]), worst / 1e6, 100 * share


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--program", default="target/release/linerate")
    parser.add_argument("--only", default="", help="only loads whose name has this text, such as 4k, or nvme")
    arguments = parser.parse_args()
    loads = [load for load in LOADS if arguments.only in named(load)]
    if not loads:
        sys.exit(f"stalls: no load has {arguments.only!r} in its name: {'; '.join(map(named, LOADS))}")
    seconds = arguments.minutes * 60 / len(loads)
    longest, stalls = 0, 0
    print("| load | target: longest turn, us | above 1 ms | initiator: longest turn, us | above 1 ms | largest latency, ms | stolen, % |")
    print("|---|---|---|---|---|---|---|")
    for load in loads:
        target, initiator, worst, share = measure(arguments.program, load, seconds)
        print(f"| {named(load)} | {target[0]} | {target[1]} | {initiator[0]} | {initiator[1]} | {worst:.1f} | {share:.1f} |", flush=True)
        longest, stalls = max(longest, target[0], initiator[0]), stalls + target[1] + initiator[1]
    print(f"\nlongest turn of our own making: {longest / 1000:.2f} ms; above 1 ms: {stalls}, in {arguments.minutes:g} minutes")
    return 1 if stalls else 0


if __name__ == "__main__":
    sys.exit(main())
