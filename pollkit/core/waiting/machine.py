"""One job's state machine: when to poll, how a reply changes the state, how the wait ends.

House rules
  * Every decision about one job is made here, and in no driver.
  * A WaitState is immutable; `observe` returns a new one. `now` and the random number are
    arguments, so two runs with the same inputs are the same run.
  * A wait is either active (it knows when it polls next) or finished. A finished wait never
    changes again.
  * There is always a sleep between two polls, with four exceptions, which are bounded: a fresh
    credential after a 401 (once in a row), a 303 (MAX_HOPS in a row), the result of a job that was
    seen done (once), and an ordinary poll after a held one that was refused or cut (holding.py).

Transitions of an active wait. "Sleep" means that it stays active and `next_at` is set.

  verdict        next state                               slept for    resets the faults
  -------------  ---------------------------------------  -----------  ------------------
  DONE, FAILED   done or failed; if it must be confirmed  pace         yes
                 first, sleep by the retry backoff
  PENDING        sleep by the pace; Retry-After is a      pace         yes
                 floor, and so are slow replies
  SEE_OTHER      poll the new URL at once; too many in                 no
                 a row count as a FAULT
  LIMITED        sleep until the server allows a poll     retry_after  no; is not a fault
  FAULT          sleep by the retry backoff; after        fault        no
                 max_faults in a row: unreachable
  UNAUTHORISED   poll at once with a fresh credential;                 no
                 the second time: unreachable
  NOT_FOUND      sleep by the retry backoff during the    fault        no; is not a fault
                 grace period; after it: unreachable. If
                 the API accepted a cancel request, there
                 is no grace period: cancelled
  REFUSED        unreachable
  UNHELD         poll at once, without a hold                          no; is not a fault

  A reply to a request for the result (result_stage.py) or to cancel the job (cancelling.py) has the
  same verdicts. A job that was seen done stays done, whatever happens to its result.

  At the deadline, each sleep becomes timed_out, or unreachable if the last poll was a fault.
  A Retry-After past the deadline becomes timed_out at once. For outages, see outages.py.
  An end that the final poll sees, and that must be confirmed, gets one more poll for that.

Theory of the final poll. A sleep is clipped to the deadline, so the final poll happens exactly
then and sees every job that finished in time. A Retry-After is never undercut: if it lies past the
deadline, there is no final poll, and the wait ends now. If the rate limit keeps polls a fixed
interval apart, a poll that would leave no room for the final one is moved to the deadline and
becomes the final poll.
"""

from typing import Callable, Dict, NamedTuple, Optional

from ..learning.estimate import Estimate
from ..model import FaultCode, Job, State
from ..reading.verdict import Reading, Verdict
from ..units import NEVER, rounded_duration
from .counting import count_poll
from .ends.cancelling import (
    CONFIRM_WITHIN_S,
    FIRST_CHECK_S,
    after_cancel_reply,
    cancel_at_timeout,
    confirm_cancel,
    confirmation_delay,
)
from .ends.confirmation import count_end, ending_from_reading
from .ends.endings import end_wait, last_status_text
from .ends.result_stage import (
    after_failed_attempt,
    begin_result_stage,
    continue_result_stage,
    note_disk_fault,
)
from .holding import AT_ONCE_S
from .planning import delay_after_poll, first_delay
from .wait_settings import WaitSettings
from .wait_state import (
    FAULT,
    NO_RETRIES,
    PACE,
    RETRY_AFTER,
    Action,
    Cancel,
    Poll,
    RetryState,
    Sleep,
    WaitState,
)

MAX_HOPS = 5
SHORTEST_S = 0.01  # of a sleep: jitter may draw a zero, but polls must not follow without a sleep
SLOW_FACTOR = 5.0  # a sleep is at least so many times as long as the poll took: it may be overload
SHORTEST_PAUSE_S = 1.0  # a shorter Retry-After on a 429 is only the floor of a backoff


def start(
    job: Job, url: str, settings: WaitSettings, now: float, latest: float = NEVER
) -> WaitState:
    """A wait that begins now and ends by `latest`; the pace decides when it polls first."""
    deadline = min(latest, settings.deadline(job, now))
    state = WaitState(job, url, now, deadline, next_at=now, wait_from=now)
    return state._replace(next_at=min(deadline, now + first_delay(state, settings)))


def next_action(state: WaitState, now: float) -> Action:
    """The action that a wait needs now: a poll, a sleep, or none because it has ended."""
    if state.ending is not None:
        return state.ending
    if now < state.next_at:
        return Sleep(state.next_at, state.why)
    url = state.next_url
    is_cancel = state.is_cancel_due
    is_result = url is not state.url and not is_cancel
    return Poll(
        url,
        state.etag,
        state.retry.needs_fresh_credential,
        state.is_moved,
        state.is_accepted,
        is_result,
        is_cancel,
    )


def observe(
    state: WaitState,
    settings: WaitSettings,
    reading: Reading,
    now: float,
    rand: float,
    *,
    by_other_jobs: Optional[Estimate] = None,
) -> WaitState:
    """The state after a poll; `rand` is a random number in [0, 1).

    `by_other_jobs` says when this job will finish. Its own progress takes precedence.
    """
    if state.ending is not None:
        return state
    if settings.holding is not None:
        settings.holding.observe(state, reading, now)
    counted = count_poll(state, settings, reading, now)
    seen = _Observation(settings, reading, now, rand, by_other_jobs)
    if reading.is_cancel:
        counted = after_cancel_reply(counted, settings, reading, now)
        if not counted.is_cancel_due:
            return _sleep(counted, seen, FIRST_CHECK_S, PACE)
    after = TRANSITIONS[reading.verdict](counted, seen)
    if reading.is_result and after.ending is None:
        return after_failed_attempt(after, settings, reading)
    return after if after.cancel is None else confirm_cancel(after)


def nudge(state: WaitState, now: float) -> WaitState:
    """Poll now, because the job may have changed, unless the server has forbidden it."""
    if state.ending is not None or state.why == RETRY_AFTER or state.next_at <= now:
        return state
    return state._replace(next_at=now, wait_from=now, slept=state.slept_by(now))


def cancel(state: WaitState, now: float) -> WaitState:
    """End the wait at the caller's request. Whether the API cancels the job stays unknown."""
    if state.ending is not None:
        return state
    stopped = state._replace(slept=state.slept_by(now), cancel=None)
    return end_wait(stopped, now, State.CANCELLED, "cancelled")


# The transitions: one function per row of the table. The poll is already counted in `state`.


class _Observation(NamedTuple):
    """Everything besides the state that a transition depends on."""

    settings: WaitSettings
    reading: Reading
    now: float
    rand: float  # in [0, 1)
    by_other_jobs: Optional[Estimate]


def _finished(state: WaitState, seen: _Observation) -> WaitState:
    if seen.reading.is_result or state.done is not None:
        return continue_result_stage(state, seen.settings, seen.reading, seen.now)
    retry = count_end(state.retry, seen.reading)
    if retry.times_seen < seen.settings.confirm:
        return _await_confirmation(state, retry, seen)
    after = state._replace(retry=NO_RETRIES)
    if seen.reading.held_s and seen.reading.took_s >= AT_ONCE_S:
        after = after._replace(seen_at=seen.now)  # it was pending until just now
    if seen.reading.verdict is Verdict.DONE and seen.settings.result_url is not None:
        return begin_result_stage(after, seen.settings, seen.reading, seen.now)
    return after._replace(ending=ending_from_reading(seen.reading, seen.now))


def _await_confirmation(state: WaitState, retry: RetryState, seen: _Observation) -> WaitState:
    """Poll again to confirm an end: after the deadline, too, if the end was seen by then."""
    after = state._replace(retry=retry)
    is_another_end = state.retry.unconfirmed_end not in (None, retry.unconfirmed_end)
    is_polled_once = _allowed_s(state, seen.settings) <= 0.0  # timeout = 0
    if seen.now < state.deadline or is_another_end or is_polled_once:
        return _retry(after, seen, PACE)
    after = _retry(after._replace(deadline=seen.now + CONFIRM_WITHIN_S), seen, PACE)
    return after if after.ending is not None else after._replace(deadline=after.next_at)


def _pending(state: WaitState, seen: _Observation) -> WaitState:
    settings = seen.settings
    reading = seen.reading
    after = state
    if reading.location is not None and reading.location != state.url:
        after = state._replace(url=reading.location, is_moved=False, etag=None)
    elif reading.etag and reading.etag != state.etag:
        after = state._replace(etag=reading.etag)
    delay = delay_after_poll(after, settings, seen.rand, seen.by_other_jobs)
    if state.cancel is not None and state.cancel == Cancel.SENT:
        delay = confirmation_delay(delay)
    if delay is None:
        message = "%d attempts used up%s" % (after.pending_polls, last_status_text(state))
        return _time_out(after, seen, message)
    slow_s = 0.0 if reading.held_s else reading.took_s
    least_s = SLOW_FACTOR * slow_s
    sleep_s = delay if delay > least_s else least_s
    return _sleep(after, seen, sleep_s, PACE, pace_wait=delay)


def _see_other(state: WaitState, seen: _Observation) -> WaitState:
    hops = state.retry.hops + 1
    reading = seen.reading
    if hops > MAX_HOPS:
        fault = reading._replace(because="too many redirects: " + reading.because)
        return _fault(state, seen._replace(reading=fault))
    after = state._replace(
        url=reading.location or state.url, is_moved=True, retry=state.retry._replace(hops=hops)
    )
    return _poll_at_once(after, seen)


def _limited(state: WaitState, seen: _Observation) -> WaitState:
    pause_s = seen.reading.retry_after
    if pause_s is None:
        pause_s = seen.settings.retry_after_default  # no floor: the final poll still happens
    elif pause_s < SHORTEST_PAUSE_S:
        pause_s = None
    if pause_s is None:
        return _retry(state, seen, RETRY_AFTER)
    # Clients that got the same Retry-After should not all come back at the same instant.
    jitter_s = seen.rand * min(1.0, pause_s / 10)
    return _sleep(state, seen, pause_s + jitter_s, RETRY_AFTER)


def _fault(state: WaitState, seen: _Observation) -> WaitState:
    because = seen.reading.because
    max_faults = seen.settings.max_faults
    in_row = state.retry.faults_in_row + 1
    retry = state.retry._replace(faults_in_row=in_row, hops=0)
    after = state._replace(faults=state.faults + 1, retry=retry)
    is_ledger = max_faults is None
    if seen.reading.code is FaultCode.DISK and not is_ledger:  # to fetch it again can't help
        return end_wait(note_disk_fault(after), seen.now, State.UNREACHABLE, because)
    if max_faults is not None and in_row >= max_faults:
        message = "%d faults in a row, the last: %s" % (in_row, because)
        if in_row == 1:
            message = "1 fault: %s" % because
        return end_wait(after, seen.now, State.UNREACHABLE, message)
    if seen.now >= state.deadline:
        message = "%s, and the deadline has passed" % because
        return end_wait(after, seen.now, State.UNREACHABLE, message)
    return _retry(after, seen, FAULT)


def _unauthorised(state: WaitState, seen: _Observation) -> WaitState:
    if state.retry.has_renewed_credential or not seen.settings.can_reauthorise:
        return end_wait(state, seen.now, State.UNREACHABLE, seen.reading.because)
    after = state._replace(retry=state.retry._replace(has_renewed_credential=True))
    return _poll_at_once(after, seen)


def _not_found(state: WaitState, seen: _Observation) -> WaitState:
    # The grace period begins with the wait, or with the first 404 after the job was seen.
    message = seen.reading.because
    missing_age = 0.0
    if state.seen_at is not None:
        message += "; the server no longer knows it: expired or deleted?"
        missing_age = state.retry.missing_age or seen.now - state.started_at
    grace_ends_age = missing_age + seen.settings.not_found_grace
    grace_ends_at = min(state.deadline, state.started_at + grace_ends_age)
    missing = state._replace(retry=state.retry._replace(missing_age=missing_age))
    was_cancelled = state.cancel is not None and state.cancel == Cancel.SENT and state.done is None
    if was_cancelled or seen.now >= grace_ends_at:
        return end_wait(missing, seen.now, State.UNREACHABLE, message)
    after = _retry(missing, seen, FAULT)
    floor_at = seen.now + (seen.reading.retry_after or 0.0)
    return after._replace(next_at=max(floor_at, min(after.next_at, grace_ends_at)))


def _unheld(state: WaitState, seen: _Observation) -> WaitState:
    return _poll_at_once(state._replace(retry=state.retry._replace(is_unheld=True)), seen)


def _refused(state: WaitState, seen: _Observation) -> WaitState:
    return end_wait(state, seen.now, State.UNREACHABLE, seen.reading.because)


TRANSITIONS: Dict[Verdict, Callable[[WaitState, _Observation], WaitState]] = {
    Verdict.DONE: _finished,
    Verdict.FAILED: _finished,
    Verdict.PENDING: _pending,
    Verdict.SEE_OTHER: _see_other,
    Verdict.LIMITED: _limited,
    Verdict.FAULT: _fault,
    Verdict.UNAUTHORISED: _unauthorised,
    Verdict.NOT_FOUND: _not_found,
    Verdict.REFUSED: _refused,
    Verdict.UNHELD: _unheld,
}


# Steps that several transitions share


def _poll_at_once(state: WaitState, seen: _Observation) -> WaitState:
    """Poll again without a sleep, unless the server asked for one."""
    after = state._replace(next_at=seen.now, wait_from=seen.now, etag=None)
    if seen.reading.retry_after:
        return _sleep(after, seen, 0.0, PACE)
    return after


def _retry(state: WaitState, seen: _Observation, why: str) -> WaitState:
    """Sleep by the next step of the retry backoff."""
    steps = state.retry.steps + 1
    delay = seen.settings.retry.delay(steps, state.retry.delay_s, 0.0, seen.rand) or 0.0
    after = state._replace(retry=state.retry._replace(steps=steps, delay_s=delay))
    return _sleep(after, seen, delay, why)


def _sleep(
    state: WaitState, seen: _Observation, delay: float, why: str, pace_wait: Optional[float] = None
) -> WaitState:
    """Schedule the next poll: not before Retry-After, not after the deadline.

    `pace_wait` is the delay that the pace chose, if it has chosen one.
    """
    now = seen.now
    if pace_wait is None:
        pace_wait = state.pace_wait
    floor_s = seen.reading.retry_after or 0.0
    next_at = now + (delay if delay > SHORTEST_S else SHORTEST_S)
    if now + floor_s >= next_at:
        next_at = now + floor_s
        why = RETRY_AFTER
    if floor_s and now + floor_s > state.deadline:
        asked = rounded_duration(floor_s)
        message = "the server asks to wait %s (Retry-After), past the deadline" % asked
    elif now >= state.deadline:
        message = "not done within %s" % rounded_duration(_allowed_s(state, seen.settings))
    else:
        leaves_room = state.deadline - next_at >= seen.settings.spacing
        if not leaves_room:
            next_at = state.deadline
        return state.with_sleep(next_at, now, why, pace_wait)
    # next_at is still of use: the bucket pauses until then.
    after = state._replace(next_at=next_at, pace_wait=pace_wait)
    return _time_out(after, seen, message + last_status_text(state))


def _time_out(state: WaitState, seen: _Observation, message: str) -> WaitState:
    """End the wait, unless the profile asks to cancel the job first."""
    floor_s = seen.reading.retry_after or 0.0
    cancelling = cancel_at_timeout(state, seen.settings, seen.now, floor_s)
    return cancelling or end_wait(state, seen.now, State.TIMED_OUT, message)


def _allowed_s(state: WaitState, settings: WaitSettings) -> float:
    """How long the wait was allowed to take.

    That is its timeout. The deadline is earlier if a whole batch has a timeout, and later if it
    passed while no process polled the job: then the final poll happens after it.
    """
    times_out_at = settings.deadline(state.job, state.started_at)
    return min(state.deadline, times_out_at) - state.started_at
