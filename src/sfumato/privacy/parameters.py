"""Privacy parameters as one object: what may be spent, who pays, and whether copies may."""

import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, ClassVar, Self

from sfumato.core.validation import Limit, between, checked, integer, one_of, optional, positive
from sfumato.errors import ParameterError
from sfumato.privacy.units import RELATIONS, UNITS

__all__ = [
    "PRIVACY",
    "TERMS",
    "ClonedLedger",
    "Privacy",
    "check_payer",
    "cloned_ledger",
    "release_parameters",
    "separate_parameters",
]


@dataclass(frozen=True)
class ClonedLedger:
    """Ledger of a copied estimator: it names who would pay, and cannot be charged."""

    name: str

    def __repr__(self) -> str:
        return f"<{self.name!r}, which a clone may not charge>"


def cloned_ledger(ledger: Any) -> Any:
    """Return what a copy stores instead of this ledger, which is not opened; None stays None."""
    if ledger is None or isinstance(ledger, ClonedLedger):
        return ledger
    if isinstance(ledger, str | os.PathLike):
        return ClonedLedger(str(os.fspath(ledger)))
    return ClonedLedger(str(getattr(ledger, "name", type(ledger).__name__)))


def check_payer(owner: str, ledger: Any, dataset: Any, release_id: Any) -> None:
    """Raise where ledger, data set and release id do not go together; opens no ledger."""
    if (ledger is None) != (not dataset):
        missing = "ledger" if ledger is None else "dataset"
        sentence = f"{owner}: ledger and dataset go together; give both or neither."
        raise ParameterError(sentence, owner=owner, parameter=missing)
    if release_id is not None and (ledger is None or not isinstance(release_id, str)):
        raise ValueError(f"{owner}: release_id must be a text, and needs a ledger to look in.")
    known = ledger is None or isinstance(ledger, str | os.PathLike | ClonedLedger)
    if not known and not (hasattr(ledger, "release") and hasattr(ledger, "dataset")):
        given = type(ledger).__name__
        raise TypeError(f"{owner}: ledger must be a Ledger or its path, not {given}.")


@dataclass(frozen=True, repr=False)
class Privacy:
    """Privacy parameters of a release: its cost and who pays, for estimators and releases.

    Given as ``privacy=`` it replaces the separate keywords of the same names; an estimator or a
    ``release`` that gets both refuses them.

    Parameters
    ----------
    epsilon : float
        Largest epsilon of the release, above 0.
    delta : float, default=0.0
        Largest delta of the release, from 0 to below 1.
    ledger : Ledger or path, default=None
        Ledger that is charged, or its path; needs `dataset`. Without one the statement says
        *unaccounted*. It is opened when something is released, not before.
    dataset : str or None, default=None
        Data set of the ledger that is charged.
    unit : str or None, default=None
        Unit of privacy; None takes that of the data set where there is a ledger, else the default
        of the class that makes the release.
    relation : str or None, default=None
        Adjacency: "add/remove" or "replace"; None as for `unit`.
    contributions : int or None, default=None
        Largest number of events of one unit, at least 1; None is 1 for an event or an item.
    release_id : str or None, default=None
        Name that makes a retry return the stored bytes at no cost; needs a ledger.
    clones : {"refuse", "charge"}, default="refuse"
        Whether copies of an estimator may charge the ledger. Not both "charge" and a `release_id`,
        with which all copies would get the release of the first.

    Notes
    -----
    **Guarantee.** Permission to spend stays with the object that was built. What
    ``sklearn.base.clone`` or ``copy.deepcopy`` makes of it, or of an estimator that has it or the
    separate keywords, names the ledger and cannot charge it: its `fit` raises ValueError before any
    noise is drawn. So ``GridSearchCV`` and ``cross_val_score``, which fit clones, spend nothing.
    With ``clones="charge"`` each fit of each copy is charged for itself, as far as the ledger's
    budget goes. Pickling moves an object with its permission.

    Nothing is cloned or copied differently where there is no ledger: there is no budget to guard.

    Examples
    --------
    >>> privacy = Privacy(1, ledger="shop.ledger", dataset="views")
    >>> privacy.replace(epsilon=2)
    Privacy(epsilon=2.0, ledger='shop.ledger', dataset='views')
    >>> from copy import deepcopy
    >>> deepcopy(privacy)
    Privacy(epsilon=1.0, ledger=<'shop.ledger', which a clone may not charge>, dataset='views')
    """

    epsilon: float
    delta: float = 0.0
    _: KW_ONLY
    ledger: Any = None
    dataset: str | None = None
    unit: str | None = None
    relation: str | None = None
    contributions: int | None = None
    release_id: str | None = None
    clones: str = "refuse"
    LIMITS: ClassVar[dict[str, Limit]] = {
        "epsilon": positive,
        "delta": between(0, 1),
        "unit": optional(one_of(UNITS)),
        "relation": optional(one_of(RELATIONS)),
        "contributions": optional(integer(1, 2**31)),
        "clones": one_of(("refuse", "charge")),
    }

    def __post_init__(self) -> None:
        checked(self, self.LIMITS)
        if self.dataset is not None and not isinstance(self.dataset, str):
            raise ValueError(f"Privacy: dataset must be a text, not {self.dataset!r:.200}.")
        check_payer("Privacy", self.ledger, self.dataset, self.release_id)
        if self.clones == "charge" and self.release_id is not None:
            raise ValueError(
                "Privacy: clones must be 'refuse' with a release_id, by which every copy would get "
                "the stored release of the first; leave the release_id out."
            )

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed and the same permission to spend.

        Parameters
        ----------
        **changes : object
            New values by field name.

        Returns
        -------
        Self
            The copy.
        """
        return replace(self, **changes)

    @property
    def terms(self) -> dict[str, Any]:
        """The parameters of a release that are not None, by keyword."""
        keywords = {name: getattr(self, name) for name in TERMS}
        return {name: value for name, value in keywords.items() if value is not None}

    def __sklearn_clone__(self) -> Self:
        if self.clones == "charge" or self.ledger is None:
            return self
        return self.replace(ledger=cloned_ledger(self.ledger))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__sklearn_clone__()

    def __repr__(self) -> str:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        defaults = {each.name: each.default for each in fields(self)}
        inside = ", ".join(f"{n}={v!r}" for n, v in values.items() if v != defaults[n])
        return f"Privacy({inside})"


TERMS = tuple(each.name for each in fields(Privacy) if each.name != "clones")


class _PrivacyLimit:
    """A `Privacy`."""

    def check(self, owner: str, name: str, value: Any) -> Privacy:
        if not isinstance(value, Privacy):
            problem = f"must be a sfumato.privacy.Privacy, not {value!r:.200}."
            raise ParameterError.of(owner, name, problem)
        return value

    def bad(self) -> list[Any]:
        return [1.0, "much", {"epsilon": 1}]


PRIVACY = optional(_PrivacyLimit())


def separate_parameters(
    owner: str, given: Mapping[str, Any], usual: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Replace `privacy` among the parameters by the separate keywords that it stands for.

    Parameters
    ----------
    owner : str
        Name of the caller, for error messages.
    given : mapping
        The parameters, of which `privacy` may be missing or None.
    usual : mapping, default=None
        Default of each separate keyword; None unless named here.

    Returns
    -------
    dict
        The parameters without `privacy`.
    """
    separate = {name: value for name, value in given.items() if name != "privacy"}
    privacy = PRIVACY.check(owner, "privacy", given.get("privacy"))
    if privacy is None:
        return separate
    for name in TERMS:
        value, default = separate.get(name), (usual or {}).get(name)
        if value is not None and value is not default and value != default:
            raise ValueError(
                f"{owner}: privacy and {name} must not both be given; leave {name} out, or take "
                f"privacy.replace({name}=...)."
            )
    return {**separate, **privacy.terms}


def release_parameters(
    owner: str, epsilon: Any, delta: float, options: Mapping[str, Any]
) -> tuple[Any, float, Any]:
    """Return epsilon, delta and options of a release, as given or from a `Privacy`."""
    if isinstance(epsilon, Privacy):
        if options.get("privacy") is not None:
            raise ValueError(f"{owner}: privacy must be given once.")
        epsilon, options = None, {**options, "privacy": epsilon}
    given = separate_parameters(
        owner, {"epsilon": epsilon, "delta": delta, **options}, {"delta": 0.0}
    )
    if given["epsilon"] is None:
        raise ValueError(f"{owner}: epsilon must be given, or privacy=Privacy(epsilon, ...).")
    return given.pop("epsilon"), given.pop("delta"), given
