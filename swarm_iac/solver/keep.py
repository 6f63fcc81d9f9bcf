"""Who stays where it is? The variables that compare a placement with the last one.

placed[w]   Σ_n x[w,n]
kept[w,n]   ≤ min(x[w,n], stay[w,n])
eased[w,n]  ≤ soft[w,n],  kept[w,n] + eased[w,n] ≤ x[w,n]
stayed[w]   = min(Σ_n stay[w,n], placed[w])    ran[w] = min(running_w, placed[w])
"""

from __future__ import annotations

from collections import Counter

from ortools.sat.python import cp_model

from swarm_iac.solver.board import Board, Values


class Keeping:
    """Variables over workloads that ran before; nothing where nothing ran."""

    def __init__(self, board: Board) -> None:
        self.board = board
        task = board.task
        self.kept: dict[tuple[str, str], cp_model.IntVar] = {}
        self.eased: dict[tuple[str, str], cp_model.IntVar] = {}
        for pair, x in board.x.items():
            stay, soft = task.stay[pair], task.soft[pair]
            if stay:
                self.kept[pair] = board.new(0, stay, f"kept[{pair}]", lambda v, x=x, m=stay: min(v[x.index], m))  # type: ignore[misc]
                board.model.add(self.kept[pair] <= x)
            if soft:
                self._ease(pair, x, stay, soft)
        totals: Counter[str] = Counter()
        for (name, _), count in task.stay.items():
            totals[name] += count
        self.stayed = {n: self._least(n, count) for n, count in totals.items() if n in board.by_ask and count}
        self.ran = {n: self._least(n, count) for n, count in task.running.items() if n in board.by_ask and count}

    def _ease(self, pair: tuple[str, str], x: cp_model.IntVar, stay: int, soft: int) -> None:
        def eased(values: Values) -> int:
            return max(0, min(values[x.index] - stay, soft))

        self.eased[pair] = self.board.new(0, soft, f"eased[{pair}]", eased)
        kept = self.kept.get(pair)
        self.board.model.add(self.eased[pair] + (0 if kept is None else kept) <= x)

    def _least(self, name: str, count: int) -> cp_model.IntVar:
        """min(count, Σ_n x[w,n])"""
        parts = self.board.of(name)

        def least(values: Values) -> int:
            return min(count, sum(values[part.index] for part in parts))

        var = self.board.new(0, count, f"least[{name},{count}]", least)
        self.board.model.add_min_equality(var, [sum(parts), count])
        return var
