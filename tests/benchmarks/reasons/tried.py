"""Which reasons does one decision give, and does the effect of each go when its cause is taken away?"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from swarm_iac.model.placement import Allocation, Placement, Reason, Waiting
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import PRIORITIES
from swarm_iac.plan.show.causes import why_moved, why_stopped
from swarm_iac.solver import solve, solve_keeping
from swarm_iac.solver.explain.move_causes import moved_for
from swarm_iac.units import BitsPerSecond, Watts
from tests.benchmarks.fleets.checker import around, size_of, wanted
from tests.benchmarks.fleets.free import Free
from tests.benchmarks.reasons.counts import counted, told, without_lower
from tests.benchmarks.reasons.lift import given_up, lifted, only, opened, put_workload, with_node

#: A word for a script, by the rule that decides it; the first that is there counts. From docs/solver.md.
_CODES = (
    ("UserLimit", r"user_stays_under_limits"),
    ("TeamLimit", r"team_stays_under_limits"),
    ("ClusterLimit", r"cluster_stays_under_limits"),
    ("Moves", r"moves_stay_in_budget"),
    ("Effort", r"effort"),
    ("Topology", r"single_fits_numa_node"),
    (
        "Resources",
        r".*_fits?_(node|nic|uplink)|node_stays_under_limits|links_carry_gangs|power_stays_under_rack_budget|equals_are_not_stopped|keeps_its_devices",
    ),
    ("ReqNodeNotAvail", r"node_is_ready"),
    ("Taints", r"taints_are_tolerated"),
    ("BadConstraints", r".+"),
)


@dataclass(frozen=True)
class Said:
    """One reason: of which kind, about what, in which words, and whether it held."""

    kind: str
    subject: str
    text: str
    held: bool


@dataclass
class Decided:
    """One decision, from `last`, of the stack `written`; `before` is the stack that `last` was decided for."""

    before: Stack
    written: Stack
    last: Placement
    today: datetime.date

    def __post_init__(self) -> None:
        self.stack, solution = solve_keeping(self.written, self.last, today=self.today)
        self.now = solution.placement
        self.names = {one.name for one in self.now.allocations}
        self.ran = self.last.by_name()

    def reasons(self) -> Iterator[Said]:
        """Every reason that a person is told, tried."""
        for gone in self.now.unplaced:
            yield from self._waits("pending", gone)
        for one in self.now.growing:
            yield from self._waits("growing", one)
        for name, why in why_stopped(self.stack, self.last, self.now, self.today).items():
            yield self._stopped(name, why)
        for name, why in why_moved(self.stack, self.last, self.now, self.today).items():
            yield Said(f"moved: {_kind(why)}", name, why, self._because(self.ran[name], why))
        for workload in sorted({one.workload for one in self.last.allocations} & self.stack.workloads.keys()):
            for reason in moved_for(self.stack, self.now, workload, self.last, self.today):
                yield self._sake(workload, reason)

    # What waits for capacity.

    def _waits(self, kind: str, one: Waiting) -> Iterator[Said]:
        if not one.reasons:
            yield Said(f"{kind}: no reason", one.workload, "", held=False)
        for i, reason in enumerate(one.reasons):
            if reason.rule == "share":
                yield Said(f"{kind}: share", one.workload, reason.text, self._shared(kind, one, reason.text))
            elif not reason.besides:
                those = [reason, *itertools.takewhile(lambda other: other.besides == "one", one.reasons[i + 1 :])]
                those += [other for other in one.reasons[i + 1 :] if other.besides == "each"]
                held = bool(reason.text) and self._gains(kind, one.workload, those)
                yield Said(f"{kind}: {reason.rule}", one.workload, " + ".join(each.text for each in those), held)
            if "the most that is free" in reason.text:
                yield Said(f"{kind}: what is free", one.workload, reason.text, self._free(kind, one.workload, reason))
            if "more of its rack's" in reason.text:
                yield Said(f"{kind}: what a rack has left", one.workload, reason.text, self._left(kind, one.workload, reason))
        rules = [reason.rule for reason in one.reasons if not reason.besides]
        code = next((code for code, those in _CODES if any(re.fullmatch(those, rule) for rule in rules)), "")
        yield Said(f"{kind}: code", one.workload, f"{one.code} for {', '.join(rules)}", one.code == code)
        if one.nodes:
            yield Said(f"{kind}: nodes", one.workload, one.nodes, self._nodes(kind, one))

    def _snapshot(self, kind: str, workload: str) -> tuple[Stack, Placement]:
        """The stack and the placement beside which something waits: what grows is wished, and has no place."""
        if kind == "pending":
            return self.stack, self.now
        stack = put_workload(self.stack, workload, self.written.workloads[workload])
        rest = tuple(one for one in self.now.allocations if one.workload != workload)
        return stack, self.now.model_copy(update={"allocations": rest})

    def _nodes(self, kind: str, one: Waiting) -> bool:
        stack, placement = self._snapshot(kind, one.workload)
        found = told(one.nodes)
        return any(counted(stack, placement, one.workload, self.today, lower=lower) == found for lower in (True, False))

    def _gains(self, kind: str, workload: str, reasons: list[Reason]) -> bool:
        """Without a rule and those told besides, is there a place for one more (all of a gang, of what grows), beside the rest?

        Without what is told besides there is none: it does not go without saying.
        """
        stack = self.stack
        if kind == "growing":
            stack = put_workload(stack, workload, self.written.workloads[workload])
        last, whole = self.now, kind == "growing"
        if reasons[0].rule == "moves_stay_in_budget":
            last = self.last
        else:  # the reasons speak of room beside what stands, so nobody makes room
            stack = stack.model_copy(update={"solve": stack.solve.model_copy(update={"moves": 0})})
        had = 0 if whole else sum(one.workload == workload for one in self.now.allocations)

        def gains(lifted: list[Reason]) -> bool:
            # Of a gang that need not be whole any more, some may find a place, and not all.
            all_ = whole and all(one.rule != "gang_is_whole_or_absent" for one in lifted)
            least = wanted(stack.workloads[workload]) - 1 if all_ else had
            return self._more(_all(stack, workload, lifted), workload, last, least)

        return not (reasons[1:] and gains(reasons[:1])) and gains(reasons)

    def _more(self, stack: Stack, workload: str, last: Placement, had: int) -> bool:
        """Do more than so many of it have a place, and does everyone else keep one who is no lower?"""
        stack, last, names = only(stack, self.names, last, workload)
        if stack.workloads.get(workload) is None:
            return False
        found = solve(stack, last, today=self.today, reasons=False).placement.by_name()
        mine = PRIORITIES[stack.workloads[workload].priority]
        others = {names[one.name] for one in self.now.allocations if one.workload != workload and one.name in names}
        stopped = [stack.workloads[name.rpartition("-")[0]] for name in others - found.keys()]
        no_lower = any(PRIORITIES[one.priority] >= mine for one in stopped)
        return not no_lower and sum(one.workload == workload for one in found.values()) > had

    def _shared(self, kind: str, one: Waiting, text: str) -> bool:
        """Does its team hold so much, and would there be a GPU for one more if no other team held any? All else is given up."""
        stack, placement = self._snapshot(kind, one.workload)
        match = re.match(r"team (\S+)(?: itself)? holds (\S+) GPUs?( by `worth`)?", text)
        mine = stack.workloads[one.workload]
        if match is None:
            return False
        team = around(stack, mine.user)[0]
        ones = [
            a for a in placement.allocations if PRIORITIES[stack.workloads[a.workload].priority] >= PRIORITIES[mine.priority]
        ]
        held = sum(gpu.part for a in ones if match[1] in around(stack, stack.workloads[a.workload].user) for gpu in a.gpus)
        plain = match[3] or match[1] not in stack.teams or held == round(1000 * float(match[2]))
        others = {
            name for name, each in stack.workloads.items() if each.each.gpus.count and around(stack, each.user)[:1] != [team]
        }
        stack = _all(stack, one.workload, [each for each in one.reasons if each.rule not in ("share", "gpus_fit_node")])
        kept = {name: each for name, each in stack.workloads.items() if name not in others}
        names = {name for name in self.names if name.rpartition("-")[0] not in others}
        stack = stack.model_copy(update={"workloads": kept, "solve": stack.solve.model_copy(update={"moves": 0})})
        last = Placement(allocations=tuple(a for a in placement.allocations if a.workload not in others))
        stack, last, _ = only(stack, names, last, one.workload)
        found = solve(stack, last, today=self.today, reasons=False).placement
        count, had = (sum(a.workload == one.workload for a in each.allocations) for each in (found, last))
        return bool(plain) and count > had

    def _left(self, kind: str, workload: str, reason: Reason) -> bool:
        """Has the rack so much left, and is that too little for one; of a gang, for all?"""
        stack, placement = self._snapshot(kind, workload)
        match = re.search(
            r"needs (\S+ \S+) more of its rack's (uplink|power).* left is (\S+ \S+) in (\S+?)(?:,|$)", reason.text
        )
        if match is None:
            return False
        lower = "lower priority" in reason.text
        ones = without_lower(stack, placement, workload) if lower else placement.allocations
        unit = Watts if match[2] == "power" else BitsPerSecond
        lefts = Free(stack, self.today, ones).racks[match[4]]
        lefts = lefts[2:] if match[2] == "power" else lefts[:2]
        need, left = unit.parse(match[1]), unit.parse(match[3])
        return (need > left or "for each of" in reason.text) and left in [max(0, each) for each in lefts]

    def _free(self, kind: str, workload: str, reason: Reason) -> bool:
        """Is so much free there, and nowhere more where the rest of what it needs is?"""
        stack, placement = self._snapshot(kind, workload)
        match = re.search(r"the most that is free (?:of one )?is (none|\S+(?: \S+)?) ?(?:on (\S+?))?(?:[;,]|$)", reason.text)
        if match is None:
            return bool(stack.workloads[workload].each.gpus.profile)  # of a card: `counts` has no positions
        lower = "lower priority" in reason.text
        ones = without_lower(stack, placement, workload) if lower else placement.allocations
        free = Free(stack, self.today, ones)
        if reason.rule != "gpus_fit_node":
            return True
        if "on one card" in reason.text:
            return self._free_of_one(stack, free, workload, reason.text, match)
        left = {node: sum(free.cards[node][g] == 0 for g in range(stack.hardware_of(node).gpus.count)) for node in stack.nodes}
        model = stack.workloads[workload].each.gpus.model
        others = [n for n in stack.nodes if model is None or stack.hardware_of(n).gpus.model in model.split("|")]
        if match[1] == "none":
            return " those " in reason.text or not any(left[n] for n in others)
        most = int(match[1])
        wish = stack.workloads[workload]
        short = most < wish.each.gpus.count or wish.gang is not None
        return short and left[match[2]] == most and (" those " in reason.text or most >= max(left[n] for n in others))

    @staticmethod
    def _free_of_one(stack: Stack, free: Free, workload: str, text: str, match: re.Match[str]) -> bool:
        """Is so much of one card free there, less than it needs, and nowhere more where the rest of what it needs is?"""
        request = stack.workloads[workload].each.gpus
        left = {
            node: max((1000 - free.cards[node][g] for g in range(stack.hardware_of(node).gpus.count)), default=0)
            for node in stack.nodes
        }
        named = request.model is not None and request.model in text
        others = [n for n in stack.nodes if not named or stack.hardware_of(n).gpus.model in str(request.model).split("|")]
        most = round(1000 * float(match[1]))
        short = most < request.share or "members fit" in text or "for each of" in text
        return short and left[match[2]] == most and (" those " in text or most >= max(left[n] for n in others))

    # What leaves its node.

    def _stopped(self, name: str, why: str) -> Said:
        workload, _, index = name.rpartition("-")
        kind = f"stopped: {_kind(why)}"
        request = self.stack.workloads.get(workload)
        if why == "removed from the stack file":
            return Said(kind, name, why, request is None)
        if why.startswith("scaled down"):
            return Said(
                kind, name, why, request is not None and why.endswith(f" {wanted(request)}") and int(index) >= wanted(request)
            )
        pending = next((one for one in self.now.unplaced if one.workload == workload), None)
        if pending and pending.reasons and why == "; ".join(reason.text for reason in pending.reasons):
            # The reasons are tried above; here they must be why it has no place where it ran.
            return Said("stopped: as it is pending", name, why, held=True)
        return Said(kind, name, why, self._because(self.ran[name], why))

    def _because(self, was: Allocation, why: str) -> bool:
        """Without the cause that is named, does it stay where it was?"""
        first, *rest = why.split("; besides, ")
        if names := _names(first):
            return self._freed(was, first, names) if not rest else self._without(self.stack, was, [first, *rest])
        if "has room for it still" in why:
            return self._fits_still(was)
        if "fewer nodes in use" in why:
            return not self.now.on(was.node)
        return any(tried(was, why) for tried in (self._node_went, self._gang_torn, self._outgrew))

    def _freed(self, was: Allocation, why: str, names: set[str]) -> bool:
        if why.startswith("preempted"):
            mine = PRIORITIES[self.stack.workloads[was.workload].priority]
            if any(PRIORITIES[self.stack.workloads[name].priority] <= mine for name in names):
                return False
        # A gang comes whole.
        gangs = {name for name in names if self.stack.workloads[name].gang is not None}
        came = {a.name for a in self.now.allocations if a.workload in names and (self._newcomer(a) or a.workload in gangs)}
        return bool(came) and self._stays(self.stack, was, came)

    def _node_went(self, was: Allocation, why: str) -> bool:
        if found := re.match(r"(\S+) left the stack", why):
            return self._stays(self._with(found[1]), was, set())
        found = re.match(r"(\S+?):? (?:drain|lost|is in state (?:drain|lost))", why)
        return found is not None and self._without(opened(self.stack, [found[1]]), was, why.split("; besides, ")[1:])

    def _gang_torn(self, was: Allocation, why: str) -> bool:
        found = re.match(r"\S+ has to leave (\S+) \((drain|lost|gone)\), and a gang runs whole or not at all(.*)", why)
        if found is None:
            return False
        after = opened(self.stack, [found[1]]) if found[2] != "gone" else self._with(found[1])
        return self._without(after, was, found[3].split("; besides, ")[1:])

    def _outgrew(self, was: Allocation, why: str) -> bool:
        if found := re.match(r"it(?:s new size)? (?:does not fit \S+?(?: any more)?|is of \S+ now): (.+)", why):
            return self._without(self.stack, was, found[1].removesuffix(", and no other node takes it").split("; besides, "))
        if "its new size has no place" not in why:
            return False
        old, mine = self.before.workloads[was.workload], self.stack.workloads[was.workload]
        update = {"each": old.each, "network": old.network}
        changed = update != {key: getattr(mine, key) for key in update}
        return changed and self._stays(put_workload(self.stack, was.workload, mine.model_copy(update=update)), was, set())

    def _with(self, node: str) -> Stack:
        """The stack with a node that it has no more."""
        return with_node(self.stack, self.before.nodes[node], self.before.hardware_of(node))

    def _without(self, stack: Stack, was: Allocation, sentences: list[str]) -> bool:
        """Without the rules that the sentences are about, does it stay where it was?"""
        away = set[str]()
        for sentence in sentences:
            if names := _names(sentence):
                away |= {a.name for a in self.now.allocations if a.workload in names and self._newcomer(a)}
                continue
            after = given_up(stack, was.workload, sentence)
            if after is None:
                return False
            stack = after
        return self._stays(stack, was, away)

    def _fits_still(self, was: Allocation) -> bool:
        """Is its old place free, beside all that stands?"""
        free = Free(self.stack, self.today, [one for one in self.now.allocations if one.name != was.name])
        request = self.stack.workloads[was.workload]
        return (
            free.capacity(request, was.node)
            and free.devices(request, was.node) is not None
            and free.apart(was.workload, was.node)
        )

    def _newcomer(self, one: Allocation) -> bool:
        old = self.ran.get(one.name)
        return old is None or (old.node, old.gpus) != (one.node, one.gpus) or size_of(old) != size_of(one)

    def _stays(self, stack: Stack, was: Allocation, without: set[str]) -> bool:
        """With all that stands but `without`, and the whole gang of `was`: is it solved so that it stays where it was?"""
        mine = {was.name}
        request = stack.workloads[was.workload]
        if request.gang is not None:
            mine |= {f"{was.workload}-{i}" for i in range(request.gang)}
        stack, last, names = only(stack, (self.names - without) | mine, self.last)
        found = solve(stack, last, today=self.today, reasons=False).placement.by_name().get(names[was.name])
        part = request.each.gpus.share < 1000
        return found is not None and found.node == was.node and (not part or found.gpus == was.gpus)

    def _sake(self, workload: str, reason: Reason) -> Said:
        name = reason.text.partition(":")[0]
        why = re.split(r", (?:and |because (?!of ))?", reason.text, maxsplit=1)[1]
        return Said(f"because of: {reason.rule}", name, reason.text, self._because(self.ran[name], why))


def _all(stack: Stack, workload: str, reasons: list[Reason]) -> Stack:
    for reason in reasons:
        stack = lifted(stack, workload, reason.rule, reason.path) or stack
    return stack


def _names(why: str) -> set[str]:
    """The workloads that a sentence names as those for which something leaves."""
    why = re.sub(r", which (?:had to leave \([^)]*\)|leaves too little of \S+(?: and \S+)*)", "", why)
    if found := re.match(r"(?:frees capacity for|preempted by|its place went to) (.+)", why):
        return set(found[1].split(" and "))
    if found := re.match(r"because of (.+)", why):
        text = re.sub(r", which had to leave \([^)]*\)", "", found[1])
        return {name.rpartition("-")[0] for part in text.split(" and ") for name in part.split(", ")}
    return set()


def _kind(why: str) -> str:
    """A sentence without the names in it."""
    known = (
        "frees capacity for", "preempted by", "its place went to", "removed from the stack file", "scaled down", "left the stack", "has to leave",
        "does not fit", "its new size has no place", "it is of", "fewer nodes in use", "no place was found for it",
    )  # fmt: skip
    if found := next((text for text in known if text in why), ""):
        return found
    state = re.search(r": (drain|lost)", why)
    return state[1] if state else "other"
