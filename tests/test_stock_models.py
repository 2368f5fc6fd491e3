"""What the models say of a stock server's settings: which they predict, and which they refuse with the reason."""

import pytest

import models
from harness.scoring import drawing
from models.costs import Costs, MissingCost
from models.scenario import Scenario, ScenarioError
from pyx import registry


@pytest.mark.parametrize("lock", ["readers_writers", "rwlock", "mutex", "global", "seqlock"])
def test_every_lock_that_works_has_a_model(lock):
    with pytest.raises(MissingCost):  # nothing but the costs is missing
        models.predict(Scenario.of("stock", "sbuf", options={"lock": lock}), Costs(2, {}), budget=0.1)


def test_a_server_without_a_lock_has_none():
    scenario = Scenario.of("stock", "sbuf", options={"lock": "none", "unsafe": "yes"})
    with pytest.raises(ScenarioError, match=r"^stock has no model for lock=none, which loses orders"):
        models.predict(scenario, Costs(2, {}), budget=0.1)


def test_a_score_draws_no_lock_that_its_server_refuses():
    for server, row in registry.servers().items():
        locks = set(drawing._choices("stock", server, "lock"))
        assert "none" not in locks and not (row["processes"] and locks & {"readers_writers", "rwlock"})
