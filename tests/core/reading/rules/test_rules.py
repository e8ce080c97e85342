"""Rules: which reply matches which test, the order of rules, and their explanations."""

import json

import pytest

from pollkit import ConfigError, Poller, Profile, Reply, State, wait
from pollkit.core.profiles.profile import validate_profile
from pollkit.core.reading.reader import Reader
from pollkit.core.reading.rules.parser import LONGEST_RULE, RuleError, parse_rules
from pollkit.core.reading.rules.rule import Evidence
from pollkit.core.reading.verdict import Verdict
from readings import read_reply

TASKS = {"tasks": [{"state": "DONE"}, {"state": "RUNNING"}, {}]}


def matches(test, data=None, http=200, **headers):
    """Whether a test holds for a reply."""
    (rule,) = parse_rules("done if " + test)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return rule.matches(Evidence(data, http, named))


def reader(rules, **fields):
    return Reader(validate_profile(Profile(rules=rules, **fields)))


# Tests


@pytest.mark.parametrize("code, expected", [("404", True), ("4xx", True), ("500, 404", True)])
def test_http_compares_the_status(code, expected):
    assert matches("http " + code, http=404) is expected
    assert not matches("http " + code, http=200)


def test_http_never_matches_the_value_of_a_callable():
    assert not matches("http 200", http=None)


@pytest.mark.parametrize(
    "data",
    [
        {"__type": "com.amazonaws.acm#NotFound"},
        {"code": "NotFound"},
        {"Code": "NotFound"},
        {"error": {"code": "NotFound"}},
        {"error": {"code": 404, "status": "NotFound"}},
        {"Error": {"Code": "NotFound"}},
        {"errors": [{"code": "NotFound"}]},
        {"error": "NotFound"},
    ],
)
def test_an_error_code_is_found_wherever_apis_put_it(data):
    assert matches("error NotFound", data, http=400)
    assert matches("error Other, NotFound", data, http=400)
    assert not matches("error Other", data, http=400)


def test_an_error_code_is_found_in_the_header_of_aws():
    assert matches("error NotFound", http=400, x_amzn_errortype="NotFound:http://internal/x")


def test_a_code_in_a_good_reply_is_no_error():
    assert not matches("error OK", {"code": "OK"})
    assert matches("error none", {"code": "OK"})
    assert matches("error none", {"error_code": 0, "error": None})
    assert matches("error any", {"error": {"code": "Broken"}})
    assert matches("error any", http=503)
    assert not matches("error none", http=503)


@pytest.mark.parametrize(
    "test, value",
    [
        ("x == DONE", "DONE"),
        ("x in A, DONE", "DONE"),
        ("x == 'two words'", "two words"),
        ("x == 'it''s'", "it's"),
        ("x == true", True),
        ("x == 'true'", "true"),
        ("x == 1", 1),
        ("x == 1.5", 1.5),
        ("x == -2", -2),
        ("x == null", None),
        ("x != DONE", "FAILED"),
        ("x != true", 1),
    ],
)
def test_a_value_is_compared_with_its_type(test, value):
    assert matches(test, {"x": value})


@pytest.mark.parametrize(
    "test, value",
    [
        ("x == DONE", "Done"),
        ("x == DONE", ["DONE"]),
        ("x == true", "true"),
        ("x == 1", True),
        ("x == 1", "1"),
        ("x == 'true'", True),
        ("x != DONE", "DONE"),
    ],
)
def test_a_value_of_another_kind_does_not_match(test, value):
    assert not matches(test, {"x": value})


@pytest.mark.parametrize(
    "test",
    [
        "x == A",
        "x != A",
        "x in A, B",
        "all x[].y != A",
        "any x[].y != A",
        "present x",
        "count x == 0",
        "x == null",
        "x|json == null",
    ],
)
@pytest.mark.parametrize("data", [{}, None, [], "text", {"y": 1}])
def test_a_missing_field_matches_nothing_but_missing(test, data):
    assert not matches(test, data)
    assert matches("missing x", data)


def test_missing_and_present_treat_null_as_missing():
    assert matches("missing x", {"x": None})
    assert not matches("present x", {"x": None})
    assert matches("present x", {"x": 0})


def test_all_and_any_look_at_every_element_that_has_a_value():
    assert matches("any tasks[].state == DONE", TASKS)
    assert not matches("all tasks[].state == DONE", TASKS)
    assert matches("all tasks[].state in DONE, RUNNING", TASKS)
    assert matches("any tasks[].state != DONE", TASKS)
    assert not matches("all tasks[].state == DONE", {"tasks": []})


def test_all_and_any_take_a_list_of_plain_values_and_a_single_value():
    assert matches("any words == A", {"words": ["B", "A"]})
    assert matches("all words == A", {"words": "A"})


def test_lists_of_lists_are_flattened():
    data = {"a": [{"b": [{"c": 1}, {"c": 2}]}, {"b": [{"c": 3}]}, {}]}
    assert matches("all a[].b[].c in 1, 2, 3", data)
    assert matches("count a[].b[].c == 3", data)
    assert matches("any [].s == x", [{"s": "x"}])


@pytest.mark.parametrize("comparison", ["== 2", "!= 3", "< 3", "> 1"])
def test_count_compares_the_length(comparison):
    assert matches("count x " + comparison, {"x": [1, 2]})
    assert matches("count x " + comparison, {"x": "ab"})
    assert not matches("count x " + comparison, {"x": 2})


def test_a_field_may_have_the_name_of_a_test():
    assert matches("error == x", {"error": "x"})
    assert matches("count in 1, 2", {"count": 1})


# Order and verdicts

RULES = """
    done    if http 404
    failed  if any tasks[].state == FAILED
    done    if all tasks[].state == DONE
    pending if missing tasks and http 200
"""


def test_the_first_rule_that_matches_decides():
    judge = reader(RULES)
    failed_and_done = {"tasks": [{"state": "DONE"}, {"state": "FAILED"}]}
    assert read_reply(failed_and_done, reader=judge).verdict is Verdict.FAILED
    assert read_reply({"tasks": [{"state": "DONE"}]}, reader=judge).verdict is Verdict.DONE
    assert read_reply(status=404, reader=judge).verdict is Verdict.DONE


def test_a_good_reply_that_matches_no_rule_is_pending():
    judge = reader(RULES)
    for data in (TASKS, {"tasks": None}, {"tasks": [], "status": "failed"}, None):
        assert read_reply(data, reader=judge).verdict is Verdict.PENDING
    for status in (202, 204):
        assert read_reply(None, status, judge, accepted=True).verdict is Verdict.PENDING


def test_an_error_that_matches_no_rule_is_judged_as_usual():
    judge = reader("done if state == DONE")
    assert read_reply({}, 404, judge).verdict is Verdict.NOT_FOUND
    assert read_reply({}, 503, judge).verdict is Verdict.FAULT
    assert read_reply({}, 429, judge).verdict is Verdict.LIMITED
    assert read_reply({}, 400, judge).verdict is Verdict.REFUSED


def test_an_unchanged_reply_has_no_body_to_judge():
    for test in ("missing tasks", "error none", "http 3xx"):
        assert read_reply(None, 304, reader("done if " + test)).verdict is Verdict.PENDING


@pytest.mark.parametrize("status, headers", [(429, {}), (403, {"retry-after": "5"})])
def test_a_pending_rule_does_not_hide_a_rate_limit_from_other_jobs(status, headers):
    judge = reader("pending if http 4xx")
    assert judge.read(Reply(status, headers)).verdict is Verdict.LIMITED
    assert judge.read(Reply(403)).verdict is Verdict.PENDING
    assert reader("failed if http 429").read(Reply(429)).verdict is Verdict.FAILED


@pytest.mark.parametrize("test", ["http 200", "missing state", "error none", "http 2xx"])
def test_a_login_page_is_a_fault_in_spite_of_rules(test):
    judge = reader("done if " + test)
    assert read_reply(b"<html>", reader=judge).verdict is Verdict.FAULT
    html = read_reply(b"<!doctype html>", reader=judge, content_type="text/html")
    assert html.verdict is Verdict.FAULT


def test_a_body_that_is_not_json_misses_no_field():
    assert read_reply(b"<a/>", reader=reader("done if missing state")).verdict is Verdict.FAULT
    assert read_reply(b"<a/>", 404, reader("done if http 404")).verdict is Verdict.DONE


def test_without_a_match_the_status_field_decides_if_the_profile_names_one():
    judge = reader("failed if error any", status="state")
    assert read_reply({"state": "done"}, reader=judge).verdict is Verdict.DONE
    assert (
        read_reply({"state": "x", "error": {"code": "E"}}, reader=judge).verdict is Verdict.FAILED
    )


def test_a_reading_has_the_fields_of_the_job():
    judge = reader("failed if state == BAD\ndone if state == OK", result="url", error="why")
    done = read_reply({"state": "OK", "url": "x"}, reader=judge)
    assert (done.status, done.result) == ("OK", "x")
    failed = read_reply({"state": "BAD", "why": "no luck", "error_code": "E7"}, reader=judge)
    assert (failed.status, failed.error_message, failed.error_code) == ("BAD", "no luck", "E7")


def test_the_body_of_an_error_is_no_result():
    judge = reader("done if http 404\nfailed if http 410")
    assert read_reply({"message": "gone"}, 404, judge).result is None
    gone = read_reply({"code": "Gone"}, 410, judge)
    assert (gone.error_code, gone.error_message) == ("Gone", gone.because)


def test_a_pending_rule_keeps_the_link_and_the_etag():
    judge = reader("pending if http 202")
    reading = read_reply({}, 202, judge, location="/jobs/7", etag='"a"')
    assert (reading.location, reading.etag) == ("https://api.internal/jobs/7", '"a"')


def test_rules_judge_each_job_of_a_list():
    judge = reader("done if state == OK and http 200")
    body = json.dumps({"items": [{"id": "a", "state": "OK"}, {"id": "b", "state": "X"}]})
    _, readings = judge.read_many([Reply(200, {}, body)], ["a", "b"])
    assert [reading.verdict for reading in readings] == [Verdict.DONE, Verdict.PENDING]


def test_rules_judge_the_value_of_a_callable():
    rules = ["failed if jobs.0.phase == Bad", "done if jobs.0.phase == Good"]
    replies = iter([{"jobs": [{"phase": "Slow"}]}, {"jobs": [{"phase": "Good"}], "result": 7}])
    assert wait(lambda: next(replies), Profile(rules=rules), pace="fixed 10ms") == 7


class ClientError(Exception):
    """An exception with the response of botocore's ClientError."""

    def __init__(self, code, http):
        super().__init__(code)
        self.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": http}}


def call_sequence(*results):
    """A callable that returns these values, and raises those that are exceptions."""
    left = list(results)

    def describe():
        result = left.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    return describe


def test_rules_judge_the_exceptions_of_a_callable():
    profile = Profile(rules=["done if error NoSuchTable", "pending if http 503"])
    describe = call_sequence({}, ClientError("SlowDown", 503), ClientError("NoSuchTable", 400))
    outcome = Poller(profile, pace="fixed 10ms").poll(describe)
    assert (outcome.state, outcome.polls, outcome.faults) == (State.DONE, 3, 0)
    assert outcome.result is None


def test_rules_see_the_http_status_of_a_response_of_botocore():
    profile = Profile(rules=["done if http 200"])
    describe = call_sequence({}, {"ResponseMetadata": {"HTTPStatusCode": 200}})
    assert Poller(profile, pace="fixed 10ms").poll(describe).polls == 2


def test_an_exception_that_no_rule_matches_propagates_or_is_a_fault():
    profile = Profile(rules=["done if error NoSuchTable"])
    with pytest.raises(ClientError):
        wait(call_sequence(ClientError("AccessDenied", 403)), profile)
    with pytest.raises(KeyError):
        wait(call_sequence(KeyError("x")), profile)
    describe = call_sequence(ClientError("AccessDenied", 403), ClientError("NoSuchTable", 400))
    poller = Poller(profile._replace(retry="fixed 10ms"), retry_on=ClientError)
    outcome = poller.poll(describe)
    assert (outcome.state, outcome.faults) == (State.DONE, 1)


def test_without_rules_an_exception_propagates_as_before():
    with pytest.raises(ClientError):
        wait(call_sequence(ClientError("NoSuchTable", 400)))


# Explanations


def test_a_reading_names_its_rule_and_the_values_it_found():
    reading = read_reply(TASKS, reader=reader("pending if any tasks[].state == RUNNING"))
    assert reading.because == (
        "rule 'pending if any tasks[].state == RUNNING' (tasks[].state is DONE, RUNNING): pending"
    )
    assert reading.quotes_server


@pytest.mark.parametrize(
    "test, data, http, text",
    [
        ("http 404", None, 200, "http 200"),
        ("http 404", None, None, "no HTTP status"),
        ("error X", {"code": "Y"}, 400, "error Y"),
        ("error X", {}, 400, "error without a code"),
        ("error X", {}, 200, "no error"),
        ("a == 1", {"a": {"b": 1}}, 200, "a is an object"),
        ("a == 1", {"a": [1]}, 200, "a is a list"),
        ("a == 1", {"a": None}, 200, "a is null"),
        ("a == 1", {"a": True}, 200, "a is true"),
        ("a == 1", {"a": "1"}, 200, "a is '1'"),
        ("a == true", {"a": "true"}, 200, "a is 'true'"),
        ("a == 1", {"a": ""}, 200, "a is ''"),
        ("a == 1", {"a": "x1"}, 200, "a is x1"),
        ("a == 1", {}, 200, "nothing at a"),
        ("missing a", {"a": 1}, 200, "a is there"),
        ("present a", {}, 200, "a is missing"),
        ("count a > 2", {"a": [1]}, 200, "a has 1"),
        ("count a > 2", {}, 200, "no list at a"),
    ],
)
def test_a_rule_says_what_it_found(test, data, http, text):
    (rule,) = parse_rules("done if " + test)
    assert rule.explain(Evidence(data, http)) == text


def test_the_nearest_rule_is_explained_first():
    judge = reader("done if http 404\nfailed if http 200 and state == BAD")
    lines = judge.explain_rules(Reply(200, {}, b'{"state": "OK"}'))
    assert lines[0] == (
        "'failed if http 200 and state == BAD' does not match: http 200; state is OK"
    )
    assert judge.explain_rules(Reply(404))[0] == "'done if http 404' matches: http 404"


def test_an_earlier_rule_that_nearly_matched_is_explained_beside_the_one_that_did():
    judge = reader("done if http 404\nfailed if http 200 and state == BAD\ndone if state == OK")
    assert judge.explain_rules(Reply(200, {}, b'{"state": "OK"}')) == [
        "'done if state == OK' matches: state is OK",
        "'failed if http 200 and state == BAD' does not match: http 200; state is OK",
    ]


# Mistakes


@pytest.mark.parametrize(
    "text, problem",
    [
        ("maybe if x == 1", "begins with 'maybe'"),
        ("done", "write 'if' after done"),
        ("done when x == 1", "write 'if' after done"),
        ("done if", "a test is missing"),
        ("done if http 999", "not an HTTP status"),
        ("done if http", "a value is missing"),
        ("done if http == 404", "write 'http 404' for the HTTP status"),
        ("done if http in 404, 4xx", "write 'http 404, 4xx' for the HTTP status"),
        ("failed if error any, Gone", "'error any' takes no other codes"),
        ("failed if error Gone, none", "'error none' takes no other codes"),
        ("done if http ,", "a value is missing before ','"),
        ("done if tasks[].s == A", "write 'all' or 'any' before tasks[].s"),
        ("done if x", "write ==, != or in after x"),
        ("done if x = 1", "write ==, != or in after x, not '='"),
        ("done if x == a, b", "takes one value"),
        ("done if x == 1 or y == 2", "there is no 'or': write another rule"),
        ("done if x == 1 AND y == 2", "write 'and' between two tests, before 'AND'"),
        ('done if x == "OK"', "write 'text' in single ones"),
        ("done if length(x) == 0", "rules have no functions"),
        ("done if count x >= 3", "write ==, !=, < or > after count and its list, not '>='"),
        ("done if x == 1 and", "a test is missing"),
        ("done if x == 'a", "is a quote open?"),
        ("done if 'x' == a", "is a value, not the path"),
        ("done if a..b == 1", "path 'a..b'"),
        ("done if count x == y", "a whole number"),
        ("done if count x in 1", "write ==, !=, < or > after count"),
        ("done if count", "name the list"),
        ("done if all", "name the list"),
        ("done if missing", "name the field"),
        ("done if x == " + "a" * LONGEST_RULE, "is longer than"),
    ],
)
def test_a_mistake_is_named_with_its_line(text, problem):
    with pytest.raises(RuleError) as caught:
        parse_rules(["done if http 200", "", text])
    assert problem in str(caught.value)
    assert caught.value.index == 2


def test_a_profile_refuses_bad_rules():
    with pytest.raises(ConfigError, match="write 'if'"):
        wait(lambda: True, Profile(rules="done"))
    with pytest.raises(ConfigError, match="rules must be"):
        wait(lambda: True, Profile(rules=5))
