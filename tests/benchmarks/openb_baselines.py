"""What do the usual methods place? Best fit, first-fit-decreasing, and a plain assignment model in CP-SAT.

Each returns (workload, node, GPUs) of every replica that found a place, and the bound that it proved itself, if any.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from ortools.sat.python import cp_model

from tests.benchmarks.openb_trace import Shape, Trace, workloads

Where = list[tuple[str, str, tuple[int, ...]]]
#: Node to take, given the pod and the nodes where it fits.
Choice = Callable[["Machines", Shape, npt.NDArray[np.int64]], int]


class Machines:
    """What is free: CPU, memory and thousandths of each card, one row for each node."""

    def __init__(self, trace: Trace) -> None:
        most = max(machine.gpus for _, machine in trace.nodes)
        self.names = [name for name, _ in trace.nodes]
        self.models = np.array([machine.model for _, machine in trace.nodes])
        self.capacity = np.array([[machine.cpu, machine.memory] for _, machine in trace.nodes], dtype=np.int64)
        self.free = self.capacity.copy()
        self.cards = np.array([[1000] * m.gpus + [0] * (most - m.gpus) for _, m in trace.nodes], dtype=np.int64)

    def fitting(self, pod: Shape) -> npt.NDArray[np.int64]:
        """Nodes with room for the pod."""
        fits = (self.free[:, 0] >= pod.cpu) & (self.free[:, 1] >= pod.memory)
        if pod.gpus:
            fits &= (self.cards >= pod.milli).sum(axis=1) >= pod.gpus
        if pod.models:
            fits &= np.isin(self.models, pod.models)
        return np.flatnonzero(fits)

    def take(self, pod: Shape, node: int) -> tuple[int, ...]:
        """Put the pod there, on the fullest cards that have room. Returns the cards."""
        self.free[node] -= (pod.cpu, pod.memory)
        order = np.argsort(self.cards[node], kind="stable")
        chosen = [int(card) for card in order if self.cards[node, card] >= pod.milli][: pod.gpus]
        self.cards[node, chosen] -= pod.milli
        return tuple(sorted(chosen))


def one_by_one(trace: Trace, pods: list[Shape], choice: Choice) -> Where:
    """Pods in an order, each to the node that `choice` names."""
    names = {shape: name for name, (shape, _) in workloads(trace).items()}
    machines = Machines(trace)
    where: Where = []
    full: set[Shape] = set()  # nothing is ever freed, so what found no place once finds none later
    for pod in pods:
        if pod in full:
            continue
        fitting = machines.fitting(pod)
        if not len(fitting):
            full.add(pod)
            continue
        node = choice(machines, pod, fitting)
        where.append((names[pod], machines.names[node], machines.take(pod, node)))
    return where


def best_fit(trace: Trace) -> tuple[Where, float | None]:
    """Pods as they arrive, each to the node with the least left: the sum of free CPU, memory and GPU, each as a part."""

    def choice(machines: Machines, pod: Shape, fitting: npt.NDArray[np.int64]) -> int:
        left = (machines.free[fitting] / machines.capacity.max(axis=0)).sum(axis=1)
        return int(fitting[(left + machines.cards[fitting].sum(axis=1) / 8000).argmin()])

    return one_by_one(trace, list(trace.pods), choice), None


def first_fit_decreasing(trace: Trace) -> tuple[Where, float | None]:
    """Pods by GPUs, then CPU, then memory, the largest first, each to the first node that has room."""
    pods = sorted(trace.pods, key=lambda pod: (-pod.size, -pod.cpu, -pod.memory, pod.models))
    return one_by_one(trace, pods, lambda machines, pod, fitting: int(fitting[0])), None


def assignment(trace: Trace, seconds: float) -> tuple[Where, float | None]:
    """x[shape, node] replicas in one CP-SAT model, two workers, stopped by the clock; and its bound in thousandths.

    Cards for shares are counted, not named: s[node] of them carry at most 1000 each together. Replicas whose shares then
    do not fit on cards are left out.
    """
    model = cp_model.CpModel()
    wishes = workloads(trace)
    names = [name for name, (shape, _) in wishes.items() if shape.gpus]
    x: dict[tuple[str, int], cp_model.IntVar] = {}
    by_node: list[list[str]] = [[] for _ in trace.nodes]
    for name in names:
        shape, count = wishes[name]
        for n, (_, machine) in enumerate(trace.nodes):
            if shape.models and machine.model not in shape.models:
                continue
            cards = machine.gpus // shape.gpus * (1000 // shape.milli)
            memory = machine.memory // shape.memory if shape.memory else count
            top = min(count, machine.cpu // shape.cpu if shape.cpu else count, memory, cards)
            if top:
                x[name, n] = model.new_int_var(0, top, "")
                by_node[n].append(name)
        model.add(sum(x[name, n] for n in range(len(trace.nodes)) if (name, n) in x) <= count)
    for n, (_, machine) in enumerate(trace.nodes):
        inside = [(x[name, n], wishes[name][0]) for name in by_node[n]]
        shared = model.new_int_var(0, machine.gpus, "")
        model.add(sum(var * shape.cpu for var, shape in inside) <= machine.cpu)
        model.add(sum(var * (shape.memory >> 20) for var, shape in inside) <= machine.memory >> 20)
        model.add(sum(var * shape.gpus for var, shape in inside if shape.milli == 1000) + shared <= machine.gpus)
        model.add(sum(var * shape.milli for var, shape in inside if shape.milli < 1000) <= 1000 * shared)
    model.maximize(sum(var * wishes[name][0].size for (name, _), var in x.items()))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 2
    solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(model)
    where: Where = []
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        machines = Machines(trace)
        for (name, n), var in sorted(x.items(), key=lambda pair: (pair[0][1], -wishes[pair[0][0]][0].milli)):
            pod = wishes[name][0]
            for _ in range(solver.value(var)):
                if (machines.cards[n] >= pod.milli).sum() >= pod.gpus:
                    where.append((name, trace.nodes[n][0], machines.take(pod, n)))
    proven = solver.best_objective_bound if status != cp_model.UNKNOWN else 0.0
    return where, min(proven, float(trace.capacity)) if proven > 0 else float(trace.capacity)
