"""Statistics in PostgreSQL: durations of jobs, polls per minute, notice delays."""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .....core.model import NOTHING_COUNTED, Counts
from ...job_statistics import KEPT_DURATIONS, KEPT_MINUTES, Statistics
from ...records import PollResult
from ..connection.database import Database, DatabaseTables
from ..connection.session import Row

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
    """The statistics in PostgreSQL."""

    _FINISHED_JOBS = (
        "SELECT began_at, job, least_s, most_s FROM pollkit.duration "
        "WHERE profile = %s AND label = %s "
        "ORDER BY began_at DESC, job DESC, serial DESC LIMIT %s"
    )
    _PENDING_JOBS = (
        "SELECT added_at, key, progress FROM pollkit.job JOIN pollkit.progress "
        "ON progress.job = key "
        "WHERE progress IS NOT NULL AND COALESCE(profile, '') IN (%s, '') "
        "AND (%s = COALESCE(label, '') OR label IS NULL AND size IS NOT NULL) "
        "ORDER BY added_at DESC LIMIT %s"
    )
    _KINDS = "SELECT profile, label FROM pollkit.duration GROUP BY 1, 2 ORDER BY min(serial)"
    _MINUTES = (
        "SELECT minute, profile, origin, {} FROM pollkit.minute "
        "WHERE minute >= greatest(%s::float8, $now / 60 - {}) "
        "GROUP BY minute, profile, origin ORDER BY minute, profile, origin"
    ).format(_SUMS, KEPT_MINUTES)
    _TOTALS = "SELECT {0}, %s FROM pollkit.minute GROUP BY {0} ORDER BY {0}" % _SUMS
    _LATEST = "SELECT {0} FROM pollkit.outcome ORDER BY ended_at DESC LIMIT %s"
    _DURATIONS_OF_DONE_JOBS = (
        "SELECT ended_at - added_at - COALESCE(notice_delay_s, 0) FROM pollkit.outcome "
        "JOIN pollkit.job ON job.key = outcome.job WHERE state = 'done' "
        "ORDER BY ended_at DESC LIMIT %s"
    )
    _FAULTS_BY_KIND = (
        "SELECT kind, sum(count)::bigint FROM pollkit.fault "
        "WHERE hour >= greatest(%s::float8, $now / 3600 - {}) GROUP BY kind ORDER BY 2 DESC"
    ).format(KEPT_MINUTES // 60)

    @property
    def _place(self) -> str:
        return self._database.name

    def _query(self, statement: str, *values: object) -> List[Row]:
        return self._database.query(statement, *values)

    def last_run_at(self) -> Optional[float]:
        """When a run was last active; see Statistics."""
        ((run_at,),) = self._database.query("SELECT run_at FROM pollkit.ledger")
        return self._database.time().to_wall(run_at)

    def add_faults(self, faults: Mapping[str, int]) -> None:
        """Add to the faults of this hour; see Statistics."""
        for kind, count in faults.items():
            self._database.query(
                "INSERT INTO pollkit.fault VALUES (floor($now / 3600), %s, %s) "
                "ON CONFLICT (hour, kind) DO UPDATE SET count = fault.count + excluded.count",
                kind,
                count,
            )


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
