"""Which fleet has somebody? Machines, racks, settings, people and their ceilings, drawn from a seed."""

from __future__ import annotations

import datetime
import math
import random
from collections import Counter
from typing import Any

from tests.benchmarks.fleets.written import Data, Drawn

TODAY = datetime.date(2026, 11, 20)
GB = 10**9

#: GPU models and how common they are; those that the product does not know get their memory in the file.
MODELS = {
    "H100": 6,
    "A100": 5,
    "L40S": 4,
    "H200": 3,
    "A10": 2,
    "T4": 2,
    "V100": 1,
    "RTX4090": 2,
    "B200": 1,
    "L4": 1,
    "MI300X": 1,
}
MEMORY = {
    "H100": 80, "A100": 80, "L40S": 48, "H200": 141, "A10": 24, "T4": 16, "V100": 32, "RTX4090": 24, "B200": 180, "L4": 24,
    "MI300X": 192,
}  # fmt: skip
COUNTS = {0: 6, 8: 8, 4: 6, 2: 3, 1: 3, 6: 1, 3: 1, 5: 1, 7: 1, 10: 1, 16: 1}
LABELS = {"fabric": ("ib", "roce"), "disk": ("fast", "slow"), "pool": ("a", "b", "c"), "gen": ("1", "2")}
SITES = ("fra", "ams", "lab")
NAMES = ("ada", "bo", "cy", "dora", "eli", "fay", "gus", "hana", "ivo", "jan", "kim", "lea", "max", "nina", "olaf", "pia")


def weighted(rng: random.Random, table: dict[Any, int]) -> Any:
    """One key, as often as its weight says."""
    return rng.choices(list(table), list(table.values()))[0]


def chance(rng: random.Random, part: float) -> bool:
    """True in so many of all cases."""
    return rng.random() < part


def fleet(seed: int, machines: int) -> Drawn:
    """A fleet of so many machines with nothing to run yet."""
    rng = random.Random(f"fleet {seed}")
    hardware = {f"{'gc'[not s['gpus']]}{i}": s for i, s in enumerate(_shapes(rng))}
    tuning = _tunings(rng)
    sites = SITES[: rng.choice([1, 1, 2, 3])]
    racks, nodes = _nodes(rng, machines, hardware, tuning, sites)
    data: Data = {
        "fleet": f"drawn-{seed}",
        "teams": _teams(rng, machines),
        "tuning": tuning,
        "hardware": {name: written_shape(shape) for name, shape in hardware.items()},
        "racks": racks,
        "nodes": nodes,
        "workloads": {},
        "solve": _solve(rng),
    }
    _budgets(rng, data, hardware)
    data["limits"] = _limits(rng, data, hardware)
    _of_teams(random.Random(f"teams {seed}"), data, hardware)
    _of_shares(random.Random(f"shares {seed}"), data, hardware)
    _of_models(random.Random(f"models {seed}"), data, hardware)
    return Drawn({key: data[key] for key in ("fleet", "teams", "limits", *list(data)[2:-1])}, TODAY)


def written_shape(shape: Data) -> Data:
    """A shape of numbers as the file has it."""
    gpus: Any = shape["gpus"]
    if gpus:
        model, memory = shape["model"], shape["gpu_memory"]
        plain = model != "MI300X" and memory == MEMORY[model]
        gpus = f"{gpus} x {model}" if plain else {"count": gpus, "model": model, "memory": f"{memory} GB"}
    rest = {"vcpus": shape["vcpus"], "memory": f"{shape['memory']} GB"}
    for key, unit in (("nvme", "GB"), ("nic", "Gbit/s")):
        if shape[key]:
            rest[key] = f"{shape[key]} {unit}"
    if shape["numa"] > 1:
        rest["numa"] = shape["numa"]
    return ({"gpus": gpus} if gpus else {}) | rest


def read_shape(entry: Data) -> Data:
    """The reverse of `written_shape`."""
    gpus = entry.get("gpus", 0)
    if isinstance(gpus, dict):
        count, model, memory = gpus["count"], gpus["model"], int(gpus["memory"].split()[0])
    else:
        count, _, model = str(gpus).partition(" x ")
        memory = MEMORY.get(model, 0)
    numbers = {key: int(str(entry.get(key, 0)).split()[0]) for key in ("vcpus", "memory", "nvme", "nic")}
    return {"gpus": int(count), "model": model, "gpu_memory": memory, "numa": entry.get("numa", 1), **numbers}


def _shapes(rng: random.Random) -> list[Data]:
    """2 to 12 machine shapes."""
    found = []
    odd = chance(rng, 0.4)
    for i in range(rng.choice([2, 2, 3, 3, 4, 5, 6, 8, 12])):
        gpus = weighted(rng, COUNTS) if i else rng.choice([1, 2, 4, 8, 8])
        model = weighted(rng, MODELS)
        vcpus = rng.choice([8, 16, 32, 64, 96, 128, 192, 256]) if gpus < 8 else rng.choice([64, 96, 128, 192, 224])
        memory = rng.choice([64, 128, 256, 512, 768, 1024]) if gpus < 8 else rng.choice([512, 1024, 1536, 2048])
        nvme, nic = rng.choice([500, 2000, 4000, 7000, 15000, 28000]), rng.choice([10, 25, 100, 200, 400])
        if odd:
            vcpus, memory = vcpus - rng.choice([0, 0, 1, 2, 5]), memory - rng.choice([0, 3, 9, 21])
            nvme, nic = rng.choice([0, nvme, nvme + 37]), rng.choice([0, nic, nic, nic - 3])
        half = MEMORY[model] // 2 if chance(rng, 0.15) else MEMORY[model]
        found.append(
            {"gpus": gpus, "model": model, "gpu_memory": half, "vcpus": vcpus, "memory": memory, "nvme": nvme, "nic": nic}
            | {"numa": rng.choice([1, 2, 2, 4] if gpus >= 4 else [1, 1, 2])}
        )
    return found


def _tunings(rng: random.Random) -> Data:
    found: Data = {}
    for i in range(rng.choice([0, 1, 2, 3, 4])):
        one: Data = {"gpu_power": f"{rng.choice([250, 300, 350, 400, 600, 700])} W"} if chance(rng, 0.75) else {}
        if chance(rng, 0.5):
            one |= {"governor": "performance", "swappiness": rng.choice([1, 10, 60])}
        found[f"t{i}"] = one or {"tcp": "bbr"}
    return found


def _nodes(rng: random.Random, machines: int, hardware: Data, tuning: Data, sites: tuple[str, ...]) -> tuple[Data, Data]:
    """Racks and nodes: blocks of one shape, each in a rack or in none."""
    racks: Data = {}
    nodes: Data = {}
    numbers = dict.fromkeys(hardware, 0)
    size = rng.choice([1, 2, 4, 8, 10, 20])
    bare, labelled = rng.choice([0.0, 0.1, 0.3, 1.0]), rng.choice([0.0, 0.3, 0.8])
    width = len(str(machines))
    weights = {shape: rng.choice([1, 1, 2, 5]) for shape in hardware}
    while len(nodes) < machines:
        shape = weighted(rng, weights)
        entry: Data = {"hardware": shape}
        block = min(rng.randint(1, size), machines - len(nodes))
        if not chance(rng, bare):
            if not racks or chance(rng, 0.6):
                racks[f"r{len(racks) + 1}"] = {}
            entry["rack"] = list(racks)[-1]
        if chance(rng, 0.8):
            entry["site"] = rng.choice(sites)
        if tuning and chance(rng, 0.7):
            entry["tuning"] = rng.choice(list(tuning))
        entry["ssh"] = "root@{name}.example.org"
        if chance(rng, labelled):
            keys = rng.sample(list(LABELS), rng.choice([1, 1, 2]))
            entry["labels"] = {key: rng.choice(LABELS[key]) for key in keys}
        for _ in range(block):
            numbers[shape] += 1
            nodes[f"{shape}-{numbers[shape]:0{width}d}"] = dict(entry)
    ill = rng.choice([0.0, 0.0, 0.0, 0.03, 0.1])
    for entry in nodes.values():
        if chance(rng, ill):
            entry.update(state(rng))
    return racks, nodes


def state(rng: random.Random, today: datetime.date = TODAY) -> Data:
    """A state that somebody puts a node in."""
    kind = rng.choice(["cordon", "drain", "drain", "lost", "by"])
    if kind != "by":
        return {"state": kind, "why": rng.choice(["fan", "new disks", "xid 79"])}
    moment = today + datetime.timedelta(days=rng.choice([-2, 3]))
    return {"state": "drain", "drain_by": f"{moment}T08:00Z", "why": "maintenance"}


def _teams(rng: random.Random, machines: int) -> Data:
    few = [1, 3, 8] if machines <= 20 else [max(4, machines // 8)]
    count = rng.choice([*few, max(2, machines // 3), max(2, machines)])
    users = [NAMES[i] if i < len(NAMES) else f"u{i:04d}" for i in range(count)]
    teams = min(count, rng.choice([1, 2, 4]))
    return {f"team{i}": {"share": rng.choice([1, 2, 3]), "users": users[i::teams]} for i in range(teams)}


def users(data: Data) -> list[str]:
    """All users."""
    return [user for team in data["teams"].values() for user in team.get("users", ())]


def _solve(rng: random.Random) -> Data:
    found: Data = {}
    if chance(rng, 0.8):
        found["moves"] = rng.choice([0, 1, 2, 3, 4, 6, 8])
    if chance(rng, 0.5):
        found["stops"] = rng.choice([0, 2, 4, 8])
    if chance(rng, 0.15):
        found["effort"] = "quick"
    return found


def watts_of(data: Data, rack: str) -> tuple[int, int]:
    """What the tuning of a rack's nodes lets its GPUs draw [W], and how many GPUs there are; lost nodes aside."""
    drawn = gpus = 0
    for entry in data["nodes"].values():
        if entry.get("rack") == rack and entry.get("state") != "lost":
            count = read_shape(data["hardware"][entry["hardware"]])["gpus"]
            watts = data["tuning"].get(entry.get("tuning", ""), {}).get("gpu_power", "0 W")
            drawn, gpus = drawn + count * int(watts.partition("..")[0].partition(" ")[0]), gpus + count
    return drawn, gpus


def _budgets(rng: random.Random, data: Data, hardware: Data) -> None:
    """Power and uplink of racks: some bind, some do not, some have none."""
    for name, rack in data["racks"].items():
        drawn, gpus = watts_of(data, name)
        nics = sum(hardware[e["hardware"]]["nic"] for e in data["nodes"].values() if e.get("rack") == name)
        if gpus and chance(rng, 0.5):
            rack["power"] = f"{drawn + round(gpus * rng.choice([0, 30, 100, 200, 800])) + rng.choice([0, 1, 500])} W"
        if nics and chance(rng, 0.5):
            rack["uplink"] = f"{max(1, round(nics * rng.choice([0.05, 0.2, 1.0])))} Gbit/s"


def _limits(rng: random.Random, data: Data, hardware: Data) -> Data:
    """Ceilings of users, nodes and the cluster: some bind, some do not; and exceptions, some of which are over."""
    shapes = [hardware[entry["hardware"]] for entry in data["nodes"].values()]
    has = {key: sum(s[key] for s in shapes) for key in ("gpus", "vcpus", "memory", "nvme", "nic")}
    most = {key: max((s[key] for s in shapes), default=0) for key in has}
    found: Data = {}
    calm = chance(rng, 0.4)  # ceilings that bind nobody, so that machines alone are short
    if calm or chance(rng, 0.85):
        each = 2.0 if calm else rng.choice([0.5, 1.0, 3.0]) / math.sqrt(len(users(data)))
        low = {"gpus": max(1, most["gpus"]), "vcpus": 16, "memory": 128, "nvme": 1000, "nic": 10}
        found["user"] = _ceiling(rng, {key: max(low[key], math.ceil(has[key] * each)) for key in has}, 1.0 if calm else 0.8)
    if calm or chance(rng, 0.7):
        part = 1.0 if calm else rng.choice([0.6, 0.9, 1.0, 2.0])
        found["node"] = _ceiling(rng, {key: max(1, math.ceil(most[key] * part)) for key in has}, 0.7, wide=("vcpus", "memory"))
    if calm or chance(rng, 0.85) or has["gpus"] > 1000:
        part = 2.0 if calm else rng.choice([0.7, 1.0, 2.0])
        found["cluster"] = _ceiling(rng, {key: max(8, math.ceil(has[key] * part)) for key in has}, 1.0)
    if chance(rng, 0.4):
        found["except"] = [exception(rng, data, has) for _ in range(rng.choice([1, 1, 2, 3]))]
    return found


def _of_shares(rng: random.Random, data: Data, hardware: Data) -> None:
    """GPUs are shared by teams in two of five fleets; in half of those what is lent is called back."""
    fair = chance(rng, 0.4)
    gpus = sum(hardware[node["hardware"]]["gpus"] for node in data["nodes"].values())
    for team in data["teams"].values():
        if not fair:
            team.pop("share", None)
        elif "limits" not in team and "parent" not in team and chance(rng, 0.3) and gpus >= 8 * len(data["teams"]):
            team["guarantee"] = {"gpus": gpus // (4 * len(data["teams"]))}
    if fair and chance(rng, 0.5):
        data["solve"]["reclaim"] = True


def _of_teams(rng: random.Random, data: Data, hardware: Data) -> None:
    """Limits of teams, in two of five fleets; some teams are inside others, up to three deep."""
    if chance(rng, 0.6):
        return
    shapes = [hardware[entry["hardware"]] for entry in data["nodes"].values()]
    has = {key: sum(s[key] for s in shapes) for key in ("gpus", "vcpus", "memory", "nvme", "nic")}
    names = list(data["teams"])
    for outer in ("dept", "site") if chance(rng, 0.6) else ():
        inside = [name for name in data["teams"] if "parent" not in data["teams"][name] and chance(rng, 0.6)]
        data["teams"][outer] = {}
        for name in inside:
            data["teams"][name]["parent"] = outer
    for name, team in data["teams"].items():
        if chance(rng, 0.7):
            part = rng.choice([0.2, 0.4, 0.7, 1.0]) * (1 if name in names else 1.5)
            team["limits"] = _ceiling(rng, {key: max(2, math.ceil(has[key] * part)) for key in has}, 0.5)
            if not team["limits"]:
                team["limits"] = {"gpus": max(2, math.ceil(has["gpus"] * part))}
    if chance(rng, 0.2):
        data["limits"]["team"] = {"vcpus": max(16, round(has["vcpus"] * rng.choice([0.4, 1.0])))}
    if chance(rng, 0.3):
        level, per = rng.choice([("user", 2), ("team", 4), ("cluster", 6), ("node", 1)])
        least = {"user": 16, "team": 16, "cluster": 32, "node": 2}[level]
        data["limits"][level] = data["limits"].get(level, {}) | {"replicas": max(least, per * len(data["nodes"]) // 4)}
    if chance(rng, 0.2):
        whose = {"team": rng.choice(list(data["teams"])), "gpus": max(1, round(has["gpus"] * rng.choice([0.3, 1.0])))}
        until = str(TODAY + datetime.timedelta(days=rng.choice([-30, -1, 0, 5, 200])))
        data["limits"]["except"] = [*data["limits"].get("except", []), whose | {"until": until, "why": "paper deadline"}]


def _of_models(rng: random.Random, data: Data, hardware: Data) -> None:
    """Limits on GPUs of single models, in a quarter of the fleets."""
    has: Counter[str] = Counter()
    for entry in data["nodes"].values():
        shape = hardware[entry["hardware"]]
        if shape["gpus"] and shape["model"]:
            has[shape["model"]] += shape["gpus"]
    if not has or chance(rng, 0.75):
        return

    def some(part: float) -> Data:
        return {model: max(16, math.ceil(count * part)) for model, count in has.items() if chance(rng, 0.6)}

    for level, part in (("user", 0.3), ("team", 0.5), ("cluster", 0.8)):
        if chance(rng, 0.6) and (models := some(part * rng.choice([0.5, 1.0]))):
            data["limits"][level] = data["limits"].get(level, {}) | {"gpus_by_model": models}
    if chance(rng, 0.3) and (models := some(0.6)):
        until = str(TODAY + datetime.timedelta(days=rng.choice([-30, 0, 200])))
        one = {"user": rng.choice(users(data)), "gpus_by_model": models, "until": until, "why": "paper deadline"}
        data["limits"]["except"] = [*data["limits"].get("except", []), one]


def exception(rng: random.Random, data: Data, has: dict[str, int], today: datetime.date = TODAY) -> Data:
    """Another ceiling for a user until a day that may be over."""
    days = rng.choice([-30, -1, 0, 5, 40, 200])
    found: Data = {"user": rng.choice(users(data)), "gpus": max(1, round(has["gpus"] * rng.choice([0.1, 0.4, 1.0])))}
    if chance(rng, 0.4):
        found["vcpus"] = max(16, round(has["vcpus"] * rng.choice([0.2, 1.0])))
    if chance(rng, 0.3):
        found["memory"] = f"{max(64, round(has['memory'] * rng.choice([0.2, 1.0])))} GB"
    return found | {"until": str(today + datetime.timedelta(days=days)), "why": "paper deadline"}


def _ceiling(rng: random.Random, values: dict[str, int], often: float, wide: tuple[str, ...] = ()) -> Data:
    written = {
        "gpus": values["gpus"],
        "vcpus": values["vcpus"],
        "memory": f"{values['memory']} GB",
        "storage": f"{values['nvme']} GB",
        "bandwidth": f"{values['nic']} Gbit/s",
    }
    often_of = {"bandwidth": 0.15}
    return {key: value for key, value in written.items() if key in wide or chance(rng, often_of.get(key, often))}
