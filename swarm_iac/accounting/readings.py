"""What does a node's answer say of its GPUs: who holds which, how busy are they, and which are free?

A node speaks for its own cards alone. An answer in which more is held than the stack file says it has counts as none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Literal

from swarm_iac.accounting.observation import WHOLE, FleetPass, HeldPart, Holder, NodePass
from swarm_iac.model.stack import Stack
from swarm_iac.observe import Measured

#: No name is longer than that where it is declared: what a node sends beyond is cut.
_LONGEST_NAME = 120
#: As many CPUs as no machine has, in thousandths.
_MOST_CPUS = 1 << 26
#: Nobody shares a card among more: a node cannot fill the store with names.
_MOST_HOLDERS = 100
_Card = tuple[int, str]
_Rest = Literal["free", "off", "unknown"]


def one_pass(
    stack: Stack,
    measured: Mapping[str, Measured],
    at: int,
    commit: str,
    occupied: Collection[str],
    asleep: Collection[str] = (),
) -> FleetPass:
    """What the nodes answered at one moment [s since 1970]. `occupied`: those that held something when they last answered.

    `asleep`: those that are powered off on purpose, which counts as out of service.
    """
    found = []
    for name, node in sorted(stack.nodes.items()):
        gpus = stack.hardware_of(name).gpus
        if not gpus.count:
            continue
        declared = NodePass(
            name,
            gpus.model or "(no model)",
            gpus.count,
            False,
            unknown=gpus.count * WHOLE,
            price=stack.prices.get(gpus.model or ""),
        )
        if name in asleep:
            found.append(_gone(declared, "powered off"))
            continue
        found.append(_of_node(declared, node.state, measured.get(name), occupied))
    return FleetPass(at, tuple(found), commit)


def _of_node(declared: NodePass, state: str, measured: Measured | None, occupied: Collection[str]) -> NodePass:
    if state == "lost":
        return _gone(declared, "lost")
    try:
        return _answered(declared, state, measured)
    except ValueError as error:
        if state == "drain" and declared.node not in occupied:  # most likely it was switched off for repair
            return _gone(declared, str(error))
        return replace(declared, reason=str(error))


def _gone(declared: NodePass, reason: str) -> NodePass:
    return replace(declared, unknown=0, off=declared.unknown, reason=reason)


def _answered(declared: NodePass, state: str, measured: Measured | None) -> NodePass:
    """Raises ValueError where the answer says nothing of the cards, or what cannot be."""
    if measured is None:
        raise ValueError("it was not asked")
    if measured.error:
        raise ValueError(measured.error)
    # Who holds what comes with the values of the cards: without them, nothing held would look like everything free.
    if not any(value == 1 for _, value in measured.of("swarm_exporter_collector_fresh", collector="gpus")):
        raise ValueError("its GPUs are not measured")
    held = _held(measured, declared.cards)
    taken = [0] * declared.cards
    for one in held:
        taken[one.gpu] += one.milli
    rest: dict[_Rest, int] = {"free": 0, "off": 0, "unknown": 0}
    up = {labels.get("gpu"): value for labels, value in measured.of("swarm_gpu_up")}
    for gpu, part in enumerate(taken):
        if part > WHOLE:
            raise ValueError(f"GPU {gpu} is held {part / WHOLE:g} times")
        rest[_free(up.get(str(gpu)), state)] += WHOLE - part
    return replace(declared, answered=True, free=rest["free"], off=rest["off"], unknown=rest["unknown"], held=held)


def _free(up: float | None, state: str) -> _Rest:
    """What the part of a card is that nobody holds. No new work comes to a node in any state but ready."""
    if state != "ready":
        return "off"
    if up is None:  # declared, and not seen
        return "unknown"
    return "free" if up == 1 else "off"


def _held(measured: Measured, cards: int) -> tuple[HeldPart, ...]:
    active = _ratios(measured, "swarm_gpu_busy_ratio", "swarm_gpu_sm_active_ratio")
    bandwidth = _ratios(measured, "swarm_gpu_memory_busy_ratio", "swarm_gpu_memory_bandwidth_ratio")
    cpus = _cpus(measured)
    parts: dict[tuple[_Card, Holder], int] = {}
    for labels, value in measured.of("swarm_gpu_allocated_ratio"):
        card = _card(labels)
        if card is None or card[0] >= cards or not 0 <= value <= 1:
            raise ValueError(f"it holds GPU {labels.get('gpu')}, and its hardware has {cards}")
        holder = Holder(*(labels.get(key, "")[:_LONGEST_NAME] for key in ("allocation", "workload", "user", "team")))
        parts[card, holder] = parts.get((card, holder), 0) + round(value * WHOLE)
    if len(parts) > _MOST_HOLDERS * cards:
        raise ValueError(f"more than {_MOST_HOLDERS} hold each of its GPUs")
    return tuple(
        HeldPart(*card, holder, milli, active.get(card), bandwidth.get(card), cpus.get(holder.allocation))
        for (card, holder), milli in parts.items()
        if milli
    )


def _ratios(measured: Measured, *families: str) -> dict[_Card, int]:
    """By card and instance, in thousandths; later families are better."""
    found: dict[_Card, int] = {}
    for family in families:
        for labels, value in measured.of(family):
            card = _card(labels)
            if card is not None and 0 <= value <= 1:
                found[card] = round(value * WHOLE)
    return found


def _cpus(measured: Measured) -> dict[str, int]:
    found: dict[str, float] = {}
    for labels, value in measured.grew("swarm_allocation_cpu_seconds_total"):
        if value >= 0:
            name = labels.get("allocation", "")[:_LONGEST_NAME]
            found[name] = found.get(name, 0) + value
    return {name: min(_MOST_CPUS, round(value * WHOLE)) for name, value in found.items()}


def _card(labels: Mapping[str, str]) -> _Card | None:
    gpu = labels.get("gpu", "")
    return (int(gpu), labels.get("mig", "")[:_LONGEST_NAME]) if gpu.isascii() and gpu.isdigit() and len(gpu) < 5 else None
