"""Rows "ours, peers, trivial" on several data sets, which docs/comparison.py makes one page of."""

import statistics

from _measure import write

__all__ = ["figure", "row", "write_rows"]


def figure(values):
    """Median, lowest and highest of one figure over seeds."""
    values = [float(each) for each in values]
    median = statistics.median(values)
    return {"median": median, "low": min(values), "high": max(values), "runs": values}


def row(
    model,
    data,
    measure,
    better,
    ours,
    peers,
    trivial,
    *,
    chosen_on,
    setting="",
    references=None,
    aside="",
):
    """One model on one data set.

    `better` is "higher" or "lower"; `ours`, and each value of the dicts `peers` and `trivial`, are
    the figures of one run per seed, or {"missing": reason} for a peer. `chosen_on` names the data
    that settings were chosen on, "nothing" for fixed defaults. `setting` is epsilon, size or the
    like. `references`: figures of one run per seed of what has another guarantee, or none. `aside`:
    why a setting that is no default is shown apart.
    """
    if better not in ("higher", "lower"):
        raise ValueError(f"row: better must be 'higher' or 'lower', not {better!r}.")
    return {
        "model": model,
        "data": data,
        "measure": measure,
        "better": better,
        "setting": setting,
        "chosen_on": chosen_on,
        "ours": figure(ours),
        "peers": {name: _figure_or_reason(each) for name, each in peers.items()},
        "trivial": {name: figure(each) for name, each in trivial.items()},
        **_only_given("references", references),
        **({"aside": aside} if aside else {}),
    }


def write_rows(room, rows):
    """benchmarks/results/comparison_ROOM.json."""
    write(f"comparison_{room}", {"room": room, "rows": rows})


def _only_given(name, figures):
    return {name: {each: figure(runs) for each, runs in figures.items()}} if figures else {}


def _figure_or_reason(values):
    return values if isinstance(values, dict) else figure(values)
