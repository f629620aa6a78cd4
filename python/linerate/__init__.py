"""Volumes on this machine and on others: open a URL, read, write, flush.

    with linerate.open("iscsi://127.0.0.1/iqn.2026-11.org.linerate:disk/0") as disk:
        first = disk.read(0, 4096)

The work is done by Linerate's shared library, which a wheel carries; else it is found by $LINERATE_LIBRARY or where the system looks for libraries.
"""
from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Iterator, NamedTuple, Optional

from ._errors import Error, Miscompare, ReservationConflict, TimedOut, Unreachable, check
from ._file import DiskFile
from ._library import Exchange, FoundCallback, Geometry, Run, library

if TYPE_CHECKING:
    from typing import Any, Callable, Union

    ReadableBuffer = Union[bytes, bytearray, memoryview]
    WritableBuffer = Union[bytearray, memoryview]

__all__ = ["Disk", "DiskFile", "Error", "Extent", "Found", "Miscompare", "ReservationConflict", "TimedOut", "Unreachable", "discover", "open",
           "version"]

_READ_ONLY_FEATURE = 1 << 5
# Bytes in one question about what is allocated.
_QUESTION = 1 << 40


class Extent(NamedTuple):
    """Bytes that are allocated alike: without space behind them they read as zeros."""

    offset: int
    length: int
    allocated: bool


class Found(NamedTuple):
    """What a portal offers. `error` says why it is not known what is behind the address, or is None."""

    name: str
    address: str
    error: Optional[str]


def version() -> str:
    """The shared library's version."""
    return library().linerate_version().decode()


def discover(url: str) -> list[Found]:
    """What the portal at `iscsi://HOST[:PORT]` or `nvme+tcp://HOST[:PORT]` offers."""
    entries: list[Found] = []

    def take(_context: Any, name: bytes, address: bytes, error: Optional[bytes]) -> None:
        entries.append(Found(name.decode(), address.decode(), None if error is None else error.decode()))

    check(library().linerate_discover(url.encode(), FoundCallback(take), None))
    return entries


def _memory(data: ReadableBuffer) -> tuple[Any, int, Any]:
    """A pointer to a buffer's bytes and their number, without a copy where the buffer can be written, and whatever must be kept meanwhile."""
    view = memoryview(data)
    if not view.contiguous:
        raise ValueError("the data must be contiguous")
    if view.readonly:
        kept = data if isinstance(data, bytes) else bytes(view)
        return ctypes.cast(ctypes.c_char_p(kept), ctypes.c_void_p), len(kept), kept
    room = (ctypes.c_char * view.nbytes).from_buffer(view)
    return ctypes.cast(room, ctypes.c_void_p), view.nbytes, room


class Disk:
    """An opened volume. Several threads may use it; `close` waits for their calls."""

    def __init__(self, url: str, cores: int = 1) -> None:
        self.url = url
        self._handle = ctypes.c_void_p()
        self._users = 0
        self._idle = threading.Condition()
        client = ctypes.c_void_p()
        check(library().linerate_start(cores, ctypes.byref(client)))
        try:
            check(library().linerate_open(client, url.encode(), ctypes.byref(self._handle)))
        finally:
            library().linerate_end(client)  # the disk keeps it
        geometry = Geometry()
        library().linerate_geometry(self._handle, ctypes.byref(geometry))
        self._features: int = geometry.features
        self.block_size: int = geometry.block_size

    def _call(self, function: Callable[..., int], *arguments: Any) -> None:
        """Calls a function on the handle, which cannot be closed meanwhile."""
        with self._idle:
            if not self._handle:
                raise ValueError(f"{self.url}: the disk is closed")
            self._users += 1
        try:
            check(function(self._handle, *arguments))
        finally:
            with self._idle:
                self._users -= 1
                self._idle.notify_all()

    @property
    def size(self) -> int:
        """Bytes, now."""
        geometry = Geometry()

        def ask(handle: Any) -> int:
            library().linerate_geometry(handle, ctypes.byref(geometry))
            return 0

        self._call(ask)
        return geometry.size

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return not self.closed

    @property
    def read_only(self) -> bool:
        """True when writes are refused."""
        return bool(self._features & _READ_ONLY_FEATURE)

    @property
    def closed(self) -> bool:
        """True once it has been closed."""
        return not self._handle

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from byte `offset`."""
        data = bytearray(_offset(length))
        self.read_into(offset, data)
        return bytes(data)

    def read_into(self, offset: int, buffer: WritableBuffer) -> None:
        """Fills a writable buffer (bytearray, memoryview, array) from byte `offset`."""
        if memoryview(buffer).readonly:
            raise ValueError("the buffer cannot be written")
        pointer, length, _kept = _memory(buffer)
        self._call(library().linerate_read, _offset(offset), pointer, length)

    def write(self, offset: int, data: ReadableBuffer, durable: bool = False) -> None:
        """Writes bytes at byte `offset`; with `durable` it returns only once they are on stable media."""
        pointer, length, _kept = _memory(data)
        function = library().linerate_write_durable if durable else library().linerate_write
        self._call(function, _offset(offset), pointer, length)

    def flush(self) -> None:
        """Makes every write that has ended durable."""
        self._call(library().linerate_flush)

    def discard(self, offset: int, length: int) -> None:
        """Says that bytes are no longer needed."""
        self._call(library().linerate_discard, _offset(offset), _offset(length))

    def write_zeroes(self, offset: int, length: int) -> None:
        """Makes bytes read as zeros."""
        self._call(library().linerate_write_zeroes, _offset(offset), _offset(length))

    def compare_and_write(self, offset: int, compare: ReadableBuffer, data: ReadableBuffer) -> None:
        """Writes `data` only if the disk holds `compare`, atomically; else raises `Miscompare`."""
        (expected, length, _one), (written, other, _two) = _memory(compare), _memory(data)
        if length != other:
            raise ValueError("what is compared and what is written must have one length")
        exchange = Exchange(expected, written, length)
        self._call(library().linerate_compare_and_write, _offset(offset), ctypes.byref(exchange))

    def extents(self, offset: int = 0, length: Optional[int] = None) -> Iterator[Extent]:
        """How the disk is allocated, in order: neighbours differ. A volume that cannot tell is one extent."""
        end = self.size if length is None else offset + _offset(length)
        found: Optional[Extent] = None
        while offset < end:
            run = Run(_offset(offset), min(end - offset, _QUESTION), 1)
            self._call(library().linerate_allocation, ctypes.byref(run))
            told = Extent(offset, run.len, bool(run.allocated))
            offset += run.len
            if found is None:
                found = told
            elif found.allocated == told.allocated:
                found = found._replace(length=found.length + told.length)
            else:
                yield found
                found = told
        if found is not None:
            yield found

    def file(self) -> DiskFile:
        """The disk as a binary file with a position, for whatever takes one. Closing it leaves the disk open."""
        return DiskFile(self)

    def close(self) -> None:
        """Closes the disk, once no thread uses it; a closed one stays closed."""
        with self._idle:
            handle, self._handle = self._handle, ctypes.c_void_p()
            self._idle.wait_for(lambda: not self._users)
        library().linerate_close(handle)

    def __enter__(self) -> Disk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"linerate.Disk({self.url!r})"


def _offset(number: int) -> int:
    """A number of bytes as C takes it: ctypes alone would let a negative one pass as a huge one."""
    if number < 0:
        raise ValueError(f"{number} is below zero")
    return number


def open(url: str, cores: int = 1) -> Disk:  # noqa: A001 - as in gzip.open and its like
    """Opens the volume that `url` names, with so many event loops."""
    return Disk(url, cores)
