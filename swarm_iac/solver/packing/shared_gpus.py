"""Which replicas share which GPU? Shares packed into the cards of one node.

A replica of whole GPUs takes empty cards; a smaller share goes to one card, and the shares on a card may not exceed
WHOLE.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from swarm_iac.model.device import WHOLE
from swarm_iac.solver.backend.cpsat import cp_model, one_worker, run, solved

#: Deterministic time of packing the cards of one node.
EFFORT = 5.0
#: Steps, and shares, of the search that takes CP-SAT's place where it fails.
STEPS, DEEP = 20_000, 400
#: An arc puts a share on top of what fills a card already: (share, height).
Arcs = dict[tuple[int, int], cp_model.IntVar]


def flow(model: cp_model.CpModel, shares: Iterable[int], cards: Mapping[int, int]) -> Arcs:
    """Cards filled with shares, as an arc flow (Valério de Carvalho, 1999). `cards`: how many stand at each height.

    A card is a path from its height upwards, and what arrives at a height bounds what leaves it. Exact, and its linear
    relaxation is as strong as that over all ways to fill one card. Heights are only those that larger shares reach,
    since every path can be sorted.
    """
    arcs: Arcs = {}
    reached = {height for height, count in cards.items() if count}
    most = sum(cards.values())
    for share in sorted(set(shares), reverse=True):
        heights = sorted(reached)
        for height in heights:  # grows while it is walked: a share may stand on its equals
            if height + share <= WHOLE:
                arcs[share, height] = model.new_int_var(0, most, "")
                if height + share not in reached:
                    reached.add(height + share)
                    heights.append(height + share)
    leaving, entering = _sides(arcs)
    for height, out in leaving.items():
        model.add(sum(out) <= cards.get(height, 0) + sum(entering.get(height, [])))
    return arcs


def _sides(arcs: Arcs) -> tuple[dict[int, list[cp_model.IntVar]], dict[int, list[cp_model.IntVar]]]:
    leaving: dict[int, list[cp_model.IntVar]] = {}
    entering: dict[int, list[cp_model.IntVar]] = {}
    for (share, height), arc in arcs.items():
        leaving.setdefault(height, []).append(arc)
        entering.setdefault(height + share, []).append(arc)
    return leaving, entering


def pack(shares: Sequence[int], free: Sequence[int]) -> list[int] | None:
    """A card for each share, in the order given, or None where there is no way. `free`: what each card has left.

    Best fit decreasing first; where that fails, the exact flow, and a search where CP-SAT fails.
    """
    left = list(free)
    chosen = [-1] * len(shares)
    for i in sorted(range(len(shares)), key=lambda i: -shares[i]):
        fitting = [card for card in range(len(left)) if left[card] >= shares[i]]
        if not fitting:
            return _packed(shares, free) if sum(shares) <= sum(free) else None
        chosen[i] = min(fitting, key=lambda card: left[card])
        left[chosen[i]] -= shares[i]
    return chosen


def fewest_cards(shares: Sequence[int]) -> int:
    """How few cards hold these shares."""
    count = -(-sum(shares) // WHOLE)
    while shares and pack(shares, [WHOLE] * count) is None:
        count += 1
    return count


def _searched(shares: Sequence[int], free: Sequence[int]) -> list[int] | None:
    """The same by trying, the largest first, each on cards with different free shares; gives up after STEPS."""
    order = sorted(range(len(shares)), key=lambda i: -shares[i])
    left, chosen, steps = list(free), [-1] * len(shares), 0

    def place(at: int) -> bool:
        nonlocal steps
        steps += 1
        if at == len(order):
            return True
        tried: set[int] = set()
        for card in sorted(range(len(left)), key=lambda card: left[card]):
            if left[card] >= shares[order[at]] and left[card] not in tried and steps < STEPS:
                tried.add(left[card])
                left[card] -= shares[order[at]]
                chosen[order[at]] = card
                if place(at + 1):
                    return True
                left[card] += shares[order[at]]
        return False

    return chosen if len(shares) < DEEP and place(0) else None


def _packed(shares: Sequence[int], free: Sequence[int]) -> list[int] | None:
    model = cp_model.CpModel()
    arcs = flow(model, shares, Counter(WHOLE - left for left in free))
    for share, count in Counter(shares).items():
        model.add(sum(arc for (size, _), arc in arcs.items() if size == share) == count)
    solver = one_worker(EFFORT)
    if not solved(run(solver, model)):
        return _searched(shares, free)
    left = Counter({key: solver.value(arc) for key, arc in arcs.items()})
    items: dict[int, list[int]] = {}
    for i, share in enumerate(shares):
        items.setdefault(share, []).append(i)
    chosen = [-1] * len(shares)
    for card, capacity in enumerate(free):
        height = WHOLE - capacity
        while (share := next((s for s in items if left[s, height]), 0)) != 0:
            left[share, height] -= 1
            chosen[items[share].pop()] = card
            height += share
    return chosen
