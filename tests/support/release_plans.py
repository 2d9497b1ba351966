"""The plan behind a release, so that its noise can be drawn many times."""

from unittest.mock import patch

import numpy as np

from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.privacy.release import CalibratedRelease

NEXT_TO_NONE = 1e5  # an epsilon whose noise no cell shows


def plan_of(run, value, epsilon):
    """The plan of the one release that run(value, epsilon) makes."""
    observed, publish = [], CalibratedRelease.publish

    def watched(plan, terms):
        observed.append(plan)
        return publish(plan, terms)

    with patch.object(CalibratedRelease, "publish", watched):
        run(value, epsilon)
    (plan,) = observed
    return plan


def flat(parts):
    """All cells of all arrays in one."""
    return np.concatenate([part.reshape(-1) for part in parts.values()]).astype(np.float64)


def drawn(plan, trials, source):
    """So many rows of noisy cells."""
    return np.array([flat(plan.noisy(source)) for _ in range(trials)])


def without_noise(run, value):
    """The cells that get noise, as good as without it."""
    return flat(plan_of(run, value, NEXT_TO_NONE).noisy(InsecureSeededSource(0)))
