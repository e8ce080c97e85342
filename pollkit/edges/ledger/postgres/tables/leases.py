"""Claims on the waiting jobs in PostgreSQL.

A claim takes the earliest jobs that no other session is claiming (FOR UPDATE SKIP LOCKED), and sets
`next_at` to the end of the lease. The rows are picked in a materialized CTE: otherwise the planner
may run the subquery again, and lock more rows than asked for.
"""

from math import inf
from typing import Iterable, List, Optional, Sequence

from .....core.scheduling.outages import Outage
from .....core.waiting.ends.deadlines import LONGEST_EXTENSION_S
from ...damage import check_values
from ...leases import LONGEST_LEASE_S, Leases, check_claim
from ...records import Claim, PollResult, new_token
from ..connection.database import Database, DatabaseTables
from ..rows import LEASE, claims_from_rows, keys_and_tokens, read_outages
from .outages import HOLD, release_lanes
from .results import save_results
from .search_start import SearchStart

_DUE = """WITH picked AS MATERIALIZED (
    SELECT job, next_at FROM pollkit.due
    WHERE lane = 0 AND next_at >= %s AND next_at <= $now + %s AND (token IS NULL OR next_at <= $now)
    ORDER BY lane, next_at, job LIMIT %s FOR UPDATE SKIP LOCKED)"""
_NAMED = """WITH picked AS MATERIALIZED (
    SELECT due.job, next_at FROM pollkit.due JOIN pollkit.job ON key = due.job
    WHERE id = ANY(%s::text[]) AND (token IS NULL OR next_at <= $now)
    FOR UPDATE OF due SKIP LOCKED)"""
_MINE = """FROM unnest(%s::bigint[], %s::text[]) AS mine (job, token)
    WHERE due.job = mine.job AND due.token = mine.token"""


class PostgresLeases(DatabaseTables, Leases):
    """Claims on the waiting jobs in PostgreSQL."""

    longest_delay_s = 1.0

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._search = SearchStart()

    def next_due(self) -> Optional[float]:
        """When the next job or probe can be claimed; see Leases."""
        ((at, server_now),) = self._database.query(
            "SELECT least((SELECT next_at FROM pollkit.due WHERE lane = 0 AND next_at >= %s "
            "ORDER BY lane, next_at LIMIT 1), (SELECT min(next_probe_at) FROM pollkit.outage "
            "WHERE ended_at IS NULL AND "
            "EXISTS (SELECT 1 FROM pollkit.due WHERE lane = outage.key))), $now",
            self._search.start,
        )
        if at is None and self._search.start > -inf:
            self._search.reset()
            return self.next_due()
        check_values((at,), ("due_at",), self._database.name, None)
        return None if at is None else float(at) - self._database.time_at(server_now).offset

    def claim(
        self, count: int, lease_s: float = 60.0, horizon_s: float = 0.0, token: Optional[str] = None
    ) -> List[Claim]:
        """Lease jobs that are due; see Leases."""
        check_claim(count, lease_s)
        used_token = token or new_token()
        claims: List[Claim] = []
        while len(claims) < count:
            outages = read_outages(self._database)
            release_lanes(self._database, outages, horizon_s)
            rows = self._database.query(
                _DUE + LEASE,
                self._search.begin(),
                float(horizon_s),
                count - len(claims),
                lease_s,
                used_token,
            )
            if rows:
                server_now, last_at = rows[-1][:2]
                self._search.end(last_at, server_now)
            found = claims_from_rows(self._database, rows, outages)
            usable = self._hold_down(found, outages, horizon_s)
            claims += usable
            if len(usable) == len(found):
                break
        return claims

    def _hold_down(
        self, claims: Sequence[Claim], outages: Sequence[Outage], horizon_s: float
    ) -> List[Claim]:
        """Hold the jobs whose origin is down; the others."""
        earliest = self._database.time().now + horizon_s - LONGEST_EXTENSION_S
        down = {
            outage.origin
            for outage in outages
            if outage.ended_at is None and outage.began_at > earliest
        }
        for origin in down:
            held = [claim for claim in claims if claim.origin == origin]
            if held:
                self._database.query(HOLD, origin, float(horizon_s), *keys_and_tokens(held))
        return [claim for claim in claims if claim.origin not in down]

    def claim_ids(
        self, ids: Sequence[str], lease_s: float = 60.0, token: Optional[str] = None
    ) -> List[Claim]:
        """Lease jobs, due or not; see Leases."""
        names = list(ids)
        if not names:
            return []
        rows = self._database.query(_NAMED + LEASE, names, lease_s, token or new_token())
        outages = read_outages(self._database) if rows else []
        claims = claims_from_rows(self._database, rows, outages)
        return sorted(claims, key=lambda claim: names.index(claim.job.id))

    def save(self, results: Sequence[PollResult]) -> List[bool]:
        """Save the results of polls; see Leases."""
        return save_results(self._database, results)

    def is_cancel_requested(self, claim: Claim) -> bool:
        """Whether the API was asked to cancel a job; see Leases."""
        return bool(
            self._database.query(
                "SELECT 1 FROM pollkit.job WHERE key = %s AND cancel_at IS NOT NULL", claim.key
            )
        )

    def renew(self, claims: Sequence[Claim], lease_s: float) -> List[Claim]:
        """Extend leases; see Leases."""
        if not claims:
            return []
        rows = self._database.query(
            "UPDATE pollkit.due SET next_at = $now + %s " + _MINE + " RETURNING due.job",
            lease_s,
            *keys_and_tokens(claims),
        )
        renewed = {key for (key,) in rows}
        return [claim for claim in claims if claim.key in renewed]

    def release(self, claims: Sequence[Claim]) -> None:
        """Let any process claim these jobs once they are due; see Leases."""
        self._search.reset()
        if claims:
            self._database.query(
                "UPDATE pollkit.due SET token = NULL, next_at = due_at " + _MINE,
                *keys_and_tokens(claims),
            )

    def release_token(self, token: str) -> None:
        """Release all jobs that were claimed with this token; see Leases."""
        self._database.query(
            "UPDATE pollkit.due SET token = NULL, next_at = due_at WHERE lane = 0 "
            "AND next_at BETWEEN $now AND $now + %s AND token = %s",
            LONGEST_LEASE_S,
            token,
        )

    def postpone(self, claims: Sequence[Claim], for_s: float) -> None:
        """Release jobs for a later instant; see Leases."""
        if claims:
            self._database.query(
                "UPDATE pollkit.due SET token = NULL, next_at = greatest(due_at, $now + %s) "
                + _MINE,
                float(for_s),
                *keys_and_tokens(claims),
            )

    def end_postponement(self, claims: Iterable[Claim]) -> None:
        """Let postponed jobs be claimed again; see Leases."""
        keys = [claim.key for claim in claims]
        if keys:
            self._database.query(
                "UPDATE pollkit.due SET due_at = greatest(due_at, now), "
                "next_at = greatest(due_at, now) FROM (SELECT $now AS now) AS clock "
                "WHERE job = ANY(%s::bigint[]) AND token IS NULL AND lane = 0 AND next_at > due_at",
                keys,
            )

    def has_only_postponed_jobs(self) -> bool:
        """Whether only postponed jobs wait; see Leases."""
        other = self._database.query(
            "SELECT 1 FROM pollkit.due "
            "WHERE lane <> 0 OR token IS NOT NULL OR next_at <= due_at LIMIT 1"
        )
        return not other
