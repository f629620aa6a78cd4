#!/usr/bin/env python3
"""What servers of NFS do with names, ours beside nfs-ganesha: mdtest's pattern by `linerate metadata`, in turn, on tmpfs.

`metadata.py [--program target/release/linerate] [--rounds 7]` serves one folder of memory by each server and runs the load on one after the other, in an order
that changes with each round. Server and load have a processor each. Printed are the medians of the rounds with the least and the most: operations a second, the
ratio to nfs-ganesha of the same round, and microseconds of the server's processor for each operation, which for listings is a name. Small files are made, looked
at, listed and removed through our client of version 4.1, with no cache between. `--results FOLDER` also leaves all figures in a file there, which `benchpage.py record` takes into
the history. It needs root and Debian's nfs-ganesha and nfs-ganesha-vfs.
"""
import argparse
import json
import math
import os
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from benchrun import Results, interval
from scale import bound

MEMORY = "/dev/shm"
PATIENCE = 30.0
# The arms' names in the history, as linerate.nfs has them.
ARMS = {"linerate": "NFS 4.1: Linerate client, Linerate server", "ganesha": "NFS 4.1: Linerate client, nfs-ganesha"}
GANESHA = """\
NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {port}; Bind_addr = 127.0.0.1; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }}
NFSv4 {{ Graceless = true; RecoveryBackend = fs; RecoveryRoot = "{scratch}"; }}
EXPORT {{ Export_Id = 1; Path = "{folder}"; Pseudo = "/files"; Protocols = 4; Transports = TCP; Access_Type = RW; Squash = No_Root_Squash; SecType = sys; FSAL {{ Name = VFS; }} }}
LOG {{ Default_Log_Level = EVENT; }}
"""
LINERATE = """\
[[portal]]
protocol = "nfs"
listen = "127.0.0.1:{port}"

[[share]]
name = "files"
url = "dir:{folder}"
squash = "none"
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """A server of a folder of its own in memory."""

    def __init__(self, name, program, scratch):
        scratch, port = Path(scratch) / name, free_port()
        folder = scratch / "files"
        folder.mkdir(parents=True)
        self.url = f"nfs://127.0.0.1:{port}/files?version=4.1"
        config, ready = scratch / "config", scratch / "ready"
        config.write_text((GANESHA if name == "ganesha" else LINERATE).format(port=port, folder=folder, scratch=scratch))
        if name == "ganesha":
            command, word = ["ganesha.nfsd", "-F", "-f", config, "-L", ready, "-p", scratch / "pid"], "NFS SERVER INITIALIZED"
        else:
            command, word = [program, "serve", "--cores", "1", "--log", "warn", "--state", scratch / "state", "--config", config, "--ready-file", ready], "nfs"
        self.child = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, preexec_fn=bound(0))
        begin = time.monotonic()
        while not (ready.exists() and word in ready.read_text()):
            if self.child.poll() is not None or time.monotonic() - begin > PATIENCE:
                raise SystemExit(f"metadata: {name} does not serve: {' '.join(map(str, command))}")
            time.sleep(0.01)

    def seconds(self):
        """Of processor time, all threads."""
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        try:
            self.child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


def load(program, server, words):
    """What one run tells by phase, and microseconds of the server's processor for each operation of all phases."""
    spent = server.seconds()
    done = subprocess.run([program, "metadata", server.url, "--json", *words], stdout=subprocess.PIPE, text=True, preexec_fn=bound(1))
    if done.returncode != 0:
        raise SystemExit("metadata: the load failed")
    phases = {phase["phase"]: phase for phase in json.loads(done.stdout)["phases"]}
    rates = {name: phase["per_second"] for name, phase in phases.items()}
    operations = sum(phase["operations"] for phase in phases.values())
    return rates, (server.seconds() - spent) * 1e6 / operations


def ratio(mine, theirs):
    """The fields of a ratio by rounds."""
    logs = sorted(math.log(one / other) for one, other in zip(mine, theirs) if one > 0 and other > 0)
    fields = {"ratio": math.exp(statistics.median(logs)), "ratio_least": math.exp(logs[0]), "ratio_most": math.exp(logs[-1]), "peer": ARMS["ganesha"], "repetitions": len(logs)}
    if found := interval(logs):
        fields |= {"low": math.exp(found[0]), "high": math.exp(found[1])}
    return fields


def table(rounds, results):
    """Prints what the rounds came to, and notes it."""
    print("| phase | Linerate | nfs-ganesha | ratio |\n|---|---|---|---|")
    figures = {(phase, "iops", "1/s"): lambda one, phase=phase: one[0][phase] for phase in rounds[0]["linerate"][0]}
    figures[("all phases", "cpu_target_per_io", "us")] = lambda one: one[1]
    for (phase, metric, unit), of in figures.items():
        values = {name: [of(one[name]) for one in rounds] for name in ARMS}
        between = ratio(values["linerate"], values["ganesha"])
        cells = [f"{statistics.median(own):,.1f} ({min(own):,.1f} to {max(own):,.1f})" for own in values.values()]
        print(f"| {phase}, {unit} | {' | '.join(cells)} | {between['ratio']:.2f} ({between['ratio_least']:.2f} to {between['ratio_most']:.2f}) |", flush=True)
        for name, own in values.items() if results else ():
            more = between if name == "linerate" else {"repetitions": len(own)}
            results.add(phase, ARMS[name], metric, unit=unit, median=statistics.median(own), least=min(own), most=max(own), **more)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="target/release/linerate", help="what serves and loads")
    parser.add_argument("--rounds", type=int, default=7, help="runs of each server")
    parser.add_argument("--depth", default="1", help="levels of directories")
    parser.add_argument("--branch", default="10", help="directories in each")
    parser.add_argument("--files", default="1000", help="files in each directory")
    parser.add_argument("--qd", default="32", help="operations under way")
    parser.add_argument("--results", metavar="FOLDER", help="leaves a results file in this folder")
    options = parser.parse_args()
    if not shutil.which("ganesha.nfsd"):
        raise SystemExit("metadata: ganesha.nfsd is not there: apt install nfs-ganesha nfs-ganesha-vfs")
    results = Results(__file__, options.program) if options.results else None
    words = ["--depth", options.depth, "--branch", options.branch, "--files", options.files, "--qd", options.qd]
    servers = {}
    with tempfile.TemporaryDirectory(dir=MEMORY) as scratch:
        try:
            servers |= {name: Server(name, options.program, scratch) for name in ARMS}
            rounds = []
            for number in range(options.rounds):
                order = list(ARMS) if number % 2 else list(ARMS)[::-1]
                rounds.append({name: load(options.program, servers[name], words) for name in order})
        finally:
            for server in servers.values():
                server.stop()
    table(rounds, results)
    if results:
        results.write(options.results)


if __name__ == "__main__":
    main()
