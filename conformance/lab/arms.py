#!/usr/bin/env python3
"""What the lab builds for a scenario: targets, adapters, file systems, links; each used by a program of others, and taken down again.

Most tests are Rust (`crates/lab-runner/tests/arms.rs`), since what they prove is the crate's; this runner builds them, finds the `linerate` program
and runs each in a process of its own. The last is a whole run: every initiator, inside fio and in a process of its own, is measured for a moment. Needs root, for network namespaces, loop devices and mounts: without it every test is left out by name.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parent), str(HERE)]
from harness import Account, linerate_binary, rust_failure, temporary_folder  # noqa: E402
from lab import demand, lab, results  # noqa: E402

# Seconds for the build, and for one test.
BUILD_LIMIT = 1800
TEST_LIMIT = 180
# PostgreSQL's package starts a server of its own, so the other tests do not ask for it.
WANTS = {"a_database_runs_on_a_file_system_on_a_remote_volume": ("/usr/lib/postgresql", "PostgreSQL is not installed: apt install postgresql")}
# Started by another test, which kills it.
NO_TEST = "victim"


def build():
    """The test program."""
    command = ["cargo", "test", "--package", "lab-runner", "--test", "arms", "--no-run", "--message-format=json"]
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
        raise RuntimeError(f"ended with {run.returncode}\n{rust_failure(run.stderr + run.stdout)}")


def engines(folder):
    """Builds fio's engines, and puts them into a folder of their own."""
    run = subprocess.run([ROOT / "conformance/fio/build", "libiscsi"], capture_output=True, text=True, timeout=BUILD_LIMIT)
    demand(run.returncode == 0, "fio's engines cannot be built", run.stderr)
    for path in run.stdout.split():
        shutil.copy(path, folder)


def moment(folder):
    """The scenario of the software adapter at its first point on Linerate's target, for a moment each arm; its path, and the initiators by the arms' keys."""
    text = (ROOT / "scenarios/linerate/adapter.toml").read_text()
    text = text[: text.index("[[figure]]")]
    head, *arms = re.split(r"^(?=\[\[arm\]\])", text, flags=re.MULTILINE)
    arms[-1], rest = re.split(r"^(?=\[topology\])", arms[-1], flags=re.MULTILINE)
    # The others have arms and tests elsewhere.
    arms = [arm for arm in arms if '"tgt"' not in arm and re.search(r'"\w+-(fio|nbd|fuse)"', arm)]
    for name, value in {"values": '["4k-qd32"]', "min_pairs": "5", "max_pairs": "5", "ramp": "0.1", "runtime": "0.3"}.items():
        rest, changed = re.subn(rf"^{name} = .*$", f"{name} = {value}", rest, flags=re.MULTILINE)
        demand(changed == 1, f"{name} stands {changed} times in the scenario, not once")
    head, changed = re.subn(r"^compares = .*$", 'compares = ["hops", "initiator", "protocol"]', head, flags=re.MULTILINE)
    demand(changed == 1, "the scenario does not say what it compares")
    # A volume that keeps its data, so that every arm has to pass the integrity check.
    rest = rest.replace('volume = "null:1G"', 'volume = "ram:32M"')
    path = folder / "moment.toml"
    path.write_text("".join([head, *arms, rest]))
    return path, dict(re.findall(r'^key = "(.)"\nname = .*\ninitiator = "(.*)"$', "".join(arms), re.MULTILINE))


def every_initiator_is_measured(folder):
    """Every initiator of `linerate.adapter`, inside fio and in an adapter, passes the integrity check, is measured, and has its processor time on the right sides."""
    (folder / "engines").mkdir()
    path, initiators = moment(folder)
    site = folder / "site.toml"
    site.write_text("engines = '/nowhere'\n")
    said = lab(folder, "plan", path)
    demand("conformance/fio/build" in said or (linerate_binary().parent / "liblinerate-fio.so").exists(), "missing engines are not named", said)
    engines(folder / "engines")
    site.write_text(f"engines = '{folder / 'engines'}'\n")
    said = lab(folder, "run", path, "--site", site, "--runs", folder / "runs")
    demand("is left out" not in said, "an arm was left out", said)
    (run,) = (folder / "runs").iterdir()
    found = [result for _, result in results(run, "points")]
    for key, initiator in initiators.items():
        own = [result for result in found if result["arm"] == key]
        demand(own and all(result["load"]["read"]["ios"] > 0 and result["load"]["errors"] == 0 for result in own), f"arm {key} was not measured, or had errors", said)
        adapted = initiator.endswith(("-nbd", "-fuse"))
        spent = [sum(sum(result["cpu"].get(side, {}).values()) for result in own) for side in ("host", "adapter", "target")]
        demand(spent[0] > 0 and spent[2] > 0 and bool(spent[1]) == adapted, f"arm {key}: host, adapter and target spent {spent}")


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
    name = "every_initiator_is_measured"
    if options.test in name and os.geteuid() != 0:
        account.record("skipped", name, "needs root, for mounts that others see")
    elif options.test in name:
        with account.test(name), temporary_folder() as folder:
            every_initiator_is_measured(Path(folder))
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
