#!/usr/bin/env python3
"""What crates/ibverbs knows of libibverbs' and librdmacm's C interface, against their headers: sizes and offsets of structures, constants, numbers of events and of
outcomes. The figures are read from the Rust sources, where the compiler has asserted them; a C program says what the headers make of the same names.

The headers are the installed ones (libibverbs-dev, librdmacm-dev), or else those of Debian's packages, fetched once into the cache. `--headers DIR` takes others.
"""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SOURCES = ROOT / "crates/ibverbs/src/sys"
PACKAGES = ("libibverbs-dev", "librdmacm-dev")

sys.path.insert(0, str(ROOT / "conformance/vm"))
from harness.image import exclusive  # noqa: E402
from harness.packages import PackageIndex  # noqa: E402
from harness.process import HarnessError  # noqa: E402

MEMBERS = {
    ("rdma_cm_id", "src_addr"): "route.addr.src_addr",
    ("rdma_cm_id", "dst_addr"): "route.addr.dst_addr",
    ("rdma_cm_event", "conn"): "param.conn",
    ("ibv_send_wr", "remote_addr"): "wr.rdma.remote_addr",
    ("ibv_send_wr", "rkey"): "wr.rdma.rkey",
}
"""Fields that stand deeper in C's structure."""
WORDS_OF_OUTCOMES = {
    "Success": ("SUCCESS",),
    "TooLong": ("LOC_LEN_ERR",),
    "FailedHere": ("LOC_QP_OP_ERR",),
    "Flushed": ("WR_FLUSH_ERR",),
    "RemoteRefused": ("REM_INV_REQ_ERR", "REM_OP_ERR"),
    "RemoteAccess": ("REM_ACCESS_ERR",),
    "NoAnswer": ("RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "RESP_TIMEOUT_ERR"),
}
"""`enum ibv_wc_status` without its prefix."""


def account():
    """The runners' account. Its package has the name of the guests' harness, so it is loaded from its file."""
    spec = importlib.util.spec_from_file_location("account", ROOT / "conformance/harness/account.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Account("ibverbs' headers")


def structures(text):
    """Rust's structures with the names of C's, and the fields of each that are used."""
    found = re.findall(r"^/// `struct (\w+)`[^\n]*\n(?:///[^\n]*\n|#[^\n]*\n)*pub\(super\) struct (\w+) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    return {rust: (c, re.findall(r"^    pub\(super\) (\w+):", body, re.MULTILINE)) for c, rust, body in found}


def layout(text):
    """(C expression, figure) by structure, from the assertions; complains of a field that has none."""
    checks = {}
    told = re.findall(r"^    layout!\((\w+) (?:\((\d+)\) )?\{([^}]*)\}\);", text, re.MULTILINE)
    asserted = {}
    for rust, size, body in told:
        fields = {field: int(figure) for field, figure in re.findall(r"(\w+): (\d+)", body)}
        asserted[rust] = ({None: int(size)} if size else {}) | fields
    for rust, (c, fields) in structures(text).items():
        used = [field for field in fields if field != "unused"]
        missing = [field for field in used if field not in asserted.get(rust, {})]
        if missing:
            raise HarnessError(f"abi.rs asserts no offset of {rust}'s {', '.join(missing)}")
        figures = asserted.get(rust, {}).items()
        checks[f"struct {c}"] = [
            (f"sizeof(struct {c})" if field is None else f"offsetof(struct {c}, {MEMBERS.get((c, field), field)})", figure) for field, figure in figures
        ]
    return {name: lines for name, lines in checks.items() if lines}


def constants(text):
    """(C name, value) of each constant that is named after one of C's."""
    found = re.findall(r"^/// `(\w+)`.*\npub\(super\) const \w+: \w+ = (0x\w+|\d+)(?: << (\d+))?;", text, re.MULTILINE)
    return [(name, int(value, 0) << int(shift or 0)) for name, value, shift in found]


def numbers(text, head):
    """The arms of the `match` behind a line: variant and numbers."""
    body = text.split(head, 1)[1].split("\n    }\n", 1)[0]
    return [(variant, [int(number) for number in told.split("|")]) for told, variant in re.findall(r"^\s+([\d |]+) => Self::(\w+),", body, re.MULTILINE)]


def events(text):
    """(C name, number) of each event: its variant's comment has the names, in the order of the numbers."""
    told = {variant: re.findall(r"`([A-Z_]+)`", comment) for comment, variant in re.findall(r"^    /// (.*)\n    (\w+),", text, re.MULTILINE)}
    return paired(numbers(text, "fn of(number: c_int)"), told, "RDMA_CM_EVENT_")


def paired(arms, words, prefix):
    """(C name, number) of variants that have so many names as numbers."""
    pairs = []
    for variant, listed in arms:
        names = words.get(variant, ())
        if len(names) != len(listed):
            raise HarnessError(f"{variant} has the numbers {listed} and the names {names}")
        pairs += [(prefix + name, number) for name, number in zip(names, listed)]
    return pairs


def expected():
    """What is to be true, by test: (C expression, figure)."""
    abi, connection, pair = ((SOURCES / name).read_text() for name in ("abi.rs", "connection.rs", "queue_pair.rs"))
    outcomes = paired(numbers(pair, "fn of(status: c_int)"), WORDS_OF_OUTCOMES, "IBV_WC_")
    return layout(abi) | {"constants": constants(abi), "events of connection management": events(connection), "outcomes of requests": outcomes}


def headers(given):
    """The folder where the headers are."""
    if given is not None:
        return given
    if Path("/usr/include/infiniband/verbs.h").exists() and Path("/usr/include/rdma/rdma_cma.h").exists():
        return Path("/usr/include")
    cache = Path(os.environ.get("LINERATE_CACHE", ROOT / ".cache")) / "ibverbs"
    cache.mkdir(parents=True, exist_ok=True)
    with exclusive(cache):
        if not (cache / "usr").exists():
            index = PackageIndex(cache / "apt")
            index.update()
            with tempfile.TemporaryDirectory(dir=cache) as name:
                index.unpack(index.candidates(PACKAGES), Path(name))
                (Path(name) / "usr").rename(cache / "usr")
    return cache / "usr/include"


def measured(folder, expressions):
    """What the headers make of expressions."""
    lines = [f'    printf("%llu\\n", (unsigned long long)({expression}));' for expression in expressions]
    includes = ["stddef.h", "stdio.h", "infiniband/verbs.h", "rdma/rdma_cma.h"]
    program = [*(f"#include <{name}>" for name in includes), "int main(void) {", *lines, "    return 0;", "}", ""]
    with tempfile.TemporaryDirectory() as name:
        source, binary = Path(name) / "abi.c", Path(name) / "abi"
        source.write_text("\n".join(program))
        built = subprocess.run(["gcc-12", "-isystem", folder, "-o", binary, source], capture_output=True, text=True, check=False)
        if built.returncode:
            raise HarnessError(f"the headers in {folder} do not have what abi.rs names:\n{built.stderr}")
        said = subprocess.run([binary], capture_output=True, text=True, check=True).stdout
    return [int(line) for line in said.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--headers", type=Path, metavar="DIR", help="where infiniband/verbs.h and rdma/rdma_cma.h are")
    options = parser.parse_args()
    result = account()
    try:
        wanted = expected()
        found = iter(measured(headers(options.headers), [expression for lines in wanted.values() for expression, _ in lines]))
    except HarnessError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for name, lines in wanted.items():
        with result.test(name):
            wrong = [f"{expression} is {is_now}, and here {figure}" for (expression, figure), is_now in zip(lines, found) if is_now != figure]
            if wrong:
                raise RuntimeError("\n".join(["other figures", *wrong]))
    return result.close()


if __name__ == "__main__":
    sys.exit(main())
