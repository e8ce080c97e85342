"""Lists of jobs: their pages, and the jobs that they do not have."""

import json

import pytest

from pollkit import ConfigError, Profile, Reply
from pollkit.core.profiles.profile import validate_profile
from pollkit.core.reading.fields.json_paths import split_next_page
from pollkit.core.reading.list_reader import UNUSABLE_LINK
from pollkit.core.reading.reader import Reader
from pollkit.core.reading.verdict import Verdict

FIRST = "https://api.internal/jobs?x=1"


def page(data, status=200):
    body = data if isinstance(data, bytes) else json.dumps(data)
    return Reply(status, {}, body, FIRST)


def next_url(batch_next, data):
    return Reader(Profile(batch_next=batch_next)).next_page_url(page(data), FIRST)


@pytest.mark.parametrize(
    "batch_next, data, url",
    [
        (None, {"next": "/b"}, None),
        ("links.next", {"links": {"next": "/b?p=2"}}, "https://api.internal/b?p=2"),
        ("next", {"next": "https://other.test/"}, "https://other.test/"),
        ("next", {"next": "/b?p=\u00e9"}, "https://api.internal/b?p=%C3%A9"),
        ("next", {"next": None}, None),
        ("next", {"next": ""}, None),
        ("next", {"next": False}, None),
        ("next", {"next": "x" * 2001}, UNUSABLE_LINK),
        ("next", {"next": ["/b"]}, UNUSABLE_LINK),
        ("next", {"next": "ftp://api.internal/b"}, UNUSABLE_LINK),
        ("next", b"<html>", None),
        ("token as page", {"token": "a b"}, FIRST + "&page=a%20b"),
        ("token as page", {"token": 2}, FIRST + "&page=2"),
        ("token as page", {"token": True}, UNUSABLE_LINK),
    ],
)
def test_the_next_page_comes_from_a_link_or_a_token(batch_next, data, url):
    assert next_url(batch_next, data) == url


@pytest.mark.parametrize(
    "link, url",
    [
        ("</b?p=2>; rel=next", "https://api.internal/b?p=2"),
        ('</b?p=1>; rel="prev", </b?p=3>; REL="last next"', "https://api.internal/b?p=3"),
        ('</b?p=9>; rel="last"', None),
        ("</b?p=9>", None),
        ("nonsense; rel=next", None),
        ("</b?p=\u00c3\u00a9>; rel=next", "https://api.internal/b?p=%C3%A9"),  # UTF-8
        ("<ftp://api.internal/b>; rel=next", UNUSABLE_LINK),
        ("<" * 50000, None),
        (";" + " " * 50000 + "<", None),
    ],
)
def test_the_next_page_may_be_in_the_header_link(link, url):
    reader = Reader(Profile(batch_next="Header link"))
    assert reader.next_page_url(Reply(200, {"Link": link}, "[]", FIRST), FIRST) == url
    assert reader.next_page_url(Reply(200, {}, "[]", FIRST), FIRST) is None


def test_a_token_is_the_first_parameter_if_there_is_no_other():
    reader = Reader(Profile(batch_next="t as p"))
    assert reader.next_page_url(page({"t": "1"}), "https://a/jobs") == "https://a/jobs?p=1"


def test_a_page_that_failed_has_no_next_page():
    reader = Reader(Profile(batch_next="next"))
    assert reader.next_page_url(page({"next": "/b"}, 503), FIRST) is None


def test_the_items_of_all_pages_count():
    pages = [page([{"id": "a", "status": "done"}]), page([{"id": "b", "status": "failed"}])]
    _, readings = Reader(Profile()).read_many(pages, ["a", "b", "c"])
    assert [reading.verdict for reading in readings] == [
        Verdict.DONE,
        Verdict.FAILED,
        Verdict.PENDING,
    ]
    assert [reading.is_absent for reading in readings] == [False, False, True]


@pytest.mark.parametrize(
    "absent, verdict",
    [
        ("ask", Verdict.PENDING),
        ("pending", Verdict.PENDING),
        ("done", Verdict.DONE),
        ("failed", Verdict.FAILED),
    ],
)
def test_absence_has_the_meaning_that_the_profile_gives_it(absent, verdict):
    reader = Reader(Profile(batch_absent=absent))
    assert reader.read_many([page([])], ["a"])[1][0].verdict is verdict
    assert reader.read_many([page([])], ["a"], False)[1][0].verdict is Verdict.PENDING


def test_a_job_of_a_list_that_no_rule_matches_is_judged_by_its_status():
    reader = Reader(Profile(rules="failed if error any", status="state"))
    _, (reading,) = reader.read_many([page([{"id": "a", "state": "done"}])], ["a"])
    assert reading.verdict is Verdict.DONE


@pytest.mark.parametrize("text", ["next as", "next as a b", "a..b", "[].x"])
def test_a_bad_next_page_is_refused(text):
    with pytest.raises(ConfigError):
        split_next_page(text)


@pytest.mark.parametrize(
    "field, value", [("batch_absent", "gone"), ("unknown_ids", "x"), ("batch_next", "next as")]
)
def test_a_bad_profile_is_refused(field, value):
    with pytest.raises(ConfigError):
        validate_profile(Profile(**{field: value}))


def test_an_item_without_an_id_belongs_to_no_job():
    items = page([{"status": "done"}, {"id": None, "status": "done"}])
    _, (reading,) = Reader(Profile()).read_many([items], ["None"])
    assert reading.is_absent


@pytest.mark.parametrize("status, verdict", [(404, Verdict.NOT_FOUND), (503, Verdict.FAULT)])
def test_rules_do_not_judge_an_error_of_the_whole_list(status, verdict):
    rules = "done if http 404\nfailed if error any"
    whole, readings = Reader(Profile(rules=rules)).read_many([page({}, status)], ["a", "b"])
    assert [whole.verdict] + [reading.verdict for reading in readings] == [verdict] * 3


def test_a_login_page_in_place_of_a_list_is_named():
    html = Reply(200, {"Content-Type": "text/html"}, "<html><title>Log in</title>", FIRST)
    whole, _ = Reader(Profile(batch_items="a.b")).read_many([html], ["a"])
    assert whole.verdict is Verdict.FAULT and "an HTML page instead of JSON" in whole.because


@pytest.mark.parametrize(
    "batch_items, message",
    [
        (None, "no list of jobs in the reply: set batch_items = PATH"),
        ("a.b", "no list of jobs at a.b in the reply: correct batch_items"),
    ],
)
def test_a_reply_without_a_list_names_the_key_to_correct(batch_items, message):
    whole, _ = Reader(Profile(batch_items=batch_items)).read_many([page({"x": 1})], ["a"])
    assert (whole.verdict, whole.because) == (Verdict.FAULT, message)
