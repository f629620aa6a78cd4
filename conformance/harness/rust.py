"""Tests in Rust that a runner starts: what they said when they failed, the panic first."""
import re

# What surrounds a panic's message in the output of Rust's test harness.
PANIC = re.compile(r"^thread '.*' .*panicked at .*\n((?:.*\n)*?)(?=note: |stack backtrace:|test |\Z)", re.MULTILINE)
# An error's own backtrace, which can be longer than all the rest.
BACKTRACE = re.compile(r"^Stack backtrace:\n(?: +.*\n)*", re.MULTILINE)
# Characters of the output that are worth keeping below the panics.
REST = 3000


def rust_failure(output):
    """The messages of the panics in a test's output, then the end of the output itself."""
    output = BACKTRACE.sub("", output)
    lines = "".join(match[0] for match in PANIC.finditer(output)).splitlines()
    return "".join(f"{line}\n" for line in lines if line) + output[-REST:]
