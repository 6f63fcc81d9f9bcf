"""Can a broken stack file ever end in a traceback, a hang, or a refusal without a line?

500 mutations, `SWARM_MUTATIONS=10000` for the long count; each is made from its own number, so a failure repeats.
"""

from __future__ import annotations

import datetime
import os
import random
import time
from pathlib import Path

from swarm_iac.errors import StackFileError
from swarm_iac.stackfile import loads

ROOT = Path(__file__).parents[2]
TODAY = datetime.date(2026, 6, 1)
COUNT = int(os.environ.get("SWARM_MUTATIONS", "500"))
SAMPLES = (ROOT / "stacks" / "dev.yaml", Path(__file__).parent / "mistakes" / "references-at-once.yaml")
TOKENS = (
    "{", "}", "[", "]", ": ", "- ", "&a ", "*a ", "!!int ", "!x ", "|", ">", "'", '"', "#", "%", "@", "`", "---\n", "...\n",
    "\t", "\n", "\r", "\x00", "\u2028", "\ufeff", "null", "true", "~", "-1", "1e999", "9" * 30, "0x10", ".nan", "8 x H100",
    "1..2", "gpu-[01-99999999]", "[0-9]", "{name}", "2027-02-31", "💥", "<<: ", "? ", "=", "a" * 5000, "[" * 300,
)  # fmt: skip


def mutated(raw: bytes, chance: random.Random) -> bytes:
    """One to four changes of the kinds that editors, merges and people make."""
    for _ in range(chance.randint(1, 4)):
        lines = raw.split(b"\n")
        at = chance.randrange(len(lines))
        kind = chance.randrange(7)
        if kind == 0 and raw:
            spot = chance.randrange(len(raw))
            raw = raw[:spot] + bytes([raw[spot] ^ (1 << chance.randrange(8))]) + raw[spot + 1 :]
            continue
        if kind == 1:
            del lines[at]
        elif kind == 2:
            lines.insert(chance.randrange(len(lines)), lines[at])
        elif kind == 3:
            other = chance.randrange(len(lines))
            key, colon, _ = lines[at].partition(b":")
            lines[at] = key + colon + lines[other].partition(b":")[2]
        elif kind == 4:
            lines[at] = b" " * chance.randrange(9) + lines[at].lstrip()
        elif kind == 5:
            spot = chance.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:spot] + chance.choice(TOKENS).encode() + lines[at][spot:]
        else:
            words = lines[at].split(b" ")
            words[chance.randrange(len(words))] = chance.choice(TOKENS).encode()
            lines[at] = b" ".join(words)
        raw = b"\n".join(lines)
    return raw


def test_broken_file_never_ends_without_a_line() -> None:
    samples = [path.read_bytes() for path in SAMPLES]
    refused = 0
    for number in range(COUNT):
        raw = mutated(samples[number % len(samples)], random.Random(number))
        before = time.monotonic()
        try:
            loads(raw, "mutated.yaml", policies=ROOT / "policies", today=TODAY)
        except StackFileError as error:
            refused += 1
            assert error.problems, number
            assert all(problem.place.line >= 1 and problem.message for problem in error.problems), number
            assert "Input should" not in str(error), (number, str(error))
        except Exception as error:
            raise AssertionError(f"mutation {number} ended in {error!r}") from error
        assert time.monotonic() - before < 5, number
    assert refused > COUNT // 2
