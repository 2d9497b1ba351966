"""The laws of reports by plain enumeration: what small schemes send, with which chance."""

import itertools

import numpy as np

from sfumato.telemetry import HadamardResponse, LocalHashing, Rappor, SubsetSelection

BLOOM = Rappor(6, 2, 3, f=0.5)
SCHEMES = {
    "bits": BLOOM,
    "noised twice": Rappor(6, 2, 3, f=0.5, p=0.25, q=0.75),
    "one hash": Rappor(5, 1, 2, f=0.4),
    "categories": Rappor(categories=list("abcde"), f=0.5),
    "symbol": LocalHashing(1.5, cohorts=4, cells=3),
    "hadamard": HadamardResponse(1.5, categories=list("abcde")),
    "subset": SubsetSelection(0.5, cells=6, cohorts=3),
    "subset of categories": SubsetSelection(0.4, categories=list("abcdefg")),
}
VALUES = ["a", "b", "c", "d"]


def outputs(scheme):
    """All payloads of one cohort, and which cells each marks (outputs, cells)."""
    k = scheme.cells
    if scheme.kind == "symbol":
        return np.arange(k, dtype="<u4").view(np.uint8).reshape(k, 4), np.eye(k, dtype=int)
    marks = np.array(list(itertools.product([0, 1], repeat=k)))
    if scheme.kind == "subset":
        marks = marks[marks.sum(axis=1) == chosen(scheme)]
    return np.packbits(marks.astype(np.uint8), axis=1, bitorder="little"), marks


def chosen(scheme):
    return round(float(scheme.high) + (scheme.cells - 1) * float(scheme.low))


def law(scheme, own):
    """The chance of every output under a value that has the cells `own`."""
    marks, (high, low) = outputs(scheme)[1], (float(scheme.high), float(scheme.low))
    if scheme.kind == "bits":
        chance = np.where(np.isin(np.arange(scheme.cells), own), high, low)
        return np.where(marks == 1, chance, 1 - chance).prod(axis=1)
    hit = marks[:, own].any(axis=1)
    if scheme.kind == "symbol":
        return np.where(hit, high, low)
    return np.where(hit, high / hit.sum(), (1 - high) / (~hit).sum())


def laws(scheme, members, cohort):
    """Chances (values + 1, outputs); the last is the mean over sets that are not named."""
    rows = [law(scheme, own[own >= 0]) for own in members[:, cohort]]
    if scheme.domain is None:
        size = (members[0, 0] >= 0).sum()
        others = [list(own) for own in itertools.combinations(range(scheme.cells), size)]
    else:
        named = {own.tobytes() for own in members[:, cohort]}
        domain = scheme.members(scheme.domain)[:, cohort]
        others = [own for own in domain if own.tobytes() not in named]
    return np.array([*rows, np.mean([law(scheme, own) for own in others], axis=0)])
