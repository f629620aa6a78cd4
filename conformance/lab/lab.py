"""The lab as its tests see it: scenario and site files, runs that are watched by their events, and what they leave.

A run is stopped as a user would stop it (SIGTERM) once it has measured what a test needs; the A/A control comes first, so that is the first
arm. What a failed test leaves is removed by `linerate lab clean`, which reads the runs' own ledgers.
"""
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

from harness import linerate_binary

MIB = 1 << 20
# Seconds for a command that measures nothing, and for a run.
COMMAND_LIMIT = 60
RUN_LIMIT = 180
# Exit codes of `linerate lab`.
DONE, INVALID, NOT_TESTABLE = 0, 2, 3
# The load that most tests put on, and the parts of an arm on this machine alone.
READS = {"rw": "randread", "bs": "4k", "iodepth": "8"}
ISCSI = ("linerate", "linerate-iscsi")
SITE = ("site", "site")


def demand(true, words, detail=""):
    """Fails with these words unless `true`."""
    if not true:
        raise RuntimeError(f"{words}\n{detail}")


def scenario(folder, parts, load=None, window=(0.1, 0.5), volume="ram:64M", link="loopback", evidence="evidence = { kind = 'real' }", sweep=()):
    """A scenario with two arms of the same parts; gives its path. `load` is the workload's options, `window` ramp and runtime, `sweep` an axis and its values."""
    arms = "".join(
        f"[[arm]]\nkey = '{key}'\nname = 'arm {key}'\ninitiator = '{parts[0]}'\ntarget = '{parts[1]}'\n{evidence}\n" for key in "AB"
    )
    axes = "[[sweep]]\naxis = '{}'\nvalues = {}\n".format(sweep[0], list(sweep[1:])) if sweep else ""
    options = ", ".join(f"{name} = '{value}'" for name, value in (load or READS).items())
    path = Path(folder) / "scenario.toml"
    path.write_text(
        "id = 'test.instrument'\ntitle = 'A test'\nquestion = 'Does the instrument tell the truth?'\nsource = { publication = 'none' }\n"
        f"{arms}[topology]\nvolume = '{volume}'\nlink = {{ kind = '{link}' }}\n"
        f"[workload]\ntool = 'fio'\noptions = {{ {options} }}\n{axes}"
        f"[design]\nmin_pairs = 5\nmax_pairs = 5\nramp = {window[0]}\nruntime = {window[1]}\n"
    )
    return path


def site(folder, endpoint, other=None):
    """A site file that binds arm A to an endpoint and arm B to another, by itself a file in the folder; gives its path. The two must not be the same."""
    if other is None:
        other = Path(folder) / "other.img"
        other.write_bytes(b"\x5a" * (16 * MIB))
    path = Path(folder) / "site.toml"
    bound = {"A": endpoint, "B": other}
    path.write_text("".join(f"[arm.{key}]\nendpoints = ['{bound[key]}']\nevidence = {{ kind = 'real' }}\n" for key in bound))
    return path


def lab(folder, *words, status=DONE, program=None, limit=RUN_LIMIT):
    """`linerate lab …` to its end within `limit` seconds, with this exit code; gives what it said on both outputs. `program` is another `linerate`."""
    run = subprocess.run([program or linerate_binary(), "lab", *words], cwd=folder, capture_output=True, text=True, timeout=limit)
    demand(run.returncode == status, f"`lab {words[0]}` ended with {run.returncode}, not {status}", run.stdout + run.stderr)
    return run.stdout + run.stderr


def results(run, block="*"):
    """Every `result.json` of a run with its folder, in the order of the measurements; `block` is `points` or `control`."""
    found = [(path.parent, json.loads(path.read_text())) for path in Path(run).glob(f"{block}/**/result.json")]
    return sorted(found, key=lambda one: one[1]["started"])


def ledger(run):
    """What a run made outside its folder and has not removed, in order. The seals of its evidence, in the same file, are passed over."""
    things = {}
    for line in (Path(run) / "ledger.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if "gone" in entry:
            things.pop(entry["gone"], None)
        elif "sealed" not in entry:
            things[entry["id"]] = entry
    return list(things.values())


def identity(pid):
    """A process as ledgers name it: its id, and its start so that it is no other. Nothing when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else {"pid": pid, "start_time": int(fields[19])}


def spent(pid):
    """Seconds of processor time of a process, all its threads, to the nanosecond."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def children(pid):
    """Processes whose parent is `pid`, with their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid:
                found[int(entry.name)] = (entry / "cmdline").read_text().split("\0")
        except OSError:
            continue
    return found


class Run:
    """`linerate lab run` or `resume`, watched by its events, as a `with` block."""

    def __init__(self, folder, *words, entrance=None):
        self.folder, self.events = Path(folder), []
        self.path = words[1] if words[0] == "resume" else None
        command = [linerate_binary(), "lab", *words, "--json-progress"]
        if words[0] == "run":
            command += ["--runs", self.folder / "runs"]
        if entrance is not None:  # a control group's: the lab and all that it starts are born inside
            command = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', entrance, *command]
        self.errors = (self.folder / "lab.stderr").open("w+")
        self.process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.watchdog = threading.Timer(RUN_LIMIT, self.process.kill)
        self.watchdog.start()

    def said(self):
        """Everything that it told, for a failure."""
        self.errors.seek(0)
        return "\n".join(map(str, self.events)) + "\n" + self.errors.read()

    def event(self):
        """The next event, or nothing at its end."""
        line = self.process.stdout.readline()
        if not line.startswith("{"):
            return None
        event = json.loads(line)
        self.events.append(event)
        if event["event"] == "begun":
            self.path = Path(event["folder"])
        return event

    def until(self, true, words):
        """Reads events until one fits."""
        while event := self.event():
            if true(event):
                return event
        raise RuntimeError(f"the run ended before {words}\n{self.said()}")

    def measured(self, count):
        """Waits until that many measurements were taken."""
        for _ in range(count):
            self.until(lambda event: event["event"] == "measured", f"{count} measurements")
        return self

    def loaded(self):
        """Waits until the first load runs, and gives its process."""
        self.until(lambda event: event["event"] == "begun", "it began")
        return self.load()

    def load(self):
        """Waits until a load runs, and gives its process."""
        deadline = time.monotonic() + COMMAND_LIMIT
        while time.monotonic() < deadline and self.process.poll() is None:
            for pid, words in children(self.process.pid).items():
                if "bench" in words or "--output-format=json+" in words:
                    return pid
            time.sleep(0.005)
        raise RuntimeError(f"no load was started\n{self.said()}")

    def targets(self):
        """The processes in its ledger."""
        return [thing["identity"] for thing in ledger(self.path) if thing["thing"] == "process"]

    def stop(self):
        """Ends it between two measurements, as a user would; it must say that it can go on."""
        self.process.send_signal(signal.SIGTERM)
        status = self.finish()
        demand(status == INVALID, f"a stopped run ended with {status}", self.said())
        return self

    def finish(self):
        """Its exit status, once it has ended."""
        while self.event():
            pass
        return self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        cut = self.process.poll() is None
        if cut:
            self.process.kill()
        self.process.wait()
        self.watchdog.cancel()
        self.process.stdout.close()
        if cut and self.path is not None:
            subprocess.run([linerate_binary(), "lab", "clean", self.path], capture_output=True, timeout=COMMAND_LIMIT)
        self.errors.close()


class Throttle:
    """A control group that holds a device to a rate, version 2 or 1, as a `with` block; `entrance` is its `cgroup.procs`."""

    ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")

    def __init__(self, device, **limits):
        number = os.stat(device).st_rdev
        self.device = f"{os.major(number)}:{os.minor(number)}"
        self.limits = limits
        name = f"linerate-throttle-{os.getpid()}-{os.minor(number)}"
        root, self.unified = self.root()
        self.folder = root / name
        self.entrance = self.folder / "cgroup.procs"

    @classmethod
    def root(cls):
        """The hierarchy that can throttle here, and whether it is version 2's; nothing where there is none."""
        for root in map(Path, cls.ROOTS):
            control = root / "cgroup.subtree_control"
            if control.is_file() and "io" in control.read_text().split():
                return root, True
        blkio = Path("/sys/fs/cgroup/blkio")
        if (blkio / "blkio.throttle.read_iops_device").is_file():
            return blkio, False
        return None

    def __enter__(self):
        self.folder.mkdir()
        for what, value in self.limits.items():  # riops and rbps, as version 2 calls them
            if self.unified:
                (self.folder / "io.max").write_text(f"{self.device} {what}={value}")
            else:
                (self.folder / f"blkio.throttle.read_{what.removeprefix('r')}_device").write_text(f"{self.device} {value}")
        return self

    def __exit__(self, *_):
        deadline = time.monotonic() + COMMAND_LIMIT
        while True:  # the kernel lets a group go a moment after its last process
            try:
                return self.folder.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
