"""Noise on cells: the scale their sensitivity needs, the exact distribution, the stated cost."""

import itertools
from fractions import Fraction
from typing import Annotated

import numpy as np
import pytest

from sfumato.core.storage import Cells
from sfumato.core.validation import integer
from sfumato.privacy.accounting.calibration import gaussian_sigma
from sfumato.privacy.accounting.losses import Concentrated, GaussianNoise, LaplaceNoise, Loss, Pure
from sfumato.privacy.noise.discrete import discrete_gaussian, discrete_laplace
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.privacy.release import ReleaseRequest
from sfumato.sketch.kernel_sums.noisy_cells import NoisyCells, Sensitivity, calibrated_cells


class _NoisyVector(NoisyCells, in_files=False):
    size: Annotated[int, integer(1)]

    def _layout(self):
        return {"_cells": Cells(np.int64, (self.size,)), "_more": Cells(np.int64, (2,))}


ARRAYS = {"_cells": np.arange(5, dtype=np.int32), "_more": np.array([7, -7])}


def result(sensitivity, epsilon=0.5, delta=0.0, wanted=None, arrays=ARRAYS, **options):
    request = ReleaseRequest.of(
        "Owner", epsilon, delta, {"source": InsecureSeededSource(1), **options}
    )
    size = {"size": arrays["_cells"].size}
    return calibrated_cells(
        _NoisyVector, size, arrays, request, sensitivity, wanted, "7 cells"
    ).publish(request)


def loss(release):
    return Loss.from_dict(release.statement.loss)


def test_laplace_noise_of_the_exact_scale_is_added_once_to_every_cell():
    release = result(Sensitivity(6, 14, weight=2))
    source = InsecureSeededSource(1)
    for name, array in ARRAYS.items():
        noise = discrete_laplace(24, array.shape, source=source)
        np.testing.assert_array_equal(release._arrays()[name], array + noise)
    assert (release.noise, release.scale) == ("Laplace", 24.0)
    assert loss(release) == Pure(0.5)
    assert "on each of 7 cells; an event weighs at most 2" in release.statement.mechanism


def test_gaussian_noise_is_taken_where_its_variance_is_smaller():
    release = result(Sensitivity(60, 60), delta=0.01)
    source = InsecureSeededSource(1)
    for name, array in ARRAYS.items():
        noise = discrete_gaussian(Fraction(release.scale), array.shape, source=source)
        np.testing.assert_array_equal(release._arrays()[name], array + noise)
    assert release.noise == "Gaussian"
    assert isinstance(loss(release), Concentrated)
    assert loss(release).rho == pytest.approx(60 / 2 / release.scale**2)
    assert result(Sensitivity(60, 60), delta=0.01, wanted="laplace").noise == "Laplace"
    assert result(Sensitivity(2, 4), delta=1e-6).noise == "Laplace"
    assert result(Sensitivity(2, 4), delta=1e-6, wanted="gaussian").noise == "Gaussian"


def test_cells_that_change_by_one_each_have_their_exact_cost_stated():
    release = result(Sensitivity(60, 60, ones=True, weight=3), delta=0.01)
    sigma = gaussian_sigma(0.5, 0.01, change=3, cells=60)
    assert loss(release) == GaussianNoise(sigma**2, 3, 60)
    assert release.scale < result(Sensitivity(60, 60, weight=3), delta=0.01).scale
    pure = result(Sensitivity(60, 60, ones=True, weight=3))
    assert loss(pure) == LaplaceNoise(Fraction(360), 3, 60)
    assert pure.statement.epsilon == 0.5


@pytest.mark.parametrize("ones", [False, True])
def test_exchange_and_several_events_take_more_noise(ones):
    sensitivity = Sensitivity(10, 10, 19, 18 if not ones else 19, ones=ones)
    assert result(sensitivity).scale == 20
    assert result(sensitivity, relation="replace").scale == 38
    assert result(sensitivity, unit="user", contributions=3).scale == 60
    assert result(Sensitivity(10, 50), relation="replace").scale == 40
    kinds = {"relation": "replace", "unit": "user", "contributions": 3}
    mixed = result(sensitivity, delta=0.01, wanted="gaussian", **kinds)
    square = 9 * sensitivity.norms("replace")[1]
    assert loss(mixed).rho == pytest.approx(square / 2 / mixed.scale**2)
    assert loss(mixed).relation == "replace"
    without = result(Sensitivity(10, 50), delta=0.01, wanted="gaussian", relation="replace")
    assert loss(without).rho == pytest.approx(200 / 2 / without.scale**2)


def test_an_exchange_of_which_only_the_parts_are_known_may_change_a_cell_by_two():
    # One change by 1 takes away, another adds: where both meet, a cell of ones changes by 2.
    sensitivity = Sensitivity(10, 10, ones=True)
    mixed = result(sensitivity, delta=0.01, wanted="gaussian", relation="replace")
    assert loss(mixed).rho == pytest.approx(40 / 2 / mixed.scale**2)
    pure = result(sensitivity, relation="replace")
    assert (loss(pure), pure.scale) == (Pure(0.5, relation="replace"), 40)


# All changes of three cells within the norms are compared, exactly, with the noise that is taken.
CHANGES = list(itertools.product(range(-3, 4), repeat=3))


def masses(release, span):
    """The distribution of one cell's noise at -span, ..., span, from its formula."""
    at = np.arange(-span, span + 1)
    size = np.abs(at) / release.scale
    mass = np.exp(-size if release.noise == "Laplace" else -(size**2) / 2)
    return mass / mass.sum()


def test_no_change_within_the_l1_norm_costs_more_than_epsilon():
    # log P(z) / P(z - v) of discrete Laplace noise is at most |v|_1 / scale, and reaches it.
    release = result(Sensitivity(3, 5))
    density = np.log(masses(release, 40))
    worst = [np.abs(density[10:71] - density[10 - v : 71 - v]).max() for v in range(4)]
    costs = [sum(worst[abs(v)] for v in change) for change in CHANGES if _l1(change) <= 3]
    assert max(costs) == pytest.approx(0.5)


def test_no_change_within_the_l2_norm_costs_more_than_delta():
    # The hockey-stick divergence over all outputs of three cells, summed; 45 is 7 deviations.
    release = result(Sensitivity(3, 5), 1.0, 0.05, wanted="gaussian")
    density = masses(release, 45)
    within = [v for v in CHANGES if sum(x * x for x in v) <= 5 and list(v) == sorted(v)]
    deltas = [_delta([_moved(density, x) for x in v], density) for v in within]
    assert 0.01 < max(deltas) <= 0.05


def _l1(change):
    return sum(map(abs, change))


def _moved(density, by):
    out = np.zeros_like(density)
    out[max(by, 0) : density.size + min(by, 0)] = density[max(-by, 0) : density.size - max(by, 0)]
    return out


def _delta(moved, density):
    joint = np.einsum("a,b,c->abc", *moved)
    return np.maximum(joint - np.e * np.einsum("a,b,c->abc", density, density, density), 0).sum()


def test_impossible_requests_are_refused_with_the_parameter_named():
    with pytest.raises(ValueError, match="Owner: noise must be one of"):
        result(Sensitivity(1, 1), wanted="uniform")
    with pytest.raises(ValueError, match="Owner: noise 'gaussian' needs a delta above 0"):
        result(Sensitivity(1, 1), wanted="gaussian")
    with pytest.raises(ValueError, match="Owner: epsilon is 1e-12, for which the noise"):
        result(Sensitivity(2**10, 2**10), epsilon=1e-12)


def test_cells_near_the_end_of_64_bits_do_not_wrap():
    full = {**ARRAYS, "_more": np.array([2**63 - 1, -(2**63)])}
    assert (np.abs(result(Sensitivity(1, 1), arrays=full)._more) > 2**61).all()
