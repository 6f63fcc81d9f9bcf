"""Where on the cards of a node do MIG instances lie, and how few cards are cut for them?

A card is eight eighths of its memory, as a mask of bits. An instance takes some of them from one of its starts on; its compute
slices fit wherever its memory does (see `model.gpus.mig`). Intervals lie inside each other or apart. So if so many cards
do, they do when the largest are placed first, of equals those with fewer starts, each as far up as it can:
`tests/solver/test_mig.py` compares that with every way to place them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from swarm_iac.model.device import Device, instance
from swarm_iac.model.gpus.mig import SLICES, Profile, profiles_of

#: The kind of a card: its model, and its memory [bytes].
CardKind = tuple[str, int]
#: What one replica holds on its node: its GPUs, or parts or instances of some.
Held = tuple[Device, ...]
#: A card, a profile, and the eighth at which an instance of it begins.
Spot = tuple[int, str, int]
#: So many ways to let some change their position are tried.
WAYS = 2000
FULL = (1 << SLICES) - 1


def profile_of(kind: CardKind, name: str) -> Profile:
    """The profile; of a card that has none of this name, all of it."""
    return profiles_of(*kind).get(name) or Profile(name, SLICES, (0,))


def mask(start: int, size: int) -> int:
    """The bits of so many eighths."""
    return ((1 << size) - 1) << start


def mask_of(device: Device) -> int:
    """The eighths that a device takes of its card."""
    return mask(device.slices.start, len(device.slices))


@lru_cache(maxsize=4096)
def spots(kind: CardKind, name: str) -> tuple[tuple[int, int], ...]:
    """For each start of a profile, the last first, the eighth and the mask."""
    profile = profile_of(kind, name)
    each = SLICES // profile.of
    return tuple((start * each, mask(start * each, profile.size * each)) for start in sorted(profile.starts, reverse=True))


@lru_cache(maxsize=1 << 16)
def pack(kind: CardKind, cards: tuple[int, ...], counts: tuple[tuple[str, int], ...]) -> tuple[Spot, ...]:
    """A spot for each instance, on cards with these masks or on new ones after them, of which there are as few as can be."""
    order = sorted(counts, key=lambda one: (-_size(kind, one[0]), len(spots(kind, one[0])), one[0]))
    lacking = sum(_size(kind, name) * count for name, count in counts) - sum(SLICES - has.bit_count() for has in cards)
    for new in itertools.count(max(0, -(-lacking // SLICES))):
        found = _packed(kind, [*cards, *[0] * new], order)
        if found is not None:
            return found
    raise AssertionError("every instance fits a card of its own")


def _size(kind: CardKind, name: str) -> int:
    """In eighths."""
    return spots(kind, name)[0][1].bit_count()


def _packed(kind: CardKind, taken: list[int], order: Iterable[tuple[str, int]]) -> tuple[Spot, ...] | None:
    found: list[Spot] = []
    for name, count in order:
        every = spots(kind, name)
        for _ in range(count):
            fits = [(card, start, bits) for card, has in enumerate(taken) for start, bits in every if not has & bits]
            if not fits:
                return None
            small = every[0][1].bit_count() == 1  # any eighth will do: the fullest card first
            card, start, bits = min(
                fits,
                key=lambda one: (0 if small else -one[1], -taken[one[0]].bit_count(), -one[1], one[0]),
            )
            taken[card] |= bits
            found.append((card, name, start))
    return tuple(found)


def new_cards(kind: CardKind, cards: Iterable[int], counts: Mapping[str, int]) -> int:
    """How many cards are cut beside those with these masks."""
    found = tuple(sorted(cards))
    ones = tuple(sorted((name, count) for name, count in counts.items() if count > 0))
    return len({card for card, _, _ in pack(kind, found, ones) if card >= len(found)})


@dataclass
class CutCards:
    """The cut cards of one node: masks of what has its position, by card, and how many more instances of each profile."""

    kind: CardKind
    fixed: dict[int, int]
    loose: Counter[str]

    def copy(self) -> CutCards:
        """An independent copy."""
        return CutCards(self.kind, dict(self.fixed), Counter(self.loose))

    @property
    def opened(self) -> int:
        """Cards that are cut for those without a position."""
        return new_cards(self.kind, self.fixed.values(), self.loose)

    @property
    def count(self) -> int:
        """Cards that are cut."""
        return len(self.fixed) + self.opened

    def most(self, name: str, each: int, empty: int, limit: int) -> int:
        """How many more replicas with so many instances of a profile fit beside all that, and on so many empty cards."""
        loose = tuple(sorted((name, count) for name, count in self.loose.items() if count > 0))
        return _most(self.kind, tuple(sorted(self.fixed.values())), loose, (name, each), max(0, empty), limit)

    def fits(self, devices: Held, empty: int) -> bool:
        """Can these positions be taken, with the rest of what is there beside them?"""
        fixed = with_devices(self.fixed, devices)
        if fixed is None:
            return False
        return len(fixed) + new_cards(self.kind, fixed.values(), self.loose) <= self.count + max(0, empty)

    def put(self, devices: Held, sign: int = 1) -> None:
        """Take these positions, or release them."""
        for one in devices:
            bits = self.fixed.get(one.index, 0) | mask_of(one) if sign > 0 else self.fixed[one.index] & ~mask_of(one)
            self.fixed[one.index] = bits
            if not bits:
                del self.fixed[one.index]


#: Profile and number of instances of one replica.
Size = tuple[str, int]


@lru_cache(maxsize=1 << 14)  # most nodes of a large fleet are cut like some others
def _most(
    kind: CardKind, cards: tuple[int, ...], loose: tuple[tuple[str, int], ...], size: Size, empty: int, limit: int
) -> int:
    room, found = new_cards(kind, cards, dict(loose)) + empty, 0
    name, each = size
    while found < limit:
        if new_cards(kind, cards, Counter(dict(loose)) + Counter({name: (found + 1) * each})) > room:
            break
        found += 1
    return found


def with_devices(fixed: Mapping[int, int], devices: Held) -> dict[int, int] | None:
    """The masks with these instances as well; None where something lies there."""
    found = dict(fixed)
    for one in devices:
        if found.get(one.index, 0) & mask_of(one):
            return None
        found[one.index] = found.get(one.index, 0) | mask_of(one)
    return found


def keeping(
    beside: CutCards, cards: int, stand: Mapping[str, Sequence[Held]], sizes: Mapping[str, Size], counts: Mapping[str, int]
) -> dict[str, list[Held]] | None:
    """Whose instances stay where they are, if so many replicas of each workload are on a node? The most that can.

    `cards`: how many may be cut, with those `beside` whom they are; `stand`: what each that may stay holds. None where they
    do not fit at all.
    """
    every = [(name, held) for name in sorted(stand) for held in stand[name]]
    must = sum(max(0, len(stand[name]) - counts.get(name, 0)) for name in stand)
    ways = (set(out) for size in range(must, len(every) + 1) for out in itertools.combinations(range(len(every)), size))
    for out in itertools.chain(itertools.islice(ways, WAYS), [set(range(len(every)))]):
        kept: dict[str, list[Held]] = {name: [] for name in stand}
        fixed: dict[int, int] | None = dict(beside.fixed)
        for i, (name, held) in enumerate(every):
            if i not in out and fixed is not None:
                kept[name].append(held)
                fixed = with_devices(fixed, held)
        if fixed is None or any(len(ones) > counts.get(name, 0) for name, ones in kept.items()):
            continue
        rest = Counter(beside.loose)
        for name, count in counts.items():
            rest[sizes[name][0]] += (count - len(kept.get(name, ()))) * sizes[name][1]
        if len(fixed) + new_cards(beside.kind, fixed.values(), rest) <= cards:
            return kept
    return None


@dataclass(frozen=True)
class Wish:
    """One replica without a position: so many instances of a profile. `had`: where its own were."""

    label: str
    profile: str
    count: int
    had: Held = ()


def seats(
    kind: CardKind, fixed: Mapping[int, int], empty: Sequence[int], wishes: Sequence[Wish], before: Iterable[Device] = ()
) -> dict[str, Held]:
    """Positions beside `fixed`, on as few of the `empty` cards as can be, the first first.

    Its own of before, then where an instance of the profile was `before`, so that it need not be made, then any other. Raises
    ValueError where they do not fit.
    """
    order = sorted(wishes, key=lambda one: (-profile_of(kind, one.profile).part, len(spots(kind, one.profile)), one.label))
    left: Counter[str] = Counter()
    for wish in order:
        left[wish.profile] += wish.count
    most = len(fixed) + new_cards(kind, fixed.values(), left)
    if most > len(fixed) + len([card for card in empty if card not in fixed]):
        raise ValueError("more MIG instances are wanted than the node has free positions for")
    masks, found = dict(fixed), {}
    there = sorted(one for one in before if one.profile)
    for wish in order:
        mine: list[Device] = []
        for i in range(wish.count):
            left[wish.profile] -= 1
            liked = [*wish.had[i : i + 1], *wish.had, *there]
            mine.append(_seat(kind, masks, empty, wish.profile, liked, left, most))
            masks[mine[-1].index] = masks.get(mine[-1].index, 0) | mask_of(mine[-1])
        found[wish.label] = tuple(sorted(mine))
    return found


def _seat(
    kind: CardKind,
    masks: dict[int, int],
    empty: Sequence[int],
    name: str,
    liked: Iterable[Device],
    left: Counter[str],
    most: int,
) -> Device:
    """The first that is liked, if all others still fit beside it; else as `pack` places it."""
    could = {*masks, *empty}
    for one in liked:
        if one.profile == name and one.index in could:
            fixed = with_devices(masks, (one,))
            if fixed is not None and len(fixed) + new_cards(kind, fixed.values(), left) <= most:
                return one
    numbers = sorted(masks)
    rest = left + Counter({name: 1})
    packed = pack(kind, tuple(masks[card] for card in numbers), tuple(sorted((+rest).items())))
    card, _, start = next(spot for spot in packed if spot[1] == name)
    closed = [one for one in empty if one not in masks]
    profile = profile_of(kind, name)
    index = numbers[card] if card < len(numbers) else closed[card - len(numbers)]
    return instance(index, name, start * profile.of // SLICES, profile.size, profile.of)
