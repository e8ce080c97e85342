"""Commands on a ledger in PostgreSQL."""

import json

import pytest

import postgres_server
from ledger_host import new_place
from pollkit import Ledger


@pytest.fixture
def url():
    postgres_server.skip_unless_available()
    with new_place("postgres") as place:
        yield place


def test_jobs_are_added_polled_shown_and_forgotten(api, url, pollkit):
    for name in ("job_1", "job_2"):
        api.add(name, result={"pages": 3})
    code, out, err = pollkit("add", url, "job_1", "job_2", "--profile", "fake")
    assert (code, out) == (0, "") and err.startswith("pollkit: 2 added; ")
    assert pollkit("status", url)[0] == 5
    assert pollkit("run", url, "--dry-run")[1].startswith("2 jobs wait: 2 due now")
    assert pollkit("run", url, "--outbox", "out", "--metrics", "metrics") == (0, "", "")
    with open("out") as file:
        assert sorted(json.loads(line)["id"] for line in file) == ["job_1", "job_2"]
    with open("metrics") as file:
        assert 'ledger="%s"' % url in file.read()
    code, out, _ = pollkit("status", url, "--json")
    assert (code, json.loads(out)["summary"]["done"]) == (0, 2)
    assert pollkit("history", "--ledger", url)[0] == 0
    assert pollkit("retry", url, "job_1")[2] == "pollkit: 1 waits again\n"
    assert pollkit("run", url, "--processes", "2", "--limit", "100/s", "--profile", "fake")[0] == 0
    assert pollkit("forget", url, "--finished")[2] == "pollkit: 2 forgotten\n"


def test_the_password_is_not_passed_on_to_programs(api, url, pollkit, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "s3cr3t")
    for flags, expected in (([], "none"), (["--exec-env", "PGPASSWORD"], "s3cr3t")):
        api.add("job_1", result=1)
        pollkit("add", url, "job_1", "--profile", "fake")
        program = ["sh", "-c", "echo ${PGPASSWORD:-none} > seen"]
        assert pollkit("run", url, *flags, "--exec", *program)[0] == 0
        with open("seen") as file:
            assert file.read() == expected + "\n"
        pollkit("forget", url, "--finished")


@pytest.mark.parametrize(
    "words, message",
    [
        (["status", "postgresql://me:s3cr3t@db/jobs"], "must not have a password"),
        (["run", "postgresql://me@127.0.0.1:1/jobs"], "can't be reached"),
        (["ledger", "move", "a.db", "b.db"], "copy FROM TO"),
        (["ledger", "copy", "a.db"], "copy FROM TO"),
        (["ledger", "migrate", "a.db", "b.db"], "migrate LEDGER"),
        (["ledger", "migrate", "a.db"], "no such file"),
        (["ledger", "copy", "a.db", "b.db"], "no such file"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(place, pollkit, words, message):
    postgres_server.skip_unless_available()
    code, out, err = pollkit(*words)
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1
    assert "s3cr3t" not in err


def test_a_file_is_copied_to_a_database_and_back(described, url, pollkit):
    pollkit("add", "jobs.db", "job_1", "job_2", "--profile", "fake")
    code, _, err = pollkit("ledger", "copy", "jobs.db", url)
    assert code == 0 and "2 jobs copied and compared, 2 of them now" in err
    assert "0 of them now" in pollkit("ledger", "copy", "jobs.db", url)[2]
    assert pollkit("ledger", "copy", url, "back.db")[0] == 0
    assert pollkit("ledger", "copy", "back.db", "back.db")[0] == 2
    with Ledger("back.db") as ledger:
        assert [row.job.id for row in ledger.jobs()] == ["job_1", "job_2"]


def test_tables_are_migrated_on_request(described, url, pollkit):
    assert pollkit("ledger", "migrate", url)[0] == 2
    pollkit("add", url, "job_1", "--profile", "fake")
    assert pollkit("ledger", "migrate", url)[2] == (
        "pollkit: the tables are the newest already: version 1\n"
    )
    pollkit("add", "jobs.db", "job_1", "--profile", "fake")
    assert pollkit("ledger", "migrate", "jobs.db")[2] == "pollkit: jobs.db has the newest tables\n"


def test_the_doctor_examines_the_server(described, url, pollkit):
    code, out, _ = pollkit("doctor", url)
    assert code == 0 and "PostgreSQL" in out and "no ledger yet" in out
    Ledger(url).close()
    code, out, _ = pollkit("doctor", url)
    assert code == 0 and "version 1" in out and "agree" in out
    server = postgres_server.shared_server()
    name = url.rpartition("/")[2]
    server.execute("ALTER DATABASE %s SET default_transaction_read_only = on" % name)
    code, out, _ = pollkit("doctor", url)
    assert code == 4 and "read-only" in out and "name the primary" in out
    code, out, _ = pollkit("doctor", "postgresql://me@127.0.0.1:1/jobs")
    assert code == 4 and "can't be reached" in out


def run_during_a_transaction(url, command):
    """The result of a command while a transaction of the superuser keeps dead rows."""

    def work(db):
        db.query("DECLARE c CURSOR FOR SELECT * FROM pollkit.job")
        return command()

    with Ledger(url) as ledger:
        return ledger._storage.database.run(work)


OLD_TRANSACTION = "a transaction has been open for"


@pytest.fixture
def any_transaction_is_old(monkeypatch):
    from pollkit.drivers.doctor import ledger_findings

    monkeypatch.setattr(ledger_findings, "OLD_TRANSACTION_S", 0.0)


def test_the_doctor_finds_an_old_transaction(described, url, pollkit, any_transaction_is_old):
    code, out, _ = run_during_a_transaction(url, lambda: pollkit("doctor", url))
    assert code == 0 and OLD_TRANSACTION in out


def test_the_status_begins_with_an_old_transaction(url, pollkit, any_transaction_is_old):
    code, out, err = run_during_a_transaction(url, lambda: pollkit("status", url))
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert first.startswith(OLD_TRANSACTION) and "pg_stat_activity" in first
    assert second == "no jobs"
    assert OLD_TRANSACTION not in pollkit("status", url)[1]


def test_the_status_does_not_mention_a_new_transaction(url, pollkit):
    assert run_during_a_transaction(url, lambda: pollkit("status", url))[1] == "no jobs\n"


def test_the_status_ignores_transactions_in_other_databases(url, pollkit, any_transaction_is_old):
    """They do not keep vacuum from the rows of this one."""
    Ledger(url).close()
    with new_place("postgres") as other:
        found = run_during_a_transaction(other, lambda: pollkit("status", url))
    assert found == (0, "no jobs\n", "")


@pytest.fixture
def as_reader(url):
    """The URL for a user who may only read the tables of the ledger."""
    Ledger(url).close()
    server = postgres_server.shared_server()
    name = url.rpartition("/")[2]
    server.execute(
        "CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA pollkit TO reader;"
        "GRANT SELECT ON ALL TABLES IN SCHEMA pollkit TO reader",
        name,
    )
    yield url.replace(postgres_server.USER + "@", "reader@")
    server.execute("DROP OWNED BY reader; DROP ROLE reader", name)


@pytest.mark.parametrize("may_read_view", [True, False])
def test_the_status_is_silent_about_transactions_that_the_user_may_not_see(
    url, as_reader, pollkit, any_transaction_is_old, may_read_view
):
    server = postgres_server.shared_server()
    name = url.rpartition("/")[2]
    if not may_read_view:
        server.execute("REVOKE SELECT ON pg_stat_activity FROM PUBLIC", name)
    try:
        found = run_during_a_transaction(url, lambda: pollkit("status", as_reader))
    finally:
        server.execute("GRANT SELECT ON pg_stat_activity TO PUBLIC", name)
    assert found == (0, "no jobs\n", "")
