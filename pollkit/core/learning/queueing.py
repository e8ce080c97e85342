"""Jobs that a server works off one after the other, in the order in which they were submitted.

House rules: instants are on the clock of the starts. A queue is found from the jobs that started
last, each with the two instants between which it finished.

Theory. In a queue, a job's duration grows with the number of jobs before it, so past durations
show little about the next one. The finishes are regular instead: the next one comes about one
spacing after the last, for the job that started first of those that still run, then for the one
after it, and so on. A label's jobs are in a queue if

  * nearly no job finished before another one that started earlier (if that one is still pending,
    it was polled since), and
  * the spacings between finishes vary less than a third as much as the durations. For jobs that do
    not wait for each other, spacings vary more than durations.

If only intervals are known, each is narrowed by the intervals of the neighbours, and jobs with the
same interval are spread evenly over it. If so many jobs finish within one interval that their
order is not known, every fourth job is looked at instead. That also finds the queue of a few
workers, whose finishes are regular only from one group to the next. Measured with three workers,
100 jobs of 8 s +- 60 % and exact times: 8.9 polls and seconds of delay per job, without it 14.6.

`bench.py pace` has one worker with regular jobs only. It does not show what every fourth job, the
pending jobs and the queue that was known before are good for.
"""

from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .estimate import Estimate

SPACINGS = 12
STRIDE = 4
MOST_PENDING = 20  # pending jobs that are considered
LATEST = 1 + SPACINGS * STRIDE  # finishes that are needed at most
FEWEST_PAIRS = 20  # of jobs whose order is known
MOST_SWAPPED = 0.1  # pairs, relative to those in order
MOST_SWAPPED_IN_WAVE = 0.2
RAN_TOGETHER = 1.0  # starts that are apart by less than this share of the earlier duration
STARTED_TOGETHER = 0.1
MOST_SPREAD = 1 / 3  # of the spacings, relative to that of the durations
LEAST_SPACING_S = 0.001  # jobs that finish together are apart as their starts are, by a microsecond
SPREADS = 2.0  # a finish may be early or late by so many times the usual difference,
LEAST_SPREAD = 0.02  # and by this share of a spacing
TRUST = 0.9

Finish = Tuple[float, float, float]  # a start, and the two instants between which the job finished
Pending = Tuple[float, float]  # a start, and the instant at which the job was last seen pending


class Queue(NamedTuple):
    """When jobs leave a queue: about one `spacing` after the last one, `finished_at`."""

    finished_at: float
    spacing: float
    spread: float  # the usual difference from that spacing

    def estimate(self, start: float, place: int, front: float, front_seen_at: float) -> Estimate:
        """When the job that started at `start` finishes, as ages.

        `place` jobs are before it. The first of them (or the job itself) started at `front`, and
        was last seen pending at `front_seen_at`.
        """
        first_end = max(self.finished_at, front) + self.spacing
        if front_seen_at > front:
            first_end = max(first_end, front_seen_at + self.spacing / 2)
        age = first_end + place * self.spacing - start
        spread = (SPREADS * self.spread + LEAST_SPREAD * self.spacing) * (place + 1) ** 0.5
        return Estimate(age - spread, age + spread, TRUST, most_postponed=float("inf"))


def find_queue(
    finishes: Sequence[Finish], pending: Sequence[Pending], known: Optional[Queue]
) -> Optional[Queue]:
    """The queue that the finishes, in the order of the starts, show.

    `pending` are jobs that started before the last of these. If the order of too few jobs is known,
    the result is `known`, the queue that was found before.
    """
    is_decided = False
    for stride, chosen in _samples(finishes):
        in_order, swapped = _count_pairs(chosen, pending, RAN_TOGETHER)
        if in_order + swapped < FEWEST_PAIRS:
            continue
        is_decided = True
        if swapped <= MOST_SWAPPED * in_order:
            queue = _measure(chosen, stride)
            if queue is not None:
                return queue
    if is_decided or known is None:
        return None
    return known._replace(finished_at=max(known.finished_at, finishes[-1][2]))


def is_ordered_wave(finishes: Sequence[Finish], pending: Sequence[Pending]) -> bool:
    """Whether jobs that started together finished in the order of their starts.

    Several workers may work them off, so that the spacings vary too much for a queue.
    """
    for _, chosen in _samples(finishes):
        in_order, swapped = _count_pairs(chosen, pending, STARTED_TOGETHER)
        if in_order >= FEWEST_PAIRS and swapped <= MOST_SWAPPED_IN_WAVE * in_order:
            return True
    return False


def _samples(finishes: Sequence[Finish]) -> Iterator[Tuple[int, Sequence[Finish]]]:
    """The last finishes, then every fourth of more of them; each with its stride."""
    yield 1, finishes[-1 - SPACINGS :]
    if len(finishes) > 2 * SPACINGS:
        yield STRIDE, finishes[-1 - SPACINGS * STRIDE :: STRIDE]


def _count_pairs(
    finishes: Sequence[Finish], pending: Sequence[Pending], most_apart: float
) -> Tuple[int, int]:
    """The pairs of jobs that finished in the order of their starts, and those that did not.

    The starts of a pair are apart by less than a share of the earlier job's duration.
    """
    in_order = 0
    swapped = 0
    for earlier_start, seen_at in pending:
        for start, _, most_at in finishes:
            is_together = start - earlier_start < most_apart * (seen_at - earlier_start)
            swapped += is_together and earlier_start < start and most_at <= seen_at
    for i, (start, least_at, most_at) in enumerate(finishes):
        for earlier_start, earlier_least_at, earlier_most_at in finishes[:i]:
            if start - earlier_start < most_apart * (earlier_most_at - earlier_start):
                in_order += earlier_most_at <= least_at
                swapped += most_at <= earlier_least_at
    return in_order, swapped


def _measure(finishes: Sequence[Finish], stride: int) -> Optional[Queue]:
    """The queue of jobs that finished in order; None if their spacings vary too much."""
    ends = _likely_ends(finishes)
    starts = [start for start, _, _ in finishes]
    spacings = [
        end - max(last_end, start) for last_end, start, end in zip(ends, starts[1:], ends[1:])
    ]
    spacing, spread = _middle_and_spread(spacings)
    _, spread_of_durations = _middle_and_spread([end - start for start, end in zip(starts, ends)])
    if spacing < LEAST_SPACING_S or spread >= MOST_SPREAD * spread_of_durations:
        return None
    return Queue(max(ends), spacing / stride, spread / stride**0.5)


def _likely_ends(finishes: Sequence[Finish]) -> List[float]:
    """Likely instants of finishes that happened in this order."""
    count = len(finishes)
    least = [least_at for _, least_at, _ in finishes]
    most = [most_at for _, _, most_at in finishes]
    for i in range(1, count):
        least[i] = min(most[i], max(least[i], least[i - 1]))
    for i in reversed(range(count - 1)):
        most[i] = max(least[i], min(most[i], most[i + 1]))
    intervals = list(zip(least, most))
    ends = []
    for i, (least_at, most_at) in enumerate(intervals):
        alike = intervals.count((least_at, most_at))
        place = i - intervals.index((least_at, most_at))
        ends.append(least_at + (most_at - least_at) * (place + 0.5) / alike)
    return ends


def _middle_and_spread(values: Sequence[float]) -> Tuple[float, float]:
    """The median, and the median distance from it."""
    middle = _median(values)
    return middle, _median([abs(value - middle) for value in values])


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
