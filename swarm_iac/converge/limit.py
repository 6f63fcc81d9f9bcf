"""How long may a step take, all in all? Past that it has failed, by name, and the rest goes on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from swarm_iac.model.step import Step, Verb

#: Beside a grace period, the most that each kind takes on a machine that is busy and well. [s]
_MOST: Mapping[Verb, int] = {
    Verb.PREPARE: 600,
    Verb.STOP: 300,
    Verb.RELEASE: 1800,  # a scratch directory with millions of files
    Verb.SETTINGS: 600,  # memory is compacted for huge pages
    Verb.GPUS: 300,
    Verb.STORAGE: 3600,  # a file system is made
    Verb.TELEMETRY: 600,
    Verb.SLICE: 300,
    Verb.DIRECTORIES: 1800,
    Verb.TRAFFIC: 300,
    Verb.START: 600,
    Verb.HEALTH: 600,  # a node itself gives a workload 300
    Verb.RESTORE: 3600,
}
#: What each further step of a kind adds on one node, which goes through them in turn. [s]
_MORE = 60
#: How long Ansible may take to start, to reach its nodes and to end, beside the steps. [s]
_AROUND = 300
#: The longest grace period, where no step says which it is. [s]
_DAY = 86_400


def totals(steps: Iterable[Step]) -> dict[str, int]:
    """Of each step of a plan, the most that it may take from when it was first asked, over all runs. [s]"""
    steps = tuple(steps)
    graces: dict[tuple[str, str], int] = {}
    for step in steps:
        for found in _graces(step):
            graces[step.node, step.allocation] = max(found, graces.get((step.node, step.allocation), 0))
    waits = (Verb.STOP, Verb.RELEASE, Verb.START)  # a start stops what runs before it
    return {
        step.id: _MOST[step.verb] + (graces.get((step.node, step.allocation), _DAY) if step.verb in waits else 0)
        for step in steps
    }


def tasks(steps: Iterable[Step]) -> dict[str, dict[str, int]]:
    """Node → verb → the most that its steps of that verb may take within one run. [s]

    No grace period counts: a step that waits for one answers `pending` and goes along in the next run.
    """
    found: dict[str, dict[str, int]] = {}
    for step in steps:
        verbs = found.setdefault(step.node, {})
        verbs[step.verb.value] = verbs[step.verb.value] + _MORE if step.verb.value in verbs else _MOST[step.verb]
    return found


def run(steps: Iterable[Step]) -> int:
    """The most that one run of Ansible may take: its slowest node, and Ansible itself. [s]"""
    return _AROUND + max((sum(verbs.values()) for verbs in tasks(steps).values()), default=0)


def _graces(step: Step) -> Iterator[int]:
    unit = ((step.want.get("allocations") or {}).get(step.allocation) or {}).get("unit") or {}
    given = [unit.get("grace_s"), *(value for each in step.changes if each.path.endswith(".unit.grace_s")
                                   for value in (each.old, each.new))]  # fmt: skip
    yield from (value for value in given if isinstance(value, int))
