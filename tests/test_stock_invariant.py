"""No order is lost, made up or done twice: what is left of each stock follows from what clients were told."""

import pytest
import trials

SHORT = [
    ("select", {"lock": "mutex", "index": "bst"}),
    ("select", {"lock": "readers_writers", "index": "balanced", "dialect": "padded"}),
    ("sbuf", {"lock": "readers_writers", "index": "balanced", "workers": "4"}),
    ("sbuf", {"lock": "global", "index": "bst", "workers": "8", "queue_slots": "4"}),
    ("sbuf", {"lock": "mutex", "index": "balanced", "hold": "connection", "workers": "112"}),
    ("thread", {"lock": "mutex", "index": "bst"}),
    ("thread", {"lock": "readers_writers", "index": "balanced", "connection": "per_request"}),
    ("iterative", {"lock": "mutex", "index": "bst", "connection": "per_request"}),
    ("queues", {"lock": "mutex", "index": "bst", "workers": "4", "steal": "next", "accept": "thread"}),
    (
        "queues",
        {"lock": "readers_writers", "index": "bst", "workers": "4", "accept": "epoll", "steal": "next"},
    ),
    ("select", {"lock": "none", "index": "array", "accounts": "on", "funds": "30000"}),
    ("sbuf", {"lock": "rwlock", "index": "hash", "workers": "4"}),
    ("sbuf", {"lock": "seqlock", "index": "array", "workers": "4", "stocks": "2"}),
    ("queues", {"lock": "seqlock", "index": "hash", "workers": "4", "accounts": "on"}),
    ("fork", {"lock": "mutex", "index": "hash"}),
    ("fork", {"lock": "seqlock", "connection": "per_request"}),
    ("prefork", {"lock": "global", "workers": "120"}),
    ("queues", {"lock": "global", "index": "balanced", "connection": "per_request", "accept": "thread"}),
]
LOCKS = ["readers_writers", "rwlock", "mutex", "global", "seqlock"]
INDICES = ["bst", "balanced", "hash", "array"]
SERVERS = [
    ("select", {}),
    ("sbuf", {"workers": "8"}),
    ("sbuf", {"hold": "connection", "workers": "112"}),
    ("thread", {}),
    ("iterative", {"connection": "per_request"}),
    ("queues", {"workers": "8", "steal": "next", "accept": "thread"}),
    ("queues", {"workers": "8", "steal": "next", "accept": "epoll"}),
]


@pytest.mark.parametrize(("server", "options"), SHORT)
def test_orders_of_a_hundred_clients_add_up(server, options):
    assert trials.stock_invariant(trials.Trial("stock", server, options)) > 100


@pytest.mark.long
@pytest.mark.parametrize("stocks", ["2", "100"])
@pytest.mark.parametrize(
    ("lock", "index"),
    [(lock, INDICES[i % 4]) for i, lock in enumerate(LOCKS)] + [("mutex", i) for i in INDICES],
)
@pytest.mark.parametrize(("server", "options"), SERVERS)
def test_orders_add_up_for_every_lock_and_index(server, options, lock, index, stocks):
    trial = trials.Trial("stock", server, {**options, "lock": lock, "index": index, "stocks": stocks})
    assert trials.stock_invariant(trial, window=2.0) > 1000
