#!/usr/bin/env python3
"""`docs/howto/cluster.md` is true: every command that stands in it is run as it stands there, and what `linerate cluster demo` tells programs is judged.

Four nodes in network namespaces hold each other's copies; one is killed under load, and its volume taken over. No request of the others may fail or take longer
than the page says, every copy must be the same, and the old owner must be fenced.

Lines that begin with sudo need root and ip(8), tc(8) and nsenter(1); without them they are left out by name, with the reason.
"""
import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent))
from harness import Account, linerate_binary, temporary_folder  # noqa: E402

PAGE = ROOT / "docs/howto/cluster.md"
# Seconds for one block of the page: a demo on a busy machine.
LIMIT = 900
NODES = 4
# What the page calls the bound: seconds that a request may take while a node dies.
BOUND = 10


def demand(true, words, detail=""):
    """Fails with these words unless `true`."""
    if not true:
        raise RuntimeError(f"{words}\n{detail}")


def blocks():
    """Every block of shell commands."""
    return re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def free_port():
    """A port of loopback that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def here(block):
    """A block of the page as it is run here: at free ports, and without sudo, as this is root."""
    for port in sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", block))):
        block = block.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free_port()}")
    return re.sub(r"^sudo ", "", block, flags=re.MULTILINE)


def run(folder, block):
    """Runs a block in one shell; what it printed. Nothing that it started outlives it."""
    (folder / "bin").mkdir(exist_ok=True)
    program = folder / "bin/linerate"
    if not program.exists():
        program.symlink_to(linerate_binary())
    environment = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    ended = 'trap \'for job in $(jobs -p); do kill "$job" || true; done 2>/dev/null\' EXIT\n'
    done = subprocess.run(["bash", "-e", "-c", ended + here(block)], cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT)
    demand(done.returncode == 0, f"it ended with {done.returncode}", (done.stdout + done.stderr)[-3000:])
    return done.stdout


def judge_words(said):
    """The demo's words for people."""
    demand("Nothing was lost, and every copy is the same." in said, "it did not come to its end", said)
    demand(said.count("none failed, no wrong data") == NODES, "a load is missing", said)


def judge_report(path):
    """The demo's report for programs, by the numbers themselves."""
    report = json.loads(path.read_text())
    demand(report["bound_s"] == BOUND and f"takes longer than {BOUND} s" in PAGE.read_text(), "the bound is another one", report)
    demand(sorted(load["volume"] for load in report["loads"]) == [f"disk-{number + 1}" for number in range(NODES)], "a load is missing", report)
    for load in report["loads"]:
        demand(load["ios"] > 0 and load["errors"] == 0, f"{load['volume']} had errors, or no I/O", report)
        demand(load["longest_s"] <= BOUND, f"a request to {load['volume']} took too long", report)
    demand(report["fenced"] > 0 and report["refused"] > 0, "the old owner was not fenced", report)
    demand(len(report["volumes"]) == NODES, "a volume is missing", report)
    for volume in report["volumes"]:
        sums = volume["sums"]
        demand(len(sums) == NODES and len(set(sums)) == 1 and len(sums[0]) >= 32, f"the copies of {volume['volume']} differ", report)


def judge_machines(said):
    """The page's second part: a check, an owner that gives its legs back, one that crashes and is taken over, and contents that are always the same."""
    lines = said.splitlines()
    demand("bytes kept" in said and "somebody else has it" in said, "the mirror was not kept for one owner", said)
    demand("a crash left its reservation" in said, "an owner that crashed was not to be taken over", said)
    sums = [line.split()[0] for line in lines if re.match(r"[0-9a-f]{32}", line)]
    demand(len(sums) == 3 and len(set(sums)) == 1, "the two legs differ, or were not read by each owner", said)


def obstacle():
    """Why the demo cannot be run here."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [name for name in ("ip", "tc", "nsenter") if not shutil.which(name)]
    return f"{', '.join(missing)} not here" if missing else None


def main():
    """Runs the page from top to bottom."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--test", default="", metavar="PART", help="only blocks that have this")
    wanted = parser.parse_args().test
    account, reason = Account("cluster"), obstacle()
    for block in (block for block in blocks() if wanted in block):
        name = next(line for line in block.splitlines() if "linerate" in line)
        if reason and block.startswith("sudo "):
            account.record("skipped", name, reason)
            continue
        with account.test(name), temporary_folder() as folder:
            said = run(Path(folder), block)
            if "--json" in block:
                judge_report(Path(folder) / "result.json")
            elif "cluster demo" in block:
                judge_words(said)
            else:
                judge_machines(said)
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
