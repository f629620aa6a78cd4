#!/usr/bin/env python3
"""Builds the tests of the workspace once, and runs them in two lines at a time: `rusttests.py [--workspace | -p CRATE …]`.

`cargo test` runs one test program after the other. Those of `cli` start servers and clients and wait for them, which is half of the time; the others compute. So
the programs of `cli` run one after another, as some use the same ports, and beside them all others do, and the documentation's examples. What a program
prints is shown when it has ended. Exit code 1: something failed.
"""
import json
import os
import subprocess
import sys
import threading
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Whose test programs wait.
WAITS = "cli"


@dataclass(frozen=True)
class Program:
    """A test program: the crate's folder, in which it runs, and its name for people."""

    path: str
    folder: Path
    name: str

    def waits(self):
        """Whether it waits more than it computes."""
        return self.folder.name == WAITS


def programs(messages):
    """The test programs among cargo's messages, in their order."""
    found = (json.loads(line) for line in messages.splitlines() if line.startswith("{"))
    built = (one for one in found if one["reason"] == "compiler-artifact" and one["profile"]["test"] and one["executable"])
    return [Program(one["executable"], Path(one["manifest_path"]).parent, str(Path(one["target"]["src_path"]).relative_to(ROOT))) for one in built]


def environment():
    """The environment in which cargo runs a test, as far as ours look at it."""
    settings = tomllib.loads((ROOT / ".cargo/config.toml").read_text()).get("env", {})
    return settings | os.environ


class Lines:
    """Runs commands one after another, and shows what each printed when it has ended."""

    def __init__(self):
        self.shown = threading.Lock()
        self.failed = False

    def run(self, name, command, folder=ROOT):
        """Runs one."""
        done = subprocess.run(command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        with self.shown:
            print(f"     Running {name}\n{done.stdout}", end="", flush=True)
            if done.returncode:
                self.failed = True
                print(f"error: {name} ended with {done.returncode}", flush=True)

    def run_all(self, programs):
        """Runs some test programs."""
        for one in programs:
            self.run(one.name, [one.path, "--quiet"], one.folder)


def main(selection):
    """Builds and runs the tests of the selected crates."""
    selection = selection or ["--workspace"]
    built = subprocess.run(["cargo", "test", *selection, "--no-run", "--quiet", "--message-format=json-render-diagnostics"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        return 1
    found, lines = programs(built.stdout), Lines()
    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(lines.run_all, [one for one in found if one.waits()])
        lines.run_all([one for one in found if not one.waits()])
        lines.run("the documentation's examples", ["cargo", "test", *selection, "--doc", "--no-fail-fast", "--quiet"])
        waiting.result()
    return 1 if lines.failed or not found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
