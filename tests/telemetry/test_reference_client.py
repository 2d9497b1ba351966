"""The encoder keeps the wire specification bit for bit, and the shared vectors are those of it."""

import json

import numpy as np
import pytest

from sfumato.telemetry import ReportEncoder
from sfumato.telemetry.schemes.base import read_scheme
from support.write_web_vectors import PATH, vectors

CASES = json.loads(vectors())["cases"]


class Given:
    """A source of bytes that were written down."""

    def __init__(self, result):
        self.left = bytes(result)

    def fill(self, out):
        view = out.view(np.uint8).reshape(-1)
        view[:] = np.frombuffer(self.left[: view.size], np.uint8)
        self.left = self.left[view.size :]


def test_the_committed_vectors_are_those_of_the_specification():
    assert PATH.read_text(encoding="utf-8") == vectors()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["line"][27:55])
def test_encoder_reproduces_the_vectors(case):
    scheme = read_scheme(json.dumps(case["params"]))
    assert scheme.line() == case["line"]
    client = ReportEncoder(scheme, secret=bytes.fromhex(case["secret"]))
    assert client.cohort == case["cohort"]
    for result in case["values"]:
        value = result["value"]
        cohort = np.array([client.cohort], np.int32)
        cells = scheme.own_members(scheme.reported([value]), cohort)[0]
        assert cells[cells >= 0].tolist() == result["cells"]
        permanent = client.permanent(value)
        assert permanent.tobytes().hex() == result["permanent"]
        sent = scheme.instant(permanent[np.newaxis], Given(bytes.fromhex(result["fresh"])))
        assert sent.tobytes().hex() == result["report"]
        if scheme.one_time:
            assert client.encode(value).payload.tobytes().hex() == result["report"]
