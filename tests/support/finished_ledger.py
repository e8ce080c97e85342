"""A ledger whose jobs have finished."""

from pollkit import Job, Ledger, Profile
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.waiting.machine import observe, start
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.testing import VirtualClock


def make_ledger(path, jobs):
    """A ledger of finished jobs, each given as (profile, label, last reading, seconds).

    The seconds are those between the poll that saw it pending and the last one.
    """
    clock = VirtualClock()
    with Ledger(str(path), clock=clock) as ledger:
        for i, (profile, label, reading, later) in enumerate(jobs):
            ledger.add([Job("job_%d" % i, profile=profile, label=label)])
            (claim,) = ledger._leases.claim(1)
            settings = WaitSettings()
            progress = observe(
                start(claim.job, "", settings, clock.now()),
                settings,
                Reading(Verdict.PENDING, "running"),
                clock.now(),
                0.5,
            )
            clock.sleep_until(clock.now() + later)
            progress = observe(progress, settings, reading, clock.now(), 0.5)
            ledger._leases.save_outcome(claim, progress, progress.outcome(Profile(), 0.0))
    return "ledger:%s" % path
