"""The jobs of a run that can't be polled, for example because their profile is missing."""

from typing import Callable, Dict, List, Optional, Set, Tuple

from ..edges.ledger.ledger import Ledger
from ..edges.ledger.records import LEASED, WAITING, Claim
from ..errors import ConfigError


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
        reason = (claim.job.profile, str(error))
        if reason not in self._reported:
            self._reported.add(reason)
            self._on_unpollable(self._message(claim, error))

    def _message(self, claim: Claim, error: ConfigError) -> str:
        from ..edges.profiles.catalog import UnknownProfile  # late: most runs need no message

        if not isinstance(error, UnknownProfile):
            return "%s: %s" % (claim.job.id, error)
        states = self._ledger.summary(profile=claim.job.profile).states
        jobs = states[WAITING] + states[LEASED]
        subject = claim.job.id if jobs <= 1 else "%d jobs" % jobs
        return "%s: %s, or name its file with --profiles FILE" % (subject, error)
