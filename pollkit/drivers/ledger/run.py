"""One run of a LedgerRunner: claims jobs, has them polled, and releases the rest at its end.

A run claims a portion of the due jobs, and the next portion when half of it has been polled, so
that several processes share the work. If a limit delays the portion for longer than a turn, the
run claims more anyway: there may be jobs of another API among them.
"""

from typing import Callable, List, Optional, Set

from ...core.units import NEVER
from ...edges.ledger.ledger import Ledger
from ...edges.ledger.records import Claim
from ...errors import ConfigError, LedgerError
from ..futures import ring
from .polling.leased_jobs import HORIZON_S, LeasedJobs
from .polling.unpollable_jobs import UnpollableJobs

PORTION = 50  # jobs claimed at once
TURN_S = 1.0  # the longest time between two checks for jobs that other processes have added
SHORT_TURN_S = 0.1  # the shortest time between two checks
SOON_S = 10.0  # run(once=True) releases jobs that a limit delays for longer
RECHECK_S = 15.0  # how often to check whether an unpollable job can be polled after all
MAINTAIN_S = 5.0  # how often to look for the leases of processes that were killed
LEAVE_S = 2.0  # how long to wait for exchanges in flight when time is up


def longest_request_s(duration_s: float) -> float:
    """How long a request may take in a run of this duration, so that it ends within the run.

    If every run abandoned its requests to a silent server, no job would ever end.
    """
    return duration_s + LEAVE_S / 2


class LedgerRun:
    """One run: claims jobs and waits for them. Leaving the `with` block releases the rest."""

    def __init__(
        self,
        ledger: Ledger,
        jobs: LeasedJobs,
        unpollable: UnpollableJobs,
        may_add_jobs: Callable[[], bool],
    ) -> None:
        self.jobs = jobs
        self.unpollable = unpollable
        self._storage = ledger._storage
        self._leases = ledger._leases
        self._may_add_jobs = may_add_jobs
        self._clock = ledger.clock
        self._claim_at = self._clock.now()  # claim again now, even if many jobs are unpolled
        self._maintain_at = self._claim_at

    def poll_until(self, until: float) -> None:
        """Poll until no job waits that can be polled, or until an instant."""
        jobs = self.jobs
        while True:
            self._maintain()
            jobs.renew()
            self._poll_probes()
            self._poll_nudged()
            claims = self._claim(HORIZON_S) if self._is_time_to_claim() else []
            unpollable = self._put_on_agenda(claims)
            is_idle = not jobs and not self._may_add_jobs()  # before the ledger is read
            now = self._clock.now()
            due_at = self._leases.next_due()
            is_nothing_left = is_idle and (due_at is None or self._only_unpollable_left())
            if is_nothing_left or now >= until:
                break
            next_claim_at = NEVER
            if due_at is not None and jobs.has_room:
                next_claim_at = self._next_claim_at(due_at)
            # If none of the claimed jobs can be polled, claim others at once.
            are_all_unpollable = claims and unpollable == len(claims)
            pause_s = 0.0 if are_all_unpollable else SHORT_TURN_S
            self._wait(min(until, max(next_claim_at, now + pause_s), now + TURN_S))
        self._leave()

    def poll_once(self) -> None:
        """Poll each job that is due now, once; release those that a limit delays for long."""
        jobs = self.jobs
        jobs.keeps_jobs = False
        polled: Set[int] = set()
        has_more = True  # the ledger may have more due jobs
        self._poll_probes()
        while has_more or jobs:
            self._maintain()
            jobs.renew()
            if has_more and self._is_time_to_claim():
                has_more = self._claim_unpolled(polled)
            if jobs and not self._is_held_back():
                # While polls are in flight, the bell rings when the result of one is written.
                is_polling = jobs.engine.agenda.in_flight > 0
                self._wait(self._clock.now() + (TURN_S if is_polling else SHORT_TURN_S))
            elif has_more and jobs.has_room:
                self._claim_at = self._clock.now()  # jobs of another API may not be held back
            elif jobs:
                jobs.engine.raise_error()  # an error may be the reason why nothing is polled
                has_more = False
                jobs.release_resting()
        jobs.engine.raise_error()  # it may have come after the last check

    def fail(self, error: LedgerError) -> None:
        """End the run with an error."""
        self.jobs.engine.fail(error)
        ring(self.jobs.bell)

    def __enter__(self) -> "LedgerRun":
        return self

    def __exit__(self, kind: Optional[type], *exc_info: object) -> None:
        """Stop polling; exchanges in flight are abandoned, and another run repeats them."""
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._storage.hurry()
        jobs = self.jobs
        engine = jobs.engine
        jobs.keeps_jobs = False
        jobs.fetches_results = False
        with engine.lock:
            engine.cancel_all()
        engine.stop(abandon=True)
        if kind is None:
            engine.raise_error()
        if engine.has_failed:
            jobs.submissions.stop()
            return  # the leases expire
        try:
            jobs.release_all(was_interrupted=kind is not None)
            self._leases.end_postponement(self.unpollable.claims)  # the next run checks them
        except LedgerError:
            if kind is None:
                raise

    # Claims

    def _is_time_to_claim(self) -> bool:
        self.jobs.engine.raise_error()
        has_enough = self.jobs.count_unpolled() > PORTION // 2
        return self.jobs.has_room and (not has_enough or self._clock.now() >= self._claim_at)

    def _claim(self, horizon_s: float) -> List[Claim]:
        """Claim a portion of the jobs that are due within `horizon_s`."""
        self._claim_at = self._clock.now() + TURN_S
        return self.jobs.claim(PORTION, horizon_s)

    def _poll_probes(self) -> None:
        """Poll one job of each origin that is down, if that is due."""
        self.jobs.refresh_outages()
        self._put_on_agenda(self.jobs.claim_probes(), are_probes=True)

    def _poll_nudged(self) -> None:
        """Poll the jobs that callbacks have named, if no other process has leased them."""
        claims = self.jobs.claim_nudged()
        if claims:
            self._put_on_agenda(claims)
            self.jobs.nudge({claim.job.id for claim in claims})

    def _next_claim_at(self, due_at: float) -> float:
        """When to claim again; `due_at` is the next job's instant, or the next probe's."""
        probe_at = self.jobs.outages.next_probe_at()
        if probe_at is not None and probe_at <= due_at:
            return due_at  # not `probe_at`: that outage may hold no job any more
        return due_at - HORIZON_S  # jobs that are due before were claimed

    def _claim_unpolled(self, polled: Set[int]) -> bool:
        """Claim jobs that this run has not polled; whether there may be more of them."""
        claims = self._claim(0.0)
        again = [claim for claim in claims if claim.key in polled]
        self._leases.release(again)  # they are due again, but this run has polled them
        new = [claim for claim in claims if claim.key not in polled]
        self._put_on_agenda(new)
        polled.update(claim.key for claim in new)
        return bool(new) and not again

    def _put_on_agenda(self, claims: List[Claim], are_probes: bool = False) -> int:
        """Poll these jobs; the number of those that can't be polled."""
        unpollable = []
        for claim in claims:
            try:
                self.jobs.put_on_agenda(claim, are_probes)
            except ConfigError as error:
                unpollable.append(claim)
                self.unpollable.add(claim, error)
        self.jobs.return_claims()
        self._leases.postpone(unpollable, HORIZON_S + RECHECK_S)  # the profile may be repaired
        return len(unpollable)

    def _maintain(self) -> None:
        now = self._clock.now()
        if now >= self._maintain_at:
            self._maintain_at = now + MAINTAIN_S
            self._storage.maintain()

    # Waiting

    def _only_unpollable_left(self) -> bool:
        return bool(self.unpollable.claims) and self._leases.has_only_postponed_jobs()

    def _is_held_back(self) -> bool:
        """Whether a limit holds all jobs back: none is being polled, nor will be soon."""
        engine = self.jobs.engine
        with engine.lock:
            is_polling = engine.agenda.in_flight > 0  # until the result is written
            is_due_soon = engine.agenda.next_at() <= self._clock.now() + SOON_S
            return len(engine.agenda) > 0 and not is_polling and not is_due_soon

    def _wait(self, until: float) -> None:
        """Wait until an instant, or until the bell rings."""
        self._clock.wait(self.jobs.bell, until)
        self.jobs.engine.raise_error()

    def _leave(self) -> None:
        """Release the jobs that are not being polled, and wait a little for the others."""
        self.jobs.keeps_jobs = False
        self.jobs.fetches_results = False
        self.jobs.release_resting(keeps_probes=True)
        until = self._clock.now() + LEAVE_S
        while self.jobs and (self._clock.now() < until or self.jobs.is_fetching_result()):
            self.jobs.renew()
            self._wait(max(until, self._clock.now() + TURN_S))
        self.jobs.submissions.join(self.jobs.renew)
        self.jobs.engine.raise_error()
