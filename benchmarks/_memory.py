"""Peak resident memory of a stretch of work, as the operating system counts it."""

import ctypes
import gc
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Peak:
    """`with Peak() as peak: work()`; then `peak.mib` is how far the process grew meanwhile.

    Linux only, None elsewhere. Memory that earlier work left to the allocator is returned first,
    so that work which uses it again is not seen as free.
    """

    mib = None

    def __enter__(self):
        gc.collect()
        if CLEAR.exists():
            ctypes.CDLL(None).malloc_trim(0)
            CLEAR.write_text("5")  # sets the peak to what is resident now
            self._before = resident("VmRSS")
        return self

    def __exit__(self, *_):
        if CLEAR.exists():
            self.mib = round(resident("VmHWM") - self._before, 1)


def resident(field="VmHWM"):
    """Resident MiB of this process: its peak (VmHWM), or now (VmRSS)."""
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))
