"""Where can a replica stand for a while, so that the others can change around it?

When no order of the changes is safe, a temporary placement may make one: a replica of a service first becomes healthy on a node
that has capacity now. Either it leaves its old place at once (its place is what others wait for), or it stands in while the
replica in its old place restarts. Then the plan goes on from there, as if that were done, with its steps ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from swarm_iac.model.device import WHOLE, Device, gpu, instance
from swarm_iac.model.gpus.links import Groups
from swarm_iac.model.gpus.mig import profiles_of
from swarm_iac.model.hardware import gpu_model
from swarm_iac.model.place.groups import LEVELS
from swarm_iac.model.stack import Stack
from swarm_iac.model.state import AllocationState, BandwidthState, Desired, GpuFacts, Observed
from swarm_iac.model.step import Verb
from swarm_iac.plan.order.handover import order
from swarm_iac.plan.state import cpulist, lending
from swarm_iac.plan.state.disk_io import OF_DISK
from swarm_iac.plan.step_graph.actions import Machine, homes, keepers, machines, services
from swarm_iac.plan.step_graph.draft import drafts
from swarm_iac.plan.step_graph.graph import Graph
from swarm_iac.plan.step_graph.hand_over_order import capacity, fits, hold

#: Who runs where, or comes there: workload and node.
Around = Collection[tuple[str, str]]
#: May a workload stand on a node beside those around it, on these of its GPUs? On none: whatever its place there.
Fits = Callable[[str, str, Around, tuple[int, ...]], bool]
#: Nodes that are tried for one replica.
TRIES = 3


def may_be_placed(stack: Stack, runs_as: str, node: str, around: Around = (), cards: tuple[int, ...] = ()) -> bool:
    """Would `place` and `gpus` of the workload that runs under this name allow it there, and is the node open to newcomers?

    Names in `around` are those under which workloads run, too. `cards`: the GPUs that it would have there, if they are known.
    """
    home = stack.nodes.get(node)
    named = {one.renamed_from or name: name for name, one in stack.workloads.items()}
    found = stack.workloads.get(named.get(runs_as, ""))
    if home is None or found is None or home.state != "ready":
        return False
    if not found.place.suits(home.labelled) or not found.place.tolerates(home.taints, stack.teams_of(found.user)):
        return False
    others = ((named[other], where) for other, where in around if other in named and other != runs_as)
    if any(_too_near(stack, named[runs_as], node, other, where) for other, where in others):
        return False
    request, hardware = found.each.gpus, stack.hardware_of(node)
    memory = request.memory is None or request.memory <= hardware.gpu_memory
    if found.place.links and not hardware.linked(cards):
        return False
    if request.profile and request.profile not in hardware.profiles:
        return False
    return not request.count or (request.allows(hardware.gpus.model) and memory)


def _too_near(stack: Stack, name: str, node: str, other: str, where: str) -> bool:
    """Are two workloads on these nodes nearer to each other than `place.apart` or `place.away_from` of either allows?"""
    one, two = stack.workloads[name].place, stack.workloads[other].place
    levels = {level for level in LEVELS if other in one.away_from.get(level, ()) or name in two.away_from.get(level, ())}
    if one.apart and two.apart:
        levels.add(max(one.apart, two.apart, key=LEVELS.index))
    return any(stack.group_of(node, level) == stack.group_of(where, level) for level in levels if where in stack.nodes)


@dataclass(frozen=True)
class TemporaryPlacement:
    """`name` stands on `there` for a while; `leaves`: its old place is given up at once, else it stands in for itself.

    `final`: it is not temporary but a move that is made first, so that its old slot can be used temporarily.
    `twice`: it is up on `there` already, since a run was cut short, and all that is done is to leave `here`.
    `clears`: what is released on `there` before, since nobody wants it any more.
    """

    name: str
    workload: str
    here: str
    there: str
    leaves: bool
    final: bool = False
    twice: bool = False
    clears: tuple[str, ...] = ()


def temporaries(
    all_of: Mapping[str, Machine], waiting: Iterable[tuple[str, str]], leaves: bool, stands: Fits
) -> Iterator[TemporaryPlacement]:
    """Every temporary placement that could help, for those replicas (node, allocation) that wait; `stands`: where they may."""
    over = _over(all_of)
    around = {
        (state.workload, node)
        for node, machine in all_of.items()
        for state in (*machine.old.allocations.values(), *machine.new.allocations.values())
    }
    for here, name in sorted(set(waiting)):
        machine = all_of[here]
        if name not in machine.old.allocations or not machine.up(name) or machine.seen.error:
            continue
        old = machine.old.allocations[name]
        found = 0
        for there in sorted(all_of, key=lambda node: _crowd(all_of[node], old.workload)):
            place = all_of[there]
            # What a run that was cut short left of a temporary placement can be used again.
            usable = name not in place.new.allocations and not place.up(name) and stands(old.workload, there, around, ())
            if there == here or not usable:
                continue
            ways = ((each, _stand(place, machine, name, each)) for each in _ways(over, there, name))
            able = (each for each, its in ways if its is not None and stands(old.workload, there, around, its.cards))
            clears = next(able, None)
            if clears is not None:
                yield TemporaryPlacement(name, old.workload, here, there, leaves, clears=tuple(sorted(clears)))
                found += 1
                if found == TRIES:
                    break


def drops(all_of: Mapping[str, Machine]) -> Iterator[TemporaryPlacement]:
    """Each place that a replica could give up at once, since a run that was cut short left it up in another one too.

    What it left stopped is such a place even where the replica is wanted: it comes there again.
    """
    goes_to = homes(all_of)[1]
    places: dict[str, list[str]] = {}
    for replicas in services(all_of).values():
        for node, name in replicas:
            if name in all_of[node].old.allocations and not all_of[node].seen.error:
                places.setdefault(name, []).append(node)
    for name, nodes in sorted(places.items()):
        up = [node for node in nodes if all_of[node].up(name)]
        for here in nodes:
            others = [node for node in up if node != here]
            stopped = not all_of[here].old.allocations[name].unit.active
            if others and (stopped if here == goes_to.get(name) else here in up):
                there = goes_to[name] if goes_to.get(name) in others else others[0]
                workload = all_of[here].old.allocations[name].workload
                yield TemporaryPlacement(name, workload, here, there, leaves=True, twice=True)


def ahead(all_of: Mapping[str, Machine], waiting: Iterable[tuple[str, str]]) -> TemporaryPlacement | None:
    """A move to a place that is free now, of a replica that does not wait itself."""
    stuck = {name for _, name in waiting}
    goes_to, over = homes(all_of)[1], _over(all_of)
    for name, here in sorted(keepers(all_of).items()):
        place = all_of[goes_to[name]]
        ready = place.seen.ledger and not place.seen.error and not all_of[here].seen.error
        if name in stuck or not ready:
            continue
        wanted = place.new.allocations[name]
        has = capacity(place.seen, place.old, place.new, place.wanted.hardware)
        # What a run that was cut short left of it there is its own.
        held = {each: hold(one) for each, one in place.old.allocations.items() if each != name}
        for clears in _ways(over, place.name, name):
            rest = (one for each, one in held.items() if each not in clears)
            if fits(hold(wanted), rest, has):
                return TemporaryPlacement(
                    name, wanted.workload, here, place.name, leaves=True, final=True, clears=tuple(sorted(clears))
                )
    return None


def _ways(over: Mapping[str, set[str]], there: str, name: str) -> Iterator[set[str]]:
    """What may be released there for `name`. Nothing, if it fits so: a temporary placement may have to be ended."""
    yield set()
    yield over[there] - {name}


def _over(all_of: Mapping[str, Machine]) -> dict[str, set[str]]:
    """On each node, what can be released at once: what does not run and goes, and what no workload asks for any more."""
    wanted = {state.workload for machine in all_of.values() for state in machine.new.allocations.values()}
    return {
        node: {
            name for name, state in machine.old.allocations.items()
            if machine.actions[name].kind == "go" and (not state.unit.active or state.workload not in wanted)
        }
        for node, machine in all_of.items()
    }  # fmt: skip


def _crowd(machine: Machine, workload: str) -> tuple[bool, int, str]:
    """Empty nodes first, and siblings apart."""
    ones = machine.old.allocations | machine.new.allocations
    return any(each.workload == workload for each in ones.values()), len(ones), machine.name


def take(observed: Mapping[str, Observed], all_of: Mapping[str, Machine], temporary: TemporaryPlacement) -> dict[str, Observed]:
    """What the fleet is once this temporary placement is taken."""
    here, there = observed[temporary.here], observed[temporary.there]
    if temporary.twice:
        return {**observed, temporary.here: _with(here, temporary.name, None)}
    place, home = all_of[temporary.there], all_of[temporary.here]
    clears = set(temporary.clears)
    standing = place.new.allocations[temporary.name] if temporary.final else _stand(place, home, temporary.name, clears)
    assert standing is not None
    for name in temporary.clears:
        there = _with(there, name, None)
    found = {**observed, temporary.there: _with(there, temporary.name, standing)}
    if temporary.leaves:
        found[temporary.here] = _with(here, temporary.name, None)
    return found


def steps(
    observed: Mapping[str, Observed],
    after: Mapping[str, Observed],
    all_of: Mapping[str, Machine],
    temporary: TemporaryPlacement,
) -> Graph:
    """The steps of the temporary placement itself: found as the plan from `observed` to `after`, and nothing else."""
    desired = {
        name: Desired(
            node=name, address="local", fleet=name, state=after[name].state, handover={temporary.name: "healthy-first"},
            hardware=all_of[name].wanted.hardware,
        )
        for name in (temporary.here, temporary.there)
    }  # fmt: skip
    both = machines({name: observed[name] for name in desired}, desired)
    graph: Graph = {}
    for machine in both.values():
        mine = {temporary.name, *(temporary.clears if machine.name == temporary.there else ())}
        for one, draft in drafts(machine, "").items():
            # What was begun in its old place is for the plan after it to end.
            leaves = temporary.leaves and draft.verb in (Verb.STOP, Verb.RELEASE)
            if draft.allocation in mine and (machine.name == temporary.there or leaves):
                graph[one] = draft
    if temporary.leaves and not temporary.twice:
        order(both, graph)
    for draft in graph.values():
        draft.after &= graph.keys()
        if temporary.twice:
            draft.why = f"is up on {temporary.there} too, since a run was cut short"
        elif draft.allocation == temporary.name and not temporary.final:
            draft.why = f"stands on {temporary.there} for a while, so that others can change"
    return graph


def join(rest: Graph, ahead: Graph, temporary: TemporaryPlacement, services: Mapping[str, list[tuple[str, str]]]) -> Graph:
    """The steps of the temporary placement before those that count on it.

    rest ∋ takes on `here`            wait for its release there
    rest ∋ takes on `there`           wait until it has its place, and what was in its way is released
    rest ∋ stops of its service       wait for its health on `there`, and so does its own stop there
    ahead                             waits for the program of its nodes
    """
    health = f"{temporary.there}/{Verb.HEALTH}/{temporary.name}"
    release = f"{temporary.here}/{Verb.RELEASE}/{temporary.name}"
    stops = {f"{node}/{Verb.STOP}/{name}" for node, name in services.get(temporary.workload, ())}
    stops.add(f"{temporary.there}/{Verb.STOP}/{temporary.name}")
    parts = (Verb.SLICE, Verb.DIRECTORIES, Verb.TRAFFIC)
    place = {one.id for one in ahead.values() if one.node == temporary.there and one.verb in (*parts, Verb.RELEASE)}
    for draft in rest.values():
        takes = draft.verb in (*parts, Verb.GPUS, Verb.START)
        if takes and draft.node == temporary.here and release in ahead:
            draft.after.add(release)
        if takes and draft.node == temporary.there:
            draft.after |= place
        if draft.id in stops and not temporary.twice:
            draft.after.add(health)
    for draft in ahead.values():
        prepare = f"{draft.node}/{Verb.PREPARE}"
        if prepare in rest:
            draft.after.add(prepare)
    return ahead | rest


def _with(seen: Observed, name: str, state: AllocationState | None) -> Observed:
    others = {each: one for each, one in seen.state.allocations.items() if each != name}
    allocations = others | ({name: state} if state else {})
    health = {each: status for each, status in seen.health.items() if each != name} | ({name: "healthy"} if state else {})
    return seen.model_copy(update={"state": seen.state.model_copy(update={"allocations": allocations}), "health": health})


def _stand(place: Machine, home: Machine, name: str, clears: set[str]) -> AllocationState | None:
    """What it would be there, where it fits once `clears` are released; None without.

    It runs as it is wanted at last, else as it runs now.
    Cores are shared there, with as much CPU time as it had: an allocation that shares has no cores to give.
    """
    wanted, found = home.new.allocations.get(name), home.old.allocations[name]
    shapes = (found if wanted is None else wanted, found)
    return next((one for state in shapes if (one := _as(place, home, name, state, clears)) is not None), None)


def _as(place: Machine, home: Machine, name: str, state: AllocationState, clears: set[str]) -> AllocationState | None:
    seen = place.seen
    begun = place.old.allocations.get(name)
    if begun is not None and begun.unit.active:
        return begun if begun.unit == state.unit else None
    held = {each: one for each, one in place.old.allocations.items() if each not in clears | {name}}
    ones = [*held.values(), *place.new.allocations.values()]
    pinned = {cpu for each in map(hold, ones) if each.pinned for cpu in each.cpus}
    cpus = set(range(seen.facts.cpus)) - pinned
    models = {card.index: card.model for card in home.seen.facts.gpus}
    own = {models.get(gpu) for gpu in state.cards}
    left = {card.index: WHOLE for card in seen.facts.gpus if card.model in own}
    for device in (device for one in held.values() for device in one.gpus if device.index in left):
        left[device.index] -= WHOLE if device.profile else device.part  # of a card that is cut nobody has a part
    linked = place.wanted.hardware.nvlink if place.wanted.hardware else ()
    profiles = {one.profile for one in state.gpus}
    if profiles <= {""}:
        gpus = _seated(state.gpus, left, linked)
    elif name in home.new.allocations and profiles == {one.profile for one in home.new.allocations[name].gpus}:
        cards = [card for card in seen.facts.gpus if card.index in left]
        gpus = _cut(state.gpus, cards, [device for one in held.values() for device in one.gpus])
    else:  # of another profile than the one that is wanted nobody has asked whether the cards there may be cut so
        gpus = None
    disk = place.old.disk == place.new.disk != ""
    wire = place.old.interface == place.new.interface != ""
    if (
        not (place.managed and seen.ledger and not seen.error and cpus)
        or gpus is None
        or (not disk and (state.scratch or state.cache))
        or any(one.unit.port == state.unit.port is not None for one in ones)
    ):
        return None
    shares = lending.without(state).slice.model_copy(
        update={
            "cpus": cpulist.write(cpus),
            "mems": "",
            "cpu_quota_m": state.slice.cpu_quota_m or 1000 * len(cpulist.read(state.slice.cpus)),
            **{field: getattr(state.slice, field) if disk else None for field in OF_DISK},
        }
    )
    bandwidth = state.bandwidth if wire else BandwidthState()
    standing = state.model_copy(update={"gpus": gpus, "slice": shares, "bandwidth": bandwidth})
    has = capacity(place.seen, place.old, place.new, place.wanted.hardware)
    return standing if fits(hold(standing), map(hold, held.values()), has) else None


def _seated(devices: Collection[Device], left: dict[int, int], linked: Groups) -> tuple[Device, ...] | None:
    """The same on cards with so much `left` (thousandths), each on the fullest that has it; None where there are too few.

    Several whole ones are in one group of `linked` where one has so many, the smallest such.
    """
    found = []
    free = ([card for card in group if left.get(card) == WHOLE] for group in linked if len(devices) > 1)
    large = [cards for cards in free if len(cards) >= len(devices) and all(one.whole for one in devices)]
    left = {card: left[card] for card in min(large, key=len)} if large else left
    for one in devices:
        fitting = [card for card, free in left.items() if free >= one.part]
        if not fitting:
            return None
        card = min(fitting, key=lambda card: (left[card], card))
        left[card] -= one.part
        found.append(gpu(card, one.part))
    return tuple(found)


def _cut(devices: Collection[Device], cards: Iterable[GpuFacts], held: Iterable[Device]) -> tuple[Device, ...] | None:
    """The same instances beside what is `held`, in free positions of cards that are cut already, else of empty ones."""
    taken: dict[int, set[int]] = {}
    for one in held:
        taken.setdefault(one.index, set()).update(one.slices)
    # An instance on a card where we hold nothing is a stranger's.
    free = {card.index: card for card in cards if card.index in taken or not card.instances}
    found = []
    for one in devices:
        profiles = ((card, profiles_of(gpu_model(facts.model), facts.memory).get(one.profile)) for card, facts in free.items())
        places = (instance(card, its.name, start, its.size, its.of) for card, its in profiles if its for start in its.starts)
        fitting = [place for place in places if not taken.get(place.index, set()) & set(place.slices)]
        if not fitting:
            return None
        best = min(fitting, key=lambda place: (place.index not in taken, place.index, place.start))
        taken.setdefault(best.index, set()).update(best.slices)
        found.append(best)
    return tuple(sorted(found))
