"""Damaged files, resealed: what an attacker writes who can edit a file and mend its checksum.

`python damage.py EXAMPLES FIRST COUNT AT` damages examples, one case after the other, each from its
own number, and loads the result. It prints a line for each fault and one of figures at the end, and
keeps the number of the case in the file AT; `faults` runs such processes, ends one that a case
holds up, and goes on after it.
"""

import copy
import json
import mmap
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

EDGE = 64
SECONDS, BYTES = 2.0, 200 << 20  # that a case may take
DEEP: list[Any] = []
for _ in range(400):
    DEEP = [DEEP]
EXTREMES: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 255, 4096, 65535, 65536, 10**6, 10**9, 2**31 - 1, 2**31, 2**32, 2**40, 2**47),
    *(2**48, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63), 10**40, 10**400, 10**4000),
    *(0.0, -0.0, 0.5, 1e-9, 5e-324, 1e-300, 1e15, 1e16, 1e150, 1e200, 1.7e308, -1.7e308, 1e-5),
    *(float("nan"), float("inf"), float("-inf"), True, False, None, "", "1e999999999", "9" * 4000),
    *("1/3", "1/0", "x" * 100_000, "\ud800", "\x00", [], {}, [0], [[0, 1]], {"kind": "CountMin"}),
    *([0] * 10_000, [[0.0, 1.0]] * 5000, [1e308] * 12, DEEP, {"a": DEEP}, list("abc")),
)


def damaged(example: tuple[str, bytes], case: random.Random) -> bytes:
    """The example with one to four faults."""
    loader, data = example
    for _ in range(1 if case.random() < 0.7 else case.randint(2, 4)):
        data = _once(loader, data, case)
    return data


def _once(loader: str, data: bytes, case: random.Random) -> bytes:
    if case.random() < 0.12:
        return _bytes_changed(data, case)
    if data[:4] == b"SFUM" or data[:4] == b"SFIX":
        try:
            return _packed(data, case)
        except (ValueError, TypeError, IndexError, KeyError, AttributeError, RecursionError):
            return _bytes_changed(data, case)
    if data[:1] == b"{" and loader != "reports":
        try:
            return _json(json.loads(data), case)
        except (ValueError, RecursionError):
            return _bytes_changed(data, case)
    return _text(data, case)


def _bytes_changed(data: bytes, case: random.Random) -> bytes:
    body = bytearray(data)
    what = case.randrange(4)
    if what == 0 and body:
        for _ in range(case.randint(1, 4)):
            body[case.randrange(len(body))] = case.randrange(256)
    elif what == 1:
        del body[case.randint(0, len(body)) :]
    elif what == 2:
        at = case.randint(0, len(body))
        body[at:at] = case.randbytes(case.choice((1, 8, 64, 1000)))
    elif body:
        at, size = case.randrange(len(body)), case.choice((1, 8, 64))
        body[at : at + size] = bytes([case.choice((0, 255, 127, 128))]) * size
    if body[:4] == b"SFUM" and case.random() < 0.7:
        return _sealed(bytes(body[:-8]))
    return bytes(body)


def _sealed(body: bytes) -> bytes:
    return body + _checksum(body)


def _checksum(body: bytes) -> bytes:
    import xxhash  # the independent one

    return xxhash.xxh64(body).digest()[::-1]


def _packed(data: bytes, case: random.Random) -> bytes:
    """A file with arrays, of which the header or an array is changed, all checksums mended."""
    index = data[:4] == b"SFIX"
    start = 24 if index else 16
    length = int.from_bytes(data[8:16], "little")
    header, at = json.loads(data[start : start + length]), start + length
    arrays = []
    for _, dtype, shape, *_ in header["arrays"]:
        at += -at % EDGE
        size = int(dtype[2:])
        for axis in shape:
            size *= axis
        arrays.append(data[at : at + size])
        at += size
    what = case.random()
    if what < 0.7 or not arrays:
        header = _changed(header, case)
    elif what < 0.9:
        at = case.randrange(len(arrays))
        if arrays[at][:4] == b"SFUM" or arrays[at][:1] == b"{":  # a file inside of the file
            arrays[at] = _once("", arrays[at], case)
            if case.random() < 0.9:
                header["arrays"][at][2] = [len(arrays[at])]
        elif arrays[at]:
            cells = bytearray(arrays[at])
            for _ in range(case.randint(1, 4)):
                size = case.choice((1, 4, 8, 8, 64))
                place = case.randrange(len(cells)) // size * size
                value = case.choice((b"\0", b"\xff", b"\x7f", b"\x80", case.randbytes(1)))
                room = len(cells[place : place + size])
                cells[place : place + room] = (value * size)[:room]
            arrays[at] = bytes(cells)
    elif what < 0.95:
        case.shuffle(arrays)
    else:
        at = case.randrange(len(arrays))
        change = case.choice((lambda: arrays.pop(at), lambda: arrays.append(arrays[at])))
        change()
    return _repacked(data, header, arrays, index)


def _repacked(data: bytes, header: Any, arrays: list[bytes], index: bool) -> bytes:
    if index and isinstance(header, dict) and isinstance(header.get("arrays"), list):
        for line, array in zip(header["arrays"], arrays, strict=False):
            if isinstance(line, list) and len(line) == 4:
                line[3] = _checksum(array).hex()
    text = json.dumps(header).encode()
    out = bytearray(data[:8] + len(text).to_bytes(8, "little"))
    if index:
        out += _checksum(bytes(out) + text)
    out += text
    for array in arrays:
        out += bytes(-len(out) % EDGE) + array
    return bytes(out) if index else _sealed(bytes(out))


def _json(found: Any, case: random.Random) -> bytes:
    return json.dumps(_changed(found, case)).encode()


def _changed(header: Any, case: random.Random) -> Any:
    """The JSON value with one of its parts put to an extreme, dropped, doubled or renamed."""
    spots = list(_spots(header))
    if not spots:
        return _extreme(case)
    # A number of the list of arrays only says what the size of the file says too.
    inner = [spot for spot in spots if spot[0] != "arrays"]
    path = case.choice(inner if inner and case.random() < 0.9 else spots)
    holder = header
    for step in path[:-1]:
        holder = holder[step]
    last, what = path[-1], case.random()
    if what < 0.85:
        holder[last] = _other(holder[last], case)
    elif what < 0.9:
        del holder[last]
    elif what < 0.95 and isinstance(holder, list):
        holder.insert(last, holder[last])
    elif isinstance(holder, dict):
        holder[case.choice(("unknown", "", *holder))] = holder[last]
    return header


def _other(value: Any, case: random.Random) -> Any:
    if type(value) in (int, float) and case.random() < 0.3:
        return case.choice((value + 1, value - 1, value * 2, -value, value * 2**20, value // 3))
    if isinstance(value, str) and case.random() < 0.3:
        return case.choice((value + "x", value[:-1], value * 100, value.upper()))
    return _extreme(case)


def _extreme(case: random.Random) -> Any:
    return copy.deepcopy(case.choice(EXTREMES))  # which later faults may change


def _spots(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """The paths of all parts of a JSON value; of a long list of the first few only."""
    if path:
        yield path
    inside = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list) and len(path) < 12:
        inside = enumerate(value[:8])
    for name, part in inside:
        yield from _spots(part, (*path, name))


def _text(data: bytes, case: random.Random) -> bytes:
    """Lines of text, with a field put to an extreme or a line dropped or doubled."""
    if case.random() < 0.3:
        return _bytes_changed(data, case)
    lines = data.split(b"\n")
    at = case.randrange(len(lines))
    if case.random() < 0.2:
        lines.insert(at, lines[at])
    mark = b'"' if b'"' in lines[at] else b","
    fields = lines[at].split(mark)
    value = case.choice(EXTREMES)
    try:
        written = value if isinstance(value, str) else json.dumps(value)
    except (ValueError, RecursionError):
        written = "nan"
    fields[case.randrange(len(fields))] = written.encode("utf-8", "surrogatepass")
    lines[at] = mark.join(fields)
    return b"\n".join(lines)


def address_space() -> tuple[int, int]:
    """The most address space that this process ever held, and what it holds now, in bytes."""
    with open("/proc/self/status", "rb") as file:
        text = file.read()
    if b"VmPeak" not in text:  # not Linux
        return 0, 0
    peak, size = (text.partition(name)[2].split(None, 1)[0] for name in (b"VmPeak:", b"VmSize:"))
    return int(peak) << 10, int(size) << 10


def work(examples: list[tuple[str, bytes]], first: int, count: int, at: Any, tell: Any) -> None:
    """Load damaged examples, each number noted in `at`, and tell of whatever is wrong."""
    from support.stored_files import LOADERS

    for loader, data in examples:  # so that kernels and tables are there
        LOADERS[loader][0](data)
    tried, began = 0, time.process_time()
    slowest, most, start = (0.0, first, ""), 0, address_space()[1]
    for number in range(first, first + count):
        case = random.Random(number)
        loader, data = example = case.choice(examples)
        try:
            data = damaged(example, case)
        except ValueError:  # what JSON or Python refuses to write
            continue
        load, allowed = LOADERS[loader]
        at[:8] = number.to_bytes(8, "little")
        (peak, size), begin, wrong = address_space(), time.process_time(), ""
        try:
            load(data)
        except allowed as error:
            if loader in STRICT and type(error) not in allowed:
                wrong = f"{type(error).__name__}: {error!s:.200}"
        except Exception as error:
            wrong = f"{type(error).__name__}: {error!s:.200}"
        seconds = time.process_time() - begin  # others may use the machine
        tried, slowest = tried + 1, max(slowest, (seconds, number, loader))
        if seconds > SECONDS:
            wrong = f"took {seconds:.1f} s"
        if (now := address_space()[0]) > peak:  # else no more than some case before
            most = max(most, now - size)
            if now > size + BYTES:
                wrong = f"took {(now - size) >> 20} MiB"
        if wrong:
            tell(f"fault {number} {loader} {wrong}")
    tell(
        f"done {tried} loads in {time.process_time() - began:.0f} s of CPU, at most {most >> 20} "
        f"MiB for one, {(address_space()[1] - start) >> 20} MiB more at the end than at the "
        f"start, the slowest {slowest[0]:.3f} s ({slowest[2]}, case {slowest[1]})"
    )


STRICT = ("sketch", "density", "sampler", "share", "model", "index", "counts")


def faults(examples: Path, first: int, count: int, patience: float = 10.0) -> list[str]:
    """The faults of so many cases from the first on; a process that hangs or dies is one."""
    found, end = [], first + count
    while first < end:
        with tempfile.NamedTemporaryFile() as at:
            at.write((first - 1).to_bytes(8, "little", signed=True))
            at.flush()
            lines = _run(examples, first, end - first, Path(at.name), patience)
            last = int.from_bytes(Path(at.name).read_bytes(), "little", signed=True)
        found += [line for line in lines if line.startswith("fault")]
        if lines and lines[-1].startswith("done"):
            print(lines[-1], flush=True)  # pytest -s shows it
            break
        if last < first:
            raise RuntimeError("no case was tried: the process does not start.")
        found.append(f"fault {last} ? hangs or ends the process")
        first = last + 1
    return found


def _run(examples: Path, first: int, count: int, at: Path, patience: float) -> list[str]:
    """The lines of one process, which is ended where one case takes too long."""
    command = [sys.executable, __file__, str(examples), str(first), str(count), str(at)]
    with tempfile.TemporaryFile() as out, subprocess.Popen(command, stdout=out) as process:
        last, since = at.read_bytes(), time.monotonic()
        while process.poll() is None:
            time.sleep(0.05)
            now = at.read_bytes()
            if now != last:
                last, since = now, time.monotonic()
            begun = int.from_bytes(now, "little", signed=True) >= first
            if time.monotonic() - since > (patience if begun else 300.0):
                process.kill()
        out.seek(0)
        return out.read().decode().splitlines()


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    listed = json.loads(Path(sys.argv[1]).read_text())
    examples = [(loader, text.encode("latin-1")) for loader, text in listed]
    with open(sys.argv[4], "r+b") as file, mmap.mmap(file.fileno(), 8) as at:
        work(examples, *map(int, sys.argv[2:4]), at, lambda line: print(line, flush=True))


if __name__ == "__main__":
    main()
