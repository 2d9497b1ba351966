"""The cells of a value in a cohort: chosen by SHA-256, without bias for any number of cells."""

import struct

import numpy as np

from sfumato.telemetry._permanent import Rows, chosen, digests
from sfumato.telemetry._values import Values

__all__ = ["bloom_cells", "in_all_cohorts"]

HEAD = b"sfumato/bloom/1\0"
LARGEST = 2**28  # entries of a table of members: 1 GiB


def bloom_cells(
    values: Values, codes: np.ndarray, cohorts: np.ndarray, cells: int, count: int
) -> np.ndarray:
    """The cells of value codes[r] in cohort cohorts[r]: int32 (n, count), no two of a row alike.

    Guarantee: as likely as any other set, if SHA-256 is a random function: from the 32-bit words of
    SHA-256("sfumato/bloom/1", 0, cohort, t, value), t = 0, 1 and on, those that would favour some
    remainder are skipped, and so are cells already taken.
    """

    def more(rows: Rows, block: int) -> np.ndarray:
        own = cohorts[rows]
        most = int(own.max(initial=0)) + 1
        if most < own.size:  # a table of all cohorts is shorter
            return digests(_heads(np.arange(most), block), own, values, codes[rows])
        return digests(_heads(own, block), np.arange(own.size), values, codes[rows])

    return chosen(codes.size, cells, count, more)


def in_all_cohorts(values: Values, cohorts: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The code and the cohort of every row of a table of all distinct values in all cohorts.

    Parameters: count, cells of a value; a table of more than 2**28 cells is refused.
    """
    if values.distinct * cohorts * count > LARGEST:
        raise ValueError(
            f"members: {values.distinct} values in {cohorts} cohorts with {count} cells each are "
            f"more than {LARGEST} entries; take at most {LARGEST // (cohorts * count)} values at a "
            "time, or fewer cohorts."
        )
    codes = np.repeat(np.arange(values.distinct), cohorts)
    return codes, np.tile(np.arange(cohorts, dtype=np.int32), values.distinct)


def _heads(cohorts: np.ndarray, block: int) -> np.ndarray:
    """What is hashed before the value, a row for every cohort."""
    out = np.empty((cohorts.size, len(HEAD) + 8), np.uint8)
    out[:, : len(HEAD)] = np.frombuffer(HEAD, np.uint8)
    out[:, len(HEAD) : -4] = cohorts.astype(">u4")[:, np.newaxis].view(np.uint8)
    out[:, -4:] = np.frombuffer(struct.pack(">I", block), np.uint8)
    return out
