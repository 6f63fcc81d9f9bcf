"""Where else may workloads be? Sites, taints, what is not moved, who is kept from whom, linked GPUs, and racks that are
compared, drawn from streams of their own: all else stays as it was drawn.

Fleets of seeds below FIRST, of links below LINKED, of `balance` below BALANCED, of GPU models that count more for a team
below WORTH, of `prefer_with` below COMPANY, of `only_with` below BOUND, and of shares by dominant resource below DOMINANT, stay as
they were: some are kept for what was answered wrong on them.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.benchmarks.fleets import ranges
from tests.benchmarks.fleets.draw import chance, read_shape, weighted
from tests.benchmarks.fleets.draw_workloads import gpus_of, within_numa
from tests.benchmarks.fleets.written import Data, Drawn

FIRST, LINKED, BALANCED, WORTH = 200_000, 400_000, 450_000, 800_000
COMPANY, BOUND, DOMINANT = 900_000, 1_000_000, 1_100_000
#: How often a fleet has a feature.
SITES, TAINTS, FIRM, AWAY, LINKS, EVEN = 0.3, 0.3, 0.3, 0.3, 0.6, 0.7
_TAINTS: tuple[Data, ...] = ({"dedicated": "a"}, {"dedicated": "b"}, {"fan": "broken"}, {"dedicated": "a", "fan": "broken"})


def more(drawn: Drawn, seed: int) -> Drawn:
    """The same fleet, some with more about where its workloads are."""
    rng = random.Random(f"where {seed}")
    if seed < FIRST:
        return drawn
    data = drawn.data
    if chance(rng, SITES):
        _one_site_each(data)
        for one in _some(rng, data, 0.2):
            _by_site(rng, one)
    if chance(rng, TAINTS):
        for entry in data["nodes"].values():
            if chance(rng, 0.2):
                _tainted(rng, data, entry)
        for one in _some(rng, data, 0.3):
            _tolerant(rng, one)
            if not _allowed(data, one):
                del one["place"]["tolerate"]
    if chance(rng, FIRM):
        for one in _some(rng, {"workloads": {k: v for k, v in data["workloads"].items() if k not in drawn.shares}}, 0.4):
            one["movable"] = False
    if chance(rng, AWAY) and len(data["workloads"]) > 1:
        for _ in range(len(data["workloads"]) // 6 + 1):
            _away(rng, drawn)
    _links(random.Random(f"links {seed}"), data, seed)
    _even(random.Random(f"balance {seed}"), data, seed)
    _worth(random.Random(f"worth {seed}"), data, seed)
    _company(random.Random(f"company {seed}"), drawn, seed)
    _dominant(random.Random(f"dominant {seed}"), data, seed)
    return drawn


def _dominant(rng: random.Random, data: Data, seed: int) -> None:
    if seed >= DOMINANT and chance(rng, 0.6) and _fair(data):
        data["solve"]["share_by"] = "dominant_resource"


def _fair(data: Data) -> bool:
    """Has any team a share?"""
    return any("share" in team for team in data["teams"].values())


def _company(rng: random.Random, drawn: Drawn, seed: int) -> None:
    if seed >= COMPANY and chance(rng, AWAY) and len(drawn.data["workloads"]) > 1:
        for _ in range(len(drawn.data["workloads"]) // 4 + 1):
            _liked(rng, drawn)
    if seed >= BOUND and len(drawn.data["workloads"]) > 1:
        for _ in range(len(drawn.data["workloads"]) // 6 + 1):
            _accompanied(rng, drawn)


def _worth(rng: random.Random, data: Data, seed: int) -> None:
    """What a GPU of each model counts of what teams are due; of some models nothing is said."""
    if seed < WORTH or not _fair(data):
        return
    models = sorted({str(shape["gpus"]).partition(" x ")[2] for shape in data["hardware"].values() if "gpus" in shape} - {""})
    worth = {model: rng.choice([1, 1.5, 2, 3]) for model in models if chance(rng, 0.8)}
    if worth and chance(rng, 0.7):
        data["worth"] = worth


def _even(rng: random.Random, data: Data, seed: int) -> None:
    if seed >= BALANCED and chance(rng, EVEN):
        for one in _some(rng, data, 0.5):
            _balanced(rng, data, one)
    if seed >= BALANCED and chance(rng, EVEN):
        for one in _some(rng, data, 0.3):
            one["place"] = one.get("place", {}) | {"near": rng.choice(["rack", "rack", "site"])}
        labelled = [entry for entry in data["nodes"].values() if "rack" in entry]
        for one in _some(rng, data, 0.3) if labelled else ():
            entry = rng.choice(labelled)
            one["place"] = one.get("place", {}) | {"prefer": {"rack": entry["rack"], **entry.get("labels", {})}}


def _balanced(rng: random.Random, data: Data, one: Data) -> str:
    """Its replicas are spread evenly, unless all have to be in one rack."""
    place = one.get("place", {})
    if members(one) < 2 or place.get("within") in ("node", "rack"):
        return ""
    sites = any("site" in entry for entry in data["nodes"].values()) and "within" not in place
    over = rng.choice(["rack", "rack", "rack", "site"]) if sites else "rack"
    balance = rng.choice([over, over, {"over": over, "skew": 2}, {"over": over, "skew": 1 + members(one) // 3}])
    one["place"] = place | {"balance": balance}
    if over == "site":
        _one_site_each(data)
    return f"place {one['place']}"


def _links(rng: random.Random, data: Data, seed: int) -> None:
    if seed >= LINKED and chance(rng, LINKS):
        for shape in data["hardware"].values():
            _joined(rng, shape)
        for one in _some(rng, data, 0.8):
            _linked(rng, data, one)


def _some(rng: random.Random, data: Data, often: float) -> list[Data]:
    """So many of the workloads."""
    return [one for one in data["workloads"].values() if chance(rng, often)]


def edited_where(drawn: Drawn, seed: int, number: int, attempt: int) -> str:
    """An edit of the same, in words; nothing where the fleet has none of it."""
    rng = random.Random(f"where {seed} {number} {attempt}")
    edits: dict[Callable[[random.Random, Drawn], str], int] = {}
    if _sited(drawn.data):
        _one_site_each(drawn.data)
        edits[_site] = 1
    if any("taints" in entry for entry in drawn.data["nodes"].values()):
        edits |= {_taint: 2, **({_toleration: 1} if drawn.data["workloads"] else {})}
    if any("movable" in one for one in drawn.data["workloads"].values()):
        edits[_movable] = 1
    for key, edit in (("away_from", _away), ("prefer_with", _liked), ("only_with", _accompanied)):
        those = [one for one in drawn.data["workloads"].values() if key in one.get("place", {})]
        for one in those:  # those that went are no longer named
            named = {kind: [it for it in names if it in drawn.data["workloads"]] for kind, names in _levels(one, key).items()}
            one["place"][key] = {kind: names for kind, names in named.items() if names}
        if those and len(drawn.data["workloads"]) > 1:
            edits[edit] = 2
    if any("links" in shape for shape in drawn.data["hardware"].values()):
        edits |= {_relinked: 1, **({_bound: 2} if drawn.data["workloads"] else {})}
    if seed >= BALANCED and drawn.data["workloads"]:
        edits |= {_rebalanced: 2, _near: 1}
    return weighted(rng, edits)(rng, drawn) if edits and chance(rng, 0.4) else ""


def _near(rng: random.Random, drawn: Drawn) -> str:
    """A workload is to be in few racks, or no longer."""
    name = rng.choice(list(drawn.data["workloads"]))
    one = drawn.data["workloads"][name]
    if one.get("place", {}).pop("near", None):
        return f"{name}: not near"
    one["place"] = one.get("place", {}) | {"near": rng.choice(["rack", "site"])}
    return f"{name}: near {one['place']['near']}"


def _rebalanced(rng: random.Random, drawn: Drawn) -> str:
    """A workload is spread evenly, or no longer."""
    name = rng.choice(list(drawn.data["workloads"]))
    one = drawn.data["workloads"][name]
    if one.get("place", {}).pop("balance", None):
        return f"{name}: not balanced"
    return f"{name}: {said}" if (said := _balanced(rng, drawn.data, one)) else ""


def members(one: Data) -> int:
    """Replicas that are guaranteed."""
    return int(one.get("gang") or str(one.get("replicas", 1)).split("..", maxsplit=1)[0])


def _sited(data: Data) -> bool:
    return any("site" in str(one.get("place", "")) for one in data["workloads"].values())


def _one_site_each(data: Data) -> None:
    """A rack is in the site of its first node; who asked for a site that is gone asks for another one."""
    first: dict[str, str | None] = {}
    for entry in data["nodes"].values():
        site = first.setdefault(entry["rack"], entry.get("site")) if "rack" in entry else entry.get("site")
        entry.pop("site", None)
        if site:
            entry["site"] = site
    left = sorted({entry["site"] for entry in data["nodes"].values() if "site" in entry})
    for one in data["workloads"].values():
        select = one.get("place", {}).get("select", {})
        if left and select.get("site", left[0]) not in left:
            select["site"] = left[0]


def _by_site(rng: random.Random, one: Data) -> str:
    place = {key: value for key, value in one.get("place", {}).items() if key in ("select", "numa")}
    count = members(one)
    choices: list[Data] = [{"apart": "site"}, {"apart": "rack"}, {"within": "site"}, {"per_site": 3, "per_rack": 2}]
    choices += [{"spread": "site"}] if count <= 3 else []
    choices += [{"per_site": 1 + count // 2}, {"per_rack": 1 + count // 2}, {"within": "site", "spread": "rack"}]
    one["place"] = place | rng.choice(choices)
    return f"place {one['place']}"


def _site(rng: random.Random, drawn: Drawn) -> str:
    data = drawn.data
    name = rng.choice(list(data["workloads"]))
    return f"{name}: {_by_site(rng, data['workloads'][name])}"


def _tainted(rng: random.Random, data: Data, entry: Data) -> str:
    taints: Data = dict(rng.choice(_TAINTS))
    if "dedicated" in taints and chance(rng, 0.3):
        teams = rng.sample(list(data["teams"]), 1)
        taints["dedicated"] = {"value": taints["dedicated"], "teams": teams}
    entry["taints"] = taints
    return f"taints {taints}"


def _tolerant(rng: random.Random, one: Data) -> str:
    place = one.get("place", {})
    tolerate = rng.choice([{"dedicated": "a"}, {"dedicated": "*"}, {"fan": "*"}, {"dedicated": "*", "fan": "broken"}])
    one["place"] = place | {"tolerate": tolerate}
    return f"tolerate {tolerate}"


def _allowed(data: Data, one: Data) -> bool:
    """Is what it tolerates not reserved for other teams?"""
    for key, value in one["place"]["tolerate"].items():
        taints = [entry["taints"][key] for entry in data["nodes"].values() if key in entry.get("taints", ())]
        every = [taint if isinstance(taint, dict) else {"value": taint, "teams": []} for taint in taints]
        named = [taint["teams"] for taint in every if value in ("*", taint["value"])]
        mine = {team for team, each in data["teams"].items() if one["user"] in each.get("users", ())}
        if named and not any(not teams or mine & {*teams} for teams in named):
            return False
    return True


def _taint(rng: random.Random, drawn: Drawn) -> str:
    """A taint comes to a node, or all of its taints go."""
    name = rng.choice(list(drawn.data["nodes"]))
    entry = drawn.data["nodes"][name]
    if entry.pop("taints", None):
        return f"{name}: no taints"
    return f"{name}: {_tainted(rng, drawn.data, entry)}"


def _toleration(rng: random.Random, drawn: Drawn) -> str:
    name = rng.choice(list(drawn.data["workloads"]))
    one = drawn.data["workloads"][name]
    if "tolerate" in one.get("place", {}):
        del one["place"]["tolerate"]
        return f"{name}: tolerates nothing"
    return f"{name}: {_tolerant(rng, one)}"


def _movable(rng: random.Random, drawn: Drawn) -> str:
    name = rng.choice(list(drawn.data["workloads"]))
    one = drawn.data["workloads"][name]
    if one.pop("movable", None) is not None:
        return f"{name}: movable"
    if name in drawn.shares:
        return ""
    one["movable"] = False
    return f"{name}: not movable"


def _levels(one: Data, key: str) -> Data:
    named = one["place"][key]
    return named if isinstance(named, dict) else {"node": named}


def _away(rng: random.Random, drawn: Drawn) -> str:
    return _named(rng, drawn, "away_from")


def _liked(rng: random.Random, drawn: Drawn) -> str:
    return _named(rng, drawn, "prefer_with")


def _accompanied(rng: random.Random, drawn: Drawn) -> str:
    return _named(rng, drawn, "only_with")


def _named(rng: random.Random, drawn: Drawn, key: str) -> str:
    """A workload says whom it is to be away from, or with."""
    works = drawn.data["workloads"]
    name = rng.choice(list(works))
    others = [other for other in works if other != name]
    chosen = rng.sample(others, min(len(others), rng.choice([1, 1, 2])))
    those = rng.choice([chosen, {"node": chosen}, {"rack": chosen}])
    works[name]["place"] = works[name].get("place", {}) | {key: those}
    return f"{name}: {key} {those}"


def _joined(rng: random.Random, shape: Data) -> None:
    """Some of its GPUs are joined: by a switch, by bridges in order or across, or in groups of any size. Some behind one PCIe switch."""
    count = read_shape(shape)["gpus"]
    shape.pop("links", None)
    if count < 2 or chance(rng, 0.2):
        return
    size = rng.choice([2, 2, 4, 3])
    order = rng.choice([[*range(count)], [*range(0, count, 2), *range(1, count, 2)], rng.sample(range(count), count)])
    groups = [order[i : i + size] for i in range(0, count, size)]
    links: Data = {"nvlink": "all" if chance(rng, 0.3) else [group for group in groups if len(group) > 1]}
    if chance(rng, 0.3):
        links["pcie"] = [[i, i + 1] for i in range(0, count - 1, 2)]
    shape["links"] = links


def _most(data: Data, one: Data, *, single: bool = False) -> int:
    """The largest group of linked GPUs on a machine that would do for it otherwise; `single`: on one NUMA node."""
    each, asked = one["each"], one["each"].get("gpus", 0)
    named = asked if isinstance(asked, dict) else {"model": str(asked).partition(" x ")[2]}
    needs = {"vcpus": ranges.least(each["vcpus"]), "memory": ranges.least(each["memory"])}
    needs["gpu_memory"] = ranges.least(named.get("memory", 0))
    found = 0
    for name in {entry["hardware"] for entry in data["nodes"].values()}:
        shape, groups = read_shape(data["hardware"][name]), data["hardware"][name].get("links", {}).get("nvlink", [])
        if named.get("model", "") in ("", shape["model"]) and all(need <= shape[key] for key, need in needs.items()):
            count, numa = shape["gpus"], shape["numa"] if single else 1
            parts = [range(j * count // numa, (j + 1) * count // numa) for j in range(numa)]
            every = [range(count)] if groups == "all" else groups
            found = max([found, *(sum(i in part for i in group) for group in every for part in parts)])
    return found


def _linked(rng: random.Random, data: Data, one: Data) -> str:
    """It requires linked GPUs, where some machine has so many."""
    place = one.get("place", {})
    if "select" in place or not 2 <= gpus_of(one) <= _most(data, one, single=place.get("numa") == "single"):
        return ""
    one["place"] = place | {"links": "required"}
    shapes = [read_shape(shape) for shape in data["hardware"].values()]
    if chance(rng, 0.3) and within_numa(one, shapes) and gpus_of(one) <= _most(data, one, single=True):
        one["place"]["numa"] = "single"
    return f"place {one['place']}"


def _relinked(rng: random.Random, drawn: Drawn) -> str:
    """The links of a shape are declared otherwise."""
    name = rng.choice(list(drawn.data["hardware"]))
    _joined(rng, drawn.data["hardware"][name])
    return f"{name}: links {drawn.data['hardware'][name].get('links', 'none')}"


def _bound(rng: random.Random, drawn: Drawn) -> str:
    """A workload requires linked GPUs, or does so no more."""
    name = rng.choice(list(drawn.data["workloads"]))
    one = drawn.data["workloads"][name]
    if one.get("place", {}).pop("links", None):
        return f"{name}: no links required"
    return f"{name}: {said}" if (said := _linked(rng, drawn.data, one)) else ""
