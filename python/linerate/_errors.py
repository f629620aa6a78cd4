"""What a failed call raises: an OSError with an `errno`, so that it is handled as any other file's."""
from __future__ import annotations

import errno

from ._library import library

# The C header's statuses, and the error number that means the same to programs.
_NUMBERS = {
    1: errno.EINVAL,  # BAD_URL
    2: errno.ENXIO,  # CANNOT_OPEN
    3: errno.EAGAIN,  # CANNOT_START
    4: errno.EINVAL,  # OUT_OF_RANGE
    5: errno.EIO,  # MEDIA
    6: errno.EILSEQ,  # PROTECTION
    7: errno.ENOSPC,  # NO_SPACE
    8: errno.EROFS,  # READ_ONLY
    9: errno.EINVAL,  # MISALIGNED
    10: errno.EOPNOTSUPP,  # UNSUPPORTED
    11: errno.EILSEQ,  # MISCOMPARE
    12: errno.ECANCELED,  # CANCELLED
    13: errno.ETIMEDOUT,  # TIMED_OUT
    14: errno.ENOTCONN,  # UNREACHABLE
    15: errno.EACCES,  # RESERVATION_CONFLICT
    16: errno.ESHUTDOWN,  # SHUTTING_DOWN
    17: errno.EIO,  # OTHER
    18: errno.EBUSY,  # BUSY
}


class Error(OSError):
    """A failed call. `errno` is the number that programs know, `status` the kind as the C header numbers it, `strerror` the words."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(_NUMBERS.get(status, errno.EIO), text)
        self.status = status


class Miscompare(Error):
    """`compare_and_write` found other data."""


class TimedOut(Error, TimeoutError):
    """The volume did not answer in time."""


class Unreachable(Error, ConnectionError):
    """There is no path to the volume."""


class ReservationConflict(Error, PermissionError):
    """A reservation of another host forbids it."""


_KINDS: dict[int, type[Error]] = {11: Miscompare, 13: TimedOut, 14: Unreachable, 15: ReservationConflict}


def check(status: int) -> None:
    """Raises what the calling thread's last call failed with."""
    if status:
        text = library().linerate_error_text().decode(errors="replace")
        raise _KINDS.get(status, Error)(status, text)
