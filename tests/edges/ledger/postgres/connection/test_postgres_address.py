"""The URL of a ledger in PostgreSQL; where pg8000 gets the rest from."""

import pytest

from pollkit import ConfigError, Ledger, LedgerError
from pollkit.edges.ledger.postgres.connection.address import find_password, parse_address, resolve


@pytest.mark.parametrize(
    "url, expected",
    [
        ("postgresql://me@db.internal:5433/jobs", ("me", "db.internal", "5433", "jobs")),
        ("postgres://db.internal", (None, "db.internal", None, None)),
        ("postgresql:///jobs", (None, None, None, "jobs")),
        ("postgresql://m%40e@[::1]:1/a%20b", ("m@e", "::1", "1", "a b")),
        ("postgresql://one:1,two:2/jobs", (None, "one,two", "1,2", "jobs")),
        ("postgresql:///jobs?host=/run/pg&user=me", ("me", "/run/pg", None, "jobs")),
    ],
)
def test_a_url_is_parsed_as_libpq_does(url, expected):
    parameters = parse_address(url).parameters
    assert tuple(map(parameters.get, ("user", "host", "port", "dbname"))) == expected


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cr3t@db.internal/jobs",
        "postgresql://db.internal/jobs?password=s3cr3t",
        "postgresql://db.internal/jobs?user=me&sslpassword=s3cr3t",
        "postgresql://me:s3cr3t/w@db.internal/jobs",
        "postgresql://me:5432/s3cr3t@db.internal/jobs",
        "postgresql://me:s3cr3t@w@db.internal/jobs",
        "postgresql://me:w@s3cr3t@db.internal/jobs",
        "postgresql://me:s3cr3t#w@db.internal/jobs",
        "postgresql://me:w#s3cr3t@db.internal/jobs",
        "postgresql://me:s3cr3t?w@db.internal/jobs",
        "postgresql://me:5432?s3cr3t@db.internal/jobs",
    ],
)
def test_a_password_in_the_url_is_refused_and_not_repeated(url):
    with pytest.raises(ConfigError, match="PGPASSFILE") as raised:
        Ledger(url)
    assert "s3cr3t" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cr3t",
        "postgresql://me:s3cr3t/jobs",
        "POSTGRESQL://me:s3cr3t@db.internal/jobs",
        "postgresql+psycopg://me:s3cr3t@db.internal/jobs",
        "postgresql:/me:s3cr3t@db.internal/jobs",
        "postgres:me:s3cr3t@db.internal/jobs",
    ],
)
def test_a_misspelt_url_is_an_error_that_does_not_repeat_it(url):
    with pytest.raises(ConfigError, match=r"postgresql://USER|db.internal:5432") as raised:
        Ledger(url)
    assert "s3cr3t" not in str(raised.value)


def test_an_escaped_at_sign_after_the_host_is_no_password():
    parameters = parse_address("postgresql://db.internal:5432/jobs?user=me%40corp").parameters
    assert parameters["user"] == "me@corp"


@pytest.mark.parametrize("url", ["postgresql://a:b:c/jobs", "postgresql://db/my jobs"])
def test_a_url_that_makes_no_sense_is_an_error(url):
    with pytest.raises(ConfigError, match=r"db.internal:5432|no spaces"):
        parse_address(url)


def test_messages_do_not_repeat_the_parameters():
    assert (
        parse_address("postgresql://me@db/jobs?sslmode=require").name == "postgresql://me@db/jobs"
    )


def test_the_url_comes_before_the_service_file_and_that_before_the_environment(tmp_path):
    service = tmp_path / "services"
    service.write_text("[prod]\nhost=db.internal\nuser=runner\npassword=from service\n")
    environ = {
        "PGSERVICEFILE": str(service),
        "PGSERVICE": "prod",
        "PGUSER": "nobody",
        "PGDATABASE": "jobs",
    }
    found = resolve(parse_address("postgresql://other.internal"), environ)
    assert (found["host"], found["user"], found["dbname"]) == ("other.internal", "runner", "jobs")
    assert (found["port"], found["password"]) == ("5432", "from service")
    with pytest.raises(LedgerError, match="no service 'test'"):
        resolve(parse_address("postgresql://?service=test"), environ)


def test_without_anything_libpqs_defaults_apply(monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "me")
    found = resolve(parse_address("postgresql://"), {})
    assert found == {"host": "localhost", "port": "5432", "user": "me", "dbname": "me"}


@pytest.mark.parametrize(
    "line, expected",
    [
        ("db:5432:jobs:me:s3cr3t", "s3cr3t"),
        ("*:*:*:me:a\\:b\\\\c", "a:b\\c"),
        ("# a comment\nother:*:*:*:no\ndb:*:*:*:yes", "yes"),
        ("db:5432:jobs:you:no", None),
        ("db:5432:jobs", None),
    ],
)
def test_the_first_line_of_the_password_file_that_matches_counts(tmp_path, line, expected):
    path = tmp_path / "pgpass"
    path.write_text(line + "\n")
    path.chmod(0o600)
    parameters = {"user": "me", "dbname": "jobs", "passfile": str(path)}
    assert find_password(parameters, "db", "5432") == expected
    path.chmod(0o644)
    assert find_password(parameters, "db", "5432") is None  # others can read it
    assert find_password(dict(parameters, passfile="/nonesuch"), "db", "5432") is None
    assert find_password(dict(parameters, password="env"), "db", "5432") == "env"
