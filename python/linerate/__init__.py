"""Volumes on this machine and on others: open a URL, read, write, flush.

    with linerate.open("iscsi://127.0.0.1/iqn.2026-11.org.linerate:disk/0") as disk:
        first = disk.read(0, 4096)

The work is done by Linerate's shared library, found by $LINERATE_LIBRARY or where the system looks for libraries.
"""
import ctypes
import threading

from ._library import Exchange, Geometry, library

__all__ = ["Disk", "Error", "Miscompare", "open", "version"]

_MISCOMPARE = 11
_READ_ONLY_FEATURE = 1 << 5


class Error(OSError):
    """A failed call. `status` is its kind, as the C header numbers it; the text says what was asked of which volume."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Miscompare(Error):
    """`compare_and_write` found other data."""


def _check(status):
    """Raises what the calling thread's last call failed with."""
    if status:
        text = library().linerate_error_text().decode(errors="replace")
        raise (Miscompare if status == _MISCOMPARE else Error)(status, text)


def version():
    """The shared library's version."""
    return library().linerate_version().decode()


def _memory(data):
    """A pointer to a buffer's bytes and their number, without a copy where the buffer can be written, and whatever must be kept meanwhile."""
    view = memoryview(data)
    if not view.contiguous:
        raise ValueError("the data must be contiguous")
    if view.readonly:
        kept = data if isinstance(data, bytes) else bytes(view)
        return ctypes.cast(ctypes.c_char_p(kept), ctypes.c_void_p), len(kept), kept
    kept = (ctypes.c_char * view.nbytes).from_buffer(view)
    return ctypes.cast(kept, ctypes.c_void_p), view.nbytes, kept


class Disk:
    """An opened volume. Several threads may use it; `close` waits for their calls."""

    def __init__(self, url, cores=1):
        self.url = url
        self._handle = ctypes.c_void_p()
        self._users = 0
        self._idle = threading.Condition()
        client = ctypes.c_void_p()
        _check(library().linerate_start(cores, ctypes.byref(client)))
        try:
            _check(library().linerate_open(client, url.encode(), ctypes.byref(self._handle)))
        finally:
            library().linerate_end(client)  # the disk keeps it
        geometry = Geometry()
        library().linerate_geometry(self._handle, ctypes.byref(geometry))
        self._features = geometry.features
        self.block_size = geometry.block_size

    def _call(self, function, *arguments):
        """Calls a function on the handle, which cannot be closed meanwhile."""
        with self._idle:
            if not self._handle:
                raise ValueError(f"{self.url}: the disk is closed")
            self._users += 1
        try:
            _check(function(self._handle, *arguments))
        finally:
            with self._idle:
                self._users -= 1
                self._idle.notify_all()

    @property
    def size(self):
        """Bytes, now."""
        geometry = Geometry()

        def ask(handle):
            library().linerate_geometry(handle, ctypes.byref(geometry))
            return 0

        self._call(ask)
        return geometry.size

    @property
    def read_only(self):
        """True when writes are refused."""
        return bool(self._features & _READ_ONLY_FEATURE)

    def read(self, offset, length):
        """`length` bytes from byte `offset`."""
        data = bytearray(length)
        self.read_into(offset, data)
        return bytes(data)

    def read_into(self, offset, buffer):
        """Fills a writable buffer (bytearray, memoryview, array) from byte `offset`."""
        if memoryview(buffer).readonly:
            raise ValueError("the buffer cannot be written")
        pointer, length, _kept = _memory(buffer)
        self._call(library().linerate_read, _offset(offset), pointer, length)

    def write(self, offset, data, durable=False):
        """Writes bytes at byte `offset`; with `durable` it returns only once they are on stable media."""
        pointer, length, _kept = _memory(data)
        function = library().linerate_write_durable if durable else library().linerate_write
        self._call(function, _offset(offset), pointer, length)

    def flush(self):
        """Makes every write that has ended durable."""
        self._call(library().linerate_flush)

    def discard(self, offset, length):
        """Says that bytes are no longer needed."""
        self._call(library().linerate_discard, _offset(offset), _offset(length))

    def write_zeroes(self, offset, length):
        """Makes bytes read as zeros."""
        self._call(library().linerate_write_zeroes, _offset(offset), _offset(length))

    def compare_and_write(self, offset, compare, data):
        """Writes `data` only if the disk holds `compare`, atomically; else raises `Miscompare`."""
        (expected, length, _one), (written, other, _two) = _memory(compare), _memory(data)
        if length != other:
            raise ValueError("what is compared and what is written must have one length")
        exchange = Exchange(expected, written, length)
        self._call(library().linerate_compare_and_write, _offset(offset), ctypes.byref(exchange))

    def close(self):
        """Closes the disk, once no thread uses it; a closed one stays closed."""
        with self._idle:
            handle, self._handle = self._handle, ctypes.c_void_p()
            self._idle.wait_for(lambda: not self._users)
        library().linerate_close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"linerate.Disk({self.url!r})"


def _offset(number):
    """A number of bytes as C takes it: ctypes alone would let a negative one pass as a huge one."""
    if number < 0:
        raise ValueError(f"{number} is below zero")
    return number


def open(url, cores=1):  # noqa: A001 - as in gzip.open and its like
    """Opens the volume that `url` names, with so many event loops."""
    return Disk(url, cores)
