"""PrivateFactorization: factors that hide whether any one rating, or any one user, was there."""

from copy import copy
from typing import Any, ClassVar, Self

import numpy as np

from sfumato._require import Limit, fraction, one_of, optional, positive, whole
from sfumato.data.interactions import Interactions
from sfumato.privacy._source import Source
from sfumato.privacy.statement import PrivacyStatement
from sfumato.recommend._alternate import Learned
from sfumato.recommend._catalogue import Catalogue
from sfumato.recommend._model import BOUNDS
from sfumato.recommend._noisy_sums import NoisySums
from sfumato.recommend._own_users import own_vectors
from sfumato.recommend._private_events import Accounts, accounts_of, bounded, events_of, shelf_of
from sfumato.recommend._private_file import MOST_ROWS, PrivateFile
from sfumato.recommend._private_learn import centred, learn, sentence
from sfumato.recommend._private_plan import Budget
from sfumato.recommend._private_release import published, terms
from sfumato.sketch._base import SEED
from sfumato.sketch._ids import distinct, kind_of

__all__ = ["PrivateFactorization"]

WIDEST = 33


class PrivateFactorization(PrivateFile):
    """Factors of users and items, private by proof, with no setting left to be tuned on the data.

    Guarantee: everything in the file is (epsilon, delta)-differentially private for one unit more
    or less. Ratings meet the model only as sums of clipped whole numbers with discrete Gaussian
    noise (alternating least squares on noisy sufficient statistics); biases, components, their
    number and the mean are computed from those sums. unit "event" hides one rating; "user" all
    ratings of a user, of whom per_user are used. covers "file": all of the file may be published.
    "joint": the file holds items only, and `personal` gives users vectors from their own ratings,
    which they alone may see (joint differential privacy; what others are told hides theirs).
    Nothing tells whether a user was in the data; one who was not is told the items' biases.
    Parameters: epsilon, above 0, and delta, between 0 and 1, without defaults; bounds, lowest and
    highest rating, public; unit; covers; factors, components and a bias, from 1 (means alone) to
    33, or None for a public rule of epsilon, delta, the numbers of users and items and a noisy
    number of ratings; per_user, ratings of different items that a user has at most, for unit
    "user"; rows, for unit "event" without a public list of accounts: so many rows that users share
    by a hash, better several times as many as there are users; seed, of that hash, of the public
    start and of the sample of a user's ratings.

    >>> from sfumato.data import generate_world
    >>> world = generate_world(users=60, items=40, ratings=900, seed=1).interactions
    >>> model = PrivateFactorization(epsilon=8, delta=1e-6, bounds=(1, 5))
    >>> model.fit(world, users=range(60), catalogue=range(40)).predict(3, [1, 2]).shape
    (2,)
    >>> model.statement.unit, model.statement.epsilon <= 8
    ('event', True)

    McSherry and Mironov 2009 (private factors); Chien et al. 2021 (noisy alternating least squares,
    joint privacy). The accounting is in `_private_plan`, the bound on each event in `_noisy_sums`.
    """

    version = 2  # a key has one hash, whatever its type
    LIMITS: ClassVar[dict[str, Limit]] = {
        "epsilon": positive,
        "delta": fraction,
        "bounds": BOUNDS,
        "unit": one_of(("event", "user")),
        "covers": one_of(("file", "joint")),
        "factors": optional(whole(1, WIDEST)),
        "per_user": optional(whole(1, 2**20)),
        "rows": optional(whole(1, MOST_ROWS)),
        "seed": SEED,
    }

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        bounds: tuple[float, float],
        unit: str = "event",
        covers: str = "file",
        factors: int | None = None,
        per_user: int | None = None,
        rows: int | None = None,
        seed: int = 0,
    ) -> None:
        self.epsilon, self.delta, self.bounds = epsilon, delta, bounds
        self.unit, self.covers, self.factors = unit, covers, factors
        self.per_user, self.rows, self.seed = per_user, rows, seed

    def fit(
        self,
        train: Interactions,
        *,
        catalogue: Any = None,
        users: Any = None,
        ledger: Any = None,
        dataset: str | None = None,
        release_id: str | None = None,
        source: Source | None = None,
    ) -> Self:
        """Charge the budget, add the noise, learn; with a ledger the model is stored there too.

        Parameters: train, whatever it holds: rows outside of the public lists are left out, ratings
        beyond the bounds are clipped, none is fine, and nothing is said of it (the curator may ask
        `Interactions.outside`); make it with invalid="drop" and, where it is read from a file,
        duplicates="keep", since of rows that put each other out one more would change two;
        catalogue, the public ids of items, and users, for unit "event" the public ids of accounts
        (or None where `rows` is given): never taken from train, whose ids they meet as texts, 7 as
        "7"; ledger (or its path) and dataset, who pays; release_id, whose retry with the same
        parameters returns the stored model and costs nothing; source, of the noise, for tests only.
        """
        plain = self._check()
        self._check_train(train, empty=True)
        shelf, accounts = shelf_of(catalogue), accounts_of(plain, train, users)
        agreed = terms(
            plain,
            dict(ledger=ledger, dataset=dataset, release_id=release_id, source=source),
            type(self).__name__,
        )
        budget = Budget.of(plain["epsilon"], plain["delta"])
        events = events_of(train, shelf, accounts, plain["bounds"])
        if plain["unit"] == "user":
            events = bounded(events, accounts, plain["per_user"], plain["seed"])
        sums = NoisySums(events, budget, agreed.contributions, source)
        stored = len(shelf) + (len(accounts) if plain["covers"] == "file" else 0)
        agreed.check_room(4 * WIDEST * stored)

        def made(statement: PrivacyStatement) -> Any:
            learned = learn(plain, sums)
            file = plain["covers"] == "file"
            known = centred(learned) if accounts.shared and file else learned
            return self._made(plain, known, shelf, accounts, statement)

        new = published(agreed, budget.loss, sentence(plain), plain, type(self), made)
        self.__dict__.update(new.__dict__)
        self._changed()
        return self

    def personal(self, own: Interactions) -> Self:
        """A copy that knows these users by their own ratings, for covers "joint".

        What it tells a user may depend on that user's ratings, and hides those of all others;
        `save` refuses it.
        """
        self._check_fitted()
        if not self.joint_:
            raise ValueError(
                "PrivateFactorization: personal is for covers='joint'; the users of this model "
                "have noisy vectors of their own."
            )
        self._check_train(own, "own", empty=True)
        twin = copy(self)
        twin._accounts = Accounts(distinct(own.by_row().users)[0])
        events = events_of(own, self.catalogue_, twin._accounts, (self.low_, self.high_))
        twin.user_vectors_ = _as_stored(own_vectors(events, self._noisy()), self._half, self._half)
        return twin

    def _check_together(self, plain: dict[str, Any]) -> None:
        if plain["unit"] == "user" and plain["covers"] == "file":
            raise ValueError(
                "PrivateFactorization: covers must be 'joint' for unit 'user': a user's vector in "
                "a published file is that user's own data, and noise that hid it would leave none."
            )
        if plain["unit"] == "user" and plain["rows"] is not None:
            raise ValueError(
                "PrivateFactorization: rows must be None for unit 'user': its file has no users."
            )
        if (plain["unit"] == "user") != (plain["per_user"] is not None):
            raise ValueError(
                "PrivateFactorization: per_user must be given for unit 'user', and only for it: "
                "the most ratings of a user that are used."
            )

    def _made(
        self,
        plain: dict[str, Any],
        learned: Learned,
        shelf: Catalogue,
        accounts: Accounts,
        statement: PrivacyStatement,
    ) -> Self:
        """A new model of what was learned, which is all noisy, and of public lists."""
        new = type(self)(**self.get_params())
        new._fitted = plain
        new.low_, new.high_ = plain["bounds"]
        half = new._half
        new.mean_ = new.low_ + half * (1 + learned.mean)
        new.residual_, new.user_bias_ = learned.residual, learned.user_bias
        new.joint_ = plain["covers"] == "joint"
        new._accounts = Accounts(np.empty(0, np.int64)) if new.joint_ else accounts
        new._kind = kind_of(new._accounts.ids)
        new.user_kind_ = new._kind if new._accounts.ids.size else ""  # of the public list alone
        new.user_vectors_ = _as_stored(learned.users[: len(new._accounts)], half, half)
        new.item_vectors_ = _as_stored(learned.items, half, 1.0)
        new.catalogue_, new._statement = shelf, statement
        return new

    @property
    def _half(self) -> float:
        return (self.high_ - self.low_) / 2

    def _noisy(self) -> Learned:
        """What was learned of the items, in units of half the range."""
        items = self.item_vectors_.astype(np.float64)
        q = np.concatenate([items[:, -1:] / self._half, items[:, :-1]], axis=1)
        mean = (self.mean_ - self.low_) / self._half - 1
        return Learned(mean, q[:0], q, self.residual_, self.user_bias_)

    def _user_vectors(self, ids: np.ndarray) -> np.ndarray:
        return _rows(self.user_vectors_, self._accounts.places(ids))

    def _item_vectors(self, ids: np.ndarray) -> np.ndarray:
        return _rows(self.item_vectors_, self.catalogue_.places(ids))


def _as_stored(vectors: np.ndarray, bias: float, component: float) -> np.ndarray:
    """Components, at least one, and last the bias, in the units of ratings."""
    parts = vectors[:, 1:] * component if vectors.shape[1] > 1 else np.zeros((len(vectors), 1))
    return np.concatenate([parts, vectors[:, :1] * bias], axis=1).astype(np.float32)


def _rows(vectors: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The rows at these places, zeros for place -1."""
    padded = np.concatenate([vectors, np.zeros((1, vectors.shape[1]), np.float32)])
    return np.asarray(padded[at])
