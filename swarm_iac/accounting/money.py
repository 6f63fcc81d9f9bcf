"""What do GPU-hours cost? Summed in whole numbers, and rounded once, where a sum is shown."""

from __future__ import annotations

from collections import Counter
from decimal import ROUND_HALF_EVEN, Decimal, localcontext

#: One GPU-hour [GPU-ms], and the parts of a currency in which prices are kept.
_HOUR_MS, _PARTS = 3_600_000, 10_000


class CostSum:
    """Σ held · price, by currency; [GPU-ms] times ten-thousandths of the currency per GPU-hour. `unpriced`: held [GPU-ms]."""

    def __init__(self) -> None:
        self.sums: Counter[str] = Counter()
        self.unpriced = 0

    def add(self, held: int, amount: int, currency: str) -> None:
        """`held` [GPU-ms] at `amount` [1/10,000 of the currency per GPU-hour]; an empty currency is no price.

        Raises TypeError for what no store of ours has: a text times a large number would fill the memory.
        """
        if not (isinstance(held, int) and isinstance(amount, int) and isinstance(currency, str)):
            raise TypeError("a cost is a whole number of a currency")
        if currency:
            self.sums[currency] += held * amount
        else:
            self.unpriced += held

    def rounded(self, places: int = 2) -> dict[str, str]:
        """By currency, to so many decimal places: half to even, as banks do."""
        with localcontext() as context:
            context.prec = 60
            step = Decimal(1).scaleb(-places)
            whole = {one: Decimal(total) / (_HOUR_MS * _PARTS) for one, total in sorted(self.sums.items())}
            return {one: f"{value.quantize(step, ROUND_HALF_EVEN):f}" for one, value in whole.items()}

    def __str__(self) -> str:
        return " + ".join(f"{value} {currency}" for currency, value in self.rounded().items()) or "-"


def hours(amount: int, places: int = 2) -> str:
    """[GPU-ms] as hours."""
    with localcontext() as context:
        context.prec = 60
        return f"{(Decimal(amount) / _HOUR_MS).quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN):f}"
