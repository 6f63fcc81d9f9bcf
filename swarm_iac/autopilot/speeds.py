"""How much does one replica do on each GPU model, as measured? What `speed:` of a workload with `needs` could say.

    speed(model) = median of the rate of one replica over the moments at which all its GPUs there were busy

A replica that has little to do says nothing of what it could do, so only busy moments count, and only if there are enough.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from swarm_iac.autopilot import reading
from swarm_iac.errors import SwarmError
from swarm_iac.model.service.needs import models_of, replicas_for
from swarm_iac.model.service.speed import PARTS, Rate
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import Workload

#: Between two moments. [s]
STEP = 300
#: So many moments have to be known: 2.5 h.
LEAST = 30
#: Of one answer. [bytes]
_MOST_BYTES = 64_000_000
#: Digits that a suggestion keeps.
_DIGITS = 3
#: Rates by moment [s since 1970] and allocation; how busy the GPUs were [0..1], by moment, allocation and hardware.
Rates = Mapping[tuple[str, int], float]
Busy = Mapping[tuple[str, int], Mapping[str, float]]
#: What a Prometheus answers to an expression over the window: labels, and values by moment.
Ask = Callable[[str], Iterable[tuple[Mapping[str, str], Mapping[int, float]]]]


@dataclass(frozen=True)
class BusyThresholds:
    """`busy`: all GPUs of a replica at least that [0..1]; `differs`: what is nearer to what is declared is not suggested."""

    busy: float = 0.8
    differs: float = 0.1


@dataclass(frozen=True)
class MeasuredSpeed:
    """Of one workload on one GPU model. `moments`: at which it was busy; `low`, `high`: 10 and 90 % of them were below.

    `suggested`: None where too little is known, or the difference is small. `replicas`: by `declared`, and by `suggested`.
    `shared`: it has parts of cards, so how busy a card is says nothing of it.
    """

    workload: str
    model: str
    declared: Rate
    moments: int
    measured: Rate | None = None
    low: Rate | None = None
    high: Rate | None = None
    suggested: Rate | None = None
    replicas: tuple[int, int] = (0, 0)
    shared: bool = False

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if self.shared:
            return "not measured: nothing tells which of those that share a card keeps it busy"
        if self.moments < LEAST:
            return f"too little is known: {self.moments} of {LEAST} busy moments"
        if self.measured is None:
            return "not measured: busy, and nothing was done"
        return "as declared" if self.suggested is None else "suggested"


def speeds(stack: Stack, ask: Ask, limits: BusyThresholds) -> tuple[MeasuredSpeed, ...]:
    """Each workload with `needs`, and each model that its `speed` names and the fleet has. Raises as `ask` does."""
    return tuple(
        one
        for name, workload in sorted(stack.workloads.items())
        if workload.needs and workload.speed
        for one in _of_workload(stack, name, workload, ask, limits)
    )


def _of_workload(stack: Stack, name: str, workload: Workload, ask: Ask, limits: BusyThresholds) -> Iterator[MeasuredSpeed]:
    assert workload.needs is not None
    if not workload.each.gpus.whole:
        for model, declared in sorted(models_of(stack, workload).items()):
            yield MeasuredSpeed(name, model, declared, 0, replicas=(replicas_for(workload.needs, declared),) * 2, shared=True)
        return
    labels = f'{{fleet="{stack.fleet}",workload="{name}"}}'
    rates: dict[tuple[str, int], float] = {}
    for series, values in ask(f"sum by (allocation) (swarm:work:rate{labels})"):
        rates |= {(series.get("allocation", ""), at): value for at, value in values.items()}
    busy: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    active = f"by (allocation, hardware) (swarm:holder_gpu_active:ratio{labels})"
    # Of a card that was not measured nobody knows whether it was busy.
    for series, values in ask(f"min {active} and count {active} == {workload.each.gpus.count}"):
        for at, value in values.items():
            busy[series.get("allocation", ""), at][series.get("hardware", "")] = value
    samples = while_busy(stack, rates, busy, limits.busy)
    for model, declared in sorted(models_of(stack, workload).items()):
        yield judged(name, workload, model, declared, samples.get(model, []), limits)


def while_busy(stack: Stack, rates: Rates, busy: Busy, least: float) -> dict[str, list[float]]:
    """By GPU model, the rates of moments at which the replica was on one kind of hardware, and busy there."""
    found: dict[str, list[float]] = defaultdict(list)
    for key, rate in rates.items():
        kinds = busy.get(key, {})
        hardware = stack.hardware.get(next(iter(kinds), "")) if len(kinds) == 1 else None
        if hardware is not None and hardware.gpus.model and next(iter(kinds.values())) >= least:
            found[hardware.gpus.model].append(rate)
    return found


def judged(
    name: str, workload: Workload, model: str, declared: Rate, samples: list[float], limits: BusyThresholds
) -> MeasuredSpeed:
    """What these rates [units/s] say of a model."""
    assert workload.needs is not None
    before = replicas_for(workload.needs, declared)
    if len(samples) < LEAST:
        return MeasuredSpeed(name, model, declared, len(samples), replicas=(before, before))
    tenths = statistics.quantiles(samples, n=10, method="inclusive")
    low, measured, high = (_rate(value, declared.unit) for value in (tenths[0], statistics.median(samples), tenths[-1]))
    if measured is None or abs(measured.amount - declared.amount) <= limits.differs * declared.amount:
        return MeasuredSpeed(name, model, declared, len(samples), measured, low, high, replicas=(before, before))
    after = replicas_for(workload.needs, measured)
    return MeasuredSpeed(name, model, declared, len(samples), measured, low, high, measured, (before, after))


def _rate(value: float, unit: str) -> Rate | None:
    """To a few digits; None for what no stack file may say."""
    if not value > 0:
        return None
    exact = Decimal(value)
    amount = int(round(exact, _DIGITS - 1 - exact.adjusted()) * PARTS)
    try:
        return Rate.parse(str(Rate(amount, unit)))
    except ValueError:
        return None


def of_prometheus(where: str, since: int, until: int, *, timeout: float = 30.0) -> Ask:
    """Asks for a window [s since 1970]. Raises SwarmError for an answer that is none, Retryable where there is none."""

    def ask(query: str) -> Iterator[tuple[Mapping[str, str], Mapping[int, float]]]:
        form = {"query": query, "start": str(since), "end": str(until), "step": str(STEP)}
        answer = reading.asked(where, "query_range", form, timeout, _MOST_BYTES)
        yield from _series(answer)

    return ask


def _series(answer: Any) -> Iterator[tuple[Mapping[str, str], Mapping[int, float]]]:
    data = answer.get("data") if isinstance(answer, dict) and answer.get("status") == "success" else None
    result = data.get("result") if isinstance(data, dict) and data.get("resultType") == "matrix" else None
    if not isinstance(result, list):
        raise SwarmError("Prometheus gives no series over that time", hint="is it the right address, and --since not too long?")
    for one in result:
        labels, values = (one.get("metric"), one.get("values")) if isinstance(one, dict) else (None, None)
        if isinstance(labels, dict) and isinstance(values, list):
            yield {str(key): str(value) for key, value in labels.items()}, dict(_points(values))


def _points(values: list[Any]) -> Iterator[tuple[int, float]]:
    """What is no measurement is left out."""
    for one in values:
        if isinstance(one, list) and len(one) == 2 and isinstance(one[0], (int, float)) and math.isfinite(one[0]):
            try:
                found = reading.reading(float(one[1])) if isinstance(one[1], str) else None
            except ValueError:
                found = None
            if found is not None and found.value is not None:
                yield int(one[0]), found.value
