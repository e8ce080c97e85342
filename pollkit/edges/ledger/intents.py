"""The part of the storage for jobs that are still to be submitted; see storage.py."""

from ...core.submitting.intent import Intent
from .records import Claim
from .rows import NewJob


class Intents:
    """Jobs that are still to be submitted: see core/submitting/intent.py.

    They are among the jobs, under a name of our own, and are leased as all jobs are; their claims
    have the intent. The disk has what these methods write when they return: a power failure
    loses none of it.
    """

    def add(self, job: NewJob, intent: Intent, lease_s: float = 60.0) -> Claim:
        """Add a job that is to be submitted, and lease it to this process."""
        raise NotImplementedError

    def save(self, claim: Claim, intent: Intent, lease_s: float = 60.0) -> bool:
        """Save an intent and renew its lease; False if the lease was lost.

        Once it is released, the job is due at the intent's `next_at`.
        """
        raise NotImplementedError

    def save_submitted(self, claim: Claim, job: NewJob) -> bool:
        """Save the id and the URL that the server gave to a job, and remove its intent.

        The job counts as added now: its timeout begins. False if the lease was lost; a ConfigError
        if another job has this id.
        """
        raise NotImplementedError
