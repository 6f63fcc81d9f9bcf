"""How is the answer of `swarm why` shown?"""

from __future__ import annotations

import datetime
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from swarm_iac.cli.decisions import start_times
from swarm_iac.cli.decisions.deciding import kept_of
from swarm_iac.cli.decisions.in_variants import InVariants
from swarm_iac.cli.terminal.progress import Following
from swarm_iac.decision import Decision
from swarm_iac.errors import Place, SwarmError
from swarm_iac.model import power
from swarm_iac.model.edit import Edit, as_yaml, current
from swarm_iac.model.placement import Allocation, Lighter, Reason
from swarm_iac.model.resources.table import ceilings
from swarm_iac.model.service import variants
from swarm_iac.model.service.needs import reached
from swarm_iac.model.service.speed import Rate
from swarm_iac.model.workload import Workload
from swarm_iac.plan.state.desired import handover
from swarm_iac.plan.step_graph.actions import SERVES
from swarm_iac.pluralize import pluralize
from swarm_iac.solver import Explanation, Fix, Move, why
from swarm_iac.solver.advice.earliest import Start
from swarm_iac.solver.advice.fixes import first_of_each_kind
from swarm_iac.solver.decide.declared import of_change
from swarm_iac.solver.explain.move_causes import moved_for
from swarm_iac.stackfile import Source
from swarm_iac.stackfile.reading.messages import nearest

#: Of what runs in a lighter variant, the reasons that the question about its first one does not find.
SAID = ("lighter_places_more", "restarts_only_anyway")
#: Reasons of one kind that are shown to people.
SHOWN = 20
_KINDS = {
    "limit": "a limit", "node": "a node", "move": "moves", "request": "a request", "together": "several together",
}  # fmt: skip


def explain(decision: Decision, workload: str, today: datetime.date, progress: Following) -> tuple[Decision, Explanation]:
    """The whole answer about one workload; once its reasons are known, Ctrl-C ends it with those and the changes so far.

    Raises SwarmError for an unknown one.
    """
    stem, _, index = workload.rpartition("-")
    if workload not in decision.stack.workloads and index.isdecimal() and stem in decision.stack.workloads:
        workload = stem  # the replicas of a workload share their reasons
    if workload not in decision.stack.workloads:
        near = nearest(workload, {*decision.stack.workloads, *decision.stack.nodes})
        file = decision.source.place("").file
        raise SwarmError(f"{file} has no workload and no node {workload}", hint=near.replace("'", "") or "see: swarm ps")
    stack, placement = start_times.asked(decision, workload)
    taken = variants.choice(decision.written, placement)
    watch = progress.asks(f"finding the reasons for {workload}")

    def tell(text: str) -> None:
        progress.phase(f"trying {text}")

    chosen = InVariants(decision, workload, today, watch)

    def as_it_runs(answer: Explanation) -> Explanation:
        answer = _written(answer, decision, taken)
        answer = answer.model_copy(update={"fixes": tuple(chosen.told(answer.fixes))})
        if placement is decision.placement:
            return answer
        for light in (one for one in decision.placement.lighter if one.workload == workload):
            whole = tuple(reason for reason in light.reasons if reason.rule not in SAID)
            unknown = all(reason.rule == "effort" for reason in answer.reasons)
            reasons = whole if unknown else tuple(map(of_change, answer.reasons))
            fixes = tuple(filter(chosen.preferred, answer.fixes))
            answer = answer.model_copy(update={"reasons": reasons, "fixes": fixes})
        answer = answer.model_copy(update={"fixes": tuple(first_of_each_kind(answer.fixes))})
        # A workload that waits to grow is solved without its slot, and has not left it.
        moved = moved_for(decision.stack, decision.placement, workload, decision.last, today)
        return answer.model_copy(update={"moved": moved})

    def so_far(answer: Explanation) -> None:
        progress.found((decision, as_it_runs(answer)))

    # Some replicas of what grows or changes its variant may fit: then only that all do not is a reason.
    grows = any(one.workload == workload for one in decision.placement.growing)
    every = sum(one.workload == workload for one in decision.placement.going()) if grows else stack.workloads[workload].members
    together = 0 if placement is decision.placement else every
    answer = why(
        stack, placement, workload,
        last=decision.last, today=today, tell=tell, so_far=so_far, watch=watch, together=together,
    )  # fmt: skip
    return decision, as_it_runs(answer)


def _written(answer: Explanation, decision: Decision, taken: Mapping[str, str]) -> Explanation:
    """With each path where the file has its value, in a variant or for all of them."""
    if not taken:
        return answer

    def at(path: str) -> str:
        return variants.written_path(decision.written, taken, path)

    works = decision.written.workloads

    def one_edit(one: Edit) -> Edit:
        return _needing(works, taken, one) or one.model_copy(update={"path": at(one.path)})

    def edited(fix: Fix) -> Fix:
        edits = tuple(map(one_edit, fix.edits))
        was = (
            old if one.path == new.path else current(decision.written, new.path)
            for one, new, old in zip(fix.edits, edits, fix.was, strict=True)
        )
        return fix.model_copy(update={"edits": edits, "was": tuple(was)})

    def found(reasons: tuple[Reason, ...]) -> tuple[Reason, ...]:
        return tuple(one.model_copy(update={"path": at(one.path)}) for one in reasons)

    update = {name: found(getattr(answer, name)) for name in ("fits", "moved", "reasons")}
    return answer.model_copy(update={**update, "fixes": tuple(map(edited, answer.fixes))})


def _needing(works: Mapping[str, Workload], taken: Mapping[str, str], edit: Edit) -> Edit | None:
    """Fewer replicas of a workload with `needs`, as what that many do; None for another edit."""
    for name, form in taken.items():
        one = works[name]
        if not one.needs or edit.path != f"workloads.{name}.replicas" or not isinstance(edit.value, int):
            continue
        speed = min(one.speed[model].amount for model in (one.variants[form].each.gpus.model or "").split("|"))
        return Edit(path=f"workloads.{name}.needs", value=str(Rate(speed * edit.value, one.needs.unit)) if edit.value else None)
    return None


def pending(decision: Decision, workload: str, *, offline: bool) -> tuple[Start | None, str]:
    """When a pending workload could start, and in words; see `start_times.of`."""
    return start_times.of(decision, workload, offline=offline)


def as_json(answer: Explanation, decision: Decision, start: tuple[Start | None, str] = (None, "")) -> dict[str, Any]:
    """The answer as JSON; every reason and edit with its place. `start`: when it could start, and in words."""
    light = next((one for one in decision.placement.lighter if one.workload == answer.workload), None)
    return {
        "start": start[0].model_dump(mode="json", exclude={"workload"}) | {"text": start[1]} if start[0] else None,
        **({"lighter": light.model_dump(mode="json", exclude={"workload"})} if light else {}),
        **answer.model_dump(mode="json", exclude={"fits", "moved", "reasons", "fixes"}),
        **(
            {"live": sorted(one.allocation.name for one in decision.layer.of(answer.workload))} if decision.layer.grants else {}
        ),
        "where": {one.name: one.node for one in decision.placement.going() if one.workload == answer.workload},
        "finished": {one.name: one.node for one in decision.placement.allocations if _ended_of(one, answer)},
        **{
            name: [{**one.model_dump(), "place": place(decision.source, one.path)} for one in getattr(answer, name)]
            for name in ("fits", "moved", "reasons")
        },
        "fixes": [
            {
                **fix.model_dump(mode="json", exclude={"edits", "was"}),
                "edits": [
                    {"edit": str(edit), "was": was, "place": place(decision.source, edit.path)}
                    for edit, was in zip(fix.edits, fix.was, strict=True)
                ],
            }
            for fix in answer.fixes
        ],
    }


def _ended_of(one: Allocation, answer: Explanation) -> bool:
    return one.ended and one.workload == answer.workload


def place(source: Source, path: str) -> str:
    """FILE:LINE of a path of the stack file, or of the default limits."""
    found = source.place(path)
    return str(Place(found.file, found.line))


def _range(name: str, decision: Decision) -> Iterator[str]:
    """How many replicas are guaranteed, and what the number of the others follows."""
    one = decision.stack.workloads[name]
    if one.scales:
        count, live = one.replicas, len(decision.layer.of(name))
        least = pluralize(count.least, "replica is", "replicas are")
        yield f"range: {least} guaranteed, up to {count.most} follow {one.scale}; {live} live now"


def lines(answer: Explanation, decision: Decision, options: str, start: str = "") -> Iterator[str]:
    """The answer as text. `options`: options that name the same stack; `start`: when it could start."""
    source = decision.source
    growing = next((one for one in decision.placement.growing if one.workload == answer.workload), None)
    lighter = next((one for one in decision.placement.lighter if one.workload == answer.workload), None)
    if lighter and not growing:
        yield from _lighter(lighter, decision)
    elif growing:
        yield f"{answer.workload}: runs with {growing.keeps} until there is capacity for {growing.wants}"
    else:
        done = [one for one in decision.placement.allocations if one.workload == answer.workload and one.ended]
        finished = f", {len(done)} finished" if done else ""
        yield f"{answer.workload}: {answer.placed} placed, {answer.missing} not placed{finished}"
        if done:
            yield "\nFinished, and not run again"
            yield from _finished(done, decision)
    yield from _needs(answer.workload, decision)
    yield from _ceilings(answer.workload, decision)
    yield from _range(answer.workload, decision)
    if answer.fits:
        yield "\nWhere it is placed"
        yield from _reasons(answer.fits, source)
        yield from _slower(answer.workload, decision)
    if answer.moved:
        yield "\nWhat moved or stopped, and why"
        yield from _reasons(answer.moved, source)
    if answer.runner_up:
        yield "\nRunner-up"
        yield f"  {_second(answer)}"
    elif answer.cut and not answer.missing:
        yield "\nInterrupted before a runner-up was found."
    if answer.reasons:
        why = "cannot grow" if growing else f"does not run in {lighter.instead_of[0]}" if lighter else "is pending"
        yield f"\nWhy it {why} (the smallest set of rules and facts that excludes it)"
        yield from _reasons(answer.reasons, source)
        if start:
            yield f"\nWhen it could {start_times.verb_of(decision, answer.workload)}, if nothing new arrives"
            yield f"  {start}"
            yield f"  {start_times.GIVES}"
        yield from _fixes(answer, decision, options)


def _lighter(one: Lighter, decision: Decision) -> Iterator[str]:
    """In which variant it runs, and who would have no place without that."""
    ones = [each for each in decision.placement.going() if each.workload == one.workload]
    missing = sum(len(each.missing) for each in decision.placement.unplaced if each.workload == one.workload)
    pending = f", {missing} not placed" if missing else ""
    yield (
        f"{one.workload}: runs in variant {one.variant} ({len(ones)} placed{pending}) until there is capacity for "
        f"{one.instead_of[0]}"
    )
    for reason in one.reasons:
        if reason.rule in SAID:
            yield f"  {reason.text}"
            yield f"    {place(decision.source, reason.path)}  {reason.path}  ({reason.rule})"


def _needs(name: str, decision: Decision) -> Iterator[str]:
    """How much of what it needs is done, and on what."""
    one, stack = decision.written.workloads[name], decision.stack
    if one.needs is None:
        return
    ones = [each for each in decision.placement.going() if each.workload == name and each.node in stack.nodes]
    models = Counter(stack.hardware_of(each.node).gpus.model or "" for each in ones)
    done = Rate(reached(stack, name, decision.placement, one.speed), one.needs.unit)
    how = ", ".join(
        f"{count} on {model} at {one.speed.get(model, 'no known speed')}" for model, count in sorted(models.items())
    )
    yield f"  does {done} of the {one.needs} that it needs{f': {how}' if how else ''}"


def _ceilings(workload: str, decision: Decision) -> Iterator[str]:
    """Of a range both ends, as its replicas have them: the one with the most comes first, and is enough."""
    request = decision.stack.workloads[workload]
    ones = [ceilings(one, request) for one in decision.placement.going() if one.workload == workload]
    if most := max(ones, key=len, default={}):
        yield f"  each has {' and '.join(most.values())}: the lower end is guaranteed, more is lent while others leave it idle"


def _slower(workload: str, decision: Decision) -> Iterator[str]:
    """Where its GPUs have less power than their tuning would give them, and what that costs as far as it is declared."""
    stack, caps = decision.stack, power.caps(decision.stack, decision.placement)
    if stack.workloads[workload].each.gpu_power is not None:
        return
    for node in sorted({one.node for one in decision.placement.going() if one.workload == workload and one.gpus}):
        own = stack.tuning_of(node).gpu_power if node in stack.nodes else None
        if own is not None and node in caps and caps[node] < own.most:
            lost = power.loss(stack, node, caps[node])
            slower = f", {float(lost):.1f}% slower" if lost else ""
            whose = f"rack {stack.nodes[node].rack}"
            if power.by_node(stack, decision.placement, node):
                whose = f"{node} (hardware.{stack.nodes[node].hardware}.power)"
            yield f"  on {node} its GPUs may draw {caps[node]} of {own.most}{slower}: the power of {whose}"


def _finished(done: list[Allocation], decision: Decision) -> Iterator[str]:
    for one in done[:SHOWN]:
        yield f"  {one.name}: ended on {one.node}, {kept_of(one)}; its GPUs, CPUs, memory and bandwidth are free"
    if len(done) > SHOWN:
        yield f"  and {len(done) - SHOWN} more; --json has all"
    at = f"workloads.{done[0].workload}"
    yield f"    {place(decision.source, at)}  {at}  another command or environment makes it a new job"


def _reasons(reasons: tuple[Reason, ...], source: Source) -> Iterator[str]:
    for reason in reasons[:SHOWN]:
        yield f"  {reason.text}"
        yield f"    {place(source, reason.path)}  {reason.path}  ({reason.rule})"
    if len(reasons) > SHOWN:
        yield f"  and {len(reasons) - SHOWN} more; --json has all"


def _second(answer: Explanation) -> str:
    runner_up = answer.runner_up
    if runner_up is None:
        return ""
    if not runner_up.nodes:
        return f"without {runner_up.avoids} it would be pending"
    where = ", ".join(runner_up.nodes)
    price = "; ".join(runner_up.price) if runner_up.price else "none: a tie, decided by the fuller node, then by name"
    return f"without {runner_up.avoids}: on {where}; cost: {price}"


def _fixes(answer: Explanation, decision: Decision, options: str) -> Iterator[str]:
    source, fixes, most = decision.source, answer.fixes, decision.stack.solve.stops
    if not fixes:
        none = "Interrupted before one was found" if answer.cut else "none of up to three values"
        yield f"\nWhat would place it\n  {none}"
        return
    yield "\nWhat would place it (each tested by solving, cheapest first)"
    kind = ""
    for fix in fixes:
        if fix.kind != kind:
            kind = fix.kind
            yield f"  {_KINDS[kind]}"
        yield f"    swarm what-if {' '.join(shlex.quote(str(edit)) for edit in fix.edits)}{options}"
        for edit, was in zip(fix.edits, fix.was, strict=True):
            yield f"      {place(source, edit.path)}  {edit.path}: {was or 'nothing'} → {as_yaml(edit.value) or 'nothing'}"
        yield from _price(fix, decision)
        if (count := missed(fix, decision)) > most:
            stops = pluralize(count, "running allocation")
            also = " (what moves or restarts counts, too)" if count > len(fix.stops) else ""
            yield f"      stops {stops}, and solve.stops is {most}: swarm up --allow-stop {count}{also}"
    if answer.cut:
        yield "\nInterrupted: other changes may place it as well."


def _price(fix: Fix, decision: Decision) -> Iterator[str]:
    """Its effect on what runs; separately, what would happen without it as well, since it is not applied yet."""
    then = decision.placement.by_name()
    moves = [(_move(one), one.name in then and then[one.name].node == one.target) for one in fix.moves]
    before = decision.last.by_name()
    restarts = [(name, name in then and then[name].gpus != before[name].gpus) for name in fix.restarts if name in before]
    stops = [(name, name not in then) for name in fix.stops]
    for verb, each in (("moves", moves), ("restarts", restarts), ("stops", stops)):
        for anyway in (False, True):
            if texts := [one for one, too in each if too is anyway]:
                yield f"      {verb} {', '.join(texts)}{' (also without the edit)' if anyway else ''}"
    if fix.displaced:
        yield f"      leaves {', '.join(fix.displaced)} pending"
    if fix.dropped:
        yield f"      drops {', '.join(fix.dropped)}"


def missed(fix: Fix, decision: Decision) -> int:
    """How many `swarm up` would stop, as its guard counts them (plan.guards): a service is healthy in its new slot first.

    A gang stops as a whole, and nothing is stopped on a lost machine.
    """
    works, nodes = decision.stack.workloads, decision.stack.nodes
    goes = {one.name for one in fix.moves if one.source in nodes and nodes[one.source].state != "lost"} | {*fix.restarts}
    ways = {name: works[name.rpartition("-")[0]] for name in goes}
    gangs = {name.rpartition("-")[0] for name, one in ways.items() if one.gang is not None}
    members = {one.name for one in decision.last.going() if one.workload in gangs}
    counted = {name for name, one in ways.items() if handover(one) not in SERVES}
    return len(counted | members | {*fix.stops})


def _move(move: Move) -> str:
    where = f"to another GPU on {move.source}" if move.source == move.target else f"{move.source} → {move.target}"
    return f"{move.name} ({where})"
