"""Base of private models whose lists come from a release and a user's own items."""

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from sfumato.core.deprecation import keyword_only, renamed_arguments, renamed_method
from sfumato.core.typing import Ids
from sfumato.data.interactions import Interactions
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, ReleaseOptions, ReleaseRequest
from sfumato.privacy.statement import PrivacyStatement
from sfumato.recommend.base import Label, NotFittedError, Parameters, label_of
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.private.inputs import Budget, payer
from sfumato.recommend.private.released_lists import ReleasedLists
from sfumato.recommend.private.user_sums import ItemSets

if TYPE_CHECKING:
    from sfumato.engine import Engine

__all__ = [
    "ListPlan",
    "PrivateLists",
    "catalogue_of",
    "check_train",
    "default_per_user",
    "sigmas",
    "user_request",
]

PER_EPSILON, FEWEST, MOST = 32, 8, 256


class ListPlan(NamedTuple):
    """A release that is checked and calibrated, before a row was read."""

    request: ReleaseRequest
    catalogue: Catalogue
    calibrated: Callable[[Any], CalibratedRelease[Any]]  # of `ItemSets` or `EngineItemSets`
    per_user: int | None = None  # sampled of each user; None for all
    seed: int = 0

    @property
    def sets(self) -> tuple[Catalogue, int | None, int]:
        """What makes `ItemSets` of a source."""
        return self.catalogue, self.per_user, self.seed


class PrivateLists(Parameters):
    """Base of private models that recommend by their release, `release_`."""

    release_: Any

    def fit(
        self,
        train: Any,
        *,
        catalogue: Ids,
        ledger: Any = None,
        dataset: str | None = None,
        release_id: str | None = None,
        source: Source | None = None,
    ) -> Self:
        """Charge the budget, count with noise, and set `release_`.

        Parameters
        ----------
        train : Interactions
            Events; may be empty. Items outside of the catalogue are ignored, and no error depends
            on the content (`Interactions.outside` counts them for the curator). Make it with
            `invalid="drop"`.
        catalogue : array_like or scalar
            Public ids of the items that may be recommended, at least 2. They must not be taken from
            `train`.
        ledger : Ledger, path_like or None, default=None
            Ledger that is charged; None charges none.
        dataset : str or None, default=None
            Data set of the ledger.
        release_id : str or None, default=None
            Name of the release; repeating it returns the stored release at no cost.
        source : Source or None, default=None
            Source of the noise, for tests only.

        Returns
        -------
        Self
            The object itself.
        """
        self._limited()
        check_train(type(self).__name__, train)
        paid = dict(ledger=ledger, dataset=dataset, release_id=release_id)
        plan = self._planned(catalogue, paid, source)
        return self._publish(plan, ItemSets.of(train, *plan.sets))

    def fit_rows(
        self,
        source: Any,
        *,
        engine: "Engine",
        columns: tuple[str, ...] = ("user", "item"),
        catalogue: Ids,
        ledger: Any = None,
        dataset: str | None = None,
        release_id: str | None = None,
        random_source: Source | None = None,
    ) -> Self:
        """Count on an engine, charge the budget, add noise, and set `release_`.

        Parameters
        ----------
        source : object
            What the engine reads: see the engine. Rows are treated as by `fit`; a row without user
            or item is ignored.
        engine : Engine
            Where the work runs: `sfumato.engine.LocalEngine` or `sfumato.engine.SparkEngine`.
        columns : tuple of str, default=('user', 'item')
            Names of the columns of users and items, and of ratings if rows without a finite one
            are to be ignored.
        catalogue : array_like or scalar
            Public ids of the items that may be recommended, at least 2. They must not be taken from
            the source.
        ledger : Ledger, path_like or None, default=None
            Ledger that is charged; None charges none.
        dataset : str or None, default=None
            Data set of the ledger.
        release_id : str or None, default=None
            Name of the release; repeating it returns the stored release at no cost.
        random_source : Source or None, default=None
            Source of the noise, for tests only.

        Returns
        -------
        Self
            The object itself.

        Notes
        -----
        **Guarantee.** The guarantee and, for the same noise, the bytes of `fit` on the same rows,
        in any order and any partitions. The rows of a user come together in one partition. The
        caller's process charges the budget once, after the rows were read, and adds noise once to
        each sum of all partitions, so that partitions which are computed again change nothing.

        Examples
        --------
        >>> from sfumato.engine import LocalEngine
        >>> from sfumato.recommend import PrivatePopular
        >>> events = {"user": ["ann", "ann", "bob"], "item": ["tea", "milk", "tea"]}
        >>> model = PrivatePopular(epsilon=1, delta=1e-6)
        >>> public = {"catalogue": ["tea", "milk", "rum"]}
        >>> model.fit_rows(events, engine=LocalEngine(), **public).statement.proof
        'proved'
        """
        from sfumato.recommend.private.set_rows import EngineItemSets  # and with it the engines

        paid = dict(ledger=ledger, dataset=dataset, release_id=release_id)
        plan = self._planned(catalogue, paid, random_source)
        rows = engine.rows(source, columns, private=True)
        sets = EngineItemSets(rows, columns, *plan.sets)
        try:
            return self._publish(plan, sets)
        finally:
            sets.unpersist()

    @property
    def statement(self) -> PrivacyStatement:
        """Privacy statement of the release."""
        return self._released().statement

    @property
    def privacy_label(self) -> Label:
        """Privacy in one word: "proved"; "none" before `fit` or if the noise was seeded."""
        return label_of(self.statement if "release_" in self.__dict__ else None)

    @property
    def catalogue_(self) -> Catalogue:
        """Items that may be recommended."""
        return self._released().catalogue_

    @property
    def nbytes(self) -> int:
        """Size of the release in bytes, including the catalogue."""
        return self._released().nbytes

    @renamed_arguments(exclude="user_items")
    def recommend(
        self, users: Ids, n: int = 10, *, user_items: Any, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recommend n items to each user, from the user's own items, by `release_` alone.

        Parameters
        ----------
        users : array_like or scalar
            Distinct user ids, or a single id.
        n : int, default=10
            Number of items per user, at least 1.
        user_items : Interactions
            The users' own items; they are not recommended again.
        filter : array_like of bool or None, default=None
            Mask over `catalogue_`; only items with True are recommended.

        Returns
        -------
        tuple of ndarray
            Item ids and scores, best first, both of shape (n_users, n), or (m,) with m <= n for a
            single user id.
        """
        return self._released().recommend(users, n, user_items=user_items, filter=filter)

    @keyword_only("n")
    def recommend_fold_in(
        self, items: Ids, *, n: int = 10, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recommend n items to a new user, given the user's items, by `release_` alone.

        Parameters
        ----------
        items : array_like or scalar
            Ids of the user's items; they are not recommended again.
        n : int, default=10
            Number of items to recommend, at least 1.
        filter : array_like of bool or None, default=None
            Mask over `catalogue_`; only items with True are recommended.

        Returns
        -------
        tuple of ndarray
            Item ids and scores of shape (m,), m <= n, best first.
        """
        return self._released().recommend_fold_in(items, n=n, filter=filter)

    recommend_guest: Callable[..., Any] = renamed_method("recommend_guest", "recommend_fold_in")

    def save(self, path: Any) -> None:
        """Write the release to a file, for `load`.

        Parameters
        ----------
        path : path_like
            Path of the file.
        """
        self._released().save(path)

    def _planned(self, catalogue: Any, paid: dict[str, Any], source: Source | None) -> ListPlan:
        """Check everything public; return what to release, before a row was read."""
        raise NotImplementedError

    def _publish(self, plan: ListPlan, sets: Any) -> Self:
        """Charge the budget, and take over the release of sums of the item sets."""
        self.release_ = plan.calibrated(sets).publish(plan.request)
        return self

    def _released(self) -> ReleasedLists:
        """Return the release; raise NotFittedError before `fit`."""
        if "release_" not in self.__dict__:
            raise NotFittedError(f"{type(self).__name__}: not fitted yet; call fit first.")
        release: ReleasedLists = self.release_
        return release


def check_train(owner: str, train: Any) -> None:
    """Raise TypeError unless train is Interactions."""
    if not isinstance(train, Interactions):
        raise TypeError(f"{owner}: train must be Interactions, not {type(train).__name__}.")


def catalogue_of(owner: str, catalogue: Any) -> Catalogue:
    """Return the public catalogue; raise ValueError if it is None or has fewer than 2 items."""
    if catalogue is None:
        raise ValueError(
            f"{owner}: catalogue must be given, a public column of ids: which items occur in the "
            "data would reveal some of it."
        )
    items = catalogue if isinstance(catalogue, Catalogue) else Catalogue(catalogue)
    if len(items) < 2:
        raise ValueError(f"{owner}: catalogue must have at least 2 items.")
    return items


def default_per_user(epsilon: float) -> int:
    """Return the number of items from which on a user's items weigh less, by epsilon alone.

    The more budget, the more of a long history is worth its noise.
    """
    return int(min(max(PER_EPSILON * epsilon, FEWEST), MOST))


def user_request(
    owner: str,
    settings: dict[str, Any],
    paid: dict[str, Any],
    source: Source | None,
) -> ReleaseRequest:
    """Return the validated request for a release that protects a user with any number of events."""
    privacy = settings.get("privacy")
    who = payer(owner, privacy, paid["ledger"], paid["dataset"], paid["release_id"])
    if privacy is not None:
        given = (privacy.unit, privacy.relation, privacy.contributions)
        if given[0] not in (None, "user") or given[1] not in (None, "add/remove"):
            raise ValueError(
                f"{owner}: unit and relation of privacy must be 'user' and 'add/remove', or left "
                "out."
            )
        if given[2] is not None:
            raise ValueError(
                f"{owner}: contributions of privacy must be left out: users may have any number "
                "of events."
            )
    options = ReleaseOptions(
        **who,  # type: ignore[typeddict-item]
        source=source,
        unit="user",
        relation="add/remove",
        contributions=1,  # a user is one unit, however many events it has
    )
    return ReleaseRequest.of(owner, settings["epsilon"], settings["delta"], options)


def sigmas(owner: str, budget: Budget, steps: list[tuple[int, Fraction]]) -> list[int]:
    """Return the noise of steps, each a squared sensitivity and its fraction of the budget."""
    found = [budget.sigma(*step) for step in steps]
    if max(found) > noise.LARGEST:
        raise ValueError(
            f"{owner}: epsilon must be larger for this delta: the noise would not fit into cells "
            "of 64 bits."
        )
    return found
