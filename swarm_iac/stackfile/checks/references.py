"""Do the names in a stack refer to each other, and do its values agree?"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping

from swarm_iac.errors import Problem
from swarm_iac.model.place.groups import LEVELS
from swarm_iac.model.place.taints import ANY
from swarm_iac.model.service.variants import at
from swarm_iac.model.stack import DEPTH, Stack
from swarm_iac.model.workload import LONGEST, Time, Workload
from swarm_iac.stackfile.checks.gpu_models import model_problems
from swarm_iac.stackfile.checks.joined_sites import link_problems
from swarm_iac.stackfile.checks.machine_limits import huge_page_problems, power_problems
from swarm_iac.stackfile.checks.needs import needs_problems
from swarm_iac.stackfile.checks.scaling import scaling_problems
from swarm_iac.stackfile.checks.variants import in_variants, variant_problems
from swarm_iac.stackfile.reading.messages import COMPARED, nearest
from swarm_iac.stackfile.reading.shape import StackFile
from swarm_iac.stackfile.reading.source import Source


def check(stack: Stack, shape: StackFile, source: Source, touched: frozenset[tuple[str, str]] = frozenset()) -> list[Problem]:
    """All disagreements. Sizes and limits are for `feasibility`.

    `touched` names the (section, entry) pairs that are wrong in themselves; nothing is said that rests on them.
    """
    checker = _Checker(stack, source, touched)
    checker.teams()
    checker.exceptions()
    checker.nodes(shape)
    checker.addresses()
    checker.taints(shape)
    checker.models()
    checker.labels_of_nodes()
    checker.add(huge_page_problems(stack))
    checker.add(power_problems(stack, checker.sections))
    checker.add(link_problems(stack, checker.sections))
    checker.add(model_problems(stack, checker.sections))
    for name, workload in stack.workloads.items():
        checker.workload(name, workload)
        checker.tolerations(f"workloads.{name}", workload)
        checker.named(name, workload)
    checker.sites()
    return checker.problems


#: As the node has it: the name is a file below /etc/swarm/secrets.
_SECRET = re.compile(r"secret:[A-Za-z0-9][A-Za-z0-9_.-]*")

#: How the names of variables begin that are not the user's, and why.
_RESERVED = {"SWARM_": "swarm sets itself on the node"}
#: By these CUDA and containers are told which GPUs there are; hidden, nobody would see why a job uses others.
_GPU_NAMES = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


class _Checker:
    def __init__(self, stack: Stack, source: Source, touched: frozenset[tuple[str, str]]) -> None:
        self.stack = stack
        self.source = source
        self.problems: list[Problem] = []
        self.touched = touched
        self.sections = {section for section, _ in touched}
        self.users = stack.users()
        self.labels = _labels(stack)
        self.former = Counter(workload.renamed_from for workload in stack.workloads.values())

    def say(self, path: str, message: str, hint: str = "") -> None:
        self.problems.append(Problem(self.source.place(path), path, message, hint))

    def add(self, found: Iterable[tuple[str, str, str]]) -> None:
        """What other modules found: path, what is wrong, and a hint."""
        for one in found:
            self.say(*one)

    def teams(self) -> None:
        """Every user is in exactly one team."""
        first: dict[str, str] = {}
        for team, value in self.stack.teams.items():
            for index, user in enumerate(value.users):
                path = f"teams.{team}.users[{index}]"
                if user in first:
                    line = self.source.place(f"teams.{first[user]}").line
                    if first[user] == team:
                        self.say(path, f"{user} is twice in this team", "leave it out here")
                    else:
                        hint = "a user's share comes from one team; remove the user from the other"
                        self.say(path, f"{user} is in the team {first[user]} (line {line}) as well", hint)
                first.setdefault(user, team)
            if value.parent is not None:
                self.parent(team, value.parent)

    def parent(self, team: str, parent: str) -> None:
        """A team is inside another one that there is, not inside itself, and not too deep."""
        path, teams = f"teams.{team}.parent", self.stack.teams
        line = self.stack.line_of(team)
        around = teams[line[-1]].parent  # None at the outermost one
        if parent not in teams:
            if ("teams", parent) not in self.touched and ("teams", "") not in self.touched:
                self.say(path, f"there is no team {parent!r}", nearest(parent, teams) or "describe it under `teams:`")
        elif around == team:
            circle = " inside ".join((*line, team))
            self.say(path, f"{circle}: a team cannot be inside itself", "leave one `parent` of these out")
        elif around is None and len(line) == DEPTH + 1:
            text = f"{len(line)} teams are one inside the other: {' inside '.join(line)}"
            self.say(path, text, f"at most {DEPTH} may be; leave a level out")

    def exceptions(self) -> None:
        """Every exception is for a known user or team, for one of them, and replaces something."""
        for index, one in enumerate(self.stack.limits.exceptions):
            path = f"limits.except[{index}]"
            if one.user is None and one.team is None:
                self.say(path, "the exception is for nobody", "add `user: NAME` or `team: NAME`")
            elif one.user is not None and one.team is not None:
                self.say(path, f"the exception is for user {one.user} and for team {one.team}", "write one for each")
            if one.user is not None:
                self.user(f"{path}.user", one.user)
            if one.team is not None and one.team not in self.stack.teams and "teams" not in self.sections:
                hint = nearest(one.team, self.stack.teams) or "describe it under `teams:`"
                self.say(f"{path}.team", f"there is no team {one.team!r}", hint)
            if not one.given() and not one.gpus_by_model:
                self.say(path, f"the exception for {one.user or one.team} replaces no ceiling", "add one, such as gpus: 24")

    def user(self, path: str, user: str) -> None:
        if user not in self.users and "teams" not in self.sections:
            hint = "list users under `teams:`, as in `research: {users: [ada]}`"
            if self.users and len(self.problems) < COMPARED:
                hint = nearest(user, self.users)
            self.say(path, f"{user!r} is in no team", hint)

    def nodes(self, shape: StackFile) -> None:
        """Hardware, racks and tunings that nodes name exist. Told at the entry, not for each node of a range."""
        tables: dict[str, Mapping[str, object]] = {
            "hardware": self.stack.hardware,
            "rack": self.stack.racks,
            "tuning": self.stack.tuning,
            "power_saving": self.stack.power_saving,
        }
        for key, entry in shape.nodes.items():
            for field, table in tables.items():
                name = getattr(entry, field)
                section = "racks" if field == "rack" else field
                if name is not None and name not in table and not self.touched & {(section, name), (section, "")}:
                    place = self.source.document.at(("nodes", key, field))
                    hint = nearest(name, table) or f"describe it under `{section}:`"
                    self.problems.append(Problem(place, f"nodes.{key}.{field}", f"there is no {field} {name!r}", hint))

    def addresses(self) -> None:
        """No machine is two nodes: its cards would be given out twice. Accounts do not matter, and nobody asks a lost node."""
        first: dict[str, str] = {}
        for name, node in self.stack.nodes.items():
            host = node.ssh.rpartition("@")[2].lower().removesuffix(":22")
            if node.state != "lost" and (other := first.setdefault(host, name)) != name:
                line = self.source.place(f"nodes.{other}.ssh").line
                hint = "a machine is one node: write the address of its own"
                self.say(f"nodes.{name}.ssh", f"{node.ssh} is the machine of {other} (line {line}) as well", hint)

    def labels_of_nodes(self) -> None:
        """No node has a label `site` or `rack` that says another thing than its own key."""
        for name, node in self.stack.nodes.items():
            for key, value in (("site", node.site), ("rack", node.rack)):
                label = node.labels.get(key)
                if label is not None and value is not None and label != value:
                    path = f"nodes.{name}.labels.{key}"
                    self.say(path, f"its label {key} says {label}, and its {key} is {value}", "delete the label")

    def sites(self) -> None:
        """A rack is in one site, where a workload counts by site: those that are near each other are then in one group."""
        if not any(group.level == "site" for one in self.stack.workloads.values() for group in one.place.groups):
            return
        first: dict[str, str] = {}
        for name, node in self.stack.nodes.items():
            other = self.stack.nodes[first.setdefault(node.rack, name)] if node.rack else node
            if other.site != node.site:
                where = [
                    f"{one.name} of rack {one.rack} {f'is in {one.site}' if one.site else 'names no site'}"
                    for one in (node, other)
                ]
                path = f"nodes.{name}.{'site' if node.site else 'rack'}"
                self.say(path, f"{where[0]}, and {where[1]}: a rack is in one site", "give all nodes of a rack the same `site`")
                return

    def taints(self, shape: StackFile) -> None:
        """The teams that taints name exist. Told at the entry, not for each node of a range."""
        if "teams" in self.sections:
            return
        for key, entry in shape.nodes.items():
            for taint, one in entry.taints.items():
                for i, team in enumerate(one.teams):
                    if team not in self.stack.teams:
                        place = self.source.document.at(("nodes", key, "taints", taint, "teams", i))
                        hint = nearest(team, self.stack.teams) or "list it under `teams:`"
                        path = f"nodes.{key}.taints.{taint}.teams[{i}]"
                        self.problems.append(Problem(place, path, f"there is no team {team!r}", hint))

    def tolerations(self, path: str, workload: Workload) -> None:
        """What it tolerates is not reserved for other teams."""
        if not workload.place.tolerate or self.sections & {"nodes", "teams"} or workload.user not in self.users:
            return
        mine = self.stack.teams_of(workload.user)
        for key, value in workload.place.tolerate.items():
            named = [
                node.taints[key]
                for node in self.stack.nodes.values()
                if key in node.taints and value in (ANY, node.taints[key].value)
            ]
            if named and not any(taint.admits(mine) for taint in named):
                teams = ", ".join(sorted({team for taint in named for team in taint.teams}))
                message = f"{workload.user} is in the team {mine[0]}, and {key}: {named[0].value} is reserved for {teams}"
                hint = "delete the toleration, or add the team to `teams` of the taint"
                self.say(f"{path}.place.tolerate.{key}", message, hint)

    def named(self, name: str, workload: Workload) -> None:
        """Whom it is to be away from, or with, exists, and is another one."""
        place = workload.place
        for key, kinds in (("away_from", place.away_from), ("prefer_with", place.prefer_with), ("only_with", place.only_with)):
            for level, other in ((level, other) for level, others in kinds.items() for other in others):
                path = f"workloads.{name}.place.{key}.{level}"
                if other == name and key == "away_from":
                    hint = f"write `spread: {level}` to keep its own replicas from each other"
                    self.say(path, f"{name} cannot be away from itself", hint)
                elif other == name:
                    hint = "write `near: rack` to bring its own replicas to few racks"
                    hint = f"write `within: {level}` to keep its own replicas together" if key == "only_with" else hint
                    self.say(path, f"{name} is with itself anyway", hint)
                elif other not in self.stack.workloads and ("workloads", other) not in self.touched:
                    to = next((key for key, one in self.stack.workloads.items() if one.renamed_from == other), "")
                    now = f"{other} is called {to} now" if to else ""
                    near = nearest(other, self.stack.workloads.keys() - {name}) if len(self.problems) < COMPARED else ""
                    hint = now or near or "delete it"
                    self.say(path, f"there is no workload {other!r}", hint)

    def models(self) -> None:
        """A machine has GPUs of one model."""
        for name, hardware in self.stack.hardware.items():
            if "|" in (hardware.gpus.model or ""):
                hint = "write one hardware for each model; a workload may ask for either"
                self.say(f"hardware.{name}.gpus", f"a machine has GPUs of one model, and not {hardware.gpus.model}", hint)

    def workload(self, name: str, workload: Workload) -> None:
        path = f"workloads.{name}"
        self.user(f"{path}.user", workload.user)
        for label, value in workload.place.select.items():
            self.select(f"{path}.place.select.{label}", label, value)
        if ("workloads", name) in self.touched:
            return
        self.add(variant_problems(path, workload))
        self.add(needs_problems(self.stack, path, workload))
        if not workload.variants:
            self.form(name, workload)
        before, tried = len(self.problems), []
        for variant in workload.variants:
            self.form(name, at(workload, variant))
            tried.append((self.problems[before:], {name: variant}))
            del self.problems[before:]
        self.problems += in_variants(tried, self.stack, self.source)

    def form(self, name: str, workload: Workload) -> None:
        """What a workload asks for and starts, in one variant."""
        path = f"workloads.{name}"
        if workload.gang is not None and "replicas" in workload.model_fields_set:
            self.say(f"{path}.replicas", "a gang has no replicas", "keep `gang` when all run or none, else `replicas`")
        self.add(scaling_problems(path, workload))
        self.sizes(path, workload)
        self.running(path, workload)
        self.life(name, workload)
        self.time(f"{path}.time", workload)

    def sizes(self, path: str, workload: Workload) -> None:
        each = workload.each
        if each.pinned and each.vcpus.open:
            hint = f"write {each.vcpus.least}, or leave `pinned` out"
            self.say(f"{path}.each.vcpus", f"pinned cores are its own and are lent to nobody, so {each.vcpus} has no use", hint)
        elif each.pinned and (each.vcpus % 1000 or not each.vcpus):
            hint = "write a whole number, or leave `pinned` out"
            self.say(f"{path}.each.vcpus", f"pinned CPUs are whole, and {each.vcpus} is not", hint)
        if not each.vcpus:
            self.say(f"{path}.each.vcpus", "a replica needs some CPU to run on", "write at least 0.001")
        if not each.memory:
            self.say(f"{path}.each.memory", "a replica needs some memory", "write a size such as 1 GB")
        self.gpus(path, workload)
        if workload.network.between is not None and workload.gang is None:
            self.say(f"{path}.network.between", "only a gang has bandwidth between its members", "use egress and ingress")
        for one in workload.place.groups:
            for other in workload.place.groups if one.of.together else ():
                most = other.skew if other.of.even else other.each
                if (
                    most is not None and workload.members > most and LEVELS.index(one.level) <= LEVELS.index(other.level)
                ):  # of groups that are compared one would have all, and the others none
                    self.say(f"{path}.place.{one.of.key}", f"{one} contradicts {other}", "keep one of the two")

    def gpus(self, path: str, workload: Workload) -> None:
        each = workload.each
        for field in ("gpu_power", "gpu_clock"):
            if getattr(each, field) is not None and not each.gpus.count:
                self.say(f"{path}.each.{field}", "this replica has no GPU to set", "ask for `gpus`, or delete the key")
            elif getattr(each, field) is not None and not each.gpus.whole:
                has = f"{each.gpus}" if each.gpus.profile else f"{each.gpus.share} of one"
                message = f"a GPU that is shared runs as its node says, and this replica has {has}"
                self.say(f"{path}.each.{field}", message, f"set `{field}` in the node's `tuning`, or ask for a whole GPU")
        if each.gpus.profile and workload.place.numa is not None:
            hint = "ask for whole GPUs, or leave `numa` out"
            self.say(f"{path}.place.numa", "MIG instances cannot be bound to one NUMA node yet", hint)
        if each.gpus.count and not each.gpus.whole and workload.place.links is not None:
            what = "MIG instances are" if each.gpus.profile else "a part of a GPU is"
            self.say(f"{path}.place.links", f"{what} not joined by NVLink", "ask for whole GPUs, or leave `links` out")
        if not workload.movable and each.gpus.count and not each.gpus.whole:
            hint = "ask for a whole GPU, or leave `movable` out"
            self.say(f"{path}.movable", "a part of a GPU changes its card when others need that, so it is movable", hint)

    def running(self, path: str, workload: Workload) -> None:
        run = workload.run
        if run is None:
            return
        if run.healthy.startswith("/") and run.port is None:
            self.say(f"{path}.run.healthy", f"the path {run.healthy} is asked on a port, and there is none", "add `port:`")
        for key, line in (("command", run.command), ("healthy", run.healthy)):
            try:
                shlex.split(line)
            except ValueError as error:
                reason = str(error).lower()
                self.say(f"{path}.run.{key}", f"it does not split into words: {reason}", "close the quotes, or quote the quote")
        for key, value in run.env.items():
            for begin, owner in _RESERVED.items():
                if key.startswith(begin):
                    hint = f"give the variable a name that does not begin with {begin}"
                    self.say(f"{path}.run.env.{key}", f"{key[:60]!r} is a name that {owner}", hint)
            if key in _GPU_NAMES:
                hint = f"leave it out; to use fewer of them, set it within the command: env {key}=… PROGRAM"
                self.say(f"{path}.run.env.{key}", f"{key} is set on the node, to the GPUs that the workload holds", hint)
            if value.startswith("secret:") and not _SECRET.fullmatch(value):
                self.say(f"{path}.run.env.{key}", f"{value[:60]!r} names no secret", "write secret:NAME, as in secret:hf")
        for key, value in {
            "command": run.command,
            "healthy": run.healthy,
            **{f"env.{k}": v for k, v in run.env.items()},
        }.items():
            if "\0" in value:
                self.say(f"{path}.run.{key}", "a NUL character cannot be handed to a program", "leave it out")

    def life(self, name: str, workload: Workload) -> None:
        """How it changes suits its kind, and its former name is free."""
        path = f"workloads.{name}"
        if workload.on_update != "surge" and (workload.kind != "serve" or workload.gang is not None):
            hint = "only replicas of a service change one beside the other; write `kind: serve`, or delete the key"
            self.say(f"{path}.on_update", f"{name} is no service of replicas, so it always stops first", hint)
        former = workload.renamed_from
        if former is not None and (former in self.stack.workloads or self.former[former] > 1):
            hint = "a name is given up before another takes it; delete the key, or rename the other workload"
            self.say(f"{path}.renamed_from", f"{former} is the name of a workload here", hint)

    def time(self, path: str, workload: Workload) -> None:
        """Only what ends has a time, and there is some left before the stop signal."""
        time, grace = workload.time, workload.stop.grace
        if time == Time():
            return
        if workload.kind == "serve" or workload.run is None:
            service = workload.kind == "serve"
            what = (
                "a service has no end, so no run of it takes a time" if service else "nothing is started here, so nothing ends"
            )
            self.say(path, what, f"delete the key, or {'write `kind: batch`' if service else 'say what to `run`'}")
            return
        for key in ("expected", "limit"):
            value = getattr(time, key)
            if value is not None and not 0 < value <= LONGEST:
                self.say(f"{path}.{key}", f"{value} is no time that a run may take", f"write one of at most {LONGEST}")
        if time.limit is None:
            if "past" in time.model_fields_set:
                self.say(f"{path}.past", "says what follows a limit, and there is none", "add `limit`")
            return
        if time.expected is not None and time.expected > time.limit:
            words = f"{time.expected} are more than the limit of {time.limit}"
            self.say(f"{path}.expected", words, "expect less, or raise the limit")
        if 0 < time.limit <= grace and time.past == "stop":
            words = f"nothing is left of {time.limit}, since the stop signal comes {grace} (`stop.grace`) before the limit"
            self.say(f"{path}.limit", words, "raise the limit, or shorten `stop.grace`")

    def select(self, path: str, label: str, value: str) -> None:
        if "nodes" in self.sections:
            return
        if label not in self.labels:
            self.say(path, f"no node carries the label {label!r}", nearest(label, self.labels))
        elif value not in self.labels[label]:
            self.say(path, f"no node carries {label}: {value}", nearest(value, self.labels[label]))


def _labels(stack: Stack) -> dict[str, set[str]]:
    labels: dict[str, set[str]] = {}
    for node in stack.nodes.values():
        for label, value in node.labelled.items():
            labels.setdefault(label, set()).add(value)
    return labels
