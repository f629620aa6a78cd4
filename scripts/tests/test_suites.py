"""How suites run: what is told, what runs beside what, and what a failure makes of the rest."""
import sys
import unittest
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import suites  # noqa: E402
from suites import Step, Suite  # noqa: E402


def run(suite):
    """Runs a suite by itself; its outcomes and its log."""
    log = []
    with mock.patch.dict(suites.SUITES, {"one": suite}), mock.patch.object(sys, "stdout", StringIO()):
        return suites.run_suite("one", log.append), "".join(log)


class Suites(unittest.TestCase):
    def test_steps_that_wait_run_beside_the_others_and_are_told_whole(self):
        # Each waits for the other: one after another, neither ends before its limit.
        with TemporaryDirectory() as folder:
            one, other = (f"touch {folder}/{a}; until test -e {folder}/{b}; do sleep 0.01; done; echo 'one line'; echo '2 passed, 0 failed'" for a, b in ("ab", "ba"))
            outcomes, log = run(Suite((Step("main", one, 20),), beside=(Step("waiting", other, 20),)))
        self.assertEqual([(each.step, each.passed, each.failed, each.words) for each in outcomes], [("main", 2, 0, ""), ("waiting", 2, 0, "")])
        self.assertEqual(log.splitlines().count("one line"), 2)
        self.assertLess(log.index("== one: main"), log.index("== one: waiting"))

    def test_a_failure_beside_the_others_is_a_failure(self):
        outcomes, _ = run(Suite((Step("main", "true", 20),), beside=(Step("waiting", "echo oh; exit 3", 20),)))
        self.assertEqual([(each.failed, each.words) for each in outcomes], [(0, ""), (1, "exit status 3")])
        self.assertEqual(outcomes[1].told, ("oh",))

    def test_without_a_build_nothing_runs_and_all_has_failed(self):
        with mock.patch.object(suites, "BUILD", Step("build", "false", 20)):
            outcomes, _ = run(Suite((suites.BUILD, Step("main", "true", 20)), beside=(Step("waiting", "true", 20),)))
        self.assertEqual([(each.step, each.failed) for each in outcomes], [("build", 1), ("main", 1), ("waiting", 1)])

    def test_a_step_that_takes_too_long_is_stopped(self):
        outcomes, _ = run(Suite((Step("main", "sleep 30", 1),)))
        self.assertEqual((outcomes[0].failed, outcomes[0].words), (1, "stopped after 1 s"))

    def test_joined_suites_run_at_the_same_time_and_are_told_whole(self):
        # Each waits for the other, as above.
        with TemporaryDirectory() as folder, mock.patch.object(sys, "stdout", StringIO()) as shown:
            one, other = (f"touch {folder}/{a}; until test -e {folder}/{b}; do sleep 0.01; done; echo 'from {a}'" for a, b in ("ab", "ba"))
            with mock.patch.dict(suites.SUITES, {"one": Suite((Step("main", one, 20),)), "other": Suite((Step("main", other, 20),))}):
                results = suites.run_joined(["one", "other"], Path(folder))
            logs = [(Path(folder) / f"{name}.log").read_text() for name in ("one", "other")]
        self.assertEqual({name: outcomes[0].passed for name, (outcomes, _) in results.items()}, {"one": 1, "other": 1})
        self.assertEqual(["from a" in log for log in logs], [True, False])
        self.assertLess(shown.getvalue().index("from a"), shown.getvalue().index("== other: main"))

    def test_what_later_suites_build_is_built_once_beside_the_first_and_last_at_the_processors(self):
        library, more = Step("library", "true", 20), Suite((suites.BUILD, Step("main", "true", 20)))
        ahead = suites.ahead_of([more, Suite((suites.BUILD,), ahead=(library,)), Suite((Step("alone", "true", 20),))])
        self.assertEqual([(step.name, step.command) for step in ahead], [("ahead: build", f"nice -n 19 {suites.BUILD.command}"), ("ahead: library", "nice -n 19 true")])
        with mock.patch.dict(suites.SUITES, {"one": Suite((Step("main", "true", 20),))}), mock.patch.object(sys, "stdout", StringIO()):
            outcomes = suites.run_suite("one", [].append, (Step("ahead: build", "nice -n 19 nice", 20),))
        self.assertEqual([(each.step, each.failed) for each in outcomes], [("main", 0), ("ahead: build", 0)])

    def test_a_step_s_processor_time_is_that_of_all_that_it_ran(self):
        (busy, idle), _ = run(Suite((Step("busy", "timeout 0.5 sh -c 'while :; do :; done'; true", 20), Step("idle", "sleep 0.5", 20))))
        self.assertGreater(busy.processor, 5 * idle.processor)
        self.assertLess(idle.busy(), busy.busy())


if __name__ == "__main__":
    unittest.main()
