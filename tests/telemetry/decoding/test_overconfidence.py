"""Sure things are detected: no test may doubt an estimate that is far above all noise."""

import numpy as np
import pytest

from sfumato.telemetry import Counts, LocalHashing, Rappor, ReportEncoder, SubsetSelection, decode

SCHEMES = {
    "hashing 2": LocalHashing(2, cohorts=256),
    "hashing 4": LocalHashing(4, cohorts=256),
    "hashing 6": LocalHashing(6, cohorts=64),
    "hashing 8": LocalHashing(8, cohorts=21),
    "subset 2": SubsetSelection(2, cells=64, cohorts=32),
    "subset 6": SubsetSelection(6, cells=512, cohorts=16),
    "rappor": Rappor(bits=128, hashes=2, cohorts=8, f=0.1),
    "rappor, one hash": Rappor(bits=256, hashes=1, cohorts=4, f=0.1),
}


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("strings", [1, 3])
def test_an_estimate_of_forty_standard_errors_is_detected(name, strings):
    scheme = SCHEMES[name]
    words = [f"word {at}" for at in range(strings)]
    sent = ReportEncoder(scheme, seed=5).encode_many(words * (30_000 // strings))
    table = decode(Counts(scheme).update(sent), [*words, "absent", "not there"])
    sure = table.estimate > 40 * table.std_error
    assert sure[:strings].all()
    assert np.all(table.p_value[sure] < 1e-4), table.p_value
    assert table.detected[:strings].all()
    assert np.all(table.p_value[strings:] > 1e-4)  # 32 of these: fails with p < 0.004
