"""Distributed releases without a curator: each party adds a noise share before a secure sum.

A single share is not private: whoever sees one party's numbers before they are summed sees its
data. So shares are for secure summation alone; `density.pairwise_masks` provides one for parties
and a server that follow its protocol.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.arrays import WEIGHT
from sfumato.core.file_format import Packed, SketchFormatError, damaged, pack
from sfumato.core.storage import REGISTRIES, Cells, class_of
from sfumato.core.typing import Bytes
from sfumato.core.validation import DELTA, Limit, checked, integer, one_of, optional, positive
from sfumato.privacy.accounting.losses import RELATIONS, Approximate, Loss, Pure
from sfumato.privacy.noise.discrete import PARTIES, gaussian_gap
from sfumato.privacy.noise.distribution import NoiseDistribution
from sfumato.privacy.noise.share_sampler import ShareSource
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import Release, paid_by, whose
from sfumato.privacy.statement import INSECURE, SYSTEM, UNITS, PrivacyStatement

__all__ = ["NoiseSharing", "NoisyShare", "sum_shares"]

FIELDS = ("kind", "parameters", "promise", "insecure", "masked")


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyShare:
    """One party's sketch with a share of the noise, for a secure sum; not private by itself.

    It answers no queries and guarantees nothing. It can only be added to the shares of other
    parties, modulo 2**64; `sum_shares` turns the sum into a release. Made by `NoiseSharing.share`.

    Parameters
    ----------
    terms : dict
        What all parties agreed on, as `NoiseSharing.to_dict` returns it.
    kind : str
        Class name of the release that the sum will be.
    parameters : dict
        Public parameters of that release.
    promise : dict
        Fields of the statement of that release: mechanism, epsilon, delta, loss and contributions.
    members : tuple of int
        The parties whose shares are in it, in rising order.
    insecure : bool
        Whether noise came from a seed, as in tests.
    cells : dict of str to ndarray
        Counters with noise, uint64, by name.
    masked : bool, default=False
        Whether masks of a secure sum are still on the cells.

    Examples
    --------
    >>> from sfumato.sketch import KernelFourier
    >>> terms = NoiseSharing(parties=2, epsilon=1.0)
    >>> terms.share(KernelFourier(1.0, (0, 9)).update([[1.0]]), party=0)
    NoisyShare of ReleasedKernelFourier, party 0: not private, for a secure sum only
    """

    terms: dict[str, Any]
    kind: str
    parameters: dict[str, Any]
    promise: dict[str, Any]
    members: tuple[int, ...]
    insecure: bool
    cells: dict[str, np.ndarray]
    masked: bool = False
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        known = range(integer(1, 2**31).check("NoisyShare", "parties", self.terms["parties"]))
        inside = {member for member in self.members if member in known}
        if not self.members or sorted(inside) != list(self.members):
            raise ValueError("NoisyShare: members must be parties of the terms, each once.")

    def __add__(self, other: "NoisyShare") -> "NoisyShare":
        """The sum modulo 2**64 of shares of the same terms and of different parties."""
        if not isinstance(other, NoisyShare):
            return NotImplemented
        for name in ("terms", "kind", "parameters", "promise", "masked"):
            mine, yours = getattr(self, name), getattr(other, name)
            if mine != yours:
                raise ValueError(
                    f"NoisyShare: cannot add, {name} is {mine!r} here and {yours!r} there."
                )
        shapes = [{name: at.shape for name, at in one.cells.items()} for one in (self, other)]
        if shapes[0] != shapes[1]:
            raise ValueError("NoisyShare: cannot add, the cells are not of the same shapes.")
        twice = sorted(set(self.members) & set(other.members))
        if twice:
            raise ValueError(f"NoisyShare: cannot add, party {twice[0]} is in both.")
        return replace(
            self,
            members=tuple(sorted(self.members + other.members)),
            insecure=self.insecure or other.insecure,
            cells={name: array + other.cells[name] for name, array in self.cells.items()},
        )

    def moved(self, by: dict[str, np.ndarray], *, masked: bool) -> Self:
        """Add numbers to all cells modulo 2**64, as masks of a secure sum do.

        Parameters
        ----------
        by : dict of str to ndarray
            Numbers to add, uint64, by name and of the shape of the cells.
        masked : bool
            Whether masks are on the cells of the result.

        Returns
        -------
        Self
            A new share; this one is not changed.
        """
        cells = {name: array + by[name] for name, array in self.cells.items()}
        return replace(self, cells=cells, masked=masked)

    def to_bytes(self) -> bytes:
        """Serialize the share for the channel to the secure sum.

        Returns
        -------
        bytes
            The share with a checksum. Guard it like the data, unless it is masked.
        """
        state = {name: getattr(self, name) for name in FIELDS}
        header = {
            "kind": "NoisyShare",
            "version": self.version,
            "parameters": self.terms,
            "state": {**state, "members": list(self.members)},
        }
        return pack(header, self.cells)

    @classmethod
    def from_bytes(cls, data: Bytes) -> Self:
        """Restore a share from its bytes.

        Parameters
        ----------
        data : bytes_like
            What `to_bytes` returned.

        Returns
        -------
        Self
            The share.

        Raises
        ------
        SketchFormatError
            If the bytes are truncated, damaged, or not those of a share.
        """
        packed = Packed(data)
        if packed.kind != "NoisyShare" or packed.version != cls.version:
            raise SketchFormatError(f"NoisyShare: the bytes hold a {packed.kind!r}.")
        with damaged("NoisyShare"):
            state = {name: packed.state[name] for name in FIELDS}
            members = tuple(int(each) for each in packed.state["members"])
            layout = {name: Cells(np.uint64, tuple(shape)) for name, _, shape in packed._listed}
            cells = packed.arrays(layout)
            return cls(terms=packed.parameters, members=members, cells=cells, **state)

    def __repr__(self) -> str:
        names = ", ".join(map(str, self.members))
        return f"NoisyShare of {self.kind}, party {names}: not private, for a secure sum only"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)


REGISTRIES.append({"NoisyShare": NoisyShare})
# Fraction of epsilon and delta for the gap between a sum of Gaussian shares and Gaussian noise.
SPARE = 1e-8


@dataclass(frozen=True, kw_only=True)
class NoiseSharing:
    """Public terms of a distributed release, on which all parties agree before drawing noise.

    Each party calls `share`, a secure sum adds the shares (`PairwiseMasks`, `MaskingParty`), and
    `sum_shares` makes the release. Use `combine` where there is no secure sum: each party then adds
    all of the noise.

    Parameters
    ----------
    parties : int
        Number of parties, from 1 to 2**20.
    epsilon : float
        Privacy parameter of the release, above 0.
    delta : float, default=0.0
        Privacy parameter delta, from 0 up to but not including 1. At 0 the noise is
        discrete Laplace, whose shares are exact; otherwise it may be discrete Gaussian, whose
        shares sum to almost Gaussian noise; the gap (`gaussian_gap`) is part of epsilon and delta.
    dropouts : int, default=0
        Largest number of parties that may send nothing, at least 0.
    colluders : int, default=0
        Largest number of parties whose knowledge an adversary may have, at least 0. Dropouts and
        colluders together must be fewer than the parties.
    weight : int, default=1
        Largest weight of one event, from 1 to 2**31 - 1.
    unit : str, default="event"
        Unit of privacy, over the data of all parties together.
    relation : {"add/remove", "replace"}, default="add/remove"
        Adjacency of data sets.
    contributions : int or None, default=None
        Largest number of events of one unit in the data of all parties together, from 1 to 2**31.
        Required unless the unit is an event or item, which has one.

    Notes
    -----
    **Guarantee.** What a secure sum of the shares reveals is (epsilon, delta)-differentially
    private for `unit` under `relation`, towards anybody who also knows everything of up to
    `colluders` parties, even if up to `dropouts` parties send nothing: the shares of the others, at
    least ``parties - dropouts - colluders``, sum to all of the noise. Parties are trusted to follow
    the protocol. The price is more noise than needed: if all shares arrive, its variance is
    ``parties / (parties - dropouts - colluders)`` times that of a release by a curator.

    References
    ----------
    .. [1] Goryczka, Xiong. "A Comprehensive Comparison of Multiparty Secure Additions with
       Differential Privacy". IEEE TDSC 14(5), 2017 (noise shares).
       https://doi.org/10.1109/TDSC.2015.2484326
    .. [2] Bonawitz et al. "Practical Secure Aggregation for Privacy-Preserving Machine Learning".
       CCS 2017 (secure summation). https://doi.org/10.1145/3133956.3133982

    Examples
    --------
    >>> from sfumato.sketch import KernelFourier
    >>> terms = NoiseSharing(parties=3, epsilon=1.0, dropouts=1)
    >>> sketches = [KernelFourier(1.0, (0, 9)).update([[each]]) for each in (1.0, 2.0, 3.0)]
    >>> shares = [terms.share(sketch, party) for party, sketch in enumerate(sketches)]
    >>> sum_shares(shares[:2]).statement.epsilon  # the third dropped out
    1.0
    """

    parties: int
    epsilon: float
    delta: float = 0.0
    dropouts: int = 0
    colluders: int = 0
    weight: int = 1
    unit: str = "event"
    relation: str = "add/remove"
    contributions: int | None = None
    LIMITS: ClassVar[dict[str, Limit]] = {
        "parties": PARTIES,
        "epsilon": positive,
        "delta": DELTA,
        "dropouts": integer(0),
        "colluders": integer(0),
        "weight": WEIGHT,
        "unit": one_of(UNITS),
        "relation": one_of(RELATIONS),
        "contributions": optional(integer(1, 2**31)),
    }

    def __post_init__(self) -> None:
        checked(self, self.LIMITS)
        if self.whole_noise < 1:
            raise ValueError(
                f"NoiseSharing: parties must be more than dropouts and colluders together, not "
                f"{self.parties} against {self.dropouts} + {self.colluders}; with fewer, somebody "
                "must add all of the noise (see combine)."
            )

    @property
    def whole_noise(self) -> int:
        """Number of shares that sum to all of the noise: parties - dropouts - colluders."""
        return self.parties - self.dropouts - self.colluders

    def share(
        self,
        sketch: Any,
        party: int,
        *,
        ledger: Any = None,
        dataset: str | None = None,
        release_id: str | None = None,
        source: Source | None = None,
    ) -> NoisyShare:
        """Add one party's share of the noise to its sketch, for the secure sum.

        Parameters
        ----------
        sketch : Sketch
            The party's sketch, of the parameters that all parties use.
        party : int
            Number of this party, from 0.
        ledger : Ledger, path_like or None, default=None
            Privacy ledger that is charged epsilon before noise is drawn; needs `dataset`.
        dataset : str or None, default=None
            Name of the data set in the ledger that is charged.
        release_id : str or None, default=None
            Name under which the ledger stores the share, so that a retry returns the same one.
            Guard that ledger like the data, since a share is not private.
        source : Source or None, default=None
            Source of the noise, for tests only; None draws from the operating system.

        Returns
        -------
        NoisyShare
            The share, which only a secure sum may read.

        Raises
        ------
        ValueError
            If the noise of the sketch is neither discrete Laplace nor Gaussian, or too small to be
            shared.
        """
        party = integer(0, self.parties - 1).check("NoiseSharing", "party", party)
        options = dict(ledger=ledger, dataset=dataset, release_id=release_id, **self._whose())
        payer, paid = paid_by("NoiseSharing", options)
        whose("NoiseSharing", payer, paid, options)
        self._build(sketch, party, _NoNoise(self.whole_noise))  # what is refused is never charged
        bits = ShareSource(self.whole_noise, source)
        if payer is None:
            return self._build(sketch, party, bits)
        data = payer.release(
            paid,
            self._loss(),
            f"{type(sketch).__name__}: a share of noise, for a secure sum",
            lambda _: self._build(sketch, party, bits).to_bytes(),
            release_id=release_id,
        )
        share = NoisyShare.from_bytes(data)
        if share.terms != self.to_dict() or share.members != (party,):
            raise ValueError(
                f"NoiseSharing: release_id {release_id!r} names a share of other terms or of "
                "another party; a new share needs a new one."
            )
        return share

    def to_dict(self) -> dict[str, Any]:
        """Return the terms as plain JSON values.

        Returns
        -------
        dict of str to object
            All parameters by name.
        """
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Restore terms from a dictionary.

        Parameters
        ----------
        fields : dict of str to object
            What `to_dict` returned.

        Returns
        -------
        Self
            The terms.
        """
        return cls(**fields)

    def _whose(self) -> dict[str, Any]:
        return dict(unit=self.unit, relation=self.relation, contributions=self.contributions)

    def _loss(self) -> Loss:
        if self.delta:
            return Approximate(self.epsilon, self.delta, relation=self.relation)
        return Pure(self.epsilon, relation=self.relation)

    def _build(self, sketch: Any, party: int, bits: ShareSource) -> NoisyShare:
        """The share of a sketch with noise from these bits."""
        options = {name: value for name, value in self._whose().items() if value is not None}
        if self.weight > 1:
            options["weight"] = self.weight
        spare = 1 - SPARE if self.delta else 1.0
        released = sketch.release(self.epsilon * spare, self.delta * spare, source=bits, **options)
        arrays = released._arrays()
        if bits.added != sum(array.size for array in arrays.values()):
            raise ValueError(
                f"NoiseSharing: {type(sketch).__name__} cannot be shared, its noise is neither "
                "discrete Laplace nor Gaussian; let each party release it, and combine those."
            )
        return NoisyShare(
            terms=self.to_dict(),
            kind=type(released).__name__,
            parameters=json.loads(json.dumps(released.parameters)),  # as bytes will have them
            promise=self._promise(released, bits.added),
            members=(party,),
            insecure=bits.insecure,
            cells={name: array.view(np.uint64) for name, array in arrays.items()},
        )

    def _promise(self, released: Any, cells: int) -> dict[str, Any]:
        """Statement fields of the sum of `whole_noise` shares; Gaussian ones include the gap."""
        named = ("mechanism", "epsilon", "delta", "loss", "contributions")
        promise = {name: getattr(released.statement, name) for name in named}
        if released.noise == "Laplace":
            return promise
        # With epsilon and delta lowered by SPARE, epsilon + 2 gap and delta exp(gap) stay below.
        if gaussian_gap(released.scale, self.whole_noise, cells) > SPARE / 4 * min(1, self.epsilon):
            raise ValueError(
                f"NoiseSharing: epsilon is {self.epsilon!r}, for which the noise is too small to "
                f"be shared by {self.whole_noise} parties; lower it, or let each party add all of "
                "it."
            )
        cost = dict(epsilon=self.epsilon, delta=self.delta, loss=self._loss().to_dict())
        return promise | cost


class _NoNoise(ShareSource):
    """A source for a rehearsal whose result is discarded: it counts cells and adds nothing."""

    def add_laplace(self, cells: np.ndarray, scale: Fraction) -> None:
        self.added += cells.size

    def add_gaussian(self, cells: np.ndarray, variance: Fraction) -> None:
        self.added += cells.size


def sum_shares(shares: Sequence[NoisyShare]) -> Any:
    """Make the release from the shares of the parties, or from their secure sum.

    Parameters
    ----------
    shares : sequence of NoisyShare
        One for each party that sent one, or a sum of them, without masks.

    Returns
    -------
    Release
        Release of the sketch of all parties' data, with the noise of all shares.

    Raises
    ------
    ValueError
        If more parties are missing than `dropouts` allows, if masks are still on, or if shares do
        not belong together.

    Notes
    -----
    **Guarantee.** That of the terms, as the statement says. The noise has variance V, that of the
    full noise times the number of shares over `whole_noise`; `scale` is that of noise of variance
    V. For Laplace noise the moment generating function 1 / (1 - V (cosh t - 1)) is an upper bound
    of that of the sum at every t, so that error bounds by Chebyshev and Chernoff hold.

    Examples
    --------
    >>> from sfumato.sketch import KernelFourier
    >>> terms = NoiseSharing(parties=2, epsilon=1.0)
    >>> sketch = KernelFourier(1.0, (0, 9)).update([[1.0]])
    >>> sum_shares([terms.share(sketch, party) for party in (0, 1)]).statement.epsilon
    1.0
    """
    if not shares or not all(isinstance(each, NoisyShare) for each in shares):
        raise TypeError("sum_shares: shares must be NoisyShare, at least one.")
    total = reduce(lambda one, other: one + other, shares)
    terms = NoiseSharing.from_dict(total.terms)
    if total.masked:
        raise ValueError("sum_shares: masks are still on; take them off the sum first.")
    missing = terms.parties - len(total.members)
    if missing > terms.dropouts:
        raise ValueError(
            f"sum_shares: {missing} of {terms.parties} shares are missing, but only "
            f"{terms.dropouts} may be, or the noise would not be enough; start again with new "
            "shares and more dropouts allowed."
        )
    kind = class_of(total.kind)
    if kind is None or not issubclass(kind, Release):
        raise TypeError(f"sum_shares: {total.kind!r} is no kind of release.")
    arrays = {name: array.view(np.int64) for name, array in total.cells.items()}
    more = len(total.members) / terms.whole_noise
    parameters = {**total.parameters, "scale": _widened(total.parameters, more)}
    made = kind._make(parameters, arrays, _statement(total, terms))
    return kind.from_bytes(made.to_bytes())  # which checks that the cells are those of the kind


def _statement(total: NoisyShare, terms: NoiseSharing) -> PrivacyStatement:
    """The statement of the release: the promise of the shares, with parties and dropouts."""
    covers = (
        "what a secure sum reveals, to anybody who also knows all of at most "
        f"{terms.colluders} parties, while at most {terms.dropouts} drop out; parties that follow "
        "the protocol"
    )
    shared = (
        f"{total.promise['mechanism']}, as the sum of shares of {len(total.members)} of "
        f"{terms.parties} parties, of which {terms.whole_noise} sum to this noise"
    )
    return PrivacyStatement(
        **{**total.promise, "mechanism": shared},
        unit=terms.unit,
        relation=terms.relation,
        covers=covers,
        source=INSECURE if total.insecure else SYSTEM,
    )


def _widened(parameters: dict[str, Any], more: float) -> float:
    """The scale of noise of the same distribution with `more` times the variance.

    The variance of discrete Laplace noise is 2 x / (1 - x)**2 with x = exp(-1 / scale), so 1 - x
    solves a quadratic equation.
    """
    scale = float(parameters["scale"])
    if parameters["noise"] == "Gaussian":
        return scale * math.sqrt(more)
    half = NoiseDistribution("Laplace", scale).variance * more / 2
    if more == 1 or not half:
        return scale
    return -1 / math.log1p(-(math.sqrt(4 * half + 1) - 1) / (2 * half))
