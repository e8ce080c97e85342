"""The jobs that this process has leased from a ledger: on the engine's agenda, or being polled.

A job that was polled leaves the agenda until its progress is written (result_writer.py). It comes
back if it is due soon; otherwise it is released, so that any process may claim it. A process that
is killed therefore repeats at most one poll per worker.

Jobs of an origin that is down go back to the ledger, which holds them until the outage ends; only a
job that was claimed as a probe is polled meanwhile.
"""

from typing import Callable, Dict, Iterable, List, Optional, Set, Tuple

from ....core.model import Counts, Outcome, State
from ....core.scheduling.lane import IS_NUDGED, Entry
from ....core.scheduling.outages import Outage
from ....core.scheduling.schedule import Step
from ....core.units import NEVER
from ....core.waiting.ends.cancelling import confirm_cancel, may_be_cancelled
from ....core.waiting.machine import nudge
from ....core.waiting.wait_settings import WaitSettings
from ....edges.ledger.ledger import Ledger
from ....edges.ledger.records import Claim, PollResult, new_token
from ...endpoints.client import Client
from ...engine.engine import Engine
from ...futures import new_bell, ring
from ...publisher import call_safely
from ..submissions import Submissions
from .durations import LedgerDurations
from .fault_counts import FaultCounts
from .leased_job import LEASE_S, LeasedJob
from .nudged_ids import NudgedIds
from .outages import LedgerOutages
from .result_writer import ResultWriter
from .unsaved_results import RETRY_S, UnsavedResults

# HORIZON_S < RENEW_S < LEASE_S / 2: most jobs need no renewal, and a late one loses no lease.
RENEW_S = LEASE_S / 3  # how often leases are renewed
HORIZON_S = LEASE_S / 4  # a job that is due sooner stays here; one that is due later is released
MAX_LEASED = 2000  # jobs leased at once


class LeasedJobs:
    """Leases jobs, and writes their progress and outcomes to the ledger; the sink of an Engine."""

    def __init__(
        self,
        ledger: Ledger,
        client: Client,
        workers: int,
        on_finished: Optional[Callable[[Outcome], object]],
        nudged: NudgedIds,
    ) -> None:
        self._nudged = nudged
        self._leases = ledger._leases
        self._client = client
        self._clock = ledger.clock
        self._on_finished = on_finished
        self.unsaved = UnsavedResults()
        self.engine = Engine(client, workers, self, writes_first=True)
        self.outages = LedgerOutages(ledger, self.engine, client.rng)
        self.bell = new_bell()  # rings when a job is no longer leased
        self.submissions = Submissions(
            ledger, self.engine, self.outages, self.bell, self._report_outcome
        )
        self.keeps_jobs = True  # whether a job that is due soon stays leased after a poll
        self.fetches_results = True  # whether a job that is done stays leased for its result
        self.finished: List[State] = []
        self._jobs: Dict[str, LeasedJob] = {}
        self._token = new_token()  # of the latest claim
        self._returned: List[Tuple[Optional[Outage], Claim]] = []  # claims whose origin is down
        self._renew_at = self._clock.now() + RENEW_S
        self._durations = LedgerDurations(ledger.statistics)
        self._writer = ResultWriter(ledger._leases)
        # Jobs to be released by the next `write`, each with the outage that holds it, if any.
        self._polled: List[Tuple[Optional[Outage], LeasedJob]] = []
        self._faults = FaultCounts(ledger.statistics, self.engine.lock)

    def __len__(self) -> int:
        return len(self._jobs) + len(self.submissions)

    @property
    def has_room(self) -> bool:
        """Whether more jobs may be leased."""
        return len(self) < MAX_LEASED

    def count_unpolled(self) -> int:
        """The number of leased jobs that were not polled yet."""
        return sum(not leased.was_polled for leased in list(self._jobs.values()))

    def is_fetching_result(self) -> bool:
        """Whether the result of a job is being fetched now, which may take long."""
        with self.engine.lock:
            return any(entry.is_in_flight and entry.state.done for entry in self.engine.agenda)

    def claim(self, most: int, horizon_s: float) -> List[Claim]:
        """Claim jobs that are due within `horizon_s`, as many as there is room for."""
        self._token = new_token()
        room = min(most, MAX_LEASED - len(self))
        due = self.submissions.take_due()
        return due + self._leases.claim(room, LEASE_S, horizon_s, self._token)

    def claim_probes(self) -> List[Claim]:
        """Claim a job of each origin that is down and whose next probe is due."""
        claims = []
        for outage in self.outages.due_probes():
            self._token = new_token()
            claim = self.outages.claim_probe(outage, LEASE_S, self._token)
            if claim is not None:
                claims.append(claim)
        return claims

    def claim_nudged(self) -> List[Claim]:
        """Nudge jobs; claim those that no process has leased, due or not."""
        ids = self._nudged.take(self._clock.now())
        others = self.nudge(ids) if ids else []
        if not others:
            return []
        self._token = new_token()
        claims = self._leases.claim_ids(others, LEASE_S, self._token)
        self._nudged.retry(set(others) - {claim.job.id for claim in claims})
        return claims

    def nudge(self, ids: Set[str]) -> List[str]:
        """Poll jobs now, because they may have finished; the ids that this process has not leased.

        Jobs whose server forbids it for long (Retry-After) are released.
        """
        others = []
        with self.engine.lock:
            now = self._clock.now()
            for job_id in ids:
                leased = self._jobs.get(job_id)
                if leased is None:
                    others.append(job_id)
                elif not self.engine.agenda.nudge(job_id, now):
                    leased.is_nudged = True
            self.engine.wake()
        self._release_entries(
            lambda entry: entry.state.next_at > now + HORIZON_S and not entry.owner[0].is_probe
        )
        return others

    def put_on_agenda(self, claim: Claim, is_probe: bool = False) -> None:
        """Poll a job that was claimed, or raise a ConfigError.

        If its origin is down, `return_claims` releases it again, unless it is a probe.
        """
        if claim.intent is not None:
            self.submissions.start(claim)
            return
        engine = self.engine
        job, url, endpoint = engine.admit(claim.job)
        self._durations.read_first(endpoint)
        now = self._clock.now()
        claim = claim._replace(job=job)
        state = claim.resume(url, endpoint.settings, now)
        is_late = state.deadline <= now  # it passed while no process ran: one poll is left
        origin = endpoint.polled_origin(state.next_url)
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
        self._give_back(self._returned)
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
        self._faults.write()
        for endpoint in self._client.list_endpoints():
            self._durations.read(endpoint)
        jobs = list(self._jobs.values())
        self._leases.renew(self.submissions.claims(), LEASE_S)
        renewed = self._leases.renew([leased.claim for leased in jobs], LEASE_S)
        keys = {claim.key for claim in renewed}
        with self.engine.lock:
            for leased in jobs:
                entry = self.engine.agenda.get(leased.claim.job.id)
                is_lost = leased.claim.key not in keys
                if is_lost and entry is not None and entry.owner[0] is leased:
                    self.engine.agenda.withdraw(entry)
                    self._drop(leased)

    def release_resting(self, keeps_probes: bool = False) -> None:
        """Release the jobs that are not being polled.

        With `keeps_probes`, jobs that were claimed as probes stay: they are polled at once, and to
        release one would keep all processes from probing until its lease ends.
        """
        self.submissions.release_resting()
        self._release_entries(lambda entry: not (keeps_probes and entry.owner[0].is_probe))

    def release_all(self, was_interrupted: bool) -> None:
        """Release all jobs that are not being submitted. Call after the engine has stopped."""
        self.submissions.release_resting()
        self._leases.release([leased.claim for leased in list(self._jobs.values())])
        is_submitting = any(claim.token == self._token for claim in self.submissions.claims())
        if was_interrupted and not is_submitting:  # perhaps between a claim and `put_on_agenda`
            self._leases.release_token(self._token)
        self._faults.write()

    def _release_entries(self, is_concerned: Callable[[Entry], bool]) -> None:
        """Release the jobs for which a condition holds, apart from those in flight."""
        agenda = self.engine.agenda
        with self.engine.lock:
            released = [entry for entry in agenda if not entry.is_in_flight and is_concerned(entry)]
            for entry in released:
                agenda.withdraw(entry)
                self._drop(entry.owner[0])
        self._leases.release([entry.owner[0].claim for entry in released])

    def _needs_probe(self, outage: Outage) -> bool:
        """Whether the ledger grants no more probes, and this process has no job for one."""
        leased_jobs = list(self._jobs.values())
        has_probe = any(each.is_probe and each.origin == outage.origin for each in leased_jobs)
        return not self.outages.holds_jobs(outage) and not has_probe

    def _give_back(self, claims: Iterable[Tuple[Optional[Outage], Claim]]) -> None:
        """Release jobs; those with an outage are held by it."""
        by_outage: Dict[Optional[Outage], List[Claim]] = {}
        for outage, claim in claims:
            by_outage.setdefault(outage, []).append(claim)
        self._leases.release(by_outage.pop(None, []))
        for outage, held in by_outage.items():
            if outage is not None:
                self.outages.return_jobs(outage, held)

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
            self.outages.return_jobs(outage, resting)
            ring(self.bell)

    def _drop(self, leased: LeasedJob) -> None:
        """Forget a lease, unless the job was leased again. Call with the lock held."""
        job_id = leased.claim.job.id
        if self._jobs.get(job_id) is leased:
            del self._jobs[job_id]

    def _drop_and_ring(self, leased: LeasedJob) -> None:
        with self.engine.lock:
            self._drop(leased)
            if leased.is_nudged:  # too late for this lease: claim the job again
                self._nudged.add(leased.claim.job.id)
        ring(self.bell)

    def _report_outcome(self, outcome: Outcome) -> None:
        self.finished.append(outcome.state)
        if self._on_finished is not None:
            call_safely(self._on_finished, outcome, "on_finished failed")

    # Called by the engine

    def learn(self, entry: Entry) -> None:
        """Do nothing: durations are read from the ledger."""

    def may_block(self, step: Step) -> bool:
        """True: every report is written to the ledger."""
        return True

    def on_progress(self, step: Step, counts: Counts) -> None:
        """Write the progress of a job; keep the job if it is due soon, otherwise release it."""
        self._faults.add(step, counts)
        leased: LeasedJob = step.entry.owner[0]
        leased.was_polled = True
        leased.is_probe = False
        leased.origin = step.entry.origin  # the reply may have led to another one
        state = step.after
        self.unsaved.note_progress(state)
        self._writer.add(
            PollResult(leased.claim, state, None, leased.url, leased.origin, counts),
            lambda is_ours: self._continue(step, is_ours),
            longest_wait_s=state.next_at - self._clock.now(),
        )

    def _continue(self, step: Step, is_ours: bool) -> None:
        """Keep or release a job whose progress was written."""
        leased: LeasedJob = step.entry.owner[0]
        state = step.after
        outage = self.outages.outage_of(leased.origin, step.entry.settings)
        with self.engine.lock:
            now = self._clock.now()
            is_nudged = step.entry.is_nudged or leased.is_nudged
            leased.is_nudged = False
            if is_nudged:
                state = nudge(state, now)
            is_soon = state.next_at <= now + HORIZON_S
            is_current = self._jobs.get(state.job.id) is leased
            is_result_due = state.done is not None and state.next_at <= now
            keeps_job = self.keeps_jobs or (self.fetches_results and is_result_due)
            # Without room, the jobs in the ledger take turns.
            can_keep = keeps_job and self.has_room and outage is None
            if is_ours and is_soon and is_current and can_keep:
                entry = self.engine.adopt(state, step.entry.endpoint, (leased,), step.entry.is_late)
                if is_nudged:
                    entry.marks |= IS_NUDGED
                self.engine.wake()
                return
        if is_ours:
            self._polled.append((outage, leased))
        else:
            self._drop_and_ring(leased)

    def on_finished(self, step: Step, counts: Counts) -> None:
        """Write the outcome of a job."""
        self._faults.add(step, counts)
        leased: LeasedJob = step.entry.owner[0]
        leased.was_polled = True
        claim = leased.claim
        state = self._client.save_result(step.after)
        if may_be_cancelled(state) and self._leases.is_cancel_requested(claim):
            state = confirm_cancel(state)
        outcome = self._client.outcome(state)
        if outcome.state is State.CANCELLED and step.after.polls == step.before.polls:
            self._polled.append((None, leased))  # this process stops: another continues
        elif self.unsaved.must_retry(state, step.entry.settings, self._clock.now()):
            self._leases.postpone([claim], RETRY_S)
            self._drop_and_ring(leased)
        else:
            self._writer.add(
                PollResult(claim, state, outcome, "", leased.origin, counts),
                lambda is_ours: self._end(leased, outcome, is_ours),
                longest_wait_s=NEVER,
            )

    def _end(self, leased: LeasedJob, outcome: Outcome, is_ours: bool) -> None:
        """Report an outcome that was written."""
        if is_ours:
            self._report_outcome(outcome)
        self._drop_and_ring(leased)

    def write(self, can_wait: bool) -> Optional[float]:
        """Write the results of polls, unless they can wait; after how many seconds they can't."""
        wait_s = self._writer.write(can_wait)
        if wait_s is not None:
            return wait_s
        polled = self._polled
        self._polled = []
        self._give_back((outage, leased.claim) for outage, leased in polled)
        for _, leased in polled:
            self._drop_and_ring(leased)
        return None

    def on_outage(self, outage: Outage, settings: WaitSettings) -> None:
        """Write a change of an outage to the ledger, for the other processes."""
        self.write(can_wait=False)  # the polls that led to it come first
        if outage.ended_at is not None:
            self.outages.end(outage.origin)
            ring(self.bell)
        elif outage.failed_probes:
            self.outages.fail_probe(outage)
        elif settings.outlasts_outages:
            self._hold_resting(self.outages.begin(outage))
