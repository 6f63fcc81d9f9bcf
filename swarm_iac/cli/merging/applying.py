"""How is a merge applied exactly once? In the order of the branch, recorded before and after, with what `swarm up` does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from swarm_iac.cli import engine
from swarm_iac.cli.live_sharing import fetch
from swarm_iac.cli.merge_lock import alone
from swarm_iac.cli.merging import approved, drift, record, repository
from swarm_iac.cli.merging.approved import Approved, FleetBranch, Judge
from swarm_iac.cli.merging.record import MergeRecord
from swarm_iac.errors import Refused, Retryable, SwarmError
from swarm_iac.forge import Forge
from swarm_iac.forge.forge import State
from swarm_iac.forge.opening import TOKEN
from swarm_iac.live import checkpoint
from swarm_iac.live import file as live_file
from swarm_iac.model.step import Step
from swarm_iac.plan.show.markdown import plain
from swarm_iac.printable import printable
from swarm_iac.reach.author import who

Say = Callable[[str], None]
Swarm = Callable[[Path, Sequence[str], Mapping[str, str], bool], subprocess.CompletedProcess[str]]
#: The status of a merge commit that says what became of it.
APPLIED = "swarm/apply"
_STEPS = TypeAdapter(tuple[Step, ...])


def run_swarm(
    tree: Path, words: Sequence[str], environment: Mapping[str, str], capture: bool
) -> subprocess.CompletedProcess[str]:
    """Run `swarm` itself in a work tree. Nothing of the tree stands in for a module of ours: Python does not look there."""
    pipe = subprocess.PIPE if capture else None
    command = [sys.executable, "-P", "-m", "swarm_iac.cli", *words]
    return subprocess.run(command, cwd=tree, env=dict(environment), text=True, stdout=pipe, stderr=pipe)


@dataclass(frozen=True)
class Merges:
    """The merges of one stack in one clone. `bot`: the account whose status counts. `since`: what counts as applied.

    `skip`: the last commit that is left to the next merge, and why.
    `swarm`: runs `swarm WORDS` in a work tree, with the variables given; captures what it prints, if asked.
    """

    root: Path
    stack: str
    forge: Forge
    bot: str
    judge: Judge
    say: Say
    branch: str = "main"
    since: str = ""
    allow_stop: int = 0
    swarm: Swarm = run_swarm
    remote: str = "origin"
    skip: tuple[str, str] = ("", "")

    def apply(self, merge: str) -> tuple[str, ...]:
        """Apply every merge up to this one that is not applied yet, one after the other; the commits that were.

        Raises Refused where one may not be applied, Retryable where it may be later; what came before it stays applied.
        """
        last = repository.commit(self.root, merge)
        with alone(self.root):
            known = self._known()
            if any(self.skip):
                known = self._skipping(known, last)
            if repository.comes_after(self.root, known.commit, last) and (known.whole or known.commit != last):
                self.say(f"{last[:12]} is applied already")
                self._report(last)
                return ()
            if known.skipped and repository.comes_after(self.root, known.skipped, last):
                self.say(f"{last[:12]} is skipped: the next merge is applied with it")
                return ()
            waits: tuple[str, ...] = () if known.whole else (known.commit,)
            waits += repository.between(self.root, known.skipped or known.commit, last)
            done: list[str] = []
            for commit in self._merges(waits):
                known = self._one(commit, known, resumed=not known.whole and commit == known.commit)
                done.append(commit)
            return tuple(done)

    def _merges(self, waits: tuple[str, ...]) -> Iterator[str]:
        """Those of these commits by which something was merged: of a rebased pull request the last one alone."""
        whole = ""
        for number, commit in enumerate(waits):
            if not whole and self.forge.merged_as(commit) is None and approved.acting(self.root, commit):
                whole = approved.part_of(self._at, commit, waits[number + 1 :])
            if commit == whole or not whole:
                whole = ""
                yield commit

    @property
    def _at(self) -> FleetBranch:
        return FleetBranch(self.root, self.remote, self.branch, self.forge, self.bot)

    def _skipping(self, known: MergeRecord, last: str) -> MergeRecord:
        """Leave what waits, up to a commit, to the next merge, which is judged with all of it. First said, then recorded."""
        name, reason = self.skip
        if not name or not reason.strip():
            raise Refused("what is skipped, and why?", hint='swarm pr apply --skip COMMIT --reason "TEXT"')
        commit = repository.commit(self.root, name)
        waits: tuple[str, ...] = () if known.whole else (known.commit,)
        waits += repository.between(self.root, known.skipped or known.commit, last)
        if commit not in waits:
            raise Refused(
                f"{commit[:12]} does not wait to be applied", hint=f"what does: {', '.join(one[:12] for one in waits[:5])}"
            )
        base = known.commit if known.whole else known.after or approved.verify(self._at, known.commit, None).before
        text = f"skipped by {who()}: {reason}"
        self.forge.set_status(commit, APPLIED, State.FAILURE, printable(text))
        if pull := self.forge.merged_as(commit):
            self.forge.comment(
                pull, f"Not applied, {plain(printable(text))}\n\nThe next merge is judged and applied with it.\n"
            )
        found = MergeRecord(base, whole=True, other=commit)
        record.write(self.root, self.stack, found, self.say)
        self.say(f"{commit[:12]} is {printable(text)}; what is merged next is judged and applied together with it")
        if not known.whole:
            self.say(f"{known.commit[:12]} was begun: swarm plan shows what it left on machines")
        return found

    def _known(self) -> MergeRecord:
        """What was applied before. Raises Refused the first time: only a person knows what the machines are."""
        if self.since:
            known = MergeRecord(repository.commit(self.root, self.since), whole=True)
            record.write(self.root, self.stack, known, self.say)
            self.say(f"everything up to {known.commit[:12]} counts as applied to {self.stack}")
            return known
        found = record.read(self.root, self.stack, self.say)
        if found is None:
            raise Refused(
                f"it is not recorded which commit was applied to {self.stack} last",
                hint="after swarm up from the base branch, once: swarm pr apply --since COMMIT",
            )
        return found

    def _one(self, commit: str, known: MergeRecord, *, resumed: bool) -> MergeRecord:
        """One merge, after what is `known` as applied. All that can refuse it comes before the record says that it begins."""
        after = known.after if resumed else known.commit if known.skipped else ""
        found = approved.verify(self._at, commit, None if resumed else self.judge, after)
        if not repository.comes_after(self.root, known.commit, found.before):
            raise Refused(
                f"{commit[:12]}: commits before it belong to no pull request", hint="run it again; see docs/forges.md"
            )
        name = f"#{found.pull.number}" if found.pull else "no pull request"
        self.say(f"{commit[:12]} ({name}){', begun before' if resumed else ''}")
        if found.pull:
            with repository.work_tree(self.root, found.before) as before, repository.work_tree(self.root, commit) as tree:
                self._settle(tree)
                meant = approved.steps(self.root, self.stack, before, tree)
                only = self._checked(meant, tree, resumed=resumed)
                self._still(known)
                record.write(self.root, self.stack, MergeRecord(commit, whole=False, other=after), self.say)
                if only is not None:
                    self._up(found, tree, only)
        elif known.skipped:  # words alone take nothing along
            done = replace(known, other=commit)
            record.write(self.root, self.stack, done, self.say)
            return done
        done = MergeRecord(commit, whole=True)
        record.write(self.root, self.stack, done, self.say)
        self._report(commit)
        return done

    def _still(self, known: MergeRecord) -> None:
        """A plan takes minutes, in which a run on another machine may have gone on: an older merge must not follow a newer."""
        if record.read(self.root, self.stack, self.say) != known:
            raise Retryable(f"another run applies merges to {self.stack}, and went on meanwhile", after=60)

    def _checked(self, meant: tuple[Step, ...], after: Path, *, resumed: bool) -> tuple[str, ...] | None:
        """Nodes to which the run is restricted, () for all; None if there is nothing to do. Raises Refused if they drifted."""
        compared = drift.compare(meant, self._plan(after), resumed=resumed)
        if compared.drifted:
            raise Refused(
                "the machines are not what they were when this was approved:\n  " + "\n  ".join(drift.lines(compared.drifted)),
                hint="swarm plan shows all of it; run swarm up on what was applied last, then this again",
            )
        if not compared.left:
            return ()
        self.say(f"not part of this merge, and left for swarm up: what differs on {', '.join(compared.left)}")
        return compared.nodes or None

    def _plan(self, tree: Path) -> tuple[Step, ...]:
        """What `swarm up` would do now, on the machines as they are."""
        done = self.swarm(tree, ["plan", "--json", "--stack", self.stack, *self._allowed], self._environment(), True)
        try:
            document = json.loads(done.stdout)
            steps, refused = _STEPS.validate_python(document["steps"]), document["refused"]
        except (ValueError, KeyError, TypeError, ValidationError):
            raise _failed(done.returncode, printable(done.stderr.strip(), 2000) or "swarm plan printed nothing") from None
        if refused:
            raise Refused(str(refused["message"]), hint=str(refused["hint"]))
        return steps

    def _up(self, found: Approved, tree: Path, only: tuple[str, ...]) -> None:
        assert found.pull
        fetch(self.root, self.stack, self.say, changing=True)
        live_file.carry(self.root, tree)  # it may have changed while the merge was checked
        part = ["--only", ",".join(only)] if only else []
        who = f"{found.pull.author} (pull request {found.pull.number})"
        done = self.swarm(tree, ["up", "--yes", "--stack", self.stack, *part, *self._allowed], self._environment(who), False)
        if done.returncode:
            raise _failed(
                done.returncode if done.returncode > 0 else 128 - done.returncode,
                f"{found.commit[:12]} was begun and is not wholly applied",
                hint=f"the next run resumes it: swarm pr apply --merge {found.commit[:12]}",
            )

    @property
    def _allowed(self) -> list[str]:
        return ["--allow-stop", str(self.allow_stop)] if self.allow_stop else []

    def _environment(self, who: str = "") -> Mapping[str, str]:
        """Without the forge's token: nothing that runs on the fleet's behalf needs it."""
        values = {name: value for name, value in os.environ.items() if name != TOKEN}
        state = checkpoint.state_folder(self.root)
        values |= {"PULUMI_BACKEND_URL": state.as_uri()} if state else {}
        values |= engine.reaching(self.root)
        values |= {"PULUMI_HOME": os.environ.get("PULUMI_HOME", str(self.root / ".state" / "home")), "SWARM_FROZEN": "1"}
        return values | ({"SWARM_WHO": who} if who else {})

    def _settle(self, tree: Path) -> None:
        """The engine's settings of the stack belong to its state: a merge that does not bring them uses those of this clone."""
        name = f"Pulumi.{self.stack}.yaml"
        if not os.path.lexists(tree / name) and (self.root / name).is_file():  # not through a link of the merge
            (tree / name).write_bytes((self.root / name).read_bytes())

    def _report(self, commit: str) -> None:
        """Show on the forge that a merge is applied, once; what was skipped stays so. The forge may be away: see the record."""
        try:
            shown = self.forge.statuses(commit, APPLIED)
            if not shown or shown[-1].state not in (State.SUCCESS, State.FAILURE):
                self.forge.set_status(commit, APPLIED, State.SUCCESS, f"applied to {self.stack}")
        except SwarmError as error:
            self.say(f"{commit[:12]} is applied, and the forge does not show it yet; the next run will: {error.message}")


def _failed(code: int, message: str, hint: str = "") -> SwarmError:
    """An error with the exit code of the command that failed."""
    kinds: dict[int, type[SwarmError]] = {3: Refused, 4: Retryable}
    error = kinds.get(code, SwarmError)(message, hint=hint)
    error.exit_code = code
    return error
