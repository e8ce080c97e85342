"""Reads the data of a report from a ledger or from a file of outcomes."""

import os
import sys
from collections import Counter
from datetime import datetime, timezone
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

from ...core.learning.durations import Durations
from ...core.model import Slept, State, display_id, one_line
from ...core.profiles.profile import Profile, profile_for_job, to_pace
from ...core.units import parse_limit, rounded_duration
from ...core.waiting.pace import Adaptive, Pace
from ...edges.ledger.ledger import Ledger
from ...edges.ledger.records import JobRow, StoredBucket
from ...errors import ConfigError
from ..inputs.batch_resume import parse_outcome
from .records import Kind, ReportData, ReportJob, RequestLimit

LONGEST_ID = 60
LONGEST_LABEL = 40
LONGEST_MESSAGE = 300
MOST_KINDS = 12
MOST_POLLS = 40  # instants at which a pace would poll that are shown
LAST_SURVIVAL = 0.03  # they end when so few jobs are still running

KindName = Tuple[str, str]  # profile and label


class Selection(NamedTuple):
    """The jobs to report: those that were active in the last `since_s`, with this label."""

    now: float
    since_s: Optional[float] = None
    label: Optional[str] = None

    @property
    def since(self) -> float:
        """The instant from which on jobs are reported."""
        return 0.0 if self.since_s is None else self.now - self.since_s

    def has(self, job: ReportJob) -> bool:
        """Whether a job is reported."""
        is_recent = job.ended_at is None or job.ended_at >= self.since
        return is_recent and (self.label is None or job.label == _short_label(self.label))

    def __str__(self) -> str:
        parts = []
        if self.since_s is not None:
            parts.append("the last %s" % rounded_duration(self.since_s))
        if self.label is not None:
            parts.append("label %s" % _short_label(self.label))
        return ", ".join(parts)


def read_ledger(ledger: Ledger, title: str, selection: Selection) -> ReportData:
    """The data of a ledger."""
    rows = ledger.jobs(label=selection.label)
    jobs = [job for job in map(_job_from_row, rows) if selection.has(job)]

    def durations_of(kind: KindName, jobs_of_kind: List[ReportJob]) -> Durations:
        durations = Durations()
        durations.relearn(*ledger.statistics.observed(*kind))
        return durations

    return ReportData(
        title,
        selection.now,
        jobs,
        _find_kinds(jobs, durations_of),
        str(selection),
        ledger.statistics.minutes(max(selection.since, _first_start(jobs))),
        {name: limit for name, limit in map(_request_limit, ledger.limits().items()) if limit},
        ledger.outages(max(selection.since, _first_start(jobs))),
        ledger.statistics.faults_by_kind(selection.since),
    )


def read_outcomes(path: str, selection: Selection) -> ReportData:
    """The data of a file of outcomes, one JSON object per line; '-' is standard input.

    Lines that are no outcomes are skipped. The last outcome of a job counts: batch --resume polls
    some jobs again, and an outbox may have a line twice.
    """
    title = "outcomes" if path == "-" else os.path.basename(path)
    try:
        if path == "-":
            read, skipped = _read_lines(sys.stdin.buffer)
        else:
            with open(path, "rb") as file:
                read, skipped = _read_lines(file)
    except OSError as error:
        raise ConfigError("--from: can't read %s: %s" % (path, error.strerror)) from None
    jobs = [job for job in read if selection.has(job)]
    jobs.sort(key=lambda job: job.began_at)

    def durations_of(kind: KindName, jobs_of_kind: List[ReportJob]) -> Durations:
        return Durations(job.duration_s for job in jobs_of_kind)

    kinds = _find_kinds(jobs, durations_of)
    return ReportData(title, selection.now, jobs, kinds, str(selection), skipped_lines=skipped)


def _read_lines(lines: Iterable[bytes]) -> Tuple[List[ReportJob], int]:
    """The jobs in a file of outcomes, and the number of lines that are no outcomes."""
    jobs: Dict[Tuple[str, str], ReportJob] = {}
    skipped = 0
    for line in lines:
        outcome = parse_outcome(line)
        job = None if outcome is None else _job_from_outcome(outcome)
        if outcome is None or job is None:
            skipped += 1
        else:
            jobs[outcome["id"], outcome.get("profile") or ""] = job
    return list(jobs.values()), skipped


def _short_label(text: str) -> str:
    return one_line(text, LONGEST_LABEL)


def _first_start(jobs: Iterable[ReportJob]) -> float:
    return min((job.began_at for job in jobs), default=0.0)


def _job_from_row(row: JobRow) -> ReportJob:
    job = _job_from_outcome(row.outcome) if row.outcome is not None else None
    if job is not None:
        return job
    slept = row.progress.get("slept", ())
    return ReportJob(
        id=one_line(display_id(row.job), LONGEST_ID),
        profile=_short_label(row.job.profile or ""),
        label=_short_label(row.job.label or ""),
        state=row.state,
        began_at=row.added_at,
        ended_at=row.ended_at,
        polls=int(row.progress.get("polls", 0)),
        faults=row.faults,
        slept=Slept(*slept[: len(Slept._fields)]),
        error_message=one_line(row.last_fault or "", LONGEST_MESSAGE),
    )


def _job_from_outcome(outcome: Dict[str, Any]) -> Optional[ReportJob]:
    """The job of an outcome; None if it lacks something."""
    try:
        error = outcome.get("error") or {}
        slept = outcome.get("slept_s") or {}
        delay = outcome.get("notice_delay_s")
        return ReportJob(
            id=one_line(str(outcome["id"]), LONGEST_ID),
            profile=_short_label(outcome.get("profile") or ""),
            label=_short_label(outcome.get("label") or ""),
            state=State(outcome["state"]).value,
            began_at=_parse_instant(outcome["started_at"]),
            ended_at=_parse_instant(outcome["ended_at"]),
            polls=int(outcome.get("polls", 0)),
            faults=int(outcome.get("faults", 0)),
            slept=Slept(*(float(slept.get(reason, 0.0)) for reason in Slept._fields)),
            notice_delay_s=None if delay is None else float(delay),
            error_code=_short_label(str(error.get("code") or "")),
            error_message=one_line(str(error.get("message") or ""), LONGEST_MESSAGE),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _parse_instant(text: str) -> float:
    """The instant of a text that `iso_text` wrote."""
    parsed = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ")
    return parsed.replace(tzinfo=timezone.utc).timestamp()


def _request_limit(item: Tuple[str, StoredBucket]) -> Tuple[str, Optional[RequestLimit]]:
    name, stored = item
    if stored.rule:
        limit = parse_limit(stored.rule)
        return name, RequestLimit(60 * limit.polls / limit.per, "limit %s" % (limit,))
    if stored.bucket.rate is not None:
        return name, RequestLimit(60 * stored.bucket.rate, "learned limit")
    return name, None


def _find_kinds(
    jobs: List[ReportJob], durations_of: Callable[[KindName, List[ReportJob]], Durations]
) -> List[Kind]:
    """The kinds with the most finished jobs."""
    finished = [job for job in jobs if job.state == State.DONE.value]
    counts = Counter((job.profile, job.label) for job in finished)
    kinds = []
    for name, _ in counts.most_common(MOST_KINDS):
        of_kind = [job for job in finished if (job.profile, job.label) == name]
        durations = durations_of(name, of_kind)
        pace = _find_pace(*name)
        kinds.append(
            Kind(
                of_kind[0].kind,
                [max(0.0, job.duration_s) for job in of_kind],
                durations.curve,
                str(pace),
                _poll_ages(pace, durations),
            )
        )
    return kinds


def _find_pace(profile: str, label: str) -> Pace:
    """The pace of a profile and label; the default if this host does not know the profile."""
    found = Profile()
    if profile:
        from ...edges.profiles.catalog import find_profile  # late: it reads INI files

        try:
            found = profile_for_job(find_profile(profile), label or None, None)
        except ConfigError:
            return Adaptive()
    return to_pace(found.pace)


def _poll_ages(pace: Pace, durations: Durations) -> List[float]:
    """The ages at which a pace polls a new job, until nearly all jobs have finished."""
    age = pace.first_delay(durations)
    ages = [age]
    delay: Optional[float] = 0.0
    while len(ages) < MOST_POLLS and durations.curve.survival(age) > LAST_SURVIVAL:
        delay = pace.delay(len(ages), delay or 0.0, age, 0.5, durations=durations)
        if delay is None:  # it has made all of its attempts
            break
        age += delay
        ages.append(age)
    return ages
