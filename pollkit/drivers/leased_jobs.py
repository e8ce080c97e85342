"""The jobs that this process has leased from a ledger: on the engine's agenda, or being polled.

A job that was polled leaves the agenda until its progress is written. It comes back if it is due
soon; otherwise it is released, so that any process may claim it. A process that is killed
therefore repeats at most one poll per worker.

Jobs of an origin that is down go back to the ledger, which holds them until the outage ends; only a
job that was claimed as a probe is polled meanwhile.
"""

from typing import Callable, Dict, List, Optional, Tuple

from ..core.lane import Entry
from ..core.learning.durations import Durations
from ..core.machine import nudge
from ..core.model import Counts, Outcome, State
from ..core.outages import Outage
from ..core.schedule import Step
from ..core.wait_settings import WaitSettings
from ..edges.ledger.ledger import Ledger
from ..edges.ledger.records import Claim, new_token
from .client import Client
from .endpoint import Endpoint
from .engine import Engine
from .futures import new_bell, ring
from .ledger_outages import LedgerOutages
from .publisher import call_safely

# HORIZON_S < RENEW_S < LEASE_S / 2: most jobs need no renewal, and a late one loses no lease.
LEASE_S = 60.0  # how long a job stays leased by a process that was killed
RENEW_S = 20.0  # how often leases are renewed
HORIZON_S = 15.0  # a job that is due sooner stays here; one that is due later is released
MAX_LEASED = 2000  # jobs leased at once
LONG_OUTAGE_S = 60.0  # how often jobs are claimed that an outage of over a day no longer holds


class LeasedJob:
    """A job that this process has leased."""

    __slots__ = ("claim", "origin", "url", "is_probe", "was_polled")

    def __init__(self, claim: Claim, url: str, origin: str, is_probe: bool) -> None:
        self.claim = claim
        self.url = url
        self.origin = origin
        self.is_probe = is_probe  # it is polled although its origin is down
        self.was_polled = False


class LeasedJobs:
    """Leases jobs, and writes their progress and outcomes to the ledger; the sink of an Engine."""

    def __init__(
        self,
        ledger: Ledger,
        client: Client,
        workers: int,
        on_finished: Optional[Callable[[Outcome], object]],
    ) -> None:
        self._leases = ledger._leases
        self._statistics = ledger.statistics
        self._client = client
        self._clock = ledger.clock
        self._on_finished = on_finished
        self.engine = Engine(client, workers, self, writes_first=True)
        self.outages = LedgerOutages(ledger, self.engine, client.rng)
        self.bell = new_bell()  # rings when a job is no longer leased
        self.keeps_jobs = True  # whether a job that is due soon stays leased after a poll
        self.finished: List[State] = []
        self._jobs: Dict[str, LeasedJob] = {}
        self._token = new_token()  # of the latest claim
        self._returned: List[Tuple[Outage, Claim]] = []  # claims whose origin is down
        self._renew_at = self._clock.now() + RENEW_S
        self._durations: Dict[Durations, List[Tuple[float, float]]] = {}  # as last read

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def has_room(self) -> bool:
        """Whether more jobs may be leased."""
        return len(self._jobs) < MAX_LEASED

    def count_unpolled(self) -> int:
        """The number of leased jobs that were not polled yet."""
        return sum(not leased.was_polled for leased in list(self._jobs.values()))

    def claim(self, most: int, horizon_s: float) -> List[Claim]:
        """Claim jobs that are due within `horizon_s`, as many as there is room for."""
        self._token = new_token()
        room = min(most, MAX_LEASED - len(self._jobs))
        return self._leases.claim(room, LEASE_S, horizon_s, self._token)

    def claim_probes(self) -> List[Claim]:
        """Claim a job of each origin that is down and whose next probe is due."""
        claims = []
        for outage in self.outages.due_probes():
            self._token = new_token()
            claim = self.outages.claim_probe(outage, LEASE_S, self._token)
            if claim is not None:
                claims.append(claim)
        return claims

    def put_on_agenda(self, claim: Claim, is_probe: bool = False) -> None:
        """Poll a job that was claimed, or raise a ConfigError.

        If its origin is down, `return_claims` releases it again, unless it is a probe.
        """
        engine = self.engine
        job, url, endpoint = engine.admit(claim.job)
        durations = endpoint.settings.durations
        if durations is not None and durations not in self._durations:
            self._read_durations(endpoint)
        now = self._clock.now()
        claim = claim._replace(job=job)
        state = claim.resume(url, endpoint.settings, now)
        is_late = state.deadline <= now  # it passed while no process ran: one poll is left
        origin = endpoint.polled_origin(state.url)
        if is_probe and claim.origin != origin:
            self.outages.end(claim.origin or origin)  # the profile has another URL by now
        outage = self.outages.outage_of(origin, endpoint.settings)
        if outage is not None and not is_probe:
            must_end = is_late and not self.outages.holds_jobs(outage)
            if not must_end and not self._needs_probe(outage):
                self._returned.append((outage, claim))
                return
            is_probe = True
            is_late = False  # no final poll: the agenda ends the wait
        if is_probe:
            state = nudge(state, now)  # the outage sets the pace, not the faults of this job
        leased = LeasedJob(claim, url, origin, is_probe)
        with engine.lock:
            known = engine.agenda.get(job.id)
            if known is not None:
                # Its lease expired unnoticed (a laptop that slept), or the job was added again.
                engine.agenda.withdraw(known)
            self._jobs[job.id] = leased
            engine.adopt(state, endpoint, (leased,), is_late=is_late)
            engine.wake()

    def return_claims(self) -> None:
        """Release the claims that `put_on_agenda` refused because their origin is down."""
        by_outage: Dict[Outage, List[Claim]] = {}
        for outage, claim in self._returned:
            by_outage.setdefault(outage, []).append(claim)
        for outage, claims in by_outage.items():
            self._return_to_outage(outage, claims)
        self._returned = []

    def refresh_outages(self) -> None:
        """Read the outages that other processes have found; release the jobs concerned."""
        for outage in self.outages.refresh():
            self._hold_resting(outage)

    def renew(self) -> None:
        """Renew the leases every RENEW_S; drop the jobs that another process has claimed."""
        now = self._clock.now()
        if now < self._renew_at:
            return
        self._renew_at = now + RENEW_S
        for endpoint in self._client.list_endpoints():
            self._read_durations(endpoint)
        jobs = list(self._jobs.values())
        renewed = self._leases.renew([leased.claim for leased in jobs], LEASE_S)
        keys = {claim.key for claim in renewed}
        with self.engine.lock:
            for leased in jobs:
                entry = self.engine.agenda.get(leased.claim.job.id)
                is_lost = leased.claim.key not in keys
                if is_lost and entry is not None and entry.owner[0] is leased:
                    self.engine.agenda.withdraw(entry)
                    self._drop(leased)

    def release_resting(self) -> None:
        """Release the jobs that are not being polled."""
        engine = self.engine
        with engine.lock:
            resting = [entry for entry in engine.agenda if not entry.is_in_flight]
            for entry in resting:
                engine.agenda.withdraw(entry)
                self._drop(entry.owner[0])
        self._leases.release([entry.owner[0].claim for entry in resting])

    def release_all(self, was_interrupted: bool) -> None:
        """Release all jobs. Call after the engine has stopped."""
        self._leases.release([leased.claim for leased in list(self._jobs.values())])
        if was_interrupted:  # perhaps between a claim and `put_on_agenda`
            self._leases.release_token(self._token)

    def _needs_probe(self, outage: Outage) -> bool:
        """Whether the ledger grants no more probes, and this process has no job for one."""
        leased_jobs = list(self._jobs.values())
        has_probe = any(each.is_probe and each.origin == outage.origin for each in leased_jobs)
        return not self.outages.holds_jobs(outage) and not has_probe

    def _return_to_outage(self, outage: Outage, claims: List[Claim]) -> None:
        """Release jobs whose origin is down."""
        if self.outages.holds_jobs(outage):
            self.outages.hold(outage, claims)
        else:
            self._leases.postpone(claims, LONG_OUTAGE_S)

    def _hold_resting(self, outage: Outage) -> None:
        """Release the jobs of an origin that is down, apart from those in flight and probes."""
        agenda = self.engine.agenda
        resting = []
        with self.engine.lock:
            for entry in list(agenda):
                leased: LeasedJob = entry.owner[0]
                is_concerned = entry.origin == outage.origin and entry.settings.outlasts_outages
                is_resting = not entry.is_in_flight and not leased.is_probe
                if is_concerned and is_resting:
                    agenda.withdraw(entry)
                    self._drop(leased)
                    resting.append(leased.claim)
        if resting:
            self._return_to_outage(outage, resting)
            ring(self.bell)

    def _read_durations(self, endpoint: Endpoint) -> None:
        """Read from the ledger the durations that all processes have recorded."""
        durations = endpoint.settings.durations
        if durations is None:
            return
        recorded = self._statistics.durations(endpoint.profile.name, endpoint.kind.label)
        if recorded != self._durations.get(durations):
            self._durations[durations] = recorded
            durations.relearn(recorded)

    def _drop(self, leased: LeasedJob) -> None:
        """Forget a lease, unless the job was leased again. Call with the lock held."""
        job_id = leased.claim.job.id
        if self._jobs.get(job_id) is leased:
            del self._jobs[job_id]

    def _drop_and_ring(self, leased: LeasedJob) -> None:
        with self.engine.lock:
            self._drop(leased)
        ring(self.bell)

    # Called by the engine

    def learn(self, entry: Entry) -> None:
        """Do nothing: durations are read from the ledger."""

    def may_block(self, step: Step) -> bool:
        """True: every report is written to the ledger."""
        return True

    def on_progress(self, step: Step, counts: Counts) -> None:
        """Write the progress of a job; keep the job if it is due soon, otherwise release it."""
        leased: LeasedJob = step.entry.owner[0]
        leased.was_polled = True
        leased.is_probe = False
        leased.origin = step.entry.origin  # the reply may have led to another one
        state = step.after
        is_ours = self._leases.save_progress(
            leased.claim, state, url=leased.url, origin=leased.origin, counts=counts
        )
        engine = self.engine
        outage = self.outages.outage_of(leased.origin, step.entry.settings)
        with engine.lock:
            is_soon = state.next_at <= self._clock.now() + HORIZON_S
            is_current = self._jobs.get(state.job.id) is leased
            # Without room, the jobs in the ledger take turns.
            can_keep = self.keeps_jobs and self.has_room and outage is None
            if is_ours and is_soon and is_current and can_keep:
                engine.adopt(state, step.entry.endpoint, (leased,), step.entry.is_late)
                engine.wake()
                return
        if is_ours and outage is not None:
            self._return_to_outage(outage, [leased.claim])
        elif is_ours:
            self._leases.release([leased.claim])
        self._drop_and_ring(leased)

    def on_finished(self, step: Step, counts: Counts) -> None:
        """Write the outcome of a job."""
        leased: LeasedJob = step.entry.owner[0]
        leased.was_polled = True
        outcome = self._client.outcome(step.after)
        if outcome.state is State.CANCELLED:  # by this process, which stops: another continues
            self._leases.release([leased.claim])
        elif self._leases.save_outcome(
            leased.claim, step.after, outcome, origin=leased.origin, counts=counts
        ):
            self.finished.append(outcome.state)
            if self._on_finished is not None:
                call_safely(self._on_finished, outcome, "on_finished failed")
        self._drop_and_ring(leased)

    def on_outage(self, outage: Outage, settings: WaitSettings) -> None:
        """Write a change of an outage to the ledger, for the other processes."""
        if outage.ended_at is not None:
            self.outages.end(outage.origin)
            ring(self.bell)
        elif outage.failed_probes:
            self.outages.fail_probe(outage)
        elif settings.outlasts_outages:
            self._hold_resting(self.outages.begin(outage))
