"""Held polls: how long a server may hold the next poll of a job, and how well that works.

House rules: pure. A Holding belongs to all jobs of one endpoint, because it describes their server
and the gateways in front of it, not a job. It learns from the reply to each held poll:

  still pending, after a while   the server holds polls. How long it did so counts from now on,
                                 because servers have a maximum, or reply whenever progress is made
  still pending, at once, and    the server ignores the request to hold. After MOST_USELESS such
  nothing has changed            replies in a row, no poll is held any more
  400, 403, 404, 501, ...        the server refuses to hold. The same rule applies
  504, or the connection is cut  a gateway waits for less time. From now on polls are held for half
                                 the time that this one lasted, until FORGET_S later

After a poll that was refused or cut, the next one is an ordinary poll, and it comes at once: it
shows whether the job has finished meanwhile, whether it exists, and whether the server is up.

Some polls are never held: the first one, unless the pace delays it; polls after a fault, to confirm
an end, or once the job is to be cancelled; and the final poll. A hold ends before the deadline, so
that there is a final poll.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING, Optional

from ..model import Job
from ..profiles.hold_templates import SHORTEST_S
from ..reading.verdict import Reading, Verdict
from ..units import NEVER
from .wait_state import NO_RETRIES, PACE, Poll, WaitState

if TYPE_CHECKING:
    from .wait_settings import WaitSettings

MOST_USELESS = 2  # held polls in a row that the server ignored or refused
AT_ONCE_S = 1.0  # a reply that took less time was not held
FORGET_S = 600.0  # after this time, a hold may be as long again as before the last cut
BEFORE_DEADLINE_S = 1.0  # a hold ends so long before the deadline
KEPT_SHARE = 0.5  # of the latest reply in the average time that polls are held
MOST_INDEXES = 100000  # of jobs that are remembered


class Holding:
    """How long the server of some jobs holds polls, up to `longest_s`.

    `needs_index`: only after a reply with an index. `is_in_url`: only jobs that have no URL of
    their own. Every hold ends by `ends_at`, with the run of the driver.
    """

    def __init__(
        self, longest_s: float, *, needs_index: bool = False, is_in_url: bool = False
    ) -> None:
        self.longest_s = longest_s
        self.ends_at = NEVER
        self._needs_index = needs_index
        self._is_in_url = is_in_url
        self._indexes: "OrderedDict[str, str]" = OrderedDict()  # by the id of the job
        self._kept_s = longest_s  # how long polls that ended pending were held, on average
        self._useless = 0
        self._cut_s = NEVER  # how long the shortest poll lasted that was cut
        self._cut_at = -NEVER

    @property
    def is_given_up(self) -> bool:
        """Whether the server ignores or refuses the request to hold polls."""
        return self._useless >= MOST_USELESS

    def index_of(self, job: Job) -> Optional[str]:
        """The index of the last reply about a job."""
        return self._indexes.get(job.id)

    def allowed_s(self, job: Job, now: float) -> float:
        """How long the next poll of a job may be held; 0 if it can't be."""
        has_no_index = self._needs_index and job.id not in self._indexes
        has_other_url = self._is_in_url and job.url is not None
        if self.is_given_up or has_no_index or has_other_url or now >= self.ends_at:
            return 0.0
        hold_s = self.longest_s
        if now < self._cut_at + FORGET_S:
            hold_s = min(hold_s, self._cut_s / 2)
        return hold_s if hold_s >= SHORTEST_S else 0.0

    def expected_s(self, job: Job, now: float) -> float:
        """How long the next poll of a job will be held, if the job does not finish."""
        return min(self.allowed_s(job, now), self._kept_s)

    def observe(self, before: WaitState, reading: Reading, now: float) -> None:
        """Learn from a reply; `before` is the state of the wait before it."""
        has_new_index = self._update_index(before.job.id, reading)
        if not reading.held_s:
            return
        verdict = reading.verdict
        if verdict is Verdict.PENDING:
            self._kept_s += KEPT_SHARE * (reading.took_s - self._kept_s)
            has_changed = has_new_index or _has_changed(before, reading)
            is_ignored = reading.took_s < AT_ONCE_S and not has_changed
            self._useless = self._useless + 1 if is_ignored else 0
        elif verdict is Verdict.UNHELD and reading.took_s >= AT_ONCE_S:
            is_forgotten = now >= self._cut_at + FORGET_S
            self._cut_s = reading.took_s if is_forgotten else min(self._cut_s, reading.took_s)
            self._cut_at = now
        elif verdict is Verdict.UNHELD:
            self._useless += 1

    def _update_index(self, job_id: str, reading: Reading) -> bool:
        """Remember the index of a reply; whether it has changed.

        An index that went back is forgotten, and so is zero: the server has started again (Consul,
        blocking queries), and the next poll is an ordinary one.
        """
        index = reading.hold_index
        before = self._indexes.pop(job_id, None)
        if index is None:
            index = before
        if index is None or reading.verdict in (Verdict.DONE, Verdict.FAILED):
            return False
        is_restarted = index.isdigit() and int(index) < max(1, _number(before))
        if not is_restarted:
            self._indexes[job_id] = index
            if len(self._indexes) > MOST_INDEXES:
                self._indexes.popitem(last=False)  # the oldest
        return index != before


def _number(index: Optional[str]) -> int:
    return int(index) if index is not None and index.isdigit() else 0


def _has_changed(before: WaitState, reading: Reading) -> bool:
    """Whether a reply says something new about a pending job."""
    has_new_status = reading.status is not None and reading.status != before.status
    has_new_progress = reading.fraction is not None and reading.fraction != before.fraction
    return has_new_status or has_new_progress


def granted_hold(state: WaitState, settings: "WaitSettings", now: float) -> float:
    """How long a poll that begins now is held, in whole seconds; 0 for an ordinary poll."""
    holding = settings.holding
    is_another_request = state.done is not None or state.cancel is not None
    if holding is None or state.retry != NO_RETRIES or is_another_request:
        return 0.0
    is_delayed = state.why == PACE and state.next_at > state.wait_from
    is_first_at_once = state.seen_at is None and not is_delayed and not state.slept.pace
    if is_first_at_once:
        return 0.0
    latest = min(state.deadline - BEFORE_DEADLINE_S, holding.ends_at)
    hold_s = min(holding.allowed_s(state.job, now), latest - now)
    return float(int(hold_s)) if hold_s >= SHORTEST_S else 0.0


def hold_poll(poll: Poll, state: WaitState, settings: "WaitSettings", now: float) -> Poll:
    """A poll that begins now, with the time for which it is held."""
    hold_s = granted_hold(state, settings, now)
    if not hold_s or settings.holding is None:
        return poll
    index = settings.holding.index_of(state.job)
    return poll._replace(hold_s=hold_s, hold_index=index, left_s=state.deadline - now)
