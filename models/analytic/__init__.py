"""Closed-form and exact models: a result in microseconds, within the assumptions that each file states. One file each."""

from models.analytic.approximate_mva import approximate_mva
from models.analytic.balanced_job import balanced_job
from models.analytic.bounds import asymptotic, naive_bound
from models.analytic.closed_multiserver import closed_multiserver
from models.analytic.constant_demand import constant_demand
from models.analytic.erlang import erlang_b, erlang_c, multiserver
from models.analytic.finite_queue import finite_queue
from models.analytic.fork_join import flow_fork_join, fork_join, fork_join_bounds, makespan
from models.analytic.layered import Layer, layered
from models.analytic.locked_pool import locked_pool
from models.analytic.multiclass import multiclass
from models.analytic.mva import mva
from models.analytic.single_server import single_server
from models.analytic.split_fork_join import closed_split_fork_join, split_fork_join

__all__ = [
    "Layer",
    "approximate_mva",
    "asymptotic",
    "balanced_job",
    "closed_multiserver",
    "closed_split_fork_join",
    "constant_demand",
    "erlang_b",
    "erlang_c",
    "finite_queue",
    "flow_fork_join",
    "fork_join",
    "fork_join_bounds",
    "layered",
    "locked_pool",
    "makespan",
    "multiclass",
    "multiserver",
    "mva",
    "naive_bound",
    "single_server",
    "split_fork_join",
]
