"""What a service, a notebook or a shell does one call at a time, in CPU microseconds beside peers.

python benchmarks/small_calls.py [sketches] [models] [indexes] [telemetry] [noise] [profiles]
    writes benchmarks/results/small_calls.json, all parts unless some are named
"""

import importlib
import sys

from _measure import write_parts

PARTS = ("sketches", "models", "indexes", "telemetry", "noise", "profiles")


def _rows(part):
    return lambda: importlib.import_module(f"_small_{part}").rows()


if __name__ == "__main__":
    write_parts("small_calls", {part: _rows(part) for part in PARTS}, sys.argv[1:])
