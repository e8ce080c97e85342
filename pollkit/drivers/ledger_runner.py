"""Runs of a ledger: jobs that are due are claimed, polled, and written down before the next poll.

The runner owns an Engine, as BatchPoller does. A job enters the engine's agenda by a claim and
leaves it with each poll. Once its progress is written it comes back if it is due soon; otherwise
it is released, so that any process may claim it. A process that is killed therefore repeats at
most one poll per worker.

The runner claims a portion of the due jobs, and the next portion when half of it has been
polled, so that several processes share the work. If a limit holds the portion back for longer
than a turn, it claims more all the same: jobs of another API may be among them.
"""

from typing import Any, Callable, Dict, List, Mapping, Optional, Set, Tuple, Union

from ..core.agenda import Step
from ..core.lane import Entry
from ..core.learning.durations import Durations
from ..core.model import Counts, Outcome, State
from ..core.pace import Pace
from ..core.profile import Profile, validate_count
from ..core.units import NEVER
from ..core.wait_settings import LEDGER_DEFAULTS
from ..core.wait_state import WaitState
from ..edges.history_file import History
from ..edges.ledger.leases import Claim, new_token
from ..edges.ledger.ledger import Ledger
from ..edges.limits.token_bucket import TokenBucket
from ..errors import ConfigError, LedgerError
from .client import Client, Default, OnEvent, Timeout, validate_bucket
from .engine import Engine
from .exchanges import Way
from .futures import call, new_bell, ring

LEASE_S = 60.0  # how long a job stays with a process that was killed
RENEW_S = 20.0  # how often leases are renewed
HORIZON_S = 15.0  # a job that is due sooner stays here; one that is due later is released
MAX_HELD = 2000  # jobs held at once
PORTION = 50  # jobs claimed at once
TURN_S = 1.0  # how often, at least, to look for jobs that others have added
SHORT_TURN_S = 0.1  # the same while nothing is being polled
SOON_S = 10.0  # `once` does not wait for jobs that a limit holds back for longer
RECHECK_S = 15.0  # how often to check whether an unpollable job can be polled after all
LEAVE_S = 2.0  # how long to wait for exchanges in flight when time is up


class _Held:
    """A job that this process has leased."""

    __slots__ = ("claim", "url", "was_polled", "is_late")

    def __init__(self, claim: Claim, url: str, is_late: bool) -> None:
        self.claim = claim
        self.url = url
        self.was_polled = False
        self.is_late = is_late  # its deadline passed while nothing ran: the next poll is its last


class LedgerRunner:
    """Polls the jobs of a ledger; any number of runners may run at once, in any processes.

    `on_trouble(text)` is called for jobs that can't be polled, for example because their profile
    is gone. `on_end(outcome)` is called, in a thread of the runner, once an outcome is written.
    """

    def __init__(
        self,
        ledger: Ledger,
        on_trouble: Callable[[str], object],
        on_end: Optional[Callable[[Outcome], object]] = None,
        *,
        profile: Union[Profile, str, None] = None,
        pace: Union[Pace, str, None] = None,
        bucket: Optional[TokenBucket] = None,
        workers: int = 8,
        timeout: Timeout = Default.AS_PROFILE,
        headers: Optional[Mapping[str, str]] = None,
        max_faults: Optional[int] = None,
        on_event: Optional[OnEvent] = None,
        rng: Optional[Callable[[], float]] = None,
        profiles: Optional[str] = None,
        history: Optional[History] = None,
    ) -> None:
        validate_count("workers", workers)
        self._leases = ledger._leases
        self._statistics = ledger.statistics
        self._on_trouble = on_trouble
        self._clock = ledger.clock
        self._client = Client(
            profile,
            pace,
            timeout,
            headers,
            max_faults,
            on_event,
            ledger.clock,
            rng,
            profiles,
            history,
            LEDGER_DEFAULTS,
        )
        bucket = None if bucket is None else validate_bucket(bucket)
        self._held: Dict[str, _Held] = {}
        self._bell = new_bell()
        sink = _Sink(ledger, self._client, self._held, self._bell, on_end)
        self._engine = Engine(self._client, workers, sink, bucket, writes_first=True)
        sink.engine = self._engine
        self._sink = sink
        self._claim_at = self._clock.now()
        self._renew_at = self._clock.now() + RENEW_S
        self._unpollable: Dict[int, Claim] = {}  # each is reported once
        self._token = new_token()  # of the latest claim
        self._known: Dict[Durations, List[Tuple[float, float]]] = {}  # durations last learned

    @property
    def stats(self) -> Counts:
        """What has been polled so far."""
        return self._engine.stats

    @property
    def ended(self) -> List[State]:
        """How jobs ended in this run."""
        return self._sink.ended

    @property
    def has_trouble(self) -> bool:
        """Whether there were jobs that can't be polled."""
        return bool(self._unpollable)

    def wake(self) -> None:
        """Something may have changed: look at the ledger again."""
        ring(self._bell)

    def fail(self, error: LedgerError) -> None:
        """End the run with an error: the ledger can't be used any more."""
        self._engine.fail(error)
        ring(self._bell)

    # Runs

    def until_none_waits(
        self, for_s: Optional[float] = None, may_add: Callable[[], bool] = lambda: False
    ) -> None:
        """Poll until no job waits that can be polled, for `for_s` seconds at most.

        `may_add` says whether somebody in this process may still add jobs; call `wake` when that
        changes.
        """
        until = NEVER if for_s is None else self._clock.now() + for_s
        while True:
            self._renew()
            claims = self._claim(HORIZON_S) or []
            unpollable = self._take_all_in(claims)
            is_idle = not self._held and not may_add()
            now = self._clock.now()
            due_at = self._leases.next_due()
            nothing_left = is_idle and (due_at is None or self._only_unpollable_left())
            if nothing_left or now >= until:
                break
            # A job that is due within the horizon was claimed, unless there was no room for it.
            has_room = len(self._held) < MAX_HELD
            next_at = due_at - HORIZON_S if due_at is not None and has_room else NEVER
            # If none of the claimed jobs can be polled, claim others at once.
            pause_s = 0.0 if claims and unpollable == len(claims) else SHORT_TURN_S
            self._wait(min(until, max(next_at, now + pause_s), now + TURN_S))
        self._leave()

    def once(self) -> None:
        """Poll each job that is due now, once; leave those that a limit holds back for long."""
        self._sink.keeps_jobs = False
        polled: Set[int] = set()
        has_more = True
        while has_more or self._held:
            self._renew()
            if has_more:
                has_more = self._claim_new(polled)
            if self._held and not self._is_held_back():
                # While polls are in flight, the bell rings when one has been written down.
                is_polling = self._engine.agenda.in_flight > 0
                self._wait(self._clock.now() + (TURN_S if is_polling else SHORT_TURN_S))
            elif has_more and len(self._held) < MAX_HELD:
                self._claim_at = self._clock.now()  # jobs of another API may not be held back
            elif self._held:
                self._engine.raise_error()  # or that may be why nothing is polled
                has_more = False
                self._release_resting()
        self._engine.raise_error()  # it may have come after the last check

    def _claim_new(self, polled: Set[int]) -> bool:
        """Claim jobs that were not polled yet in this run; whether there may be more."""
        claims = self._claim(0.0)
        if claims is None:
            return True
        again = [claim for claim in claims if claim.key in polled]  # due again: another time
        self._leases.release(again)
        new = [claim for claim in claims if claim.key not in polled]
        self._take_all_in(new)
        polled.update(claim.key for claim in new)
        return bool(new) and not again

    def _only_unpollable_left(self) -> bool:
        return bool(self._unpollable) and self._leases.has_only_postponed_jobs()

    def _is_held_back(self) -> bool:
        """Whether nothing is being polled, nor will be soon, though jobs wait here."""
        agenda = self._engine.agenda
        with self._engine.lock:
            is_idle = agenda.in_flight == 0  # a poll keeps its place until it is written down
            is_far = agenda.next_at() > self._clock.now() + SOON_S
            return is_idle and is_far and len(agenda) > 0

    # Claims

    def _claim(self, horizon_s: float) -> Optional[List[Claim]]:
        """A portion of the due jobs; None while it is not time for another."""
        self._engine.raise_error()
        now = self._clock.now()
        room = min(PORTION, MAX_HELD - len(self._held))
        unpolled = sum(not held.was_polled for held in list(self._held.values()))
        has_enough = unpolled > PORTION // 2 and now < self._claim_at
        if room <= 0 or has_enough:
            return None
        self._claim_at = now + TURN_S
        self._token = new_token()
        return self._leases.claim(room, LEASE_S, horizon_s, self._token)

    def _take_all_in(self, claims: List[Claim]) -> int:
        """Poll these jobs; how many of them can't be polled."""
        unpollable = []
        for claim in claims:
            try:
                self._take_in(claim)
            except ConfigError as error:
                unpollable.append(claim)
                if claim.key not in self._unpollable:
                    self._on_trouble("%s: %s" % (claim.job.id, error))
                self._unpollable[claim.key] = claim
        self._leases.postpone(unpollable, HORIZON_S + RECHECK_S)  # the profile may be repaired
        return len(unpollable)

    def _take_in(self, claim: Claim) -> None:
        engine = self._engine
        job, url, way = engine.admit(claim.job)
        if way.rules.durations is not None and way.rules.durations not in self._known:
            self._learn_from_ledger(way)
        now = self._clock.now()
        claim = claim._replace(job=job)
        progress = claim.resume(url, way.rules, now)
        held = _Held(claim, url, is_late=progress.deadline <= now)
        with engine.lock:
            known = engine.agenda.get(job.id)
            if known is not None:
                # Its lease expired unnoticed (a laptop that slept), or it was added anew.
                engine.agenda.withdraw(known)
            self._held[job.id] = held
            _adopt(engine, progress, held, way)
            engine.wake()

    def _renew(self) -> None:
        """Renew the leases now and then; drop the jobs that another process has claimed."""
        now = self._clock.now()
        if now < self._renew_at:
            return
        self._renew_at = now + RENEW_S
        for way in list(self._engine.ways.values()):
            self._learn_from_ledger(way)
        held = list(self._held.values())
        kept = {claim.key for claim in self._leases.renew([each.claim for each in held], LEASE_S)}
        with self._engine.lock:
            for each in held:
                entry = self._engine.agenda.get(each.claim.job.id)
                is_ours = entry is not None and entry.owner[0] is each
                if entry is not None and is_ours and each.claim.key not in kept:
                    self._engine.agenda.withdraw(entry)
                    self._sink.drop(each)

    def _learn_from_ledger(self, way: Way) -> None:
        """Learn the durations that all runs have written to the ledger."""
        durations = way.rules.durations
        if durations is None:
            return
        ends = self._statistics.durations(way.manner.profile.name, way.manner.label)
        if ends != self._known.get(durations):
            self._known[durations] = ends
            durations.relearn(ends)

    # The end

    def _wait(self, until: float) -> None:
        self._clock.wait(self._bell, until)
        self._engine.raise_error()

    def _leave(self) -> None:
        """Release the jobs that are not being polled, and wait a little for the others."""
        self._sink.keeps_jobs = False
        self._release_resting()
        until = self._clock.now() + LEAVE_S
        while self._held and self._clock.now() < until:
            self._wait(until)
        self._engine.raise_error()

    def _release_resting(self) -> None:
        """Release the jobs that are not being polled."""
        engine = self._engine
        with engine.lock:
            resting = [entry for entry in engine.agenda if not entry.is_in_flight]
            for entry in resting:
                engine.agenda.withdraw(entry)
                self._sink.drop(entry.owner[0])
        self._leases.release([entry.owner[0].claim for entry in resting])

    def close(self) -> None:
        """Stop polling; exchanges in flight are abandoned, and another run repeats them."""
        self._sink.keeps_jobs = False
        with self._engine.lock:
            self._engine.cancel_all()
        self._engine.stop(abandon=True)

    def __enter__(self) -> "LedgerRunner":
        return self

    def __exit__(self, kind: Optional[type], *exc_info: object) -> None:
        self.close()
        if self._engine.has_failed:
            if kind is None:
                self._engine.raise_error()
            return  # the leases expire by themselves
        self._leases.release([held.claim for held in list(self._held.values())])
        self._leases.end_postponement(self._unpollable.values())  # the next run checks them at once
        if kind is not None:  # a signal may have come between a claim and the note of it
            self._leases.release_token(self._token)


class _Sink:
    """The engine calls this for a ledger: it writes down progress and outcomes."""

    engine: Engine

    def __init__(
        self,
        ledger: Ledger,
        client: Client,
        held: Dict[str, _Held],
        bell: Any,
        on_end: Optional[Callable[[Outcome], object]],
    ) -> None:
        self._ledger = ledger
        self._leases = ledger._leases
        self._client = client
        self._held = held
        self._bell = bell
        self._on_end = on_end
        self.keeps_jobs = True  # whether a job that is due soon stays here
        self.ended: List[State] = []

    def bucket_for(self, profile: Profile, home: str) -> TokenBucket:
        """A bucket in the ledger, shared by all runs; a label with its own limit has its own."""
        name = profile.name or home
        has_own_limit = profile.limit != self._client.limit_of(profile.name)
        if profile.label is not None and has_own_limit:
            name = "%s:%s" % (name, profile.label)
        return self._ledger.bucket(profile.limit, name)

    def learn(self, entry: Entry) -> None:
        """Nothing to do: the runner learns durations from the ledger itself."""

    def may_block(self, step: Step) -> bool:
        """Every report is written to the ledger."""
        return True

    def on_progress(self, step: Step, counts: Counts) -> None:
        """Write the progress of a job; it goes on here if it is due soon."""
        held: _Held = step.entry.owner[0]
        held.was_polled = True
        progress = step.after
        is_ours = self._leases.save_progress(held.claim, progress, held.url, counts)
        engine = self.engine
        with engine.lock:
            is_soon = progress.next_at <= self._client.clock.now() + HORIZON_S
            has_room = len(self._held) < MAX_HELD  # otherwise others take turns with it
            is_current = self._held.get(progress.job.id) is held
            if is_ours and self.keeps_jobs and is_soon and has_room and is_current:
                _adopt(engine, progress, held, step.entry.context)
                engine.wake()
                return
        if is_ours:
            self._leases.release([held.claim])
        self._let_go(held)

    def on_finished(self, step: Step, counts: Counts) -> None:
        """Write the outcome of a job."""
        held: _Held = step.entry.owner[0]
        held.was_polled = True
        outcome = self._client.outcome(step.after)
        if outcome.state is State.CANCELLED:  # by us, at the end of a run: another one goes on
            self._leases.release([held.claim])
        elif self._leases.save_outcome(held.claim, step.after, outcome, counts):
            self.ended.append(outcome.state)
            if self._on_end is not None:
                call(self._on_end, outcome, "on_end failed")
        self._let_go(held)

    def drop(self, held: _Held) -> None:
        """A job is no longer ours, or not by this claim. Call with the lock held."""
        name = held.claim.job.id
        if self._held.get(name) is held:
            del self._held[name]

    def _let_go(self, held: _Held) -> None:
        with self.engine.lock:
            self.drop(held)
        ring(self._bell)


def _adopt(engine: Engine, progress: WaitState, held: _Held, way: Way) -> None:
    """Put a job on the agenda. Call with the lock held."""
    engine.agenda.adopt(
        progress, way.rules, way.lane, owner=(held,), context=way, is_late=held.is_late
    )
