"""Reports of a prefix discovery in files: lines of every group, in any order, read in one pass."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from sfumato.telemetry.discovery.prefixes import PrefixDiscovery, PrefixReports
from sfumato.telemetry.reports.jsonl import complete_lines, read_reports
from sfumato.telemetry.reports.reports import ID_BYTES, Reports, added
from sfumato.telemetry.reports.validation import HashSet, counted_once

__all__ = ["read_prefix_reports"]

PIECE = 1 << 24  # bytes of lines that are parted at a time
HEAD = b'{"v":1,"params":"'  # of a line as we write it
DIGITS = 16  # of the fingerprint that follows


def read_prefix_reports(
    sources: Iterable[Any], discovery: PrefixDiscovery, *, advance: Any = None
) -> PrefixReports:
    """Read the reports of a prefix discovery.

    Parameters
    ----------
    sources : iterable of object
        Paths (compressed if they end in .gz), bytes, open files, or iterables of lines.
    discovery : PrefixDiscovery
        Discovery whose parameters the clients used.
    advance : callable or None, default=None
        Called with the number of reports so far and None after each part that was read.

    Returns
    -------
    PrefixReports
        Reports of every group, each id once; `refused` counts by reason what was left out.

    Notes
    -----
    **Guarantee.** As of `read_reports`: no line stops the reading and none is shown.

    Examples
    --------
    >>> from sfumato.telemetry.reports.jsonl import to_lines
    >>> words = PrefixDiscovery(epsilon=4, length=4, alphabet="abcdef")
    >>> sent = words.encode_many(["cafe", "face"] * 50, seed=1)
    >>> lines = b"".join(map(to_lines, sent.groups))
    >>> read_prefix_reports([lines, b"no report"], words).refused
    {'unreadable': 1}
    """
    schemes = discovery.schemes
    positions = {scheme.fingerprint.encode(): at for at, scheme in enumerate(schemes)}
    groups: list[list[Reports]] = [[] for _ in schemes]
    known, done = [HashSet() for _ in schemes], 0
    refused: dict[str, int] = {}
    for source in sources:
        for piece in complete_lines(source, PIECE, refused):
            for at, lines in enumerate(_parted(piece, positions)):
                for batch in read_reports(lines, schemes[at]):
                    keep, left_out, known[at] = counted_once(schemes[at], batch, known[at])
                    groups[at].append(batch.take(keep))
                    refused.update(added([refused, batch.refused, left_out]))
                    done += int(keep.sum())
            if advance is not None:
                advance(done, None)
    own = [Reports.concat([_empty(s), *each]) for s, each in zip(schemes, groups, strict=True)]
    return PrefixReports(tuple(own), refused)


def _parted(piece: bytes, positions: dict[bytes, int]) -> list[bytes]:
    """Return the lines of each group; those of none go to the first, which says what they lack."""
    parts: list[list[bytes]] = [[] for _ in positions]
    begin, end = len(HEAD), len(HEAD) + DIGITS
    for line in piece.split(b"\n"):
        at = positions.get(line[begin:end])
        if at is None and line:
            at = next((own for name, own in positions.items() if b'"' + name + b'"' in line), 0)
        if at is not None:
            parts[at].append(line)
    return [b"\n".join([*lines, b""]) for lines in parts]


def _empty(scheme: Any) -> Reports:
    """Return no reports of a scheme."""
    payload, ids = (np.empty((0, width), np.uint8) for width in (scheme.payload_bytes, ID_BYTES))
    return Reports(scheme, [], payload, ids)
