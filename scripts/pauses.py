#!/usr/bin/env python3
"""How long a reload makes the requests of others wait: the longest latency of an export that no reload touches, beside reloads and alone, over both protocols.

`pauses.py [--program target/release/linerate] [--seconds 2] [--rounds 5] [--pause 0.05]` serves two volumes in memory on two event loops (`--cores`), and prints a table: the longest latency of 4K reads of the first one,
one at a time, alone and while the second one comes and goes with each reload, and how many reloads there were; medians of so many rounds, each of them alone and beside in turn, with the least and the most. Each reload
is waited for in the log, and the next one begins `--pause` seconds later. A request that fails, or a reload that is refused, ends it with 1. `--results FOLDER` also leaves the figures in a file there, which `benchpage.py record`
takes into the history.

Server and client share the machine's processors, so that the longest latency alone says what the machine adds: only the difference is the server's. With the usual values it takes less than a minute.
"""
import argparse
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import scale
from benchrun import Results

PORTALS = '[[portal]]\nprotocol = "iscsi"\nlisten = "127.0.0.1:0"\n[[portal]]\nprotocol = "nvme"\nlisten = "127.0.0.1:0"\n'
STAYS, COMES = ('[[volume]]\nname = "{}"\nurl = "ram:64M"\n'.format(name) for name in ("disk", "other"))
RAMP, MARGIN = 0.5, 30.0
# What the results call the reads of the export that stays.
LOAD = "4K reads one at a time"


class Server:
    """A server whose configuration changes, with a log that tells what became of each change."""

    def __init__(self, options, folder):
        self.folder = Path(folder)
        self.configure(True)
        self.log = self.folder / "log"
        ready = self.folder / "ready"
        command = [options.program, "serve", "--config", str(self.folder / "config.toml"), "--cores", str(options.cores), "--log", "warn,configuration=info", "--ready-file", str(ready)]
        self.child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.log.open("w"))
        self.wait(lambda: ready.exists() and ready.read_text().count("\n") >= 2, "does not listen")
        self.addresses = dict(line.split() for line in ready.read_text().splitlines())

    def configure(self, both):
        new = self.folder / "config.new"
        new.write_text(PORTALS + STAYS + (COMES if both else ""))
        new.rename(self.folder / "config.toml")

    def wait(self, done, what):
        """Until something is done."""
        end = time.monotonic() + scale.PATIENCE
        while not done():
            if self.child.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"pauses: the server {what}: {self.log.read_text()[-1000:]}")
            time.sleep(0.001)

    def lines(self, text):
        return sum(text in line for line in self.log.read_text().splitlines())

    def reload(self, both):
        """Has the second volume served, or not, and waits until that is so."""
        before = self.lines(" applied in ")
        if not both:
            closed = self.lines("is closed and flushed")
        self.configure(both)
        self.child.send_signal(signal.SIGHUP)
        self.wait(lambda: self.lines(" applied in ") > before or self.lines("was not applied"), "does not reload")
        if self.lines("was not applied"):
            raise SystemExit(f"pauses: a reload is refused: {self.log.read_text()[-1000:]}")
        if not both:
            # A volume of that name can only come back when the last one is closed.
            self.wait(lambda: self.lines("is closed and flushed") > closed, "does not close a volume")

    def url(self, protocol):
        return scale.NAMES[protocol].format(self.addresses[protocol])


def longest(options, server, protocol, beside):
    """The longest latency of reads one at a time, in µs, and the reloads beside them."""
    words = ("--bs", "4K", "--rw", "randread", "--qd", "1", "--ramp", str(RAMP), "--runtime", str(options.seconds))
    load = scale.bench(options.program, [server.url(protocol)], *words)
    over, count, failures = threading.Event(), 0, []

    def reloads():
        nonlocal count
        both = False
        try:
            while not over.wait(options.pause):
                server.reload(both)
                both, count = not both, count + 1
            if both:
                server.reload(True)
        except SystemExit as failure:
            failures.append(failure)

    thread = threading.Thread(target=reloads) if beside else None
    if thread:
        thread.start()
    try:
        found = scale.result(load, seconds=options.seconds + RAMP + MARGIN)
    finally:
        over.set()
        if thread:
            thread.join()
    if failures:
        raise failures[0]
    if found["errors"]:
        raise SystemExit(f"pauses: {found['errors']} requests of an export that stays failed: {found['first_error']}")
    return found["read"]["latency_ns"]["max"] / 1e3, count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="target/release/linerate")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pause", type=float, default=0.05)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--results", metavar="FOLDER", help="leaves a results file in this folder")
    options = parser.parse_args()
    results = Results(__file__, options.program) if options.results else None
    print("| protocol | reloads | longest latency alone, µs (least to most) | beside reloads, µs | difference of the pairs, µs |\n|---|---|---|---|---|")
    for protocol in scale.NAMES:
        with tempfile.TemporaryDirectory() as folder:
            server = Server(options, folder)
            try:
                pairs = [(longest(options, server, protocol, False), longest(options, server, protocol, True)) for _ in range(options.rounds)]
            finally:
                server.child.send_signal(signal.SIGTERM)
                server.child.wait(scale.PATIENCE)
        figures = {"alone": [alone for (alone, _), _ in pairs], "beside reloads": [beside for _, (beside, _) in pairs],
                   "added by reloads": [beside - alone for (alone, _), (beside, _) in pairs]}
        count = sum(reloads for _, (_, reloads) in pairs)
        if not count:
            sys.exit("pauses: no reload was over in time")
        cells = (f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})" for values in figures.values())
        print(f"| {scale.SERVERS[protocol]} | {count} | " + " | ".join(cells) + " |", flush=True)
        if results:
            note(results, scale.SERVERS[protocol], figures)
    if results:
        results.write(options.results)


def note(results, server, figures):
    """Adds what was measured of a server to the results."""
    for load, values in figures.items():
        results.add(f"{LOAD}, {load}", server, "longest_latency", unit="us", median=statistics.median(values), least=min(values), most=max(values), repetitions=len(values))


if __name__ == "__main__":
    main()
