"""Which replica is which? From counts on nodes to allocations with indices and devices.

A replica that stays keeps its index and its devices, one that moves keeps its index, and new ones take the lowest
free index, over nodes in the order of their names. Memory of what stays is bound to more NUMA nodes where theirs do
not hold it. Where parts of GPUs fit in no other way, as few as possible of those that stay change their card. Who starts
where it ran, in another size, keeps as many of its GPUs as that has. Who has to be on one NUMA node (`single`) gets
its devices before others that are new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from swarm_iac.model.device import WHOLE, Device, gpu
from swarm_iac.model.hardware import Hardware
from swarm_iac.model.placement import Allocation, Placement, Unplaced
from swarm_iac.model.resources.table import RESOURCES, SIZES
from swarm_iac.solver.packing.devices import Devices, Used, Want, assign, fixed, share_cards
from swarm_iac.solver.packing.mig_instances import Held, Wish, seats, with_devices
from swarm_iac.solver.packing.numa_nodes import Memory, homes
from swarm_iac.solver.repair.gpu_reassignment import on_their_card
from swarm_iac.solver.snapshot.domain_seats import Parts, seats_for
from swarm_iac.solver.snapshot.layout import CORES, GPUS, MEMORY
from swarm_iac.solver.snapshot.snapshot import Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.tasks import Classified, Pairs

#: What an allocation holds an amount of, with its place in the size of a request.
_SIZES = tuple((RESOURCES.index(row), row) for row in SIZES)

#: One new replica: its workload, its index, and what it was on this node, if it ran here.
New = tuple[str, int, Allocation | None]


def assemble(snapshot: Snapshot, classified: Classified, counts: Pairs) -> tuple[Allocation, ...]:
    """All allocations, sorted by workload and index. `counts` holds every replica, fixed ones too."""
    kept: dict[str, Allocation] = {}
    new: dict[str, list[New]] = {}
    by_request: dict[str, list[tuple[str, int]]] = {}
    for (name, node), count in sorted(counts.items()):
        if count:
            by_request.setdefault(name, []).append((node, count))
    sure = on_their_card(snapshot, classified, counts)
    for name, places in by_request.items():
        _name_replicas(snapshot, classified, name, places, kept, new, sure)
    loose = {name for name, a in kept.items() if a.node in sure and name not in sure[a.node]}
    found = dict(kept)
    held: dict[str, list[Allocation]] = {}
    for allocation in kept.values():
        held.setdefault(allocation.node, []).append(allocation)
    for node in sorted({*new, *(node for node, ones in held.items() if _crowded(snapshot, node, ones))}):
        found |= {a.name: a for a in _equip(snapshot, node, held.get(node, []), new.get(node, []), loose)}
    return tuple(sorted(found.values(), key=lambda a: (a.workload, a.index)))


def placement_of(snapshot: Snapshot, allocations: tuple[Allocation, ...]) -> Placement:
    """The placement that they are, and what has no place in it; nobody has looked for reasons yet."""
    indices: dict[str, set[int]] = {}
    for a in allocations:
        indices.setdefault(a.workload, set()).add(a.index)
    unplaced = []
    for name, request in snapshot.requests.items():
        if missing := missing_of(snapshot, request, indices.get(name, set())):
            unplaced.append(Unplaced(workload=name, missing=missing))
    return Placement(allocations=tuple(sorted(allocations, key=lambda a: a.name)), unplaced=tuple(unplaced))


def missing_of(snapshot: Snapshot, request: WorkloadRequest, placed: set[int]) -> tuple[int, ...]:
    """Replicas without a place: those that ran, then the lowest numbers that are free."""
    ran = [a.index for a in snapshot.running.get(request.name, ()) if a.index not in placed]
    fresh = [i for i in snapshot.numbers(request) if i not in placed and i not in ran]
    return tuple(sorted((ran + fresh)[: max(0, request.wanted - len(placed))]))


def _name_replicas(
    snapshot: Snapshot,
    classified: Classified,
    name: str,
    places: list[tuple[str, int]],
    kept: dict[str, Allocation],
    new: dict[str, list[New]],
    sure: dict[str, set[str]],
) -> None:
    """Give each place of one workload an index: into `kept` with its devices, or into `new` by node."""
    running = snapshot.running.get(name, ())
    used: set[int] = set()
    left = Counter(dict(places))
    for group in (classified.stay, classified.soft):
        for allocation in sorted(running, key=lambda a: a.node in sure and a.name not in sure[a.node]):
            if allocation.name in group and left[allocation.node] > 0:
                left[allocation.node] -= 1
                used.add(allocation.index)
                if group is classified.stay:
                    user = snapshot.requests[name].user
                    kept[allocation.name] = (
                        allocation if allocation.user == user else allocation.model_copy(update={"user": user})
                    )
                else:
                    new.setdefault(allocation.node, []).append((name, allocation.index, allocation))
    # Who could have stayed comes before who had to leave: where one too few is placed, nobody stops whose node is there.
    away = sorted((a for a in running if a.index not in used), key=lambda a: (a.name not in classified.stay, a.index))
    moved = [a.index for a in away]
    fresh = [i for i in snapshot.numbers(snapshot.requests[name]) if i not in used and i not in moved]
    indices = iter(moved + fresh)
    for node, _ in places:
        for _ in range(left[node]):
            new.setdefault(node, []).append((name, next(indices), None))


def _equip(snapshot: Snapshot, node: str, held: list[Allocation], new: list[New], loose: set[str]) -> list[Allocation]:
    """Who is bound to a NUMA node, or to linked GPUs, comes first: others may have what is left."""
    bound = [one for one in new if _bound(snapshot, node, one[0])] if snapshot.local else []
    if bound:
        singles, linked = _in_domains(snapshot, node, held, new, bound)
        try:
            rest = [one for one in new if not snapshot.requests[one[0]].single] if singles else new
            return _devices(snapshot, node, [*held, *singles], rest, loose, linked)
        except ValueError:  # parts of GPUs fit beside them in no way; who is split then is placed elsewhere
            pass
    return _devices(snapshot, node, held, new, loose)


def _bound(snapshot: Snapshot, node: str, name: str) -> bool:
    """Is it bound to a NUMA node, or to some of the GPUs of this one? Where all are linked, any will do."""
    request, hardware = snapshot.requests[name], snapshot.stack.hardware_of(node)
    return request.single or (request.linked and not hardware.linked(tuple(range(hardware.gpus.count))))


def _in_domains(
    snapshot: Snapshot, node: str, held: list[Allocation], new: list[New], those: list[New]
) -> tuple[list[Allocation], dict[str, tuple[Device, ...]]]:
    """`those` that have to be on one NUMA node, each on one, and the GPUs of those that have to be linked, by name.

    None where not all find theirs.
    """
    hardware = snapshot.stack.hardware_of(node)
    wider = fixed(hardware, held)
    stay = [a.model_copy(update={"numa": wider[a.name]}) if a.name in wider else a for a in held]
    bound = sorted(those, key=lambda one: one[:2])
    requests = [snapshot.requests[name] for name, _, _ in bound]
    mine = {(name, index) for name, index, _ in bound}
    spare = [(was, snapshot.requests[name]) for name, index, was in new if was and (name, index) not in mine]
    again = [was for was, request in spare if _usable(was, request, hardware)]
    was_here = [was for _, _, was in bound]
    # At first beside all that others who restart here had, so that they have it again.
    for others, before in ((again, was_here), ([], was_here), ([], [None] * len(bound))):
        found = seats_for(Parts(snapshot, hardware, [*stay, *others]), requests, before, [was for was, _ in spare])
        if found is not None:
            ones = [(name, index, own) for (name, index, _), own in zip(bound, found, strict=True)]
            single = [one for one in ones if snapshot.requests[one[0]].single]
            linked = {f"{name}-{index}": own.gpus for name, index, own in ones if not snapshot.requests[name].single}
            return [_allocation(snapshot, name, index, node, own) for name, index, own in single], linked
    return [], {}


def _devices(
    snapshot: Snapshot,
    node: str,
    held: list[Allocation],
    new: list[New],
    loose: set[str],
    linked: Mapping[str, tuple[Device, ...]] = MappingProxyType({}),
) -> list[Allocation]:
    """`linked`: the GPUs that some of the new ones have already, by name."""
    hardware = snapshot.stack.hardware_of(node)
    cpus = {i for a in held for i in a.cpus}
    wholes = {i for a in held if not snapshot.requests[a.workload].in_pieces for i in a.cards}
    wholes |= {one.index for own in linked.values() for one in own}
    left = hardware.gpus.count - sum(
        snapshot.requests[name].need[GPUS] for name, index, _ in new if f"{name}-{index}" not in linked
    )
    stands = {a.name: a for a in held if snapshot.requests[a.workload].shared}
    shares = {f"{name}-{index}": snapshot.requests[name].share for name, index, _ in new if snapshot.requests[name].shared}
    before = Used(*snapshot.stood.get(node, ()))
    empty = _empty(snapshot, [i for i in range(hardware.gpus.count) if i not in wholes], new, before)
    had = _cards_of_before(snapshot, new)
    there = [card for card in empty if not any(card in a.cards for a in stands.values() if a.name not in loose)]
    instances = _instances(snapshot, node, held, new, loose, there) if snapshot.cuts else {}
    cut = {one.index for ones in instances.values() for one in ones}
    empty, left = [card for card in empty if card not in cut], left - len(cut)
    cards, again = _parts(snapshot, shares, stands, loose, empty, left - len(wholes), had)
    again += [a.model_copy(update={"gpus": instances[a.name]}) for a in held if a.name in loose and a.name in instances]
    stay = {a.name: a for a in held} | {a.name: _at_home(a, hardware) for a in again}
    wider = fixed(hardware, stay.values())
    stay |= {name: stay[name].model_copy(update={"numa": numa}) for name, numa in wider.items()}
    gpus = wholes | cut | set(cards.values()) | {a.cards[0] for a in stands.values() if a.name not in cards}
    same, new = _as_before(snapshot, hardware, stay, new, gpus, cpus)
    stay |= same
    own = {label: (gpu(cards[label], share),) for label, share in shares.items()} | instances | dict(linked)
    wants = tuple(_want(snapshot, name, index, was, own) for name, index, was in new)
    devices = assign(hardware, Used(frozenset(gpus), frozenset(cpus)), wants, stay.values(), before)
    return [*stay.values(), *(_allocation(snapshot, name, index, node, devices[f"{name}-{index}"]) for name, index, _ in new)]


def _empty(snapshot: Snapshot, free: list[int], new: list[New], before: Used) -> list[int]:
    """Cards for parts, in the order in which they open: those that nobody else had, and last what who shrinks gives up."""
    kept: set[int] = set()
    spare: set[int] = set()
    own: set[int] = set()  # whole ones of who has pieces now
    for name, _, was in new:
        if was and snapshot.requests[name].in_pieces:
            own.update(one.index for one in was.gpus if one.whole)
        elif was:
            mine = [card for card in was.cards if card in free]
            kept.update(mine[: snapshot.requests[name].gpus])
            spare.update(mine[snapshot.requests[name].gpus :])
    return sorted(free, key=lambda card: (card in kept, card in spare, card in before.gpus and card not in own, card))


def _instances(
    snapshot: Snapshot, node: str, held: list[Allocation], new: list[New], loose: set[str], empty: list[int]
) -> dict[str, Held]:
    """The MIG instances of every replica on the node that has any, by its name."""
    kept = {a.name: a.gpus for a in held if snapshot.requests[a.workload].profile and a.name not in loose}
    fixed: dict[int, int] = {}
    for ones in kept.values():
        fixed = with_devices(fixed, ones) or fixed
    wishes = [
        Wish(label, request.profile, request.gpus, had)
        for label, request, had in (
            *((a.name, snapshot.requests[a.workload], a.gpus) for a in held if a.name in loose),
            *((f"{name}-{index}", snapshot.requests[name], was.gpus if was else ()) for name, index, was in new),
        )
        if request.profile
    ]
    before = (one for a in snapshot.last if a.node == node and not a.ended for one in a.gpus)
    return kept | seats(snapshot.nodes[node].cards, fixed, empty, wishes, before)


def _cards_of_before(snapshot: Snapshot, new: list[New]) -> dict[str, tuple[int, ...]]:
    """Of those that restart with a part of a GPU, where they had one."""
    return {f"{name}-{index}": was.cards for name, index, was in new if was and was.gpus and snapshot.requests[name].shared}


def _as_before(
    snapshot: Snapshot,
    hardware: Hardware,
    stay: dict[str, Allocation],
    new: list[New],
    gpus: set[int],
    cpus: set[int],
) -> tuple[dict[str, Allocation], list[New]]:
    """Of those that restart where they ran, who has the same devices as before, and the others.

    A gang that loses a member is one: nothing is gained by other GPUs or another binding for those that come back. What
    they have is added to `gpus` and `cpus`, which are taken.
    """
    same: dict[str, Allocation] = {}
    rest = []
    memory = Memory(hardware)
    for a in stay.values():
        memory.bind(a.numa, int(a.memory))
    for name, index, was in new:
        request = snapshot.requests[name]
        free = was and gpus.isdisjoint(was.cards) and cpus.isdisjoint(was.cpus)
        if was and free and _usable(was, request, hardware) and memory.fits(was.numa, request.need[MEMORY]):
            memory.bind(was.numa, request.need[MEMORY])
            gpus.update(was.cards)
            cpus.update(was.cpus)
            same[was.name] = _allocation(snapshot, name, index, was.node, Devices(was.gpus, was.cpus, was.numa))
        else:
            rest.append((name, index, was))
    return same, rest


def _usable(was: Allocation, request: WorkloadRequest, hardware: Hardware) -> bool:
    """Is it just what is asked for, and on this machine? A lock written by hand may name what the machine has not."""
    sized = (len(was.gpus), len(was.cpus), int(was.memory)) == (request.gpus, request.need[CORES], request.need[MEMORY])
    whole = not request.in_pieces and all(one.whole for one in was.gpus)
    return sized and whole and _inside(was, hardware) and not hardware.apart(was.cards, was.cpus)


def _inside(one: Allocation, hardware: Hardware) -> bool:
    """Are all of its devices among those of the machine, and is it bound to where they are?"""
    cores = int(hardware.vcpus) // 1000
    counts = (one.cards, hardware.gpus.count), (one.cpus, cores), (one.numa, hardware.numa)
    near = {*homes(one.cards, hardware.gpus.count, hardware.numa), *homes(one.cpus, cores, hardware.numa)}
    return all(_of_machine(own, count) for own, count in counts) and (near <= {*one.numa} if near else not one.numa)


def _of_machine(devices: tuple[int, ...], count: int) -> bool:
    """Are they all different, and among the `count` that a machine has?"""
    return all(0 <= i < count for i in devices) and len(set(devices)) == len(devices)


def _want(snapshot: Snapshot, name: str, index: int, was: Allocation | None, own: Mapping[str, tuple[Device, ...]]) -> Want:
    label, need = f"{name}-{index}", snapshot.requests[name].need
    held, pins = (was.cards, was.cpus) if was else ((), ())
    return Want(label, 0 if label in own else need[GPUS], need[CORES], need[MEMORY], held, own.get(label, ()), pins)


def _at_home(allocation: Allocation, hardware: Hardware) -> Allocation:
    """Who changes its GPU is bound to the NUMA node of that one too, where it is bound at all."""
    home = homes(allocation.cards, hardware.gpus.count, hardware.numa)
    return allocation.model_copy(update={"numa": tuple(sorted({*allocation.numa, *home}))}) if allocation.numa else allocation


def _crowded(snapshot: Snapshot, node: str, held: list[Allocation]) -> bool:
    """Could what is bound to some NUMA nodes of this node be more than they hold?"""
    hardware = snapshot.stack.hardware_of(node)
    return hardware.numa > 1 and sum(int(a.memory) for a in held if a.numa) > int(hardware.memory) // hardware.numa


def _parts(
    snapshot: Snapshot,
    shares: dict[str, int],
    stands: dict[str, Allocation],
    loose: set[str],
    free: list[int],
    left: int,
    had: dict[str, tuple[int, ...]],
) -> tuple[dict[str, int], list[Allocation]]:
    """A card for each part of a GPU, and what is placed there on another card than before. `left`: cards beside whole ones."""
    parts: dict[int, int] = {}
    for a in stands.values():
        if a.name not in loose:
            parts[a.cards[0]] = parts.get(a.cards[0], WHOLE) - snapshot.requests[a.workload].share
    again = [a for a in stands.values() if a.name in loose]
    every = shares | {a.name: snapshot.requests[a.workload].share for a in again}
    empty = [card for card in free if card not in parts]
    cards = share_cards(every, parts, empty, max(0, left - len(parts)), had)
    return cards, [a.model_copy(update={"gpus": (gpu(cards[a.name], snapshot.requests[a.workload].share),)}) for a in again]


def _allocation(snapshot: Snapshot, name: str, index: int, node: str, devices: Devices) -> Allocation:
    request = snapshot.requests[name]
    sizes = {row.name: row.unit(request.size[i]) for i, row in _SIZES}
    pieces = {"gpus": devices.gpus, "cpus": devices.cpus, "numa": devices.numa}
    return Allocation(name=f"{name}-{index}", workload=name, index=index, node=node, user=request.user, **pieces, **sizes)
