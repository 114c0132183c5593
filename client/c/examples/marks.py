"""Marks the begin and the end of a thousand turns, for `halprof timeline`: see README.md.

    python3 client/c/examples/marks.py [FOLDER]

FOLDER has the library, target/release by default.
"""
import ctypes
import pathlib
import sys

name = "halprof_c.dll" if sys.platform == "win32" else "libhalprof_c.so"
folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "target/release")
library = ctypes.CDLL(str(folder.resolve() / name))
library.halprof_channel.restype = ctypes.c_uint32
library.halprof_mark.argtypes = [ctypes.c_uint32, ctypes.c_uint64]
library.halprof_mark.restype = None

begin, end = library.halprof_channel(b"begin"), library.halprof_channel(b"end")
for turn in range(1000):
    library.halprof_mark(begin, turn)
    sum(range(turn % 10))
    library.halprof_mark(end, turn)
