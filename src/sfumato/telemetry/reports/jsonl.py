"""Reports as JSON lines: written in one canonical form, read in any that JSON allows.

{"v":1,"params":"<16 hex>","cohort":3,"bits":"<hex of the payload>","id":"<32 hex>"}

Malformed lines are counted and never raise.
"""

import gzip
import json
import os
import zlib
from binascii import unhexlify
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from sfumato.core.file_format import atomic_writer
from sfumato.core.validation import integer
from sfumato.kernels.telemetry import report_lines
from sfumato.telemetry.reports.reports import ID_BYTES, Reports
from sfumato.telemetry.schemes.base import Scheme

__all__ = [
    "LONGEST",
    "complete_lines",
    "count",
    "line_bytes",
    "read_reports",
    "to_lines",
    "write_reports",
    "zipped",
]

LONGEST = 1 << 20  # bytes of a line that is parsed; the longest report has 16,500


def complete_lines(source: Any, size: int, refused: dict[str, int]) -> Iterator[bytes]:
    """Yield pieces of about `size` bytes, each ending with a line feed.

    A line above LONGEST, and what follows damage in a .gz file, is left out and counted in
    `refused` as "unreadable". A path is opened at once, so that a missing file raises here.
    """
    return _cut_at_lines(_gathered(_chunks(source, size, refused), size), refused)


def zipped(path: str | os.PathLike[str]) -> bool:
    """Return whether the name of a file says that it is compressed."""
    return os.fspath(path).endswith(".gz")


def count(refused: dict[str, int], reason: str) -> None:
    """Add one to the count of a reason."""
    refused[reason] = refused.get(reason, 0) + 1


def _chunks(source: Any, size: int, refused: dict[str, int]) -> Iterator[bytes]:
    """Return the bytes of a source in pieces; a missing file raises at once."""
    if isinstance(source, str | os.PathLike):
        opened: Any = gzip.open if zipped(source) else open
        return _read(opened(source, "rb"), size, refused, close=True)
    if isinstance(source, bytes | bytearray | memoryview):
        return iter([bytes(source)])
    if hasattr(source, "read"):
        return _read(source, size, refused, close=False)
    if not isinstance(source, Iterable):
        raise TypeError(
            "read_reports: source must be a path, bytes, a file or lines, not "
            f"{type(source).__name__}."
        )
    return (_encoded(line).rstrip(b"\r\n") + b"\n" for line in source)


def _read(file: IO[Any], size: int, refused: dict[str, int], *, close: bool) -> Iterator[bytes]:
    # read1 returns what was unpacked before the damage in a .gz file.
    """Yield the bytes of a file until its end or damage, which is counted."""
    read = getattr(file, "read1", file.read)
    try:
        while piece := read(size):
            yield _encoded(piece)
    except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError):
        count(refused, "unreadable")
    finally:
        if close:
            file.close()


def _gathered(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Join chunks to pieces of at least `size` bytes."""
    gathered, length = [], 0
    for chunk in chunks:
        gathered.append(chunk)
        length += len(chunk)
        if length >= size:
            yield b"".join(gathered)
            gathered, length = [], 0
    yield b"".join(gathered)


def _encoded(text: Any) -> bytes:
    """Return a line or piece as bytes."""
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    return bytes(text) if isinstance(text, bytes | bytearray) else b"not a line"


def _cut_at_lines(chunks: Iterator[bytes], refused: dict[str, int]) -> Iterator[bytes]:
    """Yield the same bytes, cut at line ends; a line that never ends is dropped and counted."""
    tail, skipping = b"", False
    for chunk in chunks:
        if skipping:
            skipping = b"\n" not in chunk
            chunk = b"" if skipping else chunk.split(b"\n", 1)[1]
        end = chunk.rfind(b"\n") + 1
        if end:
            yield tail + chunk[:end]
            tail = b""
        tail += chunk[end:]
        if len(tail) > LONGEST:
            count(refused, "unreadable")
            tail, skipping = b"", True
    if tail:
        yield tail + b"\n"


VERSION = 1
ROWS = integer(1, 2**24)
BLOCK = 1 << 16  # reports that are made text at a time
DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
VALUES = np.full(256, 255, np.uint8)
VALUES[DIGITS] = VALUES[np.frombuffer(b"0123456789ABCDEF", np.uint8)] = np.arange(16)


def write_reports(path: str | os.PathLike[str], reports: Reports | Iterable[Reports]) -> int:
    """Write reports to a file, one JSON line each.

    Parameters
    ----------
    path : path_like
        File to write, compressed if the name ends in .gz. It appears under its name only when
        complete.
    reports : Reports or iterable of Reports
        One batch or many. What they refused is not written.

    Returns
    -------
    int
        Number of reports written.

    Examples
    --------
    >>> import tempfile
    >>> from sfumato.telemetry import Rappor, ReportEncoder
    >>> reports = ReportEncoder(Rappor(f=0.5)).encode_many(["tea", "milk"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_reports(Path(folder) / "reports.jsonl.gz", reports)
    2
    """
    batches = [reports] if isinstance(reports, Reports) else reports
    if not isinstance(batches, Iterable):
        raise TypeError(f"write_reports: reports must be Reports, not {type(reports).__name__}.")
    written = 0
    with atomic_writer(Path(path)) as file:
        # The time of writing is left out of the file, so that equal reports give equal files.
        packed = gzip.GzipFile("", "wb", 6, file, mtime=0) if zipped(path) else None
        for batch in batches:
            if not isinstance(batch, Reports):
                raise TypeError(
                    f"write_reports: a batch must be Reports, not {type(batch).__name__}."
                )
            for start in range(0, len(batch), BLOCK):
                (packed or file).write(to_lines(batch.take(slice(start, start + BLOCK))))
            written += len(batch)
        if packed is not None:
            packed.close()
    return written


def to_lines(reports: Reports) -> bytes:
    """Return the reports as text, one line each."""
    parts = _parts(reports.scheme)
    width = sum(map(len, parts)) + 11 + 2 * (reports.payload.shape[1] + ID_BYTES)
    out, size = np.empty(len(reports) * width, np.uint8), np.zeros(1, np.int64)
    columns = (reports.cohorts, reports.payload, reports.ids)
    report_lines.format_lines(parts, DIGITS, *columns, out, size)
    return out[: size[0]].tobytes()


def line_bytes(scheme: Scheme) -> int:
    """Return the length of the longest line of a report, line feed included."""
    digits = len(str(scheme.cohorts - 1))
    return sum(map(len, _parts(scheme))) + digits + 2 * (scheme.payload_bytes + ID_BYTES)


def read_reports(source: Any, scheme: Scheme, *, rows: int = 1 << 17) -> Iterator[Reports]:
    """Read reports from a file or lines, in batches.

    Parameters
    ----------
    source : object
        Path (compressed if it ends in .gz), bytes, open file, or iterable of lines of text or
        bytes.
    scheme : Scheme
        Parameters that the clients used.
    rows : int, default=131072
        Largest number of reports in a batch, from 1 to 2**24.

    Returns
    -------
    iterator of Reports
        Batches in order, each with the count of what was left out in `refused`.

    Notes
    -----
    **Guarantee.** No line stops the reading and none is shown. Left out are lines that are
    "unreadable" (no JSON, a field missing or no hex; a line above 1 MiB; whatever follows damage in
    a .gz file), of another "version", of other "parameters", with a payload of another "length" or
    a "cohort" out of range. Empty lines are skipped. Only a file that cannot be opened or read
    raises.

    Examples
    --------
    >>> from sfumato.telemetry import Rappor
    >>> scheme = Rappor(8, 2, 4, f=0.5)
    >>> text = '{"v":1, "params":"%s", "cohort":3, "bits":"0a", "id":"%s"}'
    >>> (one,) = read_reports([text % (scheme.fingerprint, "7" * 32), "no report"], scheme)
    >>> one.cohorts, one.payload, dict(one.refused)
    (array([3], dtype=int32), array([[10]], dtype=uint8), {'unreadable': 1})
    """
    rows = ROWS.check("read_reports", "rows", rows)
    size = min(max(rows * line_bytes(scheme), 1 << 16), 1 << 25)
    refused: dict[str, int] = {}
    return _batches(complete_lines(source, size, refused), scheme, rows, refused)


def _parts(scheme: Scheme) -> tuple[np.ndarray, ...]:
    """Return the fixed texts before, between and after cohort, payload and id."""
    texts = (
        f'{{"v":{VERSION},"params":"{scheme.fingerprint}","cohort":',
        ',"bits":"',
        '","id":"',
        '"}\n',
    )
    return tuple(np.frombuffer(text.encode(), np.uint8) for text in texts)


def _batches(
    pieces: Iterator[bytes], scheme: Scheme, rows: int, refused: dict[str, int]
) -> Iterator[Reports]:
    """Yield Reports of at most `rows` rows from pieces of lines."""
    parts = _parts(scheme)
    for piece in pieces:
        text = np.zeros(len(piece) + line_bytes(scheme) + 16, np.uint8)
        text[: len(piece)] = np.frombuffer(piece, np.uint8)
        state = np.array([0, 0, 0, len(piece)], np.int64)
        while state[0] < len(piece):
            cohorts, payload, ids = _parse(
                text, parts, scheme, min(rows, len(piece)), state, refused
            )
            own_refused = dict(refused)
            refused.clear()
            if own_refused or len(cohorts):
                yield Reports(scheme, cohorts, payload, ids, own_refused)
    if refused:
        yield Reports(scheme, *_columns(scheme, 0), refused)


def _columns(scheme: Scheme, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return empty columns of cohorts, payloads and ids."""
    return (
        np.empty(rows, np.int32),
        np.empty((rows, scheme.payload_bytes), np.uint8),
        np.empty((rows, ID_BYTES), np.uint8),
    )


def _parse(
    text: np.ndarray,
    parts: tuple[np.ndarray, ...],
    scheme: Scheme,
    rows: int,
    state: np.ndarray,
    refused: dict[str, int],
) -> list[np.ndarray]:
    """Return the columns of the next lines: canonical ones by a kernel, others one by one."""
    digits = len(str(scheme.cohorts - 1))
    # One row more than there can be canonical lines: a line is parsed into the next row.
    most = int(state[3]) // (line_bytes(scheme) - digits) + 1
    columns, irregular = _columns(scheme, min(rows, most)), np.empty((rows, 3), np.int64)
    report_lines.parse_lines(
        text, parts, VALUES, scheme.cohorts, digits, *columns, irregular, state
    )
    read = [column[: state[1]] for column in columns]
    others = []
    for start, end, before in irregular[: state[2]].tolist():
        parsed = _line(text[start:end].tobytes(), scheme)
        if isinstance(parsed, tuple):
            others.append((before, *parsed))
        elif parsed:
            count(refused, parsed)
    return _inserted(read, others) if others else read


def _inserted(read: list[np.ndarray], others: list[tuple[int, int, bytes, bytes]]) -> list[Any]:
    """Insert rows that were read one by one among the others, in the order of the lines."""
    positions, cohorts, payload, ids = zip(*others, strict=True)
    rows: list[Any] = [
        np.array(cohorts, np.int32),
        *(
            np.frombuffer(b"".join(each), np.uint8).reshape(len(each), -1)
            for each in (payload, ids)
        ),
    ]
    at = np.array(positions)
    return [np.insert(column, at, more, axis=0) for column, more in zip(read, rows, strict=True)]


def _line(line: bytes, scheme: Scheme) -> tuple[int, bytes, bytes] | str:
    """Return cohort, payload and id of a line, or why it is left out ("" for a blank one)."""
    if not line.strip(b" \t\r"):
        return ""
    if len(line) > LONGEST:
        return "unreadable"
    try:
        return _fields(json.loads(line.decode()), scheme)
    except (ValueError, TypeError, KeyError, RecursionError):
        return "unreadable"


def _fields(fields: Any, scheme: Scheme) -> tuple[int, bytes, bytes] | str:
    """Return cohort, payload and id of parsed JSON, or why it is left out."""
    if type(fields["v"]) is not int:
        return "unreadable"
    if fields["v"] != VERSION:
        return "version"
    if not isinstance(fields["params"], str):
        return "unreadable"
    if fields["params"] != scheme.fingerprint:
        return "parameters"
    cohort, payload, name = fields["cohort"], unhexlify(fields["bits"]), unhexlify(fields["id"])
    if type(cohort) is not int or len(name) != ID_BYTES:
        return "unreadable"
    if len(payload) != scheme.payload_bytes:
        return "length"
    return (cohort, payload, name) if 0 <= cohort < scheme.cohorts else "cohort"
