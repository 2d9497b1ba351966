"""Base of the profile mechanisms: collect item sets, then release them at once or in batches."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context
from itertools import zip_longest
from typing import Any, ClassVar, Generic, Self, TypeVar, Unpack, cast

import numpy as np

from sfumato.core.hashing import hash_column
from sfumato.core.ids import id_arrays, is_one, texts
from sfumato.core.tables import described
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, checked_values, integer
from sfumato.data.interactions import Interactions
from sfumato.privacy.parameters import separate_parameters
from sfumato.privacy.random_source import SystemSource
from sfumato.privacy.release import (
    CalibratedRelease,
    ReleaseOptions,
    ReleaseRequest,
    paid_by,
    whose,
)
from sfumato.privacy.statement import weakness
from sfumato.profile.item_sets import ProfileSets, public_users
from sfumato.profile.released import ReleasedProfiles
from sfumato.sketch.base import SEED

__all__ = [
    "COVERS",
    "ITEM",
    "ProfileMechanism",
    "ProfilePlan",
    "Progress",
    "ReleasedUsers",
    "advance",
    "in_step",
    "rounded_up",
]

MISSING = object()
Progress = Callable[[int, int | None], None]


class ReleasedUsers:
    """Set of users already released: 8-byte hashes of their ids in sorted runs.

    **Guarantee.** A user who was released before is refused. A new user is refused wrongly only if
    two hashes collide, which has probability below 2e-8 among a million users.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.runs: list[np.ndarray] = []  # each more than twice as long as the next

    def add(self, users: np.ndarray) -> None:
        """Add these users; ValueError where one was added before."""
        new = np.sort(hash_column(texts(users), name="users"))
        for run in self.runs:
            at = np.minimum(np.searchsorted(run, new), run.size - 1)
            if (run[at] == new).any():
                raise ValueError(
                    f"{self.owner}: batches must hold whole users; one of this batch was in an "
                    "earlier one, and a second release of a profile would cost again."
                )
        while self.runs and self.runs[-1].size <= 2 * new.size:
            new = np.sort(np.concatenate([self.runs.pop(), new]))
        if new.size:
            self.runs.append(new)


def in_step(owner: str, batches: Iterable[Any], users: Any) -> Iterator[tuple[Any, Any]]:
    """Pair each batch with its public column of users.

    >>> list(in_step("Blip", ["rows"], [[7, 8]]))
    [('rows', [7, 8])]
    """
    required = f"{owner}: users must be a column of users for each batch, in step"
    for at, (batch, who) in enumerate(zip_longest(batches, users, fillvalue=MISSING)):
        if batch is MISSING or who is MISSING or is_one(who):
            raise ValueError(f"{required}.")
        if who is None:  # not taken as "those of the interactions", who may be fewer
            raise ValueError(f"{required}; at position {at} there is None.")
        yield batch, who


def advance(progress: Progress | None, done: int, total: int) -> None:
    """Report that so many of these profiles are done, if anybody listens."""
    if progress is not None:
        progress(done, total)


ITEM, USER = "item of a profile", "user"
COVERS = "the items of each profile; which users have one is public"
R = TypeVar("R", bound=ReleasedProfiles)


@dataclass(frozen=True)
class ProfilePlan(CalibratedRelease[R]):
    """Calibrated release of profiles; one charge may pay for many parts with disjoint users.

    nbytes: size of the cells; a ledger stores the bytes of complete releases, not of parts.
    """

    covers: str = COVERS
    nbytes: int = 0

    def publish(self, request: ReleaseRequest) -> R:
        """Make the release, or return the stored one of this release_id if parameters agree."""
        request.check_room(self.nbytes)
        made = super().publish(request)
        for name, here in self.parameters.items():
            if name != "kind" and (there := made.parameters[name]) != here:
                raise _is_another(request, f"another {name}, {there!r} there and {here!r} here")
        return made

    def charge(self, request: ReleaseRequest) -> str:
        """Pay for all parts and return the ledger entry's name, "" without a ledger."""
        self._cost(request)  # raises before anything is paid
        if request.ledger is None:
            return ""
        what = f"{self.kind.__name__}, in parts: {self.mechanism}"
        return str(request.ledger.charge(request.dataset, self.loss, what, request.release_id))

    def part(self, request: ReleaseRequest, paid: str) -> R:
        """Make one part with fresh noise, under the ledger entry that paid."""
        return self._made(request, request.source or SystemSource(), self._cost(request), paid)


class ProfileMechanism(Generic[R]):
    """Base of the mechanisms: validated parameters, item sets, and their release.

    A subclass lists its parameters in LIMITS, passes them to `_set_parameters`, and implements
    `_plan`, which turns sets into a release.
    """

    LIMITS: ClassVar[dict[str, Limit]] = {"seed": SEED, "typical_size": integer(1, 2**31)}
    seed: int
    typical_size: int
    _sets: ProfileSets

    def _set_parameters(self, given: dict[str, Any]) -> None:
        """Validate and store the parameters among `given`, the locals() of `__init__`."""
        kind = type(self).__name__
        if not self.LIMITS.keys().isdisjoint(vars(self)):
            raise AttributeError(f"{kind}: its parameters cannot be changed; build another {kind}.")
        vars(self).update(checked_values(kind, self.LIMITS, given))
        self._sets = ProfileSets(self.seed)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.LIMITS and name in self.__dict__:
            kind = type(self).__name__
            raise AttributeError(f"{kind}: {name} cannot be changed; build another {kind}.")
        super().__setattr__(name, value)

    @property
    def parameters(self) -> dict[str, Any]:
        """Constructor parameters by name."""
        return {name: getattr(self, name) for name in self.LIMITS}

    def __repr__(self) -> str:
        return described(self, **self.parameters)

    def __len__(self) -> int:
        """Number of users collected so far."""
        return len(self._sets)

    def __bool__(self) -> bool:
        return True

    def update(self, interactions: Interactions) -> Self:
        """Add the items of these interactions to the profiles of their users.

        Parameters
        ----------
        interactions : Interactions
            Rows of user and item; ratings are ignored, and a repeated row changes nothing.

        Returns
        -------
        Self
            The object itself.
        """
        self._sets.update(_checked(type(self).__name__, interactions))
        return self

    def merge(self, other: Self) -> Self:
        """Add the profiles collected by another mechanism with the same parameters.

        Parameters
        ----------
        other : Self
            A mechanism of the same class and parameters; it is not changed.

        Returns
        -------
        Self
            The object itself.

        Raises
        ------
        ValueError
            If a parameter differs.
        """
        name = type(self).__name__
        if type(other) is not type(self):
            raise TypeError(f"{name}: cannot merge with {type(other).__name__}.")
        for each, mine in self.parameters.items():
            if mine != (yours := getattr(other, each)):
                raise ValueError(
                    f"{name}: cannot merge, {each} is {mine!r} here and {yours!r} there."
                )
        self._sets.merge(other._sets)
        return self

    def release(
        self,
        interactions: Interactions | None = None,
        *,
        users: Ids | None = None,
        progress: Progress | None = None,
        **options: Unpack[ReleaseOptions],
    ) -> R:
        """Release the profiles of public users with noise and a privacy statement.

        Releasing a profile again composes, and is charged again.

        Parameters
        ----------
        interactions : Interactions or None, default=None
            The rows to make profiles of; None for all that was passed to `update`.
        users : array_like, scalar or None, default=None
            Public user ids; must be given. Exactly these users have a profile, in this order, and
            an empty one without items. Rows of other users are ignored (`Interactions.outside`
            counts them for the curator).
        progress : callable or None, default=None
            Called as progress(profiles_done, profiles) while noise is drawn.
        **options : dict
            Options of every release (docs/privacy.md): privacy, ledger, dataset, unit, relation,
            contributions, release_id and source. A `Privacy` must have the epsilon and delta that
            the mechanism was built with. The unit is "item of a profile" (the default) or "user".
            With unit "user" the `contributions` items of smallest hash are encoded per profile, and
            epsilon is for a profile against an empty one (the statement reports that against any
            other as well), or against any other under relation "replace". A retry with the
            release_id of a stored release returns that release; it is refused if seed, parameters
            or users differ.

        Returns
        -------
        ReleasedProfiles
            The released profiles, which carry their `statement`.

        Raises
        ------
        ValueError
            If `users` is missing or names a user twice, or if an option is invalid.

        Notes
        -----
        **Guarantee.** No row of the data raises or warns, because that would leak; build the
        interactions with ``invalid="drop"``. The privacy guarantee is that of the mechanism's
        class.
        """
        request = self._request(options)
        sets = self._chosen(request, interactions, users)
        made = self._plan(request, sets, progress).publish(request)
        if not np.array_equal(made.users_, sets.users):
            raise _is_another(request, "other users")
        return made

    def release_batches(
        self,
        batches: Iterable[Interactions],
        *,
        users: Iterable[Any] | None = None,
        **options: Unpack[ReleaseOptions],
    ) -> Iterator[R]:
        """Release profiles batch by batch, in the memory of one batch.

        Each batch contains complete users, since a profile is released once: a user listed again
        for a later batch is refused (which takes 8 bytes per user). A ledger is charged once for
        all batches, before the first noise is drawn; a release_id that was charged before is
        refused, since noise may have been drawn for it.

        Parameters
        ----------
        batches : iterable of Interactions
            Interactions, divided by public knowledge of the users.
        users : iterable or None, default=None
            One public column of user ids per batch; must be given. Rows of other users in a batch
            are ignored.
        **options : dict
            As of `release`.

        Returns
        -------
        iterator of ReleasedProfiles
            One release per batch, in order.
        """
        request = self._request(options)
        if users is None:
            raise ValueError(
                f"{request.owner}: users must be given, a public column of ids for each batch: "
                "those of the interactions would reveal who has any."
            )
        return self._parts(request, batches, users)

    def _parts(
        self, request: ReleaseRequest, batches: Iterable[Interactions], users: Iterable[Any]
    ) -> Iterator[R]:
        owner = type(self).__name__
        released, paid = ReleasedUsers(owner), None
        for batch, who in in_step(owner, batches, users):
            sets = self._chosen(request, _checked(owner, batch), who)
            released.add(sets.users)
            plan = self._plan(request, sets)
            paid = plan.charge(request) if paid is None else paid
            part = [plan.part(request, paid)]
            del batch, who, sets, plan  # no more than one batch stays in memory
            yield part.pop()

    def _chosen(self, request: ReleaseRequest, interactions: Any, users: Any) -> ProfileSets:
        owner, sets = type(self).__name__, self._sets
        listed = public_users(users, owner)
        if interactions is not None:
            sets = ProfileSets(self.seed).update(_checked(owner, interactions))
        sets = sets.of_users(listed)
        return sets.trimmed(request.contributions) if request.unit == USER else sets

    def _request(self, options: ReleaseOptions) -> ReleaseRequest:
        owner, (epsilon, delta) = type(self).__name__, self._privacy_parameters()
        given = self._expanded(options, epsilon, delta)
        if given.get("ledger") is None and given.get("unit") is None:
            given["unit"] = ITEM
        _check_unit(owner, given)
        request = ReleaseRequest.of(owner, epsilon or 1.0, delta, cast(ReleaseOptions, given))
        if request.unit == ITEM and request.contributions != 1:
            raise ValueError(
                f"{owner}: contributions must be 1 for an {ITEM}, which counts once, not "
                f"{request.contributions}."
            )
        return replace(request, epsilon=epsilon)

    def _expanded(self, options: ReleaseOptions, epsilon: float, delta: float) -> dict[str, Any]:
        """Options with a `Privacy` expanded, whose epsilon and delta must be the mechanism's."""
        owner = type(self).__name__
        given = separate_parameters(owner, options)
        if options.get("privacy") is None:
            return given
        for name, own in (("epsilon", epsilon), ("delta", delta)):
            if given.pop(name) != own:
                raise ValueError(
                    f"{owner}: {name} of privacy must be that which the {owner} was built with."
                )
        return given

    def _privacy_parameters(self) -> tuple[float, float]:
        """Epsilon and delta of one release."""
        return float(vars(self)["epsilon"]), float(vars(self).get("delta", 0.0))

    def _plan(
        self, request: ReleaseRequest, sets: ProfileSets, progress: Progress | None = None
    ) -> ProfilePlan[R]:
        """Calibrate the release of these sets; only `noisy` may depend on the items."""
        raise NotImplementedError

    def _loss_sentence(
        self, request: ReleaseRequest, loss: Callable[[int], float], most: float | None = None
    ) -> str:
        """Both losses, for the statement: of one unit, and of an entire profile.

        loss: epsilon by the number of items added or removed; most: bound for any profile, if
        finite.
        """
        own, exchanged = rounded_up(loss(request.events)), request.relation == "replace"
        if request.unit == USER:
            retained = f"the {request.contributions} items of its least hashes"
            how = f"a whole profile, of which {retained} count, is hidden at epsilon {own} against"
            if exchanged:
                return f"{how} any other"
            # Two profiles may have no item in common; and an added item may displace another.
            other = rounded_up(loss(2 * request.events))
            return f"{how} an empty one, at epsilon {other} against any other"
        cost = loss(self.typical_size * (2 if exchanged else 1))
        little = ", which hides next to nothing of it" if weakness(cost) else ""
        whom = " against any other of as many" if exchanged else ""
        limit = "" if most is None else f" ({rounded_up(most)} for any profile)"
        return (
            f"one item is hidden at epsilon {own}, a whole profile of {self.typical_size} items "
            f"only at epsilon {rounded_up(cost)}{whom}{limit}{little}"
        )

    @staticmethod
    def _ids(sets: ProfileSets) -> dict[str, np.ndarray]:
        """Users as arrays of a release."""
        return {name: array.copy() for name, array in id_arrays("users", sets.users).items()}


def rounded_up(number: float) -> str:
    """Format with six digits, rounded up, so that no stated loss is too small.

    >>> rounded_up(847.9999999), rounded_up(0.1234561)
    ('848', '0.123457')
    """
    digits = Context(prec=6, rounding=ROUND_CEILING).create_decimal(number)
    return f"{float(digits):.6g}"


def _check_unit(owner: str, options: dict[str, Any]) -> None:
    """Raise ValueError where the unit is neither an item of a profile nor a user."""
    ledger, dataset = paid_by(owner, options)
    unit, _ = whose(owner, ledger, dataset, options)
    if unit not in (ITEM, USER):
        remedy = "" if ledger is None else f"; create the data set with unit={ITEM!r}"
        raise ValueError(
            f"{owner}: unit must be {ITEM!r} or {USER!r}, not {unit!r}: profiles are sets, and "
            f"what changes them is an item or all items of a user{remedy}."
        )


def _is_another(request: ReleaseRequest, how: str) -> ValueError:
    return ValueError(
        f"{request.owner}: release {request.release_id!r} was made with {how}; a new release needs "
        "a new release_id."
    )


def _checked(owner: str, interactions: Any) -> Interactions:
    if not isinstance(interactions, Interactions):
        raise TypeError(
            f"{owner}: interactions must be Interactions, not {type(interactions).__name__}."
        )
    return interactions
