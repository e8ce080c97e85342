"""The duration history of one kind of job, and how it notices that durations have changed.

House rules: ages are seconds since the wait began. There is no clock here: the same completions in
the same order give the same model. curve.py turns the durations into a survival function.

If it is not known when a job finished, it was after the last poll that saw it pending and no later
than the poll that saw it finished. The duration that is recorded is a point in between. If it were
the right end, each schedule would make the next one poll later, and that could never be unlearned.

Drift: u = F(T), with the F known before, is evenly distributed on [0, 1] while nothing changes. The
older durations are dropped if u stays at one edge, or if its mean leaves the middle. They are also
dropped if u jumps from edge to edge, because there are now two kinds of job, one on either side of
the earlier durations. Then the edges are half as wide, so that this is as unlikely by chance.

Of jobs that started together the short ones finish first. So neither "the last 200 to finish" nor
their order is a fair sample; the start of a job is what counts. The last 200 to start are kept, in
that order, and a completion that arrives after those of jobs that started later is no evidence of
drift.
"""

from bisect import bisect_right
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ...errors import ConfigError
from ..units import LONGEST_S, is_number
from .curve import Curve

RECENT = 200  # completions that are kept
ENOUGH = 5  # completions needed before history overrides first/every
MOST_COUNTED = 10**9  # completions; a higher count in a file is a mistake
GOLDEN = 0.6180339887  # its multiples spread evenly over [0, 1), however many there are
LATEST = 1e12  # an instant that no clock of ours will reach

# Drift, from the last quantiles: IN_ROW within EDGE, or the mean of WINDOW off the middle.
EDGE = 0.05
IN_ROW = 4
KEPT_OF_ROW = 3
OFF_CENTRE = 0.29
WINDOW = 12
KEPT_OF_WINDOW = 11


def point_between(left: float, right: float, serial: int) -> float:
    """A point in an interval; those of successive serial numbers are evenly distributed."""
    return left + (right - left) * (serial * GOLDEN % 1.0)


class Completion(NamedTuple):
    """A job finished between two ages.

    `started_at` is on a clock that all jobs of the kind share.
    """

    least_s: float
    most_s: float
    started_at: float


class Durations:
    """The recent durations of one kind of job: of a profile, or of a label within it.

    Waits that share it use each new completion at once.

    >>> durations = Durations(range(200, 300))
    >>> durations.record(250)
    True
    >>> [round(durations.curve.next_delay(age, 1, least=0.5, most=300)) for age in (0, 210, 280)]
    [211, 13, 6]
    """

    __slots__ = ("_recent", "_started", "_quantiles", "_count", "_curve")

    def __init__(self, recent: Iterable[float] = ()) -> None:
        # Drift is not checked here: the list may be sorted, which would look like drift.
        self._recent = [round(float(each), 6) for each in recent if _is_duration(each)][-RECENT:]
        self._started = [0.0] * len(self._recent)  # their starts, in ascending order
        self._quantiles: List[float] = []
        self._count = len(self._recent)
        self._curve: Optional[Curve] = None

    def __len__(self) -> int:
        return len(self._recent)

    @property
    def completions(self) -> int:
        """The number of completions recorded so far, including those that were dropped again."""
        return self._count

    @property
    def curve(self) -> Curve:
        """The survival function; computed on the first use after a change."""
        curve = self._curve
        if curve is None:
            curve = self._curve = Curve(self._recent)
        return curve

    def record(
        self, duration: float, started_at: Optional[float] = None, can_show_drift: bool = True
    ) -> bool:
        """Add a completion; False if the duration or the start is not plausible.

        Without `started_at`, it is the job that started last.
        """
        latest = self._started[-1] if self._started else 0.0
        started_at = latest if started_at is None else round(started_at, 6)
        if not _is_duration(duration) or not 0.0 <= started_at <= LATEST:
            return False
        duration = round(float(duration), 6)
        if can_show_drift and started_at >= latest:
            quantile = round(self._curve_before_drift().quantile(duration), 6)
            self._quantiles = (self._quantiles + [quantile])[-WINDOW:]
        place = bisect_right(self._started, started_at)
        self._recent = (self._recent[:place] + [duration] + self._recent[place:])[-RECENT:]
        self._started = (self._started[:place] + [started_at] + self._started[place:])[-RECENT:]
        self._count += 1
        self._curve = None
        self._drop_after_drift()
        return True

    def record_between(
        self,
        left: float,
        right: float,
        started_at: Optional[float] = None,
        can_show_drift: bool = True,
    ) -> bool:
        """Add the completion of a job that finished after age `left` and by age `right`."""
        if not (_is_duration(left) and _is_duration(right) and left <= right):
            return False
        duration = point_between(left, right, self._count + 1)
        return self.record(duration, started_at, can_show_drift)

    def record_all(self, completions: Sequence[Completion]) -> None:
        """Add the completions that another process has seen, in the order of their starts.

        If these jobs ran at the same time as others that are known, longer ones of them may still
        be running. Then neither these completions nor the earlier ones are evidence of drift.
        """
        ends = [start + duration for start, duration in zip(self._started, self._recent)]
        is_after_all = bool(completions) and completions[0].started_at >= max(ends, default=0.0)
        if not is_after_all:
            self._quantiles = []
        for completion in completions:
            self.record_between(*completion, can_show_drift=is_after_all)

    def relearn(self, ages: Iterable[Tuple[float, float]]) -> None:
        """Replace everything by these completions, in the order of their starts.

        Each is given by the two ages between which the job finished.
        """
        new = Durations()
        for least_s, most_s in ages:
            new.record_between(least_s, most_s)
        for name in Durations.__slots__:
            setattr(self, name, getattr(new, name))

    def _curve_before_drift(self) -> Curve:
        """The curve to compare a new duration with.

        The last few durations may be from after a change. They would hide it, and fill a gap that
        the next duration falls into, so they are left out if there are enough others.
        """
        if len(self._recent) < 2 * WINDOW:
            return self.curve
        return Curve(self._recent[: 1 - WINDOW])

    def _drop_after_drift(self) -> None:
        """Drop the older durations if the latest quantiles show a change."""
        row = self._quantiles[-IN_ROW:]
        mean = sum(self._quantiles) / WINDOW
        if len(row) == IN_ROW and _is_at_edge(row):
            kept = KEPT_OF_ROW
        elif len(self._quantiles) == WINDOW and abs(mean - 0.5) > OFF_CENTRE:
            kept = KEPT_OF_WINDOW
        else:
            return
        self._recent = self._recent[-kept:]
        self._started = self._started[-kept:]
        self._quantiles = []

    def as_dict(self) -> Dict[str, Any]:
        """The whole history, for JSON."""
        return {
            "durations": list(self._recent),
            "begun": list(self._started),
            "fits": list(self._quantiles),
            "count": self._count,
        }

    @classmethod
    def from_dict(cls, value: Any, now: float = LATEST) -> "Durations":
        """The history from the value of `as_dict`; a ConfigError if it is not one.

        Jobs that finished after `now`, because a clock was set back, count as finished just now.
        """
        _validate(value)
        pairs = [
            (max(0.0, min(start, now - duration)), duration)
            for start, duration in zip(value["begun"], value["durations"])
        ]
        pairs.sort(key=lambda pair: pair[0])
        durations = cls(duration for _, duration in pairs)
        durations._started = [float(start) for start, _ in pairs]
        durations._quantiles = [float(each) for each in value["fits"]]
        durations._count = value["count"]
        return durations


def _validate(value: Any) -> None:
    if not isinstance(value, dict) or set(value) != {"durations", "begun", "fits", "count"}:
        raise ConfigError("a duration history has the keys durations, begun, fits and count")
    durations = value["durations"]
    if not _is_list(durations, RECENT, LONGEST_S):
        raise ConfigError("durations must be a list of at most %d numbers of seconds" % RECENT)
    begun = value["begun"]
    if not _is_list(begun, RECENT, LATEST) or len(begun) != len(durations):
        raise ConfigError("begun must be a list of as many instants as there are durations")
    if not _is_list(value["fits"], WINDOW, 1.0):
        raise ConfigError("fits must be a list of at most %d numbers from 0 to 1" % WINDOW)
    count = value["count"]
    is_whole = isinstance(count, int) and not isinstance(count, bool)
    if not is_whole or not len(durations) <= count <= MOST_COUNTED:
        raise ConfigError(
            "count must be a whole number from the number of durations to %d" % MOST_COUNTED
        )


def _is_at_edge(quantiles: Sequence[float]) -> bool:
    """Whether all quantiles are near the same edge, or very near either."""
    farthest = max(min(each, 1.0 - each) for each in quantiles)
    return max(quantiles) < EDGE or min(quantiles) > 1.0 - EDGE or farthest < EDGE / 2


def _is_list(value: Any, longest: int, most: float) -> bool:
    """Whether a value is a list of up to `longest` numbers from 0 to `most`."""
    if not isinstance(value, list) or len(value) > longest:
        return False
    return all(_is_number(each, most) for each in value)


def _is_duration(value: Any) -> bool:
    return _is_number(value, LONGEST_S)


def _is_number(value: Any, most: float) -> bool:
    return is_number(value) and 0 <= value <= most
