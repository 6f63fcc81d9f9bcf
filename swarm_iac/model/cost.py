"""What does a placement cost per hour? Its GPUs at the stack's prices; free ones cost nothing."""

from __future__ import annotations

from collections import Counter

from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.price import Price


def cost(stack: Stack, placement: Placement) -> Price | None:
    """Σ over models m:  GPUs of m that are allocated · price_m.  None where the stack has no prices.

    A model without a price counts nothing; `unpriced` names it. Raises ValueError when prices are of two currencies.
    """
    total: Price | None = None
    held = _held(stack, placement)
    for model, price in stack.prices.items():
        part = Price(price.amount * held[model] // 1000, price.currency)
        total = part if total is None else total + part
    return total


def unpriced(stack: Stack, placement: Placement) -> tuple[str, ...]:
    """Models of allocated GPUs that have no price, sorted."""
    return tuple(sorted(model for model, count in _held(stack, placement).items() if count and model not in stack.prices))


def _held(stack: Stack, placement: Placement) -> Counter[str]:
    """Allocated GPUs by model, in thousandths. What stands on a node that has left the stack is not known any more."""
    held: Counter[str] = Counter()
    for one in placement.allocations:
        if one.gpus and one.node in stack.nodes:
            held[stack.hardware_of(one.node).gpus.model or "(no model)"] += one.gpu_milli
    return held


def format_change(stack: Stack, before: Placement, after: Placement) -> str:
    """`25.00 EUR/h, before 20.00 EUR/h: +5.00 EUR/h`; empty where the stack has no prices."""
    now, then = cost(stack, after), cost(stack, before)
    if now is None or then is None:
        return ""
    return difference(then, now) + without_price(stack, after)


def as_json(stack: Stack, before: Placement, after: Placement) -> dict[str, str] | None:
    """Before, after and what lies between them; None where the stack has no prices."""
    now, then = cost(stack, after), cost(stack, before)
    return None if now is None or then is None else {"before": str(then), "after": str(now), "difference": str(now - then)}


def difference(before: Price, after: Price) -> str:
    """Two costs and what lies between them, for people."""
    delta = after - before
    sign = "+" if delta.amount > 0 else ""
    return f"{after}, before {before}: {sign}{delta}" if delta.amount else f"{after}, as before"


def without_price(stack: Stack, placement: Placement) -> str:
    """Which allocated models the cost leaves out, for people; empty where it is complete."""
    models = unpriced(stack, placement)
    return f" (without {', '.join(models)}, which {'has' if len(models) == 1 else 'have'} no price)" if models else ""
