"""siw's other builds: what is changed in its source, and that a source which cannot be changed so is noticed."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import siw  # noqa: E402
from harness.process import HarnessError  # noqa: E402

MAKEFILE = "obj-$(CONFIG_RDMA_SIW) += siw.o\n\nsiw-y := \\\n\tsiw_cm.o \\\n\tsiw_main.o\n"


class Strict(unittest.TestCase):
    """`make_strict` on a source of these lines."""

    def strict(self, main: str) -> tuple[str, str]:
        """Returns the changed source and makefile."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "siw_main.c").write_text(main)
            (folder / "Makefile").write_text(MAKEFILE)
            siw.make_strict(folder)
            siw.rename(folder, "siw_strict")
            return (folder / "siw_main.c").read_text(), (folder / "Makefile").read_text()

    def test_the_constants_are_true_and_the_module_has_its_own_name(self) -> None:
        main, makefile = self.strict("const bool mpa_crc_required;\nconst bool mpa_crc_strict;\nconst bool peer_to_peer;\n")
        self.assertEqual(main, "const bool mpa_crc_required = true;\nconst bool mpa_crc_strict;\nconst bool peer_to_peer = true;\n")
        self.assertEqual(makefile, MAKEFILE.replace("siw.o", "siw_strict.o").replace("siw-y", "siw_strict-y"))

    def test_a_source_without_such_a_constant_is_noticed(self) -> None:
        with self.assertRaisesRegex(HarnessError, "peer_to_peer"):
            self.strict("const bool mpa_crc_required;\n")


class Mended(unittest.TestCase):
    """`mend` on a source of these lines."""

    def mended(self, manager: str) -> str:
        """Returns the changed source."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "siw_cm.c").write_text(manager)
            siw.mend(folder)
            return (folder / "siw_cm.c").read_text()

    def test_the_lines_come_behind_those_that_are_at_fault(self) -> None:
        manager = "before\n".join(before for before, _ in siw.MENDS)
        self.assertEqual(self.mended(manager), "before\n".join(before + added for before, added in siw.MENDS))

    def test_a_source_that_is_otherwise_is_noticed(self) -> None:
        with self.assertRaisesRegex(HarnessError, "TCP_CLOSE_WAIT"):
            self.mended(siw.MENDS[0][0])


if __name__ == "__main__":
    unittest.main()
