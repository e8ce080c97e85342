"""Leases and Intents: claims on waiting jobs, and on jobs to submit; two parts of a Storage."""

from abc import ABC, abstractmethod
from typing import Iterable, List, Optional, Sequence

from ...core.model import NOTHING_COUNTED, Counts, Outcome
from ...core.submitting.intent import Intent
from ...core.waiting.wait_state import WaitState
from ...errors import ConfigError
from .records import Claim, PollResult
from .rows import NewJob

LONGEST_LEASE_S = 600.0  # a longer one would hold back the jobs of a killed process for too long


def check_claim(count: int, lease_s: float) -> None:
    """Raise a ConfigError if jobs can't be claimed like this."""
    if count < 0:
        raise ConfigError("%r jobs can't be claimed" % (count,))
    if not 0 < lease_s <= LONGEST_LEASE_S:
        raise ConfigError("a lease is for up to %.0f s, not %r" % (LONGEST_LEASE_S, lease_s))


class Leases(ABC):
    """Claims on waiting jobs."""

    # How long the results of polls may wait for others, so that one `save` writes them together.
    longest_delay_s = 0.0

    @abstractmethod
    def next_due(self) -> Optional[float]:
        """When the next job or probe can be claimed; None if no job waits."""

    @abstractmethod
    def claim(
        self, count: int, lease_s: float = 60.0, horizon_s: float = 0.0, token: Optional[str] = None
    ) -> List[Claim]:
        """Lease up to `count` jobs that are due within `horizon_s`, the earliest first.

        Jobs whose recorded origin is down are not among them (see Outages). A caller that a signal
        may interrupt passes a `new_token()`, and can `release_token` it.
        """

    @abstractmethod
    def claim_ids(
        self, ids: Sequence[str], lease_s: float = 60.0, token: Optional[str] = None
    ) -> List[Claim]:
        """Lease those of these jobs that wait and that no process has leased, due or not."""

    @abstractmethod
    def save(self, results: Sequence[PollResult]) -> List[bool]:
        """Save the results of polls; for each, whether the lease was still valid.

        If it was not, only the counts were saved. Each result is saved completely or not at all.
        """

    def save_progress(
        self,
        claim: Claim,
        state: WaitState,
        *,
        url: str = "",
        origin: Optional[str] = None,
        counts: Counts = NOTHING_COUNTED,
    ) -> bool:
        """Save the progress of one wait; see `save`."""
        return self.save([PollResult(claim, state, None, url, origin, counts)])[0]

    def save_outcome(
        self,
        claim: Claim,
        state: WaitState,
        outcome: Outcome,
        *,
        origin: Optional[str] = None,
        counts: Counts = NOTHING_COUNTED,
    ) -> bool:
        """Save the outcome of one job; see `save`."""
        return self.save([PollResult(claim, state, outcome, "", origin, counts)])[0]

    @abstractmethod
    def is_cancel_requested(self, claim: Claim) -> bool:
        """Whether the API was asked to cancel a job, perhaps since it was claimed."""

    @abstractmethod
    def renew(self, claims: Sequence[Claim], lease_s: float) -> List[Claim]:
        """Extend leases; the claims that are still valid."""

    @abstractmethod
    def release(self, claims: Sequence[Claim]) -> None:
        """Let any process claim these jobs once they are due, with the progress last saved."""

    @abstractmethod
    def release_token(self, token: str) -> None:
        """Release all jobs that were claimed with this token."""

    @abstractmethod
    def postpone(self, claims: Sequence[Claim], for_s: float) -> None:
        """Release jobs that can't be polled, so that no process claims them for a while."""

    @abstractmethod
    def end_postponement(self, claims: Iterable[Claim]) -> None:
        """Let postponed jobs be claimed again, after all jobs that are due by now."""

    @abstractmethod
    def has_only_postponed_jobs(self) -> bool:
        """Whether no job waits, apart from those that are postponed; held jobs do wait."""


class Intents(ABC):
    """Jobs that are still to be submitted: see core/submitting/intent.py.

    They are among the jobs, under a name of our own, and are leased as all jobs are; their claims
    have the intent. The disk has what these methods write when they return: a power failure
    loses none of it.
    """

    @abstractmethod
    def add(self, job: NewJob, intent: Intent, lease_s: float = 60.0) -> Claim:
        """Add a job that is to be submitted, and lease it to this process."""

    @abstractmethod
    def save(self, claim: Claim, intent: Intent, lease_s: float = 60.0) -> bool:
        """Save an intent and renew its lease; False if the lease was lost.

        Once it is released, the job is due at the intent's `next_at`.
        """

    @abstractmethod
    def save_submitted(self, claim: Claim, job: NewJob) -> bool:
        """Save the id and the URL that the server gave to a job, and remove its intent.

        The job counts as added now: its timeout begins. False if the lease was lost; a ConfigError
        if another job has this id.
        """
