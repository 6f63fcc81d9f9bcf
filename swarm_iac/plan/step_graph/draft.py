"""Which steps does one node need, and what do they wait for on that node?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from swarm_iac.model.state import AllocationState, GpuState, NodeState
from swarm_iac.model.step import Change, Step, Verb
from swarm_iac.plan.state.diff import diff, ended, within
from swarm_iac.plan.state.lending import MEMORY
from swarm_iac.plan.step_graph.actions import Action, Machine
from swarm_iac.plan.step_graph.hand_over_order import kept

#: What counts as well.
WELL = ("healthy", "done", "")
#: Ends the id of a step that lowers power limits before others rise.
LOWER = "lower"


@dataclass
class Draft:
    """A step whose waits are still being found."""

    node: str
    verb: Verb
    allocation: str = ""
    changes: tuple[Change, ...] = ()
    want: dict[str, Any] = field(default_factory=dict)
    why: str = ""
    tail: str = ""
    after: set[str] = field(default_factory=set)
    rollout: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """See model.step.Step."""
        return "/".join(filter(None, (self.node, self.verb.value, self.allocation, self.tail)))

    def step(self) -> Step:
        """The step, as it is now."""
        return Step(
            id=self.id, node=self.node, verb=self.verb, allocation=self.allocation, changes=self.changes, want=self.want,
            after=tuple(sorted(self.after)), why=self.why, rollout=self.rollout,
        )  # fmt: skip


def keeping_the_rest(draft: Draft) -> Draft:
    """The same step of an allocation that is to stay as its node recorded it but for these changes of its slice.

    What was found may have been changed by hand, and the node would record that as its own: as its GPUs every card there.
    """
    state = draft.want["allocations"][draft.allocation]
    keys = {
        change.path.rpartition(".")[2]
        for change in draft.changes
        if change.path.startswith(f"{within(draft.allocation)}.slice.")
    }
    if keys & MEMORY:  # they hold each other's bounds
        keys |= MEMORY
    # What it is no longer to have of those that are left out where there is none.
    gone = dict.fromkeys({change.path.rpartition(".")[2] for change in draft.changes} & MEMORY - state["slice"].keys())
    less = {"workload": state["workload"], "slice": gone | {key: value for key, value in state["slice"].items() if key in keys}}
    return replace(draft, want={**draft.want, "allocations": {draft.allocation: less}})


def drafts(machine: Machine, agent: str) -> dict[str, Draft]:
    """Steps of one node by id, each after what it needs on that node. `agent`: the wanted digest, "" for any."""
    if not machine.managed:
        return _restore(machine)
    found = {draft.id: draft for draft in [*_node(machine), *_gpus(machine)]}
    for name, action in machine.actions.items():
        found |= {draft.id: draft for draft in _allocation(machine, name, action)}
    _order(machine, found)
    return _prepare(machine, agent, found)


def _restore(machine: Machine) -> dict[str, Draft]:
    """Everything is released, then the originals are put back. Nothing for a node that was never ours."""
    if machine.seen.ledger is None and not diff(NodeState(), machine.old):
        return {}
    found: dict[str, Draft] = {}
    for name, action in machine.actions.items():
        found |= {draft.id: draft for draft in _allocation(machine, name, action)}
    _order(machine, found)
    bare = machine.old.model_copy(update={"allocations": {}})
    last = Draft(machine.name, Verb.RESTORE, changes=diff(bare, None), why="restored", after=set(found))
    return {**found, last.id: last}


def _prepare(machine: Machine, agent: str, found: dict[str, Draft]) -> dict[str, Draft]:
    seen = machine.seen
    if seen.ledger is not None and (not agent or seen.agent == agent):
        return found
    why = "not managed yet" if seen.ledger is None else "another version of the node's program"
    changes = (Change(path="agent", old=seen.agent or None, new=agent),) if agent and agent != seen.agent else ()
    first = Draft(machine.name, Verb.PREPARE, changes=changes, why=why)
    for draft in found.values():
        draft.after.add(first.id)
    return {first.id: first, **found}


def _node(machine: Machine) -> Iterator[Draft]:
    """Settings, disk and interface of the node itself."""
    old, new = machine.old, machine.new
    settings = diff(old.settings, new.settings, "settings")
    if settings:
        want = {"settings": new.settings.model_dump(mode="json", exclude_none=True)}
        yield Draft(machine.name, Verb.SETTINGS, changes=settings, want=want)
    bare = {"allocations": {}, "gpus": {}, "settings": type(new.settings)()}
    changes = diff(old.model_copy(update=bare), new.model_copy(update=bare))
    disk = tuple(change for change in changes if change.path == "disk")
    if disk:
        yield Draft(machine.name, Verb.STORAGE, changes=disk, want={"disk": new.disk})
    network = tuple(change for change in changes if change.path.startswith("interface"))
    if network:
        wire = {"interface": new.interface, "interface_bps": new.interface_bps}
        yield Draft(machine.name, Verb.TRAFFIC, changes=network, want=wire)
    measured = tuple(change for change in changes if change.path.startswith("telemetry"))
    if measured:
        telemetry = new.telemetry and new.telemetry.model_dump(mode="json")
        yield Draft(machine.name, Verb.TELEMETRY, changes=measured, want={"telemetry": telemetry})


def _gpus(machine: Machine) -> Iterator[Draft]:
    """One step for each allocation whose GPUs change hands, one for all others, so nobody waits for strangers.

    Of a GPU that one had whole and several come to hold in part, the first by name counts; they all start after it. A GPU
    that is shared before and after keeps its node's settings, and nobody waits for those.

    On a node or in a rack with a budget, limits that fall and limits that rise within one step are two: see plan.racks.
    """
    old, new = _holders(machine.old), _holders(machine.new)
    groups: dict[str, dict[int, tuple[Change, ...]]] = {}
    for gpu in sorted(machine.old.gpus.keys() | machine.new.gpus.keys()):
        changes = diff(machine.old.gpus.get(gpu), machine.new.gpus.get(gpu), f"gpus[{gpu}]")
        if changes:
            before, after = old.get(gpu, set()), new.get(gpu, set())
            stays_shared = _shared(machine.old, gpu) and _shared(machine.new, gpu)
            taker = "" if stays_shared else min(after - before or before - after, default="")
            groups.setdefault(taker, {})[gpu] = changes
    budgeted = machine.wanted.rack or machine.wanted.power_w
    for name, found in sorted(groups.items()):
        falls = {gpu: each for gpu, each in found.items() if budgeted and rise(machine, gpu) < 0}
        rest = {gpu: each for gpu, each in found.items() if gpu not in falls}
        for tail, part in ((LOWER if rest else "", falls), ("", rest)):
            if part:
                want = {str(gpu): machine.new.gpus.get(gpu, GpuState()).model_dump(mode="json") for gpu in part}
                givers = {one for gpu in part if name for one in old.get(gpu, set()) - new.get(gpu, set())}
                yield Draft(
                    machine.name, Verb.GPUS, "", tuple(change for each in part.values() for change in each), {"gpus": want},
                    f"of {name}" if name else "", tail="/".join(filter(None, (name, tail))),
                    after={_gives(machine, giver, Verb.SLICE) for giver in givers},
                )  # fmt: skip


def _holders(state: NodeState) -> dict[int, set[str]]:
    """By GPU, who holds it or a part of it."""
    found: dict[int, set[str]] = {}
    for name, one in state.allocations.items():
        for gpu in one.cards:
            found.setdefault(gpu, set()).add(name)
    return found


def _shared(state: NodeState, gpu: int) -> bool:
    """Does someone hold a part of it?"""
    return any(one.index == gpu and not one.whole for each in state.allocations.values() for one in each.gpus)


def rise(machine: Machine, gpu: int) -> int:
    """By how much the power limit of a GPU rises. One that is not managed counts 0, as in limits. [W]"""
    old, new = (state.gpus.get(gpu, GpuState()).power_w or 0 for state in (machine.old, machine.new))
    return new - old


def _gives(machine: Machine, name: str, verb: Verb) -> str:
    """Id of the step after which others may take what `name` gives, of what `verb` takes."""
    if name not in machine.new.allocations:
        return f"{machine.name}/{Verb.RELEASE}/{name}"
    return f"{machine.name}/{verb}/{name}" + ("/give" if name in machine.split.get(verb, ()) else "")


def _allocation(machine: Machine, name: str, action: Action) -> Iterator[Draft]:
    old, new = machine.old.allocations.get(name), machine.new.allocations.get(name)
    if action.stops and old is not None and old.unit.active and not ended(machine.seen, name):
        yield Draft(machine.name, Verb.STOP, name, why=action.why)
    if new is None:
        yield Draft(machine.name, Verb.RELEASE, name, diff(old, None, within(name)), why=action.why)
        return
    for verb in (Verb.SLICE, Verb.TRAFFIC):
        if old is not None and name in machine.split[verb]:
            less = kept(old, new, verb)
            yield Draft(
                machine.name, verb, name, diff(old, less, within(name)), _want(machine, name, less),
                "gives before others take", "give",
            )  # fmt: skip
            old = less
    yield from _parts(machine, name, action, old, new)


def _parts(machine: Machine, name: str, action: Action, old: AllocationState | None, new: AllocationState) -> Iterator[Draft]:
    """Slice, directories, bandwidth, unit and health, each only where something differs."""
    whole = not any(name in ones for ones in machine.split.values())
    well = machine.seen.health.get(name, "") in WELL
    if action.kind == "stay" and whole and well and machine.old.interface == machine.new.interface:
        return  # nothing differs, and most of a large fleet is so in every plan
    at, want = within(name), _want(machine, name, new)
    changes = diff(old, new, at)

    def part(*fields: str) -> tuple[Change, ...]:
        heads = tuple(f"{at}.{field}" for field in fields)
        return tuple(change for change in changes if change.path.startswith(heads))

    if action.kind == "come" or part("slice", "gpus"):
        yield Draft(machine.name, Verb.SLICE, name, part("slice", "gpus"), want, action.why)
    if part("scratch", "cache"):
        yield Draft(machine.name, Verb.DIRECTORIES, name, part("scratch", "cache"), want, action.why)
    shaped = diff(None, new.bandwidth) and machine.old.interface != machine.new.interface
    if part("bandwidth") or shaped:
        yield Draft(machine.name, Verb.TRAFFIC, name, part("bandwidth"), want, action.why or "the interface changes")
    health = machine.seen.health.get(name, "")
    ill = action.kind in ("stay", "live") and health not in WELL and not ended(machine.seen, name)
    starts = new.unit.active and (action.starts or (ill and health in ("failed", "stopped")))
    if starts or (part("unit", "workload") and action.kind != "end"):
        yield Draft(machine.name, Verb.START, name, part("unit", "workload"), want, action.why or f"was {health}")
    if new.unit.active and (starts or ill):
        worse = (Change(path=f"{at}.health", old=health, new="ok"),) if ill else ()
        yield Draft(machine.name, Verb.HEALTH, name, worse, want, action.why or f"was {health}")


def _want(machine: Machine, name: str, state: AllocationState) -> dict[str, Any]:
    new = machine.new
    return {
        "interface": new.interface, "interface_bps": new.interface_bps, "disk": new.disk,
        "allocations": {name: state.model_dump(mode="json")},
    }  # fmt: skip


def _order(machine: Machine, found: dict[str, Draft]) -> None:
    """Waits within the node: stop → release | give; who gives → who takes; disk, interface and parts → start → health."""
    for draft in found.values():
        name = draft.allocation
        if not name:
            if draft.verb is Verb.STORAGE and not machine.new.disk:  # a disk is released when nothing is on it
                draft.after |= {one.id for one in found.values() if one.verb in (Verb.RELEASE, Verb.DIRECTORIES)}
            draft.after &= found.keys()
            continue
        before = [f"{Verb.STOP}/{name}"]
        takes = Verb.SLICE if draft.verb is Verb.START else draft.verb
        if takes in machine.waits and not draft.tail:
            before.append(f"{takes}/{name}/give")
            draft.after |= {_gives(machine, giver, takes) for giver in machine.waits[takes].get(name, ())}
        if draft.verb is Verb.DIRECTORIES and machine.new.disk:
            before.append(Verb.STORAGE)
        if draft.verb is Verb.TRAFFIC:
            before += [Verb.TRAFFIC] if draft.tail else [Verb.TRAFFIC, f"{Verb.SLICE}/{name}"]
        if draft.verb is Verb.START:
            before += [f"{verb}/{name}" for verb in (Verb.SLICE, Verb.DIRECTORIES, Verb.TRAFFIC)]
            had = machine.old.allocations.get(name)
            own = {str(card) for card in machine.new.allocations[name].cards if had is None or card not in had.cards}
            draft.after |= {
                one.id for one in found.values() if one.verb is Verb.GPUS and one.why and own & one.want["gpus"].keys()
            }
        if draft.verb is Verb.HEALTH:
            before.append(f"{Verb.START}/{name}")
        draft.after |= _known(machine, before, found)
        draft.after = (draft.after & found.keys()) - {draft.id}


def _known(machine: Machine, tails: Iterable[str], found: dict[str, Draft]) -> set[str]:
    return {f"{machine.name}/{tail}" for tail in tails} & found.keys()
