"""The account of a runner: one line per test, a sum at the end, an exit status."""
import sys
import time
import traceback
from contextlib import contextmanager


class Account:
    """Counts results and prints each once."""

    def __init__(self, suite):
        self.suite = suite
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}
        self.started = time.monotonic()

    def record(self, result, test, words="", detail=""):
        """One test's result: passed, failed or skipped. Details are for failures: what one needs to find the fault."""
        self.counts[result] += 1
        print(f"{result:8}{test}" + (f": {words}" if words else ""), flush=True)
        if detail:
            print("".join(f"    | {line}\n" for line in detail.strip().splitlines()), end="", flush=True)

    @contextmanager
    def test(self, name):
        """A test as a block of code: it fails if the block raises."""
        started = time.monotonic()
        try:
            yield
        except Exception as error:  # whatever went wrong, the other tests still run
            words, _, detail = str(error).partition("\n")
            place = "" if isinstance(error, RuntimeError) else traceback.format_exc(limit=-2)
            self.record("failed", name, f"{type(error).__name__}: {words}", detail + place)
        else:
            self.record("passed", name, f"{time.monotonic() - started:.1f} s")

    def close(self):
        """Prints the sum and gives the exit status. A run without a single pass has proved nothing and fails."""
        seconds = time.monotonic() - self.started
        print(f"{self.suite}: {', '.join(f'{count} {result}' for result, count in self.counts.items())}", flush=True)
        print(f"{self.suite} took {seconds:.0f} s", file=sys.stderr)
        return 1 if self.counts["failed"] or not self.counts["passed"] else 0
