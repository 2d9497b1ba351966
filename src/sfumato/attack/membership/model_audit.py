"""What a trained model gives away about its ratings, on one page for the curator."""

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.attack.membership.divergence import KLDivergence, kl_divergence
from sfumato.attack.membership.inference import MembershipInference, checked_settings, inferred
from sfumato.attack.membership.records import Quarter, Sides, quarters
from sfumato.attack.report.html import AUDIENCE, write
from sfumato.core.tables import Page
from sfumato.core.validation import RandomState
from sfumato.data.interactions import Interactions
from sfumato.privacy.statement import PrivacyStatement

__all__ = ["ModelAudit", "audit_model"]

OWNER = "audit_model"
BINS = 60
EVERYTHING = "the whole file"


@dataclass(frozen=True, repr=False)
class ModelAudit(Page):
    """What attacks found out about a model; for the curator, since it is computed from raw data.

    model: its kind; rows: how many of train and test were looked at, and how many of pairs on both
    sides were left out; rmse: on train and on test; densities: of the errors, for the figure;
    divergence, membership, activity: what was measured; claimed: epsilon and delta that the model's
    statement allows for replacing one rating, None unless it is of one event and the whole file.

    Parameters
    ----------
    model : str
        TODO.
    rows : dict
        TODO.
    rmse : dict
        TODO.
    divergence : KLDivergence
        TODO.
    membership : MembershipInference
        TODO.
    activity : tuple
        TODO.
    densities : dict
        TODO.
    claimed : tuple or None
        TODO.
    """

    model: str
    rows: dict[str, int]
    rmse: dict[str, float]
    divergence: KLDivergence
    membership: MembershipInference
    activity: tuple[Quarter, ...]
    densities: dict[str, list[float]]
    claimed: tuple[float, float] | None

    @property
    def refuted(self) -> bool | None:
        """True where an attack refutes the model's statement; None where there is none to test."""
        if self.claimed is None:
            return None
        return self.membership.epsilon.epsilon > self.claimed[0]

    def to_dict(self) -> dict[str, Any]:
        """The audit as plain JSON values: figures over many rows, none about one.

        Returns
        -------
        dict
            The audit as plain JSON values: figures over many rows, none about one.
        """
        claimed = self.claimed and dict(zip(("epsilon", "delta"), self.claimed, strict=True))
        return {
            "audience": AUDIENCE,
            "model": self.model,
            "rows": self.rows,
            "rmse": self.rmse,
            "divergence": self.divergence.to_dict(),
            "membership": self.membership.to_dict(),
            "activity": [quarter.to_dict() for quarter in self.activity],
            "densities": self.densities,
            "claimed": claimed,
            "refuted": self.refuted,
        }

    def save_json(self, path: str | os.PathLike[str]) -> None:
        """Write the figures as JSON, whole or not at all.

        Parameters
        ----------
        path : path_like
            TODO.
        """
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
        write(path, text.encode())

    def save_png(self, path: str | os.PathLike[str]) -> None:
        """Write the figure, whole or not at all.

        Parameters
        ----------
        path : path_like
            TODO.
        """
        from sfumato.attack.report.model_figure import figure_png

        write(path, figure_png(self.to_dict()))

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write one page that needs no other file, whole or not at all.

        Parameters
        ----------
        path : path_like
            TODO.
        """
        from sfumato.attack.report.html import page
        from sfumato.attack.report.model_figure import figure_png

        told = self.to_dict()
        write(path, page(told, figure_png(told)).encode())

    def _headline(self) -> str:
        errors = f"RMSE {self.rmse['train']:.4f} on train, {self.rmse['test']:.4f} on test"
        return f"ModelAudit of {self.model} ({AUDIENCE}): {errors}"

    def __repr__(self) -> str:
        refuted = "; its statement is REFUTED" if self.refuted else ""
        found = f"membership AUC {self.membership.auc:.4g}, {self.membership.epsilon!r}"
        return f"{self._headline()}; {found}{refuted}"

    def __str__(self) -> str:
        return f"{self._headline()}\n  {self.divergence!r}\n  {self.membership}"

    def _facts(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "audience": AUDIENCE,
            "rows": ", ".join(f"{name} {count:,}" for name, count in self.rows.items()),
            "RMSE": ", ".join(f"{name} {value:.4f}" for name, value in self.rmse.items()),
            "divergence": repr(self.divergence),
            **{name: f"AUC {each.auc!r}" for name, each in self.membership.attacks.items()},
            "epsilon measured": repr(self.membership.epsilon),
            "epsilon claimed": self.claimed and f"{self.claimed[0]:.4g}",
            "refuted": self.refuted,
        }


def audit_model(
    model: Any,
    train: Interactions,
    test: Interactions,
    *,
    make: Callable[[], Any] | None = None,
    shadows: int = 8,
    sample: int = 100_000,
    confidence: float = 0.95,
    random_state: RandomState = 0,
) -> ModelAudit:
    """Measure what a model gives away about the ratings it learned from.

    as of `membership_inference`; delta is that of the model's own statement, if any.

    Parameters
    ----------
    model : object
        TODO.
    train : Interactions
        TODO.
    test : Interactions
        TODO.
    make : callable or None, default=None
        TODO.
    shadows : int, default=8
        TODO.
    sample : int, default=100000
        TODO.
    confidence : float, default=0.95
        TODO.
    random_state : int, Generator or None, default=0
        TODO.

    Returns
    -------
    ModelAudit
        TODO.

    Notes
    -----
    **Guarantee.** That of `membership_inference`, for a test set split off at random; the same
    input gives the same audit. A model that no attack betrays is not thereby proved private.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> draws = np.random.default_rng(0)
    >>> users, items = draws.integers(0, 50, 4000), draws.integers(0, 500, 4000)
    >>> train, test = Interactions(users, items, draws.integers(1, 6, 4000)).split(0.5, 0.5)
    >>> class Cautious:
    ...     def predict(self, users, items):
    ...         return np.full(len(users), 3.0)
    >>> found = audit_model(Cautious(), train, test)
    >>> found.membership.attacks["loss"].auc.low < 0.5, found.membership.epsilon.epsilon
    (True, 0.0)
    """
    claimed = _claimed(getattr(model, "statement", None))
    settings = checked_settings(
        OWNER,
        shadows=shadows,
        sample=sample,
        confidence=confidence,
        delta=claimed[1] if claimed else 0,
        random_state=random_state,
    )
    sides, membership = inferred(OWNER, model, train, test, make, settings)
    return ModelAudit(
        model=type(model).__name__,
        rows=dict(train=len(sides[0]), test=len(sides[1]), left_out=sides.left_out),
        rmse={
            name: float(np.sqrt((side.errors**2).mean()))
            for name, side in zip(("train", "test"), sides[:2], strict=True)
        },
        divergence=kl_divergence(sides.members.errors, sides.others.errors),
        membership=membership,
        activity=quarters(sides),
        densities=_densities(sides),
        claimed=claimed,
    )


def _claimed(statement: PrivacyStatement | None) -> tuple[float, float] | None:
    """What the statement allows for replacing one rating by another; None where it is of no use.

    It is where one rating is its unit, its noise is fresh and it covers all that attacks look at.
    Replacing is removing and adding: epsilon twice, and delta once plain and once e^epsilon fold.
    """
    if statement is None or statement.insecure or statement.unit != "event":
        return None
    if not statement.covers.startswith(EVERYTHING):
        return None
    epsilon, delta = statement.epsilon, statement.delta
    if statement.relation == "replace":
        return epsilon, delta
    return 2 * epsilon, min(delta * (1 + math.exp(min(epsilon, 700))), 1 - 1e-9)


def _densities(sides: Sides) -> dict[str, list[float]]:
    """Densities of the errors on a grid that all but a thousandth at either end lies in."""
    both = np.concatenate([side.errors for side in sides[:2]])
    low, high = np.quantile(both, (0.001, 0.999))
    edges = np.linspace(low - 0.01, high + 0.01, BINS + 1)
    told = {"edges": edges.tolist()}
    for name, side in zip(("train", "test"), sides[:2], strict=True):
        shares = np.histogram(side.errors, edges)[0] / len(side)
        told[name] = (shares / np.diff(edges)).tolist()
    return told
