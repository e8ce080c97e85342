"""One job's state machine: when to poll, how a reply changes the state, how the wait ends.

House rules
  * Every decision about one job is made here, and in no driver.
  * A WaitState is immutable; `observe` returns a new one. `now` and the random number are
    arguments, so two runs with the same inputs are the same run.
  * A wait is either active (it knows when it polls next) or finished. A finished wait never
    changes again.
  * There is always a sleep between two polls, with two exceptions, which are counted: a fresh
    credential after a 401 (once in a row) and a 303 (MAX_HOPS in a row).

Transitions of an active wait. "Sleep" means that it stays active and `next_at` is set.

  verdict        next state                               slept for    resets the faults
  -------------  ---------------------------------------  -----------  ------------------
  DONE           done                                                  yes
  FAILED         failed                                                yes
  PENDING        sleep by the pace; Retry-After is a      pace         yes
                 floor
  SEE_OTHER      poll the new URL at once; too many in                 no
                 a row count as a FAULT
  LIMITED        sleep until the server allows a poll     retry_after  no; is not a fault
  FAULT          sleep by the retry backoff; after        fault        no
                 max_faults in a row: unreachable
  UNAUTHORISED   poll at once with a fresh credential;                 no
                 the second time: unreachable
  NOT_FOUND      sleep by the retry backoff during the    fault        no; is not a fault
                 grace period; after it: unreachable
  REFUSED        unreachable

  At the deadline, each sleep becomes timed_out, or unreachable if the last poll was a fault.
  A Retry-After past the deadline becomes timed_out at once. For outages, see outages.py.

Theory of the final poll. A sleep is clipped to the deadline, so the final poll happens exactly
then and sees every job that finished in time. A Retry-After is never undercut: if it lies past the
deadline, there is no final poll, and the wait ends now. If the rate limit keeps polls a fixed
interval apart, a poll that would leave no room for the final one is moved to the deadline and
becomes the final poll.
"""

from typing import Callable, Dict, NamedTuple, Optional

from .learning.curve import NOTHING_KNOWN
from .learning.progress import Forecast, update_forecast
from .model import Error, Job, State
from .pace import Adaptive
from .reading.verdict import Reading, Verdict
from .units import NEVER, rounded_duration
from .wait_settings import WaitSettings
from .wait_state import (
    FAULT,
    LIMIT,
    NO_RETRIES,
    PACE,
    RETRY_AFTER,
    Action,
    Ending,
    Poll,
    Sleep,
    WaitState,
)

MAX_HOPS = 5
MAX_WARNINGS = 8  # different ones per wait: a server may send a new one with each reply
SHORTEST_S = 0.01  # of a sleep: jitter may draw a zero, but polls must not follow without a sleep
FAULT_VERDICTS = (Verdict.FAULT, Verdict.NOT_FOUND, Verdict.UNAUTHORISED, Verdict.REFUSED)
SHORTEST_PAUSE_S = 1.0  # a shorter Retry-After on a 429 is only the floor of a backoff


def start(
    job: Job, url: str, settings: WaitSettings, now: float, latest: float = NEVER
) -> WaitState:
    """A wait that begins now and ends by `latest`; the pace decides when it polls first."""
    deadline = min(latest, settings.deadline(job, now))
    first_s = settings.pace.first_delay(settings.durations, settings.is_fresh)
    return WaitState(job, url, now, deadline, next_at=min(deadline, now + first_s), wait_from=now)


def next_action(state: WaitState, now: float) -> Action:
    """The action that a wait needs now: a poll, a sleep, or none because it has ended."""
    if state.ending is not None:
        return state.ending
    if now < state.next_at:
        return Sleep(state.next_at, state.why)
    return Poll(
        state.url, state.etag, state.retry.needs_fresh_credential, state.is_moved, state.is_accepted
    )


def latest_slot(state: WaitState, interval: float, now: float) -> float:
    """The latest useful slot of the rate limit: a later one leaves no room for the final poll."""
    return max(now, state.deadline - interval)


def hold(state: WaitState, ready_at: float, interval: float, now: float) -> WaitState:
    """Postpone the next poll: the rate limit grants it at `ready_at`, then one per `interval`.

    If that is past the deadline or leaves no room for the final poll, the next poll is the final
    one. If the limit refuses that, too, the wait ends.
    """
    if state.ending is not None or ready_at <= state.next_at:
        return state
    held = state._replace(slept=state.slept_by(now), wait_from=now, why=LIMIT)
    if now >= state.deadline:
        message = "the rate limit left no poll before the deadline" + _last_status(state)
        return _end(held, now, State.TIMED_OUT, message)
    leaves_room = ready_at <= state.deadline - interval
    return held._replace(next_at=ready_at if leaves_room else state.deadline)


def give_up(state: WaitState, settings: WaitSettings, now: float) -> WaitState:
    """End a wait if its final poll is overdue by more than the settings allow."""
    if state.ending is not None or now <= state.deadline + settings.patience:
        return state
    message = "other polls took so long that there was no time for the final poll"
    after = state._replace(slept=state.slept_by(now))
    return _end(after, now, State.TIMED_OUT, message + _last_status(state))


def observe(
    state: WaitState, settings: WaitSettings, reading: Reading, now: float, rand: float
) -> WaitState:
    """The state after a poll; `rand` is a random number in [0, 1)."""
    if state.ending is not None:
        return state
    counted = _count_poll(state, reading, now)
    return TRANSITIONS[reading.verdict](counted, _Observation(settings, reading, now, rand))


def nudge(state: WaitState, now: float) -> WaitState:
    """Poll now, because the job may have changed, unless the server has forbidden it."""
    if state.ending is not None or state.why == RETRY_AFTER or state.next_at <= now:
        return state
    return state._replace(next_at=now, wait_from=now, slept=state.slept_by(now))


def cancel(state: WaitState, now: float) -> WaitState:
    """End the wait at the caller's request."""
    if state.ending is not None:
        return state
    return _end(state._replace(slept=state.slept_by(now)), now, State.CANCELLED, "cancelled")


def _count_poll(state: WaitState, reading: Reading, now: float) -> WaitState:
    """The state with one more poll. _replace would take three times as long."""
    retry = state.retry
    if retry.has_renewed_credential:
        retry = retry._replace(has_polled_since=True)
    warnings = state.warnings
    if reading.warnings and len(warnings) < MAX_WARNINGS:
        warnings = warnings.union(reading.warnings)
    fraction = state.fraction
    total = state.total
    if reading.fraction is not None:
        fraction = reading.fraction
        total = reading.total
    return WaitState(
        state.job,
        state.url,
        state.started_at,
        state.deadline,
        state.next_at,
        state.wait_from,
        state.why,
        state.polls + 1,
        state.pending_polls,
        state.pace_wait,
        state.faults,
        reading.status or state.status,
        fraction,
        state.etag,
        state.is_moved,
        state.is_accepted,
        state.slept_by(now),
        retry,
        warnings,
        now if reading.verdict is Verdict.PENDING else state.seen_at,
        state.forecast,
        total,
        reading.because if reading.verdict in FAULT_VERDICTS else state.last_fault,
    )


# The transitions: one function per row of the table. The poll is already counted in `state`.


class _Observation(NamedTuple):
    """Everything besides the state that a transition depends on."""

    settings: WaitSettings
    reading: Reading
    now: float
    rand: float  # in [0, 1)


def _done(state: WaitState, seen: _Observation) -> WaitState:
    reading = seen.reading
    ending = Ending(
        State.DONE, seen.now, reading.result, None, reading.notice_delay_s, reading.duration_s
    )
    return state._replace(ending=ending, retry=NO_RETRIES)


def _failed(state: WaitState, seen: _Observation) -> WaitState:
    reading = seen.reading
    reason = "the job failed, and the reply gives no reason"
    if reading.status is not None:
        reason = 'the job finished with status "%s"' % reading.status
    error = Error(reading.error_code, reading.error_message or reason)
    ending = Ending(State.FAILED, seen.now, None, error, reading.notice_delay_s, reading.duration_s)
    return state._replace(ending=ending, retry=NO_RETRIES)


def _pending(state: WaitState, seen: _Observation) -> WaitState:
    settings = seen.settings
    reading = seen.reading
    url = state.url
    is_moved = state.is_moved
    etag = reading.etag or state.etag
    if reading.location is not None and reading.location != url:
        url = reading.location
        is_moved = False
        etag = None
    forecast = _forecast(state, seen)
    pending_polls = state.pending_polls + 1
    delay = settings.pace.delay(
        pending_polls,
        state.pace_wait,
        seen.now - state.started_at,
        seen.rand,
        durations=settings.durations,
        estimate=None if forecast is None else forecast.estimate,
    )
    after = state._replace(
        url=url,
        is_moved=is_moved,
        etag=etag,
        is_accepted=reading.accepted,
        pending_polls=pending_polls,
        pace_wait=delay or 0.0,
        forecast=forecast,
        retry=NO_RETRIES,
    )
    if delay is None:
        message = "%d attempts used up%s" % (pending_polls, _last_status(state))
        return _end(after, seen.now, State.TIMED_OUT, message)
    return _sleep(after, seen, delay, PACE)


def _forecast(state: WaitState, seen: _Observation) -> Optional[Forecast]:
    """The forecast after a reading. Only an adaptive pace uses it."""
    pace = seen.settings.pace
    fraction = seen.reading.fraction
    has_progress = state.forecast is not None or fraction is not None
    if not has_progress or not isinstance(pace, Adaptive):
        return state.forecast
    durations = seen.settings.durations
    curve = durations.curve if durations else NOTHING_KNOWN
    is_fresh = seen.settings.is_fresh or bool(pace.first)
    return update_forecast(state.forecast, fraction, seen.now - state.started_at, curve, is_fresh)


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
    if max_faults is not None and in_row >= max_faults:
        message = "%d faults in a row, the last: %s" % (in_row, because)
        if in_row == 1:
            message = "1 fault: %s" % because
        return _end(after, seen.now, State.UNREACHABLE, message)
    if seen.now >= state.deadline:
        message = "%s, and the deadline has passed" % because
        return _end(after, seen.now, State.UNREACHABLE, message)
    return _retry(after, seen, FAULT)


def _unauthorised(state: WaitState, seen: _Observation) -> WaitState:
    if state.retry.has_renewed_credential or not seen.settings.can_reauthorise:
        return _end(state, seen.now, State.UNREACHABLE, seen.reading.because)
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
    if seen.now >= grace_ends_at:
        return _end(state, seen.now, State.UNREACHABLE, message)
    missing = state._replace(retry=state.retry._replace(missing_age=missing_age))
    after = _retry(missing, seen, FAULT)
    floor_at = seen.now + (seen.reading.retry_after or 0.0)
    return after._replace(next_at=max(floor_at, min(after.next_at, grace_ends_at)))


def _refused(state: WaitState, seen: _Observation) -> WaitState:
    return _end(state, seen.now, State.UNREACHABLE, seen.reading.because)


TRANSITIONS: Dict[Verdict, Callable[[WaitState, _Observation], WaitState]] = {
    Verdict.DONE: _done,
    Verdict.FAILED: _failed,
    Verdict.PENDING: _pending,
    Verdict.SEE_OTHER: _see_other,
    Verdict.LIMITED: _limited,
    Verdict.FAULT: _fault,
    Verdict.UNAUTHORISED: _unauthorised,
    Verdict.NOT_FOUND: _not_found,
    Verdict.REFUSED: _refused,
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


def _sleep(state: WaitState, seen: _Observation, delay: float, why: str) -> WaitState:
    """Schedule the next poll: not before Retry-After, not after the deadline."""
    now = seen.now
    floor_s = seen.reading.retry_after or 0.0
    next_at = now + max(delay, SHORTEST_S)
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
        return state._replace(
            next_at=next_at if leaves_room else state.deadline, wait_from=now, why=why
        )
    after = state._replace(next_at=next_at)  # still of use: the bucket pauses until then
    return _end(after, now, State.TIMED_OUT, message + _last_status(state))


def _allowed_s(state: WaitState, settings: WaitSettings) -> float:
    """How long the wait was allowed to take.

    That is its timeout. The deadline is earlier if a whole batch has a timeout, and later if it
    passed while no process polled the job: then the final poll happens after it.
    """
    times_out_at = settings.deadline(state.job, state.started_at)
    return min(state.deadline, times_out_at) - state.started_at


def _end(state: WaitState, now: float, how: State, message: str) -> WaitState:
    return state._replace(ending=Ending(how, now, error=Error(None, message)))


def _last_status(state: WaitState) -> str:
    return '; last status "%s"' % state.status if state.status else ""
