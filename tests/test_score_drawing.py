"""The validation set of a score: the same for a seed, over everything that has a model, evenly."""

from collections import Counter

import pytest

import models
from harness.errors import HarnessError
from harness.scoring import drawing
from models import knobs
from models.scenario import ScenarioError


@pytest.fixture
def anew():
    """What the models know is looked up again, before and after a test that changes it."""
    caches = (drawing._pairs, drawing._choices)
    for one in caches:
        one.cache_clear()
    yield
    for one in caches:
        one.cache_clear()


def counts(drawn, name):
    return Counter(scenario.get(name) for scenario in drawn if scenario.get(name) is not None)


def test_a_seed_says_the_whole_set():
    first, again, other = drawing.draw(5), drawing.draw(5), drawing.draw(6)
    assert first == again and len({scenario.key for scenario in first}) == drawing.CONFIGURATIONS
    assert not {scenario.key for scenario in first} & {scenario.key for scenario in other}


@pytest.mark.parametrize("seed", range(5))
def test_every_pair_and_every_choice_that_has_a_model_occurs(seed):
    drawn = drawing.draw(seed)
    pairs = Counter((scenario.service, scenario.server) for scenario in drawn)
    assert set(pairs) == set(drawing._pairs()) and max(pairs.values()) - min(pairs.values()) <= 1
    assert drawing.CALIBRATED not in {service for service, _ in pairs}
    for service, server in pairs:
        for knob in knobs.of_parts(service, server, drawing.LOAD).values():
            if (
                knob.type == "choice"
                and knob.of not in (drawing.LOAD,)
                and knob.name not in drawing.UNCHANGED
            ):
                own = [s for s in drawn if s.server == server or knob.of == service]
                met = set(counts(own, knob.name))
                assert met >= set(drawing._choices(service, server, knob.name))


def test_choices_come_up_equally_often_and_numbers_over_their_whole_range():
    drawn = drawing.draw(1, 240)
    for name in ("steal", "wait", "hold", "lock"):
        found = counts(drawn, name)
        assert max(found.values()) - min(found.values()) <= 0.25 * max(found.values())
    clients = [scenario.number("clients") for scenario in drawn]
    assert min(clients) == 1 and 100 < max(clients) <= 200
    workers = counts(drawn, "workers")
    assert min(workers) == 1 and max(workers) >= 14 and len(workers) >= 10
    assert max(s.number("clients") for s in drawn if s.get("wait") == "spin") <= drawing.MOST_SPINNING
    thinking = sum(scenario.number("think") > 0 for scenario in drawn)
    assert 0.4 < thinking / len(drawn) < 0.6


def test_what_has_no_model_is_not_drawn(anew, monkeypatch):
    known = models.predict

    def without_spinning(scenario, costs, **settings):
        if scenario.get("wait") == "spin" or scenario.server == "select":
            raise ScenarioError("no model")
        return known(scenario, costs, **settings)

    monkeypatch.setattr(models, "predict", without_spinning)
    drawn = drawing.draw()
    assert set(counts(drawn, "wait")) == {"block"} and "select" not in {s.server for s in drawn}


def test_more_than_there_are_is_refused_in_a_line(monkeypatch):
    monkeypatch.setattr(drawing, "_pairs", lambda: (("echo", "select"),))
    monkeypatch.setattr(drawing, "PRESSURES", {"few": ((1, 2), None)})
    monkeypatch.setattr(drawing, "NUMBERS", {})
    with pytest.raises(HarnessError, match="only 4 different ones"):
        drawing.draw(1, 5)
