"""Do links join two sites that are described, each two once, and are nodes in those?"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from swarm_iac.model.stack import Stack
from swarm_iac.stackfile.checks.machine_limits import Said
from swarm_iac.stackfile.reading.messages import nearest


def link_problems(stack: Stack, broken: Collection[str]) -> Iterator[Said]:
    """What is wrong with links; and where sites are described, with nodes that name others: the first one of each.

    `broken`: sections of the file that have errors themselves.
    """
    sites, said = stack.sites, set[frozenset[str]]()
    for name, other in stack.site_links:
        path, ends = f"sites.{name}.links.{other}", frozenset((name, other))
        if other == name:
            yield path, f"{name} needs no link to itself", "name another site"
        elif other not in sites and "sites" not in broken:
            yield path, f"there is no site {other!r}", _unknown(other, sites)
        elif ends in said:
            yield path, f"the link between {other} and {name} is said at {other} already", "say it at one end"
        said.add(ends)
    told: set[str] = set()
    for node, one in stack.nodes.items() if sites and "sites" not in broken else ():
        if one.site is not None and one.site not in sites and one.site not in told:
            told.add(one.site)
            yield f"nodes.{node}.site", f"there is no site {one.site!r}", _unknown(one.site, sites)


def _unknown(name: str, sites: Collection[str]) -> str:
    """Misspelt, or not described yet."""
    hint = nearest(name, sites)
    return hint if hint.startswith("did you mean") else f"{hint}, or describe it under `sites:`"
