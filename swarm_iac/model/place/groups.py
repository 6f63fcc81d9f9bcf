"""What may a workload demand of groups of nodes: of each node, rack or site?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from swarm_iac.model.base import Value

#: Kinds of groups of nodes, the smallest first: each is in one of the next.
Level = Literal["node", "rack", "site"]
LEVELS: tuple[Level, ...] = get_args(Level)


class Balance(Value):
    """Replicas are spread evenly: no rack (or site) has many more than another one."""

    over: Literal["rack", "site"] = Field(description="What is compared: racks or sites.")
    skew: int = Field(
        default=1,
        ge=1,
        le=100_000,
        description="So many more replicas at most than where the fewest are (`maxSkew` of Kubernetes).",
    )

    def __str__(self) -> str:
        return self.over if self.skew == 1 else f"{{over: {self.over}, skew: {self.skew}}}"


def read_balance(value: Any) -> Any:
    """`rack` is what is compared, with a skew of 1; else what Balance takes."""
    return {"over": value} if isinstance(value, str) else value


class OrLevel:
    """Lets the schema take what is compared alone, too."""

    def __get_pydantic_json_schema__(self, source: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        found = handler(source)
        return {"anyOf": [*found.get("anyOf", (found,)), {"enum": ["rack", "site"]}]}


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupRule:
    """What a key of `place` demands of groups of nodes: each node alone, each rack or each site, as the key's value says.

    Of a key whose value is a number, that is `each`, and `level` says what a group is. The solver derives all that it does
    from this; `limits` has a rule of its own for each, of the name `judged`.
    """

    rule: str  # its name in reasons
    judged: str
    each: int | None = None  # most replicas of the workload in one group
    together: bool = False  # all replicas in one group
    others: bool = False  # no replica of another workload that has the key; of two values the larger group counts
    named: bool = False  # only of those that are named, by either of the two
    even: bool = False  # no group has many more than another one, of those where a replica may be: see `snapshot/balance.py`
    joins: bool = False  # what its replicas send each other from group to group is bounded: see `snapshot/site_links.py`
    #: Of a reason; {level} is the kind of group, {on} what goes before it, {each} the most in one, {names} whom it keeps away.
    text: str
    leaves: str  # which nodes it leaves, as in "of those …"
    bars: tuple[str, str]  # what it says of the others: a verb, and the rest
    level: Level = "node"
    key: str = ""  # in `place`; taken from there


@dataclass(frozen=True, slots=True)
class Group:
    """A rule on groups of nodes, as a workload has it."""

    of: GroupRule
    value: Level | int | Balance
    names: frozenset[str] = frozenset()  # whom it keeps away, where they are named

    @property
    def level(self) -> Level:
        """What a group is."""
        if isinstance(self.value, Balance):
            return self.value.over
        return self.of.level if isinstance(self.value, int) else self.value

    @property
    def skew(self) -> int:
        """How many more one group may have than another one; 0 where they are not compared."""
        return self.value.skew if isinstance(self.value, Balance) else 0

    @property
    def each(self) -> int | None:
        """The most replicas in one group."""
        return self.value if isinstance(self.value, int) else self.of.each

    def left(self, held: dict[str, int], group: str) -> int | None:
        """How many more replicas may go to a group, beside so many in each; None: any number."""
        if self.of.together and held.keys() - {group}:
            return 0
        return None if self.each is None else max(0, self.each - held.get(group, 0))

    def format(self, words: str) -> str:
        """Words of the rule, about this."""
        names = " and ".join(sorted(self.names))
        on = "on" if self.level == "node" else "in"
        return words.format(on=on, level=self.level, each=self.each, skew=self.skew, names=names)

    def __str__(self) -> str:
        return f"`{self.of.key}: {self.value}`"


SPREAD = GroupRule(
    rule="spread_keeps_apart",
    judged="replicas_are_spread",
    each=1,
    text="no two replicas {on} one {level}: no other {level} has capacity",
    leaves="without a replica of it",
    bars=("hold", "a replica already"),
)
WITHIN = GroupRule(
    rule="within_keeps_together",
    judged="replicas_stay_within",
    together=True,
    text="all in one {level}: no {level} fits all",
    leaves="with its others",
    bars=("are", "outside its {level}"),
)
PER_NODE = GroupRule(
    rule="per_node_holds",
    judged="replicas_stay_under_per_node",
    text="at most {each} on one node: no other node has capacity",
    leaves="with fewer of its replicas",
    bars=("hold", "{each} of its replicas already"),
)
PER_RACK = GroupRule(
    rule="per_rack_holds",
    judged="replicas_stay_under_per_rack",
    text="at most {each} in one rack: no other rack has capacity",
    leaves="with fewer of its replicas",
    bars=("have", "{each} of its replicas in the rack already"),
    level="rack",
)
PER_SITE = GroupRule(
    rule="per_site_holds",
    judged="replicas_stay_under_per_site",
    text="at most {each} in one site: no other site has capacity",
    leaves="with fewer of its replicas",
    bars=("have", "{each} of its replicas in the site already"),
    level="site",
)
BALANCE = GroupRule(
    rule="balance_holds_skew",
    judged="replicas_are_balanced",
    even=True,
    text="at most {skew} more in one {level} than in another",
    leaves="with fewer of its replicas",
    bars=("have", "as many of its replicas in the {level} as `balance` allows"),
)
APART = GroupRule(
    rule="apart_keeps_away",
    judged="workloads_stay_apart",
    others=True,
    text="no other workload with `apart` near it: each node with capacity is too near to one",
    leaves="without another workload with `apart`",
    bars=("are", "too near to another workload with `apart`"),
)
AWAY_FROM = GroupRule(
    rule="away_from_keeps_off",
    judged="workloads_keep_away",
    key="away_from",
    others=True,
    named=True,
    text="kept away from {names}: each {level} with capacity has a replica of it",
    leaves="without {names}",
    bars=("are", "too near to {names}"),
)


#: On the members of a gang that lie in two sites: no key of `place`, but of their bandwidth and of the links between sites.
SITE_LINKS = GroupRule(
    rule="links_carry_gangs",
    judged="links_carry_gangs",
    key="network.between",
    joins=True,
    text="the links between sites carry too little for its members",
    leaves="that the links between sites leave",
    bars=("are", "in a site with too little left of a link"),
    level="site",
)


def read_named(value: Any) -> Any:
    """Workloads by kind of group: `[chat]` means on the same node; else a list for each kind of group."""
    return {"node": value} if isinstance(value, (list, tuple)) else value


def together(groups: Iterable[Group]) -> Level | None:
    """Have all replicas to be in one group of nodes, by these rules, and in one of which kind?"""
    return min((group.level for group in groups if group.of.together), key=LEVELS.index, default=None)
