"""Is each workload placed as it was asked for?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from swarm_iac.limits.balance import replicas_are_balanced
from swarm_iac.limits.index import PlacementIndex, Violation
from swarm_iac.model.resources.table import RESOURCES, demand_of, held_of
from swarm_iac.model.stack import Stack
from swarm_iac.pluralize import pluralize


def everything_is_known(placed: PlacementIndex) -> Iterator[Violation]:
    """For every a:  workload_a ∈ workloads, and node_a ∈ nodes unless it has ended"""
    for one in placed.every:
        if one.workload not in placed.stack.workloads:
            text = f"{one.name} is of the workload {one.workload}, which the stack does not have"
        elif one.node not in placed.stack.nodes and not one.ended:
            text = f"{one.name} is on the node {one.node}, which the stack does not have"
        else:
            continue
        yield Violation(rule="everything_is_known", text=text, subject=one.name)


def indices_are_unique(placed: PlacementIndex) -> Iterator[Violation]:
    """For every workload w:  |{a of w}| ≤ most_w, its indices differ (of a gang each is < gang_w), and name_a = w-index_a"""
    for name, ones in placed.by_workload.items():
        workload = placed.stack.workloads[name]
        most = workload.gang if workload.gang is not None else workload.replicas.most
        seen = Counter(one.index for one in ones)
        path = f"workloads.{name}.{'gang' if workload.gang is not None else 'replicas'}"
        for one in ones:
            if one.name != f"{name}-{one.index}":
                text = f"the allocation {one.name} is replica {one.index} of {name} and must be named {name}-{one.index}"
            elif workload.gang is not None and one.index >= most:
                text = f"{one.name} is beyond the {pluralize(most, 'member')} of {name}"
            else:
                continue
            yield Violation(rule="indices_are_unique", text=text, subject=one.name, path=path)
        if len(seen) > most:
            placed_ones = pluralize(len(seen), f"replica of {name} is", f"replicas of {name} are")
            text = f"{placed_ones} placed, and it has {most}"
            yield Violation(rule="indices_are_unique", text=text, subject=name, path=path)
        for index, count in seen.items():
            if count > 1:
                text = f"{name}-{index} is placed {count} times"
                yield Violation(rule="indices_are_unique", text=text, subject=f"{name}-{index}", path=path)


def sizes_equal_request(placed: PlacementIndex) -> Iterator[Violation]:
    """For every a of w and resource r:  r_a = r_w; pieces (GPUs, pinned cores) are counted

    Of one that has ended all but its files is 0, and those are what they were.
    """
    requests = {name: demand_of(placed.stack.workloads[name]) for name in placed.by_workload}
    for one in placed.known:
        held = held_of(one)
        if held == requests[one.workload] and not one.ended:
            continue
        for row, has, asked in zip(RESOURCES, held, requests[one.workload], strict=True):
            request = asked if not one.ended else has if row.files else 0
            if has != request:
                text = f"{one.name} holds {row.text(has)} of {row.noun}, and its workload asks for {row.text(request)}"
                text = f"{one.name} has ended, and holds {row.text(has)} of {row.noun}" if one.ended else text
                path = f"workloads.{one.workload}.{row.path(placed.stack.workloads[one.workload])}"
                yield Violation(rule="sizes_equal_request", text=text, subject=one.name, path=path)


def gangs_are_whole(placed: PlacementIndex) -> Iterator[Violation]:
    """For every gang w:  |{a of w, not ended}| ∈ {0, gang_w − |{a of w, ended}|}"""
    for name, ones in placed.by_workload.items():
        gang = placed.stack.workloads[name].gang
        count = len({one.index for one in ones})
        if gang is not None and any(not one.ended for one in ones) and count < gang:
            some = pluralize(count, f"of {gang} members of {name} is", f"of {gang} members of {name} are")
            text = f"{some} placed, and a gang runs whole or not at all"
            yield Violation(rule="gangs_are_whole", text=text, subject=name, path=f"workloads.{name}.gang")


def replicas_are_spread(placed: PlacementIndex) -> Iterator[Violation]:
    """For every w with spread s, and each place p of kind s:  |{a of w, not ended : p_a = p}| ≤ 1"""
    for name, ones in placed.going.items():
        spread = placed.stack.workloads[name].place.spread
        if spread:
            places = Counter(placed.place(one.node, spread) for one in ones)
            for place, count in places.items():
                if count > 1:
                    text = f"{count} replicas of {name} are in the {spread} {place}, and they are to be spread"
                    path = f"workloads.{name}.place.spread"
                    yield Violation(rule="replicas_are_spread", text=text, subject=name, path=path)


def replicas_stay_within(placed: PlacementIndex) -> Iterator[Violation]:
    """For every w with within s:  |{p_a : a of w, not ended}| ≤ 1 for places p of kind s"""
    for name, ones in placed.going.items():
        within = placed.stack.workloads[name].place.within
        if within:
            places = sorted({placed.place(one.node, within) for one in ones})
            if len(places) > 1:
                text = f"{name} is in the {within}s {', '.join(places)}, and it is to stay within one"
                path = f"workloads.{name}.place.within"
                yield Violation(rule="replicas_stay_within", text=text, subject=name, path=path)


def replicas_stay_under_per_node(placed: PlacementIndex) -> Iterator[Violation]:
    """For every w with per_node, and each node n:  |{a of w, not ended : node_a = n}| ≤ per_node_w"""
    for name, ones in placed.going.items():
        most = placed.stack.workloads[name].place.per_node
        for node, count in Counter(one.node for one in ones).items():
            if most is not None and count > most:
                text = f"{count} replicas of {name} are on {node}, and it may have {most} on one node"
                path = f"workloads.{name}.place.per_node"
                yield Violation(rule="replicas_stay_under_per_node", text=text, subject=name, path=path)


def replicas_stay_under_per_rack(placed: PlacementIndex) -> Iterator[Violation]:
    """For every w with per_rack, and each rack p:  |{a of w, not ended : rack_a = p}| ≤ per_rack_w"""
    for name, ones in placed.going.items():
        yield from _crowded(placed, name, "rack", placed.stack.workloads[name].place.per_rack, [one.node for one in ones])


def replicas_stay_under_per_site(placed: PlacementIndex) -> Iterator[Violation]:
    """For every w with per_site, and each site p:  |{a of w, not ended : site_a = p}| ≤ per_site_w"""
    for name, ones in placed.going.items():
        yield from _crowded(placed, name, "site", placed.stack.workloads[name].place.per_site, [one.node for one in ones])


def _crowded(placed: PlacementIndex, name: str, kind: str, most: int | None, nodes: list[str]) -> Iterator[Violation]:
    """Racks, or sites, with more replicas of one workload than it may have there."""
    if most is None:
        return
    for place, count in Counter(placed.place(node, kind) for node in nodes).items():
        if count > most:
            text = f"{count} replicas of {name} are in the {kind} {place}, and it may have {most} in one {kind}"
            path = f"workloads.{name}.place.per_{kind}"
            yield Violation(rule=f"replicas_stay_under_per_{kind}", text=text, subject=name, path=path)


def workloads_stay_apart(placed: PlacementIndex) -> Iterator[Violation]:
    """For every two v ≠ w with apart, a of v and b of w, not ended:  p_a ≠ p_b, places of the larger kind that they name"""
    kinds = {name: kind for name in placed.going if (kind := placed.stack.workloads[name].place.apart)}
    for kind in dict.fromkeys(kinds.values()):
        there: dict[str, dict[str, str]] = {}  # in each place of this kind: who is there, and where
        for name in kinds:
            for one in placed.going[name]:
                there.setdefault(placed.place(one.node, kind), {}).setdefault(name, one.node)
        for nodes in there.values():
            for name in (name for name in nodes if kinds[name] == kind and len(nodes) > 1):
                other = next(other for other in nodes if other != name)
                text = f"{name} on {nodes[name]} is too near to {other} on {nodes[other]}, and both are to be apart"
                path = f"workloads.{name}.place.apart"
                yield Violation(rule="workloads_stay_apart", text=text, subject=name, path=path)


def labels_match_select(placed: PlacementIndex) -> Iterator[Violation]:
    """For every a of w, not ended, and (l, v) ∈ select_w:  label_l(node_a) = v, where site and rack are labels"""
    for one in (one for ones in placed.going.values() for one in ones):
        for label, value in placed.stack.workloads[one.workload].place.select.items():
            has = placed.stack.nodes[one.node].labelled.get(label)
            if has != value:
                text = f"{one.name} asks for {label}: {value}, and {one.node} has {has or 'no such label'}"
                path = f"workloads.{one.workload}.place.select.{label}"
                yield Violation(rule="labels_match_select", text=text, subject=one.name, path=path)


def workloads_keep_away(placed: PlacementIndex) -> Iterator[Violation]:
    """For every w, kind s and v ∈ away_from_w,s, v ≠ w, a of w and b of v, not ended:  p_a ≠ p_b, places of kind s"""
    for name, ones in placed.going.items():
        for kind, others in placed.stack.workloads[name].place.away_from.items():
            here = {placed.place(one.node, kind): one.node for one in ones}
            for other in (other for other in others if other != name):
                near = next((one.node for one in placed.going.get(other, ()) if placed.place(one.node, kind) in here), None)
                if near is not None:
                    where = here[placed.place(near, kind)]
                    text = f"{name} on {where} is too near to {other} on {near}: it is to be away from it, by {kind}"
                    path = f"workloads.{name}.place.away_from.{kind}"
                    yield Violation(rule="workloads_keep_away", text=text, subject=name, path=path)


def replicas_have_company(placed: PlacementIndex) -> Iterator[Violation]:
    """For every a ∉ kept of w, not ended, and v ∈ only_with_w,s, there is b of v, not ended:  p_a = p_b, places of kind s

    What ran there before stays, also where it is left alone.
    """
    for name, ones in placed.going.items():
        for kind, others in placed.stack.workloads[name].place.only_with.items():
            for other in others:
                there = {placed.place(one.node, kind) for one in placed.going.get(other, ())}
                for one in ones:
                    if one.name not in placed.kept and placed.place(one.node, kind) not in there:
                        where = "there" if kind == "node" else f"in its {kind}"
                        text = f"{one.name} is on {one.node}, and no replica of {other}, with which it is to be, is {where}"
                        path = f"workloads.{name}.place.only_with.{kind}"
                        yield Violation(rule="replicas_have_company", text=text, subject=one.name, path=path)


def taints_keep_new_work_away(placed: PlacementIndex) -> Iterator[Violation]:
    """For every a ∉ kept of w, not ended, and (k, v) ∈ taints(node_a):  tolerate_w[k] ∈ {v, *}, and team_w ∈ teams_k,v ≠ ∅

    Whose taint names no teams is for all. What ran there before the taint came stays.
    """
    stack = placed.stack
    tainted = [one for ones in placed.going.values() for one in ones if stack.nodes[one.node].taints]
    for one in (one for one in tainted if one.name not in placed.kept):
        workload = stack.workloads[one.workload]
        for key, taint in stack.nodes[one.node].taints.items():
            value = f"{key}: {taint.value}"
            if workload.place.tolerate.get(key) not in ("*", taint.value):
                text = f"{one.name} is on {one.node}, and does not tolerate its taint {value}"
            elif taint.teams and not _inside(stack, workload.user, taint.teams):
                text = f"{one.name} is on {one.node}, whose taint {value} is for {', '.join(taint.teams)} alone"
            else:
                continue
            path = f"workloads.{one.workload}.place.tolerate"
            yield Violation(rule="taints_keep_new_work_away", text=text, subject=one.name, path=path)
            break


def _inside(stack: Stack, user: str, teams: tuple[str, ...]) -> bool:
    """Is the user in one of the teams, or in one that is inside of them?"""
    within = set(teams)
    while more := {name for name, team in stack.teams.items() if team.parent in within} - within:
        within |= more
    return any(user in stack.teams[name].users for name in within & stack.teams.keys())


def states_allow(placed: PlacementIndex) -> Iterator[Violation]:
    """For every a that has not ended:  state(node_a) = ready, or cordon and a ∈ kept"""
    for one in (one for ones in placed.going.values() for one in ones):
        state = placed.stack.nodes[one.node].state
        if state == "ready" or (state == "cordon" and one.name in placed.kept):
            continue
        rest = "takes nothing new" if state == "cordon" else "carries nothing"
        text = f"{one.name} is on {one.node}, which is in state {state} and {rest}"
        yield Violation(rule="states_allow", text=text, subject=one.name, path=f"nodes.{one.node}.state")


#: Whether it is what was asked for, and where it was asked for, in the order in which they are told.
ASKED = (everything_is_known, indices_are_unique, sizes_equal_request)
PLACED = (
    states_allow,
    labels_match_select,
    taints_keep_new_work_away,
    replicas_are_spread,
    replicas_stay_within,
    replicas_stay_under_per_node,
    replicas_stay_under_per_rack,
    replicas_stay_under_per_site,
    replicas_are_balanced,
    workloads_stay_apart,
    workloads_keep_away,
    replicas_have_company,
    gangs_are_whole,
)
