#!/usr/bin/env python3
"""The lab as an instrument: whatever would make its figures worthless must be seen, and nothing may outlive it.

Every test runs `linerate lab` as a user would and judges it from outside: by the tools' own files, by the kernel's counters, by what is done to
its processes in the middle of a run. Throttled devices, links between namespaces and devices with a file system need root; without it
those tests are left out by name.
"""
import argparse
import bisect
import functools
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE.parent / "device")]
from harness import Account, Linerate, linerate_binary, temporary_folder  # noqa: E402
from lab import COMMAND_LIMIT, INVALID, ISCSI, MIB, NOT_TESTABLE, READS, SITE, Run, Throttle, demand, identity, lab, ledger, results, scenario, site, spent  # noqa: E402
from loop import Loop, obstacle, tool  # noqa: E402

# What a figure may be off from what the kernel or a throttle says.
TOLERANCE = 0.02
# How often a figure is taken before it is called wrong: a wrong instrument is wrong each time, a busy machine is not.
ATTEMPTS = 4
# Seconds between the last look at a process and its end, at most.
EDGE = 0.05
# The experiments of the five publications.
EXPERIMENTS = """
    marvell-41000.l2.iperf marvell-41000.iscsi.linux marvell-41000.iscsi.windows marvell-41000.iscsi.25v10 marvell-41000.s2d
    chelsio-t6.nullio chelsio-t6.ssd
    chelsio-t580.iometer chelsio-t580.oltp chelsio-t580.jetstress chelsio-t580.latency_contributors
    solarflare-nvme-tcp.1x solarflare-nvme-tcp.2x solarflare-nvme-tcp.4x.1nic solarflare-nvme-tcp.4x.2nic solarflare-nvme-tcp.10x
    solarflare-nvme-tcp.24x solarflare-nvme-tcp.latency.read solarflare-nvme-tcp.latency.write solarflare-nvme-tcp.usecases
    solarflare-nvme-tcp.cache-tier
    chelsio-nfs-rdma.nfs.dd
""".split()


def near(found, wanted, words):
    """Fails when a figure is off by more than the tolerance."""
    demand(abs(found - wanted) <= TOLERANCE * wanted, f"{words}: {found:.6g}, not {wanted:.6g} ({100 * (found / wanted - 1):+.2f} %)")


def disturbed_by_load(test):
    """A test whose figures are off while the machine is busy with something else: taken again, and each failure but the last told."""
    @functools.wraps(test)
    def attempts(folder):
        for attempt in range(1, ATTEMPTS + 1):
            place = folder / f"attempt-{attempt}"
            place.mkdir()
            try:
                return test(place)
            except RuntimeError as error:
                if attempt == ATTEMPTS:
                    raise
                print(f"        attempt {attempt} of {ATTEMPTS}: {str(error).splitlines()[0]}", flush=True)
    return attempts


def every_experiment(folder):
    """Every experiment is listed, and planned: it can be run here, or what is missing is named."""
    listed = {row["id"]: row for row in json.loads(lab(folder, "list", "--json"))}
    absent = [name for name in EXPERIMENTS if name not in listed]
    demand(not absent, f"not listed: {absent}")
    for name, row in listed.items():
        status = 0 if row["runnable"] else NOT_TESTABLE
        said = lab(folder, "plan", name, status=status)
        demand(status == 0 or row["missing"], f"{name}: nothing is missing, yet it cannot be run", said)
        demand(all(what in said for what in row["missing"]), f"{name}: the plan does not name what is missing: {row['missing']}", said)


def not_testable(folder):
    """A scenario for Windows cannot be run here: it says so, and what it would need."""
    said = lab(folder, "run", "marvell-41000.iscsi.windows", status=NOT_TESTABLE)
    demand("Windows Server 2019" in said and "on the initiating host" in said, "the missing system is not named", said)


def same_figures(result, raw):
    """A result holds what fio's JSON says, digit for digit."""
    job = raw["jobs"][0]
    pairs = [("errors", result["load"]["errors"], job["total_err"])]
    for name in ("read", "write"):
        mine, its = result["load"][name], job[name]
        pairs += [(f"{name} {one}", mine[one], its[other]) for one, other in
                  (("ios", "total_ios"), ("bytes", "io_bytes"), ("iops", "iops"), ("bytes_per_second", "bw_bytes"))]
        latency, distribution = mine["latency"], its["lat_ns"]
        pairs += [(f"{name} latency {one}", latency[one], distribution[other]) for one, other in
                  (("min", "min"), ("max", "max"), ("mean", "mean"), ("deviation", "stddev"))]
        pairs += [(f"{name} p{float(share):g}", latency["percentiles"].get(f"p{float(share):g}"), value)
                  for share, value in distribution["percentile"].items()]
        pairs.append((f"{name} histogram", latency["histogram"], [[int(bin_), count] for bin_, count in distribution["bins"].items()]))
    wrong = [f"{words}: {mine!r}, fio says {its!r}" for words, mine, its in pairs if mine != its]
    demand(not wrong, f"{len(wrong)} of {len(pairs)} figures differ", "\n".join(wrong))


def as_fio_says(folder):
    """Every figure of every result of a whole run is fio's own."""
    disk = folder / "disk.img"
    disk.write_bytes(b"\x5a" * (16 * MIB))
    path = scenario(folder, SITE, READS | {"rw": "randrw"})
    said = lab(folder, "run", path, "--site", site(folder, disk), "--runs", folder / "runs")
    (run,) = (folder / "runs").iterdir()
    demand("report: " in said and (run / "report.html").stat().st_size, "no report was written", said)
    found = results(run)
    demand(20 <= len(found) <= 40, f"{len(found)} results, not two arms and the control five times each, disturbed pairs twice")
    for at, result in found:
        text = (at / "fio.json").read_text()
        same_figures(result, json.loads(text[text.index("{") :]))


@disturbed_by_load
def throttled(folder):
    """A device that the kernel holds to 500 IOPS is measured at 500 IOPS, one at 20 MiB/s at 20 MiB/s."""
    wanted = (("riops", 500, "4k", "iops", 500), ("rbps", 20 * MIB, "64k", "bytes_per_second", 20 * MIB))
    started = []
    try:  # one I/O at a time: fio counts the bytes that are under way at the end of its ramp
        for limit, value, block, figure, rate in wanted:
            place = folder / limit
            place.mkdir()
            loop = Loop(place / "disk.img", 64 * MIB)
            started.append(loop)
            group = Throttle(loop.path, **{limit: value}).__enter__()
            started.append(group)
            words = ("run", scenario(place, SITE, READS | {"bs": block, "iodepth": "1"}, (1.0, 3.0)), "--site", site(place, loop.path))
            started.append((Run(place, *words, entrance=group.entrance), figure, rate))
        for run, figure, rate in (one for one in started if isinstance(one, tuple)):
            run.measured(2).stop()
            for _, result in results(run.path):
                near(result["load"]["read"][figure], rate, figure)
    finally:
        for one in reversed(started):
            (one[0] if isinstance(one, tuple) else one).__exit__(None, None, None)


class Witness(threading.Thread):
    """Reads a process' time from the kernel while it lasts, to say how much it was between two moments."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.seen = pid, []
        self.start()

    def run(self):
        """Until the process is gone."""
        while Path(f"/proc/{self.pid}").exists():
            try:
                self.seen.append((time.time(), spent(self.pid)))
            except (OSError, IndexError):  # a thread ended while it was read
                continue
            time.sleep(0.01)

    def at(self, moment):
        """Seconds that it had spent at a moment; the process may have ended right after its last look."""
        place = min(bisect.bisect([when for when, _ in self.seen], moment), len(self.seen) - 1)
        (before, had), (after, has) = self.seen[place - 1], self.seen[place]
        demand(place and before - EDGE <= moment <= after + EDGE, f"no look at {moment:.2f}", self.seen[-1])
        return had + (has - had) * (moment - before) / (after - before)


@disturbed_by_load
def processor_time(folder):
    """Host and target of an arm over iSCSI: their processor time in the window is what the kernel counted for their processes."""
    with Run(folder, "run", scenario(folder, ISCSI, window=(0.1, 3.0))) as run:
        host = Witness(run.loaded())
        target = Witness(run.targets()[-1]["pid"])
        run.measured(1).stop()
        (at, result), *_ = results(run.path)
        raw = json.loads((at / "bench.json").read_text())
        start, end = raw["started"], raw["started"] + raw["seconds"]
        for side, witness in (("host", host), ("target", target)):
            share = result["cpu"][side]
            near(share["user"] + share["system"], witness.at(end) - witness.at(start), f"processor seconds of the {side}")
        # The load's own getrusage says the same, but for what its start and its end take.
        own = raw["cpu_us_per_io"] / 1e6 * result["load"]["read"]["ios"]
        near(result["cpu"]["host"]["user"] + result["cpu"]["host"]["system"], own, "processor seconds by getrusage")


def stalled(folder, load):
    """Stops the target for 1.5 s in the middle of a window of 3 s; gives the result."""
    folder.mkdir()
    with Run(folder, "run", scenario(folder, ISCSI, load, (0.1, 3.0))) as run:
        run.loaded()
        target = run.targets()[-1]
        time.sleep(0.8)  # into the window
        os.kill(target["pid"], signal.SIGSTOP)
        time.sleep(1.5)  # the stall
        os.kill(target["pid"], signal.SIGCONT)
        run.measured(1).stop()
        (_, result), *_ = results(run.path)
    latency = result["load"]["read"]["latency"]
    demand(latency["max"] > 1.4e9, f"the stall was not in the window: the longest I/O took {latency['max'] / 1e6:.1f} ms")
    return latency["percentiles"]["p99"] / 1e9


@disturbed_by_load
def stall(folder):
    """A stall of 1.5 s is in the 99th percentile of an open loop, and hides from a closed one's."""
    open_loop = stalled(folder / "open", READS | {"rate_iops": "500"})
    demand(open_loop > 1.3, f"the open loop's p99 is {open_loop:.3f} s")
    closed = stalled(folder / "closed", READS)
    demand(closed < 0.5, f"the closed loop's p99 is {closed:.3f} s: this test shows nothing")


def failing(folder):
    """A volume on which one I/O of a hundred fails, beyond what the integrity pass touches, makes the run worthless."""
    path = scenario(folder, ISCSI, volume="fail=1%,blocks=16384-614399+ram:300M")
    said = lab(folder, "run", path, "--runs", folder / "runs", status=INVALID)
    demand("INVALID: " in said and "failed" in said, "the run is not called invalid", said)
    (run,) = (folder / "runs").iterdir()
    flags = [flag["kind"] for _, result in results(run, "points") for flag in result.get("flags", [])]
    demand("errors" in flags, f"no result is flagged: {flags}", said)


def failed_point(folder):
    """A point whose load fails is named with the reason; the others stand, and the exit code says that not all is well."""
    load = {name: value for name, value in READS.items() if name != "bs"}
    path = scenario(folder, ISCSI, load, sweep=("bs", "1000", "4k"))
    said = lab(folder, "run", path, "--runs", folder / "runs", status=INVALID)
    named = [line for line in said.splitlines() if line.startswith("INVALID: bs=1000 ")]
    demand(named and "block" in named[-1], "the point is not named with the reason", said)
    demand("bs=4k: IOPS, A against B: " in said and "INVALID: bs=4k" not in said, "the other point does not stand", said)
    (run,) = (folder / "runs").iterdir()
    demand(10 <= len(results(run, "points")) <= 20, f"{len(results(run, 'points'))} results, not two arms five times at one point")
    demand("bs=1000" in (run / "report.html").read_text(), "the report does not name the point")


def failed_control(folder):
    """A load that is killed in the control block costs the control, and not the first point; JSON says so as well."""
    with Run(folder, "run", scenario(folder, ISCSI, window=(0.1, 5.0))) as run:
        os.kill(run.loaded(), signal.SIGKILL)
        failed = run.until(lambda event: event["event"] == "invalid", "the failure was told")
        demand("(control) A" in failed["what"], "the failed measurement is not named", failed)
        run.measured(1)
        run.process.send_signal(signal.SIGTERM)
        demand(run.finish() == INVALID, "the exit code is another", run.said())
        demand(results(run.path, "points") and not results(run.path, "control"), "the first point was skipped", run.said())
        demand(failed["what"] in run.events[-1]["invalid"], "the last event does not list it", run.events[-1])


@disturbed_by_load
def neighbours(folder):
    """Three other loads on one link: each carries data in the window, is in the result, and is accounted apart from the arm."""
    path = scenario(folder, ISCSI, window=(0.2, 2.0), link="veth", sweep=("neighbour", "all"))
    with Run(folder, "run", path) as run:
        run.measured(1).stop()
        (at, result), *_ = results(run.path)
    found = {one["name"]: one for one in result["neighbours"]}
    demand(set(found) == {"stream", "iscsi", "nvme", "nfs"}, f"neighbours: {sorted(found)}")
    for name, one in found.items():
        demand(one["bytes_per_second"] > MIB and one["load"]["errors"] == 0, f"{name} carried nothing", one)
        demand((at / f"neighbour-{name}").is_dir(), f"{name} has no raw output")
    share = result["cpu"]["neighbour"]
    demand(share["user"] + share["system"] > 0, "their processor time was not counted", result["cpu"])
    own = result["load"]["read"]["bytes_per_second"]
    carried = (own + sum(one["bytes_per_second"] for one in found.values())) * result["seconds"]
    crossed = result["network"]["received"]
    demand(0.5 * carried < crossed < 2 * carried, f"the link carried {crossed / MIB:.0f} MiB, the loads {carried / MIB:.0f} MiB")


def only(folder):
    """The one run below a folder."""
    (run,) = Path(folder).iterdir()
    return run


class Checkout:
    """A checkout of its own with a `linerate` built in it, whose commits change the scenario that they measure."""

    def __init__(self, folder):
        self.folder = folder
        self.program = folder / "target" / "release" / "linerate"
        self.program.parent.mkdir(parents=True)
        shutil.copy2(linerate_binary(), self.program)
        (folder / ".gitignore").write_text("target\n")
        self.git("init", "--quiet")

    def git(self, *words):
        """Git in the checkout, by nobody in particular; gives what it said."""
        who = ("-c", "user.name=Tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false")
        command = ["git", "-C", self.folder, *who, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=COMMAND_LIMIT).stdout.strip()

    def measured(self, delay, runs):
        """Commits a scenario whose volume has this delay and runs it; gives the run's folder and the commit."""
        path = scenario(self.folder, ("local", "none"), volume=f"delay={delay}+null:64M")
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", f"Answer after {delay}")
        lab(self.folder, "run", path, "--runs", runs, program=self.program)
        return only(runs), self.git("rev-parse", "--short=12", "HEAD")


@disturbed_by_load
def regression(folder):
    """Two commits of which the second is slower: `compare` names both and tells of it, `regress` ends with 1, and with 0 the other way round."""
    checkout = Checkout(folder / "checkout")
    (before, first), (after, second) = (checkout.measured(delay, folder / delay) for delay in ("1ms", "2ms"))
    said = lab(folder, "compare", before, after)
    demand("higher by" in said or "lower by" in said, "no difference was told", said)
    demand(f"from {first}," in said and f"from {second}," in said, f"the commits {first} and {second} are not named", said)
    said = lab(folder, "regress", after, "--baseline", before, "--fail-on", "iops<-5%", status=1)
    demand("iops" in said.lower(), "the regression is not named", said)
    lab(folder, "regress", before, "--baseline", after, "--fail-on", "iops<-5%")


def corrupting(folder):
    """An arm that loses data is not measured."""
    with Linerate(folder, ["disk=null:64M", "other=null:64M"]) as server:
        path = scenario(folder, ("linerate", "site"))
        said = lab(folder, "run", path, "--site", site(folder, server.iscsi("disk"), server.iscsi("other")), "--runs", folder / "runs", status=INVALID)
    demand("integrity" in said and "arm A" in said, "the integrity pass is not named", said)
    (run,) = (folder / "runs").iterdir()
    demand(not results(run), "a corrupting arm has results")


def unlabelled(folder):
    """An arm without evidence is not run."""
    said = lab(folder, "run", scenario(folder, ISCSI, evidence=""), "--runs", folder / "runs", status=INVALID)
    demand("evidence" in said, "the missing label is not named", said)
    demand(not (folder / "runs").exists(), "a run was begun")


def changed_since(folder):
    """Results that were changed afterwards, one without its evidence and one ten times as good, are in no report, and named there."""
    with Run(folder, "run", scenario(folder, ISCSI)) as run:
        run.measured(2).stop()
        (without, result), (better, another), *_ = results(run.path)
        del result["evidence"]
        another["load"]["read"]["iops"] *= 10
        for at, changed in ((without, result), (better, another)):
            (at / "result.json").write_text(json.dumps(changed))
        lab(folder, "report", run.path)
        page = (run.path / "report.html").read_text()
        for at in (without, better):
            name = str((at / "result.json").relative_to(run.path))
            demand(f"{name} does not count: {name} was changed" in page, f"the report does not say that it leaves {name} out, and why")


@disturbed_by_load
def contended(folder):
    """Two strangers that use both processors are seen in every measurement."""
    processors = sorted(os.sched_getaffinity(0))[:2]
    strangers = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in processors]
    try:
        for stranger, processor in zip(strangers, processors):
            os.sched_setaffinity(stranger.pid, {processor})
        with Run(folder, "run", scenario(folder, ISCSI)) as run:
            run.measured(2).stop()
            for at, result in results(run.path):
                flags = [flag["kind"] for flag in result.get("flags", [])]
                demand("contended" in flags, f"{at.name} is not flagged: {flags}", result["cpu"])
    finally:
        for stranger in strangers:
            stranger.kill()
            stranger.wait()


def left_behind(things):
    """Which of a ledger's things are still there."""
    def there(thing):
        match thing["thing"]:
            case "process":
                return identity(thing["identity"]["pid"]) == thing["identity"]
            case "namespace":
                return Path("/run/netns", thing["name"]).exists()
            case "loop-device":
                return bool(tool("losetup", "--noheadings", "--associated", thing["backing"]))
            case _:
                return Path(thing["path"]).exists()
    return [thing for thing in things if there(thing)]


def killed_and_cleaned(folder, words, count, outlives):
    """`kill -9` in the middle of a measurement, after `count` of them: `lab clean` removes all that is left. Gives the run's folder."""
    with Run(folder, "run", *words) as run:
        load = run.loaded() if count == 0 else run.measured(count).load()
        load = identity(load)
        run.process.kill()
        run.process.wait()
        things = ledger(run.path)
        kinds = {thing["thing"] for thing in left_behind(things)}
        demand(kinds >= outlives, f"only {kinds} outlived the lab", things)
        said = lab(folder, "clean", folder / "runs")
        demand(not left_behind(things), "left behind", f"{left_behind(things)}\n{said}")
        demand(identity(load["pid"]) != load, "the load still runs", said)
        demand(not ledger(run.path), "the ledger still lists something", ledger(run.path))
        demand("nothing was left" in lab(folder, "clean", folder / "runs"), "a second cleaning found something")
        return run.path


def measured_once(path, finish):
    """Goes on with a run, by `finish`: what was measured before is not measured again."""
    before = {at: (at / "result.json").stat().st_mtime_ns for at, _ in results(path)}
    finish()
    changed = [at.name for at, mtime in before.items() if (at / "result.json").stat().st_mtime_ns != mtime]
    demand(not changed, f"measured again: {changed}")
    demand(len(results(path)) > len(before), "nothing more was measured")
    demand((path / "report.html").exists() and not ledger(path), "no report, or something was left behind", ledger(path))


def resumed_to_the_end(folder):
    """A run on loopback that was killed and cleaned is resumed to its end."""
    path = killed_and_cleaned(folder, [scenario(folder, ISCSI, window=(0.1, 0.7))], 12, {"process"})
    measured_once(path, lambda: lab(folder, "resume", path))
    demand(20 <= len(results(path)) <= 40, f"{len(results(path))} results, not two arms and the control five times each")


def resumed_in_namespaces(folder):
    """A run between network namespaces that was killed in a long measurement, cleaned, and goes on."""
    path = killed_and_cleaned(folder, [scenario(folder, ISCSI, window=(0.1, 4.0), link="veth")], 1, {"process", "namespace"})

    def finish():
        with Run(folder, "resume", path) as run:
            run.measured(1).stop()

    measured_once(path, finish)


def load_of_its_own(folder):
    """A load that needs no target, and so outlives the lab for a minute, is ended by `lab clean`."""
    disk = folder / "disk.img"
    disk.write_bytes(bytes(16 * MIB))
    words = [scenario(folder, SITE, window=(0.1, 60.0)), "--site", site(folder, disk)]
    killed_and_cleaned(folder, words, 0, set())


def resumed_at_once(folder):
    """Without cleaning, `lab resume` first removes what the killed run left."""
    with Run(folder, "run", scenario(folder, ISCSI)) as run:
        run.measured(1)
        run.process.kill()
        run.process.wait()
        things = left_behind(ledger(run.path))
        demand(things, "nothing outlived the lab")
        with Run(folder, "resume", run.path) as after:
            after.until(lambda event: "removed what was left" in event.get("what", ""), "it removed anything")
            after.measured(1).stop()
        demand(not left_behind(things), "something was left behind", left_behind(things))


def kept(folder):
    """A device with a file system is not overwritten unless it is named, and it has no serial number to name it by."""
    with Loop(folder / "disk.img", 32 * MIB) as loop:
        tool("mkfs.ext4", "-q", "-F", loop.path)
        before = hashlib.sha256(Path(loop.path).read_bytes()).digest()
        words = ("run", scenario(folder, SITE), "--site", site(folder, loop.path), "--runs", folder / "runs")
        said = lab(folder, *words, status=INVALID)
        demand("file system (ext4)" in said and loop.path in said, "what it holds is not named", said)
        said = lab(folder, *words, "--destroy", "another", status=INVALID)
        demand("wipefs" in said, "no way out is named", said)
        demand(hashlib.sha256(Path(loop.path).read_bytes()).digest() == before, "the device was written to")


def no_root():
    """Why nothing that needs root can be tested here, or nothing."""
    return None if os.geteuid() == 0 else "needs root, for network namespaces"


def no_root_or_iperf3():
    """Why no neighbours can be built here, or nothing."""
    return no_root() or (None if shutil.which("iperf3") else "iperf3 is not installed: apt install iperf3")


def no_throttle():
    """Why no device can be throttled here, or nothing."""
    return no_loop() or (None if Throttle.root() else "no control group of this machine can throttle a device (io.max, blkio.throttle)")


def no_loop():
    """Why no loop device can be made here, or nothing."""
    with temporary_folder() as name:
        return obstacle(Path(name))


def shares(folder):
    """A rate of 50 % is half of the median of the closed loops that the arm did first, which the run's record and its report tell."""
    path = scenario(folder, ISCSI, sweep=("rate_iops", "1%", "50%"))
    path.write_text(path.read_text() + "[calibration]\nwith = { iodepth = '16' }\nruns = 3\n")
    said = lab(folder, "plan", path)
    demand("the median of 3 closed loops with iodepth = 16" in said, "the plan does not name the calibration", said)
    lab(folder, "run", path, "--runs", folder / "runs")
    (run,) = (folder / "runs").iterdir()
    loops = [result for _, result in results(run, "calibration")]
    most = {one["arm"]: one["iops"] for one in json.loads((run / "run.json").read_text())["calibrated"]}
    for arm in "AB":
        rates = sorted(one["load"]["read"]["iops"] for one in loops if one["arm"] == arm)
        demand(len(rates) == 3 and rates[1] == most[arm], f"arm {arm}: {most[arm]} is not the median of {rates}")
    demand(all("--rate" not in one["tool"]["argv"] and "16" in one["tool"]["argv"] for one in loops), "a calibration is no closed loop of depth 16")
    measured = [result for _, result in results(run, "points")]
    demand(20 <= len(measured) <= 40, f"{len(measured)} results, not two arms at two points five times")
    for one in measured:
        share = float(one["point"][0]["value"].rstrip("%")) / 100
        wanted = share * most[one["arm"]]
        demand(abs(one["extra"]["rate_iops"] - wanted) <= 1, f"{one['extra']['rate_iops']} is not {100 * share:g} % of {most[one['arm']]}")
    demand("rates in per cent are shares" in (run / "report.html").read_text(), "the report does not tell of the calibration")


def rebuilt(folder):
    """An axis that changes what an arm is built of: each arm is torn down and built again, counted as before."""
    path = scenario(folder, ISCSI, window=(0.1, 0.2), sweep=("cores", "1", "2"))
    lab(folder, "run", path, "--runs", folder / "runs")
    (run,) = (folder / "runs").iterdir()
    found = [result for _, result in results(run, "points")]
    for point in "12":
        own = [one for one in found if one["point"][0]["value"] == point]
        # Disturbed pairs are taken again, once each at most.
        demand(10 <= len(own) <= 20 and all(one["load"]["read"]["ios"] > 0 for one in own), f"{len(own)} results with {point} cores, not ten with I/Os")
        demand(all(sum(one["cpu"]["target"].values()) > 0 for one in own), f"the target's time with {point} cores was not counted")
    demand(not ledger(run), "something was left behind", ledger(run))


def servers(folder):
    """`linerate attach`, nbdkit and `qemu-storage-daemon` on a null volume all hand I/Os on, and their time is the adapter's."""
    arms = {"A": "linerate-nbd", "B": "nbdkit-nbd", "C": "qemu-nbd"}
    text = scenario(folder, ISCSI, window=(0.1, 0.3), volume="null:1G").read_text()
    head, rest = text[: text.index("[[arm]]")], text[text.index("[topology]") :]
    parts = [f"[[arm]]\nkey = '{key}'\nname = '{name}'\ninitiator = '{name}'\ntarget = 'none'\nevidence = {{ kind = 'real' }}\n" for key, name in arms.items()]
    path = folder / "servers.toml"
    path.write_text("".join(["compares = ['initiator']\n", head, *parts, rest]))
    lab(folder, "run", path, "--runs", folder / "runs")
    (run,) = (folder / "runs").iterdir()
    found = [result for _, result in results(run, "points")]
    for key, name in arms.items():
        own = [one for one in found if one["arm"] == key]
        demand(5 <= len(own) <= 10 and all(one["load"]["read"]["ios"] > 0 and one["load"]["errors"] == 0 for one in own), f"{name} was not measured, or had errors")
        demand(all(sum(one["cpu"]["adapter"].values()) > 0 for one in own), f"{name} took no time")


def no_fio():
    """Why fio cannot be run here, or nothing."""
    return None if shutil.which("fio") else "fio is not installed: apt install fio"


def no_servers():
    """Why the peers of the software adapter cannot be run here, or nothing."""
    absent = [name for name in ("fio", "nbdkit", "qemu-storage-daemon") if not shutil.which(name)]
    return f"not installed: {', '.join(absent)}" if absent else None


def anywhere():
    """Nothing keeps the test from running."""


TESTS = (
    ("every experiment is listed and planned", every_experiment, anywhere),
    ("what is missing is named, with an exit code of its own", not_testable, anywhere),
    ("figures are fio's own, digit for digit", as_fio_says, no_fio),
    ("500 IOPS and 20 MiB/s of a throttled device, within 2 %", throttled, no_throttle),
    ("processor time of host and target, within 2 %", processor_time, anywhere),
    ("a stall of 1.5 s shows in an open loop's p99", stall, anywhere),
    ("failing I/Os invalidate the run", failing, anywhere),
    ("a rate in per cent is that share of what the arm did", shares, anywhere),
    ("an arm is built again when an axis changes what it is made of", rebuilt, anywhere),
    ("NBD servers of a null volume are measured, each as an adapter", servers, no_servers),
    ("a point whose load fails is named, and the run ends with a code of its own", failed_point, anywhere),
    ("a failure in the control costs no point", failed_control, anywhere),
    ("neighbours on one link are measured and accounted", neighbours, no_root_or_iperf3),
    ("two commits are compared, and a regression has its exit code", regression, anywhere),
    ("an arm that loses data is not measured", corrupting, anywhere),
    ("an arm without evidence is refused", unlabelled, anywhere),
    ("a result that was changed since is in no report", changed_since, anywhere),
    ("foreign load is flagged", contended, anywhere),
    ("kill -9, clean, resume: loopback, to the end", resumed_to_the_end, anywhere),
    ("kill -9, clean, resume: network namespaces", resumed_in_namespaces, no_root),
    ("kill -9, clean: a load without a target", load_of_its_own, no_fio),
    ("kill -9, resume at once", resumed_at_once, anywhere),
    ("a device with a file system is kept", kept, no_loop),
)


def main():
    """Runs the tests, or leaves those out by name that cannot be run here."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--test", default="", help="only tests whose name has this text")
    options = parser.parse_args()
    account = Account("instrument")
    for name, function, needs in (test for test in TESTS if options.test in test[0]):
        if reason := needs():
            account.record("skipped", name, reason)
            continue
        with account.test(name), temporary_folder() as folder:
            function(Path(folder))
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
