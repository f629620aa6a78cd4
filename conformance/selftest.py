#!/usr/bin/env python3
"""Tests of the judges: each must be able to say no. Run by the suite `unit`; needs neither server nor network."""
import importlib.util
import io
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "scripts")]
import suites  # noqa: E402
from harness import Account, rust_failure  # noqa: E402


def load(path):
    """A runner as a module."""
    spec = importlib.util.spec_from_file_location(path.parent.name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LIBISCSI = load(HERE / "libiscsi" / "run.py")
REPORT = load(HERE / "report" / "run.py")
LAB = load(HERE / "lab" / "run.py")


def quietly(function, *arguments):
    """Calls without the printing."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return function(*arguments)


class Expectations(unittest.TestCase):
    """libiscsi/expected.txt as a ratchet."""

    def judged(self, result, expected):
        """What one test comes to."""
        account = Account("x")
        quietly(LIBISCSI.judge, account, "A.B", (result, ""), expected)
        return next(kind for kind, count in account.counts.items() if count)

    def test_a_result_is_judged_by_what_is_expected(self):
        """Only what is expected is no failure."""
        known = ("failed", "not-yet: some reason")
        self.assertEqual(self.judged("passed", None), "passed")
        self.assertEqual(self.judged("failed", known), "skipped")
        self.assertEqual(self.judged("failed", None), "failed")
        self.assertEqual(self.judged("skipped", None), "failed")
        self.assertEqual(self.judged("skipped", known), "failed")

    def test_a_new_pass_must_be_recorded(self):
        """The list only gets shorter."""
        self.assertEqual(self.judged("passed", ("failed", "not-yet: some reason")), "failed")

    def test_a_line_needs_a_known_kind_and_a_reason(self):
        """A bare excuse ends the run."""
        for line in ("failed A.B", "failed A.B not-yet:", "failed A.B whim: because of it", "broken A.B not-yet: some reason"):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "expected.txt"
                path.write_text(line)
                self.assertRaises(SystemExit, LIBISCSI.read_expected, path)

    def test_the_list_itself_reads(self):
        """Whatever stands in it now is well formed."""
        LIBISCSI.read_expected(HERE / "libiscsi" / "expected.txt")


class Reports(unittest.TestCase):
    """report/run.py: what is wrong with a chart is found."""

    @staticmethod
    def chart(**changes):
        """A chart as a page tells of it, nothing wrong unless changed."""
        texts = [{"words": "4k", "box": [10, 90, 30, 100], "turned": False}, {"words": "64k", "box": [60, 90, 90, 100], "turned": False}]
        return {"id": "x", "drawn": True, "paths": 3, "missing": [], "legend": ["A (real)"], "series": ["A (real)"], "watermark": "real",
                "watermarked": True, "zero": [True], "extents": [[0, 5]], "holder": [0, 0, 100, 110], "texts": texts} | changes

    def test_a_sound_chart_passes(self):
        """Or nothing would."""
        for check in (REPORT.complete, REPORT.from_zero, REPORT.legible):
            check([self.chart()])

    def test_what_is_wrong_fails(self):
        """Each fault by itself."""
        label = {"words": "y", "box": [20, 90, 40, 100], "turned": False}
        outside = label | {"box": [95, 90, 140, 100]}
        for check, changes in (
            (REPORT.complete, {"drawn": False}), (REPORT.complete, {"missing": ["A (real)"]}), (REPORT.complete, {"legend": []}),
            (REPORT.complete, {"watermarked": False}), (REPORT.from_zero, {"extents": [[2, 5]]}), (REPORT.from_zero, {"extents": [[-1, 5]]}),
            (REPORT.legible, {"texts": [*self.chart()["texts"], label]}), (REPORT.legible, {"texts": [outside]}),
        ):
            with self.assertRaises(RuntimeError, msg=str(changes)):
                check([self.chart(**changes)])
        with self.assertRaises(RuntimeError):
            REPORT.complete([])


class Sums(unittest.TestCase):
    """Accounts and the sum of suites."""

    def test_a_run_without_a_pass_fails(self):
        """Nothing run is nothing proved."""
        account = Account("x")
        self.assertEqual(quietly(account.close), 1)

    def test_an_exception_is_a_failure(self):
        """And the other tests still run."""
        account = Account("x")

        def run():
            with account.test("breaks"):
                raise ValueError("why")
            with account.test("works"):
                pass
            return account.close()

        self.assertEqual(quietly(run), 1)
        self.assertEqual(account.counts, {"passed": 1, "failed": 1, "skipped": 0})

    def test_results_are_read_from_closing_lines(self):
        """cargo's, ours, and none at all."""
        cargo = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n"
        self.assertEqual(suites.count(cargo * 2, 0), (6, 0, 2))
        self.assertEqual(suites.count("qemu: 5 passed, 1 failed, 2 skipped\n", 1), (5, 1, 2))
        self.assertEqual(suites.count("7 passed, 0 failed (81 s)\n", 0), (7, 0, 0))
        self.assertEqual(suites.count("", 0), (1, 0, 0))

    def test_a_status_is_never_hidden_by_good_lines(self):
        """A crash after the sum is a failure."""
        self.assertEqual(suites.count("qemu: 5 passed, 0 failed, 0 skipped\n", 1), (5, 1, 0))
        self.assertEqual(suites.count("", 101), (0, 1, 0))

    def test_a_panic_s_message_stands_first_and_its_backtraces_nowhere_before_it(self):
        """What a runner shows of a failed test in Rust."""
        panic = "thread 'a' (7) panicked at b.rs:1:2:\nno server\n\nCaused by:\n    it ended\n"
        traces = "\nStack backtrace:\n   0: here\n             at c.rs:3:4\nstack backtrace:\n   0: there\nnote: Some details\n"
        said = rust_failure(f"\nrunning 1 test\n\n{panic}{traces}test a ... FAILED\n")
        self.assertTrue(said.startswith(panic.replace("\n\n", "\n") + "\nrunning 1 test"), said)
        self.assertNotIn("c.rs", said)

    def test_what_failed_is_told_again(self):
        """The failed tests with what they say; of an unknown command, its last lines."""
        ours = ["passed  one: 1.0 s", "failed  two: RuntimeError: why", "    | how", "passed  three: 1.0 s", "    | no", "x: 2 passed, 1 failed"]
        self.assertEqual(suites.failures(ours), ("failed  two: RuntimeError: why", "    | how"))
        cargo = ["---- tests::two stdout ----", "thread 'tests::two' (7) panicked at a.rs:1:1:", "left is not right", "note: x", "test result: FAILED."]
        self.assertEqual(suites.failures(cargo), tuple(cargo[:3]))
        self.assertEqual(suites.failures(["first", "Segmentation fault"]), ("first", "Segmentation fault"))
        self.assertEqual(len(suites.failures(["line"] * 999)), suites.TOLD_LINES)


class Instrument(unittest.TestCase):
    """The judges of the lab's figures."""

    def test_a_figure_that_is_not_fio_s_is_seen(self):
        """One digit is enough."""
        side = {"total_ios": 3, "io_bytes": 4096, "iops": 1.5, "bw_bytes": 99,
                "lat_ns": {"min": 1, "max": 9, "mean": 4.25, "stddev": 0.5, "percentile": {"99.900000": 9}, "bins": {"9": 3}}}
        mine = {"ios": 3, "bytes": 4096, "iops": 1.5, "bytes_per_second": 99.0,
                "latency": {"min": 1.0, "max": 9.0, "mean": 4.25, "deviation": 0.5, "percentiles": {"p99.9": 9.0}, "histogram": [[9, 3]]}}
        raw, result = {"jobs": [{"total_err": 0, "read": side, "write": side}]}, {"load": {"errors": 0, "read": mine, "write": mine}}
        LAB.same_figures(result, raw)
        result["load"]["write"] = mine | {"iops": 1.5000000000000002}
        with self.assertRaisesRegex(RuntimeError, "write iops"):
            LAB.same_figures(result, raw)

    def test_two_per_cent_are_allowed_and_no_more(self):
        """On either side."""
        LAB.near(490.5, 500, "x")
        for found in (489, 511):
            with self.assertRaises(RuntimeError):
                LAB.near(found, 500, "x")


if __name__ == "__main__":
    unittest.main()
