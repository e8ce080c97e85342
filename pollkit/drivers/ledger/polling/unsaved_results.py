"""Results that could not be written to their files, for example because the disk is full.

Their jobs are done, but stay in the ledger as waiting: the next polls try again, in this run or a
later one, until `result_timeout` (24 h) has passed.
"""

from typing import Callable, Dict, List, Set

from ....core.model import display_id
from ....core.waiting.ends.endings import SAVE_ERROR
from ....core.waiting.wait_settings import WaitSettings
from ....core.waiting.wait_state import WaitState

RETRY_S = 15.0  # how long to wait before the job is polled again


class UnsavedResults:
    """Collects these jobs, and calls `report` with a line for each new reason."""

    def __init__(self) -> None:
        self.report: Callable[[str], object] = lambda text: None
        self._reasons: Dict[str, str] = {}  # by job
        self._reported: Set[str] = set()

    @property
    def ids(self) -> List[str]:
        """The jobs whose results are not saved yet."""
        return list(self._reasons)

    def note_progress(self, state: WaitState) -> None:
        """Note that the last attempt to fetch a result met a problem with its file, if it did."""
        if state.done is not None and state.done.has_disk_fault:
            self._add(state, state.last_fault or "")

    def must_retry(self, state: WaitState, settings: WaitSettings, now: float) -> bool:
        """Whether a finished job has to be polled again, because its result was not saved."""
        ending = state.ending
        error = None if ending is None else ending.error
        give_up_at = settings.deadline(state.job, state.started_at) + settings.result_timeout
        was_fetched = state.done is not None  # then the machine has decided
        is_unsaved = error is not None and error.code == SAVE_ERROR
        if error is None or not is_unsaved or was_fetched or now >= give_up_at:
            self._reasons.pop(state.job.id, None)
            return False
        self._add(state, error.message)
        return True

    def _add(self, state: WaitState, reason: str) -> None:
        self._reasons[state.job.id] = reason
        if reason not in self._reported:
            self._reported.add(reason)
            self.report("%s: %s; it is tried again" % (display_id(state.job), reason))
