"""The server queues runs every task of every request once, also when workers steal from each other."""

import pytest
import trials


def queues(wait, **options):
    settings = {"workers": "4", "chunk": "1", "steal": "next", "wait": wait, "bits": "8", **options}
    return trials.Trial("prime", "queues", settings)


@pytest.mark.parametrize("accept", ["thread", "epoll"])
@pytest.mark.parametrize("wait", ["block", "spin"])
def test_no_task_is_lost_or_done_twice(wait, accept):
    found = trials.tasks_add_up(queues(wait, accept=accept), 50_000)
    assert found["steals"] > 0, "nothing was stolen, so nothing was tried"


def test_without_stealing_nothing_is_stolen():
    assert trials.tasks_add_up(queues("block", steal="none"), 20_000)["steals"] == 0


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("wait", ["block", "spin"])
def test_ten_million_tasks(wait):
    found = trials.tasks_add_up(queues(wait), 10_000_000, array=5000)
    assert found["tasks"] >= 10_000_000 and found["steals"] > 0
