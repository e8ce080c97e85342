"""The engine's reports, as a batch receives them."""

from ..core.model import Counts
from ..core.scheduling.lane import Entry
from ..core.scheduling.outages import Outage
from ..core.scheduling.schedule import Step
from ..core.waiting.wait_settings import WaitSettings
from .endpoints.client import Client


class BatchSink:
    """Receives the engine's reports for a batch."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def learn(self, entry: Entry) -> None:
        """Add the duration of a finished job to the history."""
        self._client.end_wait(entry.start, entry.endpoint, entry.state)

    def may_block(self, step: Step) -> bool:
        """Whether reporting this step calls code of the user's."""
        is_finished = step.after.ending is not None
        if is_finished and self._client.saves_results:
            return True  # it writes a file
        return is_finished and any(owner.runs_callbacks for owner in step.entry.owner)

    def on_progress(self, step: Step, counts: Counts) -> None:
        """Do nothing: the job stays on the agenda."""

    def on_finished(self, step: Step, counts: Counts) -> None:
        """Deliver an outcome to all owners of the job."""
        outcome = self._client.outcome(self._client.save_result(step.after))
        for owner in step.entry.owner:
            owner.deliver(step.after.job, outcome)

    def on_outage(self, outage: Outage, settings: WaitSettings) -> None:
        """Do nothing: the agenda knows it."""
