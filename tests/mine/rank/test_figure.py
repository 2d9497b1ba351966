"""The picture of ranks is a falling curve on logarithmic axes."""

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.mine.rank import Ranks, plot_ranks


def test_the_curve_is_the_fraction_of_nodes_at_least_there():
    scores = np.array([0.5, 0.25, 0.25, 0.0])
    axes = plot_ranks(Ranks(np.arange(4), scores)).axes[0]
    x, y = (np.asarray(each) for each in axes.lines[0].get_data())
    for score, height in zip(x, y, strict=True):
        assert (scores >= score).sum() / 4 >= height
    assert (x.min(), y.max()) == (0.25, 0.75)
    assert "1 of them with score 0" in axes.get_title()
    with pytest.raises(ParameterError, match="above 0"):
        plot_ranks(Ranks(np.arange(2), np.zeros(2)))
