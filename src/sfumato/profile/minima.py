"""Minima: each profile a few bits of the lowest item in every bin, answered at random."""

from typing import ClassVar

import numpy as np

from sfumato._require import Limit, positive
from sfumato.kernels import symbols as kernels
from sfumato.privacy._source import Source
from sfumato.privacy.loss import Flips
from sfumato.privacy.response import KaryResponse
from sfumato.profile._mechanism import ProfileMechanism, ProfilePlan
from sfumato.profile._sets import ProfileSets
from sfumato.profile.released_minima import BINS, CODE_BITS, ReleasedMinima
from sfumato.sketch._release import Terms
from sfumato.sketch._responses import symbols_answered

__all__ = ["Minima"]

ANSWERS = 2**22  # that are drawn at a time


class Minima(ProfileMechanism[ReleasedMinima]):
    """Profiles as private one-permutation MinHash: the share of bins alike is their similarity.

    Guarantee: pure epsilon for one item more or less in one profile, with a public seed: it changes
    the lowest item of its own bin at most, and each bin's symbol is answered for by randomised
    response. A whole profile of c items, that is all of them removed, is hidden only at
    min(c, bins) epsilon; exchanged for others they are twice as many.
    Parameters: bins, 2 to 65,536; code_bits, of a symbol, 1 to 7; epsilon above 0, of one unit;
    seed, of the hashes; typical_size, public: the number of items for which the statement tells the
    loss of a whole profile. For about 100 items a profile, generated and real, neighbours were
    found best with 1 bit up to epsilon 4 (1 and 2 did alike at 8), and with 256 to 512 bins up to
    epsilon 4, more at 8: in fewer bins items collide; more bins or symbols bring more noise.

    >>> from sfumato.data import Interactions
    >>> had = Interactions(["ann", "ann", "bob"], ["tea", "milk", "tea"], [1, 1, 1])
    >>> told = Minima(bins=64, epsilon=4).release(had, users=["ann", "bob"])
    >>> told.codes.shape, told.statement.mechanism[-68:]
    ((2, 64), 'epsilon 256 (256 for any profile), which hides next to nothing of it')

    Li, Owen and Zhang 2012; Kairouz, Oh and Viswanath 2014.
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "bins": BINS,
        "code_bits": CODE_BITS,
        "epsilon": positive,
        **ProfileMechanism.LIMITS,
    }
    bins: int
    code_bits: int
    epsilon: float

    def __init__(
        self,
        *,
        epsilon: float,
        bins: int = 512,
        code_bits: int = 1,
        seed: int = 0,
        typical_size: int = 100,
    ) -> None:
        self._set_parameters(
            epsilon=epsilon, bins=bins, code_bits=code_bits, seed=seed, typical_size=typical_size
        )

    def _plan(self, terms: Terms, sets: ProfileSets) -> ProfilePlan[ReleasedMinima]:
        cells = min(terms.events, self.bins)  # bins that one unit changes, at most
        answer = symbols_answered(terms, 2**self.code_bits + 1, cells)

        def noisy(source: Source) -> dict[str, np.ndarray]:
            return {**self._ids(sets), "codes": self._answered(sets, answer, source)}

        names = ("bins", "code_bits", "seed")
        return ProfilePlan(
            ReleasedMinima,
            {"kind": sets.kind, **{name: getattr(self, name) for name in names}},
            answer.loss(),
            self._sentence(terms, answer),
            noisy,
            nbytes=len(sets) * self.bins,
        )

    def _sentence(self, terms: Terms, answer: KaryResponse) -> str:
        made = answer.loss()
        assert isinstance(made, Flips)
        chance = made.probability

        def loss(items: int) -> float:
            return Flips(chance, min(items, self.bins)).epsilon

        return (
            f"{self.code_bits} bits of the lowest item in each of {self.bins} bins or 'empty', by "
            f"{answer.symbols}-ary randomised response; "
            + self._told(terms, loss, most=loss(self.bins))
        )

    def _answered(self, sets: ProfileSets, answer: KaryResponse, source: Source) -> np.ndarray:
        out = np.empty((len(sets), self.bins), np.uint8)
        rows = max(1, ANSWERS // self.bins)
        for start in range(0, len(sets), rows):
            part = out[start : start + rows]
            bounds = sets.starts[start : start + rows + 1]
            kernels.lowest(sets.hashes, bounds, self.code_bits, part)
            part[:] = answer.run(part, source=source)
        return out
