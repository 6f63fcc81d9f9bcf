"""What is on each card of each node, and by which colour and letter is it shown: by team, by use, by health?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from swarm_iac.model.placement import Allocation
from swarm_iac.model.stack import Node, Stack
from swarm_iac.page.fleet_map import NO_TEAM
from swarm_iac.pluralize import pluralize
from swarm_iac.printable import printable
from swarm_iac.ranges import natural
from swarm_iac.web.standing import Standing

By = Literal["team", "use", "health"]
WAYS: tuple[str, ...] = get_args(By)
#: Colours of teams; with more teams they begin again, and the letters do not.
COLOURS = 10
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#: Cards of a node that are drawn; no machine has more.
_MOST = 64
_STATES = {"cordon": "C", "drain": "D", "lost": "L"}


@dataclass(frozen=True)
class Sign:
    """How a card is shown. `kind`: class of its colour; `letter`: what is on it for who sees no colour; `text`: in words."""

    kind: str
    letter: str
    text: str


FREE = Sign("free", "·", "free")
NOBODY = Sign("none", "-", NO_TEAM)


@dataclass(frozen=True)
class NodeCards:
    """A node with its cards. `text`: all of them in words; `note`: why it takes no new work, or does not answer."""

    name: str
    cards: tuple[Sign, ...]
    text: str
    note: str = ""
    others: int = 0


@dataclass(frozen=True)
class RackCards:
    """The nodes of one rack; those in none have no name."""

    name: str
    nodes: tuple[NodeCards, ...]
    held: int
    total: int


@dataclass(frozen=True)
class FleetCards:
    """All racks, and what each sign means."""

    by: str
    racks: tuple[RackCards, ...]
    legend: tuple[Sign, ...]


def cards(standing: Standing, by: str, measured: Mapping[str, Any] | None) -> FleetCards:
    """Every node. `measured`: the nodes in the document of `swarm top --json`, if they were asked."""
    stack, signs = standing.stack, team_signs(standing.stack)
    of_users = {user: signs[name] for name, team in reversed(stack.teams.items()) for user in team.users}
    here: dict[str, list[Allocation]] = {}
    for one in standing.placement.going():
        here.setdefault(one.node, []).append(one)
    seen: Counter[Sign] = Counter()
    racks: dict[str, list[tuple[NodeCards, int]]] = {}
    for name, node in stack.nodes.items():
        owners = _owners(stack, here.get(name, ()), of_users)
        count = min(_MOST, max(stack.hardware[node.hardware].gpus.count, *(card + 1 for card in owners), 0))
        found = (measured or {}).get(name)
        shown = tuple(_sign(by, node, owners.get(card, []), found) for card in range(count))
        seen.update(shown)
        loose = sum(not one.gpus for one in here.get(name, ()))
        note = _note(node, found)
        racks.setdefault(node.rack or "", []).append(
            (NodeCards(name, shown, _words(shown), note, loose), sum(card in owners for card in range(count)))
        )
    ordered = sorted(racks, key=lambda rack: (not rack, natural(rack)))
    legend = sorted(seen, key=lambda sign: (sign == FREE, sign.text))
    return FleetCards(by, tuple(_rack(rack, racks[rack]) for rack in ordered), tuple(legend))


def _rack(name: str, nodes: list[tuple[NodeCards, int]]) -> RackCards:
    nodes.sort(key=lambda pair: natural(pair[0].name))
    held, total = sum(count for _, count in nodes), sum(len(node.cards) for node, _ in nodes)
    return RackCards(name, tuple(node for node, _ in nodes), held, total)


def team_signs(stack: Stack) -> dict[str, Sign]:
    """Colour and letter of each team, and of users without one, in the order of the stack file."""
    found = {
        name: Sign(f"t{i % COLOURS}", _LETTERS[i] if i < len(_LETTERS) else f"{i}", name) for i, name in enumerate(stack.teams)
    }
    return {**found, NO_TEAM: NOBODY}


def team_of(stack: Stack, workload: str, user: str | None = None) -> str:
    """The team of who runs a workload; of one that left the stack file, of the user in the lock."""
    return next(iter(stack.teams_of(_user(stack, workload, user))), NO_TEAM)


def _user(stack: Stack, workload: str, user: str | None) -> str:
    return stack.workloads[workload].user if workload in stack.workloads else user or ""


def _owners(stack: Stack, ones: Iterable[Allocation], of_users: Mapping[str, Sign]) -> dict[int, list[tuple[Sign, int]]]:
    """Of each card that is held: by which teams, and how much of it. [thousandths]"""
    found: dict[int, list[tuple[Sign, int]]] = {}
    for one in ones:
        sign = of_users.get(_user(stack, one.workload, one.user), NOBODY)
        for each in one.gpus:
            found.setdefault(each.index, []).append((sign, each.part))
    return found


def _sign(by: str, node: Node, owners: list[tuple[Sign, int]], measured: Any) -> Sign:
    if by == "health":
        return _health(node, measured)
    if not owners:
        return FREE
    if by == "team":
        teams = {sign for sign, _ in owners}
        return teams.pop() if len(teams) == 1 else Sign("mixed", "+", "several teams")
    busy = measured["held"]["busy"] if measured and not measured["error"] else None
    if busy is None:
        part = sum(part for _, part in owners) < 1000
        return Sign("part", "½", "held in part") if part else Sign("held", "H", "held; how busy is not known")
    tenth = min(9, int(busy * 10))
    return Sign(f"u{tenth // 2}", str(tenth), f"held; the node's GPUs are {tenth * 10} to {tenth * 10 + 10} % busy")


def _health(node: Node, measured: Any) -> Sign:
    if node.state in _STATES:
        return Sign(node.state, _STATES[node.state], node.state)
    if measured is None:
        return Sign("unknown", "?", "ready; not asked")
    if measured["error"]:
        return Sign("dark", "!", "does not answer")
    return Sign("stale", "~", "answers, and cannot measure all") if measured["stale"] else Sign("well", "✓", "answers")


def _note(node: Node, measured: Any) -> str:
    parts: list[str] = [node.state] if node.state != "ready" else []
    parts += ["no answer"] if measured and measured["error"] else []
    return printable(", ".join(parts))


def _words(shown: tuple[Sign, ...]) -> str:
    count = Counter(sign.text for sign in shown)
    each = ", ".join(f"{number} {text}" for text, number in count.items())
    return f"{pluralize(len(shown), 'GPU')}: {each}" if shown else "no GPU"
