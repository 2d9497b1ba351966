"""Minima: each profile a few bits of the lowest item in every bin, answered at random.

Released minima: neighbours, sizes and items in common from answers about one bin an item. What
answers about bins say of sets: bins full and alike, undone, and how much that varies.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import Annotated, Any, ClassVar

import numpy as np

from sfumato.core.deprecation import renamed_method
from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, fraction, integer, positive
from sfumato.kernels import profile_codes as kernels
from sfumato.privacy.accounting.losses import Flips
from sfumato.privacy.mechanisms.randomized_response import KaryResponse
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import ReleaseRequest
from sfumato.privacy.statement import PrivacyStatement
from sfumato.profile.item_sets import ProfileSets
from sfumato.profile.mechanism import ProfileMechanism, ProfilePlan
from sfumato.profile.similarity import PairwiseProfiles, RowPairs
from sfumato.sketch.response_release import answers_of, chance_of, symbols_answered

__all__ = ["BINS", "CODE_BITS", "Answers", "Compared", "Minima", "ReleasedMinima"]

BINS, CODE_BITS = integer(2, 2**16), integer(1, 7)
KINDS = ((0, 0), (0, 1), (0, -1), (-1, 0), (-1, -1))  # of a pair of symbols; the last is "empty"
AT_ONCE = 2**24  # codes unpacked at a time
LEAST = 0.01  # a membership is not told where one item would show less than this


@dataclass(frozen=True)
class Answers:
    """How bins were answered for: one of `codes` symbols or "empty", each wrong one by `chance`.

    An answer counts (1[it is s] - chance) / kept for the symbol s, which is right on average.
    """

    bins: int
    codes: int
    chance: float

    @property
    def kept(self) -> float:
        """How much likelier the right answer is than each wrong one."""
        return 1 - (self.codes + 1) * self.chance

    @property
    def worth(self) -> np.ndarray:
        """What each answer (down) counts for each symbol (across)."""
        return np.asarray((np.eye(self.codes + 1) - self.chance) / self.kept)

    @property
    def chances(self) -> np.ndarray:
        """How likely each answer (across) is to each symbol (down)."""
        return np.asarray(np.eye(self.codes + 1) * self.kept + self.chance)

    def full(self, told: np.ndarray) -> np.ndarray:
        """How many bins are full, on average, where so many are told to be."""
        return np.asarray((told - self.bins * self.codes * self.chance) / self.kept)

    def noise(self, full: np.ndarray) -> np.ndarray:
        """The variance that answers bring to `full`."""
        wrong, full = self.codes * self.chance, np.clip(full, 0, self.bins)
        each = full * self.chance * (1 - self.chance) + (self.bins - full) * wrong * (1 - wrong)
        return np.asarray(each / self.kept**2)

    def items(self, full: np.ndarray) -> np.ndarray:
        """How many items fill so many bins on average; finite where all are full."""
        return np.asarray(np.log1p(-self._share(full)) / math.log1p(-1 / self.bins))

    def slope(self, full: np.ndarray) -> np.ndarray:
        """How many items one more full bin stands for."""
        return np.asarray(-1 / (self.bins * (1 - self._share(full)) * math.log1p(-1 / self.bins)))

    def occupancy(self, items: np.ndarray) -> np.ndarray:
        """The variance of how many bins so many items fill, by their hashes."""
        n, items = self.bins, np.maximum(items, 0.0)
        empty, pairs = (1 - 1 / n) ** items, (1 - 2 / n) ** items
        return np.asarray(np.maximum(n * empty + n * (n - 1) * pairs - (n * empty) ** 2, 0.0))

    def _share(self, full: np.ndarray) -> np.ndarray:
        return np.minimum(full / self.bins, 1 - 0.5 / self.bins)


class Compared:
    """What pairs of answers to two releases count for, by their kind.

    A pair is of equal symbols, of different ones, of a symbol here and "empty" there, the other way
    round, or twice "empty". worth[kind] is what it counts for a bin alike, for one full here or
    there, for one full here and for one full there; chances[true, told] how kinds are answered.
    """

    def __init__(self, here: Answers, there: Answers) -> None:
        self.here, self.there = here, there
        self.worth = np.array([self._worth(*kind) for kind in KINDS])
        self.chances = np.array([self._chances(*kind) for kind in KINDS])
        self.undo = np.linalg.inv(self.chances)

    def variance(self, cases: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """That of the answers alone, for what moves with the four counts by these slopes.

        cases: how many bins were answered in each kind, from which how many are follows.
        """
        worth = slopes @ self.worth.T
        each = worth**2 @ self.chances.T - (worth @ self.chances.T) ** 2
        return np.asarray((np.maximum(cases @ self.undo, 0.0) * each).sum(axis=-1))

    def _worth(self, left: int, right: int) -> tuple[float, ...]:
        codes = self.here.codes
        mine, yours = self.here.worth[left, :codes], self.there.worth[right, :codes]
        here, there = float(mine.sum()), float(yours.sum())
        # Different minima have equal symbols with chance 1 / codes, which is undone.
        alike = (float(mine @ yours) - here * there / codes) / (1 - 1 / codes)
        return alike, here + there - here * there, here, there

    def _chances(self, left: int, right: int) -> tuple[float, ...]:
        mine, yours = self.here.chances[left], self.there.chances[right]
        equal = float(mine[:-1] @ yours[:-1])
        full, also = float(mine[:-1].sum()), float(yours[:-1].sum())
        return equal, full * also - equal, full * yours[-1], mine[-1] * also, mine[-1] * yours[-1]


class ReleasedMinima(PairwiseProfiles):
    """A few bits of each bin's lowest item, or "empty", answered at random, for good.

    Made by `Minima.release`.

    bins, code_bits of a symbol, seed, kind of the users' ids. `codes` holds a row of answers for
    each user: a symbol, or 2**code_bits for an empty bin.

    Notes
    -----
    **Guarantee.** Epsilon-differential privacy with a public seed, as its `statement` says. Counts
    of bins that are full and alike are unbiased; sizes, similarities and items in common are
    consistent functions of them. Neighbours are ranked by the answers as they are, since undoing
    them would favour small profiles; the similarities told are undone.

    References
    ----------
    .. [1] Li, Owen and Zhang 2012; Li and Koenig 2011; private: Li and Li 2023, before
       densification.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.profile import Minima
    >>> had = Interactions([1] * 200 + [2] * 200, [*range(200), *range(100, 300)], [1] * 400)
    >>> told = Minima(epsilon=6).release(had, users=[1, 2], source=InsecureSeededSource(1))
    >>> inner = told.similarity(metric="inner")[0, 1]
    >>> bool(abs(inner - 100) < 3 * told.similarity_variance(metric="inner")[0, 1] ** 0.5)
    True
    """

    bins: Annotated[int, BINS]
    code_bits: Annotated[int, CODE_BITS]
    codes: np.ndarray
    version = 2  # a key has one hash, whatever its type
    _of = "Minima"
    _of_sizes = ("cosine", "inner")

    @property
    def chance(self) -> Fraction:
        """The probability of each wrong answer about a bin."""
        return chance_of(answers_of(self.statement), 2**self.code_bits + 1)

    def positions(self, items: Ids) -> np.ndarray:
        """The bin of each item.

        Parameters
        ----------
        items : array_like or scalar
            TODO.

        Returns
        -------
        ndarray
            The bin of each item.
        """
        return self._placed(items)[0]

    places = renamed_method("places", "positions")

    def ranks(self, items: Ids) -> np.ndarray:
        """The rank of each item: the lowest in a bin is the one whose symbol is answered for.

        Parameters
        ----------
        items : array_like or scalar
            TODO.

        Returns
        -------
        ndarray
            The rank of each item: the lowest in a bin is the one whose symbol is answered for.
        """
        return self._placed(items)[1]

    def symbols(self, items: Ids) -> np.ndarray:
        """The symbol of each item.

        Parameters
        ----------
        items : array_like or scalar
            TODO.

        Returns
        -------
        ndarray
            The symbol of each item.
        """
        return self._placed(items)[2]

    def estimate_size(self) -> np.ndarray:
        """How many items each profile has, from the share of full bins; it may be below 0.

        Returns
        -------
        ndarray
            How many items each profile has, from the share of full bins; it may be below 0.
        """
        return self._distribution.items(self._full)

    def size_bounds(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of items between which each true one lies, with about this probability.

        The number of full bins, undone, is taken as normal; infinite where all bins may be full.

        Parameters
        ----------
        confidence : float, default=0.95
            TODO.

        Returns
        -------
        tuple
            TODO.
        """
        confidence = fraction.check(type(self).__name__, "confidence", confidence)
        spread = self._distribution.noise(self._full) + self._distribution.occupancy(
            self.estimate_size()
        )
        reach = NormalDist().inv_cdf((1 + confidence) / 2) * np.sqrt(spread)
        most = self._distribution.items(self._full + reach)
        most[self._full + reach >= self.bins - 0.5] = np.inf
        return np.maximum(self._distribution.items(self._full - reach), 0.0), np.maximum(most, 0.0)

    def memberships(self, items: Ids, rows: Any = None) -> np.ndarray:
        """For each row and item an estimate of 1 if it is in the profile and of 0 if not.

        Right on average over the hashes of the other items, given their number: how often the
        item's symbol is that of its bin, if it is there and if it is not, follows from its rank.

        Parameters
        ----------
        items : array_like or scalar
            TODO.
        rows : object, default=None
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        asked, (positions, ranks, symbols) = self._asked_rows(rows), self._placed(items)
        distribution, codes = self._distribution, 2**self.code_bits
        others = np.maximum(self.estimate_size()[asked], 0.0)[:, np.newaxis]
        before = (
            ranks / 2.0**64 - positions / self.bins
        )  # the share of all items that would beat it
        wins = (1 - np.clip(before, 0, 1 / self.bins)) ** np.maximum(others - 1, 0)
        there = wins + (1 - wins) / codes
        away = (1 - (1 - 1 / self.bins) ** others) / codes
        told = (self.codes[np.ix_(asked, positions)] == symbols) - distribution.chance
        return np.asarray((told / distribution.kept - away) / np.maximum(there - away, LEAST))

    def _loss(self, items: int) -> float:
        """That of as many bins, or of all."""
        return Flips(answers_of(self.statement).probability, min(items, self.bins)).epsilon

    def _placed(self, items: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        hashes = self._hashed(items)
        out = np.empty(hashes.size, np.int64), np.empty(hashes.size, np.uint64)
        symbols = np.empty(hashes.size, np.uint8)
        kernels.placed(hashes, self.bins, self.code_bits, *out, symbols)
        return *out, symbols

    @cached_property
    def _distribution(self) -> Answers:
        return Answers(self.bins, 2**self.code_bits, float(self.chance))

    @cached_property
    def _told(self) -> np.ndarray:
        """How many bins of each row are told to be full."""
        return np.asarray(np.count_nonzero(self.codes < 2**self.code_bits, axis=1))

    @property
    def _full(self) -> np.ndarray:
        return self._distribution.full(self._told)

    @cached_property
    def _planes(self) -> np.ndarray:
        """The codes as planes of bits, for the kernel that compares them."""
        out = np.zeros((len(self), self.code_bits + 1, -(-self.bins // 512) * 8), np.uint64)
        letters, step = out.view(np.uint8), max(1, AT_ONCE // self.bins)
        for start in range(0, len(self), step):
            part = self.codes[start : start + step]
            full = part < 2**self.code_bits
            planes = [full, *(full & (part >> bit & 1 == 1) for bit in range(self.code_bits))]
            packed = np.packbits(np.stack(planes, axis=1), axis=2, bitorder="little")
            letters[start : start + step, :, : packed.shape[2]] = packed
        return out

    def _count(self, rows: np.ndarray, other: Any) -> np.ndarray:
        out = np.empty((rows.size, len(other), 2), np.int32)
        kernels.agree(np.ascontiguousarray(self._planes[rows]), other._planes, out)
        return out

    def _cases(self, pairs: RowPairs) -> np.ndarray:
        """How many bins were answered in each kind of `Compared`; the kinds come last."""
        equal, both = pairs.counted[..., 0], pairs.counted[..., 1]
        here, there = self._told[pairs.left], pairs.there._told[pairs.right]
        neither = self.bins - here - there + both
        return np.stack([equal, both - equal, here - both, there - both, neither], axis=-1)

    def _sums(self, pairs: RowPairs) -> tuple[np.ndarray, np.ndarray]:
        """How many bins are alike, and how many are full here or there.

        Both without bias, but the second is not taken below its standard error, nor 1, as it is
        divided by.
        """
        mine, yours = self._distribution, pairs.there._distribution
        sums = self._cases(pairs) @ Compared(mine, yours).worth[:, :2]
        noise = float(mine.noise(np.zeros(())) + yours.noise(np.zeros(())))
        return sums[..., 0], np.maximum(sums[..., 1], max(1.0, noise**0.5))

    def _inner(self, pairs: RowPairs) -> np.ndarray:
        """The alike bins, times the items for one full bin: several may share one."""
        alike, either = self._sums(pairs)
        return np.asarray(alike * self._distribution.items(either) / either)

    def _estimate(self, pairs: RowPairs, metric: str) -> np.ndarray:
        if metric != "jaccard":
            return super()._estimate(pairs, metric)
        alike, either = self._sums(pairs)
        return np.asarray(alike / either)

    def _noisy(self, pairs: RowPairs, metric: str) -> np.ndarray:
        if metric == "inner":
            return self._inner(pairs)
        equal = pairs.counted[..., 0].astype(np.float64)
        left, right = self._told[pairs.left], pairs.there._told[pairs.right]
        below = np.sqrt(left * right) if metric == "cosine" else left + right - equal
        return np.asarray(equal / np.maximum(below, 1))

    def _size_variance(self) -> np.ndarray:
        spread = self._distribution.noise(self._full) + self._distribution.occupancy(
            self.estimate_size()
        )
        return np.asarray(spread * self._distribution.slope(self._full) ** 2)

    def _spread(self, pairs: RowPairs, metric: str) -> np.ndarray:
        """That of the answers, of the one item seen in each full bin, without replacement, and of
        the symbols, which bins that differ may share."""
        alike, either = self._sums(pairs)
        distribution, items = self._distribution, self._distribution.items(either)
        slopes, per_share = self._slopes(pairs, metric, alike, either)
        answers = Compared(distribution, pairs.there._distribution).variance(
            self._cases(pairs), slopes
        )
        share = np.clip(alike / either, 0, 1)
        unseen = np.clip((items - either) / np.maximum(items - 1, 1), 0, 1)
        seen = share * (1 - share) / either * unseen * per_share**2
        differ = self._full[pairs.left] + pairs.there._full[pairs.right] - either - alike
        seen = seen + np.maximum(differ, 0) / (distribution.codes - 1) * slopes[..., 0] ** 2
        if metric == "inner":
            seen = seen + share**2 * distribution.occupancy(items) * distribution.slope(either) ** 2
        return np.asarray(answers + seen)

    def _slopes(
        self, pairs: RowPairs, metric: str, alike: np.ndarray, either: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """How the metric moves with the four counts of `Compared`, and with the share alike."""
        none = np.zeros_like(alike)
        if metric == "jaccard":
            return np.stack([1 / either, -alike / either**2, none, none], axis=-1), none + 1
        items = self._distribution.items(either)
        both = [
            items / either,
            alike * (self._distribution.slope(either) - items / either) / either,
        ]
        if metric == "inner":
            return np.stack([*both, none, none], axis=-1), items
        left, right = self._floored(pairs)
        root = np.sqrt(left * right)
        ends = (
            -alike * both[0] / (2 * size * root) * release._distribution.slope(release._full)[at]
            for size, release, at in ((left, self, pairs.left), (right, pairs.there, pairs.right))
        )
        return np.stack([*(each / root for each in both), *ends], axis=-1), items / root

    def _to_agree(self, other: Any) -> Any:
        return ("bins", "code_bits", "seed")

    def _layout(self) -> dict[str, Cells]:
        return {**self._id_layout(), "codes": Cells(np.uint8, (-1, self.bins), "")}

    def _seal(self, statement: PrivacyStatement) -> None:
        answers_of(statement)
        super()._seal(statement)

    def _check_state(self) -> None:
        self._check_rows(self.codes)
        if self.codes.size and self.codes.max() > 2**self.code_bits:
            raise ValueError("a code is out of range.")


ANSWERS = 2**22  # that are drawn at a time


class Minima(ProfileMechanism[ReleasedMinima]):
    """Profiles as private one-permutation MinHash: the share of bins alike is their similarity.

    Parameters
    ----------
    epsilon : float
        TODO.
    bins : int, default=512
        2 to 65,536.
    code_bits : int, default=1
        Of a symbol, 1 to 7; epsilon above 0, of one unit.
    seed : int, default=0
        Of the hashes.
    typical_size : int, default=100
        Public: the number of items for which the statement tells the loss of a whole profile. For
        about 100 items a profile, generated and real, neighbours were found best with 1 bit up to
        epsilon 4 (1 and 2 did alike at 8), and with 256 to 512 bins up to epsilon 4, more at 8: in
        fewer bins items collide; more bins or symbols bring more noise.

    Notes
    -----
    **Guarantee.** Pure epsilon for one item more or less in one profile, with a public seed: it
    changes the lowest item of its own bin at most, and each bin's symbol is answered for by
    randomised response. A whole profile of c items, that is all of them removed, is hidden only at
    min(c, bins) epsilon; exchanged for others they are twice as many.

    References
    ----------
    .. [1] Li, Owen and Zhang 2012; Kairouz, Oh and Viswanath 2014.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> had = Interactions(["ann", "ann", "bob"], ["tea", "milk", "tea"], [1, 1, 1])
    >>> told = Minima(bins=64, epsilon=4).release(had, users=["ann", "bob"])
    >>> told.codes.shape, told.statement.mechanism[-68:]
    ((2, 64), 'epsilon 256 (256 for any profile), which hides next to nothing of it')
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "bins": BINS,
        "code_bits": CODE_BITS,
        "epsilon": positive,
        **ProfileMechanism.LIMITS,
    }
    bins: int
    code_bits: int
    epsilon: float

    def __init__(
        self,
        *,
        epsilon: float,
        bins: int = 512,
        code_bits: int = 1,
        seed: int = 0,
        typical_size: int = 100,
    ) -> None:
        self._set_parameters(locals())

    def _plan(self, request: ReleaseRequest, sets: ProfileSets) -> ProfilePlan[ReleasedMinima]:
        cells = min(request.events, self.bins)  # bins that one unit changes, at most
        answer = symbols_answered(request, 2**self.code_bits + 1, cells)

        def noisy(source: Source) -> dict[str, np.ndarray]:
            return {**self._ids(sets), "codes": self._answered(sets, answer, source)}

        names = ("bins", "code_bits", "seed")
        return ProfilePlan(
            ReleasedMinima,
            {"kind": sets.kind, **{name: getattr(self, name) for name in names}},
            answer.loss(),
            self._sentence(request, answer),
            noisy,
            nbytes=len(sets) * self.bins,
        )

    def _sentence(self, request: ReleaseRequest, answer: KaryResponse) -> str:
        made = answer.loss()
        assert isinstance(made, Flips)
        chance = made.probability

        def loss(items: int) -> float:
            return Flips(chance, min(items, self.bins)).epsilon

        return (
            f"{self.code_bits} bits of the lowest item in each of {self.bins} bins or 'empty', by "
            f"{answer.symbols}-ary randomised response; "
            + self._told(request, loss, most=loss(self.bins))
        )

    def _answered(self, sets: ProfileSets, answer: KaryResponse, source: Source) -> np.ndarray:
        out = np.empty((len(sets), self.bins), np.uint8)
        rows = max(1, ANSWERS // self.bins)
        for start in range(0, len(sets), rows):
            part = out[start : start + rows]
            bounds = sets.starts[start : start + rows + 1]
            kernels.lowest(sets.hashes, bounds, self.code_bits, part)
            part[:] = answer.run(part, source=source)
        return out
