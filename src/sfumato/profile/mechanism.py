"""What encodes profiles privately: fed with interactions, then released, once or batch by batch.

Batches of whole users: each comes once, beside its public users.
"""

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
from sfumato.privacy.parameters import spread
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
    "SeenUsers",
    "in_step",
    "rounded_up",
]

MISSING = object()


class SeenUsers:
    """Users who had their release, by the hashes of their ids: 8 bytes each, in sorted runs.

    Guarantee: a user who comes again is refused; a new one is too if both hashes are equal, which
    has a chance below 2e-8 among a million users.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.runs: list[np.ndarray] = []  # each more than twice as long as the next

    def add(self, users: np.ndarray) -> None:
        """Remember these users; ValueError where one was there before."""
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
    """Each batch with its public column of users.

    >>> list(in_step("Blip", ["rows"], [[7, 8]]))
    [('rows', [7, 8])]
    """
    asked = f"{owner}: users must be a column of users for each batch, in step"
    for at, (batch, who) in enumerate(zip_longest(batches, users, fillvalue=MISSING)):
        if batch is MISSING or who is MISSING or is_one(who):
            raise ValueError(f"{asked}.")
        if who is None:  # not taken as "those of the interactions", who may be fewer
            raise ValueError(f"{asked}; at position {at} there is None.")
        yield batch, who


ITEM, USER = "item of a profile", "user"
COVERS = "the items of each profile; which users have one is public"
R = TypeVar("R", bound=ReleasedProfiles)


@dataclass(frozen=True)
class ProfilePlan(CalibratedRelease[R]):
    """A plan whose cost may be paid for many parts at once: their users are not the same.

    nbytes: of the cells; a ledger keeps those of whole releases, and none of parts.
    """

    covers: str = COVERS
    nbytes: int = 0

    def publish(self, request: ReleaseRequest) -> R:
        """The release, or the stored one that a retry names if it has the parameters asked for."""
        request.check_room(self.nbytes)
        made = super().publish(request)
        for name, here in self.parameters.items():
            if name != "kind" and (there := made.parameters[name]) != here:
                raise _is_another(request, f"another {name}, {there!r} there and {here!r} here")
        return made

    def charge(self, request: ReleaseRequest) -> str:
        """Pay for all parts; the entry's name, "" without a ledger."""
        self._cost(request)  # raises before anything is paid
        if request.ledger is None:
            return ""
        what = f"{self.kind.__name__}, in parts: {self.mechanism}"
        return str(request.ledger.charge(request.dataset, self.loss, what, request.release_id))

    def part(self, request: ReleaseRequest, paid: str) -> R:
        """One part, made of fresh noise, under the entry that paid."""
        return self._made(request, self._cost(request), paid)


class ProfileMechanism(Generic[R]):
    """The base of the mechanisms: parameters with limits, sets of items, and their release.

    A subclass lists its parameters in LIMITS, passes them to `_set_parameters`, and says in
    `_plan` how sets become a release.
    """

    LIMITS: ClassVar[dict[str, Limit]] = {"seed": SEED, "typical_size": integer(1, 2**31)}
    seed: int
    typical_size: int
    _sets: ProfileSets

    def _set_parameters(self, given: dict[str, Any]) -> None:
        """Check and keep the parameters among these: what `__init__` was given, as locals()."""
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
        """The parameters it was built with."""
        return {name: getattr(self, name) for name in self.LIMITS}

    def __repr__(self) -> str:
        return described(self, **self.parameters)

    def __len__(self) -> int:
        """How many users were fed so far."""
        return len(self._sets)

    def __bool__(self) -> bool:
        return True

    def update(self, interactions: Interactions) -> Self:
        """Add the items of these rows to the profiles of their users; ratings are not read.

        Parameters
        ----------
        interactions : Interactions
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        self._sets.update(_checked(type(self).__name__, interactions))
        return self

    def merge(self, other: Self) -> Self:
        """Add the profiles that another one, of the same parameters, was fed.

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        Self
            The object itself.
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
        **options: Unpack[ReleaseOptions],
    ) -> R:
        """The profiles with noise, and a statement of what that hides.

        Releasing a profile again composes, and is charged again.

        Parameters
        ----------
        interactions : Interactions or None, default=None
            Of which alone the profiles are then made, None for all that was fed.
        users : array_like, scalar or None, default=None
            A public column of ids, which must be given: exactly these users have a profile, in this
            order, an empty one who has no items, and rows of anybody else are left out
            (`Interactions.outside` counts them for the curator); options as of every release
            (docs/privacy.md), where a `Privacy` has the epsilon and delta that this was built with.
            unit is "item of a profile" or "user": of a user's profile the `contributions` items of
            the least hashes are then encoded, and epsilon is about a profile against an empty one
            (the statement tells that against any other as well), or against any other under
            relation "replace". A retry with the release_id of a stored release returns it; with
            another seed or other parameters or users it is refused.
        **options : dict
            TODO.

        Returns
        -------
        R
            The profiles with noise, and a statement of what that hides.

        Notes
        -----
        **Guarantee.** No row raises or warns; make interactions with invalid="drop".
        """
        request = self._terms(options)
        sets = self._chosen(request, interactions, users)
        made = self._plan(request, sets).publish(request)
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
        """A release for each batch, in the memory of one; a ledger is charged once, for all.

        Each batch holds whole users, since a profile is released once: a user who is listed again
        for a later batch is refused (8 bytes a user are kept for that). The charge stands before
        the first noise is drawn; a release_id that was charged before is refused, as noise was
        perhaps drawn for it.

        as of `release`;

        Parameters
        ----------
        batches : iterable
            Divided by what is public of the users.
        users : iterable or None, default=None
            A public column for each batch, in step: rows of others in a batch are left out.
        **options : dict
            TODO.

        Returns
        -------
        iterator
            A release for each batch, in the memory of one; a ledger is charged once, for all.
        """
        request = self._terms(options)
        if users is None:
            raise ValueError(
                f"{request.owner}: users must be given, a public column of ids for each batch: "
                "those of the interactions would tell who has any."
            )
        return self._parts(request, batches, users)

    def _parts(
        self, request: ReleaseRequest, batches: Iterable[Interactions], users: Iterable[Any]
    ) -> Iterator[R]:
        owner = type(self).__name__
        seen, paid = SeenUsers(owner), None
        for batch, who in in_step(owner, batches, users):
            sets = self._chosen(request, _checked(owner, batch), who)
            seen.add(sets.users)
            plan = self._plan(request, sets)
            paid = plan.charge(request) if paid is None else paid
            part = [plan.part(request, paid)]
            del batch, who, sets, plan  # no more than one batch is held
            yield part.pop()

    def _chosen(self, request: ReleaseRequest, interactions: Any, users: Any) -> ProfileSets:
        owner, sets = type(self).__name__, self._sets
        listed = public_users(users, owner)
        if interactions is not None:
            sets = ProfileSets(self.seed).update(_checked(owner, interactions))
        sets = sets.of_users(listed)
        return sets.trimmed(request.contributions) if request.unit == USER else sets

    def _terms(self, options: ReleaseOptions) -> ReleaseRequest:
        owner, (epsilon, delta) = type(self).__name__, self._asked()
        given = self._spread(options, epsilon, delta)
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

    def _spread(self, options: ReleaseOptions, epsilon: float, delta: float) -> dict[str, Any]:
        """The options, with those of a `Privacy` that allows what this mechanism costs."""
        owner = type(self).__name__
        given = spread(owner, options)
        if options.get("privacy") is None:
            return given
        for name, own in (("epsilon", epsilon), ("delta", delta)):
            if given.pop(name) != own:
                raise ValueError(
                    f"{owner}: {name} of privacy must be that which the {owner} was built with."
                )
        return given

    def _asked(self) -> tuple[float, float]:
        """The epsilon and delta that a release may cost."""
        return float(vars(self)["epsilon"]), float(vars(self).get("delta", 0.0))

    def _plan(self, request: ReleaseRequest, sets: ProfileSets) -> ProfilePlan[R]:
        """How these sets become a release; nothing of it but `noisy` may depend on the items."""
        raise NotImplementedError

    def _told(
        self, request: ReleaseRequest, loss: Callable[[int], float], most: float | None = None
    ) -> str:
        """Both losses, for the sentence of a statement: of one unit, and of a whole profile.

        loss, by the number of items that are added or removed; most, of any profile if it ends.
        """
        own, exchanged = rounded_up(loss(request.events)), request.relation == "replace"
        if request.unit == USER:
            kept = f"the {request.contributions} items of its least hashes"
            how = f"a whole profile, of which {kept} count, is hidden at epsilon {own} against"
            if exchanged:
                return f"{how} any other"
            # Two profiles may have no item in common; and an item more may push another out.
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
        """The users as arrays of a release."""
        return {name: array.copy() for name, array in id_arrays("users", sets.users).items()}


def rounded_up(number: float) -> str:
    """Six digits, none of which promises more than is true.

    >>> rounded_up(847.9999999), rounded_up(0.1234561)
    ('848', '0.123457')
    """
    digits = Context(prec=6, rounding=ROUND_CEILING).create_decimal(number)
    return f"{float(digits):.6g}"


def _check_unit(owner: str, options: dict[str, Any]) -> None:
    """Raise where an item or a user is not what is hidden, before anything else is asked for."""
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
