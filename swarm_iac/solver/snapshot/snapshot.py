"""What does the solver see? The stack as plain integers: asks, bins, ceilings, and what runs.

Everything is in base units (thousandths of a vCPU, bytes, bit/s, watts). A bin is a node; an ask is a workload.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from swarm_iac.model.device import WHOLE
from swarm_iac.model.gpus.links import Groups
from swarm_iac.model.gpus.mig import Profile, profiles_of
from swarm_iac.model.place.groups import AWAY_FROM, LEVELS, SITE_LINKS, Group, Level
from swarm_iac.model.place.taints import Taint
from swarm_iac.model.place.where import Where
from swarm_iac.model.placement import Allocation
from swarm_iac.model.stack import Stack
from swarm_iac.solver.snapshot.entitlements import Entitlements
from swarm_iac.solver.snapshot.layout import (
    ALL_GPUS,
    CORES,
    COUNTED,
    FILES,
    MEMORY,
    SUPPLY,
    UPLINK,
    Budget,
)

#: The model of a card, and its memory [bytes].
CardKind = tuple[str, int]
#: No ceiling.
ENDLESS = 1 << 60
#: The scope of all replicas.
CLUSTER = "the cluster"


@functools.lru_cache(maxsize=4096)
def _some(amounts: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """What is not 0, with its place."""
    return tuple([(i, amount) for i, amount in enumerate(amounts) if amount])


def of_user(name: str) -> str:
    """The scope of a user."""
    return f"user {name}"


def of_team(name: str) -> str:
    """The scope of a team with all teams inside it."""
    return f"team {name}"


def of_model(scope: str, model: str) -> str:
    """The scope of what another one holds of a GPU model."""
    return f"{scope} on {model}"


@dataclass(frozen=True, slots=True)
class WorkloadRequest:
    """One workload. For one replica: `need` follows NODE, `usage` COUNTED and `size` the table."""

    name: str
    user: str
    priority: int
    members: int  # to be placed
    wanted: int  # in the stack file; more than `members` while who holds more than their limit may add nothing
    gang: bool
    need: tuple[int, ...]
    usage: tuple[int, ...]
    size: tuple[int, ...]
    model: str | None
    gpu_memory: int
    place: Where
    power: int | None  # per GPU [W]; None: the node's
    share: int = WHOLE  # thousandths of each GPU that it has a part or a MIG instance of: then `need` names no GPU
    profile: str = ""  # of the MIG instances that it asks for
    movable: bool = True  # may its replicas leave their nodes for others?
    sought: bool = False  # may others be only where it is?
    #: By kind of group, the workloads that are kept away from it, or it from them.
    foes: tuple[tuple[Level, frozenset[str]], ...] = ()
    single: bool = False  # has each replica to be on one NUMA node?
    linked: bool = False  # has each replica several GPUs, which have to be joined by NVLink?
    teams: tuple[str, ...] = ()  # of its user, and those around it, where a taint names teams
    #: The scopes whose limits count its replicas: its user, the teams around that which have limits, the cluster.
    chain: tuple[str, ...] = ()
    #: By GPU model that somebody of its chain has a limit on: the scopes that count its replicas on nodes with that model, each
    #: with the place in `chain` of whose limit it is.
    models: tuple[tuple[str, tuple[tuple[int, str], ...]], ...] = ()
    between: int = 0  # what the members of a gang send each other, where a link between sites may carry too little [bit/s]
    #: Of `need` and `usage` what is not 0, with its place: most of it is, and they are gone through most often.
    needs: tuple[tuple[int, int], ...] = field(init=False, compare=False, repr=False)
    uses: tuple[tuple[int, int], ...] = field(init=False, compare=False, repr=False)
    #: The rules of `place` on groups of nodes.
    groups: tuple[Group, ...] = field(init=False, compare=False, repr=False)
    select: tuple[tuple[str, str], ...] = field(init=False, compare=False, repr=False)
    #: What `suitability` looks at, but for `on_one`: equal for workloads that suit the same nodes.
    asked: tuple[Hashable, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "needs", _some(self.need))
        object.__setattr__(self, "uses", _some(self.usage))
        named = tuple(Group(AWAY_FROM, level, names) for level, names in self.foes)
        joined = (Group(SITE_LINKS, "site"),) if self.between else ()
        object.__setattr__(self, "groups", (*self.place.groups, *named, *joined))
        object.__setattr__(self, "select", tuple(sorted(self.place.select.items())))
        object.__setattr__(self, "chain", self.chain or (of_user(self.user), CLUSTER))
        cut = (self.profile, self.share) if self.profile else ("", 0)
        object.__setattr__(self, "asked", (self.model, self.gpu_memory, *cut, self.teams, *self.place.each_node))

    @property
    def together(self) -> Level | None:
        """Have all replicas to be in one group of nodes, and in one of which kind?"""
        return self.place.together if self.groups else None

    @property
    def per_node(self) -> int | None:
        """The most replicas that one node may have of it, by the rules on groups: a node is in one rack and one site."""
        return min((group.each for group in self.groups if group.each is not None), default=None)

    @property
    def others(self) -> bool:
        """Does it keep other workloads away?"""
        return any(group.of.others for group in self.groups)

    @property
    def even(self) -> Group | None:
        """Has no rack, or site, many more replicas than another one?"""
        return next((group for group in self.groups if group.of.even), None) if self.groups else None

    @property
    def near(self) -> Level | None:
        """Of which groups are its replicas to be in few?"""
        return self.place.near if self.members > 1 else None

    @property
    def gathers(self) -> Level | None:
        """Of which groups few are tried first: those of `near`, or sites whose links may carry too little."""
        return self.near or ("site" if self.between else None)

    @property
    def by_rack(self) -> bool:
        """Does any rule bound how many replicas a rack or a site has by itself?"""
        return any(group.each is not None and group.level != "node" for group in self.groups)

    def on_model(self, model: str | None) -> tuple[tuple[int, str], ...]:
        """The scopes that count a replica on a node with this model, beside those of its chain; see `models`."""
        return next((scopes for name, scopes in self.models if name == model), ())

    def scope_of(self, budget: Budget) -> str:
        """The scope of its chain that the budget bounds."""
        return self.chain[-1 if budget.level == "cluster" else budget.depth]

    @property
    def gpus(self) -> int:
        """GPUs that it stands on, or MIG instances."""
        return self.usage[ALL_GPUS] // self.share

    @property
    def shared(self) -> bool:
        """May others take turns with it on its GPU?"""
        return self.share < WHOLE and not self.profile

    @property
    def in_pieces(self) -> bool:
        """Are its GPUs counted card by card: is it a part of one, or MIG instances?"""
        return self.share < WHOLE or bool(self.profile)

    @property
    def local(self) -> bool:
        """Is each replica bound to a NUMA node, or to linked GPUs?"""
        return self.single or self.linked

    @property
    def joined(self) -> int:
        """GPUs of a replica that have to be joined; 0 where they need not."""
        return self.gpus if self.linked else 0

    @property
    def on_one(self) -> tuple[int, ...]:
        """GPUs, cores and memory that one NUMA node has to have for a replica; empty where they may be on several."""
        return (self.gpus, self.need[CORES], self.need[MEMORY]) if self.single else ()


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """One node. `capacity` follows NODE; `power` is the cap of each GPU, 0 where unknown [W]."""

    name: str
    rack: str | None
    site: str | None
    labels: dict[str, str]
    taints: dict[str, Taint]
    state: str
    model: str | None
    gpu_memory: int
    capacity: tuple[int, ...]
    power: int
    #: GPUs, cores and memory of each NUMA node; empty where no workload is bound to one, or to linked GPUs.
    parts: tuple[tuple[int, int, int], ...] = ()
    links: Groups = ()  # of GPUs that are joined by NVLink; empty where no workload is bound to such
    mig: bool = False  # may its GPUs be cut?
    whole: tuple[int, ...] = ()  # `capacity`, also of what files of finished jobs take
    #: Of those that `only_with` names who is on it, in its rack or in its site; None while they are being placed.
    company: frozenset[tuple[Level, str]] | None = None

    @property
    def cards(self) -> CardKind:
        """What kind of cards it has."""
        return (self.model or "", self.gpu_memory)

    @property
    def profiles(self) -> Mapping[str, Profile]:
        """The MIG profiles that its cards may be cut into."""
        return profiles_of(self.model or "", self.gpu_memory) if self.mig else {}

    @property
    def tainted(self) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
        """What `taints_are_tolerated` looks at."""
        return tuple((key, one.value, one.teams) for key, one in sorted(self.taints.items())) if self.taints else ()

    @property
    def numa(self) -> tuple[object, ...]:
        """What `numa_node_suffices` and `linked_gpus_suffice` look at."""
        return (self.parts, self.links, self.capacity) if self.parts else ()

    def power_of(self, request: WorkloadRequest) -> int:
        """Watts that one replica adds to what the GPUs here may draw anyway: gpus · max(0, its own cap − the node's)."""
        return 0 if request.power is None else request.gpus * max(0, request.power - self.power)

    def of_rack(self, request: WorkloadRequest) -> tuple[int, ...]:
        """What one replica here takes of its rack, in the order of RACK."""
        return (*_through_uplink(request.need), self.power_of(request))


@dataclass(frozen=True, slots=True)
class Over:
    """Who holds more than they may have of one resource, and keeps it."""

    scope: str
    resource: int  # its place in COUNTED
    held: int
    most: int
    model: str = ""  # of the GPUs, where the limit is on one model

    def of(self, request: WorkloadRequest) -> bool:
        """May this workload get nothing more for it, wherever it runs?"""
        return not self.model and bool(request.usage[self.resource]) and self.scope in request.chain


@dataclass(frozen=True)
class Snapshot:
    """All that is decided from. `running` holds what stood last time and is still wanted, by workload."""

    stack: Stack
    requests: dict[str, WorkloadRequest]
    nodes: dict[str, NodeCapacity]
    scopes: dict[str, tuple[int, ...]]
    racks: dict[str, tuple[int, ...]]
    running: dict[str, tuple[Allocation, ...]] = field(default_factory=dict)
    over: tuple[Over, ...] = ()
    #: Paths under which the ceilings of scopes stand in the stack file, by scope and place in COUNTED.
    given: dict[tuple[str, int], str] = field(default_factory=dict)
    #: What stood last time, wanted still or not.
    last: tuple[Allocation, ...] = ()
    #: Finished jobs: nothing is decided about them, and their storage is taken from what there is.
    ended: tuple[Allocation, ...] = ()
    #: Limits on the GPUs of single models: of whom, of which model, how many thousandths.
    models: dict[str, dict[str, int]] = field(default_factory=dict)
    #: What runs and may stay where it is, by node: it keeps its devices. Empty where nobody is bound to a domain.
    seats: dict[str, tuple[Allocation, ...]] = field(default_factory=dict)
    #: What teams are due; None where GPUs are not shared by teams.
    shares: Entitlements | None = None
    #: The links between sites that may carry too little. [bit/s]
    links: dict[tuple[str, str], int] = field(default_factory=dict)
    #: Pairs of a workload and a node where a new replica came out split that must not be: none goes there any more.
    barred: frozenset[tuple[str, str]] = frozenset()

    @functools.cached_property
    def stood(self) -> dict[str, tuple[frozenset[int], frozenset[int]]]:
        """GPUs and cores that anybody had on each node: who gets one of those may have to wait for it."""
        found: dict[str, tuple[set[int], set[int]]] = {}
        for one in self.last:
            gpus, cpus = found.setdefault(one.node, (set(), set()))
            gpus.update(one.cards)
            cpus.update(one.cpus)
        return {node: (frozenset(gpus), frozenset(cpus)) for node, (gpus, cpus) in found.items()}

    @functools.cached_property
    def done(self) -> dict[str, frozenset[int]]:
        """Numbers of the finished replicas, by workload."""
        found: dict[str, set[int]] = {}
        for one in self.ended:
            found.setdefault(one.workload, set()).add(one.index)
        return {name: frozenset(numbers) for name, numbers in found.items()}

    def numbers(self, request: WorkloadRequest) -> list[int]:
        """The numbers that its replicas get, the first first, less those that finished."""
        done = self.done.get(request.name)
        return [i for i in range(request.wanted + len(done)) if i not in done] if done else list(range(request.wanted))

    def home(self, name: str) -> Counter[str]:
        """Where replicas of the workload ran as its user of now: they may stay on a cordoned node, and others are new."""
        return Counter(a.node for a in self.running.get(name, ()) if a.user in (None, self.requests[name].user))

    def files(self, scope: str, resource: int) -> int:
        """What finished jobs hold of a ceiling (a place in COUNTED)."""
        if resource not in FILES:
            return 0
        known = (a for a in self.ended if a.node in self.nodes and scope in self.requests[a.workload].chain)
        return sum(map(COUNTED[resource].held, known))

    @functools.cached_property
    def inside(self) -> dict[str, frozenset[str]]:
        """The scopes directly inside each: of a team its users, and the teams in it that have limits."""
        found: dict[str, set[str]] = {}
        for chain in {request.chain for request in self.requests.values()}:
            for inner, outer in itertools.pairwise(chain):
                found.setdefault(outer, set()).add(inner)
        return {scope: frozenset(ones) for scope, ones in found.items()}

    @functools.cached_property
    def evened(self) -> tuple[str, ...]:
        """The workloads with `balance`."""
        return tuple(name for name, request in self.requests.items() if request.even)

    @functools.cached_property
    def sought(self) -> dict[str, frozenset[Level]]:
        """Those that `only_with` names, and in groups of which kinds each is to be near."""
        found: dict[str, set[Level]] = {}
        for request in self.requests.values():
            for level, others in request.place.only_with.items():
                for other in others:
                    found.setdefault(other, set()).add(level)
        return {name: frozenset(levels) for name, levels in found.items()}

    @functools.cached_property
    def sending(self) -> tuple[str, ...]:
        """The gangs that links between sites count."""
        return tuple(name for name, request in self.requests.items() if request.between)

    def known(self, of: Callable[..., object]) -> dict[Any, Any]:
        """What this function has worked out of the snapshot already, by what it was asked."""
        return self._known.setdefault(of, {})

    @functools.cached_property
    def _known(self) -> dict[Callable[..., object], dict[Any, Any]]:
        return {}

    @functools.cached_property
    def local(self) -> bool:
        """Is any workload bound to one NUMA node, or to linked GPUs?"""
        return any(request.local for request in self.requests.values())

    @functools.cached_property
    def linked(self) -> bool:
        """Is any workload bound to linked GPUs?"""
        return any(request.linked for request in self.requests.values())

    @functools.cached_property
    def milli(self) -> bool:
        """Does any workload hold less than whole GPUs, so that they are counted in thousandths?"""
        return any(request.in_pieces for request in self.requests.values())

    @functools.cached_property
    def cuts(self) -> bool:
        """Does any workload ask for MIG instances?"""
        return any(request.profile for request in self.requests.values())

    @functools.cached_property
    def grouped(self) -> frozenset[str]:
        """The workloads that have rules on groups of nodes."""
        return frozenset(name for name, request in self.requests.items() if request.groups)

    @functools.cached_property
    def immovable(self) -> frozenset[str]:
        """The workloads whose replicas leave their nodes for nobody of their priority, or below."""
        return frozenset(name for name, request in self.requests.items() if not request.movable)

    @functools.cached_property
    def away(self) -> Level:
        """The largest kind of groups from which any workload keeps others away."""
        kinds = (group.level for request in self.requests.values() for group in request.groups if group.of.others)
        return max(kinds, key=LEVELS.index, default="node")

    @functools.cached_property
    def rows(self) -> dict[str, int]:
        """The place of each node."""
        return {name: i for i, name in enumerate(self.nodes)}

    @functools.cached_property
    def alike(self) -> dict[str, int]:
        """A number for each node, the same for those that nothing but their name, rack and site tells apart."""
        sizes, known = self.same_size, dict[tuple[object, ...], int]()
        labels = sorted({pair for request in self.requests.values() for pair in request.place.labels})
        return {
            name: known.setdefault(
                (sizes[name], one.state, one.tainted, *(one.labels.get(key) == value for key, value in labels)), len(known)
            )
            for name, one in self.nodes.items()
        }

    @functools.cached_property
    def same_size(self) -> dict[str, int]:
        """The same, with other labels, taints and states: an empty one holds as many replicas."""
        known: dict[tuple[object, ...], int] = {}
        return {
            name: known.setdefault(
                (
                    one.model,
                    one.gpu_memory,
                    one.capacity,
                    one.power if one.capacity[SUPPLY] < ENDLESS else None,
                    one.parts,
                    one.links,
                    one.mig,
                    one.site if self.links else None,
                ),
                len(known),
            )
            for name, one in self.nodes.items()
        }


#: What one replica sends through the uplink of a rack, of its `need`.
_through_uplink = itemgetter(*UPLINK)
