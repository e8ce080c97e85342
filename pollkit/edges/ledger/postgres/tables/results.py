"""Writes the results of polls to PostgreSQL, up to 100 with one statement.

A result is written only if the job still has the token of the claim. So a host whose leases have
expired, and whose jobs another host has claimed, writes nothing but its counts.
"""

from typing import Iterator, List, Sequence, Set, Tuple

from ...records import PollResult
from ..connection.database import Database
from .statistics import COUNT, count_values

MOST_RESULTS = 100
MOST_CHARACTERS = 1 << 20  # of their texts: an outcome may be large

Key = Tuple[int, str]  # of a job, and the token of the claim
_Portion = List[Tuple[PollResult, str]]  # results, each with its text

_SAVE_PROGRESS = (
    """WITH result AS MATERIALIZED (
        SELECT * FROM unnest(%s::bigint[], %s::text[], %s::float8[], %s::text[], %s::text[])
        AS result (job, token, due_at, origin, progress)),
    mine AS (
        UPDATE pollkit.due SET due_at = result.due_at FROM result
        WHERE due.job = result.job AND due.token = result.token RETURNING result.*),
    saved AS (
        INSERT INTO pollkit.progress (job, origin, progress)
        SELECT job, origin, progress FROM mine
        ON CONFLICT (job) DO UPDATE SET progress = excluded.progress,
            origin = COALESCE(excluded.origin, progress.origin)),"""
    + COUNT
    + "SELECT job, token FROM mine"
)
_SAVE_OUTCOMES = (
    """WITH result AS MATERIALIZED (
        SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::float8[], %s::integer[],
            %s::text[], %s::text[], %s::text[], %s::text[], %s::float8[], %s::float8[],
            %s::float8[])
        AS result (job, token, state, notice_delay_s, polls, origin, outcome, profile, label,
            began_at, least_s, most_s)),
    mine AS (
        DELETE FROM pollkit.due USING result
        WHERE due.job = result.job AND due.token = result.token RETURNING result.*),
    before AS (
        DELETE FROM pollkit.progress USING mine WHERE progress.job = mine.job
        RETURNING progress.job, progress.origin),
    finished AS (
        INSERT INTO pollkit.outcome
            (job, token, state, ended_at, notice_delay_s, polls, origin, outcome)
        SELECT mine.job, token, state, $now, notice_delay_s, polls,
            COALESCE(mine.origin, before.origin), outcome
        FROM mine LEFT JOIN before ON before.job = mine.job),
    notification AS (
        INSERT INTO pollkit.notification (job, notify_at) SELECT job, $now FROM mine),
    duration AS (
        INSERT INTO pollkit.duration (profile, label, least_s, most_s, began_at, job)
        SELECT profile, label, least_s, most_s, began_at, job FROM mine
        WHERE least_s IS NOT NULL),"""
    + COUNT
    + "SELECT job, token FROM mine"
)
# The answer to _SAVE_OUTCOMES may have been lost: then it is repeated, and finds no lease.
_FIND_SAVED = """SELECT job, token FROM pollkit.outcome
    JOIN unnest(%s::bigint[], %s::text[], %s::text[]) AS result (job, token, outcome)
    USING (job, token, outcome)"""


def save_results(database: Database, results: Sequence[PollResult]) -> List[bool]:
    """Write the results of polls; for each, whether the lease was still valid."""
    pending = [result for result in results if result.outcome is None]
    finished = [result for result in results if result.outcome is not None]
    saved: Set[Key] = set()
    offset = database.time().offset if pending else 0.0
    for portion in _portions((each, each.progress_text(offset)) for each in pending):
        saved.update(_save_progress(database, portion, offset))
    for portion in _portions((each, each.outcome_text()) for each in finished):
        saved.update(_save_outcomes(database, portion))
    return [_key(result) in saved for result in results]


def _portions(rows: Iterator[Tuple[PollResult, str]]) -> Iterator[_Portion]:
    """The rows, divided so that a statement does not get too large."""
    portion: _Portion = []
    characters = 0
    for result, text in rows:
        portion.append((result, text))
        characters += len(text)
        if len(portion) >= MOST_RESULTS or characters >= MOST_CHARACTERS:
            yield portion
            portion = []
            characters = 0
    if portion:
        yield portion


def _save_progress(database: Database, portion: _Portion, offset: float) -> Set[Key]:
    rows = database.query(
        _SAVE_PROGRESS,
        [result.claim.key for result, _ in portion],
        [result.claim.token for result, _ in portion],
        [float(result.state.next_at + offset) for result, _ in portion],
        [result.origin for result, _ in portion],
        [text for _, text in portion],
        *count_values(database, [result for result, _ in portion]),
    )
    return {(key, token) for key, token in rows}


def _save_outcomes(database: Database, portion: _Portion) -> Set[Key]:
    columns = [list(column) for column in zip(*(_outcome_row(*each) for each in portion))]
    counts = count_values(database, [result for result, _ in portion])
    rows = database.query(_SAVE_OUTCOMES, *columns, *counts)
    saved = {(key, token) for key, token in rows}
    others = [(result.claim, text) for result, text in portion if _key(result) not in saved]
    if others:
        rows = database.query(
            _FIND_SAVED,
            [claim.key for claim, _ in others],
            [claim.token for claim, _ in others],
            [text for _, text in others],
        )
        saved.update((key, token) for key, token in rows)
    return saved


def _key(result: PollResult) -> Key:
    return result.claim.key, result.claim.token


def _outcome_row(result: PollResult, text: str) -> Tuple[object, ...]:
    """The columns of `result` in _SAVE_OUTCOMES."""
    outcome = result.outcome
    assert outcome is not None
    delay_s = outcome.notice_delay_s
    return (
        *_key(result),
        outcome.state.value,
        None if delay_s is None else float(delay_s),
        outcome.polls,
        result.origin,
        text,
        *result.kind,
        float(result.claim.added_at + result.claim.offset),
        *(result.duration or (None, None)),
    )
