"""The outages that the processes of a ledger share.

A runner finds outages by its own polls, and reads those that other processes have found. While an
outage is younger than a day, the ledger holds the jobs of its origin, and grants one probe at a
time to one of the processes.

Only jobs without `max_faults` share outages. Jobs with it end after so many failed probes, which
each process counts for the jobs that it has leased, as a batch does.
"""

from typing import Callable, Dict, List, Optional, Sequence

from ....core.scheduling.outages import RESUME_S, Outage
from ....core.waiting.ends.deadlines import LONGEST_EXTENSION_S
from ....core.waiting.wait_settings import WaitSettings
from ....edges.ledger.ledger import Ledger
from ....edges.ledger.records import Claim
from ...engine.engine import Engine

LONG_OUTAGE_S = 60.0  # how often jobs are claimed that an outage of over a day no longer holds


class LedgerOutages:
    """The current outages of a ledger, as last read or written."""

    def __init__(self, ledger: Ledger, engine: Engine, rng: Callable[[], float]) -> None:
        self._storage = ledger._outages
        self._leases = ledger._leases
        self._clock = ledger.clock
        self._engine = engine
        self._rng = rng
        self._current: Dict[str, Outage] = {}  # by origin; guarded by the engine's lock

    def all(self) -> List[Outage]:
        """The outages of the ledger, and those that only this process knows."""
        found = {outage.origin: outage for outage in self._engine.outages()}
        found.update(self._current)
        return list(found.values())

    def outage_of(self, origin: str, settings: WaitSettings) -> Optional[Outage]:
        """The outage that a job with these settings waits for in the ledger, if there is one."""
        return self._current.get(origin) if settings.outlasts_outages else None

    def next_try_at(self, origin: str) -> Optional[float]:
        """When to send a request again to an origin that is down; None if it is not."""
        outage = self._current.get(origin)
        return None if outage is None else outage.next_probe_at

    def holds_jobs(self, outage: Outage) -> bool:
        """Whether the ledger still holds the jobs of an outage."""
        return self._clock.now() < outage.began_at + LONGEST_EXTENSION_S

    def next_probe_at(self) -> Optional[float]:
        """When the next probe of any origin is possible."""
        instants = [outage.next_probe_at for outage in list(self._current.values())]
        return min(instants, default=None)

    def due_probes(self) -> List[Outage]:
        """The outages for which a probe is due."""
        now = self._clock.now()
        return [each for each in list(self._current.values()) if each.next_probe_at <= now]

    def refresh(self) -> List[Outage]:
        """Read the outages of the ledger, and apply the changes to the engine."""
        engine = self._engine
        if engine.unreported_outages:
            return []  # this process has found out more than the ledger says
        current = {outage.origin: outage for outage in self._storage.current()}
        with engine.lock:
            if engine.unreported_outages:
                return []
            now = self._clock.now()
            for origin in set(self._current) - set(current):
                engine.agenda.outages.end(origin, now, self._rng())
                engine.wake()
            for origin in set(current) - set(self._current):
                engine.agenda.outages.begin(current[origin], now)
            self._current = current
        return list(current.values())

    def return_jobs(self, outage: Outage, claims: Sequence[Claim]) -> None:
        """Release jobs whose origin is down; the ledger holds them, if it still does."""
        if self.holds_jobs(outage):
            self._storage.hold(claims, outage.origin)
        else:
            self._leases.postpone(claims, LONG_OUTAGE_S)

    def claim_probe(self, outage: Outage, lease_s: float, token: str) -> Optional[Claim]:
        """Claim a job as a probe, unless another process is faster; the engine may poll it now."""
        claim = self._storage.claim_probe(outage.origin, lease_s, token)
        if claim is not None:
            now = self._clock.now()
            with self._engine.lock:
                self._engine.agenda.outages.begin(outage._replace(next_probe_at=now), now)
        return claim

    def begin(self, outage: Outage) -> Outage:
        """Write an outage that this process has found; the outage as others may know it."""
        self._storage.begin(outage)
        with self._engine.lock:
            return self._current.setdefault(outage.origin, outage)

    def fail_probe(self, outage: Outage) -> None:
        """Write a failed probe."""
        origin = outage.origin
        self._storage.record_failed_probe(origin, outage.last_fault, outage.next_probe_at)
        with self._engine.lock:
            if origin in self._current:
                self._current[origin] = outage

    def end(self, origin: str) -> None:
        """Write that an origin is back."""
        self._storage.end(origin, RESUME_S)
        with self._engine.lock:
            self._current.pop(origin, None)
