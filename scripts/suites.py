#!/usr/bin/env python3
"""Runs suites one after another and sums them up: `suites.py unit conformance+interop lab vm`. Suites that `+` joins run at the same time; `make test`
joins none, as libiscsi's suite has time limits that a busy machine misses.

A suite is a list of steps, a step is a command. What waits runs beside what computes: steps that mostly wait run beside the others of their suite, and what
later suites build is built beside the first one, at the lowest priority. Whatever a step prints goes to `target/suites/SUITE.log` and to the terminal, of one that
runs beside others when it has ended; its results are read from the closing lines of cargo's test harness or of our runners. A command that has no such line
is one test. The summary has each step's time, how much of the processors it used (what used little could run beside something else), and what failed and why. The
last line of all is the sum, alone: `N passed, N failed`.
"""
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)
RUNNER = re.compile(r"^(?:[\w-]+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?(?: \(.*\))?$", re.MULTILINE)
# A failed test as our runners and cargo's harness tell it, and what a runner says of it below.
FAILED = re.compile(r"^(?:failed  .*|---- .+ ----|thread '.+' .*panicked at .*|error(?:\[\w+\])?: .*)$")
DETAIL = "    | "
# Before a command that takes no processor from others: builds wait for nobody, so they may wait for everybody.
LAST = "nice -n 19"
# Lines told again of a step that failed, and of one test's details: the whole of it is in the log.
TOLD_LINES = 24
TOLD_DETAILS = 6


@dataclass(frozen=True)
class Step:
    """A command, and how long it may take before it is stopped and has failed, in seconds."""

    name: str
    command: str
    limit: int


@dataclass(frozen=True)
class Suite:
    """Steps, and what this suite does not do yet or here, with the reason."""

    steps: tuple
    skips: tuple = field(default=())
    # Steps that wait for timeouts and paced copies rather than compute, or may be last at the processors: they run one after another beside `steps`, once
    # there is a build.
    beside: tuple = ()
    # What its steps build: done beside the first of several suites.
    ahead: tuple = ()


# The release build stands before the suites that need it: it is their step, so that each suite can run alone.
BUILD = Step("build", "cargo build --release --quiet -p cli", 1500)

SUITES = {
    "unit": Suite((
        Step("check", "cargo xtask check", 1500),
        Step("judges", "conformance/selftest.py", 60),
        Step("scripts", "python3 -m unittest discover -s scripts/tests", 60),
        Step("judges of the guests", "python3 -m unittest discover -s conformance/vm/tests", 60),
        Step("tests", "scripts/rusttests.py", 2400),
        # Behind the tests, because it takes its release build from the one that is made beside them.
        Step("instructions", "scripts/instructions.py", 900),
    ), beside=(
        # A folder of its own, because everything is built otherwise; so no build waits for its lock. It computes without a look at the clock.
        Step("orders", f"RUSTFLAGS='--cfg shuttle' {LAST} cargo test --quiet -p volume --lib --target-dir target/shuttle ram::orders", 1800),
    )),
    "conformance": Suite((
        BUILD,
        Step("libiscsi", "conformance/libiscsi/run.py", 900),
        Step("libiscsi on epoll", "conformance/libiscsi/run.py --volume ram --driver epoll", 600),
        Step("tshark", "conformance/tshark/run.py", 900),
    )),
    "interop": Suite((
        BUILD,
        Step("qemu", "conformance/qemu/run.py", 600),
        Step("qemu on epoll", "conformance/qemu/run.py --driver epoll", 600),
        Step("discovery", "conformance/discovery/run.py", 300),
        Step("libnfs", "conformance/nfs/run.py", 300),
        Step("libnfs on epoll", "conformance/nfs/run.py --driver epoll", 300),
        Step("library", "conformance/library/run.py", 1500),
        Step("fio", "conformance/fio/run.py", 1800),
        Step("attach", "conformance/attach/run.py", 900),
        Step("contract", "cargo build --quiet -p linerate --example contract && conformance/contract/run.py", 1800),
        Step("files at NFS servers", "cargo build --quiet -p linerate --example contract && conformance/nfs_client/run.py", 1200),
        Step("shared memory", "conformance/attach/shared_memory.py", 900),
        Step("the howto of shared memory", "conformance/attach/howto.py", 1200),
        Step("attach as a file", "conformance/attach/fuse.py", 900),
        Step("device", "conformance/device/run.py", 1500),
        Step("nat", "conformance/nat/run.py", 600),
        Step("cluster", "conformance/cluster/run.py", 1200),
        Step("libibverbs' headers", "conformance/ibverbs/run.py", 300),
    ), beside=(
        # They compute for a few seconds in all, and wait for time limits, paced copies, and servers that come back.
        Step("failures", "conformance/failures/run.py", 1800),
        Step("kill", "conformance/kill/run.py", 300),
    ), ahead=(
        Step("the C library", "cargo rustc -p linerate --lib --release --quiet --crate-type cdylib", 1800),
        Step("fio's engine", "conformance/fio/build", 1800),
    )),
    "lab": Suite((
        BUILD,
        Step("arms", "conformance/lab/arms.py", 2400),
        Step("instrument", "conformance/lab/run.py", 1500),
        Step("howto", "conformance/lab/howto.py", 900),
        Step("report", "conformance/report/run.py", 1800),
    ), ("the lab, live: `make test-full` runs it (needs a machine that is left alone)",)),
    "live": Suite((
        BUILD,
        Step("the lab, live", "conformance/lab/live.py", 3600),
    )),
    "vm": Suite((
        BUILD,
        Step("Linux 6.12", "conformance/vm/run run --kernel 6.12", 1500),
        Step("Linux 6.12's NFS client", "conformance/vm/run nfs --kernel 6.12", 2400),
        Step("Linux 6.12's NFS server", "cargo build --quiet -p linerate --example contract && conformance/vm/run nfs-peer --kernel 6.12", 1500),
        Step("Linux 6.12's targets", "cargo build --quiet -p linerate --example contract && conformance/vm/run peers --kernel 6.12", 1500),
    ), beside=(
        # It waits while its links are cut, for 14 s each time, and it may lose sessions. Each guest has a network of its own.
        Step("Linux 6.12 over RDMA", "conformance/vm/run rdma --kernel 6.12", 2400),
    ), skips=("Linux 6.1, suites for file systems, file systems on a server that is killed, two initiators that contend for a disk: `make test-full` runs them (time)",)),
    "vm-long": Suite((
        BUILD,
        *(Step(f"the guests' judge, Linux {kernel}", f"conformance/vm/run selftest --kernel {kernel}", 1500) for kernel in ("6.12", "6.1")),
        *(Step(f"{command}, Linux {kernel}", f"cargo build --quiet -p vm-guest && conformance/vm/run {command} --kernel {kernel}", 3600)
          for kernel in ("6.12", "6.1") for command in ("crash", "contend")),
    )),
    "vm-verbs": Suite((
        BUILD,
        Step("Linux 6.12's adapters", "cargo build --quiet -p ibverbs --example verbs-contract && cargo build --quiet -p linerate --example contract && "
             "conformance/vm/run verbs --kernel 6.12", 2400),
    )),
    "vm-posix": Suite((
        BUILD,
        *(Step(f"suites for file systems, Linux {kernel}", f"conformance/vm/run posix --kernel {kernel}", 5400) for kernel in ("6.12", "6.1")),
    )),
    "vm-hundred": Suite((
        BUILD,
        Step("a hundred connections over RDMA", "cargo build --quiet -p linerate --example churn && conformance/vm/run hundred", 2400),
    )),
    "simulation": Suite((
        Step("5,000 seeds", "env LINERATE_SEEDS=5000 cargo test -p simulator --quiet", 5400),
        Step("5,000 seeds of NFS", "env LINERATE_SEEDS=5000 cargo test -p nfs --test simulation --quiet", 1800),
    )),
    "vm-6.1": Suite((
        BUILD,
        Step("Linux 6.1", "conformance/vm/run run --kernel 6.1", 1500),
        Step("Linux 6.1's NFS client", "conformance/vm/run nfs --kernel 6.1", 2400),
        Step("Linux 6.1's NFS server", "cargo build --quiet -p linerate --example contract && conformance/vm/run nfs-peer --kernel 6.1", 1500),
        Step("Linux 6.1 over RDMA", "conformance/vm/run rdma --kernel 6.1 --script iwarp --script iwarp_strict", 1500),
        Step("Linux 6.12 over RDMA with CRC", "conformance/vm/run rdma --kernel 6.12 --script iwarp_strict", 1500),
        Step("Linux 6.12's targets over RoCE", "cargo build --quiet -p linerate --example contract && conformance/vm/run peers --script peers_rxe", 1500),
        Step("QEMU 10's disks in shared memory", 'PATH="$(conformance/vm/run emulator):$PATH" conformance/vm/run run --kernel 6.12 --script vhost', 900),
        Step("QEMU 10's device in shared memory", 'PATH="$(conformance/vm/run emulator):$PATH" conformance/attach/shared_memory.py --test QEMU', 600),
        Step("Linux 6.1's targets", "cargo build --quiet -p linerate --example contract && conformance/vm/run peers --kernel 6.1", 1500),
    )),
}


@dataclass
class Outcome:
    """What a step came to."""

    suite: str
    step: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    words: str = ""
    told: tuple = ()
    # Seconds of processor time, of all that the command started and waited for.
    processor: float = 0.0

    def busy(self):
        """How much of all processors it used, in per cent."""
        return 100 * self.processor / (self.seconds * os.cpu_count()) if self.seconds else 0.0


def count(output, status):
    """(passed, failed, skipped) from a step's output. A status that contradicts the lines is a failure of its own."""
    rows = CARGO.findall(output) + RUNNER.findall(output)
    if not rows:
        return (1, 0, 0) if status == 0 else (0, 1, 0)
    passed, failed, skipped = (sum(int(row[at] or 0) for row in rows) for at in range(3))
    if status != 0 and failed == 0:
        failed = 1
    return passed, failed, skipped


def failures(lines):
    """What a failed step's output says of its failures, in short: the failed tests with their first details, else its last lines."""
    told, details = [], 0
    for at, line in enumerate(lines):
        if FAILED.match(line):
            told.append(line)
            details = TOLD_DETAILS
            if line.startswith("thread '"):  # the message of a panic is on the next line
                told.extend(lines[at + 1 : at + 2])
        elif line.startswith(DETAIL) and details:
            told.append(line)
            details -= 1
        else:
            details = 0
    return tuple((told or lines)[-TOLD_LINES:])


def show(text):
    """Says something on the terminal."""
    sys.stdout.write(text)
    sys.stdout.flush()


class Teller:
    """Says each line to somebody, and in a suite's log."""

    def __init__(self, log, tell):
        self.log, self.tell = log, tell

    def __call__(self, line):
        self.tell(line)
        self.log.write(line)


def run_step(suite, step, tell):
    """Runs a command in a process group of its own, so that its time limit reaches all that it started; `tell` takes its lines."""
    tell(f"\n== {suite}: {step.name}: {step.command}\n")
    started = time.monotonic()
    output = []
    with subprocess.Popen(step.command, shell=True, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", start_new_session=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}) as process:
        limit = threading.Timer(step.limit, os.killpg, (process.pid, signal.SIGKILL))
        limit.start()
        for line in process.stdout:
            tell(line)
            output.append(line)
        _, waited, usage = os.wait4(process.pid, 0)
        status = process.returncode = os.waitstatus_to_exitcode(waited)
        limit.cancel()
    seconds = time.monotonic() - started
    words = f"stopped after {step.limit} s" if seconds >= step.limit else "" if status == 0 else f"exit status {status}"
    passed, failed, skipped = count("".join(output), status)
    told = failures([line.rstrip("\n") for line in output]) if failed else ()
    return Outcome(suite, step.name, passed, failed, skipped, seconds, words, told, usage.ru_utime + usage.ru_stime)


def run_beside(name, steps):
    """Runs steps, and keeps what they print until all have ended."""
    lines = []
    return [run_step(name, step, lines.append) for step in steps], lines


def ahead_of(suites):
    """What these suites build, each once, to be built beside a suite before them."""
    builds = (step for suite in suites for step in (*(step for step in suite.steps if step is BUILD), *suite.ahead))
    # What is last at the processors may take long.
    return tuple(replace(step, name=f"ahead: {step.name}", command=f"{LAST} {step.command}", limit=3 * step.limit) for step in dict.fromkeys(builds))


def run_suite(name, tell, ahead=()):
    """Runs the steps of a suite. A step that cannot be built makes the rest of its suite fail, not vanish."""
    suite, outcomes = SUITES[name], []
    steps = list(suite.steps)
    if steps[0] is BUILD:
        built = run_step(name, steps.pop(0), tell)
        if built.failed:
            rest = [Outcome(name, other.name, 0, 1, 0, 0.0, "did not run: no build") for other in (*steps, *suite.beside)]
            return [built, *rest]
    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(run_beside, name, (*ahead, *suite.beside))
        outcomes += [run_step(name, step, tell) for step in steps]
        others, lines = waiting.result()
    for line in lines:
        tell(line)
    return outcomes + others


def run_logged(name, folder, tell, ahead=()):
    """Runs a suite with a log of its own; its outcomes and its seconds."""
    begun = time.monotonic()
    with (folder / f"{name}.log").open("w") as log:
        outcomes = run_suite(name, Teller(log, tell), ahead)
    return outcomes, time.monotonic() - begun


def run_joined(names, folder, ahead=()):
    """Runs suites at the same time: outcomes and seconds by name. The first one's output is shown as it comes, that of the others when all have ended."""
    with ThreadPoolExecutor(len(names)) as others:
        kept = {name: [] for name in names[1:]}
        running = {name: others.submit(run_logged, name, folder, lines.append) for name, lines in kept.items()}
        results = {names[0]: run_logged(names[0], folder, show, ahead)}
        results |= {name: suite.result() for name, suite in running.items()}
    for lines in kept.values():
        show("".join(lines))
    return results


def summary(took, outcomes, seconds):
    """The table, what was left out and why, and the sum; `took` has each suite's seconds."""
    print("\n== summary")
    for one in outcomes:
        print(f"{one.suite + ': ' + one.step:32}{one.passed:6} passed {one.failed:4} failed {one.skipped:4} skipped {one.seconds:6.0f} s {one.busy():4.0f} % of the processors  {one.words}".rstrip())
    for name, total in took.items():
        print(f"suite {name}: {'FAILED' if any(one.failed for one in outcomes if one.suite == name) else 'passed'} in {total:.0f} s")
        for words in SUITES[name].skips:
            print(f"skipped in {name}: {words}")
    skipped = sum(one.skipped for one in outcomes)
    print(f"skipped: {skipped} tests, each with its reason in conformance/*/expected.txt, beside its #[ignore], or in its step's output")
    print(f"all of it took {seconds / 60:.1f} minutes")
    for one in outcomes:
        if one.failed:
            print(f"\nFAILED in {one.suite}: {one.step} ({one.words or 'by its own count'})", *one.told, sep="\n    ")


def main(arguments):
    """Runs the named suites."""
    groups = [argument.split("+") for argument in arguments]
    names = [name for group in groups for name in group]
    unknown = [name for name in names if name not in SUITES]
    if unknown or not names:
        sys.exit(f"usage: suites.py SUITE[+SUITE …] …, of {', '.join(SUITES)}")
    started = time.monotonic()
    outcomes, took = [], {}
    folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "suites"
    folder.mkdir(parents=True, exist_ok=True)
    ahead = ahead_of([SUITES[name] for group in groups[1:] for name in group])
    for group in groups:
        for name, (found, seconds) in run_joined(group, folder, ahead).items():
            outcomes += found
            took[name] = seconds
        ahead = ()
    summary(took, outcomes, time.monotonic() - started)
    passed, failed = sum(one.passed for one in outcomes), sum(one.failed for one in outcomes)
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
