"""What do people run? Workloads drawn to fit some machine and their user's ceiling, until enough is asked for."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.benchmarks.fleets import ranges
from tests.benchmarks.fleets.draw import LABELS, chance, fleet, read_shape, users, weighted
from tests.benchmarks.fleets.written import Data, Drawn, flow, text_of

#: The stack file may have 1 MB; what is drawn stays below.
MOST_BYTES = 900_000
#: vCPUs, GB of memory, GB of storage where the file says nothing (policies/limits.yaml).
DEFAULT_USER = {"gpus": 16, "vcpus": 64, "memory": 512, "storage": 10_000}
DEFAULT_NODE = {"gpus": 32, "vcpus": 128, "memory": 1000, "storage": 100_000}
DEFAULT_CLUSTER = {"gpus": 1000, "vcpus": 10_000, "memory": 100_000, "storage": 10_000_000}
KINDS = {"train": 5, "gang": 3, "note": 2, "serve": 3, "batch": 4, "etl": 1, "any": 4}
RESOURCES = ("gpus", "vcpus", "memory", "storage")


def filled(seed: int, machines: int) -> Drawn:
    """A fleet with its workloads: 20% to 250% of the GPUs, and as much of the rest as comes with them."""
    drawn = fleet(seed, machines)
    rng = random.Random(f"workloads {seed}")
    data = drawn.data
    demand = rng.choice([0.0, 0.2, 0.5, 0.8, 0.85, 0.9, 0.95, 0.95, 1.0, 1.0, 1.05, 1.3, 1.8, 2.5])
    shapes = [read_shape(data["hardware"][entry["hardware"]]) for entry in data["nodes"].values()]
    gpus, vcpus = sum(s["gpus"] for s in shapes), sum(s["vcpus"] for s in shapes)
    parts, park = chance(rng, 0.15), Park.of(data)
    numa = random.Random(f"numa {seed}")  # of its own, so that all else is drawn as it was
    single = chance(numa, 0.4)
    groups = random.Random(f"groups {seed}")
    grouped = chance(groups, 0.3)
    asked = cores = 0
    size = len(text_of(data))
    while demand and size < MOST_BYTES and len(data["workloads"]) < 12 * machines + 5:
        lack_gpus, lack_cores = asked < demand * gpus, cores < demand * vcpus * 0.6
        if not lack_gpus and not lack_cores:
            break
        name, one = workload(rng, data, f"{len(data['workloads']):04d}", gpus=lack_gpus, park=park)
        members = one.get("gang") or int(str(one.get("replicas", 1)).split("..", maxsplit=1)[0])
        if single and chance(numa, 0.4) and within_numa(one, shapes):
            one["place"] = one.get("place", {}) | {"numa": "single"}
        if grouped and chance(groups, 0.15):
            one["place"] = one.get("place", {}) | _beside(groups, one.get("place", {}), members)
        asked += members * gpus_of(one)
        cores += members * one["each"]["vcpus"] + 0.02 * vcpus / machines
        size += len(flow(one)) + 12
        data["workloads"][name] = one
        if parts:
            beyond(rng, drawn, name)
    ranges.some(seed, drawn)
    cut = random.Random(f"slices instances {seed}")
    if chance(cut, 0.15):
        drawn.profiles = {name: cut.randrange(60) for name in data["workloads"] if chance(cut, 0.6)}
    return drawn


def beyond(rng: random.Random, drawn: Drawn, name: str) -> None:
    """Now and then what the model has and a file does not: a part of a GPU, or one of several models."""
    each = drawn.data["workloads"][name]["each"]
    if gpus_of(drawn.data["workloads"][name]) == 1 and chance(rng, 0.5):
        drawn.shares[name] = rng.choice([100, 250, 300, 400, 500, 500, 700, 900])
    if isinstance(each.get("gpus"), str) and chance(rng, 0.3):
        models = sorted({read_shape(s)["model"] for s in drawn.data["hardware"].values() if read_shape(s)["gpus"]})
        drawn.models[name] = "|".join(dict.fromkeys((each["gpus"].split(" x ")[1], *rng.sample(models, 1))))


def gpus_of(one: Data) -> int:
    """GPUs of one replica."""
    gpus = one["each"].get("gpus", 0)
    return int(gpus["count"] if isinstance(gpus, dict) else str(gpus).split(" x ", maxsplit=1)[0])


def ceiling(given: Data | None, default: dict[str, int]) -> dict[str, int]:
    """A ceiling in GPUs, vCPUs and GB, and Gbit/s where there is one."""
    read = {
        key: int(str(value).split()[0]) for key, value in (given or {}).items() if key in (*RESOURCES, "bandwidth", "replicas")
    }
    return default | read


@dataclass(frozen=True)
class Park:
    """What a workload is drawn from: the nodes' entries with their shapes, those with GPUs, and users."""

    nodes: list[tuple[Data, Data]]
    with_gpus: list[tuple[Data, Data]]
    users: list[str]

    @classmethod
    def of(cls, data: Data) -> Park:
        """That of a fleet's file."""
        shapes = {name: read_shape(entry) for name, entry in data["hardware"].items()}
        nodes = [(entry, shapes[entry["hardware"]]) for entry in data["nodes"].values()]
        return cls(nodes, [pair for pair in nodes if pair[1]["gpus"]], users(data))


def workload(rng: random.Random, data: Data, number: str, *, gpus: bool = True, park: Park | None = None) -> tuple[str, Data]:
    """One workload with a name, sized after a machine of the fleet so that some machine could hold a replica."""
    park = park or Park.of(data)
    kind = weighted(rng, KINDS) if gpus else rng.choice(["batch", "etl", "batch", "serve", "any"])
    suited = park.with_gpus if gpus and kind not in ("batch", "etl") else []
    entry, shape = rng.choice(suited or park.nodes)
    user = rng.choice(park.users)
    capacity = _capacity(data, shape)
    one: Data = {"user": user, "kind": {"gang": "train", "note": "batch", "etl": "batch", "any": "batch"}.get(kind, kind)}
    one["priority"] = weighted(rng, {"low": 3, "normal": 5, "high": 2})
    count = _gpus(rng, kind, shape, capacity) if gpus else 0
    one["each"] = _each(rng, kind, shape, capacity, count)
    _network(rng, one, kind, capacity)
    members = _fitting(data, one, _members(rng, kind, len(park.nodes)))
    if members < 1:  # too large for its user's ceiling
        one["each"] = {"vcpus": 1, "memory": "2 GB"}
        one.pop("network", None)
        members = rng.choice([0, 1, 1, 1])
    _place(rng, one, entry, members)
    if members and (kind == "gang" or (kind == "any" and chance(rng, 0.2))):
        one["gang"] = members
        one["kind"] = "train"
    elif kind in ("serve", "any") and chance(rng, 0.4):
        one["replicas"] = f"{members}..{members + rng.randint(0, 4)}"
    elif members != 1:
        one["replicas"] = members
    if "gang" not in one:
        one.get("network", {}).pop("between", None)
    if not one.get("network", True):
        one.pop("network")
    if one["priority"] == "normal" and chance(rng, 0.5):
        one.pop("priority")
    if chance(rng, 0.7):
        one["run"] = {"command": f"python3 {kind}.py"}
    return f"{kind}-{number}", one


def _capacity(data: Data, shape: Data) -> dict[str, int]:
    """The most that one machine of the shape may give to one replica, by hardware and by `limits.node`."""
    node = ceiling(data["limits"].get("node"), DEFAULT_NODE)
    has = {"gpus": shape["gpus"], "vcpus": shape["vcpus"], "memory": shape["memory"], "storage": shape["nvme"]}
    return {key: min(has[key], node[key]) for key in has} | {"bandwidth": min(shape["nic"], node.get("bandwidth", 10**6))}


def _gpus(rng: random.Random, kind: str, shape: Data, capacity: dict[str, int]) -> int:
    if kind in ("batch", "etl") or not capacity["gpus"]:
        return 0
    most = capacity["gpus"]
    if kind in ("note", "serve"):
        return rng.choice([1, 1, 1, min(2, most)])
    if kind == "gang":
        return rng.choice([most, most, max(1, most // 2), min(4, most)])
    return rng.choice([c for c in (1, 1, 1, 2, 2, 4, 8, 3, 5, 6, most) if c <= most])


def _each(rng: random.Random, kind: str, shape: Data, capacity: dict[str, int], gpus: int) -> Data:
    """GPUs, vCPUs, memory and disk of one replica."""
    part = gpus / max(1, shape["gpus"]) if gpus else rng.choice([0.02, 0.05, 0.1, 0.25, 0.5, 0.9 if kind == "etl" else 0.05])
    each: Data = {}
    if gpus:
        named, memory = rng.random(), shape["gpu_memory"]
        if named < 0.5:
            each["gpus"] = f"{gpus} x {shape['model']}"
        elif named < 0.65:
            each["gpus"] = {
                "count": gpus,
                "memory": f"{rng.choice([memory, max(1, memory // 2), 20 if memory >= 20 else 8])} GB",
            }
        elif named < 0.7:
            each["gpus"] = {"count": gpus, "model": shape["model"], "memory": f"{memory} GB"}
        else:
            each["gpus"] = gpus
    scale = rng.choice([0.3, 0.7, 0.9, 1.0, 1.2])
    each["vcpus"] = max(1, min(capacity["vcpus"], round(shape["vcpus"] * part * scale)))
    if chance(rng, 0.25):
        each["pinned"] = True
    each["memory"] = f"{max(1, min(capacity['memory'], round(shape['memory'] * part * rng.choice([0.2, 0.6, 0.9, 1.1]))))} GB"
    disk = min(capacity["storage"], round(shape["nvme"] * part * rng.choice([0.1, 0.5, 1.0])))
    if disk > 1 and chance(rng, 0.5):
        each["scratch"] = f"{disk // 2} GB"
        if chance(rng, 0.4):
            each["cache"] = f"{disk - disk // 2} GB"
    if gpus and chance(rng, 0.12):
        each["gpu_power"] = f"{rng.choice([200, 350, 450, 700, 750])} W"
    return each


def _network(rng: random.Random, one: Data, kind: str, capacity: dict[str, int]) -> None:
    if not capacity["bandwidth"] or chance(rng, 0.5):
        return
    most = capacity["bandwidth"]
    if kind == "gang":
        one["network"] = {"between": f"{max(1, most // rng.choice([2, 4, 8]))} Gbit/s"}
    else:
        key, part = rng.choice(["egress", "ingress"]), rng.choice([0.01, 0.05, 0.2, 0.5])
        one["network"] = {key: f"{max(1, round(1000 * most * part))} Mbit/s"}


def _members(rng: random.Random, kind: str, nodes: int) -> int:
    """How many replicas: more of each on a large fleet, since its file has one size too."""
    many = 1 + nodes // 200
    table = {
        "gang": [2, 2, 3, 4, 8],
        "train": [1, 1, 1, 2, 4 * many],
        "note": [1],
        "serve": [2, 2, 3, 4, 6 * many],
        "etl": [1],
        "batch": [1, 2, 4, 8 * many, 16 * many],
        "any": [0, 1, 2, 3, 5, 7 * many],
    }
    return rng.choice(table[kind])


def _fitting(data: Data, one: Data, members: int) -> int:
    """As many of the members as the ceilings of the user, of its teams and of the cluster could ever hold."""
    need = Counter({"gpus": gpus_of(one), "vcpus": one["each"]["vcpus"], "memory": _gb(one, "memory")})
    need["storage"] = _gb(one, "scratch") + _gb(one, "cache")
    gbits = [int(text.split()[0]) / (1000 if "Mbit" in text else 1) for text in one.get("network", {}).values()]
    user = ceiling(data["limits"].get("user"), DEFAULT_USER)
    others = [ceiling(each, {}) for each in data["limits"].get("except", []) if each.get("user") == one["user"]]
    for key in RESOURCES:
        user[key] = max((each[key] for each in others if key in each), default=user[key])
    for most in (user, ceiling(data["limits"].get("cluster"), DEFAULT_CLUSTER), *_of_teams(data, one["user"])):
        members = min([members, *(most[key] // need[key] for key in RESOURCES if need[key] and key in most)])
        members = min(members, most.get("replicas", members))
        if gbits and "bandwidth" in most:
            members = min(members, int(most["bandwidth"] / sum(gbits)))
    return min(members, _by_model(data, one, members)) if need["gpus"] else members


def _by_model(data: Data, one: Data, members: int) -> int:
    """As many of the members as limits on GPU models could ever hold, where each model that would do has one."""
    asked = one["each"]["gpus"]
    named = asked.get("model", "") if isinstance(asked, dict) else str(asked).partition(" x ")[2]
    models = named.split("|") if named else [read_shape(shape)["model"] for shape in data["hardware"].values()]
    mine = [each for each in data["limits"].get("except", []) if each.get("user") == one["user"]]
    user = {
        "gpus_by_model": {
            model: most
            for each in (data["limits"].get("user", {}), *mine)
            for model, most in each.get("gpus_by_model", {}).items()
        }
    }
    chain = [user, *(data["limits"].get(level, {}) for level in ("user", "team", "cluster"))]
    chain += [team.get("limits", {}) for team in data["teams"].values()]
    for limits in (each["gpus_by_model"] for each in chain if "gpus_by_model" in each):
        if all(model in limits for model in models):
            members = min(members, sum(limits[model] // math.ceil(gpus_of(one)) for model in {*models}))
    return members


def _of_teams(data: Data, user: str) -> Iterator[Data]:
    """The limits of the user's team and of the teams around that."""
    team = next((name for name, one in data["teams"].items() if user in one.get("users", ())), None)
    while team is not None:
        most = ceiling(data["teams"][team].get("limits"), ceiling(data["limits"].get("team"), {}))
        others = [ceiling(each, {}) for each in data["limits"].get("except", []) if each.get("team") == team]
        for key in {key for each in others for key in each}:
            most[key] = max(each[key] for each in others if key in each)
        yield most
        team = data["teams"][team].get("parent")


def _gb(one: Data, key: str) -> int:
    return int(one["each"].get(key, "0 GB").partition("..")[0].partition(" ")[0])


def within_numa(one: Data, shapes: list[Data]) -> bool:
    """Has it devices, and some machine a NUMA node for all of one replica?"""
    each, gpus = one["each"], gpus_of(one)
    cores = each["vcpus"] if each.get("pinned") else 0
    wish = each.get("gpus", 0)
    named = isinstance(wish, dict)
    model = wish.get("model", "") if named else str(wish).partition(" x ")[2]
    memory = int(str(wish.get("memory", 0)).split()[0]) if named else 0
    able = [s for s in shapes if (not model or s["model"] == model) and s["gpu_memory"] >= memory]
    needs = {"gpus": gpus, "vcpus": cores, "memory": _gb(one, "memory")}
    return bool(gpus or cores) and any(all(need <= s[key] // s["numa"] for key, need in needs.items()) for s in able)


def _beside(rng: random.Random, place: Data, members: int) -> Data:
    """How many may be on one node, or who is kept away from it."""
    if members > 1 and place.get("within") != "node" and chance(rng, 0.6):
        return {"per_node": rng.choice([1, 2, 2, 4])}
    return {"apart": rng.choice(["node", "rack"])}


def _place(rng: random.Random, one: Data, entry: Data, members: int) -> None:
    """Where replicas may stand: labels that the machine it was sized after carries, spread or within."""
    place: Data = {}
    carried = {key: value for key, value in entry.items() if key in ("site", "rack")} | entry.get("labels", {})
    if carried and chance(rng, 0.15):
        key = rng.choice(list(carried))
        place["select"] = {key: carried[key]}
    if members > 1 and chance(rng, 0.35):
        place |= rng.choice([{"spread": "node"}, {"spread": "rack"}, {"within": "rack"}, {"within": "rack"}])
    elif members == 2 and chance(rng, 0.1) and gpus_of(one) <= 1 and one["each"]["vcpus"] == 1:
        place["within"] = "node"
    if place:
        one["place"] = place


__all__ = ["LABELS", "beyond", "ceiling", "filled", "gpus_of", "within_numa", "workload"]
