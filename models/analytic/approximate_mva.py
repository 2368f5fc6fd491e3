"""Approximate closed network of several classes of requests: Bard and Schweitzer's equations, and the Linearizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from models.analytic._domain import conserve, counts, time, whole
from models.analytic._network import Vector

ROUNDS = 100_000
CLOSE = 1e-13  # of the clients: how little the queues may still move


@dataclass(frozen=True, slots=True)
class ClassesResult:
    """Steady state of a closed network of several classes; `[c]` is the class, `[c][k]` the class at a station.

    Attributes
    ----------
    throughput, response : tuple of float
        Requests of each class answered per second, and the mean time from request to answer, s.
    residence, queue_length, utilisation : tuple of tuples of float
        Mean time that a request spends at a station, s; mean number waiting or in service there; mean share of the station's
        servers that the class keeps busy, 0 to 1, or of a delay the mean number in it.
    """

    throughput: tuple[float, ...]
    response: tuple[float, ...]
    residence: tuple[tuple[float, ...], ...]
    queue_length: tuple[tuple[float, ...], ...]
    utilisation: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Classes:
    """The arguments of a network of several classes, checked: demands has a row for each class."""

    clients: tuple[int, ...]
    demands: Vector
    think: Vector
    servers: Vector

    @classmethod
    def checked(
        cls,
        clients: Sequence[int],
        demands: Sequence[Sequence[float]],
        servers: Sequence[float] | None,
        think: Sequence[float] | None,
    ) -> Classes:
        many = tuple(whole("clients", number) for number in clients)
        pauses = [0.0] * len(many) if think is None else [time("think", value) for value in think]
        if not len(many) == len(demands) == len(pauses) > 0:
            raise ValueError(
                f"clients, demands and think: {len(many)}, {len(demands)} and {len(pauses)} classes, not equally many"
            )
        rows = np.array([[time("demands", value) for value in row] for row in demands], dtype=np.float64)
        if rows.ndim != 2 or not rows.any(axis=1).all():
            raise ValueError("demands: each class needs a time for every station, one of them above 0 s")
        return cls(many, rows, np.array(pauses), np.array(counts("servers", servers, rows.shape[1])))

    def result(self, throughput: Vector, queues: Vector) -> ClassesResult:
        """The means, once no client of any class is missing."""
        for many, rate, pause, row in zip(self.clients, throughput, self.think, queues, strict=True):
            conserve("N = X (R + Z)", many, float(rate * pause + row.sum()))
        busy = throughput[:, None] * self.demands / np.where(np.isinf(self.servers), 1.0, self.servers)
        residence = queues / throughput[:, None]
        return ClassesResult(
            throughput=tuple(throughput.tolist()),
            response=tuple(residence.sum(axis=1).tolist()),
            residence=tuple(map(tuple, residence.tolist())),
            queue_length=tuple(map(tuple, queues.tolist())),
            utilisation=tuple(map(tuple, busy.tolist())),
        )


def approximate_mva(
    *,
    clients: Sequence[int],
    demands: Sequence[Sequence[float]],
    servers: Sequence[float] | None = None,
    think: Sequence[float] | None = None,
    method: Literal["schweitzer", "linearizer"] = "linearizer",
) -> ClassesResult:
    """Approximates a closed network of any size, in a time that does not grow with the number of clients.

    Parameters
    ----------
    clients : sequence of int
        N_c, clients of each class, at least 1.
    demands : sequence of sequences of float
        demands[c][k] is the demand of a request of class c at station k, s, not negative.
    servers : sequence, optional
        Parallel servers m_k of each station; math.inf is a delay. One each by default.
    think : sequence of float, optional
        Z_c, s, not negative; none by default.
    method : str
        `schweitzer` estimates the queue that an arrival finds by all other classes' and (N−1)/N of its own; `linearizer`
        corrects that estimate by how the shares of the queues change when one client leaves, and is ten times as near.

    Raises
    ------
    ValueError
        When an argument is outside its domain.
    ArithmeticError
        When the equations do not settle, or lose a client.

    Notes
    -----
    Y. Bard, 1979, and P. Schweitzer, 1979 (E. D. Lazowska et al., Quantitative System Performance, 1984, section 7.4); K. M.
    Chandy and D. Neuse, "Linearizer", Communications of the ACM 25, 1982. A station of m servers counts as one that is
    m times as fast after a delay of (m−1)/m of the demand (A. Seidmann, P. Schweitzer and S. Shalev-Oren, 1987):
    right when idle and when saturated, up to some 10 % off between.
    """
    if method not in ("schweitzer", "linearizer"):
        raise ValueError(f"method={method}: not schweitzer or linearizer")
    classes = Classes.checked(clients, demands, servers, think)
    fast = np.where(np.isinf(classes.servers), 0.0, classes.demands / classes.servers)
    network = _Equations(fast, classes.demands - fast, classes.think)
    many = np.array(classes.clients, dtype=np.float64)
    if method == "schweitzer":
        throughput, queues = network.settle(many, np.zeros((len(many), *fast.shape)))
    else:
        throughput, queues = network.linearize(many)
    return classes.result(throughput, queues + throughput[:, None] * network.delay)


@dataclass(frozen=True, slots=True)
class _Equations:
    """Queues of one server each, and beside each a delay; queues are [c][k] and leave the delays out."""

    demand: Vector
    delay: Vector
    think: Vector

    def settle(self, many: Vector, moves: Vector) -> tuple[Vector, Vector]:
        """X and Q; moves[s, c, k] is by how much the share of class c at k changes when one client of class s leaves."""
        present = many > 0
        share = np.where(
            self.demand > 0, present[:, None] / np.maximum((self.demand > 0).sum(axis=1), 1)[:, None], 0.0
        )
        fixed = self.delay.sum(axis=1) + self.think
        for _ in range(ROUNDS):
            found = np.einsum("sc,sck->sk", many - np.eye(len(many)), share + moves)
            residence = self.demand * (1 + np.maximum(found, 0.0))
            throughput = np.where(present, many / (fixed + residence.sum(axis=1)), 0.0)
            queues = throughput[:, None] * residence
            after = queues / np.maximum(many, 1.0)[:, None]
            if np.abs(after - share).max() < CLOSE:
                return throughput, queues
            share = after
        raise ArithmeticError("the queues of the approximation do not settle")

    def linearize(self, many: Vector) -> tuple[Vector, Vector]:
        moves = np.zeros((len(many), *self.demand.shape))
        for _ in range(3):
            share = self.settle(many, moves)[1] / many[:, None]
            after = np.zeros_like(
                moves
            )  # all of a round from the round before: mixed, they drift to other solutions
            for left in range(len(many)):
                fewer = many - np.eye(len(many))[left]
                after[left] = self.settle(fewer, moves)[1] / np.maximum(fewer, 1.0)[:, None] - share
                after[left][fewer == 0] = 0.0
            moves = after
        return self.settle(many, moves)


predict = approximate_mva
