"""Do `prices`, `worth` and `past_use` name models and teams that there are, and do they mean anything?"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from swarm_iac.model.stack import Stack
from swarm_iac.stackfile.reading.messages import nearest

#: Path, what is wrong, and a hint.
Said = tuple[str, str, str]


def model_problems(stack: Stack, broken: Collection[str]) -> Iterator[Said]:
    """What is wrong with them. `broken`: sections of the file that have errors themselves, of which nothing is concluded."""
    models = {hardware.gpus.model for hardware in stack.hardware.values() if hardware.gpus.model}
    for section, entry, names in (("prices", "price", stack.prices), ("worth", "entry", stack.worth)):
        for model in names:
            if model not in models and "hardware" not in broken:
                hint = nearest(model, models) if models else f"delete the {entry}"
                yield f"{section}.{model}", f"no hardware has a GPU {model}", hint
    yield from _currencies(stack)
    if stack.worth and not stack.fair and "teams" not in broken:
        hint = "write `share` in a team, or delete `worth`"
        yield "worth", "no team has a share or a guarantee, so no GPU is counted by it", hint
    if stack.past_use and "teams" not in broken:
        if not stack.fair:
            yield "past_use", "no team has a share, so none counts less", "write `share` in a team, or delete `past_use`"
        for team in stack.past_use.gpu_hours:
            if team not in stack.teams:
                yield f"past_use.gpu_hours.{team}", "there is no such team", nearest(team, stack.teams)


def _currencies(stack: Stack) -> Iterator[Said]:
    """All prices are in one currency, so that they add up."""
    first = next(iter(stack.prices.items()), None)
    for model, price in stack.prices.items():
        if first and price.currency != first[1].currency:
            hint = f"the price of {first[0]} is in {first[1].currency}; write all in one currency"
            yield f"prices.{model}", f"{price} does not add up with {first[1]}", hint
