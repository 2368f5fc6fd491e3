"""Simultaneous possession: a request holds a thread of a pool while it queues for what lies inside, say a connection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.analytic._chain import beside, held, mean
from models.analytic._domain import conserve, servers, time, whole
from models.analytic._network import Vector
from models.analytic.mva import NetworkResult, mva

LARGEST = 1_000  # requests inside a layer: every number of them is a network to solve


@dataclass(frozen=True, slots=True)
class Layer:
    """A pool of permits (threads, connections, locks), and the stations that only their holders use.

    Parameters
    ----------
    limit : int
        How many hold one at a time; 1 is a lock. All others wait for it, first come first served. math.inf: no limit.
    demands : sequence of float
        Demand of a request at each station, s, spent while it holds this layer's permit and none of a layer further in.
    servers : sequence, optional
        Parallel servers of each station, math.inf for a delay; one each by default.
    """

    limit: float
    demands: Sequence[float]
    servers: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class LayerResult:
    """One layer.

    Attributes
    ----------
    waiting : float
        Mean time that a request waits for a permit, s.
    residence : tuple of float
        Mean time at each station, s.
    utilisation : float
        Mean share of the permits that are held, 0 to 1; without a limit the mean number of requests inside.
    """

    waiting: float
    residence: tuple[float, ...]
    utilisation: float


@dataclass(frozen=True, slots=True)
class LayersResult:
    """Steady state of a closed system with layers.

    Attributes
    ----------
    throughput : float
        Requests answered per second, X.
    response : float
        Mean time from a request to its answer, s: waiting and residence of all layers added up.
    queue_length : float
        Mean number of requests outside the clients.
    layers : tuple of LayerResult
        From the outermost inwards.
    """

    throughput: float
    response: float
    queue_length: float
    layers: tuple[LayerResult, ...]


def layered(*, clients: int, layers: Sequence[Layer], think: float = 0.0) -> LayersResult:
    """Solves a closed system whose requests hold one thing while they wait for the next.

    Each layer, with all further in, is solved by itself with 1, 2, … requests inside, and then stands for a station
    that finishes requests at those rates. Waiting for a thread that others hold at a lock comes out by itself.

    Parameters
    ----------
    clients : int
        N, at least 1.
    layers : sequence of Layer
        From the outermost (the pool) inwards (the lock). A station belongs to one layer: where holders of a lock and
        others share the same few processors, ask `locked_pool`.
    think : float
        Z, s, not negative.

    Raises
    ------
    ValueError
        When an argument is outside its domain.
    ArithmeticError
        When the solution breaks Little's law or loses a client.

    Notes
    -----
    Flow-equivalent servers: K. M. Chandy, U. Herzog and L. Woo, "Parametric analysis of queuing networks", IBM Journal of
    Research and Development 19, 1975; for possession C. H. Sauer, "Approximate solution of queueing networks with
    simultaneous resource possession", the same journal 25, 1981. Exact when no limit binds, and for one layer when
    Z = 0. Otherwise it takes the inside to be settled each time a request enters or leaves: against exact chains of a
    pool with a lock, throughput was within some 1 % and response within 10 %, worst for one thread at several stations.
    """
    many, pause = whole("clients", clients), time("think", think)
    if not layers:
        raise ValueError("layers: none is given")
    limits = [min(servers("limit", layer.limit), many) for layer in layers]
    admitted = np.minimum.accumulate(limits).astype(int).tolist()
    if admitted[0] > LARGEST:
        raise ValueError(
            f"limit={admitted[0]}: more than {LARGEST:,} requests inside; without a limit that binds, ask mva"
        )
    insides: list[list[NetworkResult]] = []
    flow: Vector = np.empty(0)
    for layer, most in zip(reversed(layers), reversed(admitted), strict=True):
        insides.insert(0, _inside(layer, most, flow))
        flow = np.array([inside.throughput for inside in insides[0]])
    share = beside(many, pause, flow)
    state = np.arange(many + 1.0)
    throughput = mean(share[1:], held(flow, many))
    queue = mean(share, state)
    conserve("N = X (R + Z)", many, throughput * pause + queue)
    found = []
    for layer, inside in zip(layers, insides, strict=True):
        result, share = _means(layer, inside, share, throughput)
        found.append(result)
    response = math.fsum(layer.waiting + math.fsum(layer.residence) for layer in found)
    conserve("Q = XR", queue, throughput * response)
    return LayersResult(throughput, response, queue, tuple(found))


def _inside(layer: Layer, most: int, flow: Vector) -> list[NetworkResult]:
    """A layer with 1…most requests in it; those further in finish at the rates of flow."""
    demands: list[float | list[float]] = [*layer.demands]
    fixed = [1.0] * len(demands) if layer.servers is None else [*layer.servers]
    if len(flow):
        # Rounding must not make it look as if more requests took longer.
        demands.append((1 / np.maximum.accumulate(flow)).tolist())
        fixed.append(1.0)
    return [mva(clients=inside, demands=demands, servers=fixed) for inside in range(1, most + 1)]


def _means(
    layer: Layer, inside: list[NetworkResult], share: Vector, throughput: float
) -> tuple[LayerResult, Vector]:
    """One layer from the probabilities of 0… requests at it, and the probabilities of 0… at the layer further in."""
    most = len(inside)
    held = np.append(share[:most], share[most:].sum())
    queues = held[1:] @ np.array([result.queue_length for result in inside])
    further = np.zeros(most + 1)
    further[0] = held[0]
    for weight, result in zip(held[1:], inside, strict=True):
        further[: len(result.occupancy[-1])] += weight * result.occupancy[-1]
    state = np.arange(float(len(share)))
    holding = float(held @ np.arange(most + 1.0))
    found = LayerResult(
        waiting=mean(share, np.maximum(state - most, 0.0)) / throughput,
        residence=tuple((queues[: len(layer.demands)] / throughput).tolist()),
        utilisation=holding if math.isinf(layer.limit) else holding / layer.limit,
    )
    return found, further


predict = layered
