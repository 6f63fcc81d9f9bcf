"""How does a stack file become a Pulumi resource?

stacks/NAME.yaml + lock ─► decision (solves only when the lock is stale) ─► request ─► Fleet

What is live beside the lock is in the state, as the resource Live, for all clones. It is read before anything is decided: the
engine has its lock by then, so nobody replaces it while a change runs. An `up` of the autopilot writes what its clone has; any
other one registers what is there.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pulumi

from swarm_iac.decision import Decision, decide, keep, request
from swarm_iac.errors import SwarmError
from swarm_iac.live import sharing
from swarm_iac.live.shared import Shared
from swarm_iac.model.placement import Growing, Lighter, Unplaced
from swarm_iac.model.state import Observed
from swarm_iac.observe import Ended, observe
from swarm_iac.provider.resource import Fleet, Lineage, LiveLayer
from swarm_iac.run_options import RunOptions

__all__ = ["Fleet", "Lineage", "LiveLayer", "main"]


def main(root: Path | None = None) -> Fleet:
    """Register the fleet of stacks/NAME.yaml below `root` (here, when left out); NAME is that of Pulumi's stack.

    Raises pulumi.RunError, which the engine prints without a traceback.
    """
    folder = root or Path.cwd()
    name, options = pulumi.get_stack(), RunOptions.of(os.environ)
    try:
        today = datetime.date.today()
        live = sharing.shared(folder, name, options.share)
        decision = decide(folder, name, today=today, frozen=options.frozen, ends=_ends(options))
        asked = request(decision, today)
    except SwarmError as error:
        raise pulumi.RunError(str(error)) from None
    fleet = Fleet(name, request=asked, opts=_beside(folder, name, live) if live else None)
    for unplaced in decision.placement.unplaced:
        pulumi.log.warn(_sentence(unplaced), fleet)
    for growing in decision.placement.growing:
        pulumi.log.warn(_waits(growing), fleet)
    for lighter in decision.placement.lighter:
        pulumi.log.warn(_lighter(lighter), fleet)
    pulumi.export("placement", _kept(fleet, decision))
    pulumi.export("addresses", fleet.addresses)
    pulumi.export("unplaced", {unplaced.workload: _sentence(unplaced) for unplaced in decision.placement.unplaced})
    return fleet


def _beside(folder: Path, name: str, live: Shared) -> pulumi.ResourceOptions:
    """Register what is live; the fleet comes after it, and not at all if that is refused."""
    registered = LiveLayer(name, live.inputs())
    if not pulumi.runtime.is_dry_run():
        registered.version.apply(lambda _: sharing.written(folder, name, live))
    return pulumi.ResourceOptions(depends_on=[registered])


def _ends(options: RunOptions) -> Ended | None:
    """Asks the machines which jobs have finished; None with SWARM_OFFLINE."""
    if options.offline:
        return None
    ask = partial(observe, ssh_config=options.ssh_config, timeout=options.node_timeout)

    def beside(targets: Mapping[str, str]) -> dict[str, Observed]:
        with ThreadPoolExecutor(1) as pool:  # Pulumi's event loop runs in this thread
            return pool.submit(ask, targets).result()

    return Ended(beside)


def _kept(fleet: Fleet, decision: Decision) -> pulumi.Output[Any]:
    """The placement; once it is applied, the lock is written.

    The output resolves only after the Fleet's Create or Update succeeded, and a preview applies nothing. If rows failed it
    never resolves: the candidate stays, and the next `up` continues with exactly that. So a bare `pulumi up` writes the lock
    at the same moment as `swarm up`.
    """
    if pulumi.runtime.is_dry_run() or not decision.stale:
        return fleet.placement

    def applied(placement: dict[str, str]) -> dict[str, str]:
        if keep(decision):
            pulumi.log.info(f"stacks/{decision.name}.lock.yaml was written: commit it with the stack file", fleet)
        return placement

    return fleet.placement.apply(applied)


def _waits(growing: Growing) -> str:
    why = "; ".join(reason.text for reason in growing.reasons)
    return f"{growing.workload}: keeps {growing.keeps} until there is capacity for {growing.wants}{f': {why}' if why else ''}"


def _lighter(one: Lighter) -> str:
    why = "; ".join(reason.text for reason in one.reasons)
    until = f"until there is capacity for {one.instead_of[0]}"
    return f"{one.workload}: runs in variant {one.variant} {until}{f': {why}' if why else ''}"


def _sentence(unplaced: Unplaced) -> str:
    why = "; ".join(reason.text for reason in unplaced.reasons) or "does not fit"
    return f"{unplaced.workload}: {len(unplaced.missing)} not placed: {why}"
