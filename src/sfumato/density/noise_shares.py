"""Releases without a curator: parties add shares of the noise, and only their secure sum is seen.

A share of the noise hides next to nothing. Whoever sees one party's numbers before they are summed
sees its data; so these are for secure summation alone (`density.masks` is one, for parties and a
server that follow its protocol).

One party's part of a secure sum: numbers that nobody but a secure sum may see.
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
from sfumato.core.storage import REGISTRIES, Cells, Stored
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
    """A sketch with a share of noise that is too small to hide anybody: not a release.

    It answers nothing and promises nothing. It can only be added to the shares of other parties,
    modulo 2**64; `sum_shares` makes a release of the sum.

    Parameters
    ----------
    terms : dict
        Agreed on by all.
    kind : str
        TODO.
    parameters : dict
        TODO.
    promise : dict
        What the statement of that will say.
    members : tuple
        The parties whose shares are in it; kind and parameters of the release that the sum will
        be,.
    insecure : bool
        True if the noise came from a seed.
    cells : dict
        TODO.
    masked : bool, default=False
        True while masks of a secure sum are on the cells.
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
        """The sum, modulo 2**64, once both are of the same terms and of different parties."""
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
        """The share with something added to its cells, modulo 2**64.

        Parameters
        ----------
        by : dict
            TODO.
        masked : bool
            TODO.

        Returns
        -------
        Self
            The share with something added to its cells, modulo 2**64.
        """
        cells = {name: array + by[name] for name, array in self.cells.items()}
        return replace(self, cells=cells, masked=masked)

    def to_bytes(self) -> bytes:
        """The share as bytes, for the channel to the secure sum.

        Returns
        -------
        bytes
            The share as bytes, for the channel to the secure sum.
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
        """The share in these bytes; SketchFormatError when they are not a whole, intact one.

        Parameters
        ----------
        data : bytes_like
            TODO.

        Returns
        -------
        Self
            The share in these bytes; SketchFormatError when they are not a whole, intact one.
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
SPARE = 1e-8  # of epsilon and delta, for the gap between Gaussian shares and Gaussian noise


@dataclass(frozen=True, kw_only=True)
class NoiseSharing:
    """What all parties agree on before any of them draws noise; all of it is public.

    Parameters
    ----------
    parties : int
        Up to 2**20; epsilon above 0; delta from 0 to 1.
    epsilon : float
        TODO.
    delta : float, default=0.0
        TODO.
    dropouts : int, default=0
        From 0, fewer than the parties together.
    colluders : int, default=0
        From 0, fewer than the parties together.
    weight : int, default=1
        Relation and contributions as for a release, a unit's events in the data of all parties
        together. At delta 0 the noise is discrete Laplace, whose shares are exact; else possibly
        Gaussian, whose shares are as good as exact (`gaussian_gap`), which is accounted for.
    unit : str, default="event"
        Relation and contributions as for a release, a unit's events in the data of all parties
        together. At delta 0 the noise is discrete Laplace, whose shares are exact; else possibly
        Gaussian, whose shares are as good as exact (`gaussian_gap`), which is accounted for.
    relation : str, default="add/remove"
        TODO.
    contributions : int or None, default=None
        TODO.

    Notes
    -----
    **Guarantee.** What a secure sum of the shares reveals is (epsilon, delta)-private towards
    anybody who also knows everything of up to `colluders` parties, even if up to `dropouts` parties
    send nothing: the shares of the others, parties - dropouts - colluders at least, sum to all of
    the noise. Parties are trusted to follow the protocol. More noise than needed is the price: with
    all shares, parties / (parties - dropouts - colluders) times its variance.

    References
    ----------
    .. [1] Goryczka and Xiong 2017; secure summation: Bonawitz et al. 2017.

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
        """How many shares sum to all of the noise."""
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
        """What one party puts into the secure sum: its sketch with a share of the noise.

        Parameters
        ----------
        sketch : object
            Of the parameters that all parties use.
        party : int
            From 0.
        ledger : object, default=None
            Who pays epsilon, before noise is drawn.
        dataset : str or None, default=None
            Who pays epsilon, before noise is drawn.
        release_id : str or None, default=None
            A name that makes a retry return the same share, for which the ledger keeps it: guard
            that like the data, since a share is not private.
        source : Source or None, default=None
            Of the noise, for tests only.

        Returns
        -------
        NoisyShare
            What one party puts into the secure sum: its sketch with a share of the noise.
        """
        party = integer(0, self.parties - 1).check("NoiseSharing", "party", party)
        options = dict(ledger=ledger, dataset=dataset, release_id=release_id, **self._whose())
        payer, paid = paid_by("NoiseSharing", options)
        whose("NoiseSharing", payer, paid, options)
        self._made(sketch, party, _NoNoise(self.whole_noise))  # what is refused is never charged
        bits = ShareSource(self.whole_noise, source)
        if payer is None:
            return self._made(sketch, party, bits)
        data = payer.release(
            paid,
            self._loss(),
            f"{type(sketch).__name__}: a share of noise, for a secure sum",
            lambda _: self._made(sketch, party, bits).to_bytes(),
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
        """The terms as plain JSON values.

        Returns
        -------
        dict
            The terms as plain JSON values.
        """
        return asdict(self)

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> Self:
        """TODO.

        Parameters
        ----------
        told : dict
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        return cls(**told)

    def _whose(self) -> dict[str, Any]:
        return dict(unit=self.unit, relation=self.relation, contributions=self.contributions)

    def _loss(self) -> Loss:
        if self.delta:
            return Approximate(self.epsilon, self.delta, relation=self.relation)
        return Pure(self.epsilon, relation=self.relation)

    def _made(self, sketch: Any, party: int, bits: ShareSource) -> NoisyShare:
        options = {name: value for name, value in self._whose().items() if value is not None}
        if self.weight > 1:
            options["weight"] = self.weight
        spare = 1 - SPARE if self.delta else 1.0
        told = sketch.release(self.epsilon * spare, self.delta * spare, source=bits, **options)
        arrays = told._arrays()
        if bits.added != sum(array.size for array in arrays.values()):
            raise ValueError(
                f"NoiseSharing: {type(sketch).__name__} cannot be shared, its noise is neither "
                "discrete Laplace nor Gaussian; let each party release it, and combine those."
            )
        return NoisyShare(
            terms=self.to_dict(),
            kind=type(told).__name__,
            parameters=json.loads(json.dumps(told.parameters)),  # as bytes will have them
            promise=self._promise(told, bits.added),
            members=(party,),
            insecure=bits.insecure,
            cells={name: array.view(np.uint64) for name, array in arrays.items()},
        )

    def _promise(self, told: Any, cells: int) -> dict[str, Any]:
        """What the sum of `whole_noise` shares promises: that of the noise, but for a small gap."""
        named = ("mechanism", "epsilon", "delta", "loss", "contributions")
        promise = {name: getattr(told.statement, name) for name in named}
        if told.noise == "Laplace":
            return promise
        # With epsilon and delta lowered by SPARE, epsilon + 2 gap and delta exp(gap) stay below.
        if gaussian_gap(told.scale, self.whole_noise, cells) > SPARE / 4 * min(1, self.epsilon):
            raise ValueError(
                f"NoiseSharing: epsilon is {self.epsilon!r}, for which the noise is too small to "
                f"be shared by {self.whole_noise} parties; lower it, or let each party add all of "
                "it."
            )
        cost = dict(epsilon=self.epsilon, delta=self.delta, loss=self._loss().to_dict())
        return promise | cost


class _NoNoise(ShareSource):
    """A source for a rehearsal, whose result is thrown away: it counts cells and adds nothing."""

    def add_laplace(self, cells: np.ndarray, scale: Fraction) -> None:
        self.added += cells.size

    def add_gaussian(self, cells: np.ndarray, variance: Fraction) -> None:
        self.added += cells.size


def sum_shares(shares: Sequence[NoisyShare]) -> Any:
    """The release that a sum of shares is: of all parties' data, with the noise of all shares.

    Parameters
    ----------
    shares : sequence
        One for each party that sent one, or a sum of them; refused where more parties are missing
        than `dropouts`, or where masks are still on.

    Returns
    -------
    object
        The release that a sum of shares is: of all parties' data, with the noise of all shares.

    Notes
    -----
    **Guarantee.** As its statement says, which is that of the terms. The variance of the noise is
    that of one whole noise times the shares over `whole_noise`; `scale` is that of noise of this
    variance V. For Laplace noise the moment generating function 1 / (1 - V (cosh t - 1)) is at no t
    below that of the sum, so that error bounds by Chebyshev and Chernoff hold.
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
    kind = Stored.KINDS.get(total.kind)
    if kind is None or not issubclass(kind, Release):
        raise TypeError(f"sum_shares: {total.kind!r} is no kind of release.")
    arrays = {name: array.view(np.int64) for name, array in total.cells.items()}
    more = len(total.members) / terms.whole_noise
    parameters = {**total.parameters, "scale": _widened(total.parameters, more)}
    made = kind._make(parameters, arrays, _statement(total, terms))
    return kind.from_bytes(made.to_bytes())  # which checks that the cells are those of the kind


def _statement(total: NoisyShare, terms: NoiseSharing) -> PrivacyStatement:
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
    """The scale of noise of the same law and so many times the variance.

    That of Laplace noise is 2 x / (1 - x)**2 with x = exp(-1 / scale): 1 - x solves a quadratic.
    """
    scale = float(parameters["scale"])
    if parameters["noise"] == "Gaussian":
        return scale * math.sqrt(more)
    half = NoiseDistribution("Laplace", scale).variance * more / 2
    if more == 1 or not half:
        return scale
    return -1 / math.log1p(-(math.sqrt(4 * half + 1) - 1) / (2 * half))
