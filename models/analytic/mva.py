"""Exact closed network of queueing, multi-server, load-dependent and delay stations, one class of requests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, repeat

import numpy as np

from models.analytic._chain import mean
from models.analytic._domain import conserve, counts, time, whole
from models.analytic._network import Vector, leave_one_out, occupancy, parallel

FAINT = 1e-40  # of the largest weight: what lies below changes no digit of a sum


@dataclass(frozen=True, slots=True)
class NetworkResult:
    """Steady state of a closed network.

    Attributes
    ----------
    throughput : float
        Requests answered per second, X.
    response : float
        Mean time from a request to its answer, s: the residence times added up, think time left out.
    residence : tuple of float
        Mean time that a request spends at each station, all its visits together, s.
    queue_length : tuple of float
        Mean number of requests waiting or in service at each station.
    utilisation : tuple of float
        Mean share of each station's servers that is busy, 0 to 1; of a delay the mean number in it.
    occupancy : tuple of arrays
        For each station the probabilities of 0…N requests there.
    """

    throughput: float
    response: float
    residence: tuple[float, ...]
    queue_length: tuple[float, ...]
    utilisation: tuple[float, ...]
    occupancy: tuple[Vector, ...] = field(repr=False, compare=False)


def mva(
    *,
    clients: int,
    demands: Sequence[float | Sequence[float]],
    servers: Sequence[float] | None = None,
    think: float = 0.0,
) -> NetworkResult:
    """Solves a closed product-form network exactly: what mean value analysis computes, without its instability.

    Parameters
    ----------
    clients : int
        N, at least 1.
    demands : sequence
        Demand D_k of a request at each station, s, not negative. A sequence in place of a number says what it is with
        1, 2, … requests there, the last one holding for more; it must not rise.
    servers : sequence, optional
        Parallel servers m_k of each station; math.inf is a delay. One each by default.
    think : float
        Z, s, not negative.

    Raises
    ------
    ValueError
        When an argument is outside its domain.
    ArithmeticError
        When the solution breaks the utilisation law or loses a client, which no valid one does.

    Notes
    -----
    The answer is that of M. Reiser and S. S. Lavenberg, "Mean-value analysis of closed multichain queuing networks",
    Journal of the ACM 27, 1980, whose recursion for several servers takes differences that lose all digits. This is
    J. P. Buzen's convolution (Communications of the ACM 16, 1973) of weights, each multiplied by a rate to the power of its
    number of requests (S. S. Lam, Journal of the ACM 29, 1982). The rate is the one at which open stations would
    hold N requests on average: the N-th term of the convolution is then among its largest, all terms are positive,
    and nothing that matters can overflow or underflow.
    """
    many = whole("clients", clients)
    pause = time("think", think)
    fixed = counts("servers", servers, len(demands))
    tables = [_table(demand, count, many) for demand, count in zip(demands, fixed, strict=True)]
    if not any(table[0] > 0 for table in tables):
        raise ValueError("demands: none is above 0 s")
    everyone = tables + [pause / parallel(many, math.inf)] * (pause > 0)
    rate = _rate(everyone, many)
    single = [_station(table, rate) for table in everyone]
    start = _Part(0, np.ones(1))
    throughputs, shares = [], []
    for mine, others in zip(single, leave_one_out(single, start, _convolve), strict=True):
        share, before = _meet(mine, others, many), _meet(mine, others, many - 1)
        throughputs.append(rate * float(before.sum() / share.sum()))
        shares.append(share / share.sum())
    return _result(many, pause, tables, fixed, throughputs, shares)


def _table(demand: float | Sequence[float], count: float, most: int) -> Vector:
    """Mean time between departures with 1…N requests at a station, s."""
    if not isinstance(demand, Sequence | np.ndarray):
        return time("demands", demand) / parallel(most, count)
    if not len(demand) or count != 1:
        raise ValueError("demands: a demand by the number there needs at least one time and takes no servers")
    given = np.array([time("demands", value) for value in demand], dtype=np.float64)
    if (np.diff(given) > 0).any() or (given[0] > 0 and not given[-1] > 0):
        raise ValueError(
            "demands: a demand by the number there must neither rise with the number nor end at 0 s"
        )
    return np.append(given, np.full(max(most - len(given), 0), given[-1]))[:most]


def _rate(tables: list[Vector], many: int) -> float:
    """The rate at which the stations, each alone and open, hold N requests in the mean together, within a millionth."""

    def held(logarithm: float) -> float:
        weighed = [occupancy(table, math.exp(logarithm)) for table in tables]
        return math.fsum(mean(weight, state) / float(weight.sum()) for weight in weighed)

    state = np.arange(many + 1.0)
    low = high = -math.log(math.fsum(float(table[0]) for table in tables))
    step = 1.0
    while held(low) > many:
        low, step = low - step, 2 * step
    while held(high) < many:
        high, step = high + step, 2 * step
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if held(middle) < many else (low, middle)
    return math.exp((low + high) / 2)


@dataclass(frozen=True, slots=True)
class _Part:
    """Weights of `first` and more requests at one station or at several."""

    first: int
    weight: Vector


@dataclass(frozen=True, slots=True)
class _Station(_Part):
    """From index `even` on every weight is `ratio` times the one before."""

    even: int
    ratio: float
    most: int


def _station(table: Vector, rate: float) -> _Station:
    part = _trim(0, occupancy(table, rate))
    varies = np.flatnonzero(np.diff(table))
    even = int(varies[-1]) + 1 if len(varies) else 0
    return _Station(part.first, part.weight, max(even - part.first, 0), float(table[-1]) * rate, len(table))


def _trim(first: int, weight: Vector) -> _Part:
    """Leaves out what is faint, but for one state on either side: a station hardly ever used still has its share."""
    weight = weight / weight.max()
    seen = np.flatnonzero(weight > FAINT)
    begin = max(int(seen[0]) - 1, 0)
    return _Part(first + begin, weight[begin : seen[-1] + 2])


def _convolve(others: _Part, station: _Station) -> _Part:
    """Adds a station to others. An even tail is one multiplication a state, c(n) = h(n) + ratio c(n − 1)."""
    first = others.first + station.first
    size = station.most + 1 - first
    even = station.even
    if size <= even or len(station.weight) < 8 * (even + 1) or station.most * math.log(station.ratio) > 200:
        return _trim(first, np.convolve(others.weight, station.weight)[:size])
    tail = chain(others.weight[: size - even].tolist(), repeat(0.0, max(size - even - len(others.weight), 0)))
    found = np.zeros(size)
    found[even:] = list(accumulate(tail, lambda before, here: station.ratio * before + here))
    found *= station.weight[even]
    if even:
        head = np.convolve(others.weight, station.weight[:even])[:size]
        found[: len(head)] += head
    return _trim(first, found)


def _meet(mine: _Part, others: _Part, many: int) -> Vector:
    """Weights of 0…N requests at one station while the others hold the rest."""
    found = np.zeros(many + 1)
    begin = max(mine.first, many + 1 - others.first - len(others.weight))
    end = min(mine.first + len(mine.weight), many + 1 - others.first)
    if begin < end:
        rest = others.weight[many + 1 - end - others.first : many + 1 - begin - others.first]
        found[begin:end] = mine.weight[begin - mine.first : end - mine.first] * rest[::-1]
    return found


def _result(
    many: int,
    pause: float,
    tables: list[Vector],
    fixed: list[float],
    throughputs: list[float],
    shares: list[Vector],
) -> NetworkResult:
    """The means, once departures balance at every station and no client is missing."""
    state = np.arange(many + 1.0)
    throughput = throughputs[0]
    for table, other, share in zip(tables, throughputs, shares, strict=False):
        conserve("X the same at every station", throughput, other)
        if table[0] > 0:
            conserve("U = XD", mean(share[1:], 1 / table), throughput)
    queues = [mean(share, state) for share in shares]
    conserve("ΣQ = N", math.fsum(queues), many)
    if pause:
        conserve("N = X (R + Z)", queues[-1], throughput * pause)
    own = queues[: len(tables)]
    return NetworkResult(
        throughput=throughput,
        response=math.fsum(own) / throughput,
        residence=tuple(queue / throughput for queue in own),
        queue_length=tuple(own),
        utilisation=tuple(
            mean(share[1:], parallel(many, count)) / (1.0 if math.isinf(count) else count)
            for count, share in zip(fixed, shares, strict=False)
        ),
        occupancy=tuple(shares[: len(tables)]),
    )


predict = mva
