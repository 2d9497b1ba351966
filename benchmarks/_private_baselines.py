"""Other ways to private ratings, to hold against: noisy gradients and noisy ratings."""

from fractions import Fraction
from typing import Any, Self

import numpy as np

from sfumato.core.ids import distinct, ids_of, positions
from sfumato.data.interactions import Interactions
from sfumato.privacy.accounting.calibration import epsilon_of, gaussian_sigma
from sfumato.privacy.accounting.losses import GaussianNoise
from sfumato.privacy.noise.discrete import add_gaussian
from sfumato.privacy.random_source import Source, stated
from sfumato.privacy.statement import PrivacyStatement
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.factorization.dense import DenseFactorization
from sfumato.recommend.private.als import signs
from sfumato.recommend.private.inputs import COVERS, GRID, Accounts, Budget, Events, events_of

__all__ = ["NoisyDescent", "NoisyRatings", "gradients"]

CLIP = 1.0  # norm of one event's gradient, where half the range of ratings is 1
FINE = 2**12  # steps of a gradient's number 1
PASSES = 30
RATE = 0.25  # of the mean gradient of a typical user and item
KEPT = 0.85  # of a velocity, from pass to pass
RANGE = 2 ** (GRID + 1)  # from the lowest to the highest rating


def gradients(
    events: tuple[np.ndarray, np.ndarray, np.ndarray],
    tables: list[np.ndarray],
    most: float = CLIP,
    steps: int = FINE,
) -> list[np.ndarray]:
    """Sums of events' gradients (e q, e) and (e p, e), each cut to the norm, in 1 / steps.

    e = rating - p.q - both biases, which stand last. Integers are cut toward zero, and the
    norm by a billionth more than floats may err, so no event's vector is longer than most * steps.
    """
    users, items, ratings = events
    p, q = tables[0][users], tables[1][items]
    left = ratings - p[:, -1] - q[:, -1] - (p[:, :-1] * q[:, :-1]).sum(axis=1)
    norm = np.sqrt(2 + (p[:, :-1] ** 2 + q[:, :-1] ** 2).sum(axis=1))
    left *= steps * np.minimum(1, most * (1 - 1e-9) / np.maximum(np.abs(left) * norm, 1e-30))
    sums = []
    for own, other, table in ((users, q, tables[0]), (items, p, tables[1])):
        steep = np.concatenate([other[:, :-1], np.ones((left.size, 1))], axis=1) * left[:, None]
        sums.append(np.zeros(table.shape, np.int64))
        np.add.at(sums[-1], own, steep.astype(np.int64))
    return sums


class _Baseline:
    """Parameters and predictions that the baselines share; the bounds of ratings are public."""

    statement: PrivacyStatement

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        bounds: tuple[float, float],
        factors: int = 5,
        seed: int = 0,
    ) -> None:
        self.epsilon, self.delta, self.bounds = epsilon, delta, bounds
        self.factors, self.seed = factors, seed

    def _statement_of(
        self, loss: GaussianNoise, mechanism: str, covers: str, source: Source | None
    ) -> PrivacyStatement:
        cost = epsilon_of(loss, self.delta) or self.epsilon  # a large delta alone may cover it
        return PrivacyStatement(
            unit="event",
            relation=loss.relation,
            mechanism=mechanism,
            epsilon=min(cost, self.epsilon),
            delta=self.delta,
            loss=loss.to_dict(),
            covers=covers,
            source=stated(source),
        )


class NoisyDescent(_Baseline):
    """Factors by descent on noisy sums of clipped gradients: DP-SGD whose batch is all events.

    Guarantee: all tables are (epsilon, delta)-private for one event more or less: the gradient of
    each event is cut to norm CLIP, and every pass adds discrete Gaussian noise to all rows. Whole
    batches need the least noise for their cost; smaller ones only save time.
    Parameters: epsilon, delta, bounds; factors, the bias included; seed, of the public start.

    Abadi et al. 2016.
    """

    def fit(
        self, train: Interactions, *, users: Any, catalogue: Any, source: Source | None = None
    ) -> Self:
        """Learn; users and catalogue are the public lists of ids."""
        accounts = Accounts(distinct(ids_of(users, "users"))[0])
        shelf = Catalogue(catalogue)
        events = events_of(train, shelf, accounts, self.bounds)
        budget = Budget.of(self.epsilon, self.delta)
        tables = [
            signs(size, self.seed + side)[:, : self.factors] * 0.1
            for side, size in enumerate((len(accounts), len(shelf)))
        ]
        for table in tables:
            table[:, -1] = 0
        self._descend(events, tables, budget, source)
        self._lists, self._tables = (accounts.ids, shelf.ids), tables
        sentence = f"discrete Gaussian noise on clipped gradients, {PASSES} passes"
        self.statement = self._statement_of(budget.loss, sentence, COVERS["file"], source)
        return self

    def _descend(
        self, events: Events, tables: list[np.ndarray], budget: Budget, source: Source | None
    ) -> None:
        sigma = budget.sigma(int(CLIP * FINE) ** 2, Fraction(1, PASSES))
        speed = [np.zeros_like(table) for table in tables]
        rated = events.ratings / 2.0**GRID
        typical: list[float] = []
        for _ in range(PASSES):
            sums = gradients((events.users, events.items, rated), tables)
            for side, table in enumerate(tables):
                add_gaussian(sums[side], sigma, source=source)
                noisy = sums[side] / FINE
                if len(typical) < 2:  # the size of gradients, from noisy ones
                    typical.append(max(float(np.abs(noisy[:, -1]).mean()), 1.0) * 4)
                speed[side] = KEPT * speed[side] + (1 - KEPT) * RATE * noisy / typical[side]
                table += speed[side]

    def predict(self, users: Any, items: Any) -> np.ndarray:
        """The predicted rating of each pair; unknown ids have zeros."""
        p, q = (
            np.concatenate([table, np.zeros((1, table.shape[1]))])[
                positions(ids_of(ids, name), among)
            ]
            for table, among, ids, name in zip(
                self._tables, self._lists, (users, items), ("users", "items"), strict=True
            )
        )
        score = (p[:, :-1] * q[:, :-1]).sum(axis=1) + p[:, -1] + q[:, -1]
        low, high = self.bounds
        return np.asarray(np.clip((low + high) / 2 + (high - low) / 2 * score, low, high))


class NoisyRatings(_Baseline):
    """Factors of ratings each of which took noise before anything was learned.

    Guarantee: the values of ratings are (epsilon, delta)-private where one is replaced by another.
    Who rated what is in the clear: no presence is hidden, so this promises far less than it costs.
    Parameters: as above.
    """

    def fit(
        self,
        train: Interactions,
        *,
        users: Any = None,
        catalogue: Any = None,
        source: Source | None = None,
    ) -> Self:
        """Learn; the lists are not needed, as presence is not hidden."""
        low, high = self.bounds
        sigma = gaussian_sigma(self.epsilon, self.delta, change=RANGE)
        inside = (np.clip(train.ratings, low, high) - low) / (high - low)
        cells = np.rint(inside * RANGE).astype(np.int64)
        add_gaussian(cells, sigma, source=source)
        noisy = low + cells / RANGE * (high - low)
        spread = float(sigma) / RANGE * (high - low)
        # Residuals of such variance let each factor be trusted so much less.
        ridge = 0.05 * (1 + spread**2)
        model = DenseFactorization(
            factors=self.factors, regularization=min(ridge, 2.0), random_state=self.seed
        )
        self._model = model.fit(Interactions(train.users, train.items, noisy), catalogue=catalogue)
        loss = GaussianNoise(sigma**2, RANGE, relation="replace")
        clear = "the values of ratings alone; who rated what is in the clear"
        self.statement = self._statement_of(
            loss, "discrete Gaussian noise on every rating", clear, source
        )
        return self

    def predict(self, users: Any, items: Any) -> np.ndarray:
        """The predicted rating of each pair, cut to the bounds."""
        return np.asarray(np.clip(self._model.predict(users, items), *self.bounds))
