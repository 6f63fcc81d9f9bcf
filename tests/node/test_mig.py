"""Are MIG instances made, found, kept from others and removed? Against the stand-in for NVML, through the real binding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from swarm_node import device, shape

from swarm_iac import assets
from swarm_iac.model.device import Device
from swarm_iac.sandbox.image import compile_stand_in
from swarm_iac.sandbox.spec import NodeSpec

_PREAMBLE = """
import json, os, sys
sys.path.insert(0, sys.argv[2])
from swarm_node import device
from swarm_node.concerns import devices, gpus, instances, slices, topology, units
from swarm_node.machine.run import Context, NodeError
from swarm_node.program import step
from swarm_node.records import holdings, ledger
import pynvml as n
root = sys.argv[3]
def of(*written):
    return [device.gpu(one) for one in written]
def attempt(call, *args):
    try:
        return call(*args)
    except NodeError as error:
        return f"refused: {error}"
with ledger.opened(check=False, root=root) as book:
    context = Context(book, root=root)
    def take(name, *written):
        from unittest import mock
        with mock.patch.object(slices, "apply", lambda *_: []), mock.patch.object(devices, "apply", lambda *_: []):
            whole = {"workload": name[:-2], "gpus": list(written), "slice": {"cpus": "0"}}
            return slices.STEPS["slice"](context, name, {"allocations": {name: whole}})
    make, unmake = (lambda *w: instances.make(context, of(*w))), (lambda *w: instances.unmake(context, of(*w)))
    print(json.dumps(eval(sys.argv[1])))
"""


class Machine:
    """Eight H100 in a folder of its own; each call is a process of its own, as each step is."""

    def __init__(self, library: Path, folder: Path) -> None:
        self.library, self.folder, self.root = library, folder, folder / "root"
        for name in ("etc", "run", "root/dev"):
            (folder / name).mkdir(parents=True)
        (folder / "etc" / "gpus").write_text(NodeSpec("gpu-01", 1, "H100", 8).inventory())

    def __call__(self, expression: str, *, dies: bool = False) -> Any:
        found = {
            "LD_LIBRARY_PATH": self.library.parent, "SWARM_NVML_ETC": self.folder / "etc", "SWARM_NVML_RUN": self.folder / "run",
            "SWARM_NVML_DEV": self.root / "dev", "SWARM_NVML_PROC": self.root / "proc/driver/nvidia",
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", _PREAMBLE, expression, str(assets.playbooks() / "module_utils"), str(self.root)],
            env={**os.environ, **{key: str(value) for key, value in found.items()}}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return None if dies else json.loads(done.stdout)

    def driver(self) -> list[str]:
        """What the stand-in has: cards in MIG mode, and (card, number, profile, start, compute instance)."""
        file = self.folder / "run" / "mig"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_stand_in(tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1")


@pytest.fixture
def node(library: Path, tmp_path: Path) -> Machine:
    return Machine(library, tmp_path)


@pytest.mark.parametrize(
    "written", ["3:1g.10gb@0/8", "0:2g.20gb@2-3/8", "1:7g.80gb@0-7/8", "2:1g.6gb@3/4", "4095:4g.24gb@0-3/4"]
)
def test_an_instance_is_written_as_the_controller_writes_it(written: str) -> None:
    one, theirs = device.gpu(written), Device.parse(written)
    assert one.plain == theirs.plain == written
    assert (one.index, one.part, one.profile, one.start, one.size) == (
        theirs.index, theirs.part, theirs.profile, theirs.start, theirs.size,
    )  # fmt: skip
    assert [*one.held()] == [*theirs.slices]


@pytest.mark.parametrize(
    "wrong", ["3:1g.10gb@8/8", "3:1g.10gb@3-2/8", "3:1g.10gb@0/7", "3:1g.10gb", "3:9g.10gb@0/8", "3:1g@0/8"]
)
def test_what_is_no_instance_is_refused_on_both_sides(wrong: str) -> None:
    with pytest.raises(ValueError, match="is no GPU"):
        device.gpu(wrong)
    with pytest.raises(ValueError, match="is no GPU"):
        Device.parse(wrong)
    assert shape.instances({"mig": {wrong: {}}}, "")


@pytest.mark.parametrize(
    "known",
    [{"files": ["/dev/mem"]}, {"files": ["/dev/nvidia-caps/../sda"]}, {"files": ["/dev/nvidia-caps/nvidia-cap1\nDeviceAllow=/dev/sda"]},
     {"files": [["/dev/mem"]]}, {"files": "/dev/mem"}, {"uuid": ["MIG"]}, {"ours": "no"}, "MIG"],
)  # fmt: skip
def test_a_bent_record_opens_no_other_file(known: Any) -> None:
    assert shape.instances({"mig": {"3:1g.10gb@0/8": known}}, "") == "mig['3:1g.10gb@0/8'] is no MIG instance"


@pytest.mark.parametrize("written", ["3:1g.10gb@0-0/8", "03:1g.10gb@0/8"])
def test_an_instance_has_one_name_in_the_ledger(written: str) -> None:
    assert shape.instances({"mig": {written: {}}}, "")


def test_the_first_cuts_the_card_and_the_last_makes_it_whole(node: Machine) -> None:
    assert len(node("make('3:3g.40gb@4-7/8', '3:1g.10gb@0/8')")) == 2
    assert node.driver() == ["mode 3", "at 3 1 9 4 3", "at 3 2 19 0 1"]
    assert node("make('3:1g.10gb@0/8')") == [], "it is there already"
    assert node("[unmake('3:1g.10gb@0/8'), book.instances()]")[1].keys() == {"3:3g.40gb@4-7/8"}
    assert node.driver() == ["mode 3", "at 3 1 9 4 3"], "the other one is as it was"
    assert node("[unmake('3:3g.40gb@4-7/8'), book.instances(), book.data['originals']]")[1:] == [{}, {}]
    assert node.driver() == []


def test_each_may_open_its_own_files_alone_and_is_told_its_own_name(node: Machine) -> None:
    node("make('3:3g.40gb@4-7/8', '3:1g.10gb@0/8')")
    lines = node("[devices.properties(context, [one]) for one in ('3:3g.40gb@4-7/8', '3:1g.10gb@0/8', 3)]")
    caps = [{line for line in one if "nvidia-cap" in line} for one in lines]
    assert [len(one) for one in caps] == [2, 2, 0] and caps[0].isdisjoint(caps[1])
    assert all("DeviceAllow=/dev/nvidia3 rw" in one for one in lines)
    told = node("[topology.own(context, 'a-0', [one])['CUDA_VISIBLE_DEVICES'] for one in book.instances()]")
    assert all(name.startswith("MIG-") for name in told) and len({*told}) == 2
    assert {*told} == {*node("list(instances.live(context).values())")}
    both = node("topology.own(context, 'a-0', ['3:3g.40gb@4-7/8', '3:1g.10gb@0/8'])")
    first, second = node("[instances.known(context, one)['uuid'] for one in of('3:1g.10gb@0/8', '3:3g.40gb@4-7/8')]")
    assert both["CUDA_VISIBLE_DEVICES"] == both["NVIDIA_VISIBLE_DEVICES"] == f"{first},{second}", "by where they lie"
    assert "SWARM_GPUS" not in both and node("topology.earlier(['3:3g.40gb@4-7/8'])") == {}, "a number would be the whole card"


def test_a_reboot_takes_them_away_and_they_are_made_again(node: Machine) -> None:
    node("make('3:3g.40gb@4-7/8', '3:1g.10gb@0/8')")
    (node.folder / "run" / "mig").unlink()
    assert node("len(instances.live(context))") == 0
    node("make('3:1g.10gb@0/8')")
    node("make('3:3g.40gb@4-7/8')")
    assert [line.split()[3:] for line in node.driver()[1:]] == [["19", "0", "1"], ["9", "4", "3"]]
    node("unmake(*list(book.instances()))")
    assert node.driver() == []


def test_what_is_there_is_told_whoever_made_it(node: Machine) -> None:
    node("make('3:3g.40gb@4-7/8', '3:1g.10gb@0/8')")
    node("book.know_instance('3:3g.40gb@4-7/8', None)")
    each = "for nvml in [gpus.cards()] for seen in [nvml.__enter__()] for i in (3, 4)"
    assert node(f"[instances.layout(seen.by_index[i], []) {each}]") == [{"instances": ["1g@0/1", "3g@4/4"]}, {}]


def test_what_somebody_else_made_is_in_the_way_or_serves_and_stays(node: Machine) -> None:
    node("make('3:3g.40gb@4-7/8')")
    node("book.know_instance('3:3g.40gb@4-7/8', None)")
    assert "another MIG instance on memory slices 4-7" in node("attempt(make, '3:2g.20gb@4-5/8')")
    assert node("make('3:3g.40gb@4-7/8')") == [], "it is taken as it is"
    assert node("unmake('3:3g.40gb@4-7/8')") == []
    assert node.driver()[1:] == ["at 3 1 9 4 3"], "and stays as it was"


def remade(node: Machine) -> None:
    """Somebody removed the instance at 3:1g.10gb@0/8 while nobody used it, and made one there again: it has another number."""
    ours = node("book.instances()['3:1g.10gb@0/8']")
    again = "unmake('3:1g.10gb@0/8'), make('3:1g.10gb@1/8', '3:1g.10gb@0/8'), unmake('3:1g.10gb@1/8')"
    node(f"[{again}, book.know_instance('3:1g.10gb@0/8', {ours!r})]")
    assert node.driver() == ["mode 3", "at 3 2 19 0 1"]


@pytest.mark.parametrize(
    "by", ["unmake('3:1g.10gb@0/8')", "slices.release(context, 'a-0', {'gpus': ['3:1g.10gb@0/8']})", "take('a-0', 5)"]
)
def test_an_instance_that_somebody_made_again_at_the_same_slices_is_theirs_and_stays(node: Machine, by: str) -> None:
    node("take('a-0', '3:1g.10gb@0/8')")
    remade(node)
    node(by)
    assert node.driver() == ["mode 3", "at 3 2 19 0 1"] and node("book.instances()") == {}


def test_an_instance_that_somebody_made_again_serves_and_stays(node: Machine) -> None:
    node("take('a-0', '3:1g.10gb@0/8')")
    ours, again = (node("[make('3:1g.10gb@0/8'), book.instances()]")[1]["3:1g.10gb@0/8"] for _ in "ab")
    assert ours == again and ours["ours"]
    remade(node)
    theirs = node("[make('3:1g.10gb@0/8'), book.instances()]")[1]["3:1g.10gb@0/8"]
    assert theirs["uuid"] != ours["uuid"] and not theirs["ours"]
    node("unmake('3:1g.10gb@0/8')")
    assert node.driver()[1:] == ["at 3 2 19 0 1"]


@pytest.mark.parametrize("call", ["nvmlComputeInstanceDestroy", "nvmlGpuInstanceCreateComputeInstance"])
def test_an_instance_that_a_killed_run_left_without_a_compute_instance_is_removed(node: Machine, call: str) -> None:
    """Nobody can use it. Killed between the two ends of it, or before the second was made."""
    dies = f"setattr(n, {call!r}, lambda *a, call=n.{call}: ('Destroy' in {call!r} and call(*a), os._exit(0)))"
    node(f"[{dies}, make('3:1g.10gb@0/8'), unmake('3:1g.10gb@0/8')]", dies=True)
    assert node.driver() == ["mode 3", "at 3 1 19 0 0"]
    node("unmake('3:1g.10gb@0/8')")
    assert node.driver() == []


def test_an_instance_is_known_as_ours_also_where_its_files_are_missing(node: Machine) -> None:
    refuse = "setattr(instances, '_files', lambda *_: (_ for _ in ()).throw(NodeError('no file')))"
    assert node(f"[{refuse}, attempt(make, '3:1g.10gb@0/8')]")[1] == "refused: no file"
    node("unmake('3:1g.10gb@0/8')")
    assert node.driver() == []


def test_a_card_that_a_killed_run_left_cut_is_made_whole_by_the_next(node: Machine) -> None:
    """Killed after the last instance was forgotten and before the mode was put back, or after the mode and before the first."""
    for after in ("take('b-0', 4)", "instances.restore(context, '', {})"):
        node("make('3:1g.10gb@0/8')")
        (node.folder / "run" / "mig").write_text("mode 3\n")
        node("book.know_instance('3:1g.10gb@0/8', None)")
        node(after)
        assert node.driver() == [] and node("book.originals('mig:')") == {}


def test_an_instance_of_a_killed_run_is_known_as_ours(node: Machine) -> None:
    """Killed after it was made, and before anything else."""
    call = "nvmlDeviceCreateGpuInstanceWithPlacement"
    node(f"[setattr(n, {call!r}, lambda *a, call=n.{call}: (call(*a), os._exit(0))), make('3:1g.10gb@0/8')]", dies=True)
    assert node.driver() == ["mode 3", "at 3 1 19 0 0"]
    node("make('3:1g.10gb@0/8')")
    node("unmake('3:1g.10gb@0/8')")
    assert node.driver() == []


def test_an_instance_that_nobody_holds_is_in_nobodys_way(node: Machine) -> None:
    node("make('3:1g.10gb@0/8')")
    node("take('a-0', '3:2g.20gb@0-1/8')")
    assert node.driver() == ["mode 3", "at 3 1 14 0 2"]


def test_a_card_that_could_not_be_made_whole_is_tried_again(node: Machine) -> None:
    node("take('a-0', '3:1g.10gb@0/8')")
    (node.folder / "run" / "faults").write_text("error nvmlDeviceSetMigMode 3 19\n")
    assert "MIG mode" in node("attempt(slices.release, context, 'a-0', {'gpus': ['3:1g.10gb@0/8']})")
    (node.folder / "run" / "faults").unlink()
    node("slices.release(context, 'a-0', {'gpus': ['3:1g.10gb@0/8']})")
    assert node.driver() == []


def test_an_allocation_takes_a_larger_instance_where_its_own_was(node: Machine) -> None:
    node("take('a-0', '3:1g.10gb@0/8')")
    node("take('a-0', '3:2g.20gb@0-1/8')")
    assert node.driver() == ["mode 3", "at 3 1 14 0 2"]
    node("take('a-0', 3)")
    assert node.driver() == []


def test_a_check_says_what_would_be_done_and_does_nothing(node: Machine) -> None:
    node("take('a-0', '3:1g.10gb@0/8')")
    changes = node("[setattr(context, 'check', True), setattr(book, 'check', True), take('a-0', '3:2g.20gb@0-1/8')]")[2]
    assert [(one["old"], one["new"]) for one in changes] == [("3:1g.10gb@0/8", None), (None, "3:2g.20gb@0-1/8")]
    assert node.driver() == ["mode 3", "at 3 1 19 0 1"] and node("[*book.instances()]") == ["3:1g.10gb@0/8"]


def test_a_card_that_somebody_cut_is_given_to_nobody_whole(node: Machine) -> None:
    (node.folder / "run" / "mig").write_text("mode 3\n")
    for wanted in (3, "3:0.5"):
        assert "gpu 3 (NVIDIA H100 80GB HBM3) is in MIG mode" in node(f"attempt(take, 'a-0', {wanted!r})")


def test_the_instance_of_another_card_is_never_touched_when_numbers_move(node: Machine) -> None:
    """A card dies, and the one that was number 4 is now number 3: its instance is not that of who held one of number 3."""
    node("[take('a-0', '3:1g.10gb@0/8'), take('b-0', '4:1g.10gb@0/8')]")
    moved = "book.data['gpus_pci'].update({'3': book.data['gpus_pci']['4'], '4': 'gone'})"
    moved += ", book.know_instance('3:1g.10gb@0/8', book.instances()['4:1g.10gb@0/8'])"
    assert "is now at" in node(f"[{moved}, attempt(make, '4:1g.10gb@0/8')]")[-1]
    node("unmake('4:1g.10gb@0/8')")
    assert [line for line in node.driver() if line.startswith("at")] == ["at 3 1 19 0 1", "at 4 1 19 0 1"]
    node("unmake('3:1g.10gb@0/8')")
    assert [line for line in node.driver() if line.startswith("at")] == ["at 3 1 19 0 1"], "by its address, not by its number"


def test_nothing_starts_in_a_slice_that_opens_another_instance(node: Machine) -> None:
    """After a reboot the card may not be cut again, or the number that a slice names be another's: both are told, not started."""
    whole = "{'workload': 'a', 'gpus': ['3:1g.10gb@0/8'], 'slice': {}}"
    node(f"[make('3:1g.10gb@0/8', '3:1g.10gb@1/8'), book.record('allocations', 'a-0', value={whole})]")
    asked = "attempt(units._has_its_instances, context, 'a-0', ['3:1g.10gb@0/8'])"
    shown = "[setattr(devices, '_open', lambda *_: ([3], {*book.instances()[%r]['files']})), " + asked + "][1]"
    assert node(shown % "3:1g.10gb@0/8") is None
    said = "refused: a-0 is not started: its slice does not open its own MIG instance 3:1g.10gb@0/8"
    assert node(shown % "3:1g.10gb@1/8") == said
    (node.folder / "run" / "mig").unlink()
    assert node(shown % "3:1g.10gb@0/8") == said
    assert node("attempt(units._has_its_instances, context, 'a-0', [3, '4:0.5'])") is None
    bare = "setattr(units.accounts, 'account', lambda *_: 0), setattr(units.systemd, 'show', lambda *_: {})"
    bare += ", setattr(units.systemd, 'settle', lambda *_: {}), setattr(units.systemd, 'start', lambda *_: sys.exit('started'))"
    want = "{'user': 'ada', 'command': 'x', 'gpus': ['3:1g.10gb@0/8']}"
    assert node(f"[{bare}, attempt(units.apply, context, 'a-0', {want})][-1]") == said, "nor where it is not closed at all"


def test_a_position_that_the_card_has_not_is_refused(node: Machine) -> None:
    assert "has no MIG instance 1g.10gb on memory slices 7/8" in node("attempt(make, '3:1g.10gb@7/8')")
    assert node.driver() == []


def test_a_card_on_which_somebody_computes_is_not_cut(node: Machine) -> None:
    (node.folder / "run" / "processes").write_text(f"3 {os.getpid()} 100\n")
    said = node("attempt(gpus.vacant, context, {3: ['swarm-new_0.slice']})")
    assert f"is in use by pid {os.getpid()}" in said
    assert "MIG instance 1g.10gb at 0/8" in node("attempt(make, '3:1g.10gb@0/8')"), "the driver refuses as well"
    assert node.driver() == [] and node("book.instances()") == {}


@pytest.mark.parametrize(
    ("held", "wanted", "said"),
    [
        ("3:3g.40gb@4-7/8", "3:3g.40gb@0-3/8", ""),
        ("3:3g.40gb@4-7/8", "3:1g.10gb@5/8", "gpu 3 is held by old-0; it must be released first"),
        ("3:3g.40gb@4-7/8", 3, "gpu 3 is held by old-0; it must be released first"),
        ("3:3g.40gb@4-7/8", "3:0.1", "gpu 3 is held by old-0; it must be released first"),
        ("3:0.1", "3:1g.10gb@5/8", "gpu 3 is held by old-0; it must be released first"),
        (3, "3:1g.10gb@5/8", "gpu 3 is held by old-0; it must be released first"),
        ("3:3g.40gb@4-7/8", "4:3g.40gb@4-7/8", ""),
    ],
)
def test_a_card_is_whole_or_shared_or_cut_and_each_slice_has_one_owner(
    node: Machine, held: Any, wanted: Any, said: str
) -> None:
    node(f"book.record('allocations', 'old-0', value={{'workload': 'old', 'gpus': [{held!r}], 'slice': {{}}}})")
    answer = node(f"attempt(holdings.nobody_elses, context, 'new-0', {{'gpus': [{wanted!r}]}})")
    assert answer == (f"refused: {said}" if said else None)


def test_what_the_driver_does_not_tell_of_instances_stands_as_recorded_and_starts_nothing(node: Machine) -> None:
    """That they seem to be gone would restart all that use them."""
    whole = "{'workload': 'a', 'gpus': ['3:1g.10gb@0/8'], 'slice': {}}"
    node(f"[make('3:1g.10gb@0/8'), book.record('allocations', 'a-0', value={whole})]")
    opened = "setattr(devices, '_open', lambda *_: ([3], {*book.instances()['3:1g.10gb@0/8']['files']}))"
    (node.folder / "run" / "faults").write_text("error nvmlDeviceGetMigMode 3 999\n")
    said = "gpu 3: its MIG instances cannot be verified (NVML: Unknown Error)"
    seen = f"[{opened}, devices.observed(context, 'a-0', {whole}), context.unverified]"
    assert node(seen)[1:] == [{"gpus": ["3:1g.10gb@0/8"]}, [said]]
    assert node(f"[{opened}, attempt(units._has_its_instances, context, 'a-0', ['3:1g.10gb@0/8'])]")[1] == f"refused: {said}"
    opened = "setattr(devices, '_open', lambda *_: ([3], {'/dev/nvidia-caps/nvidia-cap999'}))"
    assert node(f"[{opened}, devices.observed(context, 'a-0', {whole})]")[1] == {"gpus": []}, "what can be seen is seen"
