"""One job's state machine: when to poll, what a reading changes, how the wait ends.

House rules
  * Every decision about one job is made here, and in no driver.
  * Progress is immutable; `observe` gives back a new one. `now` and the random number come
    from outside; two runs with the same inputs are the same run.
  * A wait is either waiting (it knows the instant of its next poll) or ended, and an ended
    one never changes again.
  * No path leads from one poll to the next without a sleep, save two that are counted: a
    fresh credential after a 401 (once in a row) and a 303 (MAX_HOPS in a row).

Transitions, from waiting; 'sleep' means: wait again, `next_at` set

  verdict        goes to                                   slept for    resets the faults
  -------------  ----------------------------------------  -----------  -----------------
  DONE           ended: done                                            yes
  FAILED         ended: failed                                          yes
  PENDING        sleep by the pace, Retry-After the floor  pace         yes
  SEE_OTHER      poll there at once; too often: a FAULT                 no
  LIMITED        sleep until the server allows             retry_after  no, nor counts as one
  FAULT          sleep by the retry backoff;               fault        no
                 max_faults in a row (if there is such
                 a limit): ended: unreachable
  UNAUTHORISED   poll at once with a fresh credential;                  no
                 again: ended: unreachable
  NOT_FOUND      sleep by the retry backoff within the     fault        no, nor counts as one
                 grace; after it: ended: unreachable
  REFUSED        ended: unreachable
  any sleep at or past the deadline: ended: timed_out (unreachable where the last look was a
  fault); a Retry-After past the deadline: ended: timed_out at once

Theory of the last look. A sleep is clipped to the deadline, so the last poll happens exactly
there and sees every job that ended in time. A Retry-After is never undercut: where it lies
past the deadline there is no last look, and the wait ends now. Where a limit lets polls follow
each other only every so often, a poll that would leave no room for the last one is moved to the
deadline and becomes it.
"""

from typing import Any, Callable, Dict, FrozenSet, NamedTuple, Optional, Union

from .learning.durations import NOTHING_KNOWN
from .learning.progress import Forecast, update_forecast
from .model import Error, Job, Outcome, Slept, State, display_id
from .pace import Adaptive
from .profile import Profile
from .reading.reader import Reading, Verdict
from .units import rounded_duration
from .urls import redact_url
from .wait_settings import FOREVER as FOREVER
from .wait_settings import WaitSettings as WaitSettings

MAX_HOPS = 5
MAX_SAID = (
    8  # different warnings a wait gives: one that has a new one each time is asked to be quiet
)
SHORTEST_S = 0.01  # jitter may draw a zero; a loop without sleep it may not make

PACE, LIMIT, RETRY_AFTER, FAULT = Slept._fields
_SLEPT_FOR = {why: i for i, why in enumerate(Slept._fields)}


class Trouble(NamedTuple):
    """What went wrong since the last good reply; nothing of it touches the pace."""

    in_row: int = 0  # faults in a row
    retries: int = 0  # steps of the retry backoff, whatever they were taken for
    retry_wait: float = 0.0
    hops: int = 0
    reauthorised: bool = False  # a fresh credential was asked for
    asked: bool = False  # and its poll has been made

    @property
    def wants_credential(self) -> bool:
        """Whether the next poll is to read the credential anew."""
        return self.reauthorised and not self.asked


class Ending(NamedTuple):
    """How a wait ended."""

    state: State
    at: float
    result: Any = None
    error: Optional[Error] = None
    notice_delay_s: Optional[float] = None
    duration_s: Optional[float] = None


NO_TROUBLE = Trouble()
NOTHING_SLEPT = Slept()
NOTHING_SAID: FrozenSet[str] = frozenset()


class Progress(NamedTuple):
    """How far one wait has come."""

    job: Job
    url: str
    started_at: float
    deadline: float
    next_at: float
    wait_from: float
    why: str = PACE  # what the wait until next_at is for
    polls: int = 0
    looks: int = 0  # polls that were answered with 'pending': the pace's own count
    pace_wait: float = 0.0
    faults: int = 0
    status: Optional[str] = None
    fraction: Optional[float] = None
    etag: Optional[str] = None
    moved: bool = False  # `url` is where a 303 pointed: it is read with GET
    accepted: bool = (
        False  # answered with a bare 202 so far: a reply without a status is the result
    )
    slept: Slept = NOTHING_SLEPT
    trouble: Trouble = NO_TROUBLE
    said: FrozenSet[str] = NOTHING_SAID  # warnings given already: each is given once
    seen_at: Optional[float] = None  # when it was last seen pending
    forecast: Optional[Forecast] = None  # what its reported progress says about its end
    total: Optional[float] = None  # what the fraction is a fraction of, where that is said
    ending: Optional[Ending] = None


class Sleep(NamedTuple):
    """Nothing to do before `until`."""

    until: float
    why: str


class Poll(NamedTuple):
    """Ask now."""

    url: str
    etag: Optional[str]
    fresh_credential: bool
    moved: bool
    accepted: bool = False


Action = Union[Sleep, Poll, Ending]


def start(job: Job, url: str, rules: WaitSettings, now: float, latest: float = FOREVER) -> Progress:
    """A wait that begins now and ends by `latest`; the first poll comes when the pace says."""
    deadline = min(latest, rules.deadline(job, now))
    first = rules.pace.before_first(rules.durations, rules.is_fresh)
    return Progress(job, url, now, deadline, next_at=min(deadline, now + first), wait_from=now)


def next_action(progress: Progress, now: float) -> Action:
    """What to do at this instant: poll, sleep, or nothing any more."""
    if progress.ending is not None:
        return progress.ending
    if now < progress.next_at:
        return Sleep(progress.next_at, progress.why)
    return Poll(
        progress.url,
        progress.etag,
        progress.trouble.wants_credential,
        progress.moved,
        progress.accepted,
    )


def latest_slot(progress: Progress, interval: float, now: float) -> float:
    """The latest instant at which a slot is of use: a later one would leave none for the last look."""
    return max(now, progress.deadline - interval)


def hold(progress: Progress, ready_at: float, interval: float, now: float) -> Progress:
    """The shared limit allows the next poll only at `ready_at`, and then every `interval` seconds.

    What lies past the deadline, or leaves no room for the last look, waits for the deadline
    and tries there; if the limit stands in the way even then, it is over.
    """
    if progress.ending is not None or ready_at <= progress.next_at:
        return progress
    after = progress._replace(slept=_slept(progress, now), wait_from=now, why=LIMIT)
    if now >= progress.deadline:
        return _end(
            after,
            now,
            State.TIMED_OUT,
            "the rate limit left no poll before the deadline%s" % _last_status(progress),
        )
    return after._replace(
        next_at=ready_at if ready_at <= progress.deadline - interval else progress.deadline
    )


def give_up(progress: Progress, rules: WaitSettings, now: float) -> Progress:
    """End a wait whose last look could not begin for so long that it is not worth waiting for."""
    if progress.ending is not None or now <= progress.deadline + rules.patience:
        return progress
    return _end(
        progress._replace(slept=_slept(progress, now)),
        now,
        State.TIMED_OUT,
        "other polls took so long that none was left for a last look%s" % _last_status(progress),
    )


def observe(
    progress: Progress, rules: WaitSettings, reading: Reading, now: float, rand: float
) -> Progress:
    """What a reading changes."""
    if progress.ending is not None:
        return progress
    after = _counted(progress, reading, now)
    return TRANSITIONS[reading.verdict](after, rules, reading, now, rand)


def nudge(progress: Progress, now: float) -> Progress:
    """Something hints that the job has changed: poll now, unless the server forbade it."""
    if progress.ending is not None or progress.why == RETRY_AFTER or progress.next_at <= now:
        return progress
    return progress._replace(next_at=now, wait_from=now, slept=_slept(progress, now))


def cancel(progress: Progress, now: float) -> Progress:
    """End the wait because its owner has lost interest."""
    if progress.ending is not None:
        return progress
    return _end(progress._replace(slept=_slept(progress, now)), now, State.CANCELLED, "cancelled")


def outcome(progress: Progress, profile: Profile, wall_offset: float) -> Outcome:
    """An ended wait as an Outcome; `wall_offset` is wall-clock time less the wait's own clock."""
    job, ending = progress.job, progress.ending
    if ending is None:
        raise ValueError("%s has not ended" % job.id)
    return Outcome(
        display_id(job),
        redact_url(progress.url) or None,
        job.profile or profile.name,
        job.label,
        ending.state,
        progress.status,
        ending.result,
        ending.error,
        progress.fraction,
        progress.polls,
        progress.faults,
        ending.at - progress.started_at,
        progress.slept,
        ending.notice_delay_s,
        progress.started_at + wall_offset,
        ending.at + wall_offset,
    )


# The transitions, a function a row of the table. Each gets the Progress with the poll counted.


def _counted(progress: Progress, reading: Reading, now: float) -> Progress:
    """The Progress with one more poll. Each has one, and _replace would take three times as long."""
    trouble, warnings, said = progress.trouble, reading.warnings, progress.said
    return Progress(
        progress.job,
        progress.url,
        progress.started_at,
        progress.deadline,
        progress.next_at,
        progress.wait_from,
        progress.why,
        progress.polls + 1,
        progress.looks,
        progress.pace_wait,
        progress.faults,
        reading.status or progress.status,
        progress.fraction if reading.fraction is None else reading.fraction,
        progress.etag,
        progress.moved,
        progress.accepted,
        _slept(progress, now),
        trouble._replace(asked=True) if trouble.reauthorised else trouble,
        said.union(warnings) if warnings and len(said) < MAX_SAID else said,
        now if reading.verdict is Verdict.PENDING else progress.seen_at,
        progress.forecast,
        progress.total if reading.fraction is None else reading.total,
    )


def _done(
    progress: Progress, rules: WaitSettings, reading: Reading, now: float, rand: float
) -> Progress:
    ending = Ending(
        State.DONE, now, reading.result, None, reading.notice_delay_s, reading.duration_s
    )
    return progress._replace(ending=ending, trouble=NO_TROUBLE)


def _failed(
    progress: Progress, rules: WaitSettings, reading: Reading, now: float, rand: float
) -> Progress:
    message = reading.error_message or 'the job ended with status "%s"' % reading.status
    ending = Ending(
        State.FAILED,
        now,
        None,
        Error(reading.error_code, message),
        reading.notice_delay_s,
        reading.duration_s,
    )
    return progress._replace(ending=ending, trouble=NO_TROUBLE)


def _pending(
    progress: Progress, rules: WaitSettings, reading: Reading, now: float, rand: float
) -> Progress:
    looks = progress.looks + 1
    if progress.forecast is not None or reading.fraction is not None:
        progress = _foretold(progress, rules, reading.fraction, now)
    forecast = progress.forecast
    delay = rules.pace.delay(
        looks,
        progress.pace_wait,
        now - progress.started_at,
        rand,
        rules.durations,
        None if forecast is None else forecast.foreseen,
    )
    if reading.location is not None and reading.location != progress.url:
        progress = progress._replace(url=reading.location, etag=None, moved=False)
        reading = reading._replace(etag=None)
    if delay is None:
        return _end(
            progress._replace(looks=looks, trouble=NO_TROUBLE),
            now,
            State.TIMED_OUT,
            "%d attempts used up%s" % (looks, _last_status(progress)),
        )
    return _sleep(
        progress,
        rules,
        now,
        delay,
        PACE,
        reading.retry_after,
        looks=looks,
        pace_wait=delay,
        trouble=NO_TROUBLE,
        etag=reading.etag or progress.etag,
        accepted=reading.accepted,
    )


def _foretold(
    progress: Progress, rules: WaitSettings, fraction: Optional[float], now: float
) -> Progress:
    """The Progress with what the job's own progress says about its end, where the pace wants to know."""
    if not isinstance(rules.pace, Adaptive):
        return progress
    curve = NOTHING_KNOWN if rules.durations is None else rules.durations.curve
    return progress._replace(
        forecast=update_forecast(
            progress.forecast,
            fraction,
            now - progress.started_at,
            curve,
            rules.is_fresh or bool(rules.pace.first),
        )
    )


def _see_other(
    progress: Progress, rules: WaitSettings, reading: Reading, now: float, rand: float
) -> Progress:
    trouble = progress.trouble
    if trouble.hops >= MAX_HOPS:
        return _fault(
            progress,
            rules,
            reading._replace(because="too many redirects: " + reading.because),
            now,
            rand,
        )
    after = progress._replace(
        url=reading.location or progress.url,
        moved=True,
        trouble=trouble._replace(hops=trouble.hops + 1),
    )
    return _at_once(after, rules, reading, now)


def _limited(
    progress: Progress, rules: WaitSettings, reading: Reading, now: float, rand: float
) -> Progress:
    told, default = reading.retry_after, rules.retry_after_default
    if told is not None and told >= 1.0:
        # A little more than was asked for, so that hosts told the same do not all come back at once.
        return _sleep(progress, rules, now, told + rand * min(1.0, told / 10), RETRY_AFTER, told)
    if told is None and default is not None:  # our own guess: no floor, so the last look stays
        return _sleep(progress, rules, now, default + rand * min(1.0, default / 10), RETRY_AFTER)
    return _retry(progress, rules, now, rand, RETRY_AFTER, progress.trouble, told)


def _fault(
    progress: Progress, rules: WaitSettings, reading: Reading, now: float, rand: float
) -> Progress:
    trouble = progress.trouble._replace(in_row=progress.trouble.in_row + 1, hops=0)
    after = progress._replace(faults=progress.faults + 1, trouble=trouble)
    if rules.max_faults is not None and trouble.in_row >= rules.max_faults:
        return _end(
            after,
            now,
            State.UNREACHABLE,
            "%d fault%s in a row, the last: %s"
            % (trouble.in_row, "" if trouble.in_row == 1 else "s", reading.because),
        )
    if now >= after.deadline:
        return _end(after, now, State.UNREACHABLE, "%s, and the deadline came" % reading.because)
    return _retry(after, rules, now, rand, FAULT, trouble, reading.retry_after)


def _unauthorised(
    progress: Progress, rules: WaitSettings, reading: Reading, now: float, rand: float
) -> Progress:
    trouble = progress.trouble
    if trouble.reauthorised or not rules.can_reauthorise:
        return _end(progress, now, State.UNREACHABLE, reading.because)
    return _at_once(
        progress._replace(trouble=trouble._replace(reauthorised=True)), rules, reading, now
    )


def _not_found(
    progress: Progress, rules: WaitSettings, reading: Reading, now: float, rand: float
) -> Progress:
    grace_until = min(progress.deadline, progress.started_at + rules.not_found_grace)
    if now >= grace_until:
        return _end(progress, now, State.UNREACHABLE, reading.because)
    after = _retry(progress, rules, now, rand, FAULT, progress.trouble, reading.retry_after)
    floor_at = now + (reading.retry_after or 0.0)
    return after._replace(next_at=max(floor_at, min(after.next_at, grace_until)))


def _refused(
    progress: Progress, rules: WaitSettings, reading: Reading, now: float, rand: float
) -> Progress:
    return _end(progress, now, State.UNREACHABLE, reading.because)


TRANSITIONS: Dict[Verdict, Callable[[Progress, WaitSettings, Reading, float, float], Progress]] = {
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


def _at_once(progress: Progress, rules: WaitSettings, reading: Reading, now: float) -> Progress:
    """Poll again without a sleep, unless the server asked for one."""
    if reading.retry_after:
        return _sleep(progress._replace(etag=None), rules, now, 0.0, PACE, reading.retry_after)
    return progress._replace(next_at=now, wait_from=now, etag=None)


def _retry(
    progress: Progress,
    rules: WaitSettings,
    now: float,
    rand: float,
    why: str,
    trouble: Trouble,
    floor: Optional[float] = None,
) -> Progress:
    """Sleep by the retry backoff, one step further."""
    wait = rules.retry.delay(trouble.retries + 1, trouble.retry_wait, 0.0, rand) or 0.0
    after = progress._replace(
        trouble=trouble._replace(retries=trouble.retries + 1, retry_wait=wait)
    )
    return _sleep(after, rules, now, wait, why, floor)


def _sleep(
    progress: Progress,
    rules: WaitSettings,
    now: float,
    delay: float,
    why: str,
    floor: Optional[float] = None,
    **changes: Any,
) -> Progress:
    """Plan the next poll: not before the floor, not after the deadline, and one just at it."""
    next_at = now + max(delay, SHORTEST_S)
    if floor is not None:
        if floor and now + floor > progress.deadline:
            return _end(
                progress._replace(next_at=now + floor, **changes),
                now,
                State.TIMED_OUT,
                "the server asks to wait %s (Retry-After), past the deadline%s"
                % (rounded_duration(floor), _last_status(progress)),
            )
        if now + floor >= next_at:
            next_at, why = now + floor, RETRY_AFTER
    if now >= progress.deadline:
        return _end(
            progress._replace(next_at=next_at, **changes),
            now,
            State.TIMED_OUT,
            "not done within %s%s"
            % (rounded_duration(_allowed_time(progress, rules)), _last_status(progress)),
        )
    return progress._replace(
        next_at=_clipped(next_at, progress, rules), wait_from=now, why=why, **changes
    )


def _allowed_time(progress: Progress, rules: WaitSettings) -> float:
    """How long the wait was allowed to take.

    That is its timeout. The deadline comes sooner if a whole batch has a timeout, and later if it
    passed while nobody ran: then the last look happens after it.
    """
    times_out_at = rules.deadline(progress.job, progress.started_at)
    return min(progress.deadline, times_out_at) - progress.started_at


def _clipped(next_at: float, progress: Progress, rules: WaitSettings) -> float:
    return (
        progress.deadline
        if progress.deadline - next_at < rules.spacing
        else min(next_at, progress.deadline)
    )


def _end(progress: Progress, now: float, state: State, message: str) -> Progress:
    return progress._replace(ending=Ending(state, now, error=Error(None, message)))


def _slept(progress: Progress, now: float) -> Slept:
    """What was slept until now: as long as planned, or less where the sleep was cut short."""
    slept_s = min(now, progress.next_at) - progress.wait_from
    if slept_s <= 0:
        return progress.slept
    slept = list(progress.slept)
    slept[_SLEPT_FOR[progress.why]] += slept_s
    return Slept._make(slept)


def _last_status(progress: Progress) -> str:
    return '; last status "%s"' % progress.status if progress.status else ""
