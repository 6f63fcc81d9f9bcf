"""What does somebody change next? One edit of a drawn fleet's file, mostly of a single thing.

An edit looks at the file only, never at the placement, so that a seed gives the same edits whatever the solver answers.
Each returns what it did in words, or nothing where the fleet has no such thing.
"""

from __future__ import annotations

import copy
import datetime
import random
from collections.abc import Callable

from tests.benchmarks.fleets import ranges
from tests.benchmarks.fleets.draw import LABELS, chance, exception, read_shape, state, users, watts_of, weighted, written_shape
from tests.benchmarks.fleets.draw_where import edited_where
from tests.benchmarks.fleets.draw_workloads import beyond, gpus_of, workload
from tests.benchmarks.fleets.written import Data, Drawn

Edit = Callable[[random.Random, Drawn], str]


def edited(drawn: Drawn, seed: int, number: int, attempt: int = 0) -> tuple[Drawn, str]:
    """The fleet after edit `number`, and what was changed."""
    rng = random.Random(f"edit {seed} {number} {attempt}")
    after = Drawn(copy.deepcopy(drawn.data), drawn.today, dict(drawn.shares), dict(drawn.models), dict(drawn.profiles))
    words: list[str] = []
    count = rng.choice([1, 1, 1, 1, 1, 2, 3])
    while len(words) < count:
        done = weighted(rng, EDITS)(rng, after)
        if done:
            words.append(done)
    teams = random.Random(f"edit of teams {seed} {number} {attempt}")
    if any("limits" in team for team in after.data["teams"].values()) and chance(teams, 0.25):
        words.append(_team(teams, after))
    words += filter(None, [edited_where(after, seed, number, attempt)])
    return after, "; ".join(words)


def _add(rng: random.Random, drawn: Drawn) -> str:
    data = drawn.data
    name, one = workload(rng, data, f"n{rng.randrange(10**6):06d}", gpus=chance(rng, 0.75))
    if chance(rng, 0.3):
        one["priority"] = "high"
    data["workloads"][name] = one
    if drawn.shares:
        beyond(rng, drawn, name)
    return f"add {name} ({gpus_of(one)} GPUs, {one.get('priority', 'normal')})"


def _remove(rng: random.Random, drawn: Drawn) -> str:
    if not drawn.data["workloads"]:
        return ""
    name = rng.choice(list(drawn.data["workloads"]))
    del drawn.data["workloads"][name]
    drawn.shares.pop(name, None)
    drawn.models.pop(name, None)
    return f"remove {name}"


def _churn(rng: random.Random, drawn: Drawn) -> str:
    """1% to 3% of the workloads go, and as many come."""
    count = round(len(drawn.data["workloads"]) * rng.choice([0.01, 0.02, 0.03]))
    if not count:
        return ""
    for _ in range(count):
        _remove(rng, drawn)
        _add(rng, drawn)
    return f"{count} workloads go, {count} come"


def _one(rng: random.Random, drawn: Drawn) -> tuple[str, Data]:
    name = rng.choice(list(drawn.data["workloads"]))
    return name, drawn.data["workloads"][name]


def _replicas(rng: random.Random, drawn: Drawn) -> str:
    if not drawn.data["workloads"]:
        return ""
    name, one = _one(rng, drawn)
    if "gang" in one:
        one["gang"] = max(1, one["gang"] + rng.choice([-2, -1, 1, 2]))
        return f"{name}: gang {one['gang']}"
    least = int(str(one.get("replicas", 1)).split("..", maxsplit=1)[0])
    fresh = max(0, least + rng.choice([-2, -1, 1, 1, 2, least]))
    one["replicas"] = f"{fresh}..{fresh + 3}" if ".." in str(one.get("replicas", "")) else fresh
    return f"{name}: replicas {least} to {fresh}"


def _size(rng: random.Random, drawn: Drawn) -> str:
    if not drawn.data["workloads"]:
        return ""
    name, one = _one(rng, drawn)
    each, key = one["each"], rng.choice(["vcpus", "memory", "gpus", "pinned", "scratch", "gpu_power"])
    if key in ("vcpus", "memory"):
        least = ranges.least(each[key])
        each[key] = ranges.with_least(each[key], max(1, round(least * rng.choice([0.5, 0.8, 1.3, 2]))))
    elif key == "scratch":
        each[key] = f"{rng.choice([1, 50, 500])} GB"
    elif key == "pinned":
        each[key], each["vcpus"] = not each.get(key, False), ranges.least(each["vcpus"])
    elif not gpus_of(one) or name in drawn.shares:
        return ""
    elif key == "gpu_power":
        each[key] = f"{rng.choice([200, 400, 700])} W"
    else:
        count = max(1, gpus_of(one) + rng.choice([-1, 1, gpus_of(one)]))
        given = each["gpus"]
        if isinstance(given, dict):
            each["gpus"] = given | {"count": count}
        else:
            each["gpus"] = f"{count} x {given.split(' x ')[1]}" if " x " in str(given) else count
    return f"{name}: {key} {each[key]}"


def _priority(rng: random.Random, drawn: Drawn) -> str:
    if not drawn.data["workloads"]:
        return ""
    name, one = _one(rng, drawn)
    one["priority"] = rng.choice([p for p in ("low", "normal", "high") if p != one.get("priority", "normal")])
    return f"{name}: priority {one['priority']}"


def _where(rng: random.Random, drawn: Drawn) -> str:
    if not drawn.data["workloads"]:
        return ""
    name, one = _one(rng, drawn)
    place = one.get("place", {})
    key = rng.choice(["spread", "within", "select"])
    if key in place:
        place = {k: v for k, v in place.items() if k != key}
    elif key == "select":
        entry = rng.choice(list(drawn.data["nodes"].values()))
        carried = {k: v for k, v in entry.items() if k in ("site", "rack")} | entry.get("labels", {})
        if not carried:
            return ""
        place = place | {"select": dict([rng.choice(list(carried.items()))])}
    else:
        place = {k: v for k, v in place.items() if k == "select"} | {key: rng.choice(["node", "rack", "rack"])}
    one.pop("place", None)
    if place:
        one["place"] = place
    return f"{name}: place {place}"


def _user(rng: random.Random, drawn: Drawn) -> str:
    if not drawn.data["workloads"]:
        return ""
    name, one = _one(rng, drawn)
    one["user"] = rng.choice(users(drawn.data))
    return f"{name}: user {one['user']}"


def _ceiling(rng: random.Random, drawn: Drawn) -> str:
    """Another upper end of a range, which moves nothing."""
    if not drawn.data["workloads"]:
        return ""
    name, one = _one(rng, drawn)
    return f"{name}: {done}" if (done := ranges.ceiling(rng, one)) else ""


def _network(rng: random.Random, drawn: Drawn) -> str:
    if not drawn.data["workloads"]:
        return ""
    name, one = _one(rng, drawn)
    if one.pop("network", None) is None:
        one["network"] = {rng.choice(["egress", "ingress"]): f"{rng.choice([100, 1000, 5000])} Mbit/s"}
    return f"{name}: network {one.get('network')}"


def _limit(rng: random.Random, drawn: Drawn) -> str:
    level = rng.choice(["user", "user", "node", "cluster"])
    given = drawn.data["limits"].setdefault(level, {})
    if not given:
        del drawn.data["limits"][level]
        return ""
    path, given, key = _one_limit(rng, f"limits.{level}", given)
    number, _, unit = str(given[key]).partition(" ")
    fresh = max(1, round(int(number) * rng.choice([0.7, 0.9, 1.1, 1.5, 3])))
    given[key] = f"{fresh} {unit}" if unit else fresh
    return f"{path}: {number} to {fresh}"


def _one_limit(rng: random.Random, path: str, given: Data) -> tuple[str, Data, str]:
    """One of the limits, with its path and the table that has it: those of GPU models are in one of their own."""
    key = rng.choice(list(given))
    return _one_limit(rng, f"{path}.{key}", given[key]) if isinstance(given[key], dict) else (f"{path}.{key}", given, key)


def _team(rng: random.Random, drawn: Drawn) -> str:
    """Another limit of a team, another team of a user, another parent, or another name."""
    teams = drawn.data["teams"]
    name = rng.choice([name for name in teams if "limits" in teams[name]])
    what = rng.choice(["limit", "limit", "user", "parent", "name"])
    if what == "user" and teams[name].get("users"):
        user = teams[name]["users"].pop(rng.randrange(len(teams[name]["users"])))
        other = rng.choice(list(teams))
        teams[other].setdefault("users", []).append(user)
        return f"{user} goes from {name} to {other}"
    if what == "parent":
        teams[name].pop("parent", None)
        line, others = {name}, [other for other in teams if other != name]
        while more := [other for other in others if other not in line and teams[other].get("parent") in line]:
            line.update(more)
        outer = rng.choice([None, *(other for other in others if other not in line)])
        teams[name] |= {"parent": outer} if outer else {}
        return f"{name} is inside {outer}"
    if what == "name" and not any(one.get("team") == name for one in drawn.data["limits"].get("except", ())):
        fresh = f"{name}-{rng.randrange(10**6)}"[-30:].lstrip("-0123456789")
        if fresh not in teams:
            drawn.data["teams"] = {fresh if key == name else key: one for key, one in teams.items()}
            for one in drawn.data["teams"].values():
                if one.get("parent") == name:
                    one["parent"] = fresh
            return f"team {name} is called {fresh}"
    path, given, key = _one_limit(rng, f"teams.{name}.limits", teams[name]["limits"])
    number, _, unit = str(given[key]).partition(" ")
    most = max(1, round(int(number) * rng.choice([0.5, 0.8, 1.2, 2])))
    given[key] = f"{most} {unit}" if unit else most
    return f"{path}: {number} to {most}"


def _except(rng: random.Random, drawn: Drawn) -> str:
    """One comes, one goes, or days pass and one may be over."""
    data = drawn.data
    given = data["limits"].get("except", [])
    kind = rng.choice(["add", "drop", "days"])
    if kind == "add":
        shapes = [read_shape(data["hardware"][e["hardware"]]) for e in data["nodes"].values()]
        has = {key: sum(s[key] for s in shapes) for key in ("gpus", "vcpus", "memory")}
        data["limits"]["except"] = [*given, exception(rng, data, has, drawn.today)]
        return f"exception {data['limits']['except'][-1]}"
    if kind == "drop" and given:
        gone = given.pop(rng.randrange(len(given)))
        if not given:
            del data["limits"]["except"]
        return f"no exception for {gone.get('user') or gone['team']} any more"
    if kind == "days" and given:
        drawn.today += datetime.timedelta(days=rng.choice([1, 7, 45]))
        return f"it is {drawn.today}"
    return ""


def _state(rng: random.Random, drawn: Drawn) -> str:
    entries = drawn.data["nodes"]
    if not entries:
        return ""
    name = rng.choice(list(entries))
    if "state" in entries[name]:
        for key in ("state", "drain_by", "why"):
            entries[name].pop(key, None)
        return f"{name}: ready"
    entries[name] |= state(rng, drawn.today)
    return f"{name}: {entries[name]['state']} {entries[name].get('drain_by', '')}".rstrip()


def _more_nodes(rng: random.Random, drawn: Drawn) -> str:
    entries = drawn.data["nodes"]
    like = rng.choice(list(entries))
    stem = like.rsplit("-", 1)[0]
    used = [int(name.rsplit("-", 1)[1]) for name in entries if name.rsplit("-", 1)[0] == stem]
    width, number = len(like.rsplit("-", 1)[1]), max(used) + 1
    entry = {key: value for key, value in entries[like].items() if key not in ("state", "drain_by", "why")}
    for i in range(rng.choice([1, 1, 2, 4])):
        entries[f"{stem}-{number + i:0{width}d}"] = dict(entry)
    return f"more nodes: {stem}-{number:0{width}d}"


def _fewer_nodes(rng: random.Random, drawn: Drawn) -> str:
    entries = drawn.data["nodes"]
    if len(entries) < 3:
        return ""
    name = rng.choice(list(entries))
    del entries[name]
    return f"node {name} is taken out of the file"


def _node(rng: random.Random, drawn: Drawn) -> str:
    """Another rack, site, tuning or label of a node."""
    data = drawn.data
    name = rng.choice(list(data["nodes"]))
    entry = data["nodes"][name]
    key = rng.choice(["rack", "tuning", "labels"])
    if key == "labels":
        label = rng.choice(list(LABELS))
        entry["labels"] = entry.get("labels", {}) | {label: rng.choice(LABELS[label])}
    else:
        known = list(data["racks" if key == "rack" else "tuning"])
        if not known:
            return ""
        entry[key] = rng.choice(known)
    return f"{name}: {key} {entry[key]}"


def _hardware(rng: random.Random, drawn: Drawn) -> str:
    """A shape turns out to be another: a GPU less, less memory, or a larger card."""
    name = rng.choice(list(drawn.data["hardware"]))
    shape = read_shape(drawn.data["hardware"][name])
    key = rng.choice(["gpus", "memory", "vcpus", "nvme", "nic"])
    if not shape[key]:
        return ""
    shape[key] = max(1, shape[key] - 1 if key == "gpus" else round(shape[key] * rng.choice([0.9, 0.97, 1.1])))
    drawn.data["hardware"][name] = written_shape(shape)
    return f"hardware {name}: {key} {shape[key]}"


def _budget(rng: random.Random, drawn: Drawn) -> str:
    racks = drawn.data["racks"]
    if not racks:
        return ""
    name = rng.choice(list(racks))
    key = rng.choice(["power", "uplink"])
    if key in racks[name] and chance(rng, 0.2):
        del racks[name][key]
        return f"{name}: no {key} any more"
    drawn_watts, gpus = watts_of(drawn.data, name)
    if key == "power":
        racks[name][key] = f"{drawn_watts + gpus * rng.choice([0, 20, 100, 400]) + 1} W"
    else:
        before = int(racks[name].get(key, "100 Gbit/s").split()[0])
        racks[name][key] = f"{max(1, round(before * rng.choice([0.5, 0.9, 1.2, 2])))} Gbit/s"
    return f"{name}: {key} {racks[name][key]}"


def _tuning(rng: random.Random, drawn: Drawn) -> str:
    known = [name for name, one in drawn.data["tuning"].items() if "gpu_power" in one]
    if not known:
        return ""
    name = rng.choice(known)
    was = drawn.data["tuning"][name]["gpu_power"]
    fresh = max(100, ranges.least(was) + rng.choice([-100, -50, 50, 100]))
    drawn.data["tuning"][name]["gpu_power"] = f"{ranges.with_least(was.removesuffix(' W'), fresh)} W"
    return f"tuning {name}: {drawn.data['tuning'][name]['gpu_power']}"


def _solve(rng: random.Random, drawn: Drawn) -> str:
    drawn.data["solve"]["moves"] = rng.choice([0, 1, 2, 4, 8])
    return f"solve.moves {drawn.data['solve']['moves']}"


def _nothing(rng: random.Random, drawn: Drawn) -> str:
    return "nothing"


#: How often each comes.
EDITS: dict[Edit, int] = {
    _add: 20, _remove: 8, _replicas: 12, _size: 10, _priority: 5, _where: 4, _user: 2, _network: 2, _ceiling: 3, _limit: 6, _except: 4,
    _state: 16, _more_nodes: 4, _fewer_nodes: 2, _node: 4, _hardware: 3, _budget: 4, _tuning: 2, _solve: 3, _churn: 6,
    _nothing: 6,
}  # fmt: skip
