"""How are nodes read of which some are powered off on purpose? Those are not asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from swarm_iac.model.state import Observed

Read = Callable[[Mapping[str, str]], Mapping[str, Observed]]


def but_asleep(read: Read, asleep: Callable[[], Mapping[str, str]]) -> Callable[[Mapping[str, str]], dict[str, Observed]]:
    """The same reading, in which nodes that are `asleep` (node → words) answer nothing, at once."""

    def found(targets: Mapping[str, str]) -> dict[str, Observed]:
        off = asleep() if targets else {}
        awake = {name: address for name, address in targets.items() if name not in off}
        seen = dict(read(awake)) if awake else {}
        return {name: seen[name] if name in seen else Observed(node=name, error=off[name], asleep=True) for name in targets}

    return found
