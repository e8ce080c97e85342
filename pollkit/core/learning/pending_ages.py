"""The ages at which jobs were last seen pending.

House rules: a wait is named by its start, as in durations.py. There are sorted arrays instead of a
dict and float objects: each of 100,000 jobs takes 25 bytes besides its start instead of 93.
"""

from array import array
from bisect import bisect_left, insort
from typing import Iterator, List, Mapping, Optional, Sequence, Tuple


class PendingAges:
    """The age of each pending job, by the start of its wait.

    >>> ages = PendingAges({1000.0: 30.0, 1005.0: 20.0})
    >>> ages.set(1001.0, 29.0)
    False
    >>> list(ages.in_order), ages.get(1005.0), ages.get(1006.0)
    ([20.0, 29.0, 30.0], 20.0, None)
    """

    __slots__ = ("_starts", "_ages", "_in_order")

    def __init__(self, ages: Optional[Mapping[float, float]] = None) -> None:
        known = ages or {}
        self._starts: List[float] = sorted(known)
        self._ages = array("d", [known[start] for start in self._starts])  # in the same order
        self._in_order = array("d", sorted(self._ages))

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def in_order(self) -> Sequence[float]:
        """All ages, in ascending order."""
        return self._in_order

    def get(self, start: float) -> Optional[float]:
        """The age of a job; None if it was not seen pending."""
        place = bisect_left(self._starts, start)
        return self._ages[place] if self._is_at(place, start) else None

    def before(self, start: float) -> List[float]:
        """The ages of the jobs that started before, in ascending order."""
        return sorted(self._ages[: bisect_left(self._starts, start)])

    def newest_first(self) -> Iterator[Tuple[float, float]]:
        """The start and the age of each job, the one that started last first."""
        return zip(reversed(self._starts), reversed(self._ages))

    def set(self, start: float, age: float) -> bool:
        """Note the age of a job; whether it replaces another one."""
        place = bisect_left(self._starts, start)
        is_known = self._is_at(place, start)
        if is_known:
            self._remove_in_order(self._ages[place])
            self._ages[place] = age
        else:
            self._starts.insert(place, start)
            self._ages.insert(place, age)
        insort(self._in_order, age)
        return is_known

    def remove(self, start: float) -> bool:
        """Remove a job; False if it was not seen pending."""
        place = bisect_left(self._starts, start)
        if not self._is_at(place, start):
            return False
        self._remove_in_order(self._ages[place])
        del self._starts[place]
        del self._ages[place]
        return True

    def remove_before(self, start: float) -> int:
        """Remove the jobs that started before; how many that were."""
        end = bisect_left(self._starts, start)
        for age in self._ages[:end]:
            self._remove_in_order(age)
        del self._starts[:end]
        del self._ages[:end]
        return end

    def _is_at(self, place: int, start: float) -> bool:
        """Whether the job at a place, if there is one, is the one with this start."""
        return place < len(self._starts) and self._starts[place] == start

    def _remove_in_order(self, age: float) -> None:
        del self._in_order[bisect_left(self._in_order, age)]
