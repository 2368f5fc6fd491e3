"""Fork and join at a shared pool: a request is split into tasks, any worker takes the next one, the last task ends it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from models.analytic._chain import beside, held, mean
from models.analytic._domain import conserve, positive, time, whole
from models.analytic._network import Vector
from models.analytic.bounds import Bounds

LARGEST = 6_000  # states of a chain that is solved in about a second
STEPS = 300  # enough to leave the states that hardly ever come up


@dataclass(frozen=True, slots=True)
class ForkJoinResult:
    """Steady state of a closed system whose requests are split into tasks.

    Attributes
    ----------
    throughput : float
        Requests answered per second, X.
    response : float
        Mean time from a request to the end of its last task, s.
    queue_length : float
        Mean number of requests with a task waiting or in service.
    utilisation : float
        Mean share of the workers that is busy, 0 to 1.
    """

    throughput: float
    response: float
    queue_length: float
    utilisation: float


def makespan(*, tasks: int, workers: int, demand: float) -> float:
    """Mean time from start to end of a request that has the pool to itself, s.

    Parameters
    ----------
    tasks : int
        k, at least 1.
    workers : int
        m, at least 1.
    demand : float
        Mean demand S of one task, exponential, s, positive.

    Raises
    ------
    ValueError
        When an argument is outside its domain.

    Notes
    -----
    S Σ 1/min(j, m), j = 1…k: the least of so many exponential times, again and again (W. Feller, An Introduction to
    Probability Theory and Its Applications II, 1971, section I.6).
    """
    most, many, service = whole("tasks", tasks), whole("workers", workers), positive("demand", demand)
    return service * math.fsum(1 / np.minimum(np.arange(1.0, most + 1), many))


def fork_join_bounds(*, clients: int, workers: int, tasks: int, think: float, demand: float) -> Bounds:
    """Bounds of `fork_join` for systems of any size.

    Parameters, errors: as in `fork_join`.

    Notes
    -----
    In the mean no request is faster than `makespan`, A, nor the pool faster than m/(kS); and first come first served
    is no slower than one request after the other: N/(Z + NA) ≤ X ≤ min(N/(Z + A), m/(kS)).
    """
    many, pause = whole("clients", clients), time("think", think)
    fastest = makespan(tasks=tasks, workers=workers, demand=demand)
    each = tasks * demand / workers
    return Bounds(
        throughput_low=many / (many * fastest + pause),
        throughput_high=min(many / (fastest + pause), 1 / each),
        response_low=max(fastest, many * each - pause),
        response_high=many * fastest,
        knee=(fastest + pause) / each,
    )


def fork_join(*, clients: int, workers: int, tasks: int, think: float, demand: float) -> ForkJoinResult:
    """Solves fork and join at a shared pool exactly, where the chain of its states is not too long.

    Parameters
    ----------
    clients : int
        N, at least 1.
    workers : int
        m, at least 1; they serve tasks first come first served.
    tasks : int
        k tasks of each request, at least 1.
    think : float
        Mean time Z between an answer and the client's next request, exponential, s, not negative.
    demand : float
        Mean demand S of one task, exponential, s, positive.

    Raises
    ------
    ValueError
        When an argument is outside its domain, or the chain has more than 6,000 states: `flow_fork_join` may answer
        then, and `fork_join_bounds` does.
    ArithmeticError
        When the solution breaks Little's or the utilisation law, which no valid one does.

    Notes
    -----
    A Markov chain. Its state is how many tasks each request has in service, the tasks waiting of the one request
    that has begun to be served or is next, and the number of requests behind it.
    """
    many, most = whole("clients", clients), whole("workers", workers)
    parts, pause, service = whole("tasks", tasks), time("think", think), positive("demand", demand)
    chain = _Chain(many, most, parts)
    states, moves = chain.explore(pause / service)
    share = _steady(len(states), moves)
    busy = float(share @ [state.busy for state in states])
    queue = float(share @ [state.requests for state in states])
    throughput = math.fsum(share[origin] * rate for origin, _, rate, ends in moves if ends) / service
    conserve("N = X (R + Z)", many, queue + throughput * pause)
    conserve("U = XD", busy, throughput * parts * service)
    return ForkJoinResult(throughput, queue / throughput, queue, busy / most)


def flow_fork_join(*, clients: int, workers: int, tasks: int, think: float, demand: float) -> ForkJoinResult:
    """Approximates `fork_join` for any number of clients.

    The pool stands for a station that finishes n requests at the rate at which it would with always n there. That rate
    is exact by `fork_join` below m requests and m/(kS) from there on, as none of the workers is idle then.

    Parameters, errors: as in `fork_join`; the chains are those of up to m − 1 clients that do not think.

    Notes
    -----
    K. M. Chandy, U. Herzog and L. Woo, "Parametric analysis of queuing networks", IBM Journal of Research and
    Development 19, 1975. Against exact chains of up to 20 clients, 8 workers and 8 tasks it was never faster; throughput was
    within 3 %, response within 15 % where k ≤ m and within 30 % where one request fills the pool more than once.
    """
    many, most = whole("clients", clients), whole("workers", workers)
    parts, pause, service = whole("tasks", tasks), time("think", think), positive("demand", demand)
    few = range(1, min(many, most - 1) + 1)
    below = [fork_join(clients=n, workers=most, tasks=parts, think=0.0, demand=1.0).throughput for n in few]
    flow = held(np.array([*below, most / parts]) / service, many)
    share = beside(many, pause, flow)
    throughput = mean(share[1:], flow)
    queue = mean(share, np.arange(many + 1.0))
    conserve("N = X (R + Z)", many, queue + throughput * pause)
    return ForkJoinResult(throughput, queue / throughput, queue, throughput * parts * service / most)


class _State(NamedTuple):
    """Tasks in service of each request that has none waiting, sorted; those of the next, and its waiting ones; requests
    behind."""

    started: tuple[int, ...]
    serving: int
    waiting: int
    behind: int

    @property
    def busy(self) -> int:
        return sum(self.started) + self.serving

    @property
    def requests(self) -> int:
        return len(self.started) + (self.waiting > 0) + self.behind


Move = tuple[int, int, float, bool]  # from, to, rate in 1/S, whether a request is answered


@dataclass(frozen=True, slots=True)
class _Chain:
    clients: int
    workers: int
    tasks: int

    def explore(self, think: float) -> tuple[list[_State], list[Move]]:
        """Every state that can come up, and the moves between them; think in units of S."""
        first = _State((), 0, 0, 0)
        while not think and first.requests < self.clients:
            first = self._arrive(first)
        index, states, moves = {first: 0}, [first], list[Move]()
        for origin, state in enumerate(states):  # states grows as it is read
            for after, rate, ends in self._moves(state, think):
                if after not in index:
                    index[after] = len(states)
                    states.append(after)
                moves.append((origin, index[after], rate, ends))
            if len(states) > LARGEST:
                raise ValueError(
                    f"clients={self.clients}, workers={self.workers}, tasks={self.tasks}: more than {LARGEST:,} states; "
                    "fork_join_bounds has an answer"
                )
        return states, moves

    def _moves(self, state: _State, think: float) -> Iterator[tuple[_State, float, bool]]:
        thinking = self.clients - state.requests
        if think and thinking:
            yield self._arrive(state), thinking / think, False
        for here in set(state.started):
            left = list(state.started)
            left.remove(here)
            left += [here - 1] * (here > 1)
            after = self._refill(state._replace(started=tuple(sorted(left))))
            ends = here == 1
            again = ends and not think
            yield self._arrive(after) if again else after, float(here * state.started.count(here)), ends
        if state.serving:
            yield self._refill(state._replace(serving=state.serving - 1)), float(state.serving), False

    def _arrive(self, state: _State) -> _State:
        if state.waiting:
            return state._replace(behind=state.behind + 1)
        return self._begin(state.started, 0, self.tasks, 0)

    def _refill(self, state: _State) -> _State:
        """A worker is free: it takes the next waiting task."""
        return self._begin(*state) if state.waiting else state

    def _begin(self, started: tuple[int, ...], serving: int, waiting: int, behind: int) -> _State:
        free = min(self.workers - sum(started) - serving, waiting)
        serving, waiting = serving + free, waiting - free
        if waiting:
            return _State(started, serving, waiting, behind)
        started = tuple(sorted((*started, serving)))
        return _State(started, 0, self.tasks if behind else 0, max(behind - 1, 0))


def _steady(size: int, moves: list[Move]) -> Vector:
    """Probabilities of the states: that of a likely one is set, and all others follow by balance."""
    from scipy.sparse import coo_array
    from scipy.sparse.linalg import spsolve

    origin, after, rate = (np.array(column) for column in list(zip(*moves, strict=True))[:3])
    leaving = np.bincount(origin, rate, size)
    rows, columns = np.append(after, range(size)), np.append(origin, range(size))
    balance = coo_array((np.append(rate, -leaving), (rows, columns)), shape=(size, size)).tocsc()
    share = np.eye(1, size)[0]
    for _ in range(STEPS):
        share += balance @ share / leaving.max()
    share /= share.max()
    rest = np.arange(size) != share.argmax()
    if rest.any():
        share[rest] = spsolve(balance[rest][:, rest], -balance[rest][:, ~rest].toarray().ravel())
    return np.asarray(share / share.sum())


predict = fork_join
