"""Old names and positions of arguments still work, and warn at the caller."""

import pytest

from sfumato.core.deprecation import keyword_only, renamed_arguments


class Shop:
    @renamed_arguments(measure="metric")
    def __init__(self, *, metric="cosine"):
        self.metric = metric

    @renamed_arguments(k="n", most="limit")
    def best(self, kind, n=1, *, limit=9):
        return kind, n, limit

    @keyword_only("n", "limit")
    def offer(self, items, ratings=None, *, n=1, limit=9):
        return items, ratings, n, limit


def test_old_names_of_arguments_work_and_warn_at_the_caller():
    with pytest.warns(DeprecationWarning, match=r"^Shop: measure is now called metric") as result:
        assert Shop(measure="inner").metric == "inner"
    assert result[0].filename == __file__
    with pytest.warns(
        DeprecationWarning, match=r"^Shop.best: k is now called n;.* version 1.0"
    ) as result:
        assert Shop().best("tea", k=3) == ("tea", 3, 9)
    with pytest.warns(DeprecationWarning, match="is now called") as result:
        assert Shop().best("tea", k=3, most=4) == ("tea", 3, 4)
    assert len(result) == 2
    with pytest.raises(TypeError, match=r"Shop.best: k is the old name of n; give n alone"):
        Shop().best("tea", k=3, n=3)
    with (
        pytest.warns(DeprecationWarning, match="k is now"),
        pytest.raises(TypeError, match="multi"),
    ):
        Shop().best("tea", 3, k=3)


def test_positions_of_arguments_that_became_keywords_work_and_warn():
    with pytest.warns(DeprecationWarning, match=r"Shop.offer: give n by name") as result:
        assert Shop().offer([1], [5], 3) == ([1], [5], 3, 9)
    assert result[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=r"Shop.offer: give n, limit by name"):
        assert Shop().offer([1], [5], 3, 4) == ([1], [5], 3, 4)
    for invalid in (lambda: Shop().offer([1], [5], 3, n=3), lambda: Shop().offer(1, 2, 3, 4, 5)):
        with pytest.raises(TypeError, match="positional"):
            invalid()


@pytest.mark.filterwarnings("error")
def test_new_names_do_not_warn():
    assert Shop(metric="inner").metric == "inner"
    assert Shop().best("tea", 3, limit=2) == ("tea", 3, 2)
    assert Shop().offer([1], [5], n=3) == ([1], [5], 3, 9)
