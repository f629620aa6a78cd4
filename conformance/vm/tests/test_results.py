"""The judge of the judge: what must turn a run red does. Needs neither root nor a guest: `python3 -m unittest discover -s conformance/vm/tests`."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.results import KNOWN_WARNINGS, Report  # noqa: E402


def report(*lines: str, why: str = "the guest is gone") -> Report:
    """The report of a guest that was to run the script `disk`, and said these lines."""
    filled = Report(("disk",))
    for line in lines:
        filled.line(line)
    filled.finish(why)
    return filled


class ReportTest(unittest.TestCase):
    """One line, or one missing line, each."""

    def test_a_script_that_ends_with_results_passes(self) -> None:
        self.assertEqual(report("# begin disk", "ok mkfs", "# end disk 0").failed, 0)

    def test_a_failure_has_its_reason_and_the_log_since_the_result_before(self) -> None:
        failed = report("# begin disk", "old", "ok mkfs", "new", "not ok fsck exit status 4", "# end disk 0").results[1]
        self.assertEqual((failed.name, failed.reason, failed.log), ("disk/fsck", "exit status 4", ("new",)))

    def test_a_failure_without_a_reason_is_a_failure(self) -> None:
        self.assertEqual(report("# begin disk", "not ok fsck", "# end disk 0").failed, 1)

    def test_a_script_without_end_fails(self) -> None:
        self.assertIn("given up", report("# begin disk", "ok mkfs", why="given up").results[-1].reason or "")

    def test_only_a_guest_in_which_nothing_began_is_untouched(self) -> None:
        self.assertTrue(Report(("disk",)).untouched)
        begun = Report(("disk",))
        begun.line("# begin disk")
        self.assertFalse(begun.untouched)
        begun.line("# end disk 0")
        self.assertFalse(begun.untouched)

    def test_a_script_that_never_began_fails(self) -> None:
        self.assertEqual(report().failed, 1)

    def test_a_script_without_results_fails(self) -> None:
        self.assertEqual(report("# begin disk", "# end disk 0").failed, 1)

    def test_a_script_that_breaks_off_fails(self) -> None:
        self.assertEqual(report("# begin disk", "ok mkfs", "# end disk 1").failed, 1)

    def test_complaints_of_the_kernel_fail(self) -> None:
        for complaint in (
            "Kernel panic - not syncing: Attempted to kill init!",
            "Oops: 0002 [#1] PREEMPT SMP",
            "BUG: kernel NULL pointer dereference",
            "INFO: task fio:123 blocked for more than 120 seconds.",
            "blk_update_request: I/O error, dev sda, sector 0",
            " connection1:0: detected conn error (1020)",
            "nvme nvme0: I/O tag 1 (1001) opcode 0x2 QID 1 timeout, reset controller",
        ):
            with self.subTest(complaint):
                self.assertIsNotNone(Report(()).kernel(f"[  1.0] fine\n[  2.0] {complaint}\n").reason)

    def test_a_lost_session_passes_where_it_was_cut_on_purpose(self) -> None:
        self.assertIsNone(Report(()).kernel(" connection1:0: detected conn error (1020)", losses=True).reason)
        self.assertIsNotNone(Report(()).kernel("EXT4-fs error (device dm-1): htree", losses=True).reason)

    def test_the_warning_that_is_linux_own_is_known_by_its_calls(self) -> None:
        calls = ("check_flush_dependency.part.0+0x106/0x130", "pm_runtime_remove+0x20/0x30", "__iscsi_unbind_session+0xd4/0x220")
        first = f"[  5.1] WARNING: CPU: 0 PID: 896 at kernel/workqueue.c:3767 {calls[0]}"
        whole = [first, *(f"[  5.2]  {call}" for call in calls[1:]), "[  5.3] ---[ end trace 0000000000000000 ]---"]
        self.assertIsNone(Report(()).kernel("\n".join(whole)).reason)
        for missing in range(len(whole)):
            with self.subTest(missing=missing):
                told = [line for at, line in enumerate(whole) if at != missing]
                other = told if missing else ["[  5.1] WARNING: CPU: 0 PID: 896 at mm/slub.c:1 somewhere", *told]
                self.assertIsNotNone(Report(()).kernel("\n".join(other)).reason)
        self.assertIsNotNone(Report(()).kernel("\n".join([*whole, "[  6.0] Oops: 0002"])).reason)

    def test_each_warning_of_linux_own_is_known(self) -> None:
        for calls in KNOWN_WARNINGS:
            with self.subTest(calls=calls):
                whole = ["[  5.1] WARNING: CPU: 0 PID: 896 at somewhere", *(f"[  5.2]  {call}+0x1/0x2" for call in calls), "[  5.3] ---[ end trace 0000000000000000 ]---"]
                self.assertIsNone(Report(()).kernel("\n".join(whole)).reason)
                self.assertIsNotNone(Report(()).kernel("\n".join([whole[0], *whole[2:]])).reason)

    def test_a_quiet_kernel_passes(self) -> None:
        self.assertIsNone(Report(()).kernel("[  1.0] sd 0:0:0:0: Power-on or device reset occurred\n").reason)


if __name__ == "__main__":
    unittest.main()
