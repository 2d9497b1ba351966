"""Base class of stored objects: bytes, == and repr from declared parameters and arrays; loading."""

import importlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar, get_type_hints

import numpy as np

from sfumato.core import file_format
from sfumato.core.file_format import SKETCH, Packed, Wording
from sfumato.core.tables import described
from sfumato.core.typing import Bytes
from sfumato.core.validation import Limit, checked_values, integer
from sfumato.errors import FormatError

__all__ = ["REGISTRIES", "Cells", "Stored", "class_of", "content_of", "load", "load_any", "read"]

T = TypeVar("T")
TOTAL = integer(-(2**63), 2**63 - 1)


@dataclass(frozen=True)
class Cells:
    """Declaration of one array: dtype, shape, merge operation and initial value.

    A length of -1 means "as many as are stored". A join of "" leaves the merge to `_join`.
    """

    dtype: Any
    shape: tuple[int, ...]
    join: Literal["add", "or", "max", "min", ""] = "add"
    start: int = 0


class Stored:
    """Base class of everything that is saved: sketches and their releases.

    A subclass annotates its parameters with their limits, and declares its scalar state in
    `_scalars` and its arrays in `_layout`. It can be read from files, unless `in_files=False` marks
    it as a mere base class.
    """

    KINDS: ClassVar[dict[str, type["Stored"]]] = {}
    version: ClassVar[int] = 1  # of the cells' meaning; files of another version are refused
    _scalars: ClassVar[dict[str, int | float | str]] = {}
    _limits: ClassVar[dict[str, Limit]] = {}

    def __init_subclass__(cls, *, in_files: bool = True) -> None:
        super().__init_subclass__()
        hints = get_type_hints(cls, include_extras=True)
        named = [*cls.__annotations__, *hints]  # a class's own order first
        cls._limits = {
            name: hints[name].__metadata__[0]
            for name in named
            if hasattr(hints[name], "__metadata__")
        }
        if in_files and cls._limits:
            Stored.KINDS[cls.__name__] = cls

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._limits and name in self.__dict__:
            kind = type(self).__name__
            raise AttributeError(f"{kind}: {name} cannot be changed; build another {kind}.")
        super().__setattr__(name, value)

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters that the object was built with, by name; they cannot be changed."""
        return {name: getattr(self, name) for name in self._limits}

    @property
    def nbytes(self) -> int:
        """Memory of all cells, in bytes."""
        return sum(int(array.nbytes) for array in self._arrays().values())

    def to_bytes(self) -> bytes:
        """Serialize the object.

        Returns
        -------
        bytes
            Header with kind, version, parameters and state, then the cells, then a checksum: a
            little more than `nbytes`. Read them with `from_bytes` or `sfumato.load`.
        """
        header = {
            "kind": type(self).__name__,
            "version": self.version,
            "parameters": self.parameters,
            "state": self._state(),
        }
        return file_format.pack(header, self._arrays())

    @classmethod
    def from_bytes(cls, data: Bytes) -> Self:
        """Restore an object from the bytes of `to_bytes`.

        Parameters
        ----------
        data : bytes_like
            Complete output of `to_bytes`, or content of a file of `save`.

        Returns
        -------
        Self
            The object, equal to the one that was serialized.

        Raises
        ------
        SketchFormatError
            The bytes are incomplete, damaged, of another class, or of a version that cannot be
            read.

        Notes
        -----
        **Guarantee.** Nothing is unpickled or executed, so untrusted bytes are safe to read.
        """
        return read(data, cls, class_of, _restored, "make it anew from its data")

    @classmethod
    def _reads(cls, packed: Packed) -> bool:
        """Whether a file of another version can be read; a subclass may convert it here."""
        return False

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the bytes of `to_bytes` to a file, atomically.

        Parameters
        ----------
        path : path_like
            Path of the file. An existing file is replaced at the end, in one step, so that readers
            never see a partial file.
        """
        file_format.write_atomic(Path(path), self.to_bytes())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        assert isinstance(other, Stored)
        mine, yours = self._arrays(), other._arrays()
        return (
            self.parameters == other.parameters
            and all(getattr(self, name) == getattr(other, name) for name in self._scalars)
            and all(np.array_equal(mine[name], yours[name]) for name in mine)
        )

    def __repr__(self) -> str:
        return described(self, **self.parameters)

    def _set_parameters(self, **values: Any) -> None:
        kind = type(self).__name__
        if not self._limits.keys().isdisjoint(vars(self)):
            raise AttributeError(f"{kind}: its parameters cannot be changed; build another {kind}.")
        vars(self).update(checked_values(kind, self._limits, values))
        for name in values.keys() - self._limits.keys():
            raise TypeError(f"{kind}: unknown parameter {name!r}.")
        self._check_parameters()

    def _check_parameters(self) -> None:
        """Raise ValueError if parameters that are valid alone are not valid together."""

    def _check_same(self, other: Any, verb: Literal["merge", "compare"]) -> None:
        """Raise if the class or a parameter differs; `verb` is what cannot be done."""
        name = type(self).__name__
        if type(other) is not type(self):
            raise TypeError(f"{name}: cannot {verb} with {type(other).__name__}.")
        for parameter in self._to_agree(other):
            mine, yours = getattr(self, parameter), getattr(other, parameter)
            if mine != yours:
                raise ValueError(
                    f"{name}: cannot {verb}, {parameter} is {mine!r} here and {yours!r} there."
                )

    def _to_agree(self, other: Self) -> Iterable[str]:
        """Names of the parameters that must be equal for a merge or comparison with `other`."""
        return self._limits

    def _state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._scalars}

    def _layout(self) -> dict[str, Cells]:
        """Declare the arrays from parameters and scalar state alone, without allocating them."""
        raise NotImplementedError

    def _arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in self._layout()}

    def _restore(self, packed: Packed) -> None:
        self._set_parameters(**packed.parameters)
        for name, start in self._scalars.items():
            value = packed.state[name]
            if type(value) is not type(start) or value != value:
                raise ValueError(f"{name} has an invalid type.")
            plain = TOTAL.check("state", name, value) if type(value) is int else value
            vars(self)[name] = plain
        vars(self).update(packed.arrays(self._layout()))
        self._check_state()

    def _check_state(self) -> None:
        """Raise ValueError if cells from a file violate what the kernels rely on."""


def read(
    data: Any,
    wanted: type[T],
    find: Callable[[str], type[Any] | None],
    restore: Callable[[type[Any], Packed], T],
    remedy: str,
    wording: Wording = SKETCH,
) -> T:
    """Restore the object in bytes, after checking that they are complete, and class and version.

    Parameters
    ----------
    data : bytes-like
        The complete file.
    wanted : type
        The expected class, or a base class of all that are accepted.
    find : callable
        Returns the class of a kind, None for an unknown one.
    restore : callable
        Makes the object from its class and the bytes; any error in it is reported as damage.
    remedy : str
        How to make a file of another version anew, for the message.
    wording : Wording, default=SKETCH
        The format error, and the name of the content in its messages.

    Returns
    -------
    object
        The restored object, an instance of `wanted`.
    """
    packed = Packed(data, wording)
    kind: Any = find(packed.kind)
    if kind is None or not issubclass(kind, wanted):
        raise wording.error(f"{wanted.__name__}: the bytes hold a {packed.kind!r}.")
    if packed.version != kind.version and not _brought_up_to_date(kind, packed):
        found = (packed.kind, packed.version, kind.version)
        raise wording.error(file_format.unreadable_version(*found, remedy))
    with file_format.damaged(packed.kind, wording.error):
        return restore(kind, packed)


def _brought_up_to_date(kind: type[Any], packed: Packed) -> bool:
    return issubclass(kind, Stored) and kind._reads(packed)


def _restored(kind: type[Any], packed: Packed) -> Any:
    sketch = object.__new__(kind)
    sketch._restore(packed)
    return sketch


def load(source: Any) -> Any:
    """Load any sketch or release.

    Parameters
    ----------
    source : object
        Path of a file of `save`, or the bytes of `to_bytes`.

    Returns
    -------
    object
        The sketch or release, of its own class.

    Raises
    ------
    SketchFormatError
        The content is incomplete, damaged, not a sketch, or of a version that cannot be read.

    Examples
    --------
    >>> from sfumato.sketch import CountMin
    >>> load(CountMin(64).update([1, 1, 2]).to_bytes()).estimate([1])
    array([2])
    """
    return Stored.from_bytes(file_format.packed_source(source))


# Classes by the kind in their files; every package adds its own registry when it is imported.
REGISTRIES: list[Mapping[str, type[Any]]] = [Stored.KINDS]
# Module that registers a kind, imported for the first file of it; sfumato.sketch for all others.
HOMES = {
    kind: f"sfumato.{module}"
    for module, kinds in {
        "density.anomaly": "SketchAnomalyDetector",
        "density.classify.classifier": "SketchClassifier",
        "density.classify.kernel_classes": "ReleasedClassKernels",
        "density.classify.logistic": "ClassLogits",
        "density.classify.naive_bayes": "ClassColumns ReleasedClassColumns",
        "density.graph": "NodeDensity",
        "density.kde": "SketchDensity SketchSampler",
        "density.noise_shares": "NoisyShare",
        "density.projection_histograms": "ReleasedSliceTable SliceTable",
        "density.regress.chosen_degree": "ReleasedAdaptiveMoments",
        "density.regress.regressor": "SketchRegressor",
        "density.synthesize.marginals": "ReleasedMarginals",
        "mine.cluster.bfr.bfr_summary": "BFRSummary",
        "mine.cluster.private.released": "ReleasedBFR ReleasedKMeans",
        "mine.decompose": "CUR FrequentDirections SVD",
        "mine.itemsets": "FrequentItems FrequentPairs PopularNow ReleasedItemsets",
        "mine.rank": "ReleasedDegrees Triangles",
        "mine.similar.deduplicator": "Deduplicator",
        "profile": "ReleasedBlip ReleasedJlt ReleasedMinima ReleasedSigns",
        "recommend": "ALS AttributeMeans BayesianFactorization BellKorBlend ClusterMeans "
        "CollectiveItems ContentBased CuratedList DampedMeans DenseFactorization "
        "Eigentaste Hybrid ImputedSVD InterpolationWeights ItemNeighbours "
        "LangevinFactorization LinearItems Popular PrivateFactorization "
        "RatingNeighbours ReleasedLinearItems ReleasedNeighbours ReleasedPopular "
        "SVDpp SketchFactorization SketchedFactors TemporalMeans TimeSVDpp "
        "UserNeighbours",
    }.items()
    for kind in kinds.split()
} | {"telemetry counts": "sfumato.telemetry.reports.counts"}
MAGICS = {file_format.MAGIC: "packed", b"SFIX": "index", b"SQLite": "ledger"}
STORE = b"SFST"  # application of a SQLite file, its bytes 68 to 72
JSON_LIMIT = 1 << 26  # bytes of an answer, a statement or parameters


def class_of(kind: str) -> type[Any] | None:
    """The class that reads files of a kind, imported if needed; None if unknown."""
    found = next((each[kind] for each in REGISTRIES if kind in each), None)
    if found is None:
        home = importlib.import_module(HOMES.get(kind, "sfumato.sketch"))
        getattr(home, kind, None)  # some packages import their names when they are used
        found = next((each[kind] for each in REGISTRIES if kind in each), None)
    return found


def content_of(source: Any) -> str:
    """The content type of a path or bytes by their first bytes; "" if it is none of ours.

    One of ``"packed"`` (sketches, releases, models, counts: all of our magic), ``"index"``,
    ``"ledger"``, ``"store"``, ``"reports"``, ``"parameters"`` and ``"json"`` (perhaps an answer or
    statement). It may still be damaged. A folder, device or pipe is refused by an OSError.
    """
    begin = _beginning(source)
    content = next((content for magic, content in MAGICS.items() if begin.startswith(magic)), "")
    if content:
        return "store" if content == "ledger" and begin[68:72] == STORE else content
    begin = begin.lstrip()
    if re.match(rb'\{\s*"v"\s*:', begin):
        return "reports"
    if begin.startswith(b"{"):
        return "parameters" if b'"sfumato telemetry parameters"' in begin else "json"
    return ""


def _beginning(source: Any) -> bytes:
    if isinstance(source, str | os.PathLike):
        with file_format.regular(source) as (file, _):
            return file.read(256)
    try:
        return bytes(memoryview(source).cast("B")[:256])
    except TypeError:
        given = type(source).__name__
        raise FormatError(f"load: a path or bytes are expected, not {given}.") from None


def load_any(source: Any) -> Any:
    """Load any saved object; documented at `sfumato.load`."""
    content = content_of(source)
    if content == "packed":
        return _load_packed(source)
    if content == "index":
        return importlib.import_module("sfumato.retrieve").load(source)
    if content in ("json", "parameters"):
        return _load_json(source, content)
    name = source if isinstance(source, str | os.PathLike) else "load"
    raise FormatError(f"{name}: {NOT_LOADED[content]}")


NOT_LOADED = {
    "": "not a file of ours: the magic bytes are missing or cut off.",
    "ledger": "is a ledger; open it with sfumato.privacy.Ledger(path).",
    "store": "is a store; open it with sfumato.store.open_store(path).",
    "reports": "holds reports of telemetry; read them with sfumato.telemetry.read_reports(path, "
    "params), which needs their parameters.",
}


def _load_packed(source: Any) -> Any:
    data = file_format.packed_source(source)
    kind = file_format.kind_in(data)
    found = class_of(kind)
    if found is None:
        Packed(data)  # raises where they are damaged
        raise FormatError(
            f"load: the bytes hold a {kind!r}, which nothing that is imported reads; import the "
            "module of its class first."
        )
    return found.from_bytes(data)


def _load_json(source: Any, content: str) -> Any:
    """Load telemetry parameters, an answer or a statement; FormatError for any other JSON."""
    if isinstance(source, str | os.PathLike):
        source = file_format.read_small(source, JSON_LIMIT, "answers or parameters")
    data = bytes(source)
    try:
        fields = file_format.json_object(data)
        if content == "parameters":
            return importlib.import_module("sfumato.telemetry").read_scheme(data)
        if "value" in fields:
            answers = importlib.import_module("sfumato.privacy.mechanisms.base")
            return answers.Answer.from_bytes(data)
        if "mechanism" in fields:
            statements = importlib.import_module("sfumato.privacy.statement")
            return statements.PrivacyStatement.from_json(data)
    except FormatError:
        raise
    except ValueError as error:
        raise FormatError(f"load: damaged content: {error!s:.500}") from None
    raise FormatError("load: the JSON is no answer, statement or parameters of ours.")
