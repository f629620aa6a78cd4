"""The history of the benchmarks: what `docs/benchmarks/history.csv` and `machines.toml` may hold.

A record is one metric of one arm under one load, from one run on one machine: its value, its ratio to a peer, or both. Records are only
appended, so that a new run is a diff of added lines. Whoever reads the file checks it: a wrong record is an error that names the file, the line
and the reason, because a figure that is silently skipped looks like one that was never measured.
"""
import csv
import datetime
import math
import re
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
NUMBERS = ("median", "least", "most", "ratio", "low", "high", "ratio_least", "ratio_most")
# Each number and the one that it may not exceed.
ORDERED = (("least", "median"), ("median", "most"), ("least", "most"), ("low", "ratio"), ("ratio", "high"),
           ("ratio_least", "ratio"), ("ratio", "ratio_most"), ("ratio_least", "ratio_most"))
STATES = ("quiet", "loaded")
REQUIRED = ("date", "machine", "state", "how", "load", "arm", "metric")
# Facts by which a run's machine is recognised: figures of another processor or kernel are another machine's.
FACTS = ("processor", "processors", "memory_gib", "kernel")


class Malformed(Exception):
    """A file that does not hold what it should: file, line and reason."""

    def __init__(self, path, line, reason):
        super().__init__(f"{path}:{line}: {reason}")


@dataclass
class Record:
    """A line of the history. Numbers are text as written, so that a file that is read and written stays the same."""

    date: str = ""
    commit: str = ""
    run: str = ""
    machine: str = ""
    state: str = "quiet"
    how: str = ""
    load: str = ""
    arm: str = ""
    metric: str = ""
    unit: str = ""
    median: str = ""
    least: str = ""
    most: str = ""
    peer: str = ""
    ratio: str = ""
    low: str = ""
    high: str = ""
    ratio_least: str = ""
    ratio_most: str = ""
    repetitions: str = ""
    remark: str = ""

    def number(self, name):
        """A field as a number; None where it is empty."""
        text = getattr(self, name)
        return float(text) if text else None

    def has_value(self):
        return bool(self.median or self.least)

    def has_ratio(self):
        return bool(self.ratio or self.ratio_least)


COLUMNS = tuple(field.name for field in fields(Record))


def fault(record, machines):
    """What is wrong with a record, in words; None if nothing is."""
    for name in REQUIRED:
        if not getattr(record, name):
            return f"{name} is empty"
    for name in NUMBERS:
        text = getattr(record, name)
        if text and not is_number(text):
            return f"{name} is not a number: {text!r}"
    for less, more in ORDERED:
        one, other = record.number(less), record.number(more)
        if one is not None and other is not None and one > other:
            return f"{less} {one:g} exceeds {more} {other:g}"
    return fault_of_names(record, machines) or fault_of_parts(record)


def fault_of_names(record, machines):
    """The fields that only certain words or forms fit."""
    if not is_date(record.date):
        return f"date is not YYYY-MM-DD: {record.date!r}"
    if record.machine not in machines:
        return f"machines.toml has no machine {record.machine!r}"
    if record.state not in STATES:
        return f"state is {record.state!r}, not one of {', '.join(STATES)}"
    if record.repetitions and not record.repetitions.isdecimal():
        return f"repetitions is not a whole number: {record.repetitions!r}"
    return None


def fault_of_parts(record):
    """Fields that only make sense together."""
    if not (record.has_value() or record.has_ratio()):
        return "there is neither a value nor a ratio"
    if record.has_value() != bool(record.unit):
        return "a value needs a unit" if record.has_value() else "there is a unit without a value"
    if record.has_ratio() != bool(record.peer):
        return "a ratio needs a peer" if record.has_ratio() else "there is a peer without a ratio"
    if bool(record.low) != bool(record.high):
        return "an interval needs low and high"
    return None


def is_number(text):
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def is_date(text):
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def read(folder=FOLDER):
    """All records, in the order of the file."""
    path, machines = folder / "history.csv", read_machines(folder)
    with path.open(newline="") as file:
        rows = csv.reader(file, strict=True)
        try:
            return list(records(path, rows, machines))
        except csv.Error as error:
            raise Malformed(path, rows.line_num, str(error)) from error


def records(path, rows, machines):
    header = next(rows, [])
    if tuple(header) != COLUMNS:
        raise Malformed(path, 1, f"the columns are not {','.join(COLUMNS)}")
    for row in rows:
        if len(row) != len(COLUMNS):
            raise Malformed(path, rows.line_num, f"{len(row)} fields instead of {len(COLUMNS)}")
        record = Record(*row)
        if reason := fault(record, machines):
            raise Malformed(path, rows.line_num, reason)
        yield record


def append(new, folder=FOLDER):
    """Appends records. A record that the next reader would refuse is refused now, and nothing is written."""
    path, machines = folder / "history.csv", read_machines(folder)
    last = len(path.read_text().splitlines())
    for number, record in enumerate(new, last + 1):
        if reason := fault(record, machines):
            raise Malformed(path, number, reason)
    with path.open("a", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([getattr(record, name) for name in COLUMNS] for record in new)


def read_machines(folder=FOLDER):
    """The machines by identifier, in the order of the file."""
    return {entry["id"]: entry for entry in read_toml(folder / "machines.toml").get("machine", [])}


def read_toml(path):
    try:
        return tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        raise Malformed(path, line[1] if line else 1, str(error)) from error


def facts(environment):
    """What a run says of its machine, as `machines.toml` has it."""
    model = re.sub(r"\((?:R|TM)\)|\bProcessor\b|\bCPU\b|@.*", " ", environment["processor"]["model"] or "unknown processor")
    kernel = re.match(r"\d+\.\d+", environment["kernel"])
    return {"processor": " ".join(model.split()), "processors": environment["processor"]["count"],
            "memory_gib": round(environment["memory"] / 2**30), "kernel": kernel[0] if kernel else environment["kernel"]}


def machine_of(environment, folder=FOLDER):
    """The identifier of a run's machine; one that is not known yet gets an entry of its own."""
    wanted, machines = facts(environment), read_machines(folder)
    for name, entry in machines.items():
        if all(entry[fact] == wanted[fact] for fact in FACTS):
            return name
    base = re.sub(r"[^a-z0-9]+", "-", f"{wanted['processor']} {wanted['processors']}".lower()).strip("-")
    name = next(name for name in (base, *(f"{base}-{number}" for number in range(2, 1000))) if name not in machines)
    note = ", ".join(filter(None, (environment.get("distribution"), environment.get("virtualised")))).replace('"', "'")
    lines = ["", "[[machine]]", f'id = "{name}"', f'title = "{wanted["processor"]}"', f'processor = "{wanted["processor"]}"',
             f"processors = {wanted['processors']}", f"memory_gib = {wanted['memory_gib']}", f'kernel = "{wanted["kernel"]}"', f'note = "{note}"', ""]
    with (folder / "machines.toml").open("a") as file:
        file.write("\n".join(lines))
    return name
