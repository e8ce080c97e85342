"""The text of `status`: outages, counts, and one row per job."""

import pytest

from pollkit import Job
from pollkit.cli.arguments.job_deadlines import Deadlines
from pollkit.cli.output.status_text import (
    age_text,
    headline,
    job_cells,
    job_deadline,
    job_table,
    next_poll_at,
)
from pollkit.cli.progress.terminal import width_of
from pollkit.core.scheduling.outages import Outage
from pollkit.edges.ledger.records import JobRow, Summary

LONG_URL = "https://api.internal/v1/projects/north/renderings/weekly/jobs/%d"
NOW = 1800000000.0  # 2027-01-15 08:00 UTC
ORIGIN = "https://api.internal"
REFUSED = "10.0.0.5:443 refused the connection"
OUTAGE = Outage(ORIGIN, NOW - 2700, REFUSED, NOW + 12)
POLLED = {"polls": 3, "status": "running", "fraction": 0.4}
FAULTY = dict(POLLED, faults=2, last_fault=REFUSED, why="fault")


def waiting(job="job_1", progress=POLLED, **changes):
    row = JobRow(
        job=Job(job),
        state="waiting",
        added_at=NOW - 60,
        due_at=NOW + 5,
        progress=progress,
        ended_at=None,
        outcome=None,
        notify_attempts=0,
        notified_at=None,
        notify_error=None,
        gave_up_notifying=False,
        origin=ORIGIN,
        deadline=NOW + 7200,
    )
    return row._replace(**changes)


def finished(job="job_2", state="failed", error="no such page", **changes):
    outcome = {
        "status": state,
        "progress": None,
        "polls": 7,
        "faults": 1,
        "error": {"code": None, "message": error},
    }
    changes = dict({"deadline": None, "ended_at": NOW - 90, "due_at": None}, **changes)
    return waiting(job, progress={}, state=state, outcome=outcome, **changes)


def table(*rows, width=None, outages=()):
    return job_table([job_cells(row, outages, Deadlines(), NOW) for row in rows], width)


def test_a_waiting_job_shows_its_next_poll_and_its_deadline():
    assert table(waiting()) == [
        "ID     STATE    STATUS   PROGRESS  POLLS  NEXT POLL  DEADLINE",
        "job_1  waiting  running  40%       3      in 5s      in 2h",
    ]


def test_a_job_whose_last_poll_was_a_fault_shows_it():
    assert table(waiting(progress=FAULTY)) == [
        "ID     STATE    STATUS   PROGRESS  POLLS  FAULTS  NEXT POLL  DEADLINE  PROBLEM",
        "job_1  waiting  running  40%       3      2       in 5s      in 2h     " + REFUSED,
    ]
    recovered = table(waiting(progress=dict(FAULTY, why="pace")))
    assert "FAULTS" in recovered[0] and "PROBLEM" not in recovered[0]


def test_a_finished_job_shows_its_error_and_its_notification():
    rows = [
        finished(notify_attempts=2, notify_error="exited with 1"),
        finished("job_3", "timed_out", "not done within 5m", notified_at=NOW),
        finished("job_4", "done", "ignored", gave_up_notifying=True),
    ]
    problem = "no such page; notification failed (attempt 2): exited with 1"
    assert table(*rows) == [
        "ID     STATE      STATUS     POLLS  FAULTS  ENDED      NOTIFIED  PROBLEM",
        "job_2  failed     failed     7      1       1m30s ago  pending   " + problem,
        "job_3  timed_out  timed_out  7      1       1m30s ago  yes       not done within 5m",
        "job_4  done       done       7      1       1m30s ago  gave up   -",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_the_table_fits_and_keeps_the_problem_on_a_narrow_terminal(width):
    lines = table(waiting("x" * 70, progress=FAULTY), finished(), width=width)
    assert max(map(width_of, lines)) <= width
    assert lines[0].split()[:2] == ["ID", "STATE"] and lines[0].endswith("PROBLEM")
    assert " 10.0.0.5:443" in lines[1]


@pytest.mark.parametrize(
    "row, expected",
    [
        (waiting(), NOW + 5),
        (waiting(due_at=NOW + 30), NOW + 30),
        (waiting(origin="https://other"), NOW + 5),
        (finished(), None),
    ],
)
def test_the_next_poll_of_a_job_whose_origin_is_down_is_not_before_the_next_probe(row, expected):
    assert next_poll_at(row, []) == expected
    is_held = row.origin == ORIGIN and expected is not None
    assert next_poll_at(row, [OUTAGE]) == (max(expected, NOW + 12) if is_held else expected)


def test_after_a_fault_the_next_poll_is_the_next_probe_although_the_job_itself_is_due_later():
    faulty = waiting(progress=FAULTY, due_at=NOW + 30)
    assert next_poll_at(faulty, [OUTAGE]) == NOW + 12
    assert next_poll_at(faulty, []) == NOW + 30


def test_the_deadline_of_a_job_that_was_never_polled_is_computed():
    deadlines = Deadlines()
    unpolled = waiting(progress={}, deadline=None)
    assert job_deadline(unpolled, deadlines) == NOW - 60 + 86400
    assert job_deadline(unpolled._replace(job=Job("a", timeout="never")), deadlines) is None
    assert job_deadline(waiting(deadline=None), deadlines) is None  # it was polled and has none
    assert job_deadline(finished(), deadlines) is None


def summary(faulty=0, pending=0, gave_up=0, oldest_s=3725.0, **states):
    return Summary(dict({"waiting": 0, "done": 0}, **states), oldest_s, pending, gave_up, faulty)


@pytest.mark.parametrize(
    "counts, expected",
    [
        (summary(oldest_s=None), "no jobs"),
        (summary(waiting=1), "1 waiting; the oldest has waited for 1h2m"),
        (
            summary(waiting=2, timed_out=1, faulty=1),
            "2 waiting, 1 timed_out; the oldest has waited for 1h2m; 1 job with a fault",
        ),
        (
            summary(done=3, oldest_s=None, pending=1, gave_up=2),
            "3 done; 1 notification pending; 2 notifications given up",
        ),
    ],
)
def test_the_headline_counts_jobs_by_the_names_that_the_flags_take(counts, expected):
    assert headline(counts, [], NOW) == [expected]


def test_the_first_line_is_about_the_outage():
    first, second = headline(summary(waiting=1), [OUTAGE], NOW)
    assert first == (
        "https://api.internal has been down for 45m, since 2027-01-15 07:15 UTC: "
        "10.0.0.5:443 refused the connection; next try in 12s"
    )
    assert second == "1 waiting; the oldest has waited for 1h2m"
    many = headline(summary(), [OUTAGE] * 7, NOW)
    assert len(many) == 7 and many[5] == "2 more are down"


def test_a_limit_that_delays_polls_has_a_line_the_dearest_first():
    prices = {"cheap\x1b[2J": 2.54, "knowhere": 12.34, **{"c%d" % i: 0.1 for i in range(9)}}
    lines = headline(summary(waiting=1), [], NOW, shadow_prices=prices)
    assert len(lines) == 6 and lines[-1].startswith("1 waiting")
    assert lines[0] == (
        "the rate limit of knowhere delays polls: one more request per minute would save about "
        "12s of notice delay per minute"
    )
    assert lines[1].isprintable() and "about 2.5s" in lines[1]


def test_no_limit_delays_polls_once_all_jobs_have_finished():
    finished = summary(done=1, oldest_s=None)
    (line,) = headline(finished, [], NOW, shadow_prices={"knowhere": 12.34})
    assert line.startswith("1 done")


def test_server_text_in_an_outage_is_one_line():
    outage = OUTAGE._replace(last_fault="a\x1b[2J\nb" + "x" * 3000, next_probe_at=NOW)
    (line, _) = headline(summary(), [outage], NOW)
    assert line.isprintable() and len(line) < 400 and "next try" not in line


def test_the_headline_is_wrapped_on_a_narrow_terminal():
    lines = headline(summary(waiting=1), [OUTAGE], NOW, width=40)
    assert max(map(len, lines)) <= 40 and lines[0].startswith("https://api.internal has been down")


@pytest.mark.parametrize(
    "age_s, expected",
    [
        (-1, "0s"),
        (0.6, "1s"),
        (90, "1m30s"),
        (86399.0, "24h"),
        (5400, "1h30m"),
        (86400 * 2.5, "2d"),
    ],
)
def test_ages_are_rounded(age_s, expected):
    assert age_text(age_s) == expected


@pytest.mark.parametrize("width", [None, 60])
def test_long_urls_keep_their_ends_where_they_differ(width):
    rows = [waiting(LONG_URL % number) for number in (41, 42)]
    lines = job_table([job_cells(row, [], Deadlines(), NOW) for row in rows], width)
    assert [line.split()[0][-8:] for line in lines[1:]] == ["/jobs/41", "/jobs/42"]
