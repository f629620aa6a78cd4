#!/usr/bin/env python3
"""`docs/benchmarks.md`: one page of the current figures of every machine, made from `docs/benchmarks/history.csv`.

`benchpage.py record PATH…` appends finished runs of the lab (a run's folder, or a folder of runs) and results files of `scale.py`, `stalls.py` and
`pauses.py`, and writes the page; a run that the history has already is passed over. `benchpage.py write` writes the page alone, `benchpage.py check` fails
if the page is not what the history yields, `benchpage.py details` prints what the page leaves out too. Each machine has a column or rows of its own. The
newest figure counts; one that was measured while others used the machine never takes the place of a quiet one, and is marked where there is no other.
"""
import argparse
import re
import sys
import zlib
from pathlib import Path
from typing import NamedTuple

import benchhistory
import benchrun

OPENING = """\
# Benchmarks

The current figures, one page. `make bench` measures and writes it; do not edit it. [history.csv](benchmarks/history.csv) has every figure with its spread, processor
time and repetitions, and `scripts/benchpage.py details` prints all that is current: more loads, depths, numbers of connections, tails, long turns.

## Method

* All arms of a point run one after another in random order, pair by pair. A ratio is the median over the pairs, with its 95 % interval in brackets: drift cancels
  within a pair ([the lab](howto/lab.md)).
* Each end has one processor. Loads are random, on a null volume, over one connection of loopback, with io_uring and cubic, unless the row says otherwise. Linerate
  and the bare loop look for work for 50 µs before they sleep, and that counts as processor time.
* NVMe is NVMe/TCP, and iSCSI is iSCSI over TCP, unless the row says otherwise: over RDMA they are NVMe/RDMA and iSER.
* The *bare loop* (`crates/reactor/examples/bareloop`) sends requests and answers of the same sizes without a protocol.
* A goal is *met* when the whole interval lies on its side, *missed* when the whole interval lies on the other side, and *undecided* in between. Without an interval the
  least and the most, in parentheses, take its place, or the median decides and the verdict says so.
* A figure is the newest of its machine. *Loaded* marks a figure of a busy machine, where there is no quiet one.

[CONTRIBUTING.md](../CONTRIBUTING.md) says how to measure; the [rules of the data path](data-path.md#what-profiles-say) say what profiles show.
"""


def natural(text):
    """Sorts `bs=4k` before `bs=16k`, and both before `bs=1m`."""
    scale = {"k": 1 << 10, "m": 1 << 20}
    parts = re.findall(r"(\d+)([km]?)|(\D)", text)
    return [(0, int(digits) * scale.get(suffix, 1), "") if digits else (1, 0, other) for digits, suffix, other in parts]


class Place(NamedTuple):
    """What a figure is of."""

    machine: str
    how: str
    load: str
    arm: str
    metric: str


class Newest:
    """The newest record of each place: of its values, and of its ratios by peer."""

    def __init__(self, records):
        self.values, self.ratios, order = {}, {}, []
        for record in records:
            place = Place(record.machine, record.how, record.load, record.arm, record.metric)
            if record.has_value():
                self.keep(self.values, place, record)
            if record.ratio:
                self.keep(self.ratios, (place, record.peer), record)
            order.append(place)
        # Each load of each scenario with its arms, as they first appear.
        self.order = list(dict.fromkeys((place.how, place.load, place.arm) for place in order))

    @staticmethod
    def keep(kept, key, record):
        """Later lines count, but a loaded one never takes a quiet one's place."""
        old = kept.get(key)
        if old is None or old.state == "loaded" or record.state == "quiet":
            if old is None or old.state != record.state or record.date >= old.date:
                kept[key] = record


def short(value, unit=""):
    """Three digits, with k and M for rates."""
    if unit == "Jain's index":
        return f"{value:.3f}"
    if unit != "1/s" or value < 1000:
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    scaled, suffix = (value / 1e6, "M") if value >= 999_500 else (value / 1e3, "k")
    return f"{scaled:.3g} {suffix}" if scaled < 999.5 else f"{scaled:.0f} {suffix}"


def ratio_text(record):
    """`0.89 [0.87–0.93]`, or with the least and the most of the pairs `0.89 (0.85 to 0.94)`."""
    text = f"{record.number('ratio'):.2f}"
    if record.low:
        return f"{text} [{record.number('low'):.2f}–{record.number('high'):.2f}]"
    return f"{text} ({record.number('ratio_least'):.2f} to {record.number('ratio_most'):.2f})" if record.ratio_least else text


def value_text(record):
    """A median, or the range where that is all there is."""
    if record.median:
        return short(record.number("median"), record.unit)
    return f"{short(record.number('least'), record.unit)} to {short(record.number('most'), record.unit)}"


def verdict(goal, value, low, high):
    """What an interval says of a goal. Where there is none the value decides, and the verdict says so."""
    least, most = goal.get("at_least", float("-inf")), goal.get("at_most", float("inf"))
    if "no_difference" in goal:
        least, most = 1 - goal["no_difference"], 1 + goal["no_difference"]
    elif "at_least" not in goal and "at_most" not in goal:
        return ""
    if low is None:
        return "**met** by the median" if least <= value <= most else "**missed** by the median"
    if least <= low and high <= most:
        return "**met**"
    # An interval that leaves out 1 shows a difference, however near to 1 it is.
    beside = not low <= 1 <= high if "no_difference" in goal else high < least or low > most
    return "**missed**" if beside else "**undecided**"


class Page:
    """The page, from what it shows (`page.toml`), the machines and the records; in detail with what the page leaves out."""

    def __init__(self, layout, machines, records, detailed=False):
        self.layout, self.machines, self.newest, self.detailed = layout, machines, Newest(records), detailed
        self.names, self.remarks = layout["names"], {}

    def text(self):
        opening = () if self.detailed else (OPENING,)
        parts = [*opening, self.machine_table(), self.targets(), *(self.table(one) for one in self.shown(self.layout["table"])), self.footnotes()]
        return "\n".join(part for part in parts if part)

    def shown(self, parts):
        """Those of a layout's parts that belong here."""
        return [part for part in parts if self.detailed or not part.get("detail")]

    def machine_table(self):
        lines = ["## Machines\n", "| machine | processors | memory | kernel | |", "|---|---|---|---|---|"]
        for one in self.machines.values():
            lines.append(f"| {one['title']} | {one['processors']} | {one['memory_gib']} GiB | Linux {one['kernel']} | {one['note']} |")
        return "\n".join(lines) + "\n"

    def targets(self):
        """The goals: a row for each load, a column for each arm on each machine."""
        shown = [(target, self.shown(target.get("figures", ()))) for target in self.shown(self.layout["target"])]
        arms = dict.fromkeys(arm for _, figures in shown for one in figures for arm in one["arms"])
        columns = [(machine, arm) for machine in self.machines for arm in arms]
        titles = " | ".join(f"{self.machines[machine]['title']}: {arm}" for machine, arm in columns)
        lines = ["## Goals\n", f"| what | goal | figure | {titles} |", "|---" * (3 + len(columns)) + "|"]
        for target, figures in shown:
            rows = self.figures(target, figures) or {"not measured yet": {}}
            for number, (label, cells) in enumerate(rows.items()):
                what, goal = (target["what"], target["goal"]) if number == 0 else ("", "")
                lines.append(f"| {what} | {goal} | {label} | {' | '.join(cells.get(column, '') for column in columns)} |")
        return "\n".join(lines) + "\n"

    def figures(self, target, figures):
        """The cells of a goal, by load and then by machine and arm."""
        rows = {}
        for wanted in (target | one for one in figures):
            for label, load in wanted["loads"].items():
                cells = {(machine, arm): self.figure(wanted, machine, load, self.arm(name)) for machine in self.machines for arm, name in wanted["arms"].items()}
                rows.setdefault(label, {}).update(cells)
        return rows

    def figure(self, wanted, machine, load, arm):
        """A figure with its verdict, and when it was measured."""
        at = Place(machine, wanted["how"], load, arm, wanted["metric"])
        record = self.newest.ratios.get((at, self.arm(wanted["peer"]))) if "peer" in wanted else self.newest.values.get(at)
        medians = self.medians(wanted, at)
        if medians and (record is None or record.state == "loaded" and all(one.state == "quiet" for one in medians)):
            return self.quotient(wanted, medians)
        if record is None:
            return "–"
        if "peer" in wanted:
            text, names = ratio_text(record), ("ratio", "low", "high") if record.low else ("ratio", "ratio_least", "ratio_most")
        else:
            text, names = self.value_in(wanted, record), ("median", "least", "most")
        value, low, high = (None if number is None else number * wanted.get("times", 1) for number in map(record.number, names))
        return self.dated(text, verdict(self.scaled(wanted, at), value, low, high), [record])

    @staticmethod
    def value_in(wanted, record):
        """A value in the figure's own unit."""
        value, unit = record.number("median") * wanted.get("times", 1), wanted.get("unit", "")
        return f"{short(value, unit or record.unit)} {unit}".strip()

    def medians(self, wanted, at):
        """The values of an arm and its peer; empty unless both have medians."""
        places = [at, at._replace(arm=self.arm(wanted["peer"]))] if "peer" in wanted else []
        found = [record for record in map(self.newest.values.get, places) if record and record.median]
        return found if len(found) == 2 else []

    def quotient(self, wanted, medians):
        """The ratio of two medians, for what was never recorded by pairs while the machine was quiet."""
        mine, theirs = (record.number("median") for record in medians)
        return self.dated(f"{mine / theirs:.2f}", verdict(wanted, mine / theirs, None, None), medians)

    def dated(self, text, judged, records):
        return ", ".join(filter(None, (text, judged, self.when(records))))

    def when(self, records):
        """The dates of records, whether the machine was loaded, and the marks of their remarks."""
        dates = ", ".join(sorted({record.date for record in records}))
        loaded = ", loaded" if any(record.state == "loaded" for record in records) else ""
        remarks = dict.fromkeys(record.remark for record in records if record.remark)
        # A mark is the remark's own, so that a new remark changes no other line of the page.
        self.remarks |= {remark: f"r{zlib.crc32(remark.encode()):08x}" for remark in remarks}
        return dates + loaded + "".join(f"[^{self.remarks[remark]}]" for remark in remarks)

    def footnotes(self):
        """The remarks, as Markdown's footnotes."""
        return "".join(f"[^{mark}]: {remark[0].upper()}{remark[1:]}.\n" for remark, mark in self.remarks.items())

    def scaled(self, wanted, at):
        """The goal, lowered as far as this machine's own rate of an arm is below what the goal was set with."""
        if "per" not in wanted:
            return wanted
        reference = self.newest.values.get(at._replace(arm=self.arm(wanted["per"]["arm"])))
        share = min(1, reference.number("median") / wanted["per"]["of"]) if reference else 1
        return wanted | {"at_least": wanted["at_least"] * share}

    def arm(self, name):
        return self.names.get(name, name)

    def table(self, layout):
        """Current figures of one scenario or script: a row for each load (and arm) on each machine."""
        pattern = re.compile(layout.get("loads", ""))
        by_arm = layout.get("rows") == "arm"
        keys = [(load, arm if by_arm else "") for how, load, arm in self.newest.order if how == layout["how"] and pattern.search(load)]
        keys = dict.fromkeys(keys) if by_arm else sorted(set(keys), key=lambda key: natural(key[0]))
        rows = [row for key in keys for machine in self.machines if (row := self.row(layout, machine, *key))]
        if not rows:
            return ""
        heads = ["arm" if by_arm else "load", "machine", *(column[0] for column in layout["columns"]), "measured"]
        head = [f"## {layout['title']}\n", f"{layout['text']}\n", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        return "\n".join([*head, *rows]) + "\n"

    def row(self, layout, machine, load, arm):
        """A row; empty where the machine has none of its figures."""
        cells, found = [], []
        for _, column_arm, *rest in layout["columns"]:
            metric = rest[0] if rest else layout["metric"]
            record = self.newest.values.get(Place(machine, layout["how"], load, arm or self.arm(column_arm), metric))
            cells.append(self.cell(record) if record else "")
            found += [record] if record else []
        if not found:
            return ""
        return f"| {arm or load} | {self.machines[machine]['title']} | {' | '.join(cells)} | {self.when(found)} |"

    @staticmethod
    def cell(record):
        """A value, and its ratio where the same record has one."""
        return f"{value_text(record)}; {ratio_text(record)}" if record.has_ratio() else value_text(record)


def read_layout(folder):
    return benchhistory.read_toml(folder / "page.toml")


def page(folder=benchhistory.FOLDER, detailed=False):
    """The text of the page, or all that is current."""
    return Page(read_layout(folder), benchhistory.read_machines(folder), benchhistory.read(folder), detailed).text()


def place(folder=benchhistory.FOLDER):
    """Where the page is: beside the folder, under its name."""
    return folder.with_suffix(".md")


def wanted_pairs(layout, how):
    """The ratios beside those of rates to the first arm that the page asks for: (metric, arm, peer)."""
    names = layout["names"]
    figures = [figures for target in layout["target"] for figures in target.get("figures", ()) if figures["how"] == how and "peer" in figures]
    return {(one["metric"], names.get(arm, arm), names.get(one["peer"], one["peer"])) for one in figures for arm in one["arms"].values()}


def runs(path):
    """The runs at a path, oldest first: a run's folder or a results file itself, or those in a folder."""
    if path.name.endswith(benchrun.RESULTS) or (path / "run.json").exists():
        return [path]
    return sorted([*path.glob(f"*{benchrun.RESULTS}"), *(run.parent for run in path.glob("*/run.json"))], key=started)


def started(path):
    content = path if path.is_file() else path / "run.json"
    return benchrun.read_json(content)["started"]


def record(paths, folder=benchhistory.FOLDER):
    """Appends what the history does not have yet; says what became of each run."""
    known = {one.run for one in benchhistory.read(folder)}
    layout = read_layout(folder)
    for path in (run for given in paths for run in runs(given)):
        name = path.name.removesuffix(benchrun.RESULTS)
        if name in known:
            continue
        if path.is_dir() and (reason := benchrun.unfit(path)):
            print(f"benchpage: {path} is passed over: {reason}")
            continue
        made = benchrun.of_script(path, folder) if path.is_file() else benchrun.of_lab(path, lambda how: wanted_pairs(layout, how), folder)
        benchhistory.append(made, folder)
        known.add(name)
        loaded = sum(one.state == "loaded" for one in made)
        print(f"benchpage: {len(made)} records of {name}" + (f", {loaded} of them from a loaded machine" if loaded else ""))
    place(folder).write_text(page(folder))


def check(folder=benchhistory.FOLDER):
    """Whether the page is what the history yields."""
    if place(folder).read_text() == page(folder):
        return True
    print(f"benchpage: {place(folder)} is not what its history yields: run scripts/benchpage.py write", file=sys.stderr)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("record", "write", "check", "details"))
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="with record: runs, results files, or folders of them")
    arguments = parser.parse_args()
    if bool(arguments.paths) != (arguments.command == "record"):
        parser.error("record needs paths, and nothing else takes any")
    try:
        if arguments.command == "check":
            return 0 if check() else 1
        if arguments.command == "details":
            print(page(detailed=True), end="")
            return 0
        record(arguments.paths)
        return 0
    except benchhistory.Malformed as error:
        print(f"benchpage: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
