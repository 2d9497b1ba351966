"""Trust comes from trusted nodes alone; a built farm has the rank of the exact formula."""

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.mine.rank import (
    Graph,
    LinkFarm,
    link_farm,
    pagerank,
    plant_link_farm,
    spam_mass,
    trustrank,
)


def web(seed=0, nodes=60, edges=300, dead_ends=False):
    """A web in which every page has links, unless dead ends are wanted."""
    draw = np.random.default_rng(seed)
    begins = draw.integers(0, nodes // 2 if dead_ends else nodes, edges)
    ends = draw.integers(0, nodes, edges)
    if not dead_ends:
        begins, ends = np.append(begins, range(nodes)), np.append(ends, np.roll(range(nodes), 1))
    return Graph(begins, ends, nodes=range(nodes), multi_edges="drop")


def contributed(graph, accessible, ranks, beta):
    at = graph.positions(accessible)
    return float(beta * (ranks[at] / graph.out_degrees[at]).sum())


@pytest.mark.parametrize("beta", [0.5, 0.85])
@pytest.mark.parametrize("pages", [1, 7, 200])
@pytest.mark.parametrize("accessible", [[], [3], [3, 11, 40]])
def test_a_built_farm_has_the_rank_of_the_formula(beta, pages, accessible):
    graph, target = plant_link_farm(web(), accessible, pages)
    ranks = pagerank(graph, beta, tolerance=1e-13).scores
    x = contributed(graph, accessible, ranks, beta)
    farm = link_farm(pages, graph.n_nodes, contributed=x, beta=beta)
    at = graph.positions(target)[0]
    assert ranks[at] == pytest.approx(farm.target, rel=1e-8)
    assert ranks[at + 1 :] == pytest.approx(np.full(pages, farm.page), rel=1e-8)
    # The course's formula is short by the target's own part, amplified.
    short = 1 / ((1 + beta) * graph.n_nodes)
    assert farm.target - farm.approximation == pytest.approx(short, rel=1e-9)


def test_with_dead_ends_teleports_bring_more():
    graph, target = plant_link_farm(web(dead_ends=True), [3], 50)
    beta = 0.85
    ranks = pagerank(graph, beta, tolerance=1e-13).scores
    followed = beta * ranks[graph.out_degrees > 0].sum()
    each = (1 - followed) / graph.n_nodes
    assert each > 1.05 * (1 - beta) / graph.n_nodes
    x = contributed(graph, [3], ranks, beta)
    farm = link_farm(50, graph.n_nodes, contributed=x, beta=beta, teleport=each)
    assert ranks[graph.positions(target)[0]] == pytest.approx(farm.target, rel=1e-8)


def test_the_numbers_of_the_course_and_their_amplification_by_simulation():
    farm = LinkFarm(pages=10**6, total=10**9)
    assert farm.amplification == pytest.approx(3.6036, abs=5e-5)
    assert farm.share == pytest.approx(0.4595, abs=5e-5)
    # How much more rank arrives at the target for each rank contributed, with the same farm.
    one, two = (plant_link_farm(web(), accessible, 30) for accessible in ([3], [3, 11, 17, 40]))
    ranks = [pagerank(graph, tolerance=1e-13).scores for graph, _ in (one, two)]
    x = [
        contributed(graph, accessible, rank, 0.85)
        for (graph, _), accessible, rank in zip(
            (one, two), ([3], [3, 11, 17, 40]), ranks, strict=True
        )
    ]
    y = [rank[graph.positions(to)[0]] for (graph, to), rank in zip((one, two), ranks, strict=True)]
    assert (y[1] - y[0]) / (x[1] - x[0]) == pytest.approx(3.6036, abs=5e-5)


def test_trust_reaches_only_what_trusted_nodes_link_to():
    graph = Graph(["news", "blog", "farm", "spam"], ["blog", "news", "spam", "farm"])
    trust = trustrank(graph, "news", 0.8)
    scores = dict(zip(graph.nodes, trust.scores, strict=True))
    assert scores["farm"] == scores["spam"] == 0
    # t(news) = 0.8 t(blog) + 0.2 and t(blog) = 0.8 t(news).
    assert scores["news"] == pytest.approx(0.2 / (1 - 0.64), abs=1e-7)
    everyone = trustrank(graph, graph.nodes)
    assert everyone.scores == pytest.approx(pagerank(graph).scores, abs=1e-7)


def test_a_farm_has_more_spam_mass_than_honest_pages():
    graph, target = plant_link_farm(web(), [3], 40)
    found = spam_mass(graph, range(0, 60, 4), good=0.6)
    ids, masses = found.suspects(1)
    assert ids.tolist() == [target]
    assert masses[0] > 0.9
    honest = found.mass[:60]
    assert np.median(honest) < 0.5
    table = found.to_arrow()
    assert table.column_names == ["node", "rank", "trust", "mass"]
    assert found.mass == pytest.approx(1 - found.trust / found.ranks)
    assert found.trust.sum() == pytest.approx(0.6)
    assert found.suspects(500, min_mass=0.95, min_rank=0.001)[1].min() >= 0.95


def test_farms_among_texts_and_weights():
    graph = Graph(["a", "b", "a"], ["b", "a", "c"], [2.0, 1.0, 3.0])
    made, target = plant_link_farm(graph, ["a"], 2)
    assert target == "farm target"
    assert made.nodes.tolist() == ["a", "b", "c", "farm target", "farm 1", "farm 2"]
    assert made.weights.tolist() == [2, 3, 1, 1, 1, 1, 1, 1]
    with pytest.raises(ValueError, match="names of a farm already"):
        plant_link_farm(made, ["a"], 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: link_farm(0, 10), "LinkFarm: pages must"),
        (lambda: link_farm(10, 10), "LinkFarm: total must count the farm"),
        (lambda: link_farm(1, 10, contributed=2), "contributed must"),
        (lambda: link_farm(1, 10, beta=1), "beta must"),
        (lambda: link_farm(1, 10, teleport=-1), "teleport must"),
        (lambda: trustrank(web(), []), "trusted must be ids"),
        (lambda: trustrank(web(), [99]), "trusted must be ids"),
        (lambda: spam_mass(web(), [1], good=1.5), "good must"),
        (lambda: spam_mass(web(), [1]).suspects(0), "n must"),
        (lambda: plant_link_farm(web(), [99], 3), "accessible must"),
        (lambda: plant_link_farm(web(), [], 0), "pages must"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ParameterError, match=message):
        call()
