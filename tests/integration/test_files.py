"""Every loader meets damaged files, resealed: it answers or raises its format error, quickly."""

import contextlib
import errno
import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sfumato
from sfumato import cli, density, recommend, retrieve, sketch, telemetry
from sfumato.core import file_format as form
from sfumato.core import storage
from sfumato.core.file_format import SketchFormatError as Flawed
from sfumato.core.file_format import checksum, pack
from sfumato.density import SketchRegressor
from sfumato.errors import FormatError
from sfumato.privacy import Ledger
from sfumato.privacy.mechanisms.base import Answer
from sfumato.sketch import CountMin, KernelSlices, SketchFormatError, load
from support import file_damage, stored_files

QUICK, MANY = 8_000, 1_000_000


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    path = tmp_path_factory.mktemp("examples") / "examples.json"
    # Warnings of private fits on few rows have no place here; a process of its own keeps them.
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        DUMP,
        str(Path(__file__).parents[1]),
        str(path),
    ]
    subprocess.run(command, check=True)
    return path


DUMP = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from support import stored_files
stored_files.dump(Path(sys.argv[2]))
"""


def listed(path):
    return [
        (loader, text.encode("latin-1"))
        for loader, text in file_damage.json.loads(path.read_text())
    ]


def test_every_kind_that_can_be_written_has_an_example(examples):
    made = listed(examples)
    held = set().union(*(stored_files.kinds_in(data) for _, data in made))
    assert stored_files.written_kinds() - held == set()
    assert {loader for loader, _ in made} == set(stored_files._loaders())


def test_every_example_loads(examples):
    for loader, data in listed(examples):
        stored_files.LOADERS[loader][0](data)


# Loaders whose files tell nothing of themselves, or need more than a path.
NOT_LOADED = {"reports", "params.csv", "counts.csv", "map.csv", "reports.csv"}


def same(one, other):
    """Whether two things that were loaded are the same, down to every cell."""
    assert type(one) is type(other)
    if hasattr(one, "to_bytes"):
        return one.to_bytes() == other.to_bytes()
    if not hasattr(one, "save"):
        return one == other
    return stored_files._saved(one) == stored_files._saved(other)


def test_one_load_reads_every_example_as_its_room_does(examples, tmp_path):
    path = tmp_path / "file"
    for loader, data in listed(examples):
        path.write_bytes(data)
        if loader in NOT_LOADED:
            for source in (data, path, str(path)):
                with pytest.raises(FormatError) as result:
                    sfumato.load(source)
                assert type(result.value) is FormatError
                assert "\n" not in str(result.value)
            continue
        expected = stored_files.LOADERS[loader][0](data)
        for source in (data, bytearray(data), memoryview(data), path, str(path)):
            assert same(sfumato.load(source), expected), (loader, type(source))


# An example of every kind is read by a process that has imported nothing but the package itself:
# classes that are known only once their module is imported would not be found.
FRESH = """
import json, os, sys
import numpy, pyarrow  # once for all
import sfumato
for at, (loader, text) in enumerate(json.load(open(sys.argv[1]))):
    if loader in sys.argv[2:]:
        continue
    child = os.fork()
    if not child:
        try:
            sfumato.load(text.encode("latin-1"))
        except BaseException as error:
            print(f"example {at}, {loader}: {type(error).__name__}: {error}", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.parametrize(
    "loaders",
    [("scheme", "counts"), pytest.param((), marks=pytest.mark.soak)],  # all take a minute
    ids=["telemetry", "all"],
)
def test_a_fresh_process_reads_every_kind(examples, tmp_path, loaders):
    first = {}
    for loader, data in listed(examples):
        kinds = data if loader in ("scheme", "counts") else frozenset(stored_files.kinds_in(data))
        if loader in loaders or not loaders:
            first.setdefault((loader, kinds), [loader, data.decode("latin-1")])
    (tmp_path / "some.json").write_text(json.dumps(list(first.values())))
    command = [sys.executable, "-c", FRESH, str(tmp_path / "some.json"), *sorted(NOT_LOADED)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ""


def test_one_load_raises_nothing_but_the_format_error(examples):
    made = listed(examples)
    for number in range(1000):
        case = random.Random(number)
        try:
            data = file_damage.damaged(case.choice(made), case)
        except ValueError:  # what JSON or Python refuses to write
            continue
        with contextlib.suppress(FormatError):
            sfumato.load(data)


def test_inspect_knows_what_load_reads(examples, tmp_path):
    kinds = {}
    for loader, data in listed(examples):
        if loader not in (*NOT_LOADED, "statement"):  # which is shown with what it is of
            kinds[type(stored_files.LOADERS[loader][0](data)).__name__] = data
    for name, data in kinds.items():
        (tmp_path / "file").write_bytes(data)
        out = CliRunner().invoke(cli.app, ["inspect", str(tmp_path / "file"), "--json"])
        assert out.exit_code == 0, (name, out.output)
        found = json.loads(out.stdout)
        assert found["kind"] == name or found["kind"].startswith("telemetry "), found


ROOMS = """
import sys, sfumato
rooms = "attack cli density profile recommend retrieve sketch telemetry".split()
for path in sys.argv[1:]:
    before = set(sys.modules)
    sfumato.load(path)
    print(*[room for room in rooms if "sfumato." + room in set(sys.modules) - before])
"""


def test_one_load_imports_the_room_of_a_file_and_what_that_stands_on(examples, tmp_path):
    firsts = {
        "CountMin": "sketch",
        "BinaryIndex": "retrieve",
        "ReleasedBlip": "profile",
        "telemetry counts": "telemetry",
        "DenseFactorization": "recommend",
        "SketchDensity": "density",
    }
    made = [data for _, data in listed(examples)]
    for kind in firsts:
        data = next(each for each in made if f'{{"kind": "{kind}"'.encode() in each[:60])
        (tmp_path / kind).write_bytes(data)
    command = [sys.executable, "-c", ROOMS, *(str(tmp_path / kind) for kind in firsts)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == list(firsts.values())


def test_every_kind_is_registered_by_its_home():
    stored_files.import_all()
    for registry in storage.REGISTRIES:
        for kind, made in registry.items():
            if not made.__module__.startswith("sfumato."):
                continue
            home = sys.modules[storage.HOMES.get(kind, "sfumato.sketch")]
            assert home.__name__ == made.__module__ or getattr(home, made.__name__, None) is made, (
                kind
            )


def test_one_load_refuses_what_is_no_file_of_ours(tmp_path):
    for wrong in (3, None, ["a"]):
        with pytest.raises(FormatError, match="load: a path or bytes are expected, not "):
            sfumato.load(wrong)
    for junk in (b"", b"S", b"SFUM", b"a,b\n1,2\n", b"PK\3\4" * 9, b'{"a": 1}', b"{"):
        (tmp_path / "junk").write_bytes(junk)
        for source in (junk, tmp_path / "junk"):
            with pytest.raises(FormatError):
                sfumato.load(source)
    with pytest.raises(FileNotFoundError):
        sfumato.load(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        sfumato.load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    for irregular in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(OSError, match="is not a regular file"):
            sfumato.load(irregular)


def test_one_load_names_what_opens_a_ledger(tmp_path):
    Ledger(tmp_path / "ledger").create("views", epsilon=1)
    with pytest.raises(FormatError, match=r"is a ledger; open it with .*Ledger\(path\)"):
        sfumato.load(tmp_path / "ledger")


def test_one_load_reads_a_class_of_the_caller():
    data = CountMin(64).update([1]).to_bytes()
    other = resealed(data, lambda header: header.update(kind="HomeMadeMin"))
    with pytest.raises(FormatError, match="hold a 'HomeMadeMin', which nothing that is imported"):
        sfumato.load(other)

    class HomeMadeMin(CountMin):
        pass

    try:
        assert type(sfumato.load(other)) is HomeMadeMin
    finally:
        del storage.Stored.KINDS["HomeMadeMin"]


def test_damaged_files_are_refused_by_the_format_error_in_time_and_memory(examples):
    assert file_damage.faults(examples, 0, QUICK) == []


@pytest.mark.soak
def test_a_million_damaged_files(examples):
    # The first QUICK of them belong to `make test`. Two processes, as on two cores.
    from concurrent.futures import ThreadPoolExecutor

    half = (MANY - QUICK) // 2
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(file_damage.faults, examples, QUICK + k * half, half) for k in (0, 1)]
        found = [fault for run in runs for fault in run.result()]
    if found:
        pytest.fail("\n".join(found))  # each of them, which an assertion would cut


def header_of(data):
    length = int.from_bytes(data[8:16], "little")
    return file_damage.json.loads(data[16 : 16 + length])


def resealed(data, change):
    """The file of a sketch or model with its header changed and its checksum mended."""
    length = int.from_bytes(data[8:16], "little")
    header = header_of(data)
    change(header)
    text = file_damage.json.dumps(header).encode()
    body = data[:8] + len(text).to_bytes(8, "little") + text
    begin = 16 + length
    body += bytes(-len(body) % 64) + data[begin + -begin % 64 : -8]
    return body + checksum(memoryview(body))


def test_a_regressor_of_an_endless_degree_is_refused_at_once():
    rows = np.random.default_rng(0).normal(size=(50, 2))
    data = SketchRegressor().fit(rows, rows.sum(axis=1)).to_bytes()

    def endless(header):
        header["state"]["learned"]["degree"] = 2**63 - 1

    begin = time.process_time()
    with pytest.raises(SketchFormatError, match="degree must be an integer from 0 to"):
        density.load(resealed(data, endless))
    assert time.process_time() - begin < 1


class OddError(Exception):
    """What no loader expects."""


@pytest.mark.parametrize(
    "found", [OddError(), MemoryError(), RecursionError(), ZeroDivisionError()]
)
def test_whatever_content_raises_is_a_format_error_but_not_ctrl_c(found):
    def read():
        with form.damaged("Thing"):
            raise found

    with pytest.raises(Flawed, match="Thing: damaged content"):
        read()
    found = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        read()


def test_a_header_declares_all_bytes_before_any_array_is_made():
    data = CountMin(64).to_bytes()
    for shape in ([4, 2**40], [4, 63], [5, 64], [0, 2**63], [2**60, 0]):

        def longer(header, shape=shape):
            header["arrays"][0][2] = shape

        with pytest.raises(SketchFormatError, match="header is damaged"):
            load(resealed(data, longer))


def test_numbers_that_are_not_finite_are_no_header():
    for number in (float("nan"), float("inf")):

        def infinite(header, number=number):
            header["parameters"]["width"] = number

        with pytest.raises(SketchFormatError, match="header is damaged"):
            load(resealed(CountMin(64).to_bytes(), infinite))


def test_a_header_nested_deep_is_refused_at_once():
    # NumPy takes seconds to find that a list a few hundred levels deep is no array.
    sketch = KernelSlices(1.0, ([0.0, 0.0], [1.0, 1.0]), rows=2)

    def deep(header):
        header["parameters"]["bounds"] = [file_damage.DEEP, file_damage.DEEP]

    begin = time.process_time()
    with pytest.raises(SketchFormatError, match="header is damaged"):
        load(resealed(sketch.to_bytes(), deep))
    assert time.process_time() - begin < 1


def test_a_long_text_among_numbers_asks_for_no_memory():
    # As one array of texts the 10,000 numbers would take 4 GB.
    sketch = KernelSlices(1.0, ([0.0, 0.0], [1.0, 1.0]), rows=2)
    for low in ([0.0] * 10_000 + ["x" * 100_000], [[0.0, 1.0]] * 5000 + [[0.0, "x" * 100_000]]):

        def mixed(header, low=low):
            header["parameters"]["bounds"] = [low, [1.0] * len(low)]

        begin = time.process_time()
        with pytest.raises(SketchFormatError, match="bounds must be a pair"):
            load(resealed(sketch.to_bytes(), mixed))
        assert time.process_time() - begin < 1


def test_a_header_that_could_not_be_read_is_not_written():
    with pytest.raises(ValueError, match="Thing: its parameters take"):
        pack({"kind": "Thing", "parameters": "x" * form.HEADER_LIMIT}, {})


LOADS = [
    sketch.load,
    density.load,
    density.SketchDensity.load,
    recommend.load,
    recommend.DenseFactorization.load,
    retrieve.load,
    retrieve.BinaryIndex.load,
    telemetry.Counts.load,
]


@pytest.mark.parametrize("read", LOADS)
def test_only_regular_files_are_read(tmp_path, read):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (Path("/dev/zero"), pipe, tmp_path):
        with pytest.raises(OSError, match=r"is not a regular file|is a folder") as result:
            read(path)
        assert result.value.errno in (errno.EINVAL, errno.EISDIR)
        assert result.value.filename == str(path)


@pytest.mark.parametrize("read", LOADS)
def test_a_large_file_of_zeros_or_with_a_forged_size_is_refused_unread(tmp_path, read):
    path, peak = tmp_path / "large", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for begin in (b"", b"SFUM\x01\0\0\0" + (2**40).to_bytes(8, "little"), CountMin(8).to_bytes()):
        path.write_bytes(begin)
        os.truncate(path, 3 << 30)
        with pytest.raises(ValueError, match=r"magic|damaged|cut off|not an index"):
            read(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 50_000


COMMANDS = [
    ["inspect", "F"],
    ["sketch", "info", "F"],
    ["sketch", "query", "F", "7"],
    ["density", "query", "F", "--at", "1,2"],
    ["recommend", "F", "7"],
    ["profiles", "similar", "F", "7"],
    ["index", "query", "F", "F"],
]
PEAK = """
import resource, subprocess, sys
command = [sys.executable, "-m", "sfumato", *sys.argv[1:]]
done = subprocess.run(command, capture_output=True, text=True)
result = (done.returncode, len((done.stdout + done.stderr).splitlines()))
print(*result, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_commands_refuse_what_is_no_file_of_ours_in_one_line_and_little_memory(tmp_path, words):
    os.mkfifo(tmp_path / "pipe")
    zeros = tmp_path / "zeros"
    zeros.touch()
    os.truncate(zeros, 3 << 30)
    for path in ("/dev/zero", tmp_path / "pipe", tmp_path, zeros):
        given = [str(path) if word == "F" else word for word in words]
        command = [sys.executable, "-c", PEAK, *given]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        code, lines, peak = map(int, done.stdout.split())
        assert (code, lines) == (2, 1)
        assert peak < 100_000  # kB; a command that imports a room takes more


def test_an_answer_of_another_type_asks_for_no_memory():
    document = file_damage.json.loads(Answer(1.5, _statement()).to_bytes())
    for dtype in ("S2000000000", "V999999999", "(1000,1000,1000)f8", "O", "<U999999999", ">f8", 7):
        with pytest.raises(ValueError, match="Answer: the bytes are none, or damaged"):
            Answer.from_bytes(file_damage.json.dumps({**document, "dtype": dtype}).encode())


def _statement():
    from sfumato.privacy.accounting.losses import Pure
    from sfumato.privacy.statement import PrivacyStatement

    return PrivacyStatement(
        unit="event", relation="add/remove", mechanism="noise", epsilon=1.0, delta=0.0,
        loss=Pure(1.0).to_dict(), covers="the answer",
    )  # fmt: skip


def test_directions_of_an_index_are_made_when_they_are_used():
    from sfumato.retrieve.encoders.base import CodeEncoder
    from sfumato.retrieve.encoders.factories import qolsh

    rows = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    fitted = qolsh(16, center=True).fit(rows)
    again = CodeEncoder.from_state(*fitted.state())
    assert "directions_" not in vars(again)
    assert np.array_equal(again.encode(rows).words, fitted.encode(rows).words)
    assert np.array_equal(again.directions_, fitted.directions_)
    assert not hasattr(again, "no_such_name")
