"""The shared library, and its functions as include/linerate.h declares them."""
from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
from pathlib import Path


class Geometry(ctypes.Structure):
    """linerate_disk_geometry."""

    _fields_ = [
        ("size", ctypes.c_uint64),
        ("block_size", ctypes.c_uint32),
        ("physical_block_size", ctypes.c_uint32),
        ("max_transfer", ctypes.c_uint32),
        ("features", ctypes.c_uint32),
    ]


class Exchange(ctypes.Structure):
    """linerate_exchange."""

    _fields_ = [("compare", ctypes.c_void_p), ("write", ctypes.c_void_p), ("len", ctypes.c_size_t)]


class Run(ctypes.Structure):
    """linerate_run."""

    _fields_ = [("offset", ctypes.c_uint64), ("len", ctypes.c_uint64), ("allocated", ctypes.c_uint32)]


# linerate_found
FoundCallback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p)

_POINTER, _U64, _SIZE = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t
_STATUS = ctypes.c_int

_FUNCTIONS = {
    "linerate_version": (ctypes.c_char_p, ()),
    "linerate_error_text": (ctypes.c_char_p, ()),
    "linerate_start": (_STATUS, (ctypes.c_uint16, _POINTER)),
    "linerate_end": (None, (_POINTER,)),
    "linerate_open": (_STATUS, (_POINTER, ctypes.c_char_p, _POINTER)),
    "linerate_close": (None, (_POINTER,)),
    "linerate_geometry": (None, (_POINTER, _POINTER)),
    "linerate_read": (_STATUS, (_POINTER, _U64, _POINTER, _SIZE)),
    "linerate_write": (_STATUS, (_POINTER, _U64, _POINTER, _SIZE)),
    "linerate_write_durable": (_STATUS, (_POINTER, _U64, _POINTER, _SIZE)),
    "linerate_flush": (_STATUS, (_POINTER,)),
    "linerate_discard": (_STATUS, (_POINTER, _U64, _U64)),
    "linerate_write_zeroes": (_STATUS, (_POINTER, _U64, _U64)),
    "linerate_compare_and_write": (_STATUS, (_POINTER, _U64, _POINTER)),
    "linerate_allocation": (_STATUS, (_POINTER, _POINTER)),
    "linerate_discover": (_STATUS, (ctypes.c_char_p, FoundCallback, _POINTER)),
}


@functools.lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """The shared library, loaded once: the one that the environment names, that of the wheel, or that of the system."""
    carried = Path(__file__).with_name("liblinerate.so")
    name = os.environ.get("LINERATE_LIBRARY") or (str(carried) if carried.exists() else ctypes.util.find_library("linerate"))
    if not name:
        raise ImportError("liblinerate.so is not found: install a wheel, or build the library (python/README.md says how) and set LINERATE_LIBRARY to its path")
    loaded = ctypes.CDLL(name)
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded
