"""Releases: noisy cells, public parameters and a privacy statement, which never change again.

Also who pays for a release and for which unit, checked in one way for sketches and mechanisms.
"""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypedDict, TypeVar

import numpy as np

from sfumato.core.file_format import Packed
from sfumato.core.storage import Stored
from sfumato.core.tables import described
from sfumato.core.validation import between, checked_values, integer, one_of, positive
from sfumato.privacy.accounting.losses import RELATIONS, Loss
from sfumato.privacy.parameters import ClonedLedger, Privacy, check_payer, release_parameters
from sfumato.privacy.random_source import Source, SystemSource, stated
from sfumato.privacy.statement import PrivacyStatement
from sfumato.privacy.units import UNITS

__all__ = ["CalibratedRelease", "Release", "ReleaseOptions", "ReleaseRequest", "paid_by", "whose"]

WHOSE = {"unit": one_of(UNITS), "relation": one_of(RELATIONS)}


def paid_by(owner: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the ledger, opened where it is a path, and its data set; (None, "") if unpaid."""
    ledger, dataset = options.get("ledger"), options.get("dataset") or ""
    check_payer(owner, ledger, dataset, options.get("release_id"))
    if isinstance(ledger, ClonedLedger):
        raise ValueError(
            f"{owner}: this is a clone, which has no permission to spend the budget of {dataset!r} "
            f"in the ledger {ledger.name!r}; give it the ledger by set_params (ledger=, or "
            "privacy=Privacy(..., ledger=, dataset=)), or build the original with "
            "privacy=Privacy(..., clones='charge'), so that each fit of each clone is charged."
        )
    if isinstance(ledger, str | os.PathLike):
        from sfumato.privacy.ledger.ledger import Ledger

        if not os.path.exists(ledger) or not os.path.getsize(ledger):
            raise FileNotFoundError(f"{owner}: there is no ledger {os.fspath(ledger)}.")
        ledger = Ledger(ledger)
    return ledger, dataset


def whose(
    owner: str, ledger: Any, dataset: str, options: Mapping[str, Any], relation: str = "add/remove"
) -> tuple[str, str]:
    """Return unit and relation: of the data set where there is a ledger, else given or default."""
    given = {name: options[name] for name in WHOSE if options.get(name) is not None}
    usual = {"unit": "event", "relation": relation}
    plain = checked_values(owner, WHOSE, {**usual, **given})
    if ledger is None:
        return plain["unit"], plain["relation"]
    known = ledger.dataset(dataset)
    for name, value in (("unit", known.unit), ("relation", known.relation)):
        if given.get(name, value) != value:
            raise ValueError(
                f"{owner}: {name} is {given[name]!r} here and {value!r} in the ledger for "
                f"{dataset!r}."
            )
    return known.unit, known.relation


class Release(Stored):
    """Private copy of a sketch or model that may leave the curator.

    It contains noisy cells, public parameters and its `statement`. It cannot be changed, and
    everything it estimates is computed from those alone (post-processing), at no further privacy
    cost. Sketches make it by their `release`.

    Attributes
    ----------
    statement : PrivacyStatement
        The guarantee of the release.

    Notes
    -----
    **Guarantee.** As its `statement` says: (epsilon, delta)-differentially private for one unit
    under the stated adjacency.

    Examples
    --------
    >>> from sfumato.sketch import CountMin
    >>> released = CountMin(width=64).update(["tea", "milk", "tea"]).release(epsilon=1.0)
    >>> isinstance(released, Release), released.statement.epsilon
    (True, 1.0)
    """

    statement: PrivacyStatement
    _of: ClassVar[str] = ""  # the sketch that is released

    @classmethod
    def _make(
        cls, parameters: dict[str, Any], arrays: dict[str, np.ndarray], statement: PrivacyStatement
    ) -> Self:
        """Build a release from public parameters, noisy arrays and its statement."""
        release = cls.__new__(cls)
        release._set_parameters(**parameters)
        vars(release).update((name, arrays[name]) for name in release._layout())
        release._seal(statement)
        return release

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__}: a release cannot be changed.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}: a release cannot be changed.")

    def update(self, *args: Any, **options: Any) -> Any:
        """Raise TypeError: a release cannot be changed.

        Parameters
        ----------
        *args : object
            Ignored.
        **options : object
            Ignored.

        Returns
        -------
        object
            Never returns.

        Raises
        ------
        TypeError
            Always; update the sketch and release it again, which costs again.
        """
        raise TypeError(
            f"{type(self).__name__}: a release cannot be changed; update the {self._of} and "
            "release it again, which costs again."
        )

    merge = update

    def copy(self) -> Self:
        """Return the release itself, since it cannot be changed.

        Returns
        -------
        Self
            The same object.
        """
        return self

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Release):
            return NotImplemented
        return super().__eq__(other) is True and self.statement == other.statement

    def __repr__(self) -> str:
        return described(self, self.statement.headline, **self.parameters)

    def __str__(self) -> str:
        return f"{super().__repr__()}\n{self.statement}"

    def _state(self) -> dict[str, Any]:
        return {"statement": self.statement.to_dict()}

    def _restore(self, packed: Packed) -> None:
        super()._restore(packed)
        try:
            statement = PrivacyStatement.from_dict(packed.state["statement"])
        except RecursionError:
            raise ValueError("the statement is nested too deep.") from None
        self._seal(statement)

    def _seal(self, statement: PrivacyStatement) -> None:
        """Make the arrays read-only and set the statement."""
        for array in self._arrays().values():
            array.flags.writeable = False
        vars(self)["statement"] = statement


SINGLE = ("event", "item of a profile")  # units of one event each
MAX_STORED_BYTES = 2**36  # of cells; a ledger stores large releases in files beside it


class ReleaseOptions(TypedDict, total=False):
    """Options of every `release` besides epsilon and delta; see `ReleaseRequest`.

    privacy: a `Privacy` instead of epsilon, delta and all of these but source.
    """

    privacy: Privacy | None
    ledger: Any
    dataset: str | None
    unit: str
    relation: str
    contributions: int
    release_id: str | None
    source: Source | None


@dataclass(frozen=True)
class ReleaseRequest:
    """Request for a release, checked before anything is charged.

    epsilon, delta: what it may cost. ledger and dataset: who pays; unit and relation are then those
    of the data set. contributions: the largest number of events of one unit in the sketch (1 for an
    event or an item). release_id: a name that makes a retry return the stored bytes. source: of the
    noise, for tests only; otherwise fresh bits keyed by the operating system.
    """

    owner: str
    epsilon: float
    delta: float
    ledger: Any
    dataset: str
    unit: str
    relation: str
    contributions: int
    release_id: str | None
    source: Source | None

    @classmethod
    def of(
        cls, owner: str, epsilon: float | Privacy | None, delta: float, options: ReleaseOptions
    ) -> Self:
        """Check the options and return the request; ValueError names what is invalid."""
        unknown = set(options) - set(ReleaseOptions.__annotations__)
        if unknown:
            raise TypeError(f"{owner}: release takes no {unknown.pop()!r}.")
        epsilon, delta, options = release_parameters(owner, epsilon, delta, options)
        ledger, dataset = paid_by(owner, options)
        unit, relation = whose(owner, ledger, dataset, options)
        stated(options.get("source"))
        return cls(
            owner,
            positive.check(owner, "epsilon", epsilon),
            between(0, 1).check(owner, "delta", delta),
            ledger,
            dataset,
            unit,
            relation,
            _contributions(owner, unit, options),
            options.get("release_id"),
            options.get("source"),
        )

    @classmethod
    def of_unit(
        cls,
        unit: str,
        owner: str,
        epsilon: float | None,
        delta: float,
        privacy: Privacy | None,
        options: dict[str, Any],
    ) -> Self:
        """Check the options of a release that is proved for one such unit under add/remove."""
        terms: dict[str, Any] = dict(unit=unit, relation="add/remove", contributions=1)
        stated_terms = terms
        if privacy is not None:
            open_terms = {name for name in terms if getattr(privacy, name) is None}
            privacy = privacy.replace(**{name: terms[name] for name in open_terms})
            terms = {}
        given: Any = {**options, **terms, "privacy": privacy}
        request = cls.of(owner, epsilon, delta, given)
        if any(getattr(request, name) != value for name, value in stated_terms.items()):
            raise ValueError(
                f"{owner}: unit, relation and contributions must be {unit!r}, 'add/remove' and 1, "
                f"not {request.unit!r}, {request.relation!r} and {request.contributions}."
            )
        return request

    @property
    def events(self) -> int:
        """Number of events in which neighbours may differ: replacing a unit removes and adds."""
        return self.contributions * (2 if self.relation == "replace" else 1)

    def check_room(self, nbytes: int) -> None:
        """Raise where a ledger could not store a release of this size."""
        if self.ledger is not None and nbytes > MAX_STORED_BYTES:
            raise ValueError(
                f"{self.owner}: {nbytes} bytes of cells are more than a ledger keeps, at most "
                f"{MAX_STORED_BYTES}; make it smaller, or charge the ledger and release without it."
            )


R = TypeVar("R", bound=Release)


@dataclass(frozen=True)
class CalibratedRelease(Generic[R]):
    """A release that is about to be made: its class, its loss, and how its noise is added."""

    kind: type[R]
    parameters: dict[str, Any]
    loss: Loss
    mechanism: str
    noisy: Callable[[Source], dict[str, np.ndarray]]
    covers: str = "the whole file"

    def publish(self, request: ReleaseRequest) -> R:
        """Make the release: charged and stored first if there is a ledger, else unaccounted."""
        # Parameters that no release can have are refused before they cost anything.
        self.kind.__new__(self.kind)._set_parameters(**self.parameters)
        cost = self._cost(request)
        source = request.source or SystemSource()  # what it loads is there before the charge, too
        if request.ledger is None:
            return self._made(request, source, cost, "")
        data = request.ledger.release(
            request.dataset,
            self.loss,
            f"{self.kind.__name__}: {self.mechanism}",
            lambda release_id: self._made(request, source, cost, release_id).to_bytes(),
            release_id=request.release_id,
        )
        return self.kind.from_bytes(data)

    def _made(
        self, request: ReleaseRequest, source: Source, cost: tuple[float, float], release_id: str
    ) -> R:
        """Draw the noise and build the release with its statement."""
        budget = {}
        if request.ledger is not None:
            budget = dict(dataset=request.dataset, ledger=request.ledger.name, release=release_id)
        statement = PrivacyStatement(
            unit=request.unit,
            relation=request.relation,
            mechanism=self.mechanism,
            epsilon=cost[0],
            delta=cost[1],
            loss=self.loss.to_dict(),
            covers=self.covers,
            source=stated(source),
            contributions=request.contributions,
            **budget,
        )
        return self.kind._make(self.parameters, self.noisy(source), statement)

    def _cost(self, request: ReleaseRequest) -> tuple[float, float]:
        """Return epsilon and delta for the statement, before anything is charged."""
        if self.loss.epsilon < math.inf:
            return self.loss.epsilon, 0.0
        from sfumato.privacy.accounting.calibration import epsilon_of

        epsilon = epsilon_of(self.loss, request.delta)
        if not epsilon < math.inf:
            raise ValueError(f"{request.owner}: delta must be above 0 for {self.mechanism}.")
        return epsilon or request.epsilon, request.delta  # a large delta alone may cover it


def _contributions(owner: str, unit: str, options: ReleaseOptions) -> int:
    """Return the largest number of events of one unit; 1 for an event or an item."""
    most: Any = options.get("contributions")
    if most is None and unit in SINGLE:
        return 1
    if most is None:
        raise ValueError(
            f"{owner}: contributions must be given for unit {unit!r}: the most events of one unit "
            "in the sketch."
        )
    return integer(1, 2**31).check(owner, "contributions", most)
