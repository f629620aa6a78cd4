"""A disk as a binary file: io.RawIOBase, for tarfile, shutil.copyfileobj, io.BufferedRandom and whatever else takes one."""
from __future__ import annotations

import io
import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import Disk


class DiskFile(io.RawIOBase):
    """Bytes with a position over a disk. Reads and writes need no alignment: the blocks at the ends are read first, and written back.

    Its calls are one after the other; what other users of the same disk do to the same blocks meanwhile is not seen. It is as large as the
    disk, and stays so.
    """

    def __init__(self, disk: Disk) -> None:
        super().__init__()
        self.disk = disk
        self.mode = "rb" if disk.read_only else "rb+"
        self.name = disk.url
        self._at = 0
        self._lock = threading.RLock()

    def _open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def readable(self) -> bool:
        """True."""
        self._open()
        return True

    def writable(self) -> bool:
        """True unless the disk is read-only."""
        self._open()
        return not self.disk.read_only

    def seekable(self) -> bool:
        """True."""
        self._open()
        return True

    def tell(self) -> int:
        """The position."""
        self._open()
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves the position, also beyond the end."""
        self._open()
        with self._lock:
            base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.disk.size}.get(whence)
            if base is None:
                raise ValueError(f"{whence} is no whence of a disk")
            if base + offset < 0:
                raise ValueError(f"{base + offset} is below zero")
            self._at = base + offset
            return self._at

    def readinto(self, buffer: Any, /) -> int:
        """Fills `buffer` from the position on, as far as the disk goes."""
        self._open()
        view = memoryview(buffer).cast("B")
        with self._lock:
            length = max(0, min(len(view), self.disk.size - self._at))
            first, last = self._blocks(length)
            if length and (first, last) == (self._at, self._at + length):
                self.disk.read_into(first, view[:length])
            elif length:
                skip = self._at - first
                view[:length] = self.disk.read(first, last - first)[skip : skip + length]
            self._at += length
            return length

    def write(self, data: Any, /) -> int:
        """Writes at the position, as far as the disk goes; raises OSError (ENOSPC) at its end."""
        self._open()
        view = memoryview(data).cast("B")
        with self._lock:
            length = min(len(view), self.disk.size - self._at)
            if len(view) and length <= 0:
                from ._errors import Error

                raise Error(7, f"{self.name}: the disk has only {self.disk.size} bytes")
            first, last = self._blocks(length)
            if (first, last) == (self._at, self._at + length):
                self.disk.write(first, view[:length])
            else:
                whole = bytearray(self.disk.read(first, last - first))
                whole[self._at - first : self._at - first + length] = view[:length]
                self.disk.write(first, whole)
            self._at += length
            return length

    def _blocks(self, length: int) -> tuple[int, int]:
        """The whole blocks around so many bytes from the position on: the first byte and the one after the last."""
        block = self.disk.block_size
        return self._at // block * block, -(-(self._at + length) // block) * block

    def flush(self) -> None:
        """Makes every write that has ended durable."""
        if not self.closed and not self.disk.closed and not self.disk.read_only:
            self.disk.flush()

    def truncate(self, size: Any = None, /) -> int:
        """Refused: a disk keeps its size."""
        raise io.UnsupportedOperation("a disk cannot be truncated")
