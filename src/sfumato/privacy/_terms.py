"""Who pays for a release, and whose presence it hides: checked alike for sketches and answers."""

import os
from collections.abc import Mapping
from typing import Any

from sfumato._require import one_of
from sfumato.privacy.loss import RELATIONS
from sfumato.privacy.statement import UNITS

__all__ = ["paid_by", "whose"]


def paid_by(owner: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """The ledger, given or at a path that is there, and its data set; (None, "") if nobody pays."""
    ledger, dataset = options.get("ledger"), options.get("dataset") or ""
    if (ledger is None) != (dataset == ""):
        raise ValueError(f"{owner}: ledger and dataset go together; give both or neither.")
    release_id = options.get("release_id")
    if release_id is not None and (ledger is None or not isinstance(release_id, str)):
        raise ValueError(f"{owner}: release_id must be a text, and needs a ledger to look in.")
    if isinstance(ledger, str | os.PathLike):
        from sfumato.privacy.ledger import Ledger

        if not os.path.exists(ledger) or not os.path.getsize(ledger):
            raise FileNotFoundError(f"{owner}: there is no ledger {os.fspath(ledger)}.")
        ledger = Ledger(ledger)
    if ledger is not None and not (hasattr(ledger, "release") and hasattr(ledger, "dataset")):
        given = type(ledger).__name__
        raise TypeError(f"{owner}: ledger must be a Ledger or its path, not {given}.")
    return ledger, dataset


def whose(
    owner: str, ledger: Any, dataset: str, options: Mapping[str, Any], relation: str = "add/remove"
) -> tuple[str, str]:
    """Unit and relation: of the data set where there is a ledger, else as given, or usual."""
    given = {name: options[name] for name in ("unit", "relation") if options.get(name) is not None}
    unit = one_of(UNITS).check(owner, "unit", given.get("unit", "event"))
    relation = one_of(RELATIONS).check(owner, "relation", given.get("relation", relation))
    if ledger is None:
        return unit, relation
    known = ledger.dataset(dataset)
    for name, value in (("unit", known.unit), ("relation", known.relation)):
        if given.get(name, value) != value:
            raise ValueError(
                f"{owner}: {name} is {given[name]!r} here and {value!r} in the ledger for "
                f"{dataset!r}."
            )
    return known.unit, known.relation
