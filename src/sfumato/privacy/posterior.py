"""Posterior sampling: one draw of a parameter, private because nobody moves the posterior far.

What holds (checked by exact masses in the tests): the law of the draw has weights
prior(theta) exp(sum of l(x, theta)), l the log-likelihood of one row. One row more or less changes
a log-weight by l(x, theta), and the log-normaliser by a mean of it; so the log-ratio is at most R,
the largest range of l(x, .) over theta for one x. Exchanging a row costs 2 R. If |l| <= B then
R <= 2 B, which gives 2 B for add/remove and 4 B for replace, the theorem of Wang, Fienberg and
Smola 2015; where likelihoods are probabilities, l <= 0 and R <= B, so half of that. To reach a
wanted epsilon the likelihood is raised to the power min(1, epsilon / R) (min, not max).
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from sfumato._require import rational
from sfumato.privacy._cks import Bits, bernoulli_exp
from sfumato.privacy._source import Source, SystemSource
from sfumato.privacy._upward import round_up
from sfumato.privacy.conjugate import STEP
from sfumato.privacy.loss import Loss, Pure
from sfumato.privacy.mechanism import Mechanism

__all__ = ["PosteriorSample"]

PARTS = ("grid", "log_prior", "log_likelihood", "counts")  # of a model


class Model(Protocol):
    """A model on public grids: of parameters, and of the values that a row may take.

    grid: the parameters, one a row; log_prior[theta] and log_likelihood[x, theta]: whole numbers of
    steps of 2**-20; counts(column): how many rows take each value.
    """

    @property
    def grid(self) -> np.ndarray: ...

    @property
    def log_prior(self) -> np.ndarray: ...

    @property
    def log_likelihood(self) -> np.ndarray: ...

    def counts(self, column: Any) -> np.ndarray: ...


@dataclass(frozen=True)
class PosteriorSample(Mechanism):
    """One draw from the posterior of a model, tempered to a wanted epsilon.

    Guarantee: pure differential privacy at the epsilon of `loss()`, which is the wanted one, or
    less where the posterior itself is more private. The log-weights are whole multiples of a public
    step and the draw follows them exactly, so R is that of the law that runs.
    How long a draw takes depends on the data, and is not covered: tell it to nobody.
    Parameters: model, one of `BetaBernoulli`, `DirichletMultinomial` and `GaussianMean`; epsilon
    above 0. Each draw costs epsilon again.

    >>> from sfumato.privacy.conjugate import BetaBernoulli
    >>> click_rate = PosteriorSample(BetaBernoulli(margin=0.01, points=99), epsilon=1)
    >>> 0.01 <= click_rate.run([0, 1, 0, 0, 1]) <= 0.99
    True

    Wang, Fienberg and Smola 2015, theorem 1, with the constants derived above.
    """

    model: Model
    epsilon: Any
    domain = "a column of rows of the model"
    LIMITS = {"epsilon": rational}

    def __post_init__(self) -> None:
        super().__post_init__()
        missing = [name for name in PARTS if not hasattr(self.model, name)]
        if missing:
            kind = type(self.model).__name__
            raise TypeError(
                f"PosteriorSample: model must have {', '.join(PARTS)}, not a {kind} without "
                f"{missing[0]}; build one of the models of `sfumato.privacy.conjugate`."
            )
        if not self.sensitivity:
            raise ValueError(
                "PosteriorSample: model must have parameters that rows tell apart, "
                f"not {self.model!r}."
            )

    @property
    def sensitivity(self) -> Fraction:
        """R, or 2 R where a row is exchanged: how far one row moves the log-weights apart."""
        table = self.model.log_likelihood
        spread = int((table.max(axis=1) - table.min(axis=1)).max())
        return spread * STEP * (2 if self.relation == "replace" else 1)

    @property
    def power(self) -> Fraction:
        """The power that the likelihood is raised to: 1 where the posterior is private enough."""
        return min(Fraction(1), Fraction(self.epsilon) / self.sensitivity)

    def run(self, value: Any, *, source: Source | None = None) -> Any:
        drawn = self.sample(value, 1, source=source)[0]
        return float(drawn) if drawn.ndim == 0 else drawn

    def sample(self, value: Any, trials: int, *, source: Source | None = None) -> np.ndarray:
        trials, gaps = self._trials(trials), self._gaps(self.model.counts(value))
        bits = Bits(source or SystemSource())
        places = [_draw(gaps, bits) for _ in range(trials)]
        return np.asarray(self.model.grid[places])

    def _loss(self) -> Loss:
        return Pure(round_up(self.power * self.sensitivity), relation=self.relation)

    def _sentence(self) -> str:
        return f"one draw from the posterior of {self.model!r}, likelihood to the {self.power}"

    def _gaps(self, counts: np.ndarray) -> list[Fraction]:
        """How far below the largest log-weight each parameter's lies, exactly."""
        likelihood = counts @ self.model.log_likelihood
        power, prior = self._power, self.model.log_prior
        weights = [p + power * s for p, s in zip(prior.tolist(), likelihood.tolist(), strict=True)]
        top = max(weights)
        return [(top - weight) * STEP for weight in weights]

    @cached_property
    def _power(self) -> Fraction:
        return self.power


def _draw(gaps: list[Fraction], bits: Bits) -> int:
    """A place with chance proportional to exp(-gap), by rejection from all places alike."""
    while not bernoulli_exp(gaps[place := bits.below(len(gaps))], bits):
        pass
    return place
