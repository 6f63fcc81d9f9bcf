"""Can the number of replicas follow the load as the stack file says?"""

from __future__ import annotations

from collections.abc import Iterator

from swarm_iac.model.workload import Workload
from swarm_iac.pluralize import pluralize

#: The most that one workload may have above what it is guaranteed.
MOST_LIVE = 10_000


def scaling_problems(path: str, workload: Workload) -> Iterator[tuple[str, str, str]]:
    """Path, what is wrong, and a hint. A range without `scale` is only a warning: its upper end was legal before."""
    scale, count = workload.scale, workload.replicas
    if scale is None:
        return
    if workload.gang is not None:
        hint = "leave `scale` out, or use `replicas`"
        yield f"{path}.scale", "a gang keeps its size: all members run, or none", hint
    elif count.least == count.most:
        hint = f"write a range, such as replicas: {count.least}..{max(count.least + 1, 2 * count.least)}, or leave `scale` out"
        yield f"{path}.scale", f"there is no range to scale in: it has {pluralize(count.least, 'replica')}", hint
    elif count.most - count.least > MOST_LIVE:
        text = f"{count.most - count.least:,} replicas above the guaranteed {count.least:,} are more than {MOST_LIVE:,}"
        yield f"{path}.replicas", text, "lower the upper end; guarantee more of them if they are needed"
    elif count.least == 0:
        hint = "guarantee at least one replica: what nobody runs measures nothing"
        yield f"{path}.replicas", "scaling from zero replicas is not possible", hint
    if workload.kind != "serve":
        hint = "set `kind: serve`, or leave `scale` out"
        yield f"{path}.scale", f"only services scale: a replica of kind {workload.kind} loses its work when it stops", hint
    if (scale.on == "query") != bool(scale.query):
        text = "no `query` is given" if scale.on == "query" else f"`query` has no use with `on: {scale.on}`"
        yield f"{path}.scale.{'on' if scale.on == 'query' else 'query'}", text, "write `{on: query, query: PromQL, target: 40}`"
    if scale.on == "gpu" and not workload.each.gpus.count:
        yield f"{path}.scale.on", "it has no GPUs to be busy", "scale on requests_per_replica, queue or a query"
    if scale.on == "gpu" and scale.target > 100:
        yield f"{path}.scale.target", f"{scale.target:g} % is more than a GPU can be busy", "write a percentage, such as 70"
