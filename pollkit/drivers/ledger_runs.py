"""Runs of a ledger: what is due is claimed, polled, and written down before it is polled again.

The threads, the agenda and the machine are BatchPoller's own. What differs is where jobs come
from and go to: a job comes in by a claim, leaves the agenda with each poll, and comes back once
its Progress is written, if it is due soon; otherwise it is given back to the ledger, where any
process may claim it. So whoever is killed repeats one poll a worker at the most.

Who claims takes a portion, and the next one once half of it was asked about: several processes
share what is due, instead of the first one having it all. Where a limit lets it take longer than a
turn, more are taken all the same: those of another API may be among them.
"""
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, Union

from ..core.agenda import Entry, Lane, Step
from ..core.durations import Durations
from ..core.machine import Progress, Rules
from ..core.model import Outcome, State
from ..core.profile import Profile
from ..core.reading import Reading, Verdict
from ..core.rules import LEDGER_DEFAULTS
from ..edges.ledger import Claim, Ledger, new_token
from ..edges.ledger_history import NOTHING_COUNTED, Counts
from ..edges.token_bucket import TokenBucket
from ..errors import ConfigError, LedgerError, PollkitError
from .asking import Manner
from .batch import BatchPoller
from .exchanges import Way
from .owners import call, new_bell, ring

LEASE_S = 60.0      # how long a job stays with a process that was killed
RENEW_S = 20.0
HORIZON_S = 15.0    # a job that is due sooner stays here; one that is due later goes back
MOST_HELD = 2000
PORTION = 50        # jobs that are claimed at once
TURN_S = 1.0        # how often to look, at the least, for what others have added
SOON_S = 10.0       # what a limit or a pause holds back for longer is not waited for by `once`
MEND_S = 15.0       # how often to look whether a job can be asked about after all
LEAVE_S = 2.0       # for exchanges under way when time is up
NEVER = float("inf")


class _Held:
    """A job that is ours for now, and what was asked about it but not written yet."""

    __slots__ = ("claim", "url", "counts", "is_late")

    def __init__(self, claim: Claim, url: str) -> None:
        self.claim = claim
        self.url = url
        self.counts = NOTHING_COUNTED
        self.is_late = False  # its deadline passed while nobody ran: the next look is the last


class LedgerRun(BatchPoller):
    """Polls the jobs of a ledger; any number of these may run at once, in any number of processes.

    `on_trouble` hears of jobs that can't be asked about: a profile that is gone, say. `on_end` is
    called, in one of the threads, with each outcome once it is written.
    """

    _DEFAULTS = LEDGER_DEFAULTS
    _AT_ONCE = 1  # what came of one is written before the next is asked: a kill repeats one a worker at the most

    def __init__(self, ledger: Ledger, on_trouble: Callable[[str], object],
                 on_end: Optional[Callable[[Outcome], object]] = None, **settings: Any) -> None:
        super().__init__(clock=ledger.clock, **settings)
        self._ledger = ledger
        self._on_trouble = on_trouble
        self._on_end = on_end
        self._held: Dict[str, _Held] = {}
        self._unasked: Set[str] = set()            # those of them that have not been polled yet
        self._claim_at, self._renew_at = self._clock.now(), self._clock.now() + RENEW_S
        self._unusable: Dict[int, Claim] = {}      # jobs that can't be asked about: each is told once
        self._ends: Dict[Durations, List[Tuple[float, float]]] = {}   # what was last learned, of each kind
        self._token = new_token()                  # of the latest claim
        self._goes_on = True                       # whether a job that is due soon stays here
        self._come_back = 0.0                      # when there is next something to take, if nothing is now
        self._bell = new_bell()
        self.ended: List[State] = []               # how jobs ended in this run

    def until_none_waits(self, for_s: Optional[float] = None, may_add: Callable[[], bool] = lambda: False) -> None:
        """Poll until nothing waits any more that can be asked about, for so many seconds at the most.

        `may_add` says whether somebody here may still add jobs; `wake` the run when that changes.
        """
        until = NEVER if for_s is None else self._clock.now() + for_s
        while True:
            self._renew()
            claims = self._claimed(HORIZON_S) or []
            unusable = self._take_all_in(claims)
            is_idle = not self._held and not may_add()  # first what ended, then who hears of it, then what they added
            now, due_at = self._clock.now(), self._ledger.next_due()
            if now >= until or is_idle and (
                    due_at is None or self._unusable and self._ledger.are_all_put_off()):
                break
            # A job that is due within the horizon was claimed, unless there was no room for it.
            next_at = NEVER if due_at is None or len(self._held) >= MOST_HELD else due_at - HORIZON_S
            pause_s = 0.0 if claims and unusable == len(claims) else 0.1  # any number of them holds up nobody else
            self._wait(min(until, max(next_at, now + pause_s), now + TURN_S))
        self._leave()

    def once(self) -> None:
        """Poll what is due now, each job once; but what can't be asked about soon is left for another run."""
        self._goes_on = False
        polled: Set[int] = set()
        is_more = True
        while is_more or self._held:
            self._renew()
            claims = self._claimed(0.0) if is_more else None
            if claims is not None:
                again = [claim for claim in claims if claim.key in polled]  # due again already: some other time
                self._ledger.release(again)
                new = [claim for claim in claims if claim.key not in polled]
                self._take_all_in(new)
                polled.update(claim.key for claim in new)
                is_more = bool(new) and not again
            if self._held and not self._is_held_back():
                self._wait(self._clock.now() + TURN_S)
            elif is_more and len(self._held) < MOST_HELD:
                self._claim_at = self._clock.now()  # not in its turn: those of another API may be among them
            elif self._held:
                self._raise()  # or that may be why nothing is asked
                is_more = False
                self._give_back()

    def _is_held_back(self) -> bool:
        """Whether nothing is asked now, nor will be soon, though there is something to ask about."""
        with self._lock:
            return (self._come_back > self._clock.now() + SOON_S and len(self._agenda) > 0
                    and not any(entry.is_out for entry in self._agenda))

    def _claimed(self, horizon_s: float) -> Optional[List[Claim]]:
        """A portion of what is due; None while it is not time for another."""
        self._raise()
        now, room = self._clock.now(), min(PORTION, MOST_HELD - len(self._held))
        if room <= 0 or (len(self._unasked) > PORTION // 2 and now < self._claim_at):
            return None
        self._claim_at = now + TURN_S
        self._token = new_token()
        return self._ledger.claim(room, LEASE_S, horizon_s, self._token)

    def _take_all_in(self, claims: List[Claim]) -> int:
        """Go on with these jobs; how many of them can't be asked about."""
        unusable = []
        for claim in claims:
            try:
                self._take_in(claim)
            except ConfigError as error:
                unusable.append(claim)
                if claim.key not in self._unusable:
                    self._on_trouble("%s: %s" % (claim.job.id, error))
                self._unusable[claim.key] = claim
        self._ledger.put_off(unusable, HORIZON_S + MEND_S)  # somebody may mend the profile meanwhile
        return len(unusable)

    def _take_in(self, claim: Claim) -> None:
        job, url, way = self._admitted(claim.job)
        held = _Held(claim._replace(job=job), url)
        now = self._clock.now()
        progress = held.claim.resumed(url, way.rules, now)
        held.is_late = progress.deadline <= now
        with self._lock:
            self._crew.wake()
            known = self._agenda.get(job.id)
            if known is not None:  # its lease ran out unseen (a laptop that slept), or it was forgotten and added anew
                self._agenda.withdraw(known)
            self._held[job.id] = held
            self._unasked.add(job.id)
            self._come_back = now  # nobody knows yet
            self._adopt(progress, way.rules, way.lane, (held,), way)

    def _adopt(self, progress: Progress, rules: Rules, lane: Lane, owner: Tuple[_Held], way: Way) -> None:
        """Poll a job when it is due. Call with the lock held.

        One that is late has no deadline until it is handed out: there may be many of them, and one
        limit for all, and each gets its last look however long that takes.
        """
        if owner[0].is_late:
            progress = progress._replace(deadline=NEVER)
        self._agenda.adopt(progress, rules, lane, owner, way)

    def _drop(self, held: _Held) -> None:
        """A job is no longer ours, or not by this claim. Call with the lock held."""
        name = held.claim.job.id
        if self._held.get(name) is held:
            del self._held[name]
            self._unasked.discard(name)

    def _renew(self) -> None:
        """Now and then, keep what is held; what was lost to somebody else ends here without a word."""
        now = self._clock.now()
        if now < self._renew_at:
            return
        self._renew_at = now + RENEW_S
        held = list(self._held.values())
        for way in list(self._ways.values()):
            self._relearn(way)
        kept = {claim.key for claim in self._ledger.renew([one.claim for one in held], LEASE_S)}
        with self._lock:
            for one in held:
                entry = self._agenda.get(one.claim.job.id)
                if one.claim.key not in kept and entry is not None and entry.owner[0] is one:
                    self._agenda.withdraw(entry)
                    self._drop(one)

    def _wait(self, until: float) -> None:
        self._clock.wait(self._bell, until)
        self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _leave(self) -> None:
        """Give back what is not being polled just now, and wait a little for what is."""
        self._goes_on = False
        self._give_back()
        until = self._clock.now() + LEAVE_S
        while self._held and self._clock.now() < until:
            self._wait(until)

    def _give_back(self) -> None:
        """Give back what is not being polled just now."""
        with self._lock:
            resting = [entry for entry in self._agenda if not entry.is_out]
            for entry in resting:
                self._agenda.withdraw(entry)
                self._drop(entry.owner[0])
        self._ledger.release([entry.owner[0].claim for entry in resting])

    def __exit__(self, kind: Optional[type], *exc_info: object) -> None:
        super().__exit__(kind, *exc_info)
        if self._error is None:  # of threads that were too slow to do it themselves
            self._ledger.release([held.claim for held in list(self._held.values())])
            self._ledger.resume(self._unusable.values())  # the next run may find them mended, or says so again
            if kind is not None:  # a signal may have come between a claim and the note of it
                self._ledger.take_back(self._token)

    def wake(self) -> None:
        """Something may have changed: look again."""
        ring(self._bell)

    def break_off(self, error: LedgerError) -> None:
        """End the run with an error: the ledger can't be used any more."""
        self._break_off(error)

    @property
    def has_trouble(self) -> bool:
        """Whether there were jobs that can't be asked about."""
        return bool(self._unusable)

    # What the crew calls

    def _break_off(self, error: PollkitError) -> None:
        self._error = error  # the limit is in the ledger, too; what is held waits until its lease runs out
        ring(self._bell)

    def _take(self, now: float) -> Union[List[Entry], float]:
        work = super()._take(now)
        self._come_back = now if isinstance(work, list) else work
        if self._come_back > now + SOON_S and not self._goes_on:
            ring(self._bell)
        for entry in work if isinstance(work, list) else ():
            self._unasked.discard(entry.progress.job.id)
            if entry.owner[0].is_late:
                entry.progress = entry.progress._replace(deadline=now)
        return work

    def _new_way(self, manner: Manner, home: str, is_many: bool) -> Way:
        way = super()._new_way(manner, home, is_many)
        self._relearn(way)
        return way

    def _relearn(self, way: Way) -> None:
        """Know what the ledger knows by now: what all runs have seen."""
        if way.rules.durations is not None:
            ends = self._ledger.durations(way.manner.profile.name, way.manner.label)
            if ends != self._ends.get(way.rules.durations):
                self._ends[way.rules.durations] = ends
                way.rules.durations.relearn(ends)

    def _bucket_for(self, profile: Profile, home: str) -> TokenBucket:
        name = profile.name or home
        if profile.label is not None and profile.limit != self._asker.limit_of(profile.name):
            name = "%s:%s" % (name, profile.label)  # a label with a limit of its own
        return self._ledger.bucket(profile.limit, name)

    def _finish(self, entries: List[Entry], result: Tuple[Reading, List[Reading]], now: float) -> Any:
        polled = super()._finish(entries, result, now)
        if polled is None:
            return None
        heard = polled.heard.verdict
        entries[0].owner[0].counts = Counts(1, int(heard is Verdict.FAULT), int(heard is Verdict.LIMITED))
        for step in polled.steps:
            if step.after.ending is None:
                self._agenda.withdraw(step.entry)
        self._after_removal()
        return polled

    def _learn(self, entry: Entry) -> None:
        """Not here: the ledger does, from what all runs write, and from time to time it is read again."""

    def _announce(self, polled: Any) -> None:
        super()._announce(polled)
        for step in polled.steps if polled is not None else ():
            if step.after.ending is None:
                self._write(self._save, step)

    def _deliver(self, step: Step) -> None:
        self._write(self._settle, step)

    def _write(self, write: Callable[[Step, _Held], None], step: Step) -> None:
        try:
            write(step, step.entry.owner[0])
        except LedgerError as error:
            self._error = error
        ring(self._bell)

    def _save(self, step: Step, held: _Held) -> None:
        entry, progress = step.entry, step.after
        is_ours = self._ledger.save(held.claim, progress, held.url, held.counts)
        held.counts = NOTHING_COUNTED
        with self._lock:
            # Where there is no room for more, others take turns with it.
            stays = (is_ours and self._goes_on and not self._closed and len(self._held) < MOST_HELD
                     and progress.next_at <= self._clock.now() + HORIZON_S
                     and self._held.get(progress.job.id) is held)
            if stays:
                self._adopt(progress, entry.rules, entry.lane, entry.owner, entry.manner)
                self._crew.wake()
                return
        if is_ours:
            self._ledger.release([held.claim])
        self._let_go(held)

    def _settle(self, step: Step, held: _Held) -> None:
        outcome = self._asker.outcome(step.after)
        if outcome.state is State.CANCELLED:  # broken off, by us: it goes on some other time
            self._ledger.release([held.claim])
        elif self._ledger.settle(held.claim, step.after, outcome, held.counts):
            self.ended.append(outcome.state)
            if self._on_end is not None:
                call(self._on_end, outcome, "on_end failed")
        self._let_go(held)

    def _let_go(self, held: _Held) -> None:
        """Last: whoever closes meanwhile gives back all that is held."""
        with self._lock:
            self._drop(held)
