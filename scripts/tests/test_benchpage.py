"""The benchmarks' history and page: what is recorded, what is refused, what the page shows. `python3 -m unittest discover -s scripts/tests`."""
import itertools
import json
import math
import statistics
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import benchhistory  # noqa: E402
import benchpage  # noqa: E402
import benchrun  # noqa: E402
from benchhistory import COLUMNS, Malformed, Record  # noqa: E402

MACHINES = """
[[machine]]
id = "old-2"
title = "Old"
processor = "Maker Old"
processors = 2
memory_gib = 24
kernel = "6.18"
note = ""
"""
LAYOUT = """
[names]
bare = "the bare loop"

[[target]]
what = "Rate"
goal = "≥ 0.90"
at_least = 0.90

[[target.figures]]
how = "s.n"
loads = { "4K reads" = "bs=4k" }
arms = { "Ours" = "ours" }
metric = "iops"
peer = "bare"

[[table]]
title = "Rates"
text = "All."
how = "s.n"
metric = "iops"
columns = [["bare loop", "bare"], ["ours", "ours"]]
"""
GOOD = {"date": "2026-11-22", "machine": "old-2", "how": "s.n", "load": "bs=4k", "arm": "ours", "metric": "iops", "unit": "1/s", "median": "500"}
OLD = {"processor": {"model": "Maker(R) Old(TM) CPU @ 2.00GHz", "count": 2}, "memory": 25_276_502_016, "kernel": "6.18.44-x #1", "distribution": "D", "virtualised": None}
# Reads a second of five pairs, as a busy machine gave them, and what the lab said of them: 4.51 times, 1.56 to 8.13.
ONE = (238680.7871908133, 87564.79931015418, 302011.31622852205, 106239.64507241757, 146707.87508207155)
OTHER = (52881.0, 56168.0, 55231.0, 30951.0, 20462.0)


def quietly(function, *arguments):
    """What a call returns and what it prints."""
    said = StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        return function(*arguments), said.getvalue()


class Scene(unittest.TestCase):
    """A folder of history, and runs to record."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.runs = Path(holder.name) / "runs"
        self.folder = Path(holder.name) / "benchmarks"
        self.folder.mkdir()
        (self.folder / "machines.toml").write_text(MACHINES)
        (self.folder / "page.toml").write_text(LAYOUT)
        self.write()

    def write(self, *records):
        """The history, with the header and these records."""
        lines = [",".join(COLUMNS), *(",".join(record.get(name, "quiet" if name == "state" else "") for name in COLUMNS) for record in records)]
        (self.folder / "history.csv").write_text("\n".join(lines) + "\n")

    def run_folder(self, name, rates, flags=(), **changes):
        """A run of the lab: the arms' rates by repetition, the repetitions that were contended, and what is otherwise in `run.json`."""
        run = self.runs / name
        run.mkdir(parents=True)
        started = f"2026-11-23T0{len(list(self.runs.iterdir()))}:00:00Z"
        record = {"id": name, "scenario": "s.n", "started": started, "finished": "later", "commit": "abc", "environment": OLD}
        (run / "run.json").write_text(json.dumps(record | changes))
        (run / "scenario.toml").write_text('[[arm]]\nkey = "A"\nname = "the bare loop"\n[[arm]]\nkey = "B"\nname = "ours"\n')
        for key, values in rates.items():
            for repetition, rate in enumerate(values, 1):
                place = run / "points" / "000-bs-4k" / f"{key}-{repetition}"
                place.mkdir(parents=True)
                kinds = [{"kind": "contended", "detail": "x"}] if repetition in flags else []
                # The lab leaves out what is empty.
                doubts = {"flags": kinds} if kinds else {}
                (place / "result.json").write_text(json.dumps(self.result(key, repetition, rate) | doubts))
        return run

    @staticmethod
    def result(arm, repetition, rate):
        latency = {"percentiles": {"p50": 43_999.0, "p99": 1e6, "p99.9": 2e6}}
        read = {"ios": 1000, "bytes": 4_096_000, "iops": rate, "bytes_per_second": rate * 4096, "latency": latency}
        cpu = {"host": {"user": 0.001, "system": 0.001}, "target": {"user": 0.002, "system": 0.002}}
        return {"arm": arm, "repetition": repetition, "point": [{"axis": "bs", "value": "4k"}], "load": {"read": read, "errors": 0}, "cpu": cpu,
                "evidence": {"kind": "real"}}

    def record(self):
        return quietly(benchpage.record, [self.runs], self.folder)[1]

    def page(self):
        return benchpage.page(self.folder)


class History(Scene):
    """What a file may hold."""

    def refused(self, line, reason):
        with self.assertRaises(Malformed) as caught:
            benchhistory.read(self.folder)
        self.assertEqual(str(caught.exception), f"{self.folder / 'history.csv'}:{line}: {reason}")

    def test_a_good_record_is_read(self):
        """Or nothing below would mean anything."""
        self.write(GOOD, GOOD | {"peer": "bare", "ratio": "0.5", "low": "0.4", "high": "0.6"})
        self.assertEqual([record.number("ratio") for record in benchhistory.read(self.folder)], [None, 0.5])

    def test_a_malformed_record_fails_with_file_line_and_reason(self):
        """Each fault by itself, behind a record without one."""
        for changes, reason in (
            ({"median": "fast"}, "median is not a number: 'fast'"),
            ({"median": "nan"}, "median is not a number: 'nan'"),
            ({"date": "22.11.2026"}, "date is not YYYY-MM-DD: '22.11.2026'"),
            ({"machine": "other"}, "machines.toml has no machine 'other'"),
            ({"state": "calm"}, "state is 'calm', not one of quiet, loaded"),
            ({"arm": ""}, "arm is empty"),
            ({"repetitions": "few"}, "repetitions is not a whole number: 'few'"),
            ({"least": "501"}, "least 501 exceeds median 500"),
            ({"median": ""}, "there is neither a value nor a ratio"),
            ({"unit": ""}, "a value needs a unit"),
            ({"ratio": "0.5"}, "a ratio needs a peer"),
            ({"peer": "bare", "ratio": "0.5", "low": "0.4"}, "an interval needs low and high"),
            ({"peer": "bare", "ratio": "0.5", "low": "0.6", "high": "0.7"}, "low 0.6 exceeds ratio 0.5"),
        ):
            with self.subTest(reason):
                self.write(GOOD, GOOD | changes)
                self.refused(3, reason)

    def test_a_line_of_another_shape_fails(self):
        """A field too few, another header, a quote that does not end."""
        self.write(GOOD)
        path = self.folder / "history.csv"
        whole = path.read_text()
        path.write_text(whole + "2026-11-22,abc\n")
        self.refused(3, f"2 fields instead of {len(COLUMNS)}")
        path.write_text(whole.replace("date,", "day,"))
        self.refused(1, f"the columns are not {','.join(COLUMNS)}")
        path.write_text(whole + '"2026')
        self.refused(3, "unexpected end of data")

    def test_nothing_is_appended_that_would_be_refused(self):
        """The file stays as it was."""
        self.write(GOOD)
        before = (self.folder / "history.csv").read_text()
        with self.assertRaisesRegex(Malformed, "history.csv:4: arm is empty"):
            benchhistory.append([Record(**GOOD), Record(**GOOD | {"arm": ""})], self.folder)
        self.assertEqual((self.folder / "history.csv").read_text(), before)

    def test_the_history_itself_reads_and_the_page_is_what_it_yields(self):
        """Whatever stands in the project now."""
        self.assertTrue(benchpage.check())


class Statistics(unittest.TestCase):
    """The lab's interval."""

    def test_the_interval_is_the_lab_s(self):
        """Of the same pairs."""
        logs = [math.log(one / other) for one, other in zip(ONE, OTHER)]
        found = [round(math.exp(value), 2) for value in (statistics.median(logs), *benchrun.interval(logs))]
        self.assertEqual(found, [4.51, 1.56, 8.13])

    def test_fewer_pairs_have_none(self):
        """And equal ones the narrowest."""
        self.assertIsNone(benchrun.interval([1.0, 2.0, 3.0, 4.0]))
        self.assertEqual(benchrun.interval([2.0] * 7), (2.0, 2.0))

    def test_tails_are_the_lab_s(self):
        """Of 10,000 draws, as its own test has them."""
        self.assertEqual([math.ceil(10_000 * benchrun.tail(count)) for count in (5, 8, 12)], [10, 58, 108])

    def test_resampled_medians_are_those_of_all_resamples(self):
        """Counted one by one."""
        for values in ((1.0, 2.0, 4.0, 8.0, 16.0), (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)):
            counted = {}
            for drawn in itertools.product(values, repeat=len(values)):
                counted[statistics.median(drawn)] = counted.get(statistics.median(drawn), 0) + 1 / len(values) ** len(values)
            computed = {}
            for median, chance in benchrun.resampled(values):
                computed[median] = computed.get(median, 0) + chance
            for median in counted.keys() | computed.keys():
                self.assertAlmostEqual(counted.get(median, 0), computed.get(median, 0), 9, f"{median} of {len(values)}")


class Runs(Scene):
    """Recording what was measured."""

    def test_a_run_is_recorded_once_with_ratios_by_pairs(self):
        """Values, spread, interval, commit, machine."""
        self.run_folder("s.n-1", {"A": ONE, "B": tuple(rate / 2 for rate in ONE)})
        self.assertIn("8 records of s.n-1\n", self.record())
        records = {(record.arm, record.metric): record for record in benchhistory.read(self.folder)}
        ours = records["ours", "iops"]
        self.assertEqual((ours.date, ours.commit, ours.run, ours.machine, ours.state), ("2026-11-23", "abc", "s.n-1", "old-2", "quiet"))
        self.assertEqual((ours.median, ours.least, ours.most, ours.repetitions), ("73354", "43782", "151006", "5"))
        self.assertEqual((ours.peer, ours.ratio, ours.low, ours.high), ("the bare loop", "0.500", "0.500", "0.500"))
        self.assertEqual((records["ours", "cpu_per_io"].median, records["ours", "cpu_target_per_io"].median), ("2", "4"))
        self.assertEqual(records["ours", "latency_p50"].median, "44")
        self.assertEqual(self.record(), "")
        self.assertEqual(len(benchhistory.read(self.folder)), 8)

    def test_a_failed_result_counts_for_nothing(self):
        """Nor its half of the pair."""
        run = self.run_folder("s.n-1", {"A": ONE, "B": ONE})
        path = run / "points" / "000-bs-4k" / "B-1" / "result.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"flags": [{"kind": "errors", "detail": "1"}]}))
        self.record()
        ours = next(record for record in benchhistory.read(self.folder) if (record.arm, record.metric) == ("ours", "iops"))
        self.assertEqual((ours.repetitions, ours.low), ("4", ""))

    def test_a_run_that_was_cut_off_or_had_several_machines_is_passed_over(self):
        """And it is said why."""
        self.run_folder("s.n-1", {"A": ONE, "B": ONE}, finished=None)
        self.run_folder("s.n-2", {"A": ONE, "B": ONE}, hosts={"storage": OLD})
        said = self.record()
        self.assertIn("linerate lab resume", said)
        self.assertIn("s.n-2 is passed over: it ran on several machines", said)
        self.assertEqual(benchhistory.read(self.folder), [])

    def test_a_stand_in_is_named(self):
        """What was emulated is no measurement of the thing itself."""
        run = self.run_folder("s.n-1", {"A": ONE, "B": ONE})
        for path in run.glob("points/*/B-*/result.json"):
            path.write_text(json.dumps(json.loads(path.read_text()) | {"evidence": {"kind": "emulated", "by": "x"}}))
        self.record()
        self.assertEqual({(record.arm, record.remark) for record in benchhistory.read(self.folder)}, {("the bare loop", ""), ("ours", "emulated")})

    def test_a_loaded_run_takes_no_quiet_one_s_place(self):
        """It is kept, and shown where there is nothing else."""
        slow = [rate / 10 for rate in ONE]
        self.run_folder("s.n-1", {"A": slow, "B": slow}, flags=(1, 2, 3))
        self.assertIn("8 of them from a loaded machine", self.record())
        self.assertIn("| 14.7 k | 14.7 k; 1.00 [1.00–1.00] | 2026-11-23, loaded", self.page())
        self.run_folder("s.n-2", {"A": ONE, "B": ONE})
        self.record()
        self.assertIn("| 147 k | 147 k; 1.00 [1.00–1.00] | 2026-11-23 |", self.page())
        self.run_folder("s.n-3", {"A": slow, "B": slow}, flags=(1, 2, 3))
        self.record()
        self.assertIn("| 147 k | 147 k; 1.00 [1.00–1.00] | 2026-11-23 |", self.page())
        self.assertEqual(len(benchhistory.read(self.folder)), 24)

    def test_a_ratio_that_the_page_asks_for_is_taken_by_pairs(self):
        """Of another metric, or to another arm than the first."""
        layout = self.folder / "page.toml"
        layout.write_text(layout.read_text().replace('arms = { "Ours" = "ours" }', 'arms = { "Loop" = "bare" }').replace('peer = "bare"', 'peer = "ours"'))
        self.run_folder("s.n-1", {"A": ONE, "B": OTHER})
        self.record()
        ratios = {(record.arm, record.peer): (record.ratio, record.low, record.high) for record in benchhistory.read(self.folder) if record.ratio}
        self.assertEqual(ratios, {("ours", "the bare loop"): ("0.222", "0.123", "0.641"), ("the bare loop", "ours"): ("4.514", "1.559", "8.128")})
        self.assertIn("| 4K reads | 4.51 [1.56–8.13], **met**, 2026-11-23 |", self.page())

    def test_a_loaded_ratio_takes_no_quiet_quotient_s_place(self):
        """Of medians that were never recorded by pairs."""
        self.write(GOOD | {"arm": "the bare loop", "median": "1000"}, GOOD)
        self.run_folder("s.n-1", {"A": ONE, "B": ONE}, flags=(1, 2, 3))
        self.record()
        self.assertIn("| 4K reads | 0.50, **missed** by the median, 2026-11-22 |", self.page())

    def test_another_machine_has_a_column_and_rows_of_its_own(self):
        """Another kernel is another machine."""
        self.run_folder("s.n-1", {"A": ONE, "B": ONE})
        self.run_folder("s.n-2", {"A": OTHER, "B": OTHER}, environment=OLD | {"kernel": "6.19.1"})
        self.record()
        self.assertEqual(list(benchhistory.read_machines(self.folder)), ["old-2", "maker-old-2"])
        page = self.page()
        self.assertIn("| Rate | ≥ 0.90 | 4K reads | 1.00 [1.00–1.00], **met**, 2026-11-23 | 1.00 [1.00–1.00], **met**, 2026-11-23 |", page)
        self.assertIn("| bs=4k | Old | 147 k |", page)
        self.assertIn("| bs=4k | Maker Old | 52.9 k |", page)

    def test_a_script_s_results_file_is_recorded(self):
        """As scale.py and stalls.py leave it."""
        results = benchrun.Results.__new__(benchrun.Results)
        results.how, results.state, results.environment, results.records = "scripts/x.py", "quiet", OLD, []
        results.started = benchrun.datetime.datetime(2026, 11, 23, tzinfo=benchrun.datetime.timezone.utc)
        results.add("idle", "ours", "memory", unit="MiB", median=50.25)
        results.write(self.runs)
        self.assertIn("1 records of x-20261123-000000", self.record())
        self.assertEqual(self.record(), "")
        record = benchhistory.read(self.folder)[0]
        self.assertEqual((record.how, record.metric, record.median, record.unit), ("scripts/x.py", "memory", "50.25", "MiB"))


class Page(Scene):
    """What the page says."""

    def test_an_edited_page_is_found(self):
        """It is written, never edited."""
        self.write(GOOD)
        quietly(benchpage.record, [], self.folder)
        self.assertTrue(benchpage.check(self.folder))
        with benchpage.place(self.folder).open("a") as page:
            page.write("by hand\n")
        self.assertEqual(quietly(benchpage.check, self.folder), (False, f"benchpage: {benchpage.place(self.folder)} is not what its history yields: run scripts/benchpage.py write\n"))

    def test_a_verdict_follows_the_interval(self):
        """And says so where there is none."""
        for goal, numbers, said in (
            ({"at_least": 0.9}, (0.95, 0.90, 1.0), "**met**"), ({"at_least": 0.9}, (0.95, 0.89, 1.0), "**undecided**"),
            ({"at_least": 0.9}, (0.8, 0.7, 0.89), "**missed**"), ({"at_least": 0.9}, (0.9, None, None), "**met** by the median"),
            ({"at_most": 1.18}, (1.0, 0.9, 1.18), "**met**"), ({"at_most": 1.18}, (1.2, 1.19, 1.3), "**missed**"),
            ({"at_most": 1.18}, (1.2, None, None), "**missed** by the median"), ({}, (1, None, None), ""),
            ({"no_difference": 0.05}, (1.0, 0.96, 1.04), "**met**"), ({"no_difference": 0.05}, (0.9, 0.7, 1.1), "**undecided**"),
            ({"no_difference": 0.05}, (0.9, 0.85, 0.99), "**missed**"),
        ):
            self.assertEqual(benchpage.verdict(goal, *numbers), said, f"{goal} {numbers}")

    def test_the_newest_figure_is_shown_with_its_date_and_remark(self):
        """Whatever order the lines have."""
        self.write(GOOD | {"date": "2026-11-23", "median": "700", "remark": "short runs"}, GOOD)
        page = self.page()
        self.assertIn("| bs=4k | Old |  | 700 | 2026-11-23[^r9b7fc294] |", page)
        self.assertIn("[^r9b7fc294]: Short runs.\n", page)

    def test_a_goal_follows_the_machine(self):
        """It is lowered as far as the machine's own rate is below what the goal was set with, and never raised."""
        layout = self.folder / "page.toml"
        layout.write_text(layout.read_text().replace('at_least = 0.90', 'at_least = 600').replace('peer = "bare"', 'per = { arm = "bare", of = 1000 }'))
        for own, said in (("1000", "missed"), ("5000", "missed"), ("800", "met")):
            self.write(GOOD, GOOD | {"arm": "the bare loop", "median": own})
            self.assertIn(f"| 4K reads | 500, **{said}** by the median, 2026-11-22 |", self.page())

    def test_a_detail_is_not_on_the_page_and_is_printed_in_detail(self):
        """Goals and tables alike."""
        layout = self.folder / "page.toml"
        detail = LAYOUT[LAYOUT.index("[[target.figures]]"):LAYOUT.index("[[table]]")].replace("4K reads", "more reads").replace("[[target.figures]]", "[[target.figures]]\ndetail = true")
        layout.write_text(LAYOUT.replace("[[table]]", f"{detail}\n[[table]]\ndetail = true"))
        self.write(GOOD)
        self.assertIn("| 4K reads |", self.page())
        for absent in ("| more reads |", "## Rates"):
            self.assertNotIn(absent, self.page())
            self.assertIn(absent, benchpage.page(self.folder, detailed=True))

    def test_arms_have_columns_and_loads_rows(self):
        """Of all figures of a goal."""
        layout = self.folder / "page.toml"
        other = LAYOUT[LAYOUT.index("[[target.figures]]"):LAYOUT.index("[[table]]")].replace('"Ours" = "ours"', '"Loop" = "bare"').replace('peer = "bare"', "")
        layout.write_text(LAYOUT.replace("[[table]]", f"{other}\n[[table]]", 1))
        self.write(GOOD, GOOD | {"arm": "the bare loop", "median": "1000"})
        self.assertIn("| what | goal | figure | Old: Ours | Old: Loop |", self.page())
        self.assertRegex(self.page(), r"\| Rate \| ≥ 0.90 \| 4K reads \| 0.50, [^|]* \| 1 k, [^|]* \|")

    def test_loads_are_in_the_order_of_their_numbers(self):
        """4k before 16k before 1m."""
        self.write(*(GOOD | {"load": f"bs={size}"} for size in ("1m", "16k", "4k")))
        places = [self.page().index(f"| bs={size} |") for size in ("4k", "16k", "1m")]
        self.assertEqual(places, sorted(places))


if __name__ == "__main__":
    unittest.main()
