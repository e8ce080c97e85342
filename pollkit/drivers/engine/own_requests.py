"""Jobs that need a request of their own, although their API lists many jobs at once.

A result is fetched, and a job is cancelled, with a request for that job alone. After it, the job
stays with the endpoint that polls single jobs.
"""

from typing import TYPE_CHECKING, List

from ...core.waiting.wait_state import WaitState

if TYPE_CHECKING:
    from ...core.scheduling.schedule import Step
    from .engine import Engine


def needs_own_request(state: WaitState) -> bool:
    """Whether the next request of a wait is not a poll that a list can answer."""
    return state.done is not None or state.is_cancel_due


def separate_jobs(engine: "Engine", steps: "List[Step]") -> None:
    """Move the jobs that need their own requests to another endpoint. Call with the lock held."""
    for step in steps:
        entry = step.entry
        is_active = step.after.ending is None
        if is_active and entry.endpoint.asks_many and needs_own_request(step.after):
            engine.agenda.withdraw(entry)
            engine.adopt(step.after, entry.endpoint, entry.owner).start = entry.start


def request_cancel(engine: "Engine", job_id: str, now: float) -> bool:
    """Ask the API to cancel a job; False if it is not pending. Call with the lock held."""
    entry = engine.agenda.get(job_id)
    if entry is None:
        return False
    entry.endpoint.cancel_request(entry.state.job, entry.state.url)  # raises a ConfigError
    engine.agenda.request_cancel(entry, now)
    if entry.endpoint.asks_many and not entry.is_in_flight:
        engine.agenda.withdraw(entry)
        engine.adopt(entry.state, entry.endpoint, entry.owner).start = entry.start
    engine.wake()
    return True
