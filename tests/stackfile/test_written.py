"""Does the quick reading of a lock say the same as reading it as YAML, or nothing at all?"""

from __future__ import annotations

import random

import pytest

from swarm_iac.errors import StackFileError
from swarm_iac.model.placement import Allocation, Placement, Unplaced
from swarm_iac.stackfile.locks import fast_reader, lock
from swarm_iac.units import BitsPerSecond, Bytes, Cpus

HEAD = lock.dump(lock.Lock())
SIZES = ("512 GB", "1 B", "1073741825 B", "3 GiB", "0", "16 TB")
#: What a hand, a merge or a mischief may put there.
WORDS = (
    "true",
    "null",
    "no",
    "~",
    "01",
    "0x1f",
    "0o17",
    "1e3",
    ".5",
    "5.",
    "1_000",
    "-1",
    "x" * 41,
    "1 gb",
    "é",
    "'a'",
    '"a"',
    "",
)
LETTERS = "azAZ019 -_.:,[]{}#&*!|>'\"%@`\n\t\\~/éß\u2028\x00\ufeff"


def drawn(rng: random.Random) -> lock.Lock:
    """A lock of a few allocations with whatever such may have."""
    allocations, digests = [], {}
    for number in range(rng.randint(0, 4)):
        workload = rng.choice(("chat", "pre-train-2", "a", "true-story"))
        one = Allocation(
            name=f"{workload}-{number}", workload=workload, index=number, node=rng.choice(("gpu-01", "c")),
            gpus=tuple(rng.sample(range(16), rng.randint(0, 3))), cpus=tuple(range(rng.choice((0, 2, 130)))),
            numa=tuple(range(rng.randint(0, 2))), vcpus=Cpus(rng.choice((1, 500, 1500, 24000))),
            memory=Bytes.parse(rng.choice(SIZES)), storage=Bytes.parse(rng.choice(SIZES)),
            egress=BitsPerSecond(rng.choice((0, 1, 25 * 10**9))), ingress=BitsPerSecond(rng.choice((0, 1500))),
        )  # fmt: skip
        one = one.released() if rng.random() < 0.3 else one
        allocations.append(one)
        digests[one.name] = f"{rng.getrandbits(48):012x}"
    gone = [Unplaced(workload=name, missing=(0, 7)) for name in ("etl", "gang-1")[: rng.randint(0, 2)]]
    placement = Placement(allocations=tuple(sorted(allocations, key=lambda one: one.name)), unplaced=tuple(gone))
    return lock.Lock(placement, digests, {one.workload: "0123456789ab" for one in gone})


def by_yaml(text: str) -> lock.Lock | None:
    """What reading the text as YAML says; None where it refuses it."""
    try:
        return lock._read(text, "lab.lock.yaml")
    except StackFileError:
        return None


@pytest.mark.parametrize("seed", range(40))
def test_what_we_write_is_read_at_once_and_is_what_was_written(seed: int) -> None:
    made = drawn(random.Random(seed))
    text = lock.dump(made)
    assert fast_reader.read(text, HEAD) is not None
    assert lock.parse(text, "lab.lock.yaml") == made == by_yaml(text)


@pytest.mark.parametrize("seed", range(40))
def test_a_lock_that_was_changed_is_read_as_yaml_reads_it(seed: int) -> None:
    rng = random.Random(seed)
    text = lock.dump(drawn(rng))
    for _ in range(60):
        at = rng.randrange(len(text))
        lines = text.split("\n")
        line = rng.randrange(len(lines))
        key = lines[line].partition(":")[0]
        changed = rng.choice((
            text[:at] + rng.choice(LETTERS) + text[at + 1 :],
            text[:at] + rng.choice(LETTERS) + text[at:],
            text[:at] + text[at + 1 :],
            text[:at],
            "\n".join([*lines[:line], f"{key}: {rng.choice(WORDS)}", *lines[line + 1 :]]),
            "\n".join([*lines[:line], *lines[line + 1 :]]),
            "\n".join([*lines[: line + 1], *lines[line:]]),
            text + text[len(HEAD) :],
        ))  # fmt: skip
        if fast_reader.read(changed, HEAD) is not None:
            assert lock.parse(changed, "lab.lock.yaml") == by_yaml(changed), changed
