"""What would be found on the nodes if a lock is applied and all is healthy?"""

from __future__ import annotations

from collections.abc import Mapping

from swarm_iac.model.hardware import Hardware, numa_part
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.state import Desired, Facts, GpuFacts, LedgerHead, Observed
from swarm_iac.model.workload import Workload
from swarm_iac.plan import desired
from swarm_iac.plan.state import cpulist
from swarm_iac.plan.state.mismatch import declared, differences


def stack_of(stack: Stack, known: tuple[Allocation, ...]) -> Stack:
    """The stack in which the `known` allocations run: what was removed from it is there again, and nothing is drained."""
    # An old lock does not say who owned a workload that was removed from the stack file.
    dropped = {one.workload: Workload(user=one.user or min(stack.users(), default="nobody")) for one in known}
    # A node that is drained now was not when the lock was written, else the lock would have nothing there.
    nodes = {
        name: node.model_copy(update={"state": "ready"}) if node.state == "drain" else node
        for name, node in stack.nodes.items()
    }
    users = {one.workload: one.user for one in known if one.user and one.workload in stack.workloads}
    others = {
        name: stack.workloads[name].model_copy(update={"user": user})
        for name, user in users.items()
        if user != stack.workloads[name].user
    }
    if nodes == stack.nodes and dropped.keys() <= stack.workloads.keys() and not others:
        return stack
    return stack.model_copy(update={"nodes": nodes, "workloads": {**dropped, **stack.workloads, **others}})


def applied(stack: Stack, last: Placement, known: tuple[Allocation, ...]) -> Mapping[str, Desired]:
    """The desired state of every node that corresponds to the `known` allocations of the placement `last`."""
    return desired(stack_of(stack, known), last.model_copy(update={"allocations": known}))


def healthy(was: Mapping[str, Desired], stack: Stack) -> dict[str, Observed]:
    """Every node as it would be found, its machine as `stack` declares it."""
    shapes: dict[tuple[str, str], Facts] = {}

    def machine(name: str, interface: str) -> Facts:
        if name not in stack.nodes:
            return Facts()
        key = (stack.nodes[name].hardware, interface)
        if key not in shapes:
            shapes[key] = _facts(stack.hardware[key[0]], interface)
        return shapes[key]

    return {
        name: Observed(
            node=name,
            facts=machine(name, one.state.interface),
            ledger=LedgerHead(lineage="", serial=0, fleet=stack.fleet),
            state=one.state,
            health={each: "done" if each in one.ended else "healthy" for each in one.state.allocations},
        )
        for name, one in was.items()
    }


def _facts(hardware: Hardware, interface: str) -> Facts:
    """A machine that is what `hardware` says; without facts a plan knows of no node with capacity for a stand-in.

    No facts where they would not pass for that, as with a name of a GPU that no driver gives: nobody looked.
    """
    declares = declared(hardware)
    model = (hardware.gpus.model or "").partition("|")[0]
    numa = {part: numa_part(declares.cpus, hardware.numa, part) for part in range(hardware.numa)}
    found = Facts(
        cpus=declares.cpus,
        memory=declares.memory,
        numa={part: cpulist.write(cpus) for part, cpus in numa.items()},
        gpus=tuple(
            GpuFacts(index=card, pci="", uuid="", model=model, memory=int(hardware.gpu_memory))
            for card in range(hardware.gpus.count)
        ),
        disks={hardware.disk: int(hardware.nvme)} if hardware.disk else {},
        interfaces={hardware.interface: int(hardware.nic)} if hardware.interface else {},
    )
    return Facts() if differences(found, declares, interface) else found
