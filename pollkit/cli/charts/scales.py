"""Axes for charts: a range with room at both ends, and round numbers as ticks."""

import math
from typing import List, NamedTuple, Sequence

# Values below ZERO_BELOW, or below the highest value divided by WIDEST, are drawn as 0.
ZERO_BELOW = 1e-4
WIDEST = 1e4
ZERO_GAP = 4.0  # 0 is drawn this many times below the lowest of the other values
ROOM = 1.35  # the ratio between an end of the axis and the value next to it
LEAST_RATIO = 4.0  # between the ends of an axis


class LogAxis(NamedTuple):
    """A logarithmic axis. It can't show 0, so if there is a 0 it is drawn at `zero`."""

    low: float
    high: float
    zero: float = 0.0

    @classmethod
    def around(cls, values: Sequence[float]) -> "LogAxis":
        """An axis with room for these values."""
        threshold = max(ZERO_BELOW, max(values) / WIDEST)
        above = [value for value in values if value > threshold] or [1.0]
        zero = min(above) / ZERO_GAP if min(values) <= threshold else 0.0
        low = (zero or min(above)) / ROOM
        high = max(above) * ROOM
        stretch = math.sqrt(max(1.0, LEAST_RATIO / (high / low)))
        return cls(low / stretch, high * stretch, zero)

    def position(self, value: float) -> float:
        """The position of a value: 0 at the low end, 1 at the high end."""
        return math.log(max(value, self.zero) / self.low) / math.log(self.high / self.low)

    def ticks(self, most: int = 8) -> List[float]:
        """Round numbers on the axis, as many as fit."""
        if self.zero:
            return [0.0] + LogAxis(2 * self.zero, self.high).ticks(most - 1)
        first = math.floor(math.log10(self.low))
        last = math.ceil(math.log10(self.high))
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
    """A number with as few digits as a tick needs: 0, 0.05, 1.5, 12, 1,300."""
    if value >= 100:
        return "{:,.0f}".format(value)
    text = "%.1f" % value if value >= 1 else "%.2g" % value
    return text[:-2] if text.endswith(".0") else text
