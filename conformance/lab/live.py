#!/usr/bin/env python3
"""The lab against what is known without it, live: its figures against fio by hand, an arm against itself, a planted slowdown, a link that is too slow.

These take minutes and a machine that is left alone, so `make test-full` runs them and `make test` does not.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parent), str(HERE)]
from harness import Account, temporary_folder  # noqa: E402
from lab import INVALID, READS, demand, lab, results, scenario, site  # noqa: E402
from run import SITE, anywhere, disturbed_by_load, no_fio, no_root, only  # noqa: E402

MIB = 1 << 20
# Seconds for a whole run here.
RUN_LIMIT = 1800
# The published way of the shaper: payload of TCP over Ethernet frames of 1500 bytes, with what a token bucket gives away.
LINK = (0.93, 0.957)
# Pairs within which a slowdown by a tenth must be found, and the share of it that the figures may miss.
PAIRS = 40
# What two ways of measuring the same may differ by, beyond what either varies by itself.
AGREE = 0.05
# What the quick scenario may take, seconds.
QUICK = 180


def rates(found, arm):
    """IOPS of an arm's repetitions."""
    return [result["load"]["read"]["iops"] for _, result in found if result["arm"] == arm]


def quick(folder):
    """The quick scenario, from nothing to its report, within three minutes."""
    started = time.monotonic()
    lab(folder, "run", "quick", "--runs", folder / "runs", limit=RUN_LIMIT)
    seconds = time.monotonic() - started
    demand((only(folder / "runs") / "report.html").stat().st_size, "no report was written")
    demand(seconds <= QUICK, f"it took {seconds:.0f} s, not {QUICK}: is the machine left alone?")


@disturbed_by_load
def as_by_hand(folder):
    """A point of the lab agrees with the same fio command run by hand between two runs of the lab, so that a machine whose speed drifts treats both alike."""
    disk = folder / "disk.img"
    disk.write_bytes(b"\x5a" * (64 * MIB))
    load = READS | {"iodepth": "1", "ioengine": "psync"}
    path, where = scenario(folder, SITE, load, (0.5, 2.0)), site(folder, disk)
    own, by_hand = [], []
    for runs in (folder / "before", folder / "after"):
        lab(folder, "run", path, "--site", where, "--runs", runs, limit=RUN_LIMIT)
        found = results(only(runs), "points")
        own += rates(found, "A")
        by_hand = by_hand or [fio_by_hand(folder, at) for at, _ in found[: len(own)]]
    spread = max(abs(rate / statistics.median(rates_) - 1) for rates_ in (own, by_hand) for rate in rates_)
    ratio = statistics.median(own) / statistics.median(by_hand)
    demand(abs(ratio - 1) <= AGREE + spread, f"the lab says {statistics.median(own):.0f} IOPS, fio by hand {statistics.median(by_hand):.0f}", (own, by_hand))


def fio_by_hand(folder, at):
    """IOPS of the command of the result in a folder, run once more without the lab."""
    argv = json.loads((at / "result.json").read_text())["tool"]["argv"]
    run = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=RUN_LIMIT, check=True)
    text = run.stdout if "{" in run.stdout else (folder / "fio.json").read_text()
    return json.loads(text[text.index("{"):])["jobs"][0]["read"]["iops"]


def against_itself(folder):
    """An arm against itself: no difference is shown, and the control says what could have been."""
    said = lab(folder, "run", scenario(folder, ("local", "none"), READS, (0.2, 1.0), volume="delay=500us+null:64M"), "--runs", folder / "runs", limit=RUN_LIMIT)
    demand("no difference shown" in said, "a difference was shown", said)
    demand("the smallest difference that this bench can show" in said, "the control says nothing", said)


def planted(folder):
    """A slowdown by a tenth is found within forty pairs, with its sign and its size inside the interval."""
    path = scenario(folder, ("local", "none"), READS | {"iodepth": "1"}, (0.2, 1.0), volume="delay=1ms+null:64M")
    text = path.read_text().replace("max_pairs = 5", f"max_pairs = {PAIRS}")
    slow = text.rindex("evidence = { kind = 'real' }\n") + len("evidence = { kind = 'real' }\n")
    path.write_text(text[:slow] + "with = { volume = 'delay=1111us+null:64M' }\n" + text[slow:])
    said = lab(folder, "run", path, "--runs", folder / "runs", limit=RUN_LIMIT)
    demand("IOPS, A against B: A higher by " in said, "the slowdown was not found", said)
    pairs = max(result["repetition"] for _, result in results(only(folder / "runs"), "points"))
    demand(pairs <= PAIRS, f"{pairs} pairs")


def link_scenario(folder, rate, sizes, evidence):
    """A scenario over a shaped link."""
    path = scenario(folder, ("linerate", "linerate-iscsi"), {"rw": "read", "iodepth": "16"}, (0.3, 1.0), volume="null:1G", link="veth",
                    evidence=evidence, sweep=("bs", *sizes))
    scale = "[[scale]]\nwhat = 'link'\npublished = '10GbE'\nhere = '1 Gbit/s'\neffect = 'a test'\n"
    path.write_text(path.read_text().replace("kind = 'veth' }", f"kind = 'veth', mtu = 1500, rate = '{rate}' }}") + scale)
    return path


def shaped(folder):
    """Both arms on a link of 1 Gbit/s at every point: the payload is what such a link carries, and the run is refused."""
    evidence = "evidence = { kind = 'scaled', factor = 'a tenth' }"
    path = link_scenario(folder, "1Gbit", ("64k", "256k"), evidence)
    said = lab(folder, "run", path, "--runs", folder / "runs", status=INVALID, limit=RUN_LIMIT)
    demand("INVALID: arms A, B sat on the link at every point" in said, "the scale is not refused", said)
    shares = [result["load"]["read"]["bytes_per_second"] * 8 / 1e9 for _, result in results(only(folder / "runs"), "points")]
    middle = statistics.median(shares)
    demand(LINK[0] <= middle <= LINK[1], f"payload is {middle:.3f} of a shaped link of 1 Gbit/s, not {LINK[0]} to {LINK[1]}", shares)


TESTS = (
    ("the quick scenario takes three minutes at most", quick, anywhere),
    ("a point agrees with the same fio command by hand", as_by_hand, no_fio),
    ("an arm against itself shows no difference", against_itself, anywhere),
    ("a slowdown by a tenth is found within forty pairs", planted, anywhere),
    ("a link of 1 Gbit/s carries what it should, and arms that sit on it are refused", shaped, no_root),
)


def main():
    """Runs the tests, or leaves those out by name that cannot be run here."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--test", default="", help="only tests whose name has this text")
    options = parser.parse_args()
    account = Account("live")
    for name, function, needs in (test for test in TESTS if options.test in test[0]):
        if reason := needs():
            account.record("skipped", name, reason)
            continue
        with account.test(name), temporary_folder() as folder:
            function(Path(folder))
    return account.close()


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C")
    sys.exit(main())
