"""Axes for charts: a range with room at its ends, and round numbers to mark it with."""
import math
from typing import List, NamedTuple, Sequence


class Log(NamedTuple):
    """A logarithmic axis."""

    low: float
    high: float

    @classmethod
    def around(cls, values: Sequence[float], room: float = 1.35, least: float = 4.0) -> "Log":
        """An axis on which all these values, above zero, have room; at least so many times from end to end."""
        low, high = min(values) / room, max(values) * room
        stretch = math.sqrt(max(1.0, least / (high / low)))
        return cls(low / stretch, high * stretch)

    def place(self, value: float) -> float:
        """Where a value stands: 0 at the low end, 1 at the high one."""
        return math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self, most: int = 8) -> List[float]:
        """Round numbers on the axis, as many as fit."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for digits in ((1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
            found = [digit * 10.0 ** power for power in range(first, last + 1) for digit in digits]
            found = [value for value in found if self.low <= value <= self.high]
            if len(found) <= most:
                return found
        return found[::math.ceil(len(found) / most)]


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
    return ("%.1f" % value if value >= 10 else "%.2g" % value if value < 1 else "%.1f" % value).replace(".0", "")
