"""Counts a region of Python code: README.md has the two lines that build and run it.

    python3 client/c/examples/region.py [FOLDER [MACHINE]]

FOLDER has the library, target/release by default. Without MACHINE it measures with the installed
driver or, if there is none, by Windows' own tracing; on other systems it measures on a modelled machine.
"""
import ctypes
import json
import pathlib
import sys

ABI, BEST, JSON = 1, 0, 2


class Error(Exception):
    pass


def load(folder):
    name = "halprof_c.dll" if sys.platform == "win32" else "libhalprof_c.so"
    library = ctypes.CDLL(str(pathlib.Path(folder).resolve() / name))
    library.halprof_error.restype = ctypes.c_char_p
    return library


def check(answer):
    if answer != 0:
        raise Error(library.halprof_error().decode())


class Region:
    """`with Region(thread, "name"):`"""

    def __init__(self, thread, name):
        self.thread, self.name, self.passage = thread, name.encode(), ctypes.c_uint32()

    def __enter__(self):
        check(library.halprof_enter(self.thread, self.name, ctypes.byref(self.passage)))

    def __exit__(self, *_):
        check(library.halprof_leave(self.thread, self.passage))


def work(machine, amount):
    """A model does what it is told to; a real machine does what the code does."""
    if library.halprof_modelled(machine):
        check(library.halprof_workload(machine, f"instructions={amount},cycles=1000".encode()))
    else:
        sum(range(amount))


library = load(sys.argv[1] if len(sys.argv) > 1 else "target/release")
name = sys.argv[2].encode() if len(sys.argv) > 2 else None
machine, thread, text = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
check(library.halprof_open(ABI, name, ctypes.byref(machine)))
# Without the driver, user and kernel mode are counted together.
if library.halprof_choose(machine, b"TotalIssues:u", None) != 0:
    check(library.halprof_choose(machine, b"TotalIssues", None))
check(library.halprof_start(machine, BEST))
check(library.halprof_thread_begin(machine, b"main", ctypes.byref(thread)))
for _ in range(20):
    with Region(thread, "sum"):
        work(machine, 5000)
check(library.halprof_thread_end(thread))

check(library.halprof_report(machine, JSON, ctypes.byref(text)))
report = json.loads(ctypes.string_at(text))
library.halprof_free(text)
print("modelled machine, not silicon, " if report["modelled"] else "", "counts: ", report["method"], sep="")
for note in report["notes"] + report["warnings"]:
    print(note)
for row in report["regions"]:
    print(f"{row['name']}: {row['n']} passages, median {row['median']} {row['source']}")
check(library.halprof_stop(machine, None, ctypes.c_size_t(0)))
check(library.halprof_close(machine))
