"""The jobs of a run that can't be polled, for example because their profile is missing."""

from typing import Callable, Dict, List, Optional, Set, Tuple

from ....edges.ledger.ledger import Ledger
from ....edges.ledger.records import LEASED, WAITING, Claim
from ....errors import ConfigError
from ...publisher import logger


class UnpollableJobs:
    """Collects these jobs, and calls `on_unpollable` with a message once for each reason."""

    def __init__(self, ledger: Ledger, on_unpollable: Callable[[str], object]) -> None:
        self._ledger = ledger
        self._on_unpollable = on_unpollable
        self._by_key: Dict[int, Claim] = {}
        self._reported: Set[Tuple[Optional[str], str]] = set()  # profiles and reasons

    @property
    def claims(self) -> List[Claim]:
        """The jobs so far."""
        return list(self._by_key.values())

    def add(self, claim: Claim, error: ConfigError) -> None:
        """Add a job; report the reason if it is new."""
        self._by_key[claim.key] = claim
        profile = claim.job.profile
        reason = (profile, str(error))
        if reason in self._reported:
            return
        self._reported.add(reason)
        jobs = 1
        if is_unknown_profile(error):
            states = self._ledger.summary(profile=profile).states
            jobs = states[WAITING] + states[LEASED]
        self._on_unpollable(unpollable_text(claim.job.id, jobs, error))


def unpollable_text(job_id: str, jobs: int, error: ConfigError) -> str:
    """Why some jobs can't be polled; `job_id` is the first of them."""
    subject = job_id if jobs <= 1 else "%d jobs" % jobs
    remedy = ", or name its file with --profiles FILE" if is_unknown_profile(error) else ""
    return "%s: %s%s" % (subject, error, remedy)


def log_unpollable(text: str) -> None:
    """Log why jobs can't be polled."""
    logger().warning("can't poll %s", text)


def is_unknown_profile(error: ConfigError) -> bool:
    """Whether the profile of a job is missing."""
    from ....edges.profiles.catalog import UnknownProfile  # late: most runs have no such error

    return isinstance(error, UnknownProfile)
