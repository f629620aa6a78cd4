"""How the workspace's tests are found and run."""
import json
import sys
import unittest
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import rusttests  # noqa: E402
from rusttests import ROOT, Lines, Program  # noqa: E402


def message(crate, executable, test=True, reason="compiler-artifact"):
    """What cargo says of something that it built."""
    return json.dumps({"reason": reason, "manifest_path": str(ROOT / f"crates/{crate}/Cargo.toml"), "executable": executable, "profile": {"test": test},
                       "target": {"src_path": str(ROOT / f"crates/{crate}/src/lib.rs")}})


class RustTests(unittest.TestCase):
    def test_test_programs_are_found_with_the_folder_in_which_they_run(self):
        said = "\n".join([message("wire", "/t/wire-1"), message("wire", None), message("cli", "/t/linerate", test=False), "warning: x", message("cli", "/t/cli-1")])
        found = rusttests.programs(said)
        self.assertEqual([(one.path, one.folder, one.name) for one in found],
                         [("/t/wire-1", ROOT / "crates/wire", "crates/wire/src/lib.rs"), ("/t/cli-1", ROOT / "crates/cli", "crates/cli/src/lib.rs")])
        self.assertEqual([one.waits() for one in found], [False, True])

    def test_a_program_runs_in_its_folder_with_cargo_s_settings_and_a_failure_is_one(self):
        with TemporaryDirectory() as folder, mock.patch.object(sys, "stdout", StringIO()) as shown:
            program = Path(folder) / "program"
            program.write_text("#!/bin/sh\npwd; echo seed $PROPTEST_RNG_SEED $1; exit $(cat status)\n")
            program.chmod(0o755)
            for status, failed in ((0, False), (1, True)):
                (Path(folder) / "status").write_text(str(status))
                lines = Lines()
                lines.run_all([Program(str(program), Path(folder), "a program")])
                self.assertEqual(lines.failed, failed)
        self.assertIn(f"     Running a program\n{Path(folder).resolve()}\nseed 20261123 --quiet\n", shown.getvalue())
        self.assertEqual(shown.getvalue().count("error: a program ended with 1"), 1)


if __name__ == "__main__":
    unittest.main()
