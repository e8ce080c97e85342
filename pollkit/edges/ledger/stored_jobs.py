"""Jobs as every storage reads them, and what callers get: claims, rows and summaries."""

import json
from math import isfinite
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ...core.model import NO_TIMEOUT, Job, State
from ...core.scheduling.outages import Outage
from ...core.snapshot import is_instant
from ...core.submitting.intent import Intent, Stage
from ...core.units import NEVER
from ...core.waiting.ends.deadlines import outage_seconds
from ...errors import LedgerError
from .damage import REMEDY, check_values, damage_error, find_damage, rules_for
from .records import LEASED, WAITING, Claim, IntentStatus, JobRow, Summary

# In the text of an outcome with one of the errors in core/waiting/ends/endings.py, and rarely in
# another: a result may contain these words.
MISSING_RESULT = '%"result-not-%'
PAGE_ROWS = 500  # rows read at once
PAGE_CHARACTERS = 4 << 20  # characters of outcomes read at once; a single one may be larger


class LedgerTime(NamedTuple):
    """This instant in ledger time, and the offsets to other clocks."""

    now: float
    offset: float  # an instant on the ledger's `clock` + offset = the instant in ledger time
    wall_offset: float  # an instant in ledger time + wall_offset = the instant on the wall clock
    clock_changed: bool = False  # since the last record: a reboot, or a wall clock set back

    def to_wall(self, at: Optional[float]) -> Optional[float]:
        """An instant of the ledger in wall-clock time, if there is one."""
        return None if at is None else at + self.wall_offset


class StoredJob(NamedTuple):
    """A job as it is stored: JOB_COLUMNS, and its intent and outcome if they were read.

    The schema of each storage describes the columns. Instants are in ledger time.
    """

    key: int
    id: str
    url: Optional[str]
    profile: Optional[str]
    label: Optional[str]
    size: Optional[float]
    metadata: Optional[str]
    timeout_s: Optional[float]
    state: str
    added_at: float
    origin: Optional[str]
    free_at: Optional[float]
    due_at: Optional[float]
    token: Optional[str]
    progress: Optional[str]
    ended_at: Optional[float]
    notify_at: Optional[float]
    notify_attempts: int
    notify_error: Optional[str]
    notified_at: Optional[float]
    submit_url: Optional[str] = None  # of the intent, and so are the next three
    stage: Optional[str] = None
    faults: Optional[int] = None
    last_fault: Optional[str] = None
    outcome: Optional[str] = None

    def is_leased(self, now: float) -> bool:
        """Whether a process has claimed the job, and its lease has not expired."""
        return self.token is not None and self.free_at is not None and self.free_at > now

    def check(self, place: str) -> None:
        """Raise a LedgerError that names the column if a value can't be used."""
        damaged = find_damage(self, _RULES)
        if damaged is not None:
            raise damage_error(place, self.id, StoredJob._fields[damaged], self[damaged])

    def job(self, place: str) -> Job:
        """The job as it was added; `place` names the ledger if the row is damaged."""
        return Job(
            self.id,
            self.url,
            self.profile,
            self.label,
            self.size,
            parse_json(self.metadata, place, self.id),
            NO_TIMEOUT if self.timeout_s == NEVER else self.timeout_s,
        )

    def saved_progress(self, place: str) -> Optional[Dict[str, Any]]:
        """The progress of the wait as it was last saved, if any, and not edited by hand."""
        saved = parse_json(self.progress, place, self.id)
        return saved if _has_shape(saved, _PROGRESS) else None

    def parsed_outcome(self, place: str) -> Optional[Dict[str, Any]]:
        """The outcome, if it was read; a TypeError if it is not one."""
        outcome: Optional[Dict[str, Any]] = parse_json(self.outcome, place, self.id)
        if outcome is None or _has_shape(outcome, _OUTCOME):
            return outcome
        raise TypeError("an outcome of another shape")


_RULES = rules_for(StoredJob._fields)
_NOTHING = type(None)
_PROGRESS: Dict[str, Tuple[type, ...]] = {  # the types of the fields that are read
    "status": (str, _NOTHING),
    "fraction": (int, float, _NOTHING),
    "polls": (int,),
    "trouble": (list,),
}
_OUTCOME: Dict[str, Tuple[type, ...]] = {
    "status": (str, _NOTHING),
    "progress": (int, float, _NOTHING),
    "error": (dict, _NOTHING),
}


def _has_shape(value: Any, types: Dict[str, Tuple[type, ...]]) -> bool:
    """Whether a value is a dict whose fields have these types, if it has them."""
    if not isinstance(value, dict):
        return False
    return all(isinstance(value[name], types[name]) for name in types if name in value)


JOB_COLUMNS = ", ".join(StoredJob._fields[:-5])
INTENT_COLUMNS = ", ".join(StoredJob._fields[-5:-1])
CLAIMED_INTENT = (
    "idempotency_key submit_url body stage due_at first_sent_at sent_at faults last_fault".split()
)


def parse_json(text: Optional[str], place: str, job: str) -> Any:
    """A stored JSON value of a job, None if there is none; a LedgerError if it is damaged."""
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        raise LedgerError(
            "%s is damaged: the job %.80r has %.40r in place of JSON: %s"
            % (place, job, text, REMEDY)
        ) from None


def make_claims(
    jobs: Sequence[StoredJob], token: str, place: str, time: LedgerTime, outages: Sequence[Outage]
) -> List[Claim]:
    """The claims on leased jobs; `outages` are those in ledger time that may concern the jobs."""
    if not jobs:
        return []
    for job in jobs:
        job.check(place)
    earliest_at = min(job.added_at for job in jobs)
    relevant = tuple(
        move_outage(outage, -time.offset)
        for outage in outages
        if outage.ended_at is None or outage.ended_at > earliest_at
    )
    return [
        Claim(
            key=job.key,
            token=token,
            job=job.job(place),
            added_at=job.added_at - time.offset,
            saved=job.saved_progress(place),
            offset=time.offset,
            origin=job.origin,
            outages=relevant,
        )
        for job in jobs
    ]


def make_intent(
    columns: Sequence[Any], offset: float, place: str, job_id: Optional[str] = None
) -> Intent:
    """The intent of a claimed job, from CLAIMED_INTENT; its instants are in ledger time.

    `place` names the ledger if a value is damaged, and `job_id` the job, if it is known.
    """
    check_values(columns, CLAIMED_INTENT, place, job_id)
    key, url, body, stage, *instants, faults, last_fault = columns
    moved: List[Any] = [None if at is None else at - offset for at in instants]
    fields = [key, url, body, Stage(stage), *moved, faults, last_fault]
    return Intent(*fields)


def move_outage(outage: Outage, offset: float) -> Outage:
    """An outage on another clock, which differs by an offset."""
    return outage._replace(
        began_at=outage.began_at + offset,
        next_probe_at=outage.next_probe_at + offset,
        ended_at=None if outage.ended_at is None else outage.ended_at + offset,
    )


def make_row(stored: StoredJob, place: str, time: LedgerTime, outages: Sequence[Outage]) -> JobRow:
    """The row of a job as callers get it; `outages` are in ledger time.

    A row that was edited by hand may raise a TypeError.
    """
    stored.check(place)
    saved = stored.saved_progress(place) or {}
    is_settled = stored.ended_at is not None and stored.notify_at is None
    return JobRow(
        job=stored.job(place),
        state=LEASED if stored.is_leased(time.now) else stored.state,
        added_at=stored.added_at + time.wall_offset,
        due_at=time.to_wall(stored.due_at),
        progress={field: saved[field] for field in saved if not is_instant(field)},
        ended_at=time.to_wall(stored.ended_at),
        outcome=stored.parsed_outcome(place),
        notify_attempts=int(stored.notify_attempts),
        notified_at=time.to_wall(stored.notified_at),
        notify_error=stored.notify_error,
        gave_up_notifying=is_settled and stored.notified_at is None,
        origin=stored.origin,
        deadline=time.to_wall(_deadline(stored, saved, outages, time.now)),
        submission=_intent_status(stored),
    )


def _deadline(
    stored: StoredJob, saved: Dict[str, Any], outages: Sequence[Outage], now: float
) -> Optional[float]:
    """The deadline of a waiting job in ledger time; None if there is none or it is unknown.

    The saved deadline includes the outages before the last poll. None is saved if an outage has
    postponed the final poll.
    """
    if stored.ended_at is not None:
        return None
    try:
        if "deadline" in saved:
            deadline = float(saved["deadline"])
            since = float(saved["wait_from"])
        else:
            deadline = NEVER if stored.timeout_s is None else stored.added_at + stored.timeout_s
            since = stored.added_at
    except (KeyError, TypeError, ValueError):  # the row was edited by hand
        return None
    if not isfinite(deadline):
        return None
    return deadline + outage_seconds(outages, stored.origin or "", since, now)


def _intent_status(stored: StoredJob) -> Optional[IntentStatus]:
    if stored.stage is None or stored.submit_url is None:
        return None
    return IntentStatus(
        stored.submit_url, Stage(stored.stage), stored.faults or 0, stored.last_fault
    )


def summarize(rows: Iterable[Any], states: Sequence[str], now: float, place: str) -> Summary:
    """Count the jobs in these states (none: in any); `place` names the ledger if it is damaged.

    A row is the stored state of some jobs, whether they are leased, their number, when the oldest
    was added, and how many of them have a pending notification, one that was given up, and a fault
    as their last poll.
    """
    counts = dict.fromkeys([WAITING, LEASED, *(state.value for state in State)], 0)
    pending = 0
    gave_up = 0
    ages = []
    faulty = 0
    for stored_state, is_leased, jobs, oldest_added_at, *numbers in rows:
        check_values((stored_state, oldest_added_at), ("state", "added_at"), place, None)
        state = LEASED if is_leased else stored_state
        if states and state not in states:
            continue
        counts[state] += jobs
        pending += numbers[0]
        gave_up += numbers[1]
        faulty += numbers[2]
        if stored_state == WAITING:
            ages.append(max(0.0, now - oldest_added_at))
    return Summary(counts, max(ages, default=None), pending, gave_up, faulty)
