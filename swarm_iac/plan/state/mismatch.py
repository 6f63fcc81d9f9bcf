"""Is a machine what the stack file declares, and what may still be done where it is not?

The placement counts on the declaration, and a card is named by its place among the others: with one card gone the
indices of the rest may mean other cards. So nothing is given out on such a machine, and what it gives up it may.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping

from swarm_iac.model.hardware import Gpus, Hardware, gpu_model
from swarm_iac.model.settings import GIANT_PAGE, HUGE_PAGE
from swarm_iac.model.state import Declared, Desired, Facts, Observed
from swarm_iac.model.step import Verb
from swarm_iac.pluralize import pluralize

#: What takes nothing from a machine.
GIVES = frozenset({Verb.STOP, Verb.RELEASE, Verb.RESTORE})


def declared(hardware: Hardware) -> Declared:
    """What of a shape can be checked on the machine itself."""
    return Declared(
        gpus=hardware.gpus.count,
        gpu_model=hardware.gpus.model or "",
        cpus=-(-int(hardware.vcpus) // 1000),
        memory=int(hardware.memory),
        numa=hardware.numa,
        hugepages=int(hardware.hugepages) // HUGE_PAGE * HUGE_PAGE,
        hugepages_1g=int(hardware.hugepages_1g) // GIANT_PAGE * GIANT_PAGE,
        nvlink=hardware.nvlink,
    )


def mismatches(observed: Mapping[str, Observed], desired: Mapping[str, Desired]) -> dict[str, str]:
    """Each node that is asked for and differs from what is declared of it → how. One that did not answer is not judged."""
    found = {}
    for name, wanted in desired.items():
        seen = observed.get(name)
        if seen is None or seen.error or not wanted.managed or wanted.hardware is None:
            continue
        words = differences(seen.facts, wanted.hardware, wanted.state.interface)
        if words:
            found[name] = ", ".join(words)
    return found


def allowed(verb: Verb, ours: bool) -> bool:
    """May this be done on a machine that differs? `ours`: it has our ledger, so the node program may be reinstalled."""
    return verb in GIVES or (verb is Verb.PREPARE and ours)


def _unjoined(facts: Facts, wanted: Declared) -> str:
    """The first two GPUs that NVLink is declared to join and does not.

    A card that cannot tell is not judged, nor one in MIG mode: it reaches no other one as long as it is cut.
    """
    peers = {card.index: card.nvlink for card in facts.gpus if not card.mig}
    pairs = (pair for group in wanted.nvlink for pair in itertools.combinations(group, 2))
    known = ((i, j) for i, j in pairs if peers.get(i) is not None and peers.get(j) is not None)
    lost = [(i, j) for i, j in known if j not in (peers[i] or ()) or i not in (peers[j] or ())]
    more = f" (nor {pluralize(len(lost) - 1, 'other declared pair')})" if len(lost) > 1 else ""
    return f"no NVLink found between GPUs {lost[0][0]} and {lost[0][1]}{more}" if lost else ""


def differences(facts: Facts, wanted: Declared, interface: str = "") -> tuple[str, ...]:
    """In words, found against declared. Facts without a CPU are none: nobody looked."""
    if not facts.cpus:
        return ()
    found = []
    asked = Gpus(count=wanted.gpus, model=wanted.gpu_model or None)
    models = Counter(gpu_model(card.model) for card in facts.gpus)
    if len(facts.gpus) != asked.count or not all(asked.allows(model) for model in models):
        has = " and ".join(f"{count} x {model}" for model, count in sorted(models.items())) or "no GPU"
        found.append(f"{has} found, {asked} declared")
    if facts.cpus < wanted.cpus:
        found.append(f"{pluralize(facts.cpus, 'CPU')} found, {wanted.cpus} declared")
    if facts.memory < wanted.memory:
        found.append(f"{facts.memory / 1e9:.2f} GB of memory found, {wanted.memory / 1e9:.2f} GB declared")
    if wanted.numa > 1 and len(facts.numa) != wanted.numa:
        found.append(f"{pluralize(len(facts.numa), 'NUMA node')} found, {wanted.numa} declared")
    if broken := _unjoined(facts, wanted):
        found.append(broken)
    if interface and interface not in facts.interfaces:
        has = ", ".join(sorted(facts.interfaces)) or "none"
        found.append(f"no interface {interface} found ({has} there)")
    return tuple(found)
