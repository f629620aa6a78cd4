"""What a child's end does to whoever talks to it. Needs neither root nor a guest."""

import subprocess
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.process import Child  # noqa: E402


class Ended(unittest.TestCase):
    """A child that ended by itself."""

    def test_to_talk_to_it_is_no_error_and_its_end_can_still_be_read(self) -> None:
        """The answer to a guest's question may come too late: the guest's end is then what counts, not the pipe's."""
        with Child(["sh", "-c", "echo last words; exit 3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
            self.assertEqual(child.wait(60), 3)
            child.write(b"done\n")
            child.write(b"done\n")
            self.assertEqual(child.read(), b"last words\n")
            self.assertEqual(child.read(), b"")
            self.assertEqual(child.stop(), 3)


if __name__ == "__main__":
    unittest.main()
