"""Records of the benchmarks' history from what was just measured: a run of the lab, or the results file of one of our own scripts.

The lab's run folder has one `result.json` for each arm, point and repetition (`schema/result.json`). Ratios are taken within a repetition, where the
arms ran one after another, and their interval is the lab's (crates/lab-model/src/statistics): the percentile bootstrap of the median, with tails for
so few values, and never narrower than Student's. The lab draws 10,000 resamples; here their distribution is computed.
"""
import datetime
import json
import math
import statistics
import subprocess
import time
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

import benchhistory
from benchhistory import Record

# Student's 97.5 % quantile by degrees of freedom, from 1; what is beyond the table takes its last value, which is a little too careful.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
           2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)
# Fewer pairs have no honest interval: the lab's MIN_PAIRS.
MIN_PAIRS = 5
# Flags that make a result worth nothing, and those that say that somebody else had the processors.
INVALID = ("errors", "corrupt", "outside-profile")
DISTURBED = ("contended", "throttled")
# Per cent of the processors that may be busy before a script of ours measures: the lab's QUIET_BUSY_PERCENT; seconds of looking.
QUIET_PERCENT, QUIET_SECONDS = 5, 2
# The ending of the file in which `Results` leaves what a script measured.
RESULTS = ".results.json"


def interval(values):
    """The 95 % interval of the median of these values; None if there are too few."""
    values = sorted(values)
    count = len(values)
    if count < MIN_PAIRS:
        return None
    medians, outside = resampled(values), tail(count)
    around, reach = statistics.fmean(values), student(count) * statistics.stdev(values) / math.sqrt(count)
    return min(beyond(medians, outside), around - reach), max(beyond(reversed(medians), outside), around + reach)


def student(count):
    return STUDENT[min(count - 1, len(STUDENT)) - 1]


def tail(count):
    """The share of resamples beyond each end that a normal sample of this size needs (Hesterberg's expanded percentile interval)."""
    return math.erfc(student(count) * math.sqrt(count / (count - 1)) / math.sqrt(2)) / 2


def resampled(values):
    """Every median that a resample of the sorted values can have, ascending, with its probability."""
    count = len(values)
    half = (count + 1) // 2

    def up_to(rank):
        """How likely the resample's value at `half` is one of the first `rank` values."""
        share = rank / count
        return sum(math.comb(count, hits) * share**hits * (1 - share) ** (count - hits) for hits in range(half, count + 1))

    exactly = [up_to(rank) - up_to(rank - 1) for rank in range(1, count + 1)]
    if count % 2:
        return list(zip(values, exactly))
    both = {(one, other): between(count, one, other) for one in range(1, count + 1) for other in range(one + 1, count + 1)}
    for rank in range(1, count + 1):
        both[rank, rank] = exactly[rank - 1] - sum(chance for (one, _), chance in both.items() if one == rank)
    return sorted(((values[one - 1] + values[other - 1]) / 2, chance) for (one, other), chance in both.items())


def between(count, lower, upper):
    """How likely the two middle values of a resample of an even count have these two ranks."""
    half = count // 2
    below = (lower / count) ** half - ((lower - 1) / count) ** half
    above = ((count - upper + 1) / count) ** half - ((count - upper) / count) ** half
    return math.comb(count, half) * below * above


def beyond(medians, tail):
    """The first median up to which there is this probability."""
    seen = 0.0
    for median, chance in medians:
        last, seen = median, seen + chance
        if seen >= tail:
            break
    return last


def ios(result):
    return sum(side["ios"] for side in sides(result))


def sides(result):
    return [result["load"][name] for name in ("read", "write") if result["load"].get(name)]


def seconds(share):
    return share["user"] + share["system"]


def per_io(result, side):
    share = result["cpu"].get(side)
    return seconds(share) * 1e6 / ios(result) if share and ios(result) else None


def latency(result, percentile):
    """In microseconds; of reads and writes together there is none."""
    here = sides(result)
    found = here[0].get("latency") if len(here) == 1 else None
    nanoseconds = found["percentiles"].get(percentile) if found else None
    return None if nanoseconds is None else nanoseconds / 1e3


def rate(result):
    return sum(side["iops"] for side in sides(result)) if ios(result) else None


def bandwidth(result):
    """MB/s of what has no I/Os, such as a stream; of I/Os their rate and size tell it."""
    return None if ios(result) else sum(side["bytes_per_second"] for side in sides(result)) / 1e6


def effectiveness(result):
    """I/Os for a second of the host's processor time."""
    spent = per_io(result, "host")
    return 1e6 / spent if spent else None


# Name, unit and how to get it from a result.
METRICS = {
    "iops": ("1/s", rate),
    "bandwidth": ("MB/s", bandwidth),
    "latency_p50": ("us", lambda result: latency(result, "p50")),
    "latency_p99": ("us", lambda result: latency(result, "p99")),
    "latency_p999": ("us", lambda result: latency(result, "p99.9")),
    "cpu_per_io": ("us", lambda result: per_io(result, "host")),
    "cpu_adapter_per_io": ("us", lambda result: per_io(result, "adapter")),
    "cpu_target_per_io": ("us", lambda result: per_io(result, "target")),
    "effectiveness_iops": ("1/s", effectiveness),
}
# Metrics that are recorded only as ratios that the page asks for: their values follow from others.
DERIVED = ("effectiveness_iops",)



@dataclass
class Group:
    """The valid results of one arm at one point."""

    load: str
    arm: str
    results: list

    def values(self, metric):
        """By repetition, of those that have it."""
        found = {result["repetition"]: METRICS[metric][1](result) for result in self.results}
        return {repetition: value for repetition, value in found.items() if value is not None}

    def disturbed(self):
        """How many results somebody else's work disturbed."""
        return sum(any(kind in DISTURBED for kind in flags(result)) for result in self.results)

    def state(self):
        return "loaded" if 2 * self.disturbed() >= len(self.results) else "quiet"


def flags(result):
    """The kinds of its flags, of which a result without doubts has none."""
    return [flag["kind"] for flag in result.get("flags", [])]


def valid(result):
    return not any(kind in INVALID for kind in flags(result))


def read_json(path):
    return json.loads(path.read_text())


def unfit(folder):
    """Why a run of the lab has no place in the history; None if it has one."""
    run = read_json(folder / "run.json")
    if not run.get("finished"):
        return f"the run was cut off; `linerate lab resume {folder}` finishes it"
    return "it ran on several machines, and a record names one" if run.get("hosts") else None


def of_lab(folder, pairs=lambda how: (), history=benchhistory.FOLDER):
    """The records of a run of the lab. `pairs` tells the ratios of a scenario beside those of rates to the first arm: (metric, arm, peer)."""
    run = read_json(folder / "run.json")
    scenario = tomllib.loads((folder / "scenario.toml").read_text())
    arms = {arm["key"]: arm["name"] for arm in scenario["arm"]}
    first = next(iter(arms.values()))
    wanted = {("iops", arm, first) for arm in arms.values() if arm != first} | set(pairs(run["scenario"]))
    base = Record(date=run["started"][:10], commit=run.get("commit") or "", run=run["id"], how=run["scenario"],
                  machine=benchhistory.machine_of(run["environment"], history))
    groups = grouped(folder, arms)
    made = []
    for (load, arm), group in groups.items():
        for metric in METRICS:
            peers = {peer: groups[load, peer] for which, of, peer in sorted(wanted) if (which, of) == (metric, arm) and (load, peer) in groups}
            made.append(measured(base, group, metric, peers.pop(first, None)))
            made += [ratio_alone(base, group, metric, peer) for peer in peers.values()]
    return [record for record in made if record]


def grouped(folder, arms):
    """The valid results by load and arm, in the order of the run's points and the scenario's arms."""
    found = {}
    for point in sorted((folder / "points").iterdir()):
        results = [read_json(path) for path in sorted(point.glob("*/result.json"))]
        for key, name in arms.items():
            own = [result for result in results if result["arm"] == key and valid(result)]
            if own:
                load = " ".join(f"{at['axis']}={at['value']}" for at in own[0]["point"]) or "all"
                found[load, name] = Group(load, name, own)
    return found


def measured(base, group, metric, peer):
    """The record of a metric's values, with the ratio to a peer; None where there is neither."""
    values = sorted(group.values(metric).values())
    if metric in DERIVED:
        return ratio_alone(base, group, metric, peer) if peer else None
    if not values:
        return None
    # Percentiles far out say something only where requests are due at their own times: a closed loop waits with what stalls.
    if metric in ("latency_p99", "latency_p999") and "rate_iops=" not in group.load:
        return None
    record = replace(base, load=group.load, arm=group.arm, metric=metric, state=group.state(), repetitions=str(len(values)), remark=remark(group))
    record.unit = METRICS[metric][0]
    record.least, record.median, record.most = (written(value) for value in (values[0], statistics.median(values), values[-1]))
    return with_ratio(record, group, peer) if peer else record


def ratio_alone(base, group, metric, peer):
    """The record of a ratio; None where no repetition has both."""
    record = replace(base, load=group.load, arm=group.arm, metric=metric, remark=remark(group))
    record.state = "loaded" if "loaded" in (group.state(), peer.state()) else "quiet"
    record = with_ratio(record, group, peer)
    return record if record.ratio else None


def with_ratio(record, group, peer):
    mine, theirs = group.values(record.metric), peer.values(record.metric)
    logs = sorted(math.log(mine[at] / theirs[at]) for at in mine.keys() & theirs.keys() if mine[at] > 0 and theirs[at] > 0)
    if not logs:
        return record
    record.peer, record.repetitions = peer.arm, str(len(logs))
    record.ratio, record.ratio_least, record.ratio_most = (f"{math.exp(log):.3f}" for log in (statistics.median(logs), logs[0], logs[-1]))
    if found := interval(logs):
        record.low, record.high = (f"{math.exp(log):.3f}" for log in found)
    return record


def remark(group):
    """What a reader has to know of the results: that they stand in for something else, or were disturbed."""
    stand_ins = sorted({result["evidence"]["kind"] for result in group.results} - {"real"})
    count = group.disturbed()
    return "; ".join([*stand_ins, *([f"{count} of {len(group.results)} repetitions contended or throttled"] if count else [])])


def written(value):
    """Four digits at least, and whole from a thousand on."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


class Results:
    """What a script of ours measures, kept in a file that `benchpage.py record` reads."""

    def __init__(self, script, program):
        self.how = f"scripts/{Path(script).name}"
        self.started = datetime.datetime.now(datetime.timezone.utc)
        self.environment = json.loads(subprocess.run([program, "lab", "env"], check=True, stdout=subprocess.PIPE).stdout)
        self.state = "quiet" if busy_percent(QUIET_SECONDS) <= QUIET_PERCENT else "loaded"
        self.records = []

    def add(self, load, arm, metric, **rest):
        """Notes a record; `rest` has its other fields, by the history's names."""
        self.records.append({"load": load, "arm": arm, "metric": metric} | {name: number_text(value) for name, value in rest.items()})

    def write(self, folder):
        """Leaves the file in a folder, under a name of its own."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{Path(self.how).stem}-{self.started:%Y%m%d-%H%M%S}"
        content = {"run": name, "how": self.how, "started": self.started.isoformat(), "state": self.state, "environment": self.environment, "records": self.records}
        (folder / f"{name}{RESULTS}").write_text(json.dumps(content, indent=1) + "\n")


def number_text(value):
    return written(value) if isinstance(value, float) else str(value)


def busy_percent(looking):
    """How busy all processors are while nothing of ours runs."""
    def ticks():
        fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return sum(fields), fields[3] + fields[4]

    (all_before, idle_before), _ = ticks(), time.sleep(looking)
    all_after, idle_after = ticks()
    return 100 * (1 - (idle_after - idle_before) / max(1, all_after - all_before))


def of_script(path, history=benchhistory.FOLDER):
    """The records of a results file."""
    content = read_json(path)
    base = Record(date=content["started"][:10], commit=content["environment"].get("commit") or "", run=content["run"], how=content["how"],
                  state=content["state"], machine=benchhistory.machine_of(content["environment"], history))
    return [replace(base, **record) for record in content["records"]]
