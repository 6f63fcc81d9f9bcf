"""What is published of the machines, who may read what of it, and what does a check make of it?"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from swarm_iac import forge
from swarm_iac.cli.merging import published
from swarm_iac.errors import Retryable
from swarm_iac.model.state import Observed
from swarm_iac.review import last_known
from swarm_iac.review.check import check
from swarm_iac.review.last_known import Kind, NodeDifference
from tests.cli.test_drift_issue import Kept
from tests.cli.test_ended import answers, heard, write
from tests.cli.typed import Ended, swarm

STACK = """\
fleet: lab
teams: {t: {users: [ada, bo]}}
hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB, nvme: 4 TB, disk: /dev/nvme1n1}}
tuning: {t: {swappiness: 10}}
nodes:
  n1: {hardware: h, tuning: t, labels: {at: n1}, ssh: root@n1.invalid}
  n2: {hardware: h, tuning: t, labels: {at: n2}, ssh: root@n2.invalid}
workloads:
  fine: {user: ada, each: {gpus: 8}, place: {select: {at: n1}}, run: {command: train --seed 7, env: {LR: "0.1"}}}
  tune: {user: bo, each: {gpus: 4}, place: {select: {at: n2}}, run: {command: tune}}
"""


@dataclass
class Fleet:
    """A fleet repository with a remote, a signer, and machines that answer."""

    at: Path
    key: Path

    def git(self, *words: str) -> str:
        own = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        own |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(("git", *words), cwd=self.at, env=os.environ | own, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "x")
        return self.git("rev-parse", "HEAD")

    def machines(self) -> dict[str, Observed]:
        return answers(self.at)

    def typed(self, seen: dict[str, Observed], *words: str) -> Ended:
        return heard(self.at, seen, *words)

    def snapshot(self, seen: dict[str, Observed], *words: str) -> Path:
        """A signed file of what they say, as it is after its commit."""
        file = self.at.parent / "lab.snapshot"
        ended = self.typed(seen, "snapshot", "-s", "lab", "--key", str(self.key), "--out", str(file), *words)
        assert ended.code in (0, 4), ended.err
        return file

    def check(self, file: Path | None, head: str = "change") -> Ended:
        more = ("--snapshot", str(file)) if file else ()
        return swarm("pr", "check", "--base", "main", "--head", head, "--json", *more, at=self.at, width=200)

    def change(self, old: str, new: str) -> None:
        """A pull request of one line, on the branch `change`."""
        self.git("checkout", "-q", "-f", "-B", "change", "main")
        text = (self.at / "stacks" / "lab.yaml").read_text()
        assert old in text
        write(self.at, text.replace(old, new))
        assert heard(self.at, {}, "solve", "lab", "--offline").code == 0
        self.commit()
        self.git("checkout", "-q", "-f", "main")


def key(at: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(at)], check=True)
    return at


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    made = Fleet(tmp_path / "fleet", key(tmp_path / "key"))
    (made.at / "stacks").mkdir(parents=True)
    (made.at / "policies").mkdir()
    (made.at / "Pulumi.yaml").write_text("name: lab\nbackend: {url: 'file://./.state'}\n")
    (made.at / ".gitignore").write_text(".state\n")
    public = made.key.with_suffix(".pub").read_text()
    (made.at / "policies" / "allowed_signers").write_text(f'swarm-snapshot namespaces="swarm-snapshot" {public}')
    write(made.at, STACK)
    made.git("init", "-q", "-b", "main")
    assert heard(made.at, {}, "solve", "lab", "--offline").code == 0
    made.commit()
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "remote")], check=True)
    made.git("remote", "add", "origin", str(tmp_path / "remote"))
    return made


def bent(seen: dict[str, Observed], node: str, **settings: str) -> dict[str, Observed]:
    """The same machines, after somebody changed kernel settings of one by hand."""
    one = seen[node]
    sysctl = {**one.state.settings.sysctl, **{f"vm.{name}": value for name, value in settings.items()}}
    state = one.state.model_copy(update={"settings": one.state.settings.model_copy(update={"sysctl": sysctl})})
    return {**seen, node: one.model_copy(update={"state": state})}


def edited(seen: dict[str, Observed], node: str, name: str, **unit: object) -> dict[str, Observed]:
    """The same, after somebody edited the unit of an allocation."""
    one = seen[node]
    there = one.state.allocations[name]
    allocations = {**one.state.allocations, name: there.model_copy(update={"unit": there.unit.model_copy(update=unit)})}
    return {**seen, node: one.model_copy(update={"state": one.state.model_copy(update={"allocations": allocations})})}


def test_drift_says_what_was_wanted_and_found_and_that_a_silent_node_is_none(fleet: Fleet) -> None:
    assert fleet.typed(fleet.machines(), "drift", "-s", "lab").code == 0
    seen = bent(fleet.machines(), "n1", swappiness="77")
    ended = fleet.typed(seen, "drift", "-s", "lab", "--json")
    (row,) = json.loads(ended.out)["differences"]
    assert (row["node"], row["what"], row["wanted"], row["found"]) == ("n1", 'settings.sysctl["vm.swappiness"]', "10", "77")
    assert ended.code == 1
    del seen["n1"]
    ended = fleet.typed(seen, "drift", "-s", "lab", "--json")
    found = json.loads(ended.out)
    assert (ended.code, found["differences"], found["unreachable"]) == (4, [], {"n1": "no route to host"})


def test_drift_compares_with_what_is_committed_and_not_with_what_somebody_is_writing(fleet: Fleet) -> None:
    seen = fleet.machines()
    write(fleet.at, STACK.replace("swappiness: 10", "swappiness: 20"))
    assert fleet.typed(seen, "drift", "-s", "lab").code == 0
    write(fleet.at, "nonsense: [")
    assert fleet.typed(seen, "drift", "-s", "lab").code == 0


def test_while_somebody_changes_the_stack_nothing_is_compared(fleet: Fleet) -> None:
    """What a run is about to put right, or has half done, is no drift."""
    lock = fleet.at / ".state" / ".pulumi" / "locks" / "organization" / "lab" / "lab" / "1b2c.json"
    lock.parent.mkdir(parents=True)
    lock.write_text(json.dumps({"pid": 7, "username": "ada", "hostname": "desk", "timestamp": "2026-11-25T12:00:00Z"}))
    ended = fleet.typed(bent(fleet.machines(), "n1", swappiness="77"), "drift", "-s", "lab", "--json")
    assert ended.code == 4 and "is being changed by ada@desk" in ended.err
    lock.unlink()
    ended = fleet.typed(bent(fleet.machines(), "n1", swappiness="77"), "drift", "-s", "lab", "--detailed-exitcode")
    assert ended.code == 2, "for scripts that tell it from an error"


def test_a_finished_job_is_no_drift_and_a_stopped_service_is_not_healthy(fleet: Fleet) -> None:
    seen = answers(fleet.at, fine_0="done", tune_0="stopped")
    file = fleet.snapshot(seen)
    nodes = json.loads(file.read_bytes().partition(b"\n")[0])["nodes"]
    assert nodes["n1"] == {"finished": ["fine-0"]}
    assert nodes["n2"]["health"] == {"tune-0": "stopped"}


def test_a_change_where_machines_differ_is_refused_with_the_row_and_elsewhere_it_is_not(fleet: Fleet) -> None:
    fleet.change("command: tune", "command: tune --fast")
    assert fleet.check(None).code == 0
    assert fleet.check(fleet.snapshot(fleet.machines())).code == 0
    assert fleet.check(fleet.snapshot(bent(fleet.machines(), "n1", swappiness="77"))).code == 0, "nothing is done on n1"
    ended = fleet.check(fleet.snapshot(bent(fleet.machines(), "n2", swappiness="77")))
    assert ended.code == 3
    assert 'n2: settings.sysctl["vm.swappiness"] is 77 and should be 10' in json.loads(ended.out)["refused"][0]


def test_a_change_to_what_a_machine_is_already_is_not_refused(fleet: Fleet) -> None:
    fleet.change("swappiness: 10", "swappiness: 77")
    both = bent(bent(fleet.machines(), "n1", swappiness="77"), "n2", swappiness="77")
    assert fleet.check(fleet.snapshot(both)).code == 0
    assert fleet.check(fleet.snapshot(bent(both, "n2", swappiness="78"))).code == 3


def test_the_check_says_how_old_it_is_and_who_did_not_answer(fleet: Fleet) -> None:
    fleet.change("command: tune", "command: tune --fast")
    seen = fleet.machines()
    del seen["n2"]
    comment = json.loads(fleet.check(fleet.snapshot(seen)).out)["comment"]
    assert "as last seen 0 min ago" in comment and "of which 1 did not answer" in comment
    assert "n2 did not answer then" in comment


def test_what_is_signed_by_nobody_who_may_is_refused(fleet: Fleet, tmp_path: Path) -> None:
    fleet.change("command: tune", "command: tune --fast")
    good = fleet.snapshot(fleet.machines()).read_bytes()
    file = tmp_path / "x.snapshot"

    def refused(data: bytes) -> str:
        file.write_bytes(data)
        ended = fleet.check(file)
        assert ended.code == 3, ended.out
        return ended.err

    text, mark, signature = good.partition(b"-----BEGIN SSH SIGNATURE-----")
    assert "not signed" in refused(text)
    assert "none of the allowed signers" in refused(text.replace(b'"lab"', b'"lub"') + mark + signature)
    assert "none of the allowed signers" in refused(good.replace(b"{", b"{ ", 1))
    other = key(tmp_path / "other")
    for namespace, by in (("swarm-snapshot", other), ("git", fleet.key)):
        words = ["ssh-keygen", "-Y", "sign", "-q", "-f", str(by), "-n", namespace]
        done = subprocess.run(words, input=text, capture_output=True, check=True)
        assert "none of the allowed signers" in refused(text + done.stdout), namespace
    assert refused(good[:-200]) and refused(b"") and refused(b"\xff" * 1000)


def test_one_of_another_fleet_another_branch_or_the_future_is_refused(fleet: Fleet, tmp_path: Path) -> None:
    from swarm_iac.review.signature import signed

    fleet.change("command: tune", "command: tune --fast")
    text = json.loads(fleet.snapshot(fleet.machines()).read_bytes().partition(b"\n")[0])
    file, later = tmp_path / "x.snapshot", datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    for wrong, said in (
        ({"fleet": "other"}, "of the fleet other"), ({"stack": "prod"}, "no stack prod"), ({"commit": "0" * 40}, "not in the base"),
        ({"commit": fleet.git("rev-parse", "change")}, "not in the base"), ({"at": later.isoformat()}, "to come"),
        ({"format": 2}, "format"), ({"nodes": {"../x": {}}}, "nodes"),
    ):  # fmt: skip
        file.write_bytes(signed(json.dumps({**text, **wrong}).encode() + b"\n", fleet.key))
        ended = fleet.check(file)
        assert ended.code == 3 and said in ended.err, (wrong, ended.err)


def test_a_head_that_names_a_signer_of_its_own_is_judged_by_those_of_the_base(fleet: Fleet, tmp_path: Path) -> None:
    fleet.git("checkout", "-q", "-b", "change")
    other = key(tmp_path / "other")
    (fleet.at / "policies" / "allowed_signers").write_text(f"swarm-snapshot {other.with_suffix('.pub').read_text()}")
    fleet.commit()
    fleet.git("checkout", "-q", "main")
    good = fleet.snapshot(fleet.machines())
    assert "other files are not read" in fleet.check(good).out and fleet.check(good).code == 0
    fleet.key = other
    assert fleet.check(fleet.snapshot(fleet.machines())).code == 3


def test_what_is_published_has_no_command_variable_process_or_word_of_a_node(fleet: Fleet) -> None:
    secret = "hunter2-secret"
    seen = edited(
        fleet.machines(), "n1", "fine-0", command=f"train --token {secret}", env={"LR": secret, secret: "1"}, user=secret
    )
    seen = bent(seen, "n2", swappiness=f"`{secret}` @ada")
    one = seen["n2"]
    facts = one.facts.model_copy(update={"hostname": secret, "kernel": secret, "driver": secret})
    words = {"facts": facts, "troubles": (secret,), "foreign": (secret,), "unverified": (secret,), "health": {"tune-0": secret}}
    seen["n2"] = one.model_copy(update=words)
    whole = fleet.typed(seen, "drift", "-s", "lab", "--json").out
    assert secret in whole, "an operator sees it"
    text = fleet.snapshot(seen).read_text().partition("-----BEGIN")[0]
    text = text.replace(fleet.git("rev-parse", "HEAD"), "")  # its digits hold "ada" at times
    assert secret not in text and "hunter2" not in text and "ada" not in text and "`" not in text
    assert '"n1"' in text and "unit.command" in text and "(not published)" in text, "it still says that it differs"


def test_a_number_in_a_command_or_variable_is_not_published_and_hardware_is_in_our_words() -> None:
    def made(what: str, found: str, kind: Kind = "value") -> str:
        return last_known.published(NodeDifference(what=what, wanted="absent", found=found, kind=kind)).found

    unit = 'allocations["fine-0"].unit'
    assert (
        made(f'{unit}.env["PIN"]', "4711") == made(f"{unit}.command", "4711") == made(f"{unit}.user", "1") == "(not published)"
    )
    assert made(f"{unit}.active", "True") == "True" and made('allocations["fine-0"].slice.memory_max', "4711") == "4711"
    assert (
        made("settings.governor", "powersave") == "powersave"
        and made("settings.governor", "mail ada at x") == "(not published)"
    )
    assert made('settings.sysctl["net.ipv4.tcp_rmem"]', "4096\t131072\t6291456") == "4096\t131072\t6291456"
    said = "3 x H100 and 1 x L40S found, 4 x H100|A100 declared, 12 CPUs found, 16 declared"
    assert made("hardware", said, "hardware") == said
    for words in (
        "1 x hunter2 found, 4 x H100 declared",
        "1 x H100 found, ask ada declared",
        "no interface eth0 found (ada there)",
    ):
        assert made("hardware", words, "hardware") == "(not published)", words


def test_with_a_forge_nothing_is_printed_that_is_not_published(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs as a job then, whose log others read."""
    monkeypatch.setattr(forge, "opened", lambda _: Kept())
    seen = edited(fleet.machines(), "n1", "fine-0", command="train --token hunter2") | {
        "n2": Observed(node="n2", error="10.1.2.3")
    }
    for words in (("drift", "-s", "lab", "--json"), ("drift", "-s", "lab"), ("snapshot", "-s", "lab")):
        monkeypatch.setenv("SWARM_FORGE_TOKEN", "x")  # a command takes it out of its environment
        ended = fleet.typed(seen, *words)
        assert "hunter2" not in ended.out + ended.err and "10.1.2.3" not in ended.out + ended.err, words
        assert "unit.command" in ended.out and "n2" in ended.out + ended.err, words
    assert "hunter2" in fleet.typed(seen, "drift", "-s", "lab").out, "an operator sees it"


def test_a_forge_that_is_away_costs_no_answer(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    class Away(Kept):
        def me(self) -> str:
            raise Retryable("the forge did not answer", after=60)

    monkeypatch.setattr(forge, "opened", lambda _: Away())
    monkeypatch.setenv("SWARM_FORGE_TOKEN", "x")
    ended = fleet.typed(bent(fleet.machines(), "n1", swappiness="77"), "drift", "-s", "lab", "--json")
    assert ended.code == 4 and "did not answer" in ended.err
    assert json.loads(ended.out)["differences"][0]["found"] == "77"


def test_an_error_of_a_node_is_not_published(fleet: Fleet) -> None:
    seen = fleet.machines() | {"n2": Observed(node="n2", error="connect to 10.1.2.3: secret words")}
    text = fleet.snapshot(seen).read_text()
    assert "10.1.2.3" not in text and json.loads(text.partition("\n")[0])["nodes"]["n2"] == {"answered": False}


def test_it_is_published_in_a_branch_that_a_check_reads(fleet: Fleet) -> None:
    base = fleet.git("rev-parse", "main")
    assert published.files(fleet.at, "origin", base) == ()
    words = ("snapshot", "-s", "lab", "--key", str(fleet.key), "--publish")
    assert fleet.typed(fleet.machines(), *words).code == 0
    (data,) = published.files(fleet.at, "origin", base)
    assert data == published.of(fleet.at, "origin", "lab", base)
    ended = fleet.typed(fleet.machines(), *words, "--unless-current")
    assert "is current" in ended.err
    published.publish(fleet.at, "origin", "lab", data.replace(b'"n1"', b'"n3"'), base)
    assert "published in" in fleet.typed(fleet.machines(), *words, "--unless-current").err, "not signed so"
    (fleet.at / "stacks" / "other.yaml").write_text("fleet: other\n")
    base = fleet.commit()
    published.publish(fleet.at, "origin", "other", b"x\n", base)
    assert len(published.files(fleet.at, "origin", base)) == 2, "one file for each stack"
    assert "published in" in fleet.typed(fleet.machines(), *words, "--unless-current").err, "of another commit"
    assert len(published.files(fleet.at, "origin", base)) == 2, "that of the other stack stays"
    assert fleet.git("ls-remote", "origin").count("refs/heads/swarm-snapshot") == 1
    assert "only what is signed" in fleet.typed(fleet.machines(), "snapshot", "-s", "lab", "--publish").err


def test_a_file_that_was_signed_elsewhere_is_published_by_who_has_no_key(fleet: Fleet, tmp_path: Path) -> None:
    base, file = fleet.git("rev-parse", "main"), fleet.snapshot(fleet.machines())
    words = ("snapshot", "--publish", "--from")
    ended = fleet.typed({}, *words, str(file), "-s", "lab")
    assert ended.code == 0 and published.files(fleet.at, "origin", base) == (file.read_bytes(),), ended.err
    assert fleet.typed({}, *words, str(file), "-s", "other").code != 0
    other = tmp_path / "x.snapshot"
    other.write_bytes(file.read_bytes().replace(b'"n1"', b'"n3"'))
    assert fleet.typed({}, *words, str(other), "-s", "lab").code == 3
    assert published.files(fleet.at, "origin", base) == (file.read_bytes(),)


def pushed(fleet: Fleet, **files: bytes) -> None:
    """What somebody else pushed to the branch."""
    tree = "".join(f"100644 blob {blob(fleet, data)}\t{name}.snapshot\n" for name, data in sorted(files.items()))
    words = ("git", "mktree")
    done = subprocess.run(words, cwd=fleet.at, input=tree, capture_output=True, text=True, check=True)
    fleet.git(
        "push", "-q", "-f", "origin", f"{fleet.git('commit-tree', done.stdout.strip(), '-m', 'x')}:refs/heads/swarm-snapshot"
    )


def blob(fleet: Fleet, data: bytes) -> str:
    words = ("git", "hash-object", "-w", "--stdin")
    return subprocess.run(words, cwd=fleet.at, input=data, capture_output=True, check=True).stdout.decode().strip()


@pytest.mark.parametrize("lab", [b"", b"\xff\xfe\n\n", b"{}\n", b"-----BEGIN SSH SIGNATURE-----\n", b"x" * ((8 << 20) + 1)])
def test_what_somebody_else_pushes_to_the_branch_is_not_used_and_holds_no_check(fleet: Fleet, lab: bytes) -> None:
    """Who may push there must not be able to make all checks fail. That nothing is known is said."""
    base = fleet.git("rev-parse", "main")
    fleet.git("push", "-q", "origin", "main:refs/heads/x/refs/heads/swarm-snapshot")
    assert published.files(fleet.at, "origin", base) == (), "another branch, with a name that ends so"
    pushed(fleet, **{f"aa{i:02}": b"x" for i in range(60)}, lab=lab, zz=lab)
    found = published.files(fleet.at, "origin", base)
    assert found == (lab if len(lab) <= 8 << 20 else b"",), "of stacks of the base alone"
    fleet.change("command: tune", "command: tune --fast")
    verdict = check(fleet.at, "main", "change", snapshots=found, offered=True)
    assert verdict.ok and "nothing is known of the machines" in verdict.comment.replace("\\", "")
    assert fleet.typed(fleet.machines(), "snapshot", "-s", "lab", "--key", str(fleet.key), "--publish").code == 0
    fleet.git("fetch", "-q", "origin", "swarm-snapshot")
    assert fleet.git("ls-tree", "--name-only", "FETCH_HEAD") == "lab.snapshot", "what was pushed beside it is gone"


def test_one_that_is_offered_of_another_fleet_is_left_out_and_said_so(fleet: Fleet) -> None:
    from swarm_iac.review.signature import signed

    fleet.change("command: tune", "command: tune --fast")
    text = json.loads(fleet.snapshot(bent(fleet.machines(), "n2", swappiness="77")).read_bytes().partition(b"\n")[0])
    assert not check(
        fleet.at, "main", "change", snapshots=[signed(json.dumps(text).encode() + b"\n", fleet.key)], offered=True
    ).ok
    for wrong in ({"fleet": "other"}, {"stack": "prod"}, {"commit": "0" * 40}, {"at": "2100-01-01T00:00:00Z"}):
        data = signed(json.dumps({**text, **wrong}).encode() + b"\n", fleet.key)
        verdict = check(fleet.at, "main", "change", snapshots=[data], offered=True)
        assert verdict.ok and "nothing is known of the machines" in verdict.comment, wrong
