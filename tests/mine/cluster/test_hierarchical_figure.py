"""Pictures of dendrograms: leaves, names, the stop, and trees too large to draw."""

import io

import numpy as np
import pytest

from sfumato.errors import NotFittedError, ParameterError
from sfumato.mine.cluster import Hierarchical, plot_dendrogram

POINTS = np.random.default_rng(0).normal(size=(30, 2))


def names_of(figure):
    return [text.get_text() for text in figure.axes[0].get_xticklabels()]


@pytest.mark.parametrize(
    "options", [{"linkage": "average"}, {"linkage": "centroid"}, {"method": "divisive"}]
)
def test_every_row_is_a_leaf_and_the_figure_is_written(options):
    model = Hierarchical(3, **options).fit(POINTS)
    figure = plot_dendrogram(model)
    assert sorted(names_of(figure), key=int) == [str(i) for i in range(30)]
    out = io.BytesIO()
    figure.savefig(out)
    assert out.getvalue().startswith(b"\x89PNG")


def test_the_stop_is_a_line_between_the_merges():
    model = Hierarchical(3, linkage="average").fit(POINTS)
    lines = plot_dendrogram(model).axes[0].get_lines()
    (stop,) = [line for line in lines if line.get_label() == "stop"]
    heights = model.merges_[:, 2]
    assert heights[-3] < stop.get_ydata()[0] < heights[-2]
    assert plot_dendrogram(model.merges_).axes[0].get_legend() is None
    assert plot_dendrogram(Hierarchical(1).fit(POINTS)).axes[0].get_legend() is None


def test_rows_have_names():
    figure = plot_dendrogram(Hierarchical(1, metric="edit").fit(["tea", "ten", "rum"]), names="abc")
    assert sorted(names_of(figure)) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="names must be one per row, 30"):
        plot_dendrogram(Hierarchical(2).fit(POINTS), names=["a"])


def test_a_deep_tree_is_cut_to_the_last_merges():
    # Gaps that grow make a tree as deep as there are rows, too deep for a recursion over all.
    model = Hierarchical(2, linkage="single").fit(np.arange(2000.0)[:, None] ** 2)
    assert len(names_of(plot_dendrogram(model, max_leaves=20))) == 20
    assert len(names_of(plot_dendrogram(model, max_leaves=500))) == 500


def test_invalid_arguments_are_refused():
    with pytest.raises(ParameterError, match="max_leaves must be an integer from 2 to 500"):
        plot_dendrogram(Hierarchical(2).fit(POINTS), max_leaves=1)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        plot_dendrogram(Hierarchical(2))
    with pytest.raises(ValueError, match="shape"):
        plot_dendrogram(np.ones((3, 3)))
    assert plot_dendrogram(Hierarchical(1).fit([[1.0]])).axes
