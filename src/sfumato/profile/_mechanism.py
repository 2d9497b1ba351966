"""What encodes profiles privately: fed with interactions, then released, once or batch by batch."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context
from typing import Any, ClassVar, Generic, Self, TypeVar, Unpack, cast

import numpy as np

from sfumato._require import Limit, whole
from sfumato.data.interactions import Interactions
from sfumato.profile._batches import SeenUsers, in_step
from sfumato.profile._released import ReleasedProfiles
from sfumato.profile._sets import ProfileSets, public_users
from sfumato.sketch._base import SEED
from sfumato.sketch._ids import id_arrays
from sfumato.sketch._release import Options, Plan, Terms

__all__ = ["COVERS", "ITEM", "ProfileMechanism", "ProfilePlan", "rounded_up"]

ITEM, USER = "item of a profile", "user"
COVERS = "the items of each profile; which users have one is public"
R = TypeVar("R", bound=ReleasedProfiles)


@dataclass(frozen=True)
class ProfilePlan(Plan[R]):
    """A plan whose cost may be paid for many parts at once: their users are not the same."""

    covers: str = COVERS

    def charge(self, terms: Terms) -> str:
        """Pay for all parts; the entry's name, "" without a ledger."""
        self._cost(terms)  # raises before anything is paid
        if terms.ledger is None:
            return ""
        what = f"{self.kind.__name__}, in parts: {self.mechanism}"
        return str(terms.ledger.charge(terms.dataset, self.loss, what, terms.release_id))

    def part(self, terms: Terms, paid: str) -> R:
        """One part, made of fresh noise, under the entry that paid."""
        return self._made(terms, self._cost(terms), paid)


class ProfileMechanism(Generic[R]):
    """The base of the mechanisms: parameters with limits, sets of items, and their release.

    A subclass lists its parameters in LIMITS, passes them to `_set_parameters`, and says in
    `_plan` how sets become a release.
    """

    LIMITS: ClassVar[dict[str, Limit]] = {"seed": SEED, "typical_size": whole(1, 2**31)}
    seed: int
    typical_size: int
    _sets: ProfileSets

    def _set_parameters(self, **given: Any) -> None:
        owner = type(self).__name__
        for name, limit in self.LIMITS.items():
            setattr(self, name, limit.check(owner, name, given[name]))
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
        inside = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{type(self).__name__}({inside})"

    def __len__(self) -> int:
        """How many users were fed so far."""
        return len(self._sets)

    def update(self, interactions: Interactions) -> Self:
        """Add the items of these rows to the profiles of their users; ratings are not read."""
        self._sets.update(_checked(type(self).__name__, interactions))
        return self

    def merge(self, other: Self) -> Self:
        """Add the profiles that another one, of the same parameters, was fed."""
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
        users: Any = None,
        **options: Unpack[Options],
    ) -> R:
        """The profiles with noise, and a statement of what that hides.

        Releasing a profile again composes, and is charged again.
        Parameters: interactions, of which alone the profiles are then made, None for all that was
        fed; users, None for those of the interactions, by rising ids, or a public column: exactly
        these users, in this order, also those without items, and nobody else may have interactions;
        options as of every release (docs/privacy.md). unit is "item of a profile" or "user": of a
        user's profile the `contributions` items of the least hashes are then encoded.
        """
        terms = self._terms(options)
        return self._plan(terms, self._chosen(terms, interactions, users)).publish(terms)

    def release_batches(
        self,
        batches: Iterable[Interactions],
        *,
        users: Iterable[Any] | None = None,
        **options: Unpack[Options],
    ) -> Iterator[R]:
        """A release for each batch, in the memory of one; a ledger is charged once, for all.

        Each batch holds whole users, since a profile is released once: a user who comes again in
        a later batch is refused (8 bytes a user are kept for that). The charge stands before the
        first noise is drawn; a release_id that was charged before is refused, as noise was perhaps
        drawn for it.
        Parameters: as of `release`; batches, divided by what is public of the users; users, None or
        a public column for each batch, in step.
        """
        return self._parts(self._terms(options), batches, users)

    def _parts(
        self, terms: Terms, batches: Iterable[Interactions], users: Iterable[Any] | None
    ) -> Iterator[R]:
        owner = type(self).__name__
        seen, paid = SeenUsers(owner), None
        for batch, who in in_step(owner, batches, users):
            sets = self._chosen(terms, _checked(owner, batch), who)
            seen.add(sets.users)
            plan = self._plan(terms, sets)
            paid = plan.charge(terms) if paid is None else paid
            part = [plan.part(terms, paid)]
            del batch, who, sets, plan  # no more than one batch is held
            yield part.pop()

    def _chosen(self, terms: Terms, interactions: Any, users: Any) -> ProfileSets:
        owner, sets = type(self).__name__, self._sets
        if interactions is not None:
            sets = ProfileSets(self.seed).update(_checked(owner, interactions))
        if users is None:
            sets = sets.in_order()
        else:
            sets = sets.of_users(public_users(users, owner), owner)
        return sets.trimmed(terms.contributions) if terms.unit == USER else sets

    def _terms(self, options: Options) -> Terms:
        owner, (epsilon, delta) = type(self).__name__, self._asked()
        given: dict[str, Any] = dict(options)
        if given.get("ledger") is None and given.get("unit") is None:
            given["unit"] = ITEM
        terms = Terms.of(owner, epsilon or 1.0, delta, cast(Options, given))
        if terms.unit not in (ITEM, USER):
            raise ValueError(
                f"{owner}: unit must be {ITEM!r} or {USER!r}, not {terms.unit!r}: profiles are "
                "sets, and what changes them is an item or all items of a user."
            )
        if terms.unit == ITEM and terms.contributions != 1:
            raise ValueError(
                f"{owner}: contributions must be 1 for an {ITEM}, which counts once, not "
                f"{terms.contributions}."
            )
        return replace(terms, epsilon=epsilon)

    def _asked(self) -> tuple[float, float]:
        """The epsilon and delta that a release may cost."""
        return float(vars(self)["epsilon"]), float(vars(self).get("delta", 0.0))

    def _plan(self, terms: Terms, sets: ProfileSets) -> ProfilePlan[R]:
        """How these sets become a release; nothing of it but `noisy` may depend on the items."""
        raise NotImplementedError

    def _told(self, terms: Terms, one: float, profile: float, most: float | None = None) -> str:
        """Both losses, for the sentence of a statement: of one unit, and of a whole profile.

        one, the loss of a unit; profile, of `typical_size` items; most, of any profile if it ends.
        """
        if terms.unit == USER:
            kept = f"the {terms.contributions} items of its least hashes"
            return f"a whole profile, of which {kept} count, is hidden at epsilon {rounded_up(one)}"
        limit = "" if most is None else f" ({rounded_up(most)} for any profile)"
        return (
            f"one item is hidden at epsilon {rounded_up(one)}, a whole profile of "
            f"{self.typical_size} items only at epsilon {rounded_up(profile)}{limit}"
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


def _checked(owner: str, interactions: Any) -> Interactions:
    if not isinstance(interactions, Interactions):
        raise TypeError(
            f"{owner}: interactions must be Interactions, not {type(interactions).__name__}."
        )
    return interactions
