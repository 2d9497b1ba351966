"""First draws of exact noise at fresh scales, one and 20,000, beside OpenDP."""

from itertools import count

from _calls import call_row

from sfumato.privacy.noise import discrete_gaussian, discrete_laplace

DRAWS = {"Laplace": discrete_laplace, "Gaussian": discrete_gaussian}
SCALES = (10, 1_000, 100_000)
SMALL, LARGE = 200, 5_000  # microseconds


def rows():
    return [
        call_row(
            f"first {kind} noise near scale {scale:,}, {size:,} numbers",
            _fresh(draw, scale, size),
            SMALL if size == 1 else LARGE,
            {"OpenDP": lambda k=kind, s=scale, n=size: _opendp(k, s, n)},
            runs=5,
        )
        for kind, draw in DRAWS.items()
        for scale in SCALES
        for size in (1, 20_000)
    ]


def _fresh(draw, scale, size):
    """A call that draws at a scale that no call had before."""
    numbers = count(1)
    return lambda: draw(scale + next(numbers) / 2**20, size)


def _opendp(kind, scale, size):
    import opendp.prelude as dp

    dp.enable_features("contrib")
    make = dp.m.make_laplace if kind == "Laplace" else dp.m.make_gaussian
    if size == 1:
        space, values = (dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")), 0
    else:
        metric = dp.l1_distance if kind == "Laplace" else dp.l2_distance
        space = dp.vector_domain(dp.atom_domain(T="i64")), metric(T="i64")
        values = [0] * size
    numbers = count(1)
    return lambda: make(*space, scale=scale + next(numbers) / 2**20)(values)
