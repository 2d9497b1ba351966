"""PrivateItemsets: frequent itemsets by noisy counts of baskets that are cut to a public size."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.ids import id_arrays, ids_of, kind_of, texts, unique
from sfumato.core.tables import described
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, between, integer, optional, positive
from sfumato.mine.itemsets.mining import count_of
from sfumato.mine.itemsets.private.noisy_candidates import independent, joined, shrunk
from sfumato.mine.itemsets.private.noisy_counts import GRID, CutBaskets, CutRows, NoisePlan
from sfumato.mine.itemsets.private.released import MAX_ITEMS, MAX_SIZE, ReleasedItemsets
from sfumato.privacy.noise.discrete import LARGEST
from sfumato.privacy.parameters import PRIVACY, Privacy
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, ReleaseRequest

if TYPE_CHECKING:
    from sfumato.engine import Engine

__all__ = ["PrivateItemsets"]

OWNER = "PrivateItemsets"
SEED = integer(0, 2**64 - 1)
LIMITS: dict[str, Limit] = {
    "epsilon": optional(positive),
    "delta": between(0, 1),
    "max_items": MAX_ITEMS,
    "max_size": MAX_SIZE,
    "max_candidates": integer(1, 2**22),
    "seed": SEED,
    "privacy": PRIVACY,
}


class PrivateItemsets:
    """Frequent itemsets with differential privacy for each basket.

    The result of `fit` is `release_`, which may be published.

    Parameters
    ----------
    epsilon : float or None, default=None
        Privacy parameter epsilon, above 0. Required unless `privacy` gives it.
    delta : float, default=0.0
        Privacy parameter delta, from 0 to below 1. With 0 the noise is discrete Laplace and a
        vocabulary is needed; above 0 it is discrete Gaussian, which is less for large `max_items`.
    max_items : int
        Number of items to which each basket is cut, from 1 to 1024; must be public. Larger ones
        lose fewer items and take more noise: itemsets of size k as ``binomial(max_items, k)``.
    max_size : int, default=2
        Number of items of the largest itemsets, from 1 to 8.
    min_support : float, default=1
        Below 1 a share of the (noisy) number of baskets, from 1 up a count; must be public.
        Items whose count might be noise alone are left out in any case.
    vocabulary : array_like, scalar or None, default=None
        Public ids of the items that are counted; they must not be taken from the baskets. None
        takes those items from the baskets whose noisy count is large enough, which needs a delta
        above 0; they are then given as texts.
    max_candidates : int, default=65536
        Largest number of itemsets of one size that are counted, from 1 to 2**22. The noise does not
        depend on it.
    seed : int, default=0
        Seed of the choice of items where a basket is cut, from 0; it need not be secret.
    privacy : Privacy or None, default=None
        A `sfumato.privacy.Privacy` in place of epsilon, delta and the ledger arguments of `fit`.

    Attributes
    ----------
    release_ : ReleasedItemsets
        The private release.

    Notes
    -----
    **Guarantee.** `release_` is (epsilon, delta)-differentially private for one basket with any
    number of items, under add/remove adjacency.

    Proof. Stages follow each other, and the outcome of each is public for the next. In every stage
    a basket is replaced by at most m = `max_items` of its items, chosen by this basket and public
    numbers alone: in the first stage by a hash of the item, the basket's items and `seed`, with
    ties in the order of ids; later the first m in a list of items that follows from earlier
    outcomes. So a basket changes the counts of the first stage, of items and of all baskets, by 1
    each in at most m + 1 places, and the counts of itemsets of size k by 1 each in at most
    binomial(m, k), whichever are counted. Itemsets are chosen from earlier outcomes only. With
    delta 0, Laplace noise of scale n / epsilon_s on n such places costs epsilon_s, and these sum to
    epsilon [1]_. With delta above 0, Gaussian noise is sized for n places, and all stages together
    cost one loss of (epsilon, delta) by the composition of Gaussian mechanisms.

    Without a vocabulary the first stage adds noise to the counts of the items that occur in cut
    baskets, names those from a threshold T on, and later stages use these alone. Let D' have one
    basket more than D, and consider the mechanism M* on D' that never names an item which is in
    that basket alone: at most m items, of count 1. M* and the mechanism on D add noise to the same
    counts, so they are (epsilon, delta / 2)-indistinguishable as above. M* and the mechanism M on
    D' agree unless one of the m items is named: an event of probability at most delta / 2 by the
    choice of T (discrete Gaussian noise is subgaussian [2]_), and independent of M*. So Pr[M(D')
    in S] <= Pr[M* in S] + delta / 2 and (1 - delta / 2) Pr[M* in S] <= Pr[M(D') in S], whence
    (epsilon, delta) in both directions.

    The stages have equal parts of the budget; the noise and T follow from the parameters alone.
    Counts of two items and more are shrunk to what independence of the items would give, as far as
    their noise explains the difference; this and the choice of itemsets use noisy counts only.

    References
    ----------
    .. [1] Dwork, Roth. "The Algorithmic Foundations of Differential Privacy". Foundations and
       Trends in Theoretical Computer Science 9, 2014, section 3.5 (adaptive composition).
       https://doi.org/10.1561/0400000042
    .. [2] Canonne, Kamath, Steinke. "The Discrete Gaussian for Differential Privacy". NeurIPS 2020,
       Corollary 9 (moment generating function). https://arxiv.org/abs/2004.00010

    Examples
    --------
    >>> baskets = [["tea", "milk"], ["tea", "milk", "rum"], ["tea"]] * 200
    >>> model = PrivateItemsets(4, max_items=3, vocabulary=["tea", "milk", "rum", "gin"])
    >>> release = model.fit(baskets).release_
    >>> release.statement.unit, release.itemsets().to_list()[0][0]
    ('basket', ('tea',))
    """

    release_: ReleasedItemsets

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float = 0.0,
        *,
        max_items: int,
        max_size: int = 2,
        min_support: float = 1,
        vocabulary: Ids | None = None,
        max_candidates: int = 2**16,
        seed: int = 0,
        privacy: Privacy | None = None,
    ) -> None:
        self.epsilon: float | None
        self.delta: float
        self.privacy: Privacy | None
        self.epsilon, self.delta, self.privacy = epsilon, delta, privacy
        self.max_items: int
        self.max_size: int
        self.min_support: float
        self.max_items, self.max_size, self.min_support = max_items, max_size, min_support
        self.max_candidates: int
        self.seed: int
        self.vocabulary, self.max_candidates, self.seed = vocabulary, max_candidates, seed
        for name, limit in LIMITS.items():
            setattr(self, name, limit.check(OWNER, name, getattr(self, name)))
        count_of(min_support, lambda: 1, OWNER)
        self._ids = None if vocabulary is None else _public(vocabulary)

    def __repr__(self) -> str:
        names = ("epsilon", "delta", "max_items", "max_size", "min_support")
        items = None if self._ids is None else int(self._ids.size)
        shown = {name: getattr(self, name) for name in names}
        return described(self, **shown, vocabulary=items)

    def fit(
        self,
        baskets: Any,
        *,
        ledger: Any = None,
        dataset: str | None = None,
        release_id: str | None = None,
        source: Source | None = None,
        engine: "Engine | None" = None,
        column: str = "items",
    ) -> Self:
        """Charge the budget, count with noise, and set `release_`.

        Parameters
        ----------
        baskets : Baskets or array_like
            What `Baskets` takes, or the result of `read_baskets`. Both are read row by row, as
            texts: what is no basket counts as an empty one, and what is no id is left out, so that
            no error, and no reading of another basket, depends on one. A `Baskets` made of columns
            in memory is taken as it is: what its constructor refused, it refused before.
        ledger : Ledger, path_like or None, default=None
            Ledger that is charged; None charges none. The unit of its data set must be "basket".
        dataset : str or None, default=None
            Data set of the ledger.
        release_id : str or None, default=None
            Name of the release; repeating it returns the stored release at no cost.
        source : Source or None, default=None
            Source of the noise, for tests only.
        engine : Engine or None, default=None
            Where baskets are counted, `sfumato.engine.LocalEngine` or `sfumato.engine.SparkEngine`;
            `baskets` is then what the engine reads. The release is the same: partitions return
            counts, and noise is added once, here. None for this process.
        column : str, default="items"
            With an engine, the name of the column of lists of items.

        Returns
        -------
        Self
            The object itself.
        """
        request = self._request(
            ledger=ledger, dataset=dataset, release_id=release_id, source=source
        )
        plan = self._plan(request.epsilon, request.delta)
        request.check_room((8 + 4 * self.max_size) * self.max_candidates * self.max_size)

        rows = None if engine is None else engine.rows(baskets, [column])

        def cut() -> CutBaskets | CutRows:
            if rows is None:
                return CutBaskets(baskets, plan.max_items, self.seed)
            return CutRows(rows, column, plan.max_items, self.seed)

        self.release_ = self._calibrated(plan, cut).publish(request)
        return self

    def _request(self, **options: Any) -> ReleaseRequest:
        return ReleaseRequest.of_unit(
            "basket", OWNER, self.epsilon, self.delta, self.privacy, options
        )

    def _plan(self, epsilon: float, delta: float) -> NoisePlan:
        if self._ids is None and not delta:
            raise ValueError(
                f"{OWNER}: vocabulary must be given where delta is 0: the public ids of items; or "
                "give a delta above 0, as 1e-6, to take items from the baskets."
            )
        known = self.max_items if self._ids is None else int(self._ids.size)
        most = min(self.max_items, known)
        size = min(self.max_size, most)
        plan = NoisePlan(epsilon, delta, most, size, self._ids is None)
        if max(plan.scales) > LARGEST:
            raise ValueError(
                f"{OWNER}: epsilon must be larger for this max_items and max_size: the noise would "
                "not fit into 64 bits."
            )
        return plan

    def _calibrated(
        self, plan: NoisePlan, cut: Callable[[], CutBaskets | CutRows]
    ) -> CalibratedRelease[ReleasedItemsets]:
        """Plan the release; `cut` reads the baskets, once all is charged."""
        kind = "text" if self._ids is None else kind_of(self._ids)
        parameters = dict(max_items=self.max_items, max_size=self.max_size, kind=kind)
        scales = ", ".join(f"{float(scale) / GRID:.6g}" for scale in plan.scales)
        name = "sigma" if plan.delta else "scale"
        mechanism = (
            f"discrete {plan.kind} noise, {name} {scales}, on counts of baskets cut to "
            f"{plan.max_items} items: of items and baskets, then of itemsets of each size"
        )
        if plan.open:
            mechanism += f"; items named from {plan.release_threshold / GRID:.6g} on"

        def noisy(source: Source) -> dict[str, np.ndarray]:
            return _Stages(plan, cut(), self, source).arrays()

        return CalibratedRelease(ReleasedItemsets, parameters, plan.loss, mechanism, noisy)


def _public(vocabulary: Any) -> np.ndarray:
    """Return the distinct public ids."""
    ids = unique(ids_of(vocabulary, f"{OWNER}: vocabulary"))
    words = texts(ids)
    if not ids.size or len(words.unique()) != ids.size:
        raise ValueError(f"{OWNER}: vocabulary must have at least one id, each of another text.")
    return ids


class _Stages:
    """One run: the stages in order, each from the noisy outcomes of those before it."""

    def __init__(
        self, plan: NoisePlan, cut: CutBaskets | CutRows, settings: PrivateItemsets, source: Source
    ) -> None:
        self.plan, self.cut, self.source = plan, cut, source
        self.settings = settings
        self.vocabulary = settings._ids

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of the release."""
        items, counts, total = self._first()
        least = count_of(self.settings.min_support, lambda: max(total // GRID, 1), OWNER) * GRID
        if self.plan.max_size > 1:
            items, levels = self._later(items, least, total)
        else:
            items, levels = self._ranked(items, 0, counts, least)
        return self._packed(items, levels, total)

    def _first(self) -> tuple[pa.Array, np.ndarray, int]:
        """Return items by decreasing noisy count, these counts, and that of all baskets."""
        if self.vocabulary is not None:
            items = texts(self.vocabulary)
            counts = self.cut.item_counts(items, sampled=True)
        else:
            items = self.cut.own_items()
            counts = self.cut.item_counts(items, sampled=True)
            present = np.flatnonzero(counts)  # whoever is in no cut basket must leave no trace
            items, counts = items.take(pa.array(present)), counts[present]
        cells = self.plan.add(0, np.append(counts, self.cut.size), self.source)
        counts, total = cells[:-1], int(cells[-1])
        least = self.plan.release_threshold if self.plan.open else self._noise(0, counts.size)
        rows = np.flatnonzero(counts >= least)
        rows = rows[np.argsort(-counts[rows], kind="stable")][: self.settings.max_candidates]
        return items.take(pa.array(rows)), counts[rows], total

    def _noise(self, stage: int, candidates: int) -> float:
        return self.plan.noise_threshold(stage, candidates)

    def _later(
        self, items: pa.Array, least: float, total: int
    ) -> tuple[pa.Array, list[tuple[np.ndarray, np.ndarray]]]:
        """Count the items again, then itemsets of each further size, on one list of items."""
        counts = self.cut.item_counts(items, sampled=False)
        counts = self.plan.add(1, counts, self.source)
        items, levels = self._ranked(items, 1, counts, least)
        for size in range(2, self.plan.max_size + 1):
            itemsets = joined(levels, self.settings.max_candidates)
            # With the items in play alone, fewer baskets are cut.
            used, at = np.unique(itemsets, return_inverse=True)
            places = at.reshape(itemsets.shape).astype(np.int32)
            counts = self.cut.counts(items.take(pa.array(used)), places)
            noisy = self.plan.add(size, counts, self.source)
            expected = independent(itemsets, levels, max(total, GRID))
            sigma, reach = self.plan.deviations()[size - 1] * GRID, self._noise(size, noisy.size)
            estimates = np.rint(shrunk(noisy, expected, sigma, reach)).astype(np.int64)
            rows = np.flatnonzero(estimates >= least)
            levels.append((itemsets[rows], estimates[rows]))
        return items, levels

    def _ranked(
        self, items: pa.Array, stage: int, counts: np.ndarray, least: float
    ) -> tuple[pa.Array, list[tuple[np.ndarray, np.ndarray]]]:
        """Return the items whose noisy count is large enough, numbered by decreasing count."""
        rows = np.flatnonzero(counts >= max(least, self._noise(stage, counts.size)))
        rows = rows[np.argsort(-counts[rows], kind="stable")]
        codes = np.arange(rows.size, dtype=np.int32)[:, np.newaxis]
        return items.take(pa.array(rows)), [(codes, counts[rows])]

    def _packed(
        self, items: pa.Array, levels: list[tuple[np.ndarray, np.ndarray]], total: int
    ) -> dict[str, np.ndarray]:
        width = self.settings.max_size
        codes = [
            np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=-1)
            for rows, _ in levels
        ]
        ids = np.array(items.to_numpy(zero_copy_only=False), object)
        if self.vocabulary is not None:
            at = pc.index_in(items, value_set=texts(self.vocabulary))
            ids = self.vocabulary[np.asarray(at)]
        deviations = np.full(width, np.nan)
        deviations[: self.plan.max_size] = self.plan.deviations()
        return {
            "_codes": np.concatenate(codes).astype(np.int32),
            "_counts": np.concatenate([counts for _, counts in levels]),
            "_baskets": np.array([total], np.int64),
            "_deviations": np.nan_to_num(deviations),
            **{name: array.copy() for name, array in id_arrays("_items", ids).items()},
        }
