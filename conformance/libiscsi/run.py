#!/usr/bin/env python3
"""Runs libiscsi's conformance suite (`iscsi-test-cu`, Debian 12: 1.19) against Linerate.

The suite repeats its tests under several families; here each distinct test runs once, in a process of its own, so that one that hangs or
crashes takes no other with it. What is expected to fail or to be skipped stands in `expected.txt` with its reason. Everything else must
pass, and what stands there must still fail: a new pass is recorded by taking its line out, so that the list only ever gets shorter.

    run.py                    RAM and file volumes of a Linerate of its own
    run.py --test Read10      only tests whose name begins so
    run.py --volume ram       only one kind of volume
    run.py --driver epoll     the reactor's loop for machines without io_uring
    run.py --peer tgt         Debian's tgt instead, without expectations: proves the runner, and shows what a peer does
    run.py --list-unexpected  prints the lines that expected.txt would need, without reasons
"""
import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent))
from harness import Account, Linerate, Tgt, temporary_folder  # noqa: E402

# The size that the suite's tests of large transfers and of the 2 TiB limits of 10-byte commands can live with.
SIZE = 1 << 30
# Seconds for one test. The slowest takes about 6 on a quiet machine.
TIME_LIMIT = 60
# Distinct passes below this are a failure whatever the list says.
LEAST_PASSES = 150
REASONS = ("not-yet", "not-offered", "suite-fault")
RESULTS = ("failed", "skipped")


def distinct_tests():
    """The names `Suite.Test` of the family that has all."""
    listing = subprocess.run(["iscsi-test-cu", "--list"], check=True, capture_output=True, text=True).stdout
    return [line.removeprefix("ALL.") for line in listing.split() if re.fullmatch(r"ALL\.[^.]+\.[^.]+", line)]


def read_expected(path):
    """The list as {test: (result, kind and reason)}. A line without a known kind and a reason is an error."""
    expected = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\w+)\s+(\S+)\s+([\w-]+): (.{4,})", line)
        if not match or match[1] not in RESULTS or match[3] not in REASONS or match[2] in expected:
            sys.exit(f"{path.name}:{number}: not `result Suite.Test kind: reason`, or a second line of a test: {line}")
        expected[match[2]] = (match[1], f"{match[3]}: {match[4]}")
    return expected


def run_test(test, url):
    """Runs one test and gives (result, output). The suite counts a skipped test as passed; here it is skipped."""
    command = ["iscsi-test-cu", "--dataloss", "--allow-sanitize", "--verbose", f"--test=ALL.{test}", url, url]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT, errors="replace")
    except subprocess.TimeoutExpired as late:
        return "failed", f"no end after {TIME_LIMIT} s\n{(late.stdout or b'').decode(errors='replace')}"
    output = run.stdout + run.stderr
    totals = re.search(r"^\s+tests\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)", output, re.MULTILINE)
    if not totals or totals[2] != "1" or totals[4] != "0":
        return "failed", output
    return ("skipped" if "[SKIPPED]" in output else "passed"), output


def telling(output):
    """The lines of an output that say what went wrong."""
    lines = output.splitlines()
    marked = [line.strip() for line in lines if re.search(r"\[(FAILED|SKIPPED)\]|^\s+\d+\. |no end after", line)]
    return "\n".join(dict.fromkeys(marked or lines[-6:]))


def judge(account, name, outcome, expected):
    """Compares one result with what is expected of it."""
    result, output = outcome
    due, reason = expected or ("passed", "")
    if result == due == "passed":
        account.record("passed", name)
    elif result == due:
        account.record("skipped", name, f"{result} as expected, {reason}")
    elif result == "passed":
        account.record("failed", name, f"passes now: take its line out of expected.txt ({reason})")
    else:
        account.record("failed", name, f"{result}, but {due} was expected", telling(output))


def run_volume(account, arguments, kind):
    """Runs all tests on one kind of volume and gives {test: result}."""
    expected = {} if arguments.peer else read_expected(HERE / "expected.txt")
    tests = [test for test in distinct_tests() if test.startswith(arguments.test)]
    unknown = expected.keys() - set(distinct_tests())
    if unknown:
        sys.exit(f"expected.txt names tests that the suite does not have: {', '.join(sorted(unknown))}")
    results = {}
    with temporary_folder() as folder:
        volume = {"ram": f"disk=ram:{SIZE}", "file": f"disk=file:{folder}/disk.img?size={SIZE}"}.get(kind)
        with Tgt(folder, SIZE) if arguments.peer else Linerate(folder, [volume], arguments.driver) as server:
            for test in tests:
                outcome = run_test(test, server.iscsi("disk"))
                results[test] = outcome[0]
                # A peer is not judged: what it does is what is expected of it.
                due = (outcome[0], "as the peer does") if arguments.peer else expected.get(test)
                judge(account, f"{kind} {test}", outcome, due)
    return results


def check_passes(account, kind, results):
    """The floor under the list: so many distinct tests pass."""
    passes = sum(result == "passed" for result in results.values())
    skips = sum(result == "skipped" for result in results.values())
    words = f"{passes} of {len(results)} pass, {len(results) - passes - skips} fail, {skips} skipped; {LEAST_PASSES} demanded"
    account.record("passed" if passes >= LEAST_PASSES else "failed", f"{kind} number of passes", words)


def main():
    """Parses the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--test", default="")
    parser.add_argument("--volume", choices=("ram", "file"))
    parser.add_argument("--driver", default="auto", choices=("auto", "uring", "epoll"))
    parser.add_argument("--peer", choices=("tgt",))
    parser.add_argument("--list-unexpected", action="store_true")
    arguments = parser.parse_args()
    os.environ.pop("LIBISCSI_DEBUG", None)
    account = Account("libiscsi")
    kinds = [arguments.peer] if arguments.peer else [arguments.volume] if arguments.volume else ["ram", "file"]
    for kind in kinds:
        results = run_volume(account, arguments, kind)
        if arguments.list_unexpected:
            print("".join(f"{result} {test}\n" for test, result in results.items() if result != "passed"), end="")
        if not arguments.test and not arguments.peer:
            check_passes(account, kind, results)
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
