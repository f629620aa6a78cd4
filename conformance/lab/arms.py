#!/usr/bin/env python3
"""What the lab builds for a scenario: targets, adapters, file systems, links; each used by a program of others, and taken down again.

The tests are Rust (`crates/lab/tests/arms.rs`), since what they prove is the crate's; this runner builds them, finds the `linerate` program
and runs each in a process of its own. Needs root, for network namespaces, loop devices and mounts: without it every test is left out by name.
"""
import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent))
from harness import Account, linerate_binary  # noqa: E402

# Seconds for the build, and for one test.
BUILD_LIMIT = 1800
TEST_LIMIT = 180
# PostgreSQL's package starts a server of its own, so the other tests do not ask for it.
WANTS = {"a_database_runs_on_a_file_system_on_a_remote_volume": ("/usr/lib/postgresql", "PostgreSQL is not installed: apt install postgresql")}
# Started by another test, which kills it.
NO_TEST = "victim"


def build():
    """The test program."""
    command = ["cargo", "test", "--package", "lab", "--test", "arms", "--no-run", "--message-format=json"]
    run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=BUILD_LIMIT, check=True)
    messages = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    found = [message["executable"] for message in messages if message.get("executable") and message["target"]["name"] == "arms"]
    return found[-1]


def names(program):
    """The names of the tests."""
    run = subprocess.run([program, "--list", "--ignored"], capture_output=True, text=True, timeout=TEST_LIMIT, check=True)
    return [name for name in re.findall(r"^(\w+): test$", run.stdout, re.MULTILINE) if name != NO_TEST]


def run_one(program, name):
    """One test; its words if it fails."""
    command = [program, "--exact", name, "--ignored", "--nocapture"]
    environment = os.environ | {"LINERATE": str(linerate_binary())}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TEST_LIMIT)
    if run.returncode != 0 or "1 passed" not in run.stdout:
        raise RuntimeError(f"ended with {run.returncode}\n{run.stdout[-3000:]}{run.stderr[-3000:]}")


def main():
    """Runs the tests, or leaves all of them out by name with the reason."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--test", default="", help="only tests whose name has this text")
    options = parser.parse_args()
    account = Account("lab")
    program = build()
    for name in (name for name in names(program) if options.test in name):
        if os.geteuid() != 0:
            account.record("skipped", name, "needs root, for network namespaces, loop devices and mounts")
            continue
        path, words = WANTS.get(name, ("/", ""))
        if not Path(path).exists():
            account.record("skipped", name, words)
            continue
        with account.test(name):
            run_one(program, name)
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
