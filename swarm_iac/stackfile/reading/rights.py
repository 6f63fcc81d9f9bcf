"""Who may change what of a stack? `rights:` in the stack file, read from the base of a pull request only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from swarm_iac.model.base import Account, Value

#: An account at a forge: ASCII alone, so that no two of them look alike.
Login = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64)]
#: A path of the stack file by its keys; `*` stands for any one key, and what is below a path belongs to it.
PathPattern = Annotated[
    str,
    StringConstraints(pattern=r"^([a-z][A-Za-z0-9_-]*)(\.(\*|[A-Za-z0-9_/-]+))*$", max_length=200),
    WithJsonSchema({"type": "string"}),
]
#: A file of the repository; `*` stands for anything within one folder, and a name that ends with `/` for all below it.
FilePattern = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9._*@+-]+(/[A-Za-z0-9._*@+-]+)*/?$", max_length=200),
    WithJsonSchema({"type": "string"}),
]
#: A user by name, or a team with `team ` before it.
Owner = Annotated[str, StringConstraints(pattern=r"^(team [a-z][a-z0-9]*(-[a-z0-9]+)*|[a-z_][a-z0-9_-]*)$", max_length=45)]
#: Of a workload: the user that it belongs to.
OWN: Literal["own"] = "own"


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) and value != OWN else value


class OwnerRule(Value):
    """What some paths or files belong to, and who may change them or approve a change."""

    paths: tuple[PathPattern, ...] = Field(
        default=(),
        max_length=100,
        description="Paths of this file: `teams.research.limits`. `*` is any one key; what is below belongs to it.",
    )
    files: tuple[FilePattern, ...] = Field(
        default=(),
        max_length=100,
        description="Other files: `policies/*.yaml`, `.github/`. `*` stays within a folder; after `/`, all below.",
    )
    by: Annotated[
        Literal["own"] | tuple[Owner, ...],
        BeforeValidator(_listed),
        WithJsonSchema(
            {"anyOf": [{"const": "own", "type": "string"}, {"type": "string"}, {"items": {"type": "string"}, "type": "array"}]}
        ),
    ] = Field(description="`[cy, team research]`: users and teams. `own`: of workloads, the user of each.")

    def owns(self, path: tuple[str, ...]) -> bool:
        """Is a value at this path its own?"""
        return any(_prefix(tuple(pattern.split(".")), path) for pattern in self.paths)

    def names(self, path: tuple[str, ...]) -> bool:
        """Does it name this very path, and not only what the path is below?"""
        return any(len(each := tuple(pattern.split("."))) == len(path) and _prefix(each, path) for pattern in self.paths)

    def owns_file(self, name: str) -> bool:
        """Is a file of the repository its own?"""
        return any(_expression(pattern).fullmatch(name) for pattern in self.files)


class Rights(Value):
    """Who may change what. Without this section everyone who can merge may change everything."""

    accounts: dict[Account, Login] = Field(
        default={}, description="User → account at the forge, where it has another name; upper and lower case are the same."
    )
    owners: tuple[OwnerRule, ...] = Field(
        default=(),
        description="The first rule that names a path or file decides. What none names is for those who may change `rights`.",
    )

    def login(self, user: str) -> str:
        """The account of a user, in lower case."""
        return self.accounts.get(user, user).lower()

    def rule_of(self, path: tuple[str, ...]) -> OwnerRule | None:
        """The rule for a path: the first that names it, else that for `rights`; None where there is neither."""
        return next((one for one in self.owners if one.owns(path)), None) or self.strictest

    def rule_of_file(self, name: str) -> OwnerRule | None:
        """The same for a file of the repository."""
        return next((one for one in self.owners if one.owns_file(name)), None) or self.strictest

    @property
    def strictest(self) -> OwnerRule | None:
        """The rule of those who may change the rights themselves, and so give themselves any other."""
        return next((one for one in self.owners if one.owns(("rights",)) and one.by != OWN), None)

    def named(self) -> Iterator[tuple[int, Owner]]:
        """Each user and team that a rule names, with the number of the rule."""
        for number, one in enumerate(self.owners):
            if one.by != OWN:
                yield from ((number, each) for each in one.by)


def _prefix(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    return len(pattern) <= len(path) and all(want in ("*", have) for want, have in zip(pattern, path, strict=False))


def _expression(pattern: str) -> re.Pattern[str]:
    body = re.escape(pattern).replace(r"\*", "[^/]*")
    return re.compile(f"{body}.*" if pattern.endswith("/") else body, re.DOTALL)


__all__ = ["OWN", "Login", "Owner", "OwnerRule", "Rights"]
