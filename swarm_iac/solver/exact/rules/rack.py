"""Does each rack carry what stands in it?

Traffic that stays inside a rack is counted too, because nobody declares who talks to whom: conservative.
"""

from __future__ import annotations

from swarm_iac.solver.exact.fleet_model import Board, Terms
from swarm_iac.solver.snapshot.layout import Budget


def _inside(board: Board) -> dict[str, list[str]]:
    racks: dict[str, list[str]] = {}
    for node in board.by_bin:
        rack = board.bin(node).rack
        if rack in board.task.scene.racks:
            racks.setdefault(rack, []).append(node)
    return racks


def rack_budget_holds(board: Board, budget: Budget) -> None:
    """For every rack r:  Σ_{w, n∈r} use_w,n · x[w,n] ≤ left_r   [bit/s or W]

    What goes through the uplink: use_w,n = egress_w (or ingress_w), left_r = uplink_r.
    Power: use_w,n = gpus_w · max(0, cap_w − cap_n), left_r = power_r − Σ_{n∈r} gpus_n · cap_n; cap_n is the node's gpu_power
    over all its GPUs, used or not, cap_w the workload's own, and unknown caps count 0.
    """
    i = budget.place
    for rack, nodes in _inside(board).items():
        terms: Terms = [(board.x[w, n], board.bin(n).of_rack(board.ask(w))[i]) for n in nodes for w in board.by_bin[n]]
        board.at_most(terms, board.task.base.racks[rack][i])
