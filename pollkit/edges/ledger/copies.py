"""The part of the storage that copies ledgers; see storage.py."""

from typing import List, Sequence

from .records import CopiedDuration, CopiedJob, Minute


class Copies:
    """Whole jobs and statistics, to be copied to another storage; all in wall-clock time."""

    def read_jobs(self, after: int, count: int) -> List[CopiedJob]:
        """Up to `count` jobs whose keys are above `after`, in the order of their keys."""
        raise NotImplementedError

    def write_jobs(self, jobs: Sequence[CopiedJob]) -> int:
        """Add jobs as they are, without those that are there already; how many were added."""
        raise NotImplementedError

    def read_durations(self) -> List[CopiedDuration]:
        """All durations that are kept, the oldest first."""
        raise NotImplementedError

    def write_statistics(
        self, durations: Sequence[CopiedDuration], minutes: Sequence[Minute]
    ) -> bool:
        """Write statistics; False if there are some already, which then do not change."""
        raise NotImplementedError
