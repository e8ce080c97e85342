"""When the jobs of a ledger time out, according to this host's profiles.

A wait knows its deadline once it has been polled. Before that, it follows from the job's own
timeout, the timeout of its profile or the 24 hours of a ledger. `pollkit run --timeout` may change
it for jobs that have no timeout of their own.
"""

import time
from typing import Dict, Optional, Sequence, Tuple

from ...core.model import Job
from ...core.profiles.profile import Profile, profile_for_job
from ...core.units import NEVER, duration_text
from ...core.waiting.wait_settings import LEDGER_DEFAULTS, WaitSettings, profile_timeout
from ...errors import ConfigError

Kind = Tuple[Optional[str], Optional[str], Optional[float]]  # profile, label and size of jobs


class Deadlines:
    """Computes the deadlines of jobs; `profiles` is an INI file with more profiles."""

    def __init__(self, profiles: Optional[str] = None) -> None:
        self._file = profiles
        self._profiles: Dict[Optional[str], Profile] = {None: Profile()}
        self._settings: Dict[Kind, WaitSettings] = {}

    def deadline(self, job: Job, added_at: float) -> float:
        """When a job times out that was added at this instant; NEVER if it has no timeout."""
        kind = (job.profile, job.label, job.size)
        settings = self._settings.get(kind)
        if settings is None:
            timeout = profile_timeout(self._profile(job), LEDGER_DEFAULTS)
            settings = self._settings[kind] = WaitSettings(timeout=timeout)
        return settings.deadline(job, added_at)

    def _profile(self, job: Job) -> Profile:
        """The profile of a job; one without a timeout if this host has none of that name."""
        try:
            if job.profile not in self._profiles:
                from ...edges.profiles.catalog import find_profile  # late: it reads INI files

                self._profiles[job.profile] = find_profile(job.profile or "", self._file)
            return profile_for_job(self._profiles[job.profile], job.label, job.size)
        except ConfigError:
            return Profile()


def time_text(at: float) -> str:
    """A wall-clock instant, to the minute.

    >>> time_text(1800000000.0)
    '2027-01-15 08:00 UTC'
    """
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))


def deadlines_text(deadlines: Sequence[float], added_at: float) -> str:
    """When jobs time out that were added at this instant, as a part of a sentence.

    >>> deadlines_text([1800000000.0, 1800000000.0], 1799996400.0)
    'they time out at 2027-01-15 08:00 UTC (1h) unless done'
    """
    limited = [deadline for deadline in deadlines if deadline < NEVER]
    if not limited:
        return "%s no timeout" % ("it has" if len(deadlines) == 1 else "they have")
    texts = [
        "%s (%s)" % (time_text(deadline), duration_text(deadline - added_at))
        for deadline in (min(limited), max(limited))
    ]
    when = "at " + texts[0]
    if texts[0] != texts[1]:
        when = "between %s and %s" % (texts[0], texts[1])
    verb = "times out" if len(limited) == 1 else "time out"
    subject = "it" if len(deadlines) == 1 else "they"
    if len(limited) < len(deadlines):
        subject = "%d of them" % len(limited)
    return "%s %s %s unless done" % (subject, verb, when)
