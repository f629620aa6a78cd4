"""The module on volumes in memory, and on whatever $LINERATE_URLS names (separated by spaces; their beginnings are overwritten)."""
import errno
import io
import os
import shutil
import tempfile
import threading
import unittest
from pathlib import Path

import linerate


def urls():
    """Volumes to test."""
    return ["ram:16M", "delay=100us+ram:16M?block=4096", *os.environ.get("LINERATE_URLS", "").split()]


class Volumes(unittest.TestCase):
    """What a disk does."""

    def test_data_comes_back(self):
        for url in urls():
            with self.subTest(url), linerate.open(url) as disk:
                data = bytes(at * 7 % 251 for at in range(3 * disk.block_size)) * 100
                disk.write(disk.block_size, data)
                disk.flush()
                self.assertEqual(disk.read(disk.block_size, len(data)), data)
                room = bytearray(2 * disk.block_size)
                disk.read_into(disk.block_size, memoryview(room))
                self.assertEqual(room, data[: len(room)])
                disk.write(0, memoryview(data)[: disk.block_size], durable=True)
                self.assertEqual(disk.read(0, disk.block_size), data[: disk.block_size])
                disk.write_zeroes(0, disk.block_size)
                self.assertEqual(disk.read(0, disk.block_size), bytes(disk.block_size))
                disk.discard(0, disk.block_size)
                self.assertGreaterEqual(disk.size, 16 << 20)
                self.assertFalse(disk.read_only)

    def test_compare_and_write_is_all_or_nothing(self):
        with linerate.open("ram:1M") as disk:
            old, new = bytes(512), bytes([5]) * 512
            disk.compare_and_write(0, old, new)
            with self.assertRaises(linerate.Miscompare) as caught:
                disk.compare_and_write(0, old, bytes([6]) * 512)
            self.assertIn("compare and write of 512 bytes at byte 0", str(caught.exception))
            self.assertEqual(disk.read(0, 512), new)
            with self.assertRaises(ValueError):
                disk.compare_and_write(0, old, b"short")

    def test_threads_share_a_disk(self):
        with linerate.open("ram:16M", cores=2) as disk:
            def work(number):
                for turn in range(50):
                    disk.write(number * 4096, bytes([number, turn] * 2048))

            threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for number in range(8):
                self.assertEqual(disk.read(number * 4096, 4096), bytes([number, 49] * 2048))


class Files(unittest.TestCase):
    """A disk as a file."""

    def test_bytes_at_any_place_come_back(self):
        for url in urls():
            with self.subTest(url), linerate.open(url) as disk:
                self.assertEqual(len(disk), disk.size)
                model = bytearray(os.urandom(16384))
                disk.write(0, model)
                file = disk.file()
                for at, data in ((1, b"one"), (511, b"across"), (4095, bytes(range(256)) * 20), (512, bytes(512)), (16000, b"")):
                    self.assertEqual(file.seek(at), at)
                    self.assertEqual(file.write(data), len(data))
                    self.assertEqual(file.tell(), at + len(data))
                    model[at : at + len(data)] = data
                file.seek(0)
                self.assertEqual(file.read(len(model)), model)
                room = bytearray(1000)
                file.seek(-1000, os.SEEK_END)
                self.assertEqual(file.readinto(room), 1000)
                self.assertEqual(file.read(10), b"", "the end of the disk is the end of the file")
                file.close()
                self.assertFalse(disk.closed)

    def test_what_takes_a_file_takes_it(self):
        with linerate.open("ram:1M") as disk:
            data = os.urandom(300_001)
            shutil.copyfileobj(io.BytesIO(data), disk.file(), 7777)
            with io.BufferedRandom(disk.file()) as buffered:
                buffered.seek(100)
                buffered.write(b"hello")
                buffered.seek(0)
                self.assertEqual(buffered.read(len(data)), data[:100] + b"hello" + data[105:])
            self.assertIsInstance(disk.file(), io.RawIOBase)

    def test_it_has_an_end_and_may_be_read_only(self):
        with linerate.open("ram:1M") as disk:
            file = disk.file()
            file.seek((1 << 20) - 5)
            self.assertEqual(file.write(b"123456789"), 5)
            with self.assertRaises(OSError) as caught:
                file.write(b"6")
            self.assertEqual(caught.exception.errno, errno.ENOSPC)
            with self.assertRaises(io.UnsupportedOperation):
                file.truncate(0)
            with self.assertRaises(ValueError):
                file.seek(-1)
        with linerate.open("readonly+ram:1M") as disk:
            file = disk.file()
            self.assertFalse(file.writable())
            with self.assertRaises(OSError) as caught:
                file.write(b"x")
            self.assertEqual(caught.exception.errno, errno.EROFS)


class Looks(unittest.TestCase):
    """What there is to know beside data."""

    def test_extents_are_what_was_written(self):
        with linerate.open("ram:8M") as disk:
            self.assertEqual(list(disk.extents()), [(0, 8 << 20, False)])
            disk.write(2 << 20, os.urandom(1 << 20))
            disk.write(3 << 20, os.urandom(1 << 20))
            self.assertEqual(list(disk.extents()), [(0, 2 << 20, False), (2 << 20, 2 << 20, True), (4 << 20, 4 << 20, False)])
            self.assertEqual(list(disk.extents(3 << 20, 2 << 20)), [(3 << 20, 1 << 20, True), (4 << 20, 1 << 20, False)])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "sparse.img"
            with path.open("wb") as sparse:
                sparse.truncate(4 << 20)
                sparse.seek(1 << 20)
                sparse.write(os.urandom(1 << 20))
            with linerate.open(f"file:{path}") as disk:
                told = {(one.offset, one.length) for one in disk.extents() if one.allocated}
                self.assertEqual(told, {(1 << 20, 1 << 20)})

    def test_portals_say_what_they_offer(self):
        for url in os.environ.get("LINERATE_PORTALS", "").split():
            with self.subTest(url):
                names = [found.name for found in linerate.discover(url) if found.error is None]
                self.assertTrue(any(name.endswith(":disk") for name in names), names)
        with self.assertRaisesRegex(linerate.Error, "cannot connect to 127.0.0.1:1"):
            linerate.discover("iscsi://127.0.0.1:1")
        with self.assertRaisesRegex(linerate.Error, "no discovery service"):
            linerate.discover("ram:1M")


class Failures(unittest.TestCase):
    """What is refused, and how it reads."""

    def test_each_has_its_words(self):
        with linerate.open("fail=1/1,on=flush+ram:1M") as disk:
            cases = [
                (lambda: disk.read(1, 512), "multiples of the block size of 512 bytes"),
                (lambda: disk.read(1 << 20, 512), "has only 1048576 bytes"),
                (disk.flush, "medium"),
                (lambda: linerate.open("tape:0"), "tape"),
                (lambda: linerate.open("file:/nowhere/at.all"), "/nowhere/at.all"),
            ]
            for call, words in cases:
                with self.subTest(words), self.assertRaises(linerate.Error) as caught:
                    call()
                self.assertIn(words, str(caught.exception))
                self.assertTrue(caught.exception.status)
                self.assertIsInstance(caught.exception, OSError)
                self.assertTrue(errno.errorcode[caught.exception.errno])
            for call in (lambda: disk.read(-1, 512), lambda: disk.read_into(0, b"fixed"), lambda: disk.discard(0, -512)):
                with self.assertRaises(ValueError):
                    call()

    def test_a_flush_that_fails_once_fails_from_then_on(self):
        # Every second flush fails there; the next one would succeed.
        urls = os.environ.get("LINERATE_LOSSES", "").split()
        if not urls:
            self.skipTest("LINERATE_LOSSES names no volume whose flushes fail")
        for url in urls:
            with self.subTest(url), linerate.open(url) as disk:
                disk.write(0, bytes(4096))
                disk.flush()
                disk.write(0, bytes(4096))
                for _ in range(3):
                    with self.assertRaises(OSError) as caught:
                        disk.flush()
                    self.assertEqual(caught.exception.errno, errno.EIO)
                with self.assertRaises(OSError) as caught:
                    disk.write(0, bytes(4096))
                self.assertEqual(caught.exception.errno, errno.EIO)
                disk.read(0, 4096)

    def test_errors_are_those_that_programs_know(self):
        kinds = {
            "media": (errno.EIO, OSError), "nospace": (errno.ENOSPC, OSError), "timedout": (errno.ETIMEDOUT, TimeoutError),
            "unreachable": (errno.ENOTCONN, ConnectionError), "protection": (errno.EILSEQ, OSError), "busy": (errno.EBUSY, OSError),
        }
        for kind, (number, known) in kinds.items():
            with self.subTest(kind), linerate.open(f"fail=100%,kind={kind}+ram:1M") as disk:
                with self.assertRaises(known) as caught:
                    disk.read(0, 512)
                self.assertIsInstance(caught.exception, linerate.Error)
                self.assertEqual(caught.exception.errno, number)

    def test_a_protected_volume_says_so(self):
        with linerate.open("readonly+ram:1M") as disk:
            self.assertTrue(disk.read_only)
            with self.assertRaisesRegex(linerate.Error, "write-protected"):
                disk.write(0, bytes(512))

    def test_a_closed_disk_stays_closed(self):
        disk = linerate.open("ram:1M")
        disk.close()
        disk.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            disk.read(0, 512)


if __name__ == "__main__":
    unittest.main()
