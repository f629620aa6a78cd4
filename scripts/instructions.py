#!/usr/bin/env python3
"""Instructions per I/O of the product's own code, for twenty-two canonical I/Os, against the recorded values.

`instructions.py` counts and compares: a count more than 3 % off is a failure, an improvement included, so that the record stays true.
`instructions.py --record` writes `docs/instructions.json`. valgrind counts, so that neither the load nor the speed of the machine matters; a run
with few I/Os is taken off one with more, so that opening does not count. Each instruction belongs to the crate whose source file it came from,
inlined code too; `locked` is how many of all of them lock a line of memory, and may not change at all; `std` is the standard library and other people's crates, for whose use we answer. What belongs to neither (the C library's memory
functions, the copies of the example's own wire) is shown as `other`, and not gated: it differs from one processor to another.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "docs" / "instructions.json"
TOLERANCE = 0.03
FEW, MANY = 320, 960
# The program of each case, which is an example of a crate, and the words that it is given.
PROTOCOLS = [(protocol, rw, size) for protocol in ("iscsi", "nvme", "iser", "nvme+rdma") for rw in ("read", "write") for size in (4096, 131072)]
CASES = {f"{protocol} {rw} {size}": (("engine", "canonical"), (protocol, rw, size)) for protocol, rw, size in PROTOCOLS}
# Of NFS the file system is one in memory, whose own part, in `filesystem`, the folders that are served do not have.
CASES |= {f"nfs {rw} {size}": (("engine", "canonical"), ("nfs", rw, size)) for rw in ("read", "write") for size in (4096, 65536)}
CASES |= {f"mirror {rw} 4096": (("mirror", "three_legs"), (rw, 4096)) for rw in ("read", "write")}
# What a profile says of places: `fl=`, `fi=` and `fe=` name the file of the lines that follow, `cfl=` and `cfi=` that of a callee; a name is written out
# once, then only its number.
FILE = re.compile(r"^(fl|fi|fe|cfl|cfi)=\((\d+)\)(?: (.*))?$")
# A line of cost: where the instruction is, in which line of the source, how often it was executed. Both places are often told as a distance.
COST = re.compile(r"^(0x[0-9a-f]+|[+-]\d+|[+-]0x[0-9a-f]+|\*) \S+ (\d+)$")
# What locks memory: the prefix, and an exchange with memory, which needs none. Neither stands alone in what objdump prints.
LOCKED = re.compile(r"^ *([0-9a-f]+):\t(?:lock |xchg .*\()", re.MULTILINE)
OBJECT = re.compile(r"^(c?ob)=(\(\d+\))(?: (.*))?$")
CRATE = re.compile(r"(?:^|/)crates/(\w+)/src/")
STANDARD = re.compile(r"^/rustc/|/library/(?:core|alloc|std)/|/registry/src/")


def build(crate, example):
    """An example's path."""
    command = ["cargo", "build", "--release", "--quiet", "-p", crate, "--example", example, "--message-format=json"]
    # Line tables, and nothing else, beyond the release profile: they do not change the code.
    environment = os.environ | {"CARGO_PROFILE_RELEASE_DEBUG": "line-tables-only"}
    output = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = [message["executable"] for message in map(json.loads, output.splitlines()) if message.get("executable")]
    return found[-1]


def locks(program):
    """The addresses of instructions that lock memory."""
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {int(address, 16) for address in LOCKED.findall(listing)}


def profile(program, words, count, folder, locked):
    """Instructions by crate of one run, and the locked ones."""
    place = Path(folder) / "callgrind.out"
    command = ["valgrind", "--tool=callgrind", "--dump-instr=yes", f"--callgrind-out-file={place}", program, *map(str, words), str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"instructions: {' '.join(command)} failed:\n{done.stdout}")
    lines = place.read_text().splitlines()
    return by_crate(lines) + collections.Counter(locked=executed(lines, program, locked))


def executed(lines, program, locked):
    """How often a profile executed instructions of the program that stand at one of these addresses."""
    names, here, address, call, count = {}, None, 0, False, 0
    for line in lines:
        if found := OBJECT.match(line):
            kind, number, name = found.groups()
            names.setdefault(number, name)
            here = here if kind == "cob" else names[number]
        elif line.startswith("calls="):
            call = True
        elif found := COST.match(line):
            place, times = found.groups()
            if place != "*":
                address = int(place, 0) + (0 if place.startswith("0x") else address)
            # The line after `calls=` is the callee's cost, told where the call stands.
            if not call and here == program and address in locked:
                count += int(times)
            call = False
    return count


def by_crate(lines):
    """The self cost of each crate in a profile; `other` is what belongs to none of ours."""
    names, costs = {}, collections.Counter()
    crate, call = "other", False
    for line in lines:
        place = FILE.match(line)
        if place:
            kind, number, name = place.groups()
            if name is not None:
                names[number] = owner(name)
            if not kind.startswith("c"):
                crate = names[number]
        elif line.startswith("fn="):
            call = False
        elif line.startswith("calls="):
            call = True
        elif found := COST.match(line):
            # The line after `calls=` is the callee's cost, which is told there.
            if not call:
                costs[crate] += int(found[2])
            call = False
    return costs


def measure(programs):
    """Instructions per I/O by case and crate."""
    result, locked = {}, {example: locks(program) for example, program in programs.items()}
    with tempfile.TemporaryDirectory() as folder:
        for case, (example, words) in CASES.items():
            few, many = (profile(programs[example], words, count, folder, locked[example]) for count in (FEW, MANY))
            per_io = {name: round((many[name] - few[name]) / (MANY - FEW)) for name in sorted(many)}
            result[case] = {name: count for name, count in per_io.items() if count}
    return result


def owner(path):
    """Whose code a source file is."""
    found = CRATE.search(path)
    return found[1] if found and "/registry/" not in path else "std" if STANDARD.search(path) else "other"


def ours(counts):
    return sum(count for name, count in counts.items() if name not in ("other", "locked"))


def table(result):
    names = sorted({name for counts in result.values() for name in counts} - {"other", "locked"}) + ["other", "locked"]
    print(f"{'instructions per I/O':22}{'ours':>8}" + "".join(f"{name:>10}" for name in names))
    for case, counts in result.items():
        print(f"{case:22}{ours(counts):8}" + "".join(f"{counts.get(name, 0):10}" for name in names))


def compare(result, record):
    """A line for each case that is off."""
    wrong = []
    for case, counts in result.items():
        now, then = ours(counts), ours(record.get(case, {}))
        if then == 0 or abs(now - then) > TOLERANCE * then:
            wrong.append(f"{case}: {now} instructions per I/O, recorded are {then}")
        now, then = counts.get("locked", 0), record.get(case, {}).get("locked", 0)
        if now != then:
            wrong.append(f"{case}: {now} locked instructions per I/O, recorded are {then}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the counts instead of comparing them")
    record = parser.parse_args().record
    result = measure({example: build(*example) for example, _ in CASES.values()})
    table(result)
    if record:
        RECORD.write_text(json.dumps(result, indent=2) + "\n")
        return
    wrong = compare(result, json.loads(RECORD.read_text()))
    for line in wrong:
        print(f"FAILED  {line} (if that is meant: scripts/instructions.py --record, and say why in the commit)")
    print(f"instructions: {len(result) - len(wrong)} passed, {len(wrong)} failed")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
