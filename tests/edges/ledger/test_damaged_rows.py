"""Values that no pollkit has written: the error names the job, the column and the remedy."""

from math import inf, nan

import pytest

from ledger_host import RULES, count_polls, poll_job
from pollkit import Ledger, LedgerError, LedgerRunner, Profile
from pollkit.core.model import Counts, Job
from pollkit.core.reading.verdict import Verdict
from pollkit.core.scheduling.outages import Outage
from pollkit.core.submitting.intent import Intent
from pollkit.edges.ledger.rows import job_to_row

REMEDY = "restore a backup, or remove the job (pollkit forget) and add it again"
TABLES = {  # in PostgreSQL, of the columns that `job` does not have there
    "due_at": "due",
    "progress": "progress",
    "ended_at": "outcome",
    "notice_delay_s": "outcome",
    "notified_at": "notification",
    "first_sent_at": "intent",
    "stage": "intent",
}
PROFILE = Profile(url="http://127.0.0.1:9/{id}", submit_url="http://127.0.0.1:9/", proxy="none")


def damage(ledger, name, column, value):
    """Write a value to the row of a job, as another program would."""
    storage = ledger._storage
    if hasattr(storage, "database"):
        table = TABLES.get(column, "job")
        key = "key" if table == "job" else "job"
        found = "(SELECT key FROM pollkit.job WHERE id = %s)"
        statement = "UPDATE pollkit.%s SET %s = %%s WHERE %s = " % (table, column, key)
        storage.database.query(statement + found, value, name)
        return
    table = "intents" if TABLES.get(column) == "intent" else "jobs"
    statement = "UPDATE %s SET %s = ? WHERE key = (SELECT key FROM jobs WHERE id = ?)"
    storage.file.write(lambda db: db.execute(statement % (table, column), (value, name)))


@pytest.fixture
def jobs(ledger, leases, clock):
    """A job that has finished, one that waits, and one that is to be submitted."""
    ledger.add(["finished"])
    poll_job(ledger, leases.claim(1)[0], Verdict.DONE)
    ledger.add(["waiting"])
    (claim,) = leases.claim(1)
    poll_job(ledger, claim)
    intent = Intent("key", "http://127.0.0.1:9/", "{}")
    submission = ledger._intents.add(job_to_row(Job("submit-1")), intent)
    leases.release([claim, submission])
    clock.pass_s(100)
    return ledger


def use_all(ledger):
    """Everything that reads the rows of jobs."""
    ledger.summary()
    list(ledger.jobs())
    ledger.statistics.notice_delays()
    ledger.statistics.durations_of_done_jobs()
    ledger._notifications.claim(9)
    LedgerRunner(ledger, PROFILE).run(once=True)


@pytest.mark.parametrize(
    "name, column, value",
    [
        ("waiting", "added_at", inf),
        ("waiting", "added_at", -inf),
        ("waiting", "added_at", -5.0),
        ("waiting", "due_at", inf),
        ("waiting", "due_at", 1e300),
        ("waiting", "timeout_s", -1.0),
        ("waiting", "timeout_s", 1e300),
        ("waiting", "size", inf),
        ("waiting", "progress", "nonsense"),
        ("finished", "ended_at", inf),
        ("finished", "ended_at", -1.0),
        ("finished", "notified_at", inf),
        ("finished", "notice_delay_s", inf),
        ("submit-1", "first_sent_at", inf),
        ("submit-1", "stage", "nonsense"),
    ],
)
def test_an_impossible_value_is_named_with_the_remedy(jobs, name, column, value):
    assert len(list(jobs.jobs())) == 3
    damage(jobs, name, column, value)
    with pytest.raises(LedgerError) as caught:
        use_all(jobs)
    text = str(caught.value)
    assert text.startswith(jobs.name + " is damaged") and "\n" not in text
    assert REMEDY in text or "a row has" in text


def test_the_message_names_the_job_and_the_column(jobs):
    damage(jobs, "waiting", "due_at", inf)
    with pytest.raises(LedgerError) as caught:
        list(jobs.jobs())
    assert str(caught.value) == (
        "%s is damaged, or another program has changed it: the job 'waiting' has inf as due_at, "
        "which must be an instant: %s" % (jobs.name, REMEDY)
    )


def test_progress_with_impossible_instants_is_not_used(jobs, leases):
    """The wait starts over, as after any other change of it by hand."""
    damage(jobs, "waiting", "progress", '{"started_at":1,"next_at":Infinity,"wait_from":NaN}')
    claims = {claim.job.id: claim for claim in leases.claim(9)}
    assert claims["waiting"].resume("u", RULES, 0.0).polls == 0


@pytest.mark.parametrize("storage", ["sqlite"], indirect=True)
@pytest.mark.parametrize("column", ["id", "url", "profile", "label", "added_at", "due_at", "state"])
def test_a_text_that_is_none_and_an_instant_that_is_text_are_named(jobs, column):
    damage(jobs, "waiting", column, b"\xff\x00")
    with pytest.raises(LedgerError, match="is damaged.* (%s|a state)" % column):
        use_all(jobs)


@pytest.mark.parametrize("words", [["status"], ["run", "--once"], ["report", "-o", "r.html"]])
def test_a_command_exits_with_2_and_one_line(pollkit, path, words, place):
    with Ledger(path) as ledger:
        ledger.add(["waiting"])
        damage(ledger, "waiting", "added_at", inf)
    code, out, err = pollkit(words[0], path, *words[1:])
    assert (code, len(err.splitlines())) == (2, 1)
    assert "is damaged" in err and "added_at" in err and "bug" not in err


@pytest.mark.parametrize("column", ["began_at", "next_probe_at"])
def test_an_outage_with_an_impossible_instant_is_named(ledger, outages, clock, column):
    outages.begin(Outage("http://127.0.0.1:9", clock.now(), "down", clock.now() + 60))
    if hasattr(ledger._storage, "database"):
        ledger._storage.database.query("UPDATE pollkit.outage SET %s = %%s" % column, inf)
    else:
        change = "UPDATE outages SET %s = ?" % column
        ledger._storage.file.write(lambda db: db.execute(change, (inf,)))
    for read in (ledger.outages, outages.current):
        with pytest.raises(LedgerError, match="is damaged.* has inf as " + column):
            read()


@pytest.mark.parametrize("storage", ["sqlite"], indirect=True)
@pytest.mark.parametrize("value", [inf, "many", b"\x00", -1])
def test_impossible_counts_are_named(ledger, statistics, value):
    ledger.add(["a"])
    poll_job(ledger, ledger._leases.claim(1)[0])
    count_polls(ledger, Counts(3))
    ledger._storage.file.write(lambda db: db.execute("UPDATE minutes SET polls = ?", (value,)))
    with pytest.raises(LedgerError, match="is damaged.* as polls"):
        statistics.minutes()


@pytest.mark.parametrize("storage", ["sqlite"], indirect=True)
def test_a_limit_that_is_no_text_is_named(ledger):
    ledger.bucket("60/m")
    ledger._storage.file.write(lambda db: db.execute("UPDATE buckets SET rule = ?", (b"60/m",)))
    with pytest.raises(LedgerError, match="b'60/m' as rule, which must be text"):
        ledger.limits()


@pytest.mark.parametrize("storage", ["postgres"], indirect=True)
def test_a_nan_is_impossible_too(jobs):
    for column in ("due_at", "ended_at", "added_at"):
        name = "finished" if column == "ended_at" else "waiting"
        damage(jobs, name, column, nan)
        with pytest.raises(LedgerError, match="has nan as %s" % column):
            list(jobs.jobs(ids=[name]))
        damage(jobs, name, column, 1.0)


@pytest.mark.parametrize("storage", ["sqlite"], indirect=True)
@pytest.mark.parametrize("column", ["now", "wall", "at"])
def test_an_impossible_time_of_the_ledger_is_named(jobs, column):
    statement = "UPDATE time SET %s = ?" % column
    jobs._storage.file.write(lambda db: db.execute(statement, (inf,)))
    with pytest.raises(LedgerError, match="is damaged.* has inf as " + column):
        list(jobs.jobs())
