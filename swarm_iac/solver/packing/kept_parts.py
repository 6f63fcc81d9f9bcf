"""Which parts of GPUs can stay on their card when others come to the node, and how few cannot?

A card c that is held by parts which may stay is looked at by itself; all other cards are filled by an arc flow:

    Σ_w share_w · keep[w,c] + Σ_s s · beside[s,c] ≤ left_c                  where fixed parts hold it too
    Σ_w share_w · keep[w,c] + Σ_s s · beside[s,c] ≤ WHOLE · opened_c        else, and opened_c takes an empty card
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from swarm_iac.model.device import WHOLE
from swarm_iac.solver.backend.cpsat import cp_model, one_worker, run, solved
from swarm_iac.solver.packing.shared_gpus import flow, pack

#: Parts of each workload on each card.
OnCard = Mapping[str, Counter[int]]
#: Deterministic time of counting exactly how many of a node's parts have to change their card.
EFFORT = 1.0


@dataclass(frozen=True)
class Cards:
    """The cards of a node: how many are `empty` but for `stand`, and what is left of those that fixed parts hold.

    `stand`: the parts that may stay, by workload.
    """

    empty: int
    partial: Mapping[int, int]
    stand: OnCard


@dataclass
class Beside:
    """Variables: parts that keep their card; for each share all parts of it on the node; cards taken from the empty."""

    keep: dict[tuple[str, int], cp_model.IntVar] = field(default_factory=dict)
    placed: dict[int, list[cp_model.IntVar]] = field(default_factory=dict)
    opened: list[cp_model.IntVar] = field(default_factory=list)


def beside(model: cp_model.CpModel, shares: Mapping[str, int], cards: Cards) -> Beside:
    """Parts of these shares, by workload, on the cards of a node."""
    found = Beside(placed={share: [] for share in sorted(set(shares.values()))})
    held = sorted({card for counts in cards.stand.values() for card in counts})
    own = [card for card in held if card not in cards.partial]
    for card in held:
        left: cp_model.LinearExprT = cards.partial.get(card, 0)
        if card in own:
            found.opened.append(model.new_bool_var(""))
            left = WHOLE * found.opened[-1]
        terms = []
        for name, counts in cards.stand.items():
            if counts[card]:
                keep = model.new_int_var(0, counts[card], "")
                found.keep[name, card] = keep
                found.placed[shares[name]].append(keep)
                terms.append(keep * shares[name])
        for share, placed in found.placed.items():
            more = model.new_int_var(0, WHOLE // share, "")
            placed.append(more)
            terms.append(more * share)
        model.add(sum(terms) <= left)
    others = Counter(WHOLE - left for card, left in cards.partial.items() if card not in held)
    arcs = flow(model, shares.values(), Counter({0: max(0, cards.empty - len(own))}) + others)
    for (share, height), arc in arcs.items():
        found.placed[share].append(arc)
        if not height:
            found.opened.append(arc)
    return found


def keeping(cards: Cards, shares: Mapping[str, int], counts: Mapping[str, int], wholes: int) -> dict[str, Counter[int]] | None:
    """How many parts of each workload stay on which card, where so many are on the node beside `wholes` whole GPUs.

    As few as possible change their card. None where they do not fit at all.
    """
    stays = {name: _first(on, counts[name]) for name, on in cards.stand.items()}
    left = dict(cards.partial)
    for name, on in stays.items():
        for card, count in on.items():
            left[card] = left.get(card, WHOLE) - count * shares[name]
    comes = [shares[name] for name, count in counts.items() for _ in range(count - stays.get(name, Counter()).total())]
    empty = cards.empty - wholes - sum(card not in cards.partial for card in left)
    if empty >= 0 and pack(comes, [*left.values(), *[WHOLE] * empty]) is not None:
        return stays
    model = cp_model.CpModel()
    found = beside(model, shares, cards)
    for share, placed in found.placed.items():
        model.add(sum(placed) == sum(count for name, count in counts.items() if shares[name] == share))
    for name in cards.stand:
        model.add(sum(var for (one, _), var in found.keep.items() if one == name) <= counts[name])
    model.add(wholes + sum(found.opened) <= cards.empty)
    model.maximize(sum(found.keep.values()))
    solver = one_worker(EFFORT)
    if not solved(run(solver, model)):
        return None
    kept: dict[str, Counter[int]] = {name: Counter() for name in cards.stand}
    for (name, card), var in found.keep.items():
        kept[name] += Counter({card: solver.value(var)})
    return kept


def changed(cards: Cards, kept: OnCard | None, counts: Mapping[str, int]) -> int:
    """How many parts stay on the node and not on their card."""
    could = sum(min(on.total(), counts[name]) for name, on in cards.stand.items())
    return could - (sum(on.total() for on in kept.values()) if kept is not None else 0)


def _first(on: Counter[int], count: int) -> Counter[int]:
    """So many of the parts, those on the lowest cards."""
    return Counter(sorted(on.elements())[:count])
