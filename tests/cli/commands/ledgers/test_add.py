"""The command add: which jobs it adds, its output and its errors."""

import os
import stat

import pytest

from ledger_shell import lines_of, posix, profile
from pollkit import Ledger
from raw_server import RawServer, reply

pytestmark = pytest.mark.usefixtures("place")


def add_report(pollkit, *words):
    """What `add` prints, without the deadline."""
    code, out, err = pollkit("add", *words)
    assert (code, out) == (0, "")
    return err.partition(";")[0]


def test_jobs_are_added_once_with_the_name_of_their_profile(described, pollkit):
    words = ["jobs.db", "a", "b", "a", "--profile", "fake", "--size", "7"]
    assert add_report(pollkit, *words) == "pollkit: 2 added"
    words = ["jobs.db", "b", "c", "--profile", "fake"]
    assert add_report(pollkit, *words) == "pollkit: 1 added, 1 known already (b)"
    assert pollkit("add", "jobs.db", "d", "--profile", "fake", "--label", "small", "--quiet") == (
        0,
        "",
        "",
    )
    with Ledger("jobs.db") as ledger:
        jobs = [row.job for row in ledger.jobs()]
    assert [(job.id, job.profile, job.label, job.size) for job in jobs] == [
        ("a", "fake", None, 7.0),
        ("b", "fake", None, 7.0),
        ("c", "fake", None, None),
        ("d", "fake", "small", None),
    ]
    assert stat.S_IMODE(os.stat("jobs.db").st_mode) == 0o600


def test_jobs_of_a_file_keep_their_own_fields(api, pollkit):
    with open("jobs.jsonl", "w") as file:
        file.write(
            '# two\n{"id": "a", "label": "small", "metadata": {"to": "me"}}\n%s\n' % api.url("b")
        )
        file.write('{"id": "c", "profile": "fake"}\n')
    words = ["jobs.db", "--from", "jobs.jsonl", "--profile", "fake"]
    assert add_report(pollkit, *words) == "pollkit: 3 added"
    with Ledger("jobs.db") as ledger:
        a, b, c = [row.job for row in ledger.jobs()]
    assert (a.label, a.metadata, b.url, c.profile) == ("small", {"to": "me"}, api.url("b"), "fake")


def test_a_job_can_be_added_before_the_base_url_is_known(pollkit):
    assert pollkit("add", "jobs.db", "job_1", "--profile", "model-tasks", "--label", "suno")[0] == 0
    code, _, err = pollkit("run", "jobs.db", "--once")
    assert code == 2 and "needs a base URL" in err


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "give either the jobs' ids or --from FILE"),
        (["a", "--from", "x"], "give either the jobs' ids or --from FILE"),
        (["a"], "'a' is not a URL"),
        (["a", "--profile", "nonesuch"], "there is no profile 'nonesuch'"),
        (["a", "--profile", "fake", "--label", "huge"], "label"),
        (["--from", "missing.txt", "--profile", "fake"], "can't read missing.txt"),
        (["http://x/1?token=s3cret"], "has a secret in it"),
        (["http://x/1;jsessionid=s3cret"], "has a secret in it"),
        (
            ["a", "--profile", "fake", "--size", "inf"],
            "'a' can't be put in a ledger: its size is not a finite number",
        ),
        (["a", "--profile", "fake", "--token-env", "X"], "--token-env"),
    ],
)
def test_jobs_that_can_not_be_added_are_one_line_and_create_no_ledger(
    described, pollkit, words, message
):
    code, out, err = pollkit("add", "jobs.db", *words)
    assert (
        (code, out) == (2, "") and message in err and err.count("\n") == 1 and "s3cret" not in err
    )
    assert not os.path.exists("jobs.db")


SECRET_PROFILES = """
[bound]
url  = https://api.internal/jobs/{id}
auth = bearer env:SOME_TOKEN
[wider]
url     = https://api.internal/jobs/{id}
auth    = bearer env:SOME_TOKEN
origins = https://other.internal
[open]
url  = https://api.internal/jobs/{id}
[based]
url  = {base}/jobs/{id}
auth = bearer env:SOME_TOKEN
"""
ELSEWHERE = "https://other.internal/jobs/1"


@pytest.mark.parametrize("name", ["bound", "wider", "open", "based"])
def test_a_url_that_must_not_get_the_credential_is_refused(pollkit, name):
    with open("secret.ini", "w") as file:
        file.write(SECRET_PROFILES)
    with open("jobs.jsonl", "w") as file:
        file.write('a\n{"id": "b", "url": "%s", "profile": "%s"}\n' % (ELSEWHERE, name))
    flags = ["--profiles", "secret.ini", "--profile"]
    for words in ([ELSEWHERE, *flags, name], ["--from", "jobs.jsonl", *flags, "open"]):
        code, out, err = pollkit("add", "jobs.db", *words)
        if name == "bound":
            assert (code, out, err.count("\n")) == (2, "", 1)
            assert "is outside https://api.internal, where the profile's credential belongs" in err
            assert "origins = https://other.internal" in err
            assert not os.path.exists("jobs.db")
        else:
            assert (code, out) == (0, "")


@pytest.mark.parametrize(
    "line, message",
    [
        ('{"id": "a", "size": 1%s}' % ("0" * 400), "int too large"),
        ('{"id": "a", "size": 1e400}', "its size is not a finite number"),
        ('{"id": "a", "metadata": {"x": NaN}}', "not JSON compliant"),
        ('{"id": "a", "metadata": {"x": 1e400}}', "not JSON compliant"),
        (
            '{"id": "a", "metadata": {"x": %s1%s}}' % ("[" * 101, "]" * 101),
            "nested more than 100 levels deep",
        ),
        (
            '{"id": "a", "metadata": {"x": "%s"}}' % ("y" * 65536),
            "its id, URL and metadata have over 64 KB",
        ),
        ('{"id": "%s"}' % ("y" * 65537), "its id, URL and metadata have over 64 KB"),
        ("http://x/1?token=s3cret", "has a secret in it"),
    ],
)
def test_a_list_with_a_bad_job_is_an_error_that_names_its_line_and_creates_no_ledger(
    described, pollkit, line, message
):
    with open("jobs.jsonl", "w") as file:
        file.write("b\n%s\n" % line)
    code, out, err = pollkit("add", "jobs.db", "--from", "jobs.jsonl", "--profile", "fake")
    assert (
        (code, out) == (2, "") and message in err and err.count("\n") == 1 and "s3cret" not in err
    )
    assert (
        err.startswith("pollkit: jobs.jsonl, line 2: ")
        and "bug" not in err
        and not os.path.exists("jobs.db")
    )


def test_a_result_that_is_nested_too_deep_to_store_finishes_and_is_notified(pollkit):
    """A result that Python can parse but not serialize must neither be polled for ever nor stop
    the notifications of other jobs."""
    depths = range(900, 1000, 4)
    with RawServer(
        *[reply(b'{"status": "done", "result": %s1%s}' % (b"[" * n, b"]" * n)) for n in depths]
    ) as api:
        profile(api.url(""))
        names = ["job_%d" % n for n in depths]
        pollkit("add", "jobs.db", "--profile", "fake", *names)
        code, _, err = pollkit(
            "run", "jobs.db", "--for", "5s", "--outbox", "out.jsonl", "--max-faults", "1"
        )
    assert code == 4 and err.count("nested more than 100 levels deep") > 10 and "bug" not in err
    assert sorted(line["id"] for line in lines_of("out.jsonl")) == sorted(names)


@posix
def test_a_program_is_notified_of_the_largest_job_that_can_be_added(api, pollkit):
    from pollkit import Job
    from pollkit.edges.ledger.rows import LARGEST_JOB

    room = LARGEST_JOB - len('job_0fake{"x":[]}')
    metadata = {"x": [1] * ((room + 1) // 2)}  # the program gets it with a blank for each comma
    api.add("job_0")
    with Ledger("jobs.db") as ledger:
        ledger.add([Job("job_0", profile="fake", metadata=metadata)])
    assert pollkit("run", "jobs.db", "--once", "--exec", "true") == (0, "", "")
    assert pollkit("status", "jobs.db")[1].splitlines()[-1].endswith("yes")


@pytest.mark.parametrize(
    "words",
    [
        ["jobs.db", "a", "b", "--profile", "fake"],
        ["jobs.db", "--profile", "fake", "a", "b"],
        ["--profile", "fake", "jobs.db", "a", "b"],
        ["jobs.db", "a", "--profile", "fake", "b"],
        ["jobs.db", "--profile", "fake", "--", "a", "b"],
        ["jobs.db", "--profile", "fake", "a", "--", "b"],
    ],
)
def test_flags_may_come_before_between_and_after_ids(described, pollkit, words):
    assert add_report(pollkit, *words) == "pollkit: 2 added"
