"""What is told of a guest that is lost, and when its run is made again. Needs neither root nor a guest."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.__main__ import judge  # noqa: E402
from harness.guest import Guest, Loss  # noqa: E402
from harness.peers import Peers  # noqa: E402
from harness.process import HarnessError  # noqa: E402
from harness.server import Server  # noqa: E402

PANIC = ("# a script runs", "[   12.3] Oops: int3 [#1] SMP", "[   12.4] Kernel panic - not syncing: Fatal exception")


class Emulator(contextlib.AbstractContextManager):
    """A child that has ended with `code`."""

    def __init__(self, code: int | None) -> None:
        self.code = code

    def wait(self, _seconds: float) -> int | None:
        return self.code

    def __exit__(self, *_: object) -> None:
        pass


class Scripted(Guest):
    """A guest that says `lines` and is gone."""

    lines: tuple[str, ...] = ()
    code: int | None = 0

    def boot(self) -> Emulator:
        self._left = list(self.lines)
        return Emulator(self.code)

    def read_line(self, _child: object, _deadline: float) -> str | None:
        return self._left.pop(0) if self._left else None


def guest(folder: str, *lines: str, console: tuple[str, ...] = (), code: int | None = 0, said: str = "") -> Scripted:
    """A guest that ran in `folder`."""
    place = Path(folder)
    (place / "console.log").write_text("\n".join(console))
    (place / "qemu.log").write_text(said)
    made = Scripted(SimpleNamespace(release="a kernel"), None, place, {}, ("disk",))
    made.lines, made.code = lines, code
    return made


def verdict(lost: Scripted, *, last: bool) -> tuple[int | None, str]:
    """The exit status, and what was printed."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = judge(lost, Server(SimpleNamespace(), Path("nowhere")), last=last)
    return status, printed.getvalue()


class LossTest(unittest.TestCase):
    """One way to be lost, each."""

    def setUp(self) -> None:
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def test_a_kernel_that_panics_is_told_by_its_oops_and_tried_again_once(self) -> None:
        lost = guest(self.folder, "# begin disk", "ok mkfs", console=PANIC)
        status, printed = verdict(lost, last=False)
        self.assertIsNone(status)
        for told in ("Oops: int3", "Fatal exception", "run again"):
            self.assertIn(told, printed)
        status, printed = verdict(lost, last=True)
        self.assertEqual(status, 1)
        self.assertIn("its kernel broke down", printed)

    def test_an_emulator_that_is_killed_is_told_by_its_signal(self) -> None:
        status, printed = verdict(guest(self.folder, "# begin disk", code=-11, said="qemu: fatal"), last=False)
        self.assertIsNone(status)
        self.assertIn("signal 11 (qemu: fatal)", printed)

    def test_a_guest_that_powers_off_early_is_no_fault_of_kernel_or_emulator(self) -> None:
        status, printed = verdict(guest(self.folder, "# begin disk", console=("reboot: Power down",)), last=False)
        self.assertEqual(status, 1)
        self.assertIn("reboot: Power down", printed)

    def test_a_run_that_ends_is_judged_whatever_the_emulator_ends_with(self) -> None:
        status, _ = verdict(guest(self.folder, "# begin disk", "ok mkfs", "# end disk 0", code=1), last=False)
        self.assertEqual(status, 0)

    def test_a_kernel_that_breaks_down_and_goes_on_is_tried_again_once(self) -> None:
        oops = ("[    5.9] Oops: general protection fault, probably for non-canonical address", "reboot: Power down")
        lines = ("# begin disk", "not ok login it timed out", "# end disk 0")
        status, printed = verdict(guest(self.folder, *lines, console=oops), last=False)
        self.assertIsNone(status)
        self.assertIn("run again", printed)
        status, printed = verdict(guest(self.folder, *lines, console=oops), last=True)
        self.assertEqual(status, 1)
        self.assertIn("0 passed, 2 failed", printed)
        status, _ = verdict(guest(self.folder, *lines), last=False)
        self.assertEqual(status, 1)

    def test_clients_of_a_lost_guest_are_not_blamed(self) -> None:
        def unreachable() -> None:
            raise HarnessError("No route to host")

        peers = Peers.__new__(Peers)
        peers.tests = lambda _guest, _child, _script: iter([("first", unreachable), ("second", unreachable)])
        told = list(peers.judge(guest(self.folder, console=PANIC), Emulator(0), "disk"))
        self.assertEqual([name for name, _ in told], ["first"])
        self.assertIn("the guest was lost: its kernel broke down", told[0][1])

    def test_what_a_loss_says(self) -> None:
        self.assertFalse(Loss(0, (), (), None).foreign)
        self.assertFalse(Loss(None, (), (), None).foreign)
        self.assertTrue(Loss(1, (), (), None).foreign)


if __name__ == "__main__":
    unittest.main()
