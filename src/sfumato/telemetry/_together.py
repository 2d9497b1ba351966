"""What a client is promised that sends reports of several schemes: their costs add up."""

import math
from collections.abc import Sequence
from fractions import Fraction

from sfumato.privacy._upward import round_up
from sfumato.privacy.loss import Pure
from sfumato.privacy.statement import PrivacyStatement
from sfumato.telemetry._scheme import COVERS, Scheme

__all__ = ["pair_statement", "separate", "together"]


def pair_statement(first: Scheme, second: Scheme) -> PrivacyStatement | str:
    """What a client is promised that reports two variables: the two epsilons add up.

    Guarantee: epsilon is at least the sum of both permanent epsilons, by basic composition, since
    both variables may change at once; a metric of its own for each keeps their noise independent.

    >>> from sfumato.telemetry import Params
    >>> tea, cup = (Params.for_epsilon(1, metric=name, bits=16) for name in ("tea", "cup"))
    >>> told = pair_statement(tea, cup)
    >>> told.epsilon >= tea.epsilon_permanent + cup.epsilon_permanent
    True
    """
    return together([first, second], f"the pair of metrics {first.metric!r} and {second.metric!r}")


def together(schemes: Sequence[Scheme], what: str) -> PrivacyStatement | str:
    """The statement of one client that answers all schemes once, under replacing all its values."""
    separate(schemes, what)
    parts = "; ".join(scheme.sentence() for scheme in schemes)
    epsilon = _sum([scheme.epsilon_permanent for scheme in schemes])
    if not math.isfinite(epsilon):
        return f"NOT PRIVATE: the epsilon of {what} is infinite ({parts})."
    one = _sum([scheme.epsilon_one for scheme in schemes])
    return PrivacyStatement(
        unit="event",
        relation="replace",
        mechanism=f"{len(schemes)} reports for {what}, whose epsilons add up: {parts}",
        epsilon=epsilon,
        loss=Pure(epsilon, relation="replace").to_dict(),
        covers=COVERS.format(one=f"{one:.6g}"),
    )


def separate(schemes: Sequence[Scheme], what: str) -> None:
    """Refuse schemes that would give a client the same key twice."""
    if len({scheme.fingerprint for scheme in schemes}) < len(schemes):
        raise ValueError(
            f"{what}: each variable must have a metric of its own, or a client's secret would give "
            "both the same noise; set `metric` of each scheme."
        )


def _sum(parts: list[float]) -> float:
    if not all(math.isfinite(part) for part in parts):
        return math.inf
    return round_up(sum((Fraction(part) for part in parts), Fraction(0)))
