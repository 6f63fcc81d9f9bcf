"""Which open pull request is the one of a branch of ours, and when is it written again?

A pull request is proposed by name of branch, and others choose names, too: a fork may have a branch of the same name, and on
Gitea anyone who reads may push a pull request that has no branch at all (`refs/for/`). Neither is found here. One that another
account opened from the very branch is: a forge keeps one for each branch and base. Its author stays that account.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

from swarm_iac.errors import Refused
from swarm_iac.forge.forge import PullRequest
from swarm_iac.model.base import Value
from swarm_iac.printable import printable

#: The longest name that every forge keeps. [characters]
_LONGEST = 255
#: What `git check-ref-format --branch` takes; a `:` would name the branch of a fork. No option and no whole ref either.
_NAME = re.compile(r"(?![-./]|refs/)(?!.*(?:\.\.|//|/\.|@\{|\.lock/))[^\x00-\x20\x7f~^:?*\[\\]+(?<![./])(?<!\.lock)")


def _branch(name: str) -> str:
    if len(name) > _LONGEST or not name.isprintable() or name in ("@", "HEAD") or not _NAME.fullmatch(name):
        raise ValueError("not the name of a branch")
    return name


#: The name of a branch, without `refs/heads/`.
Branch = Annotated[str, AfterValidator(_branch)]


class Listed(Value):
    """A pull request as a forge lists it, with the name of its branch and the texts that are compared."""

    pull: PullRequest
    branch: str
    title: str
    body: str


@dataclass(frozen=True)
class Proposal:
    """What is to be merged, from a branch into another one of the same repository. Raises Refused for what is no branch."""

    head: str
    base: str
    title: str
    body: str

    def __post_init__(self) -> None:
        for name in (self.head, self.base):
            try:
                _branch(name)
            except ValueError as error:
                raise Refused(f"{printable(name, 80)!r} is {error}") from None

    def opened(
        self, listed: Iterable[Listed], create: Callable[[], Listed], update: Callable[[PullRequest], Listed]
    ) -> PullRequest:
        """The one of `listed` that is this, updated if its texts differ; else the one that `create` makes."""
        found = next((one for one in listed if self._is(one)), None)
        if found and (found.title, found.body) == (self.title, self.body):
            return found.pull
        made = update(found.pull) if found else create()
        if not self._is(made) or (found and made.pull.number != found.pull.number):
            where = f"from {printable(self.head, 80)} into {printable(self.base, 80)}"
            raise Refused(f"pull request {made.pull.number} is not an open one {where}", hint="somebody changed it: try again")
        return made.pull

    def _is(self, one: Listed) -> bool:
        return one.pull.open and not one.pull.fork and (one.branch, one.pull.base) == (self.head, self.base)
