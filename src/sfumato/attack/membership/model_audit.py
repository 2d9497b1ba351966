"""The audit of a trained model: what it leaks about its ratings, with JSON, figure and page."""

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
from sfumato.core.html_pages import AUDIENCE, write
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
    """Result of the attacks on a trained model.

    Returned by `audit_model`. Computed from raw data and not a release: for the curator only.

    Parameters
    ----------
    model : str
        Class of the model.
    rows : dict of str to int
        Number of sampled rows: "train", "test", and "left_out" for pairs on both sides.
    rmse : dict of str to float
        Root mean squared error on "train" and on "test".
    divergence : KLDivergence
        Divergence of training errors from test errors.
    membership : MembershipInference
        Membership inference attacks.
    activity : tuple of Quarter
        Errors and divergence in each quarter of the users by activity, least active first.
    densities : dict of str to list of float
        Densities of the errors for the figure: "edges", "train" and "test".
    claimed : tuple of float or None
        Epsilon and delta that the model's privacy statement implies for replacing one rating. None
        unless the statement is for one event and covers the entire file.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> users, items = rng.integers(0, 50, 400), np.arange(400)
    >>> train, test = Interactions(users, items, rng.normal(3, 1, 400)).split(0.5, 0.5)
    >>> class Constant:
    ...     def predict(self, users, items):
    ...         return np.full(len(users), 3.0)
    >>> found = audit_model(Constant(), train, test)
    >>> found.model, found.rows["train"], found.refuted
    ('Constant', 200, None)
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
        """Whether an attack refutes the model's privacy statement; None if it has none."""
        if self.claimed is None:
            return None
        return self.membership.epsilon.epsilon > self.claimed[0]

    def to_dict(self) -> dict[str, Any]:
        """Convert the audit to plain JSON values.

        Returns
        -------
        dict
            Aggregates over many rows; no value of a single row.
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
        """Write the figures as JSON, atomically.

        Parameters
        ----------
        path : path_like
            File to write.
        """
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
        write(path, text.encode())

    def save_png(self, path: str | os.PathLike[str]) -> None:
        """Write the figure as PNG, atomically.

        Parameters
        ----------
        path : path_like
            File to write.
        """
        from sfumato.attack.report.model_figure import figure_png

        write(path, figure_png(self.to_dict()))

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write one self-contained HTML page, atomically.

        Parameters
        ----------
        path : path_like
            File to write.
        """
        from sfumato.attack.report.html import page
        from sfumato.attack.report.model_figure import figure_png

        fields = self.to_dict()
        write(path, page(fields, figure_png(fields)).encode())

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
    """Measure what a trained model leaks about the ratings it learned from.

    Runs `membership_inference`, compares errors on training and test rows, and checks the model's
    privacy statement, if it has one, against the measured lower bound on epsilon.

    Parameters
    ----------
    model : object
        A fitted model with `predict(users, items)`; its `statement`, if any, is checked. Scores of
        a model that predicts no ratings are compared with 1, the preference of every row.
    train : Interactions
        Ratings that the model learned from, at least 40.
    test : Interactions
        Ratings that it did not learn from, at least 40, split off at random.
    make : callable or None, default=None
        Function that returns an untrained model of the same kind, for shadow models.
    shadows : int, default=8
        Number of shadow models, from 3 to 64.
    sample : int, default=100000
        Maximum number of rows of each set, at least 40; half of them train the attacks.
    confidence : float, default=0.95
        Confidence of the intervals and bounds, above 0 and below 1.
    random_state : int, Generator or None, default=0
        Seed of the sample and of the shadow models.

    Returns
    -------
    ModelAudit
        All figures, with methods that write JSON, a figure and a page.

    Notes
    -----
    **Guarantee.** Intervals and bounds as of `membership_inference`, for a test set that was split
    off at random; epsilon is bounded at the delta of the model's statement, if any, else at 0. The
    same input gives the same audit. A model that withstands these attacks is not thereby proved
    private.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> rng = np.random.default_rng(0)
    >>> users, items = rng.integers(0, 50, 4000), rng.integers(0, 500, 4000)
    >>> train, test = Interactions(users, items, rng.integers(1, 6, 4000)).split(0.5, 0.5)
    >>> class Constant:
    ...     def predict(self, users, items):
    ...         return np.full(len(users), 3.0)
    >>> found = audit_model(Constant(), train, test)
    >>> found.membership.attacks["loss"].auc.low < 0.5, found.membership.epsilon.epsilon
    (True, 0.0)
    """
    if not getattr(model, "predicts_ratings", True):
        train, test = (Interactions(each.users, each.items) for each in (train, test))
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
    """Epsilon and delta of the statement for replacing one rating; None if it does not apply.

    It applies if one rating is its unit, its noise is secure and it covers all that attacks use.
    Replacing is removing and adding: epsilon twice, and delta once plain and once times e^epsilon.
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
    """Densities of the errors on a grid from their 0.1 % to their 99.9 % quantile."""
    both = np.concatenate([side.errors for side in sides[:2]])
    low, high = np.quantile(both, (0.001, 0.999))
    edges = np.linspace(low - 0.01, high + 0.01, BINS + 1)
    densities = {"edges": edges.tolist()}
    for name, side in zip(("train", "test"), sides[:2], strict=True):
        fractions = np.histogram(side.errors, edges)[0] / len(side)
        densities[name] = (fractions / np.diff(edges)).tolist()
    return densities
