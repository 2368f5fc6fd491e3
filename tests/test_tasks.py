"""The server queues runs every task of every request once, also when workers steal from each other."""

import pytest
import trials

from models import knobs

RULES = knobs.of_parts("prime", "queues", "closed")["steal"].allowed.split("|")
STEALING = [rule for rule in RULES if rule != "none"]


def queues(wait, **options):
    settings = {"workers": "4", "chunk": "1", "steal": "next", "wait": wait, "bits": "8", **options}
    return trials.Trial("prime", "queues", settings)


@pytest.mark.parametrize("accept", ["thread", "epoll"])
@pytest.mark.parametrize("wait", ["block", "spin"])
@pytest.mark.parametrize("steal", STEALING)
def test_no_task_is_lost_or_done_twice(steal, wait, accept):
    found = trials.tasks_add_up(queues(wait, accept=accept, steal=steal), 20_000)
    assert found["steals"] > 0, "nothing was stolen, so nothing was tried"
    assert found["steals_tried"] > 0


@pytest.mark.parametrize(("steal", "workers"), [("none", "4"), *((rule, "1") for rule in STEALING)])
def test_without_a_rule_or_another_worker_nothing_is_tried(steal, workers):
    found = trials.tasks_add_up(queues("block", steal=steal, workers=workers), 10_000)
    assert (found["steals"], found["steals_tried"]) == (0, 0)


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("wait", ["block", "spin"])
@pytest.mark.parametrize("steal", STEALING)
def test_ten_million_tasks(steal, wait):
    found = trials.tasks_add_up(queues(wait, steal=steal), 10_000_000, array=5000)
    assert found["tasks"] >= 10_000_000 and found["steals"] > 0
