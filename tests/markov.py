"""A Markov chain from its moves, solved by elimination without a subtraction: a check of the analytic models."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

import numpy as np

State = TypeVar("State", bound=Hashable)


def steady(start: State, moves: Callable[[State], Iterable[tuple[float, State]]]) -> dict[State, float]:
    """Steady-state probabilities of all states that can be reached; moves(state) gives (rate, next state).

    W. K. Grassmann, M. I. Taksar and D. P. Heyman, Operations Research 33, 1985.
    """
    index, states, edges = {start: 0}, [start], []
    for state in states:
        for rate, after in moves(state):
            if after not in index:
                index[after] = len(states)
                states.append(after)
            edges.append((index[state], index[after], rate))
    rates = np.zeros((len(states), len(states)))
    for origin, after, rate in edges:
        rates[origin, after] += rate
    np.fill_diagonal(rates, 0.0)
    for last in range(len(states) - 1, 0, -1):
        rates[:last, last] /= rates[last, :last].sum()
        rates[:last, :last] += np.outer(rates[:last, last], rates[last, :last])
    share = np.ones(len(states))
    for state in range(1, len(states)):
        share[state] = share[:state] @ rates[:state, state]
    return dict(zip(states, (share / share.sum()).tolist(), strict=True))


def mean(share: dict[State, float], value: Callable[[State], float]) -> float:
    return sum(chance * value(state) for state, chance in share.items())
