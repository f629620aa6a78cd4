"""What of a server's is a leak. Needs neither root nor a guest."""

import os
import socket
import sys
import threading
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.footprint import Footprint, established  # noqa: E402

PLENTY = 1 << 30
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def row(local: str, remote: str, state: str) -> str:
    return f"   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000     0        0 1 1 0000000000000000 20 0 0 10 -1\n"


class Leaks(unittest.TestCase):
    """This process, before and after."""

    def test_what_is_as_before_is_no_leak(self) -> None:
        before = Footprint.of(os.getpid())
        self.assertIsNone(Footprint.of(os.getpid()).beyond(before, PLENTY))

    def test_a_descriptor_a_connection_and_a_thread_are(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            before = Footprint.of(os.getpid())
            with socket.create_connection(listener.getsockname()), listener.accept()[0]:
                more = Footprint.of(os.getpid()).beyond(before, PLENTY) or ""
                self.assertIn("descriptors", more)
                self.assertIn("connections", more)
        leave = threading.Event()
        before = Footprint.of(os.getpid())
        thread = threading.Thread(target=leave.wait)
        thread.start()
        self.assertIn("threads", Footprint.of(os.getpid()).beyond(before, PLENTY) or "")
        leave.set()
        thread.join()

    def test_memory_is_beyond_what_is_spared(self) -> None:
        before = Footprint(descriptors=1, threads=1, connections=0, memory=1000)
        after = Footprint(descriptors=1, threads=1, connections=0, memory=1500)
        self.assertIsNone(after.beyond(before, 500))
        self.assertEqual(after.beyond(before, 499), "1500 KiB of memory instead of 1000")

    def test_connections_count_where_somebody_listens(self) -> None:
        listens = row("014DA8C0:0CBE", "00000000:0000", "0A")
        served, leaves, others = row("014DA8C0:0CBE", "024DA8C0:9C40", "01"), row("014DA8C0:0CBE", "024DA8C0:9C41", "08"), row("014DA8C0:9C42", "024DA8C0:0016", "01")
        self.assertEqual(established(HEAD + listens + served + leaves + others), 1)


if __name__ == "__main__":
    unittest.main()
