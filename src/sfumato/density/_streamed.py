"""Estimators of points alone, which may come in parts: data larger than memory."""

import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np

from sfumato.density._backend import Setting, described
from sfumato.density._single import SingleSketch

__all__ = ["Streamed"]

DROWNED = 30  # mean kernel values are some tenths: noise of this part is a tenth of them


class Streamed(SingleSketch, in_files=False):
    """An estimator that can learn from batches, of which it holds one at a time."""

    def fit_batches(self, batches: Iterable[Any]) -> Self:
        """Learn as `fit` does from all the batches together; bounds must be given.

        Guarantee: the same model as `fit` on all rows, byte for byte without epsilon, and one
        release for all batches with it: the budget is charged once, after the last of them, so that
        a batch which fails or is stopped costs nothing.
        Parameters: batches, each a table of points as `fit` takes it; those without rows are left
        out. With epsilon no row is refused, as in `fit`, and bounds of one number per column make
        a release of noise alone even where no batch comes.

        >>> from sfumato.density import SketchDensity
        >>> parts = ([[x], [x + 1.0]] for x in (0.0, 5.0))
        >>> SketchDensity(bounds=(0, 10)).fit_batches(parts).sketch_.total
        4
        """
        plain = self._check()
        if plain["bounds"] is None:
            raise ValueError(
                f"{self._owner}: bounds must be given to learn from batches; the first does not "
                "know the others'."
            )
        sketch: Any = None
        for points in self._batches(batches, plain):
            if sketch is None:
                setting = self._setting(plain, points)
                sketch = self._empty(setting)
            sketch.update(points)
        if sketch is None:
            raise ValueError(f"{self._owner}: batches must hold at least one row.")
        self._take(self._kept(sketch, plain), setting)
        return self

    def _batches(self, batches: Iterable[Any], plain: dict[str, Any]) -> Iterator[np.ndarray]:
        """The points of every batch; with epsilon of one without rows at the least."""
        first = True
        for number, part in enumerate(batches):
            if not len(part) and plain["epsilon"] is None:
                continue
            try:
                points, _ = self._training_rows(part, None, plain, reset=first)
            except ValueError as error:
                error.add_note(f"(rows of batch {number}, the first being 0)")
                raise
            first = False
            yield points
        if first and plain["epsilon"] is not None:
            yield self._training_rows([], None, plain)[0]

    def _take(self, kept: Any, setting: Setting) -> None:
        super()._take(kept, setting)
        if hasattr(self, "release_"):
            self._warn_of_noise()

    def _warn_of_noise(self) -> None:
        """Say so where noise drowns the answers, by numbers that were released anyway."""
        noise, size = float(self.release_.noise_error()), float(self.release_.size())
        if noise > size / DROWNED:
            warnings.warn(
                f"{self._owner}: epsilon {self.statement_.epsilon:g} is too small here: an answer "
                f"has noise of about {noise:.3g} points, more than a thirtieth of the noisy count "
                "of all (release_.size()). A larger epsilon, more data, fewer rows of the sketch, "
                "or a wider bandwidth would help; input_report tells the curator how many rows "
                "could be read.",
                UserWarning,
                stacklevel=4,  # whoever called fit, fit_batches or from_release
            )

    def _learned(self) -> None:
        super()._learned()
        if described(self._told).dimension != self.n_features_in_:  # of a file that was forged
            raise ValueError(f"{self._owner}: the columns are not those of what was learned.")
