#!/usr/bin/env python3
"""The longest turn of our own making: what the event loops of target and initiator kept their processors for, under load.

`stalls.py [--minutes 10] [--only TEXT] [--program target/release/linerate]` divides the time among loads over both protocols, each with a server of its own, and prints a
line for each: the longest turn at either end and how many a minute took more than a millisecond. A turn's time is the thread's own
(CLOCK_THREAD_CPUTIME_ID): sleep and preemption by other programs do not count, the kernel's work for the turn's calls does,
and so does the network's interrupts' where the kernel does not account them apart (CONFIG_IRQ_TIME_ACCOUNTING). It is told up to 250 us too
long (see crates/reactor/src/turns.rs); nobody spins, so nothing is told too short.

The same clock also runs on while a hypervisor lets the whole machine stand still and does not say so. Before each load two processes that do nothing but look at
that clock therefore tell what such a machine makes of nothing: their longest step, and how many a minute took more than a
millisecond. Beside it stand the largest latency that the load saw and what the hypervisor says that it took. Ends with 1 if either end had more
long turns a minute than nothing had. `--results FOLDER` leaves the figures in a file there, which `benchpage.py record` takes into the history.
"""
import argparse
import json
import multiprocessing
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchrun import Results

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
# The part of a load's time that is spent with nothing before it, and a turn that is too long, in ns.
CONTROL, STALL = 0.25, 1_000_000
# What is waited for until a server listens, and until it has ended.
PATIENCE = 20.0


def do_nothing(seconds):
    """Longest step in us of a loop that only looks at its own clock, and how many took more than a millisecond."""
    end, last = time.monotonic() + seconds, time.thread_time_ns()
    longest = stalls = 0
    while time.monotonic() < end:
        now = time.thread_time_ns()
        longest, stalls, last = max(longest, now - last), stalls + (now - last > STALL), now
    return longest // 1000, stalls


def nothing(seconds):
    """The longest step of two such loops, and how many stalls each has a minute."""
    with multiprocessing.Pool(2) as pool:
        told = pool.map(do_nothing, [seconds] * 2, chunksize=1)
    return max(longest for longest, _ in told), sum(stalls for _, stalls in told) / 2 * 60 / seconds


def stolen():
    """Seconds that a hypervisor has taken from the processors."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    return int(fields[8]) / 100


class Server:
    """A server that tells of its turns when it ends."""

    def __init__(self, program, volume, folder):
        ready, self.said = Path(folder) / "ready", Path(folder) / "said"
        ports = ["--iscsi", "127.0.0.1:0", "--nvme", "127.0.0.1:0"]
        command = [program, "serve", f"disk={volume}", *ports, "--cores", "1", "--spin", "0", "--turns", "--log", "warn", "--ready-file", str(ready), "--state", str(Path(folder) / "state")]
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
            command = [program, "bench", "--json", "--overwrite", "--spin", "0", "--runtime", str(seconds), *words.split(), *urls]
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


def note(results, name, turns, **whole):
    """Notes a load's row: longest turn and turns above a millisecond of each party, and the figures of the whole load by metric with their units."""
    for arm, (longest, stalls) in turns.items():
        results.add(name, arm, "longest_turn", unit="us", median=longest)
        results.add(name, arm, "long_turns", unit="1/min", median=float(stalls))
    for metric, (value, unit) in whole.items():
        results.add(name, "load", metric, unit=unit, median=float(value))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--program", default="target/release/linerate")
    parser.add_argument("--only", default="", help="only loads whose name has this text, such as 4k, or nvme")
    parser.add_argument("--results", metavar="FOLDER", help="leaves a results file in this folder")
    arguments = parser.parse_args()
    results = Results(__file__, arguments.program) if arguments.results else None
    loads = [load for load in LOADS if arguments.only in named(load)]
    if not loads:
        sys.exit(f"stalls: no load has {arguments.only!r} in its name: {'; '.join(map(named, LOADS))}")
    share = arguments.minutes * 60 / len(loads)
    control, seconds = share * CONTROL, share * (1 - CONTROL)
    long = 0
    print("| load | nothing: longest step, us | above 1 ms, a minute | target: longest turn, us | above 1 ms, a minute "
          "| initiator: longest turn, us | above 1 ms, a minute | largest latency, ms | stolen, % |")
    print("|---" * 9 + "|")
    for load in loads:
        idle = nothing(control)
        target, initiator, worst, taken = measure(arguments.program, load, seconds)
        ours = [(longest, stalls * 60 / seconds) for longest, stalls in (target, initiator)]
        cells = [f"{longest} | {stalls:.0f}" for longest, stalls in (idle, *ours)]
        print(f"| {named(load)} | {' | '.join(cells)} | {worst:.1f} | {taken:.1f} |", flush=True)
        if results:
            turns = {"nothing: a loop that reads its clock": idle, "target": ours[0], "initiator": ours[1]}
            note(results, named(load), turns, latency_max=(worst, "ms"), stolen=(taken, "%"), minutes=(share / 60, "min"))
        long += any(stalls > idle[1] for _, stalls in ours)
    if results:
        results.write(arguments.results)
    print(f"\nloads with more turns above 1 ms than nothing had: {long} of {len(loads)}, in {arguments.minutes:g} minutes")
    return 1 if long else 0


if __name__ == "__main__":
    sys.exit(main())
