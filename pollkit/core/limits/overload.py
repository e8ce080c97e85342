"""Gateway errors (502, 503, 504) that mean "too many requests".

nginx's limit_req refuses requests with 503 unless it is configured otherwise, and overloaded
gateways reply 502 and 504. One such reply shows little. There are three cases, which differ in the
jobs that get errors and in the good replies in between:

  overload    Several jobs get errors, with good replies in between. The reading becomes LIMITED:
              the bucket that the jobs share slows down, as after a 429, and no fault is counted.
  lonely job  One job fails again and again while others get replies. It counts its own faults
              and slows down no other job.
  outage      No good reply arrives in between. Every job counts its faults, as without this module.

House rules: pure; `now` comes in, a reading goes out. Memory is bounded: the last MOST_REPLIES
replies of each origin that had a gateway error within WINDOW_S. An origin without errors costs
nothing.

Theory. An overload is known once SEVERAL jobs got errors and a good reply came in between; the
errors before that count as faults. LEAST_SHARE of the recent replies must be errors, and of the
jobs that were polled: a server that fails now and then is not overloaded, nor is one that fails for
a few of its jobs, which are then polled more often than others. If MOST_ROUNDS of errors, each
after a pause of the bucket, bring no good reply, slowing down does not help: that is an outage.

A rate limit refuses every job with the same chance p, which the replies to other jobs show. It
refuses one job n times in a row with the chance p^n. If that is below LONELY_CHANCE, the job is
lonely, and its errors are no evidence against the origin.
"""

from collections import deque
from typing import Deque, Dict, NamedTuple

from ..reading.verdict import GATEWAY_ERRORS, Reading, Verdict
from ..units import LONG_AGO
from ..waiting.wait_state import WaitState

GOOD = (Verdict.DONE, Verdict.FAILED, Verdict.PENDING, Verdict.SEE_OTHER)
WINDOW_S = 120.0  # how long a reply is remembered
MOST_REPLIES = 40  # of an origin that are remembered
SEVERAL = 3  # jobs with errors that make an overload
LEAST_SHARE = 1 / 5  # of errors among the replies, and of jobs with errors among the jobs
MOST_ROUNDS = 3  # of errors without a good reply; more of them make an outage
ROUND_S = 1.0  # errors within this time are one round: they were under way together
LONELY_ERRORS = 3  # in a row, at least, of a lonely job
LONELY_CHANCE = 0.01  # that a rate limit would refuse it so often in a row, at most


class _Seen(NamedTuple):
    """A recent reply."""

    job_id: str
    is_good: bool
    at: float


class _Origin:
    """The recent replies of an origin."""

    __slots__ = ("replies", "error_at", "rounds", "round_at")

    def __init__(self) -> None:
        self.replies: Deque[_Seen] = deque(maxlen=MOST_REPLIES)
        self.error_at = LONG_AGO
        self.rounds = 0  # of errors since the last good reply
        self.round_at = LONG_AGO

    def note_good(self, job_id: str, now: float) -> None:
        """Remember a good reply."""
        self.replies.append(_Seen(job_id, True, now))
        self.rounds = 0

    def note_error(self, job_id: str, now: float) -> None:
        """Remember a gateway error, and drop old replies."""
        while self.replies and self.replies[0].at < now - WINDOW_S:
            self.replies.popleft()
        self.replies.append(_Seen(job_id, False, now))
        self.error_at = now
        if self.rounds == 0 or now >= self.round_at + ROUND_S:
            self.rounds += 1
            self.round_at = now

    def is_overloaded(self, job_id: str) -> bool:
        """Whether several jobs got errors, this one just now, and good replies in between."""
        jobs = {seen.job_id for seen in self.replies}
        errors = [seen.job_id for seen in self.replies if not seen.is_good]
        are_several = len(set(errors)) >= max(SEVERAL, LEAST_SHARE * len(jobs))
        are_many = len(errors) >= LEAST_SHARE * len(self.replies)
        is_outage = self.rounds > MOST_ROUNDS
        return are_several and are_many and not is_outage and self._is_good_in_between(job_id)

    def _is_good_in_between(self, job_id: str) -> bool:
        """Whether a good reply came after the error of another job."""
        is_other_failed = False
        for seen in self.replies:
            if seen.is_good and is_other_failed:
                return True
            is_other_failed = is_other_failed or (not seen.is_good and seen.job_id != job_id)
        return False

    def is_lonely(self, job_id: str, errors: int) -> bool:
        """Whether this job fails too often, compared with others, to be refused by a rate limit."""
        others = [seen.is_good for seen in self.replies if seen.job_id != job_id]
        chance = (others.count(False) + 1) / (len(others) + 2)  # rule of succession: never 0
        return errors >= LONELY_ERRORS and chance**errors < LONELY_CHANCE


class Overloads:
    """Recognises overloaded origins by the replies to all jobs of one driver."""

    def __init__(self) -> None:
        self._origins: Dict[str, _Origin] = {}

    def review(self, name: str, state: WaitState, reading: Reading, now: float) -> Reading:
        """The reading to apply to a job: LIMITED if it is a gateway error of an overloaded origin.

        `name` is the origin. `state` is the wait before the reading is applied to it.
        """
        is_error = reading.verdict is Verdict.FAULT and reading.http_status in GATEWAY_ERRORS
        if is_error:
            return self._review_error(name, state, reading, now)
        if self._origins and reading.verdict in GOOD:
            self._note_good(name, state.job.id, now)
        return reading

    def _note_good(self, name: str, job_id: str, now: float) -> None:
        origin = self._origins.get(name)
        if origin is None:
            return
        if origin.error_at < now - WINDOW_S:
            del self._origins[name]
        else:
            origin.note_good(job_id, now)

    def _review_error(self, name: str, state: WaitState, reading: Reading, now: float) -> Reading:
        origin = self._origins.setdefault(name, _Origin())
        job_id = state.job.id
        errors_in_row = state.retry.steps + 1
        if origin.is_lonely(job_id, errors_in_row):
            return reading
        origin.note_error(job_id, now)
        if not origin.is_overloaded(job_id):
            return reading
        because = reading.because + ", as to other jobs between good replies: taken as a rate limit"
        return reading._replace(verdict=Verdict.LIMITED, because=because)
