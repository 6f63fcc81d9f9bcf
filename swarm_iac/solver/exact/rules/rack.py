"""Does each rack carry what stands in it?

Traffic that stays inside a rack is counted too, because nobody declares who talks to whom: conservative.
"""

from __future__ import annotations

from swarm_iac.solver.exact.fleet_model import Board, Terms
from swarm_iac.solver.snapshot.snapshot import RACK_DIMS


def _inside(board: Board) -> dict[str, list[str]]:
    racks: dict[str, list[str]] = {}
    for node in board.by_bin:
        rack = board.bin(node).rack
        if rack in board.task.scene.racks:
            racks.setdefault(rack, []).append(node)
    return racks


def _bounded(board: Board, what: str) -> None:
    i = RACK_DIMS.index(what)
    for rack, nodes in _inside(board).items():
        terms: Terms = [(board.x[w, n], board.bin(n).of_rack(board.ask(w))[i]) for n in nodes for w in board.by_bin[n]]
        board.at_most(terms, board.task.base.racks[rack][i])


def egress_fits_uplink(board: Board) -> None:
    """For every rack r:  Σ_{w, n∈r} egress_w · x[w,n] ≤ uplink_r   [bit/s]"""
    _bounded(board, "egress")


def ingress_fits_uplink(board: Board) -> None:
    """For every rack r:  Σ_{w, n∈r} ingress_w · x[w,n] ≤ uplink_r   [bit/s]"""
    _bounded(board, "ingress")


def power_stays_under_rack_budget(board: Board) -> None:
    """For every rack r:  Σ_{n∈r} gpus_n · cap_n + Σ_{w, n∈r} gpus_w · max(0, cap_w − cap_n) · x[w,n] ≤ power_r   [W]

    cap_n is the node's gpu_power over all its GPUs, used or not; cap_w the workload's own. Unknown caps count 0.
    """
    _bounded(board, "power")
