"""Axes for charts: a range with room at its ends, and round numbers to mark it with."""

import math
from typing import List, NamedTuple, Sequence

NOTHING, WIDEST = (
    1e-4,
    1e4,
)  # what is less than the one, or so many times less than the highest, is drawn as 0
BELOW = 4.0  # so many times below the least of the others


class Log(NamedTuple):
    """A logarithmic axis. It has no room for 0, so that stands near its low end, at `zero`, where it is needed."""

    low: float
    high: float
    zero: float = 0.0

    @classmethod
    def around(cls, values: Sequence[float], room: float = 1.35, least: float = 4.0) -> "Log":
        """An axis on which all these values, from zero, have room; at least so many times from end to end."""
        nothing = max(NOTHING, max(values) / WIDEST)
        above = [value for value in values if value > nothing] or [1.0]
        zero = min(above) / BELOW if min(values) <= nothing else 0.0
        low, high = (zero or min(above)) / room, max(above) * room
        stretch = math.sqrt(max(1.0, least / (high / low)))
        return cls(low / stretch, high * stretch, zero)

    def place(self, value: float) -> float:
        """Where a value stands: 0 at the low end, 1 at the high one."""
        return math.log(max(value, self.zero) / self.low) / math.log(self.high / self.low)

    def ticks(self, most: int = 8) -> List[float]:
        """Round numbers on the axis, as many as fit."""
        if self.zero:
            return [0.0] + Log(2 * self.zero, self.high).ticks(most - 1)
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for digits in ((1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
            found = [digit * 10.0**power for power in range(first, last + 1) for digit in digits]
            found = [value for value in found if self.low <= value <= self.high]
            if len(found) <= most:
                return found
        return found[:: math.ceil(len(found) / most)]


def even_ticks(high: float, most: int = 6) -> List[float]:
    """Round numbers from 0 up to at least `high`, evenly spaced."""
    step = 10.0 ** math.floor(math.log10(max(high, 1e-9)))
    for part in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0):
        if high / (step * part) <= most:
            step *= part
            break
    return [i * step for i in range(int(math.ceil(high / step - 1e-9)) + 1)]


def number_text(value: float) -> str:
    """A number as short as it can be told apart: 0.05, 1.5, 12, 1,300."""
    if value >= 100:
        return "{:,.0f}".format(value)
    text = "%.1f" % value if value >= 1 else "%.2g" % value
    return text[:-2] if text.endswith(".0") else text
