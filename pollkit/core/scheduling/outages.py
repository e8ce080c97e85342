"""Outages: faults that concern a whole origin, not one job.

House rules: pure; `now` and random numbers come in. Nothing here knows the jobs of an origin: the
agenda does, and it puts them in a lane that polls one of them at a time (lane.py).

The rule. A poll fails if the server did not speak: it could not be reached, it closed the
connection, it was silent until the timeout, or a gateway replied in its place (502, 503, 504) and
overload.py did not take that for a rate limit.

  up     after FAILURES failed polls in a row: down
  down   a single probe at a time, an ordinary poll of one of the due jobs, with PROBE_PACE between
         two probes, or Retry-After; any reply of the server, also to another poll in flight: up

Theory. Any reply shows that the server is up, even a 404, a 429 or a 500: its jobs may then be
polled again, and each counts its own faults. A fault that shows neither, such as a certificate that
we don't accept, changes nothing while the origin is up, and is a failed probe while it is down.

One broken job must not stop its neighbours, so the failures must concern two jobs at least, unless
the origin has only one. For the same reason the jobs take turns as probes.

Memory is bounded: an origin without failures costs nothing, and at most MOST_ORIGINS with failures
are remembered.
"""

from typing import List, NamedTuple, Optional, Set

from ..model import FaultCode, State
from ..reading.verdict import GATEWAY_ERRORS, Reading, Verdict
from ..units import rounded_duration
from ..waiting.ends.endings import end_wait
from ..waiting.pace import Backoff
from ..waiting.wait_settings import WaitSettings
from ..waiting.wait_state import FAULT, WaitState

FAILURES = 3  # failed polls in a row that make an outage
PROBE_PACE = Backoff(1, 60, factor=2)
RESUME_S = 10.0  # after an outage, the due jobs are polled within this time
RESUME_GAP_S = 0.05  # between two of them, if they are few
MOST_ORIGINS = 1000

SILENT_CODES = (
    FaultCode.NAME,
    FaultCode.CONNECT,
    FaultCode.TIMEOUT,
    FaultCode.NO_REPLY,
    FaultCode.BROKEN,
)
SPEAKING_CODES = (
    FaultCode.HTTP_ERROR,
    FaultCode.UNREADABLE,
    FaultCode.HTML,
    FaultCode.NO_STATUS,
    FaultCode.UNKNOWN_STATUS,
    FaultCode.REDIRECT,
    FaultCode.TOO_LARGE,
    FaultCode.CUT,
)


class Outage(NamedTuple):
    """A time during which an origin replied to no poll; `ended_at` is None while it lasts."""

    origin: str
    began_at: float  # of the first failed poll
    last_fault: str
    next_probe_at: float
    failed_probes: int = 0
    ended_at: Optional[float] = None

    def describe(self, now: float) -> str:
        """The origin, how long it has been down, and why."""
        lasted = rounded_duration(now - self.began_at)
        return "%s has been down for %s: %s" % (self.origin, lasted, self.last_fault)

    @classmethod
    def from_failures(
        cls, origin: str, failures: "Failures", last: Reading, now: float, rand: float
    ) -> "Outage":
        """An outage that begins after `failures`, of which `last` is the last one."""
        return cls(origin, failures.began_at, last.because, now + _probe_delay(1, last, rand))

    def after_failed_probe(self, reading: Reading, now: float, rand: float) -> "Outage":
        """The outage after one more failed probe."""
        failed_probes = self.failed_probes + 1
        delay = _probe_delay(failed_probes + 1, reading, rand)
        return self._replace(
            last_fault=reading.because, next_probe_at=now + delay, failed_probes=failed_probes
        )


def _probe_delay(probe: int, reading: Reading, rand: float) -> float:
    """The delay before a probe, 1 for the first; Retry-After concerns the origin as a whole."""
    return max(PROBE_PACE.delay(probe, 0.0, 0.0, rand), reading.retry_after or 0.0)


def is_failure(reading: Reading) -> bool:
    """Whether the server did not speak: the poll failed, and so would a poll of any other job."""
    if reading.verdict is not Verdict.FAULT:
        return False
    return reading.code in SILENT_CODES or reading.http_status in GATEWAY_ERRORS


def is_reply(reading: Reading) -> bool:
    """Whether the server itself has replied, with whatever status."""
    if reading.verdict is Verdict.UNHELD:  # a gateway may have cut the poll
        return reading.code is None
    return reading.code is None or (reading.code in SPEAKING_CODES and not is_failure(reading))


class Failures:
    """The failed polls of an origin in a row."""

    __slots__ = ("began_at", "count", "job_ids")

    def __init__(self, began_at: float) -> None:
        self.began_at = began_at
        self.count = 0
        self.job_ids: Set[str] = set()  # two of them are enough

    def add(self, job_id: str) -> None:
        """Count a failed poll of a job."""
        self.count += 1
        if len(self.job_ids) < 2:
            self.job_ids.add(job_id)


# How an outage changes one wait


def count_failed_probe(
    state: WaitState, settings: WaitSettings, outage: Outage, now: float
) -> WaitState:
    """A failed probe is a fault of every job of its origin; the wait ends at max_faults."""
    in_row = state.retry.faults_in_row + 1
    after = state._replace(
        faults=state.faults + 1,
        retry=state.retry._replace(faults_in_row=in_row),
        last_fault=outage.last_fault,
    )
    if settings.max_faults is None or in_row < settings.max_faults:
        return after
    message = "%d faults in a row, the last: %s" % (in_row, outage.last_fault)
    return _end(after, now, message)


def end_at_deadline(state: WaitState, outage: Outage, now: float) -> WaitState:
    """End a wait whose deadline passes during an outage: a final poll would fail, too."""
    return _end(state, now, outage.describe(now))


def wait_for_probe(state: WaitState, now: float) -> WaitState:
    """A wait that was due and had to wait until now: it slept because of faults."""
    if now <= state.next_at:
        return state
    return state._replace(
        slept=state.slept_by(state.next_at), wait_from=state.next_at, next_at=now, why=FAULT
    )


def resume(state: WaitState, poll_at: float) -> WaitState:
    """A wait that is due after an outage: it polls at `poll_at`, or at its deadline."""
    return wait_for_probe(state, min(poll_at, state.deadline))


def forgive_failed_probes(state: WaitState, outage: Outage) -> WaitState:
    """A wait after an outage: the failed probes were faults of the origin, not of its jobs."""
    in_row = max(0, state.retry.faults_in_row - outage.failed_probes)
    return state._replace(retry=state.retry._replace(faults_in_row=in_row))


def resume_instants(count: int, now: float, rand: float) -> List[float]:
    """When to poll the jobs that are due after an outage, spread evenly."""
    gap_s = min(RESUME_GAP_S, RESUME_S / max(1, count))
    return [now + (i + rand) * gap_s for i in range(count)]


def _end(state: WaitState, now: float, message: str) -> WaitState:
    after = wait_for_probe(state, now)
    slept = after.slept_by(now)
    return end_wait(after._replace(slept=slept), now, State.UNREACHABLE, message)
