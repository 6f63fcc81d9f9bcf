"""Which MIG profiles has a card, and at which positions of it may an instance of each lie?

Source: NVIDIA Multi-Instance GPU User Guide, "Supported MIG Profiles", and what `nvidia-smi mig -lgipp` prints of each card.
The memory of a card is cut into 8 slices (A30: 4). An instance takes `size` of them from one of its `starts` on, and no two
overlap; then their compute slices fit as well. Profiles with media extensions (`+me`) and the like are left out: they take the
same positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

#: Positions of a card in which those of all cards are whole numbers.
SLICES = 8


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of instance of a card whose memory has `of` slices."""

    name: str
    size: int
    starts: tuple[int, ...]
    of: int = SLICES

    @property
    def part(self) -> int:
        """What it is of a card, by its memory. [thousandths]"""
        return 1000 * self.size // self.of


def _seven(*names: str) -> dict[str, Profile]:
    """A card of seven compute slices and eight of memory: its 1g, 1g of twice the memory, 2g, 3g, 4g and 7g."""
    places = (
        (1, (0, 1, 2, 3, 4, 5, 6)), (2, (0, 2, 4, 6)), (2, (0, 2, 4)), (4, (0, 4)), (4, (0,)), (8, (0,)),
    )  # fmt: skip
    return {name: Profile(name, size, starts) for name, (size, starts) in zip(names, places, strict=True)}


#: By model and memory of the card [GB].
PROFILES: Mapping[tuple[str, int], Mapping[str, Profile]] = {
    ("A30", 24): {
        "1g.6gb": Profile("1g.6gb", 1, (0, 1, 2, 3), 4),
        "2g.12gb": Profile("2g.12gb", 2, (0, 2), 4),
        "4g.24gb": Profile("4g.24gb", 4, (0,), 4),
    },
    ("A100", 40): _seven("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"),
    ("A100", 80): _seven("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
    ("H100", 80): _seven("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
    ("H100", 94): _seven("1g.12gb", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"),
    ("H100", 96): _seven("1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"),
    ("H200", 141): _seven("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"),
    ("B200", 180): _seven("1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"),
}
#: Models of which any card can be cut.
MODELS = frozenset(model for model, _ in PROFILES)
#: A card shows up to so much less or more memory than its name says. [thousandths]
_OFF = 40


@lru_cache(maxsize=256)
def profiles_of(model: str, memory: int) -> Mapping[str, Profile]:
    """The profiles of a card of this model and memory [bytes]; none where it cannot be cut.

    Names count in GB or GiB, and drivers show a little less than either: the nearest name counts.
    """
    found = {gb: min(abs(memory - gb * unit) for unit in (10**9, 1 << 30)) for name, gb in PROFILES if name == model}
    best = min(found, key=lambda gb: (found[gb], gb), default=0)
    return PROFILES[model, best] if best and found[best] * 1000 <= _OFF * memory else {}


@lru_cache(maxsize=1024)
def part_of(models: str, name: str) -> int:
    """What an instance of that profile is of a card of these models (`A100|H100`). 0: one of them has none. [thousandths]

    A100/1g.10gb is an eighth of a card of 80 GB; the instance of this name on one of 40 GB, a quarter of that, is another one.
    """
    cards = [[each for (model, _), each in PROFILES.items() if model == one] for one in models.split("|")]
    return min(min((each[name].part for each in ones if name in each), default=0) for ones in cards)


def profile_names(model: str) -> tuple[str, ...]:
    """The profiles of cards of this model, small ones first."""
    found = {name: each.part for (one, _), ones in PROFILES.items() if one == model for name, each in ones.items()}
    return tuple(sorted(found, key=lambda name: (found[name], name)))
