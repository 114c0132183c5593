"""Loads a driver in Speakeasy, runs its entry, and prints Speakeasy's report.

Usage: load.py halprof.sys
"""

import sys

from speakeasy import Speakeasy

emulator = Speakeasy()
driver = emulator.load_module(sys.argv[1])
emulator.run_module(driver)
print(emulator.get_json_report())
