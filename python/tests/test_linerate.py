"""The module on volumes in memory, and on whatever $LINERATE_URLS names (separated by spaces; their beginnings are overwritten)."""
import os
import threading
import unittest

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
            for call in (lambda: disk.read(-1, 512), lambda: disk.read_into(0, b"fixed"), lambda: disk.discard(0, -512)):
                with self.assertRaises(ValueError):
                    call()

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
