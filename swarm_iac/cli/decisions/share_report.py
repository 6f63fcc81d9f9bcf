"""What is each team due of the GPUs, line by line as it can be checked with a pencil, and what does it hold?"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from swarm_iac.decision import Decision
from swarm_iac.model.device import WHOLE
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import PRIORITIES
from swarm_iac.pluralize import pluralize
from swarm_iac.solver.explain.places.possible import possible
from swarm_iac.solver.shares.dominant import Dominant
from swarm_iac.solver.shares.entitled import Division, Worked, entitled, share_of, used_by
from swarm_iac.solver.shares.filling import Claim, Round
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.layout import MACHINE
from swarm_iac.solver.snapshot.tasks import Pairs
from swarm_iac.solver.snapshot.value import held_by_teams, size
from swarm_iac.units import GpuCount

#: So many sizes of replicas are shown, and so many workloads of each.
SHOWN, NAMED = 12, 3
_NAMES = {number: name for name, number in PRIORITIES.items()}


@dataclass(frozen=True)
class Report:
    """How it was worked out, and what each team holds, by priority, of it and those above; in thousandths of GPUs."""

    stack: Stack
    worked: Worked
    held: dict[int, dict[str, int]]
    sizes: dict[str, int]  # thousandths of GPUs that a replica of each workload holds

    @property
    def one(self) -> int:
        """So many of the amounts are one thousandth of a GPU; more than 1 where the stack has `worth`."""
        return self.worked.entitlements.weights.one

    def by_gpus(self, workload: str) -> bool:
        """Does a replica count by its GPUs, wherever it is?"""
        weights = self.worked.entitlements.weights
        return self.sizes[workload] * weights.lowest(weights.nodes) >= self.worked.dominant[workload].counts

    def number(self, amount: int | Fraction) -> str:
        """GPUs, as they count: `13`, `13 1/5`, `0.25`; by dominant resource in thousandths."""
        if self.worked.dominant:
            return str(GpuCount(round(Fraction(amount) / self.one)))
        gpus = Fraction(amount) / self.one / WHOLE
        whole, rest = divmod(gpus, 1)
        if not rest:
            return str(whole)
        if isinstance(amount, int) and gpus < 1:
            return f"{float(gpus):g}"
        return f"{whole} {rest}" if whole else str(rest)


def report(decision: Decision, today: datetime.date) -> Report:
    """From the stack and what is decided, whatever runs by now."""
    snapshot = snapshot_of(decision.stack, decision.placement, today)
    worked = entitled(snapshot, possible(snapshot))
    known = (one for one in decision.placement.going() if one.workload in snapshot.requests)
    counts: Pairs = Pairs((one.workload, one.node) for one in known)
    held = held_by_teams(replace(snapshot, shares=worked.entitlements), counts)
    sizes = {name: size(request) for name, request in snapshot.requests.items()}
    return Report(decision.stack, worked, {priority: dict(teams) for priority, teams in held.items()}, sizes)


def lines(found: Report) -> Iterator[str]:
    """The arithmetic: what there is, then one paragraph each time that GPUs are dealt out."""
    yield f"GPUs: {_pool(found, found.worked.models)}"
    if found.worked.entitlements.weights.nodes:
        yield f"as they count: {_worth(found)}"
    yield from _dominant(found)
    for step in found.worked.steps:
        if step.filled.claims:
            yield ""
            yield from _step(found, step)


def _dominant(found: Report) -> Iterator[str]:
    """`prep: 8 vCPUs of 64 count 2 GPUs`, of those that count by anything but GPUs; those that count most first."""
    if not found.worked.dominant:
        return
    yield "by dominant resource: a replica counts as many GPUs as the largest part of the fleet that it takes, of any resource"
    same: dict[Dominant, list[str]] = {}
    for name, one in found.worked.dominant.items():
        if not found.by_gpus(name):
            same.setdefault(one, []).append(name)
    order = sorted(same, key=lambda one: (-one.counts, same[one]))
    for one in order[:SHOWN]:
        noun, names = MACHINE[one.resource].of_machines, same[one]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        part = f"{noun.text(one.takes)} of {noun.amount(one.of)}"
        yield f"  {', '.join(names[:NAMED])}{more}: {part} count {_gpus(found, one.counts)}"
    if len(order) > SHOWN:
        yield f"  and {pluralize(len(order) - SHOWN, 'other size')}"


def _step(found: Report, step: Division) -> Iterator[str]:
    level = _NAMES[step.priority]
    above = "" if step.priority == max(PRIORITIES.values()) else " and above"
    whose = f"teams inside {step.around}, {_gpus(found, step.total or 0)}" if step.around else "all teams"
    what = "guaranteed GPUs first" if step.kind == "guarantee" else "by share"
    yield f"priority {level}{above}, {whose}: {what}"
    for one in (one for one in step.filled.claims if one.share):
        floor = f", has {found.number(one.floor)} already" if one.floor else ""
        weight = f"guarantee {found.number(one.share)}" if step.kind == "guarantee" else _share(found, step, one)
        yield f"  {one.team}: {weight}, asks for {_asks(found, one.wants, _allowed(found, step.priority, one.team))}{floor}"
    for each in step.filled.rounds:
        yield f"  {_round(found, step, each)}"
    together = sum(step.filled.due.values())
    if found.worked.dominant:
        if step.kind == "share" and step.total and found.number(together) != found.number(step.total):
            yield f"  together {found.number(together)}, the most by these shares: {step.around} is due no more"
    elif any(value != step.filled.due[team] for team, value in step.filled.exact.items()):
        due = ", ".join(f"{team} {found.number(most)}" for team, most in step.filled.due.items())
        step_of = WHOLE * found.worked.entitlements.weights.step
        whole = "whole GPUs" if step_of == WHOLE * found.one else f"steps of {found.number(step_of)}"
        yield f"  in {whole}, the rest to the largest remainders, then by name: {due}"


def _share(found: Report, step: Division, one: Claim) -> str:
    """`share 3 counts 1.5: it used 40 of 80 GPU-hours`"""
    if found.stack.past_use is None:
        return f"share {one.share}"
    used = {claim.team: used_by(found.stack, claim.team) for claim in step.filled.claims}
    share = share_of(found.stack, one.team)
    if not any(used.values()):
        return f"share {share} counts {GpuCount(one.share)}: `past_use` records no GPU-hours of these teams"
    return f"share {share} counts {GpuCount(one.share)}, since it used {used[one.team]} of {sum(used.values())} GPU-hours"


def _round(found: Report, step: Division, each: Round) -> str:
    claims = {one.team: one for one in step.filled.claims if one.share}
    teams = [team for team in each.teams if team in claims]
    parts = " + ".join(_part(found, step, claims[team], each.height) for team in teams)
    total = f" = {found.number(sum(step.filled.exact[team] for team in teams))}" if len(teams) > 1 else ""
    if each.height is None:
        return f"as much as each can have: {parts}{total}"
    unit = WHOLE * found.one if step.kind == "guarantee" else WHOLE if found.stack.past_use else 1
    per = found.number(each.height * unit)
    of = "of each guaranteed GPU" if step.kind == "guarantee" else "for each share"
    theirs = " for them" if found.worked.dominant else ""  # other nodes may have more of it
    where = f", which is all there is{theirs} of {_held_back(found, each.pools)}" if each.pools else ""
    return f"{per} {of}: {parts}{total}{where}"


def _part(found: Report, step: Division, one: Claim, height: Fraction | None) -> str:
    """What a team gets, and why that is not its height times its share."""
    why, exact = "", step.filled.exact[one.team]
    off = Fraction(1) if found.worked.dominant else Fraction(0)  # a linear program knows it in thousandths
    if height is None or exact < height * one.share - off:
        most = _allowed(found, step.priority, one.team)
        rest = "all that limits allow it" if exact >= most else "all that there is for it"
        why = f" ({'all that it asks for' if exact >= one.wants else rest})"
    elif exact > height * one.share + off:
        why = " (has that already)"
    return f"{one.team} {found.number(exact)}{why}"


def _allowed(found: Report, priority: int, team: str) -> int:
    return found.worked.allowed[priority].get(team, 0)


def _asks(found: Report, wants: int, most: int) -> str:
    """`16`, or `16 (limits allow 14)`: what is due is never more."""
    return f"{found.number(wants)} (limits allow {found.number(most)})" if most < wants else found.number(wants)


def _held_back(found: Report, pools: Iterable[str]) -> str:
    """`8 x H100`; by dominant resource `GPUs and memory`."""
    if not found.worked.dominant:
        return _pool(found, pools)
    places = sorted({int(one.partition(" ")[0]) for one in pools})
    return " and ".join(MACHINE[place].noun for place in places)


def _pool(found: Report, pools: Iterable[str]) -> str:
    count: dict[str, int] = {}
    for pool in pools:
        for model, gpus in found.worked.models[pool].items():
            count[model] = count.get(model, 0) + gpus
    parts = [f"{gpus} x {model}" for model, gpus in sorted(count.items())]
    return " + ".join(parts) or "none"


def _worth(found: Report) -> str:
    """`16 x H100 at 2 + 8 x L40S at 1 = 40`."""
    count: dict[str, int] = {}
    for models in found.worked.models.values():
        for model, gpus in models.items():
            count[model] = count.get(model, 0) + gpus
    worth = {model: int(found.stack.worth.get(model, WHOLE)) for model in count}
    parts = [f"{gpus} x {model} at {GpuCount(worth[model])}" for model, gpus in sorted(count.items())]
    return f"{' + '.join(parts)} = {GpuCount(sum(gpus * worth[model] for model, gpus in count.items()))}"


HEADS = ("team", "share", "guarantee", "asks for", "is due", "holds", "lent to it", "owed to it")


def cells(found: Report) -> Iterator[tuple[str, ...]]:
    """One row for each team, one inside the other, over all priorities."""
    for row in rows(found):
        depth = row["depth"]
        share, asks = str(row["share"]), _asks(found, row["asks"], row["allowed"]) if row["asks"] else "-"
        due, holds, lent, owed = (found.number(row[key]) if row[key] else "-" for key in ("due", "holds", "lent", "owed"))
        guarantee = found.number(row["guarantee"]) if row["guarantee"] else "-"
        yield ("  " * depth + row["team"], share, guarantee, asks, due, holds, lent, owed)


def rows(found: Report) -> list[dict[str, Any]]:
    """The same as data; amounts in thousandths of GPUs (times `Report.one`).

    `allowed`: what limits let it have of what it asks for; `lent`: beyond what is due; `owed`: asked for and due, and not held.
    """
    lowest = min(found.worked.entitlements.due, default=0)
    due, held = found.worked.entitlements.due.get(lowest, {}), found.held.get(lowest, {})
    wants, within = found.worked.wants.get(lowest, {}), found.worked.allowed.get(lowest, {})
    seen, told = dict[str, int](), list[dict[str, Any]]()
    for line in sorted(found.worked.entitlements.lines.values()):
        for depth, team in enumerate(line):
            seen.setdefault(team, depth)
    for team, depth in seen.items():
        row = {"team": team, "depth": depth, "share": share_of(found.stack, team)}
        row |= {"guarantee": found.worked.entitlements.guarantees.get(team, 0), "asks": wants.get(team, 0)}
        row["allowed"] = within.get(team, 0)
        has, most = held.get(team, 0), due.get(team, 0)
        told.append(row | {"due": most, "holds": has, "lent": max(0, has - most), "owed": max(0, most - has)})
    return told


def as_json(found: Report) -> dict[str, Any]:
    """All of it: amounts in thousandths of GPUs, exact ones as fractions of them.

    With `worth` in the stack, amounts are divided by `one` for that, and each GPU counts what its model is worth. With
    `past_use` weights by share are in thousandths (`weights_in`).
    """
    worth = {model: int(found.stack.worth.get(model, WHOLE)) for model in _models(found)}
    past = {"weights_in": WHOLE, "used": dict(found.stack.past_use.gpu_hours)} if found.stack.past_use else {}
    return (
        past
        | ({"worth": worth, "one": found.one} if found.worked.entitlements.weights.nodes else {})
        | ({"dominant": _dominants(found)} if found.worked.dominant else {})
        | {
            "gpus": {model: sum(pool[model] for pool in found.worked.models.values()) for model in _models(found)},
            "teams": rows(found),
            "steps": [
                {
                    "priority": _NAMES[step.priority],
                    "inside": step.around or None,
                    "total": step.total,
                    "by": step.kind,
                    "claims": [
                        {"team": one.team, "weight": one.share, "has": one.floor, "asks": one.wants}
                        for one in step.filled.claims
                    ],
                    "rounds": [
                        {
                            "height": None if each.height is None else str(each.height),
                            "teams": list(each.teams),
                            "together": each.most,
                        }
                        for each in step.filled.rounds
                    ],
                    "exact": {team: str(value) for team, value in step.filled.exact.items()},
                    "due": step.filled.due,
                }
                for step in found.worked.steps
                if step.filled.claims
            ],
        }
    )


def _dominants(found: Report) -> dict[str, Any]:
    """By workload what a replica counts, of which resource, how much of that it takes, and how much the fleet has."""
    return {
        name: {"resource": MACHINE[one.resource].name, "takes": one.takes, "of": one.of, "counts": one.counts}
        for name, one in found.worked.dominant.items()
        if not found.by_gpus(name)
    }


def _models(found: Report) -> list[str]:
    return sorted({model for pool in found.worked.models.values() for model in pool})


def _gpus(found: Report, amount: int) -> str:
    return f"{found.number(amount)} GPU{'' if amount == WHOLE * found.one else 's'}"
