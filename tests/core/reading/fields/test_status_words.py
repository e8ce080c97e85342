"""Status words that are not in the table are untrusted text, wherever they are shown or stored."""

import json
import time

import pytest

from pollkit import BatchPoller, Poller, Profile
from pollkit.cli import main
from pollkit.core.reading.fields.status_words import StatusWords
from raw_server import RawServer, reply
from readings import GUESS

SECRET = "s3cr3t-token-4711"
ESCAPES = "\x1b[2J\x1b]0;owned\x07\n\u202e"

# Hostile replies. The meaning of all words but the last two is known, because everything before
# 'state_' is ignored.
HOSTILE = {
    "a secret": {"status": SECRET + "state_running"},
    "escapes": {"status": ESCAPES + "state_running"},
    "a secret in data": {"data": {"state": SECRET + "_STATE_PENDING"}},
    "a secret and escapes, inside an envelope": {
        "status": "success",
        "a": {"b": {"state": ESCAPES + SECRET + "state_running"}},
    },
    "a secret as a key": {"status": "success", SECRET + ESCAPES: {"state": "running"}},
    "4 MB": {"status": "w" * 4000000 + SECRET + "state_running"},
    "4 MB, unknown": {"status": "w" * 4000000},
}
cases = pytest.mark.parametrize("data", list(HOSTILE.values()), ids=list(HOSTILE))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", SECRET)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def profile_for(server, **keys):
    return Profile(
        url=server.url("/jobs/{id}"),
        auth="bearer env:MY_TOKEN",
        proxy="none",
        pace="fixed 10ms",
        **keys,
    )


def check_clean(text, longest=5000):
    """Assert that a text has no secret and no control characters, and is not long."""
    assert SECRET not in text
    assert not [c for c in text if not c.isprintable() and c != "\n"]
    assert len(text) <= longest


def serve(data):
    """Serve a reply three times, then a job that is done."""
    pending = reply(json.dumps(data))
    return RawServer(pending, pending, pending, reply('{"status": "done"}'))


@cases
def test_a_wait_flattens_and_scrubs_an_untrusted_status(here, data):
    events = []
    with serve(data) as server:
        with Poller(profile_for(server), on_event=events.append) as poller:
            outcome = poller.poll("1")
            assert server.requests[0].headers["authorization"] == "Bearer " + SECRET
    assert (outcome.state, outcome.polls) == ("done", 4)
    for event in events:
        check_clean(event.text, 300)
        check_clean(event.progress.status, 60)
        check_clean("".join(event.progress.warnings), 300)


@cases
def test_so_does_a_wait_that_times_out(here, data):
    with RawServer(reply(json.dumps(data))) as server:
        with Poller(profile_for(server), timeout=0) as poller:
            outcome = poller.poll("1")
    assert outcome.state == "timed_out"
    check_clean(outcome.status, 60)
    check_clean(outcome.error.message, 300)


@cases
def test_so_does_a_batch_with_one_request_for_many_jobs(here, data):
    events = []
    items = {"items": [dict(data, id="a"), dict(data, id="b")]}
    with RawServer(reply(json.dumps(items))) as server:
        profile = profile_for(server, batch_url=server.url("/jobs?ids={ids}"))
        with BatchPoller(profile, timeout=0, on_event=events.append) as batch:
            outcomes = list(batch.run(["a", "b"]))
    assert [outcome.state for outcome in outcomes] == ["timed_out"] * 2
    for outcome in outcomes:
        check_clean(outcome.status, 60)
        check_clean(outcome.error.message, 300)
    for event in events:
        check_clean(event.text, 300)


@cases
@pytest.mark.parametrize("flags", [["-vv"], ["-vv", "--log-json"]], ids=["text", "JSON"])
def test_so_do_the_logs_of_the_command_line(here, capsys, data, flags):
    with serve(data) as server:
        arguments = [
            server.url(),
            "--token-env",
            "MY_TOKEN",
            "--pace",
            "fixed 10ms",
            "--proxy",
            "none",
        ]
        assert main(["wait"] + arguments + flags) == 0
    out, err = capsys.readouterr()
    check_clean(out)
    check_clean(err)
    if "--log-json" in flags:
        for line in err.splitlines():
            check_clean(json.loads(line).get("status") or "", 60)


@cases
def test_so_does_doctor(here, capsys, data):
    with serve(data) as server:
        assert main(["doctor", server.url(), "--token-env", "MY_TOKEN", "--proxy", "none"]) == 0
    check_clean(capsys.readouterr().out)


@cases
def test_so_does_a_ledger(here, capsys, data):
    with RawServer(reply(json.dumps(data))) as server:
        (here / "mine.ini").write_text(
            "[mine]\nurl = %s\nauth = bearer env:MY_TOKEN\nproxy = none\n" % server.url("/{id}")
        )
        named = ["--profile", "mine", "--profiles", "mine.ini"]
        assert main(["add", "jobs.db", "1"] + named) == 0
        assert main(["run", "jobs.db", "--once", "--profiles", "mine.ini", "-vv"]) == 0
        assert len(server.requests) == 1
        main(["status", "jobs.db", "--json"])
    out, err = capsys.readouterr()
    check_clean(out)
    check_clean(err)
    check_clean(json.loads(out)["jobs"][0]["status"], 60)
    for file in here.glob("jobs.db*"):
        stored = file.read_bytes()
        assert SECRET.encode() not in stored and b"\x1b[2J" not in stored and b"u001b" not in stored
        assert len(stored) < 500000


def test_a_truncated_secret_is_scrubbed_too(here):
    with RawServer(reply("{}")) as server:
        with Poller(profile_for(server), timeout=0) as poller:
            for length in range(30, 60):
                word = "w" * length + SECRET + "state_running"
                server.answers = [reply(json.dumps({"status": word}))]
                outcome = poller.poll("1")
                assert outcome.status.startswith("w" * length + "***") or length > 52
                assert SECRET[:4] not in outcome.status + outcome.error.message


def test_a_word_that_a_profile_lists_may_be_long(here):
    word = "It Is All Done And The Files Have Been Put Where You Asked Us To Put Them"
    with RawServer(reply(json.dumps({"status": word}))) as server:
        with Poller(profile_for(server, done=(word,))) as poller:
            outcome = poller.poll("1")
    assert (outcome.state, len(outcome.status)) == ("done", 60)


def test_words_that_are_literally_in_the_table():
    words = StatusWords(done=["JOB_STATE_SUCCEEDED"], failed=["gone " * 50 + "wrong"])
    for word in (
        "running",
        "RUNNING",
        "In Progress",
        "in_progress",
        "JOB_STATE_SUCCEEDED",
        "job-state-succeeded",
    ):
        assert words.look_up(word)[1], word
    for word in ("JOB_STATE_RUNNING", "TOKENstate_running", "run" + "_" * 60 + "ning", "ORDERED"):
        assert not words.look_up(word)[1], word
    assert words.look_up("TOKENstate_running") == ("pending", False)
    assert words.meaning("succeeded") == "done"
    assert words.meaning("gone " * 50 + "WRONG") == "failed"
    assert StatusWords().look_up("x" * 200 + "state_running") == (None, False)


@pytest.mark.parametrize(
    "word, shown",
    [
        ("TOKENstate_running", "TOKENstate_running"),
        ("\x1b[2J\x1b]0;x\x07state_running", "?[2J?]0;x?state_running"),
        ("a\nb\u202estate_running", "a b?state_running"),
        ("JOB_STATE_RUNNING", "JOB_STATE_RUNNING"),
        ("\ud800", "?"),
        ("x" * 9000000, "x" * 57 + "..."),
        ("y " * 4500000 + "state_running", "y " * 28 + "y..."),
    ],
    ids=range(7),
)
def test_a_word_that_is_not_in_the_table_is_flattened_truncated_and_marked(word, shown):
    for key in ("status", "data"):
        started = time.process_time()
        reading = GUESS.read({key: {"state": word} if key == "data" else word})
        assert time.process_time() - started < 2.0
        assert (reading.status, reading.quotes_server) == (shown, True)
        assert all(
            text.isprintable() and len(text) < 200 for text in (reading.because,) + reading.warnings
        )


def test_a_word_that_is_in_the_table_needs_no_scrubbing():
    for word in ("running", "DONE", "In Progress"):
        for data in ({"status": word}, {"data": {"state": word}}, word):
            assert not GUESS.read(data).quotes_server


def test_a_path_from_a_reply_is_flattened_truncated_and_marked():
    for key in ("a\x1b[2J\nb", "k" * 1000000):
        reading = GUESS.read({"status": "success", key: {"state": "running"}})
        assert (reading.status, reading.quotes_server) == ("running", True)
        assert reading.because.isprintable() and len(reading.because) < 200
