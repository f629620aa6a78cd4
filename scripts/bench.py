#!/usr/bin/env python3
"""Figures against the bare loop and against peers, in turn: `make bench`, or `scripts/bench.py [--reps N] [--runtime S] [--spin US] [--quick] [--only TEXT]`.

Every repetition runs all arms of a point one after the other, so that a machine whose speed drifts treats them alike. Targets are pinned to
the first processor, initiators to the second. What is ours, the bare loop included, spins equally long. Printed are medians with the least and the most, and the ratio to the bare loop of the same run. The
results also go to `target/bench/`, as JSON and as a Markdown table.
"""
import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINERATE = ROOT / "target/release/linerate"
BARE = ROOT / "target/release/examples/bareloop"
TARGET_CPU, INITIATOR_CPU = "0", "1"
TGT_IQN = "iqn.2026-11.org.linerate.bench:null"
GRACE = 30


def free_port():
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(command, limit, cpu=INITIATOR_CPU):
    """A command's output; it is stopped after `limit` seconds."""
    done = subprocess.run(["taskset", "-c", cpu, *map(str, command)], capture_output=True, text=True, timeout=limit + GRACE, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip()[-300:]}")
    return done.stdout + done.stderr


class Servers:
    """Linerate's and tgt's targets with null volumes, for as long as the benchmark runs."""

    def __init__(self, folder, spin):
        self.folder = folder
        self.spin = spin
        self.processes = []
        ready = folder / "ready"
        self.start(LINERATE, "serve", "null=null:16G", "--iscsi", "127.0.0.1:0", "--nvme", "127.0.0.1:0", "--ready-file", ready, "--spin", f"{spin}us")
        while not ready.exists():
            time.sleep(0.02)
        listening = dict(line.split() for line in ready.read_text().splitlines())
        self.iscsi = f"iscsi://{listening['iscsi']}/iqn.2026-11.org.linerate:null/0"
        self.nvme = f"nvme+tcp://{listening['nvme']}/nqn.2026-11.org.linerate:null/1"
        self.tgt = self.start_tgt() if shutil.which("tgtd") and os.geteuid() == 0 else None
        self.iperf = free_port()
        self.start("iperf3", "-s", "-p", self.iperf, "-B", "127.0.0.1")

    def start(self, *command, **extra):
        """A process on the targets' processor."""
        log = (self.folder / f"{len(self.processes)}.log").open("w")
        self.processes.append(subprocess.Popen(["taskset", "-c", TARGET_CPU, *map(str, command)], stdout=log, stderr=log, **extra))

    def start_tgt(self):
        """tgt with a null volume, through a control socket of its own."""
        port, env = free_port(), os.environ | {"TGT_IPC_SOCKET": str(self.folder / "tgt")}
        backing = self.folder / "null.img"
        with backing.open("w") as file:
            file.truncate(16 << 30)
        self.start("tgtd", "-f", "--iscsi", f"portal=127.0.0.1:{port}", env=env)
        admin = ["tgtadm", "--lld", "iscsi", "--mode"]
        commands = (
            [*admin, "target", "--op", "new", "--tid", "1", "-T", TGT_IQN],
            [*admin, "logicalunit", "--op", "new", "--tid", "1", "--lun", "1", "-b", str(backing), "--bstype", "null"],
            [*admin, "target", "--op", "bind", "--tid", "1", "-I", "ALL"],
        )
        for command in commands:
            for _ in range(50):
                if subprocess.run(command, env=env, capture_output=True, check=False).returncode == 0:
                    break
                time.sleep(0.1)
        return f"iscsi://127.0.0.1:{port}/{TGT_IQN}/1"

    def stop(self):
        """Ends them all, by process id."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                # tgt ignores SIGTERM while it has targets.
                process.kill()
                process.wait()


def bare(spin, rw, size, depth, seconds):
    """The bare loop, which pins its two threads to a processor each."""
    both = f"{TARGET_CPU},{INITIATOR_CPU}"
    found = json.loads(run([BARE, "--bs", size, "--qd", depth, "--rw", rw, "--runtime", seconds, "--spin", spin, "--json"], seconds, both).splitlines()[-1])
    return {"iops": found["iops"], "p50": found["p50_us"], "cpu": found["client_cpu_us"]}


def ours(servers, url, rw, size, depth, seconds):
    """Linerate's initiator or host."""
    out = run([LINERATE, "bench", url, "--rw", f"rand{rw}", "--bs", size, "--qd", depth, "--runtime", seconds, "--spin", f"{servers.spin}us", "--json"], seconds)
    found = json.loads([line for line in out.splitlines() if line.startswith("{")][-1])
    if found["errors"]:
        raise RuntimeError(f"{url}: {found['errors']} errors")
    return {"iops": found["iops"], "p50": found["latency_us"]["p50"], "cpu": found["cpu_us_per_io"]}


def libiscsi(url, _rw, size, depth, seconds):
    """libiscsi's iscsi-perf, which only reads."""
    out = run(["iscsi-perf", "-t", seconds, "-m", depth, "-b", size // 512, "-r", url], seconds)
    return {"iops": float(re.findall(r"iops average (\d+)", out)[-1]), "p50": None, "cpu": None}


def iperf(port, size, seconds):
    """One stream of iperf3 with messages of `size`, as messages a second."""
    out = run(["iperf3", "-c", "127.0.0.1", "-p", port, "-l", size, "-t", seconds, "-J"], seconds)
    bits = json.loads(out)["end"]["sum_received"]["bits_per_second"]
    return {"iops": bits / 8 / size, "p50": None, "cpu": None}


def arms(servers, rw):
    """The arms of a point: names, and what measures them."""
    yield "bare loop", lambda *point: bare(servers.spin, rw, *point)
    yield "NVMe/TCP: Linerate, Linerate", lambda *point: ours(servers, servers.nvme, rw, *point)
    yield "iSCSI: Linerate, Linerate", lambda *point: ours(servers, servers.iscsi, rw, *point)
    if rw == "read":
        yield "iSCSI: Linerate, libiscsi", lambda *point: libiscsi(servers.iscsi, rw, *point)
    if servers.tgt:
        yield "iSCSI: tgt, Linerate", lambda *point: ours(servers, servers.tgt, rw, *point)
        if rw == "read":
            yield "iSCSI: tgt, libiscsi", lambda *point: libiscsi(servers.tgt, rw, *point)
    if rw == "write":
        yield "iperf3, one stream", lambda size, depth, seconds: iperf(servers.iperf, size, seconds)


def measure(options, servers):
    """All points, all arms, in turn."""
    rows = []
    depths = (32,) if options.quick else (1, 32, 128)
    for size in (4096, 131072):
        for rw in ("read", "write"):
            for depth in depths:
                chosen = [arm for arm in arms(servers, rw) if options.only in arm[0] or arm[0] == "bare loop"]
                found = {name: [] for name, _ in chosen}
                for repetition in range(options.reps):
                    for name, arm in chosen:
                        try:
                            found[name].append(arm(size, depth, options.runtime))
                        except (RuntimeError, subprocess.TimeoutExpired, IndexError) as error:
                            # Its place stays empty, so that the others are still paired with those of their own repetition.
                            found[name].append(None)
                            print(f"{name}: {error}", file=sys.stderr)
                    print(f"{size} {rw} QD{depth}: repetition {repetition + 1} of {options.reps}", file=sys.stderr)
                rows += [row(size, rw, depth, name, found[name], found["bare loop"]) for name in found if any(found[name])]
    return rows


def row(size, rw, depth, name, results, base):
    """One line of the table."""
    pairs = [(one, other) for one, other in zip(results, base) if one and other]
    ratios = [one["iops"] / other["iops"] for one, other in pairs]
    results = [one for one in results if one]
    iops = [one["iops"] for one in results]

    def middle(key):
        values = [one[key] for one in results if one[key] is not None]
        return statistics.median(values) if values else None

    return {"size": size, "rw": rw, "depth": depth, "arm": name, "iops": statistics.median(iops), "least": min(iops), "most": max(iops),
            "mb_per_s": statistics.median(iops) * size / 1e6, "ratio": statistics.median(ratios) if ratios and not name.startswith("iperf3") else None, "p50": middle("p50"), "cpu": middle("cpu"),
            "repetitions": len(results)}


def ratio(one):
    """The ratio to the bare loop; a stream without answers has none."""
    return "" if one["ratio"] is None else f"{one['ratio']:.2f}"


def table(rows):
    """The rows as a Markdown table."""
    lines = ["| bytes | | QD | arm (target, initiator) | IOPS, median (least to most) | MB/s | ÷ bare loop | p50 µs | initiator's CPU, µs per I/O |",
             "|---|---|---|---|---|---|---|---|---|"]
    for one in rows:
        show = lambda key: "" if one[key] is None else f"{one[key]:.1f}"  # noqa: E731
        lines.append(f"| {one['size']} | {one['rw']} | {one['depth']} | {one['arm']} | {one['iops']:,.0f} ({one['least']:,.0f} to {one['most']:,.0f}) "
                     f"| {one['mb_per_s']:,.0f} | {ratio(one)} | {show('p50')} | {show('cpu')} |")
    return "\n".join(lines)


def main():
    """Runs, prints, stores."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reps", type=int, default=5, help="repetitions of every point")
    parser.add_argument("--runtime", type=int, default=3, help="seconds for each measurement")
    parser.add_argument("--spin", type=int, default=50, help="microseconds that Linerate and the bare loop look for an answer before they sleep; 0 never does")
    parser.add_argument("--only", default="", help="only arms whose name has this text, and the bare loop")
    parser.add_argument("--quick", action="store_true", help="queue depth 32 only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        servers = Servers(Path(folder), options.spin)
        try:
            rows = measure(options, servers)
        finally:
            servers.stop()
    out = ROOT / "target/bench"
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(rows, indent=1))
    (out / "results.markdown").write_text(table(rows) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
