"""Does what is placed on a node fit it? One rule for each thing that a node has, and one for each node limit.

Written with open[n] on the right-hand side where the node is still empty: the same integers, a tighter relaxation.
"""

from __future__ import annotations

from swarm_iac.solver.exact.fleet_model import Board
from swarm_iac.solver.snapshot.snapshot import CAPPED, NODE_DIMS


def _fits(board: Board, what: str) -> None:
    i = NODE_DIMS.index(what)
    for node, names in board.by_bin.items():
        terms = [(board.x[name, node], board.ask(name).need[i]) for name in names]
        factor = None if board.task.base.load[node] else board.open[node]
        board.at_most(terms, board.task.base.free[node][i], factor)


def gpus_fit_node(board: Board) -> None:
    """For every node n:  Σ_w gpus_w · x[w,n] ≤ gpus_n"""
    _fits(board, "gpus")


def vcpus_fit_node(board: Board) -> None:
    """For every node n:  Σ_w vcpus_w · x[w,n] ≤ vcpus_n, pinned and shared together   [thousandths]"""
    _fits(board, "vcpus")


def cores_fit_node(board: Board) -> None:
    """For every node n:  Σ_{w pinned} ⌈vcpus_w⌉ · x[w,n] ≤ ⌊vcpus_n⌋   [whole cores]"""
    _fits(board, "cores")


def memory_fits_node(board: Board) -> None:
    """For every node n:  Σ_w memory_w · x[w,n] ≤ memory_n   [bytes]"""
    _fits(board, "memory")


def storage_fits_node(board: Board) -> None:
    """For every node n:  Σ_w (scratch_w + cache_w) · x[w,n] ≤ nvme_n   [bytes]"""
    _fits(board, "storage")


def egress_fits_nic(board: Board) -> None:
    """For every node n:  Σ_w (egress_w + between_w) · x[w,n] ≤ nic_n   [bit/s]"""
    _fits(board, "egress")


def ingress_fits_nic(board: Board) -> None:
    """For every node n:  Σ_w (ingress_w + between_w) · x[w,n] ≤ nic_n   [bit/s]"""
    _fits(board, "ingress")


def node_stays_under_limits(board: Board) -> None:
    """For every node n and resource r:  Σ_w r_w · x[w,n] ≤ limits.node.r;  bandwidth_w = max(out_w, in_w)"""
    for what in NODE_DIMS[CAPPED:]:
        _fits(board, what)
