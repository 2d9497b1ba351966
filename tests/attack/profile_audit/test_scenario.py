"""The attacker of an audit: tastes are learned from as many known users as time allows, any."""

import numpy as np
import pytest

from sfumato.attack.profile_audit import scenario
from sfumato.attack.profile_audit.scenario import Attacker
from sfumato.data import Interactions

ITEMS = np.arange(12)


@pytest.fixture
def queries(monkeypatch):
    """The known users whom tastes were learned from."""
    observed = []

    def learn(known, candidates):
        observed.append(np.unique(known.users))

    monkeypatch.setattr(scenario, "learn_prior", learn)
    return observed


def known(users):
    return Interactions(np.repeat(np.arange(users), 2), np.arange(2 * users) % 12, [1] * 2 * users)


def test_all_known_users_teach_tastes_where_they_are_few(queries):
    attacker = Attacker.who_knows(known(30), ITEMS)
    assert attacker.learned == 30
    assert queries[0].tolist() == list(range(30))


@pytest.mark.parametrize(("name", "limit"), [("LEARNED_USERS", 50), ("LEARNED_CELLS", 50 * 12)])
def test_of_many_some_do_from_all_over_the_same_each_time(queries, monkeypatch, name, limit):
    monkeypatch.setattr(scenario, name, limit)
    attackers = [Attacker.who_knows(known(400), ITEMS) for _ in range(2)]
    assert [attacker.learned for attacker in attackers] == [50, 50]
    assert queries[0].tolist() == queries[1].tolist()
    assert queries[0].size == 50
    # Random users: their mean has a standard error of 15, so beyond 75 has p < 1e-6.
    assert abs(queries[0].mean() - 199.5) < 75
    assert attackers[0].prior.size == 12
    assert attackers[0].sizes.mean == 2
