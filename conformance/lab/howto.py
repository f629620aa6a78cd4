#!/usr/bin/env python3
"""`docs/howto/lab.md` is true: every command that stands in it is run as it stands there, and every command of `linerate lab` stands in it.

Two things are changed: runs get a shorter budget, and an agent listens on a free port of loopback. Lines that begin with sudo are left out by name where
this is not root.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parent), str(HERE)]
from harness import Account, linerate_binary, temporary_folder  # noqa: E402
from lab import NOT_TESTABLE, demand  # noqa: E402

PAGE = ROOT / "docs/howto/lab.md"
# Seconds for one line of the page: a run of one point on a busy machine.
LIMIT = 600
# What a run may take here: its first point, whatever that takes.
BUDGET = "--budget 5s"
AGENT = re.compile(r"^linerate lab agent ")


def blocks():
    """The lines of every block of shell commands, without remarks; a line that ends with a backslash goes on."""
    found = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [[line for line in block.replace("\\\n", " ").splitlines() if line.strip()] for block in found]


def here(line):
    """A line of the page as it is run here."""
    line = re.sub(r"\s+# .*$", "", line).removeprefix("sudo ")
    if " lab run " in line:
        line = re.sub(r" --budget \S+", "", line) + " " + BUDGET
    return re.sub(r"--listen \S+", "--listen 127.0.0.1:0", line)


def environment(folder):
    """The program under test as `linerate`, and scenarios as from the root of the repository."""
    (folder / "bin").mkdir(exist_ok=True)
    program = folder / "bin/linerate"
    if not program.exists():
        program.symlink_to(linerate_binary())
    return os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


def run(folder, line):
    """Runs a line; it must end well. On a machine too busy for a control, `regress` has nothing to go by and says so by its code."""
    allowed = (0, NOT_TESTABLE) if " regress " in line else (0,)
    done = subprocess.run(["sh", "-e", "-c", line], cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=LIMIT)
    demand(done.returncode in allowed, f"`{line}` ended with {done.returncode}", (done.stdout + done.stderr)[-3000:])


def run_agent(folder, line):
    """Starts an agent, which serves until it is ended, and waits until it listens."""
    agent = subprocess.Popen(["sh", "-c", f"exec {line}"], cwd=folder, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said = []
        while not any(text.startswith("listening: ") for text in said):
            text = agent.stdout.readline()
            demand(text, f"`{line}` ended", "".join(said))
            said.append(text)
    finally:
        agent.terminate()
        agent.communicate(timeout=LIMIT)


def every_command_stands_there():
    """Each command that `linerate lab --help` lists is on the page."""
    said = subprocess.run([linerate_binary(), "lab", "--help"], capture_output=True, text=True, timeout=LIMIT, check=True).stdout
    listed = re.findall(r"^  ([a-z]+) ", said.split("Commands:")[1].split("Options:")[0], re.MULTILINE)
    text = PAGE.read_text()
    absent = [name for name in listed if name != "help" and not re.search(rf"`{name}\b|lab {name}\b", text)]
    demand(len(listed) > 10 and not absent, f"not on the page: {absent}", said)
    for code in range(4):
        demand(re.search(rf"^  {code}  ", said, re.MULTILINE) and f"\n| {code} | " in text, f"exit code {code} is not explained", said)


def main():
    """Runs the page from top to bottom in one folder."""
    account = Account("howto")
    with account.test("every command and exit code stands on the page"):
        every_command_stands_there()
    with temporary_folder() as name:
        for block in blocks():
            for line in block:
                if line.startswith("sudo ") and os.geteuid() != 0:
                    account.record("skipped", line, "needs root")
                    continue
                with account.test(line):
                    (run_agent if AGENT.match(line) else run)(Path(name), here(line))
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
