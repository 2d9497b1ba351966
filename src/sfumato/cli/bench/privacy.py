"""Benchmarks of exact noise."""

from functools import partial
from typing import Any

import numpy as np

from sfumato.cli.bench.contest import Case, Contest, Work
from sfumato.privacy import discrete_gaussian, discrete_laplace
from sfumato.privacy.random_source import SystemSource

__all__ = ["CASES"]

SCALE = 10
FEWER = 200  # OpenDP draws one number a call


def noise(law: str, size: int) -> Contest:
    """Numbers of exact noise, with their standard deviation over the true one."""
    draw = discrete_laplace if law == "laplace" else discrete_gaussian
    variance = 2 * np.exp(-1 / SCALE) / (1 - np.exp(-1 / SCALE)) ** 2
    deviation = float(np.sqrt(variance)) if law == "laplace" else float(SCALE)

    def relative(drawn: Any) -> float:
        return float(np.std(np.asarray(drawn)) / deviation)

    def opendp() -> Work:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        norm = dp.l1_distance(T=int) if law == "laplace" else dp.l2_distance(T=float)
        space = dp.vector_domain(dp.atom_domain(T=int)), norm
        make = dp.m.make_laplace if law == "laplace" else dp.m.make_gaussian
        zeros = [0] * (size // FEWER)
        return Work(partial(make(*space, float(SCALE)), zeros), len(zeros), relative)

    def rounded() -> Work:
        random = np.random.default_rng(0)
        floats = random.laplace if law == "laplace" else random.normal
        return Work(lambda: np.rint(floats(0, SCALE, size)).astype(np.int64), size, relative)

    words, source = np.empty(size, np.uint64), SystemSource()
    return Contest(
        Work(partial(draw, SCALE, size), size, relative),
        {"OpenDP": opendp, "NumPy's rounded floats, not private": rounded},
        Work(partial(source.fill, words), size),
    )


WORDS = "one random word a number (AES)"
CASES = tuple(
    Case(
        f"privacy/{law}",
        f"exact discrete {law.capitalize()} noise, scale {SCALE}",
        "numbers",
        partial(noise, law),
        4_000_000,
        1_000_000,
        "deviation over the true one",
        WORDS,
    )
    for law in ("laplace", "gaussian")
)
