"""A private model on its way out: terms are checked, the budget charged, and then noise drawn."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from sfumato.privacy._source import stated
from sfumato.privacy.calibrate import epsilon_of
from sfumato.privacy.loss import Loss
from sfumato.privacy.statement import PrivacyStatement
from sfumato.recommend._estimator import Estimator
from sfumato.sketch._release import Options, Terms

__all__ = ["COVERS", "published", "terms"]

COVERS = {
    "file": "the whole file: mean, biases and components of users and items",
    "joint": "joint: the file, which holds items only; what a user is told may depend on that "
    "user's own ratings",
}
M = TypeVar("M", bound=Estimator)


def terms(plain: dict[str, Any], options: Options, owner: str) -> Terms:
    """What was asked for, checked before anything is charged."""
    asked: Options = {**options, "unit": plain["unit"], "relation": "add/remove"}
    if plain["per_user"] is not None:
        asked["contributions"] = plain["per_user"]
    return Terms.of(owner, plain["epsilon"], plain["delta"], asked)


def published(
    terms: Terms,
    loss: Loss,
    mechanism: str,
    plain: dict[str, Any],
    kind: type[M],
    made: Callable[[PrivacyStatement], M],
) -> M:
    """The model: charged and stored first if there is a ledger, unaccounted if not.

    The ledger notes all parameters, so that a release id cannot be used again with others.
    """
    cost = epsilon_of(loss, terms.delta) or terms.epsilon  # a large delta alone may cover it
    told = PrivacyStatement(
        unit=terms.unit,
        relation=terms.relation,
        mechanism=mechanism,
        epsilon=min(cost, terms.epsilon),
        delta=terms.delta,
        loss=loss.to_dict(),
        covers=COVERS[plain["covers"]],
        source=stated(terms.source),
        contributions=terms.contributions,
    )
    if terms.ledger is None:
        return made(told)
    name, ledger = terms.dataset, terms.ledger

    def stored(release_id: str) -> bytes:
        paid = replace(told, dataset=name, ledger=ledger.name, release=release_id)
        return made(paid).to_bytes()

    settings = ", ".join(f"{each}={value!r}" for each, value in plain.items())
    what = f"{kind.__name__}: {mechanism}; {settings}"
    return kind.from_bytes(ledger.release(name, loss, what, stored, terms.release_id))
