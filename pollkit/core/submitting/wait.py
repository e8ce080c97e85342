"""The wait for a job after its submission: active, finished already, or never begun."""

from ..model import Job
from ..units import NEVER
from ..waiting import machine
from ..waiting.ends.confirmation import ending_from_reading
from ..waiting.wait_settings import WaitSettings
from ..waiting.wait_state import RETRY_AFTER, WaitState
from .intent import Answer, Intent


def submitted_job(job: Job, answer: Answer) -> Job:
    """The job under the id that the server has given it; if it gave none, under its URL."""
    return job._replace(id=answer.job_id or answer.job_url or job.id, url=answer.job_url)


def start_wait(
    job: Job, url: str, settings: WaitSettings, answer: Answer, now: float, latest: float = NEVER
) -> WaitState:
    """The wait for a job that was accepted just now; it has ended if the job has finished.

    The first poll is not before the Retry-After of the reply. Without past jobs to learn from, it
    is at once.
    """
    is_fresh = bool(settings.durations)
    state = machine.start(job, url, settings._replace(is_fresh=is_fresh), now, latest)
    reading = answer.reading
    assert reading is not None
    state = state._replace(status=reading.status, is_accepted=reading.accepted)
    if answer.is_finished:
        return state._replace(ending=ending_from_reading(reading, now), fraction=reading.fraction)
    if answer.retry_after:
        next_at = max(state.next_at, now + answer.retry_after)
        return state._replace(next_at=next_at, why=RETRY_AFTER)
    return state


def unsubmitted_wait(
    job: Job, intent: Intent, settings: WaitSettings, began_at: float
) -> WaitState:
    """The wait for a job that is not accepted yet, or not for sure."""
    state = machine.start(job, intent.url, settings, began_at)
    return state._replace(faults=intent.faults, last_fault=intent.last_fault)
