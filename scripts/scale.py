#!/usr/bin/env python3
"""What a server costs by the number of its connections: start, memory, wake-ups while idle, throughput, and how fairly it shares.

`scale.py [--program target/release/linerate] [--bare target/release/examples/bareloop] [--connections 1,10,100,1000]` serves a null volume on one core and
prints tables. The load tool, one process, opens each connection as a volume of its own; "idle" is one request a second over all of them. 4K reads are so
many under way on each connection, in a closed loop per connection, as many clients would have them; server and load have a processor each. What a number of
connections costs without any protocol is measured beside it, with the bare loop, in turn: medians of five rounds, with the least and the most, the ratio to ten
connections of the same arm, and the ratio to the bare loop.

Fairness is Jain's index over what eight equal clients get, with a ninth beside them that asks for blocks of 1 MiB at depth 32: 1 is equal shares, 1/8 is all
for one. Each client is a process. The server has a processor of its own and the clients share another one, where there are two: else the index tells
how the system spreads processes over processors. The eight measure the same seconds, after a start that is not counted. The median of five such runs and the
lowest of them are printed. `--results FOLDER` also leaves all figures in a file there, which `benchpage.py record` takes into the history. Start and throughput depend on the machine's other work; wake-ups and memory hardly do.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from benchrun import Results

NAMES = {"nvme": "nvme+tcp://{}/nqn.2026-11.org.linerate:disk/1?queues=1", "iscsi": "iscsi://{}/iqn.2026-11.org.linerate:disk/0"}
# What is waited for until a server listens, and until idle connections stand.
PATIENCE, SETTLE, WINDOW = 20.0, 2.0, 3.0
# Requests under way on each connection; rounds of which the medians are told; seconds that are not counted, and that are.
DEPTHS = (1, 4, 32)
ROUNDS, RAMP, SECONDS = 5, 0.5, 1.5
# How long both ends look for work before they sleep, as they do by default.
SPIN = 50
EQUALS = 8
# The arms' names in the history.
ARMS = {"bare loop": "the bare loop: no protocol", "nvme": "NVMe/TCP: Linerate host, Linerate target", "iscsi": "iSCSI: Linerate initiator, Linerate target"}
SERVERS = {"nvme": "NVMe/TCP", "iscsi": "iSCSI"}
# Runs of which the index is the median; seconds that are not counted, and that are.
FAIR_RUNS, FAIR_RAMP, FAIR_SECONDS = 5, 2, 3


def bound(processor):
    """What binds a process to the usable processor of that number before it begins; nothing where there is only one, or none is asked for."""
    usable = sorted(os.sched_getaffinity(0))
    if processor is None or len(usable) < 2:
        return None
    return lambda: os.sched_setaffinity(0, {usable[processor]})


class Server:
    """A server of a null volume on one core."""

    def __init__(self, program, folder, processor=None, spin=0, more=()):
        self.ready = Path(folder) / "ready"
        self.ready.unlink(missing_ok=True)
        listen = ["--iscsi", "127.0.0.1:0", "--nvme", "127.0.0.1:0"]
        begin = time.monotonic()
        command = [program, "serve", "disk=null:16G", *listen, "--cores", "1", "--spin", f"{spin}us", "--log", "warn", "--ready-file", str(self.ready), *more]
        self.child = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=bound(processor))
        while not (self.ready.exists() and self.ready.read_text().count("\n") >= 2):
            if self.child.poll() is not None or time.monotonic() - begin > PATIENCE:
                raise SystemExit(f"scale: {' '.join(command)} does not listen")
            time.sleep(0.001)
        self.start = time.monotonic() - begin

    def url(self, protocol):
        addresses = dict(line.split() for line in self.ready.read_text().splitlines())
        return NAMES[protocol].format(addresses[protocol])

    def status(self, field):
        """A number of the process's status, summed over its threads."""
        tasks = Path(f"/proc/{self.child.pid}/task").iterdir()
        texts = [(task / "status").read_text() for task in tasks]
        return sum(int(line.split()[1]) for text in texts for line in text.splitlines() if line.startswith(field + ":"))

    def memory(self):
        """Resident MiB."""
        text = Path(f"/proc/{self.child.pid}/status").read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS:")) / 1024

    def ticks(self):
        """Seconds of processor time."""
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        try:
            self.child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            raise SystemExit(f"scale: the server did not stop within {PATIENCE:.0f} s") from None


def bench(program, urls, *words, processor=None, spin=0):
    command = [program, "bench", "--json", "--spin", f"{spin}us", *words, *urls]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=bound(processor))


def result(child, seconds=None):
    """What a load found. One that has not ended after so many seconds is stopped."""
    try:
        output = child.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise SystemExit(f"scale: the load did not end within {seconds:.0f} s") from None
    if child.returncode != 0:
        raise SystemExit("scale: the load failed")
    return json.loads(output)


def idle(program, protocol, count):
    """Start in ms; memory in MiB, wake-ups and ms of processor time a second with `count` connections that do next to nothing."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(program, folder)
        seconds = str(int(SETTLE + WINDOW + 2 + count / 100))
        load = bench(program, [server.url(protocol)] * count, "--rate", "1", "--runtime", seconds, "--qd", "1")
        time.sleep(SETTLE + count / 100)
        wakes, spent = server.status("voluntary_ctxt_switches"), server.ticks()
        time.sleep(WINDOW)
        wakes, spent = server.status("voluntary_ctxt_switches") - wakes, server.ticks() - spent
        memory = server.memory()
        result(load)
        server.stop()
        return server.start * 1e3, memory, wakes / WINDOW, spent / WINDOW * 1e3


def throughput(program, protocol, count, depth):
    """IOPS of 4 KiB reads, `depth` at a time on each of so many connections."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(program, folder, processor=0, spin=SPIN)
        words = ("--qd", str(count * depth), "--ramp", str(RAMP), "--runtime", str(SECONDS))
        load = result(bench(program, [server.url(protocol)] * count, *words, processor=1, spin=SPIN))
        server.stop()
        return load["iops"]


def bare(program, count, depth):
    """The same without a protocol."""
    words = ("--connections", str(count), "--qd", str(depth), "--spin", str(SPIN), "--runtime", str(SECONDS))
    return result(subprocess.Popen([program, "--json", *words], stdout=subprocess.PIPE, text=True))["iops"]


def rates(options, counts, depth, results):
    """A table of the rates of all arms at a depth, each round in turn."""
    arms = {"bare loop": lambda count: bare(options.bare, count, depth)}
    arms |= {name: lambda count, name=name: throughput(options.program, name, count, depth) for name in NAMES}
    rounds = [{(arm, count): run(count) for count in counts for arm, run in arms.items()} for _ in range(ROUNDS)]
    print(f"\n| {depth} on each connection | connections | 4K reads a second (least to most) | ÷ ten connections | ÷ bare loop |\n|---|---|---|---|---|")
    for arm in arms:
        for count in counts:
            own = [round[arm, count] for round in rounds]
            by_ten = [round[arm, count] / round[arm, 10] for round in rounds] if 10 in counts else [float("nan")]
            by_bare = [round[arm, count] / round["bare loop", count] for round in rounds]
            rate, ten, loop = (statistics.median(values) for values in (own, by_ten, by_bare))
            print(f"| {arm} | {count} | {rate:,.0f} ({min(own):,.0f} to {max(own):,.0f}) | {ten:.2f} | {loop:.2f} |", flush=True)
            if results:
                load = f"4K reads, depth={depth} on each, connections={count}"
                results.add(load, ARMS[arm], "iops", unit="1/s", median=rate, least=min(own), most=max(own), **ratio_to("bare loop", arm, by_bare))
                if count != 10 and 10 in counts:
                    results.add(load, ARMS[arm], "iops", **ratio_to("ten connections", arm, by_ten))


def ratio_to(peer, arm, ratios):
    """The fields of an arm's ratio to a peer; to itself it has none."""
    counted = {"repetitions": len(ratios)}
    if peer == arm:
        return counted
    return counted | {"peer": ARMS.get(peer, peer), "ratio": statistics.median(ratios), "ratio_least": min(ratios), "ratio_most": max(ratios)}


def fairness(program, protocol, size):
    """Jain's index of equal clients with a greedy one beside them."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(program, folder, processor=0)
        url = server.url(protocol)
        ramp, seconds, whole = (str(number) for number in (FAIR_RAMP, FAIR_SECONDS, FAIR_RAMP + FAIR_SECONDS + 1))
        greedy = bench(program, [url], "--bs", "1m", "--qd", "32", "--runtime", whole, processor=1)
        words = ("--bs", size, "--qd", "8", "--ramp", ramp, "--runtime", seconds)
        equals = [bench(program, [url], *words, processor=1) for _ in range(EQUALS)]
        shares = [result(child)["iops"] for child in equals]
        result(greedy)
        server.stop()
        return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="target/release/linerate", help="what serves and loads")
    parser.add_argument("--bare", default="target/release/examples/bareloop", help="the bare loop")
    parser.add_argument("--connections", default="1,10,100,1000", help="numbers of connections")
    parser.add_argument("--results", metavar="FOLDER", help="leaves a results file in this folder")
    options = parser.parse_args()
    results = Results(__file__, options.program) if options.results else None
    counts = [int(word) for word in options.connections.split(",")]
    print(f"{'':18}{'start ms':>10}{'MiB':>8}{'wakes/s':>9}{'cpu ms/s':>10}")
    for protocol in NAMES:
        for count in counts:
            start, memory, wakes, spent = idle(options.program, protocol, count)
            print(f"{protocol:6}{count:6} links{start:10.1f}{memory:8.1f}{wakes:9.1f}{spent:10.2f}", flush=True)
            for metric, unit, value in (("start", "ms", start), ("memory", "MiB", memory), ("wakeups", "1/s", wakes), ("cpu", "ms/s", spent)):
                if results:
                    results.add(f"idle, connections={count}", SERVERS[protocol], metric, unit=unit, median=value)
        for size in ("4k", "64k"):
            runs = [fairness(options.program, protocol, size) for _ in range(FAIR_RUNS)]
            print(f"{protocol:6}{EQUALS:6} equal clients of {size}: Jain's index {statistics.median(runs):.3f}, lowest {min(runs):.3f}", flush=True)
            if results:
                results.add(f"eight equal clients beside a greedy one, bs={size}", SERVERS[protocol], "fairness", unit="Jain's index",
                            median=statistics.median(runs), least=min(runs), most=max(runs), repetitions=len(runs))
    for depth in DEPTHS:
        rates(options, counts, depth, results)
    if results:
        results.write(options.results)


if __name__ == "__main__":
    main()
