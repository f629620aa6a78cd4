"""The shared library, and its functions as include/linerate.h declares them."""
import ctypes
import ctypes.util
import functools
import os


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
}


@functools.lru_cache(maxsize=1)
def library():
    """The shared library, loaded once."""
    name = os.environ.get("LINERATE_LIBRARY") or ctypes.util.find_library("linerate")
    if not name:
        raise ImportError("liblinerate.so is not found: build it (python/README.md says how) and set LINERATE_LIBRARY to its path")
    loaded = ctypes.CDLL(name)
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded
