"""What does each node say of itself? OpenSSH in parallel, the node's own program, nothing changed.

Not through Ansible: starting it costs more than the whole read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from swarm_iac.model.state import Observed
from swarm_iac.pluralize import pluralize
from swarm_iac.printable import printable, printable_all
from swarm_iac.reach import ask
from swarm_iac.reach.answer import decode
from swarm_iac.reach.call import call
from swarm_iac.reach.node_program import archive

_Answer = TypeVar("_Answer")
#: Nodes that are asked at the same time: each costs a process of ssh here.
AT_ONCE = 64
#: Wrong values of an answer that are examined.
_TOLD = 1000
#: Clock offset of a node that is reported. [s]
_OFF = 30


def observe(targets: Mapping[str, str], *, ssh_config: Path | None = None, timeout: float = 20) -> dict[str, Observed]:
    """Read every node. `targets`: node → address; `timeout` [s] is for each node alone.

    Never raises for one node: Observed.error says in the node's or ssh's own words why it could not be read.
    """
    return asyncio.run(_all(targets, ssh_config, timeout))


async def _all(targets: Mapping[str, str], ssh_config: Path | None, timeout: float) -> dict[str, Observed]:
    return await each(
        targets,
        lambda node, address: _one(node, address, ssh_config, min(timeout / 2, 30)),
        lambda node, words: Observed(node=node, error=printable(words, 500)),
        timeout,
    )


async def each(
    targets: Mapping[str, str],
    answer: Callable[[str, str], Awaitable[_Answer]],
    silent: Callable[[str, str], _Answer],
    timeout: float,
) -> dict[str, _Answer]:
    """What each node answers (`answer`: of its name and address), or `silent` of its name and why it did not.

    Whatever one node's answer brings about, it is that node's alone. `timeout` [s] is for each.
    """
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(node: str, address: str) -> _Answer:
        async with gate:
            try:
                return await asyncio.wait_for(answer(node, address), timeout)
            except TimeoutError:
                return silent(node, f"no answer within {timeout:g} s")
            except Exception as error:
                return silent(node, str(error) or type(error).__name__)

    found = await asyncio.gather(*(one(node, address) for node, address in targets.items()))
    return dict(zip(targets, found, strict=True))


async def _one(node: str, address: str, ssh_config: Path | None, patience: float) -> Observed:
    question = f"observe {patience:g}"
    began = time.time()
    code, out, err = await call(ask.installed(address, ssh_config, question), b"")
    if code == ask.ABSENT:
        program = archive()
        code, out, err = await call(ask.sent(address, ssh_config, question, len(program)), program)
    if code:
        return Observed(node=node, error=_words(err, code))
    return read(node, out, (began, time.time()))


def read(node: str, answer: bytes, asked: tuple[float, float] | None = None) -> Observed:
    """The node's answer as Observed. An answer that is none becomes an error that shows its beginning.

    `asked`: when it was asked and when it had answered, by our own clock. [s since 1970]
    """
    try:
        found = {**decode(answer), "node": node}
        clock = float(found.pop("clock", 0))
        if clock and asked and not asked[0] - _OFF < clock < asked[1] + _OFF:
            off = clock - asked[1]
            words = f"its clock is {abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} this machine's"
            found["troubles"] = (*found.get("troubles", ()), words)
        # Words of a node are for people; its state is compared with what is wanted, and made printable where it is shown.
        steers = b"\\" in answer or not answer.decode(errors="replace").isprintable()  # a look that costs nothing
        for key in found.keys() - {"state", "node"} if steers else ():
            found[key] = printable_all(found[key])
        return _in_lines(Observed.model_validate(found))
    except ValidationError as error:
        return Observed(node=node, error=_line(f"the node's answer is not understood: {_wrong(error)}"))
    except (ValueError, TypeError, OverflowError) as error:
        return Observed(node=node, error=_line(str(error)))


def _in_lines(seen: Observed) -> Observed:
    """What a node says of itself is one line each: a line end in it would begin a line of somebody else's."""
    if not (seen.error or seen.troubles or seen.unverified or seen.foreign):
        return seen
    error = _line(seen.error, 2000) or "it says that it cannot be read, and not why" if seen.error else ""
    lines = {key: tuple(map(_line, getattr(seen, key))) for key in ("troubles", "unverified", "foreign")}
    return seen.model_copy(update={"error": error, **lines})


def _line(words: str, most: int = 500) -> str:
    return " ".join(printable(words[: 4 * most]).split())[:most]


def _wrong(error: ValidationError) -> str:
    """The first thing that is wrong; of very many only their number, since the list of them takes half a gigabyte."""
    if error.error_count() > _TOLD:
        return pluralize(f"{error.error_count():,}", "of its values is", "of its values are") + " of a wrong type"
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


def _words(err: bytes, code: int) -> str:
    """The last line that says something: a traceback's last line is its message, ssh's is its reason."""
    lines = [line.strip() for line in printable(err.decode(errors="replace")).splitlines() if line.strip()]
    return lines[-1][:500] if lines else f"exit status {code}"
