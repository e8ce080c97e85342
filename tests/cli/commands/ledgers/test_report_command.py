"""`pollkit report`: the page is written at once or not at all, and bad input gets one line."""

import io
import json
import os
import webbrowser

import pytest

from report_files import outcome, write_outcomes


@pytest.fixture
def ran(api, pollkit):
    """A ledger with a done, a failed and a waiting job."""
    api.add("good", result=1)
    api.add("bad", fails="page 7 can't be read")
    api.add("late", lasts=60)
    pollkit("add", "jobs.db", "good", "bad", "late", "--profile", "fake")
    pollkit("run", "jobs.db", "--once")


def read(path="report.html"):
    with open(path, encoding="utf-8") as file:
        return file.read()


def test_a_run_is_reported(ran, pollkit):
    assert pollkit("report", "jobs.db", "-o", "report.html") == (
        0,
        "",
        "pollkit: report.html has 3 jobs\n",
    )
    page = read()
    assert all(text in page for text in ("good", "late", "page 7 can&#x27;t be read"))
    assert "fake: 3 requests" in page
    assert [name for name in os.listdir(".") if name.endswith(".tmp")] == []


def test_the_jobs_can_be_selected(ran, pollkit):
    pollkit("add", "jobs.db", "other", "--profile", "fake", "--label", "small")
    pollkit("report", "jobs.db", "-o", "report.html", "--label", "small", "--since", "1h")
    page = read()
    assert "other" in page and "good" not in page
    assert "the last 1h, label small" in page


def test_a_file_of_outcomes_is_reported(place, pollkit):
    write_outcomes("out.jsonl", [outcome("a"), outcome("b", state="failed")])
    code, _, err = pollkit("report", "--from", "out.jsonl", "-o", "report.html")
    assert (code, err) == (0, "pollkit: report.html has 2 jobs\n")
    assert "<h1>out.jsonl</h1>" in read()


def test_outcomes_can_come_from_standard_input(place, pollkit, monkeypatch):
    line = json.dumps(outcome("piped")).encode("ascii")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(line)))
    assert pollkit("report", "--from", "-", "-o", "report.html")[0] == 0
    assert "piped" in read()


def test_the_page_is_opened_in_a_browser(place, pollkit, monkeypatch):
    write_outcomes("out.jsonl", [outcome("a")])
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    words = ["report", "--from", "out.jsonl", "-o", "a report.html", "--open"]
    assert pollkit(*words)[0] == 0
    assert opened[0].startswith("file:///") and opened[0].endswith("/a%20report.html")
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    code, _, err = pollkit(*words)
    assert code == 0 and "no browser can be started here: open file:///" in err


def test_a_page_that_can_not_be_written_leaves_the_old_one(place, pollkit, monkeypatch):
    write_outcomes("out.jsonl", [outcome("a")])
    with open("report.html", "w") as file:
        file.write("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    code, _, err = pollkit("report", "--from", "out.jsonl", "-o", "report.html")
    assert (code, err) == (2, "pollkit: can't write report.html: No space left on device\n")
    assert read() == "old"
    assert sorted(os.listdir(".")) == ["out.jsonl", "report.html"]


def test_the_page_does_not_replace_a_ledger_or_the_outcomes(ran, pollkit):
    write_outcomes("out.jsonl", [outcome("a")])
    before = read("out.jsonl")
    os.symlink("jobs.db", "link.html")
    for words, name in [
        (["report", "jobs.db", "-o", "jobs.db"], "jobs.db"),
        (["report", "jobs.db", "-o", "link.html"], "link.html"),
        (["report", "--from", "out.jsonl", "-o", "jobs.db"], "jobs.db"),
        (["report", "--from", "out.jsonl", "-o", "./out.jsonl"], "./out.jsonl"),
        (["simulate", "--jobs", "2", "--svg", "jobs.db"], "jobs.db"),
        (["simulate", "--jobs", "2", "--html", "jobs.db"], "jobs.db"),
    ]:
        code, out, err = pollkit(*words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert ": %s " % name in err and "name another file" in err
    assert pollkit("status", "jobs.db", "--summary")[0] == 5
    assert read("out.jsonl") == before


@pytest.mark.parametrize(
    "words, message",
    [
        (["-o", "r.html"], "name either a LEDGER or a file of outcomes"),
        (["x.db", "--from", "y", "-o", "r.html"], "name either a LEDGER or a file of outcomes"),
        (["x.db"], "where to? Give either -o report.html or --serve"),
        (["x.db", "-o", "r.html", "--serve", "8099"], "where to? Give either"),
        (["--from", "y", "--serve", "8099"], "--serve shows a ledger"),
        (["x.db", "-o", "-"], "-o - is not a file"),
        (["x.db", "-o", "."], "-o: . is not an ordinary file"),
        (["x.db", "-o", "r.html"], "x.db"),
        (["--from", "missing", "-o", "r.html"], "--from: can't read missing: No such file"),
        (["x.db", "-o", "r.html", "--since", "soon"], "soon"),
        (["x.db", "-o", "r.html", "--label", ""], "is not a label"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(place, pollkit, words, message):
    code, out, err = pollkit("report", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert os.listdir(".") == []


def test_lines_that_are_no_outcomes_are_reported(place, pollkit):
    write_outcomes("out.jsonl", [outcome("a"), {"not": "one"}])
    code, _, err = pollkit("report", "--from", "out.jsonl", "-o", "report.html")
    assert (code, err.splitlines()) == (
        0,
        [
            "pollkit: warning: skipped 1 line: not an outcome, or damaged",
            "pollkit: report.html has 1 job",
        ],
    )


def test_a_file_without_outcomes_or_a_mistyped_label_is_refused(place, pollkit):
    write_outcomes("wrong.json", [{"not": "one"}])
    write_outcomes("out.jsonl", [outcome("a", label="small")])
    for words, message in (
        (["--from", "wrong.json"], "wrong.json has no outcomes to report"),
        (["--from", "out.jsonl", "--label", "smal"], "no job to report has label smal"),
    ):
        code, out, err = pollkit("report", "-o", "report.html", *words)
        assert (code, out, err.count("\n")) == (2, "", 1) and message in err
        assert not os.path.exists("report.html")


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:99999", "0.0.0.0:8099"])
def test_a_bad_address_is_one_line(ran, pollkit, address):
    code, out, err = pollkit("report", "jobs.db", "--serve", address)
    assert (code, out, err.count("\n")) == (2, "", 1)
