"""The data of a report: from a ledger, and from a file of outcomes."""

import pytest

from ledger_host import count_polls, poll_job
from pollkit import Job
from pollkit.cli.report.loading import Selection, read_ledger, read_outcomes
from pollkit.core.model import Counts, Slept
from pollkit.core.reading.verdict import Verdict
from pollkit.core.scheduling.outages import Outage
from report_files import BEGAN_AT, outcome, write_outcomes

ORIGIN = "https://api.internal"


def test_a_ledger_gives_jobs_requests_limits_outages_and_faults(ledger, leases, outages, clock):
    ledger.add([Job("a", label="small"), Job("b", label="small"), Job("c", label="large")])
    claims = leases.claim(9)
    ledger.bucket("60/m", ORIGIN).reserve(clock.now(), clock.now())
    count_polls(ledger, Counts(5, 1, 2, 3), origin=ORIGIN)
    ledger.statistics.add_faults({"http 503": 4})
    outages.begin(Outage(ORIGIN, clock.now(), "refused", clock.now()))
    clock.pass_s(30)
    outages.end(ORIGIN, 0.0)
    poll_job(ledger, claims[0], Verdict.DONE, duration_s=25.0, notice_delay_s=5.0)
    poll_job(ledger, claims[1], Verdict.FAILED, error_code="E1", error_message="no face")
    data = read_ledger(ledger, "jobs.db", Selection(clock.wall()))
    done, failed, waiting = data.jobs
    assert (done.id, done.label, done.state, done.notice_delay_s) == ("a", "small", "done", 5.0)
    assert done.duration_s == pytest.approx(25.0, abs=0.01)
    assert (failed.state, failed.error_code, failed.error_message) == ("failed", "E1", "no face")
    assert (waiting.state, waiting.ended_at, waiting.slept) == ("leased", None, Slept())
    assert [kind.name for kind in data.kinds] == ["small"]
    assert data.kinds[0].curve.survival(1.0) > 0.9 > data.kinds[0].curve.survival(60.0)
    assert sum(minute.counts.rate_limited for minute in data.minutes) == 2
    assert data.limits[ORIGIN] == (60.0, "limit 60/m")
    (outage,) = data.outages
    assert outage.ended_at - outage.began_at == pytest.approx(30)
    assert data.fault_kinds == {"http 503": 4}


def test_a_selection_leaves_out_old_jobs_and_other_labels(ledger, leases, clock):
    ledger.add([Job("old", label="x")])
    poll_job(ledger, leases.claim(1)[0], Verdict.DONE)
    clock.pass_s(7200)
    ledger.add([Job("new", label="x"), Job("other", label="y")])
    for claim in leases.claim(9):
        poll_job(ledger, claim, Verdict.DONE)

    def ids(**selection):
        data = read_ledger(ledger, "jobs.db", Selection(clock.wall(), **selection))
        return [job.id for job in data.jobs], data.filters

    assert ids() == (["old", "new", "other"], "")
    assert ids(since_s=3600.0) == (["new", "other"], "the last 1h")
    assert ids(label="x", since_s=3600.0) == (["new"], "the last 1h, label x")


def test_outcomes_are_read_in_the_order_of_their_starts_and_other_lines_are_skipped(tmp_path):
    path = tmp_path / "out.jsonl"
    later = outcome("later", began_at=BEGAN_AT + 9, label="x", slept_s={"pace": 50, "limit": 10})
    write_outcomes(
        path, [later, outcome("first"), outcome("bad", started_at="yesterday"), {"a": 1}]
    )
    with open(str(path), "ab") as file:
        file.write(b'not json\n[1]\n{"id": "half')
    data = read_outcomes(str(path), Selection(BEGAN_AT + 999))
    assert [job.id for job in data.jobs] == ["first", "later"]
    assert data.jobs[1].slept == Slept(50.0, 10.0)
    assert data.minutes is None
    assert [kind.name for kind in data.kinds] == ["media", "media:x"]
    chosen = read_outcomes(str(path), Selection(BEGAN_AT + 999, label="x"))
    assert [job.id for job in chosen.jobs] == ["later"]


def test_the_last_outcome_of_a_job_counts(tmp_path):
    """batch --resume appends the outcomes of the jobs that it polls again."""
    path = write_outcomes(
        tmp_path / "out",
        [outcome("a", state="unreachable"), outcome("a", profile="other"), outcome("a")],
    )
    jobs = read_outcomes(path, Selection(BEGAN_AT + 999)).jobs
    assert sorted((job.profile, job.state) for job in jobs) == [
        ("media", "done"),
        ("other", "done"),
    ]


def test_texts_are_bounded_and_on_one_line(tmp_path):
    long = "line\n" * 9999
    error = {"code": long, "message": long}
    path = write_outcomes(
        tmp_path / "out", [outcome(long, label=long, profile=long, state="failed", error=error)]
    )
    (job,) = read_outcomes(path, Selection(BEGAN_AT)).jobs
    texts = (job.id, job.label, job.profile, job.error_code, job.error_message)
    assert all(len(text) <= 300 and "\n" not in text for text in texts)


def test_the_polls_of_a_kind_are_those_of_its_pace(tmp_path, home, write, monkeypatch):
    monkeypatch.setenv(
        "POLLKIT_PROFILES", write("[media]\nurl = http://x/{id}\npace = fixed 20s\n")
    )
    path = write_outcomes(tmp_path / "out", [outcome("job_%d" % i) for i in range(9)])
    (kind,) = read_outcomes(path, Selection(BEGAN_AT)).kinds
    assert kind.pace == "fixed 20s"
    assert kind.poll_ages[:4] == [0.0, 20.0, 40.0, 60.0]
    unknown = write_outcomes(tmp_path / "more", [outcome("job", profile="nobody knows")])
    assert read_outcomes(unknown, Selection(BEGAN_AT)).kinds[0].pace == "adaptive"
