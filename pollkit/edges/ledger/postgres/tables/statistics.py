"""Statistics in PostgreSQL: durations of jobs, polls per minute, notice delays."""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .....core.learning.durations import RECENT
from .....core.model import NOTHING_COUNTED, Counts
from ...observed_jobs import (
    KEPT_DURATIONS,
    KEPT_MINUTES,
    MOST_PENDING,
    ObservedJob,
    finished_jobs,
    minutes_from_rows,
    observe_jobs,
    pending_jobs,
)
from ...records import Duration, Kind, Minute, Observed, PollResult
from ...storage import Statistics
from ..connection.database import Database, DatabaseTables

_COUNTS = ", ".join(Counts._fields)
_SUMS = ", ".join("sum(%s)::bigint" % field for field in Counts._fields)

# Part of a statement: adds to the counts of this minute. `count_values` has its values.
COUNT = """counted AS (
    INSERT INTO pollkit.minute (shard, minute, profile, origin, polls, faults, rate_limited, pauses)
    SELECT %s::smallint, floor($now / 60), * FROM unnest(%s::text[], %s::text[], %s::bigint[],
        %s::bigint[], %s::bigint[], %s::bigint[])
    ON CONFLICT (minute, profile, origin, shard) DO UPDATE SET
        polls = minute.polls + excluded.polls, faults = minute.faults + excluded.faults,
        pauses = minute.pauses + excluded.pauses,
        rate_limited = minute.rate_limited + excluded.rate_limited) """


def count_values(database: Database, results: Sequence[PollResult]) -> List[Any]:
    """The values of COUNT, for the requests that led to these results."""
    sums: Dict[Tuple[str, str], Counts] = {}
    for result in results:
        if result.counts != NOTHING_COUNTED:
            source = (result.claim.job.profile or "", result.origin or "")
            sums[source] = sums.get(source, NOTHING_COUNTED).plus(result.counts)
    # In this order: two processes that lock the same rows can't wait for each other.
    rows = [(*source, *counts) for source, counts in sorted(sums.items())]
    columns = [[row[number] for row in rows] for number in range(2 + len(Counts._fields))]
    return [database.shard, *columns]


class PostgresStatistics(DatabaseTables, Statistics):
    """Reads the statistics in PostgreSQL."""

    def durations(
        self, profile: Optional[str] = None, label: Optional[str] = None
    ) -> List[Duration]:
        """The durations of the latest jobs of a kind; see Statistics."""
        jobs = self._finished_jobs((profile or "", label or ""))
        return [job.duration for job in jobs if job.duration is not None]

    def observed(self, profile: Optional[str] = None, label: Optional[str] = None) -> Observed:
        """The latest completions and the pending jobs of a kind; see Statistics."""
        kind = (profile or "", label or "")
        return observe_jobs(self._finished_jobs(kind) + self._pending_jobs(kind))

    def durations_by_kind(self) -> Dict[Kind, List[Duration]]:
        """The durations of each kind; see Statistics."""
        kinds = self._database.query(
            "SELECT profile, label FROM pollkit.duration GROUP BY 1, 2 ORDER BY min(serial)"
        )
        found = {(profile, label): self.durations(profile, label) for profile, label in kinds}
        return {kind: durations for kind, durations in found.items() if durations}

    def minutes(self, since: float = 0.0) -> List[Minute]:
        """The polls per minute, profile and origin; see Statistics."""
        rows = self._database.query(
            "SELECT minute, profile, origin, %s FROM pollkit.minute "
            "WHERE minute >= greatest(%%s, $now / 60 - %%s) GROUP BY minute, profile, origin "
            "ORDER BY minute, profile, origin" % _SUMS,
            float(max(1, since // 60)),
            float(KEPT_MINUTES),
        )
        return minutes_from_rows(rows)

    def totals(self) -> Dict[str, Counts]:
        """All polls ever made, by profile; see Statistics."""
        return self._totals_by("profile")

    def totals_by_origin(self) -> Dict[str, Counts]:
        """All polls ever made, by origin; see Statistics."""
        return self._totals_by("origin")

    def _totals_by(self, column: str) -> Dict[str, Counts]:
        rows = self._database.query(
            "SELECT {0}, {1} FROM pollkit.minute GROUP BY {0} ORDER BY {0}".format(column, _SUMS)
        )
        return {name: Counts(*counts) for name, *counts in rows}

    def last_run_at(self) -> Optional[float]:
        """When a run was last active; see Statistics."""
        ((run_at,),) = self._database.query("SELECT run_at FROM pollkit.ledger")
        return self._database.time().to_wall(run_at)

    def notice_delays(self, count: int = 1000) -> List[float]:
        """The known notice delays of the latest jobs; see Statistics."""
        rows = self._database.query(
            "SELECT notice_delay_s FROM pollkit.outcome ORDER BY ended_at DESC LIMIT %s", count
        )
        return [delay for (delay,) in rows if delay is not None]

    def polls_per_job(self, count: int = 1000) -> List[int]:
        """The polls of the latest jobs; see Statistics."""
        rows = self._database.query(
            "SELECT polls FROM pollkit.outcome ORDER BY ended_at DESC LIMIT %s", count
        )
        return [polls for (polls,) in rows if polls is not None]

    def durations_of_done_jobs(self, count: int = 1000) -> List[float]:
        """How long the latest done jobs took; see Statistics."""
        rows = self._database.query(
            "SELECT ended_at - added_at - COALESCE(notice_delay_s, 0) FROM pollkit.outcome "
            "JOIN pollkit.job ON job.key = outcome.job WHERE state = 'done' "
            "ORDER BY ended_at DESC LIMIT %s",
            count,
        )
        return [duration for (duration,) in rows]

    def add_faults(self, faults: Mapping[str, int]) -> None:
        """Add to the faults of this hour; see Statistics."""
        for kind, count in faults.items():
            self._database.query(
                "INSERT INTO pollkit.fault VALUES (floor($now / 3600), %s, %s) "
                "ON CONFLICT (hour, kind) DO UPDATE SET count = fault.count + excluded.count",
                kind,
                count,
            )

    def faults_by_kind(self, since: float = 0.0) -> Dict[str, int]:
        """The faults of each kind; see Statistics."""
        rows = self._database.query(
            "SELECT kind, sum(count)::bigint FROM pollkit.fault WHERE hour >= %s "
            "AND hour >= $now / 3600 - %s GROUP BY kind ORDER BY 2 DESC",
            int(since // 3600),
            KEPT_MINUTES / 60,
        )
        return dict(rows)

    def _finished_jobs(self, kind: Kind) -> List[ObservedJob]:
        """The jobs that started last, in ascending order."""
        rows = self._database.query(
            "SELECT began_at, job, least_s, most_s FROM pollkit.duration "
            "WHERE profile = %s AND label = %s "
            "ORDER BY began_at DESC, job DESC, serial DESC LIMIT %s",
            *kind,
            RECENT,
        )
        return finished_jobs(rows)

    def _pending_jobs(self, kind: Kind) -> List[ObservedJob]:
        """The waiting jobs that may be of this kind and were seen pending.

        A job need not name its profile if there is only one, nor its label if its size implies one.
        """
        rows = self._database.query(
            "SELECT added_at, key, progress FROM pollkit.job JOIN pollkit.progress "
            "ON progress.job = key "
            "WHERE progress IS NOT NULL AND COALESCE(profile, '') IN (%s, '') "
            "AND (%s = COALESCE(label, '') OR label IS NULL AND size IS NOT NULL) "
            "ORDER BY added_at DESC LIMIT %s",
            *kind,
            MOST_PENDING,
        )
        return pending_jobs(rows)


def remove_old_statistics(database: Database) -> None:
    """Remove the durations of jobs that started long ago; merge old minutes into minute 0."""
    database.query(
        "DELETE FROM pollkit.duration WHERE serial IN (SELECT serial FROM (SELECT serial, "
        "row_number() OVER (PARTITION BY profile, label ORDER BY began_at DESC, job DESC, "
        "serial DESC) AS place FROM pollkit.duration) AS ranked WHERE place > %s)",
        KEPT_DURATIONS,
    )
    database.query("DELETE FROM pollkit.fault WHERE hour < $now / 3600 - %s", KEPT_MINUTES / 60)
    database.query(
        "WITH old AS (DELETE FROM pollkit.minute WHERE minute BETWEEN 1 AND $now / 60 - %s "
        "RETURNING *) INSERT INTO pollkit.minute (minute, profile, origin, shard, {0}) "
        "SELECT 0, profile, origin, shard, {1} FROM old GROUP BY profile, origin, shard "
        "ON CONFLICT (minute, profile, origin, shard) DO UPDATE SET {2}".format(
            _COUNTS,
            _SUMS,
            ", ".join("{0} = minute.{0} + excluded.{0}".format(each) for each in Counts._fields),
        ),
        float(KEPT_MINUTES),
    )
