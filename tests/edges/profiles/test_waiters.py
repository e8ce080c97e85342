"""Profiles from waiters: every acceptor of a corpus of real waiters gives its verdict."""

import json
import os

import pytest

from paths import ROOT
from pollkit import ConfigError, Reply
from pollkit.core.reading.reader import Reader
from pollkit.core.reading.verdict import Verdict
from pollkit.edges.profiles.catalog import check_file, find_profile
from pollkit.edges.profiles.keys import profile_to_ini
from pollkit.edges.profiles.waiters import import_waiters

VERDICTS = {"success": Verdict.DONE, "failure": Verdict.FAILED, "retry": Verdict.PENDING}
LEAST_SHARE = 0.92


def corpus():
    with open(os.path.join(ROOT, "tests", "data", "waiters.json")) as file:
        return json.load(file)


def as_file(*waiters):
    """A waiters-2.json with these waiters of the corpus."""
    entries = {
        "%s-%s" % (waiter["service"], waiter["waiter"]): {
            "delay": waiter["delay"],
            "maxAttempts": waiter["attempts"],
            "operation": waiter["operation"],
            "acceptors": waiter["acceptors"],
        }
        for waiter in waiters
    }
    return json.dumps({"version": 2, "waiters": entries})


def one_waiter(*acceptors):
    waiter = {"delay": 5, "maxAttempts": 12, "operation": "X", "acceptors": list(acceptors)}
    return json.dumps({"version": 2, "waiters": {"Ready": waiter}})


def rules_of(*acceptors):
    (imported,) = import_waiters(one_waiter(*acceptors))
    assert imported.profile is not None, imported.problem
    return list(imported.profile.rules)


def data_with(argument, value):
    """The smallest data in which a path such as a[].b has this value."""
    data = value
    for part in reversed(argument.split(".")):
        name = part.replace("[]", "")
        data = {name: [data] if part.endswith("[]") else data}
    return data


def reply_for(acceptor):
    """A reply that an acceptor matches."""
    expected = acceptor["expected"]
    if acceptor["matcher"] == "status":
        return Reply(expected, {}, b"{}")
    if expected is False:
        return Reply(200, {}, b"{}")
    if acceptor["matcher"] == "error":
        expected = "SomeError" if expected is True else expected
        return Reply(400, {}, json.dumps({"__type": "com.amazonaws#" + expected}))
    return Reply(200, {}, json.dumps(data_with(acceptor["argument"], expected)))


def judges_right(imported, waiter):
    """Whether each acceptor gives its verdict, and any other reply is pending."""
    if imported.profile is None:
        return False
    reader = Reader(imported.profile)
    others = [Reply(200, {}, b"{}")]
    for acceptor in waiter["acceptors"]:
        if reader.read(reply_for(acceptor)).verdict is not VERDICTS[acceptor["state"]]:
            return False
        if "argument" in acceptor:
            data = data_with(acceptor["argument"], "none of the expected values")
            others.append(Reply(200, {}, json.dumps(data)))
    is_any_good = any(acceptor["expected"] in (200, False) for acceptor in waiter["acceptors"])
    return is_any_good or all(reader.read(one).verdict is Verdict.PENDING for one in others)


def test_nearly_all_waiters_of_the_corpus_judge_right():
    waiters = corpus()
    imported = import_waiters(as_file(*waiters))
    right = sum(map(judges_right, imported, waiters))
    print(
        "%d of %d waiters judge right (%.0f %%)" % (right, len(waiters), 100 * right / len(waiters))
    )
    assert right >= LEAST_SHARE * len(waiters)


def test_imported_profiles_are_valid_ini(tmp_path):
    imported = import_waiters(as_file(*corpus()))
    profiles = [one.profile for one in imported if one.profile is not None]
    path = str(tmp_path / "waiters.ini")
    for start in range(0, len(profiles), 20):  # the whole file is parsed for each profile
        some = profiles[start : start + 20]
        with open(path, "w") as file:
            file.write("\n".join(map(profile_to_ini, some)))
        assert check_file(path) == []
        for profile in some:
            assert find_profile(profile.name, path).rules == profile.rules


def test_delay_and_attempts_become_pace_and_timeout():
    (imported,) = import_waiters(
        one_waiter({"matcher": "status", "expected": 200, "state": "success"})
    )
    assert imported.name == "Ready"
    assert profile_to_ini(imported.profile) == (
        "[Ready]\nrules   =\n    done if http 200\npace    = fixed 5s\ntimeout = 1m\n"
    )


@pytest.mark.parametrize(
    "matcher, argument, expected, test",
    [
        ("path", "Table.Status", "ACTIVE", "Table.Status == ACTIVE"),
        ("path", "Table.IsReady", True, "Table.IsReady == true"),
        ("path", "Items[0].State", "on hold", "Items.0.State == 'on hold'"),
        ("path", '"a-b".c', "and", "a-b.c == 'and'"),
        ("pathAll", "Jobs[].State", "OK", "all Jobs[].State == OK"),
        ("pathAny", "Jobs[*].State", "BAD", "any Jobs[].State == BAD"),
        ("path", "length(Jobs[]) > `0`", True, "count Jobs[] > 0"),
        ("path", "length(Jobs) == `0`", True, "count Jobs == 0"),
        ("path", "length(Jobs) == `0`", False, "count Jobs != 0"),
        ("path", "length(Jobs) >= `2`", True, "count Jobs > 1"),
        ("path", "length(Jobs) <= `2`", True, "count Jobs < 3"),
        ("path", "State != 'X'", True, "State != X"),
        ("path", "State == 'X'", False, "State != X"),
        ("path", 'State == `"X"` && N == `3`', True, "State == X and N == 3"),
        ("path", "State == `X`", True, "State == X"),
        ("error", None, "NotFound", "error NotFound"),
        ("error", None, True, "error any"),
        ("error", None, False, "error none"),
        ("status", None, 404, "http 404"),
    ],
)
def test_a_matcher_becomes_a_test(matcher, argument, expected, test):
    acceptor = {"matcher": matcher, "expected": expected, "state": "success"}
    if argument is not None:
        acceptor["argument"] = argument
    assert rules_of(acceptor) == ["done if " + test]


@pytest.mark.parametrize(
    "acceptor, reason",
    [
        ({"matcher": "path", "argument": "a || b", "expected": "X"}, "too complicated"),
        ({"matcher": "path", "argument": "contains(a, `1`)", "expected": True}, "too complicated"),
        ({"matcher": "path", "argument": "a[?b == 'c'].d", "expected": "X"}, "too complicated"),
        ({"matcher": "path", "argument": "a == b", "expected": True}, "too complicated"),
        ({"matcher": "path", "argument": "a > 'b'", "expected": True}, "compares a value by >"),
        ({"matcher": "path", "argument": "'a'", "expected": True}, "too complicated"),
        ({"matcher": "path", "argument": "a == 'b' 'c'", "expected": True}, "too complicated"),
        ({"matcher": "path", "argument": "length(a) > `x`", "expected": True}, "a length with"),
        ({"matcher": "path", "argument": "length(a) >= `0`", "expected": True}, "negative"),
        ({"matcher": "path", "argument": "a == 'b' && c == 'd'", "expected": False}, "when it is"),
        ({"matcher": "path", "argument": "a[].b", "expected": "X"}, "is a list"),
        ({"matcher": "pathAny", "argument": "a == 'b'", "expected": True}, "too complicated"),
        ({"matcher": "path", "argument": "a{b: c}", "expected": "X"}, "not a plain path"),
        ({"matcher": "path", "argument": '"a.b".c', "expected": "X"}, "not a plain path"),
        ({"matcher": "path", "argument": "a", "expected": [1]}, "neither text nor a number"),
        ({"matcher": "magic", "expected": "X"}, "no rule for the matcher 'magic'"),
        ({"matcher": "path", "expected": "X"}, "as expected: 'argument' is missing, or not a"),
        ({"matcher": "status", "expected": "X"}, "as expected: a value has the wrong type"),
    ],
)
def test_a_waiter_that_no_rule_can_express_is_refused_with_the_reason(acceptor, reason):
    (imported,) = import_waiters(one_waiter(dict(acceptor, state="success")))
    assert imported.profile is None
    assert reason in imported.problem


@pytest.mark.parametrize(
    "waiter, reason",
    [
        ([], "as expected: a value has the wrong type"),
        ({"acceptors": 5}, "as expected: a value has the wrong type"),
        ({"acceptors": [{"state": "odd"}]}, "as expected: 'odd' is missing, or not a known word"),
        ({"acceptors": [], "delay": "soon", "maxAttempts": 2}, "a value has the wrong type"),
        ({"acceptors": [], "delay": 0, "maxAttempts": 2}, "its delay must be above zero, not 0"),
        ({"acceptors": [], "delay": -5, "maxAttempts": 2}, "its delay must be above zero, not -5"),
    ],
)
def test_a_malformed_waiter_is_refused_in_plain_words(waiter, reason):
    (imported,) = import_waiters(json.dumps({"waiters": {"JobDone": waiter}}))
    assert imported.profile is None
    assert imported.problem.endswith(reason)


@pytest.mark.parametrize("value", ["a ; b", "a\nb"])
def test_a_value_that_no_file_can_hold_is_refused(value):
    acceptor = {"matcher": "path", "argument": "a", "expected": value, "state": "success"}
    (imported,) = import_waiters(one_waiter(acceptor))
    assert imported.profile is None and "no profile can have" in imported.problem


def test_a_waiter_whose_name_no_profile_can_have_is_refused():
    waiter = {"delay": 5, "maxAttempts": 12, "acceptors": []}
    (imported,) = import_waiters(json.dumps({"waiters": {"a:b]": waiter}}))
    assert imported.profile is None and "its name" in imported.problem


def test_the_waiters_of_a_smithy_model():
    def output(path, expected, comparator):
        return {"output": {"path": path, "expected": expected, "comparator": comparator}}

    matchers = [
        ("success", output("Table.Status", "ACTIVE", "stringEquals")),
        ("success", output("Table.Ready", "true", "booleanEquals")),
        ("failure", output("Jobs[].State", "BAD", "anyStringEquals")),
        ("retry", output("Jobs[].State", "NEW", "allStringEquals")),
        ("retry", {"errorType": "com.example#NotFound"}),
        ("success", {"success": True}),
        ("failure", {"success": False}),
    ]
    acceptors = [{"state": state, "matcher": matcher} for state, matcher in matchers]
    waiters = {
        "Ready": {"acceptors": acceptors, "minDelay": 5, "maxDelay": 50},
        "Other": {"acceptors": [{"state": "success", "matcher": {"inputOutput": {}}}]},
    }
    operation = {"type": "operation", "traits": {"smithy.waiters#waitable": waiters}}
    model = {"smithy": "2.0", "shapes": {"com.example#Get": operation, "com.example#X": {}}}
    ready, other = import_waiters(json.dumps(model))
    assert list(ready.profile.rules) == [
        "done if Table.Status == ACTIVE",
        "done if Table.Ready == true",
        "failed if any Jobs[].State == BAD",
        "pending if all Jobs[].State == NEW",
        "pending if error NotFound",
        "done if error none",
        "failed if error any",
    ]
    assert str(ready.profile.pace) == "backoff 5s..50s x2"
    assert "no rule for the matcher inputOutput" in other.problem


def test_a_name_that_two_operations_have_is_imported_once():
    waiters = {"Ready": {"acceptors": [{"state": "success", "matcher": {"success": True}}]}}
    operation = {"type": "operation", "traits": {"smithy.waiters#waitable": waiters}}
    model = {"smithy": "2.0", "shapes": {"a#One": operation, "a#Two": operation}}
    first, second = import_waiters(json.dumps(model))
    assert first.profile.name == "Ready"
    assert second.problem == "another waiter in the file has this name"


def test_a_waiter_without_acceptors_is_refused():
    waiters = {"Ready": {"delay": 1, "maxAttempts": 2, "acceptors": []}}
    (ready,) = import_waiters(json.dumps({"version": 2, "waiters": waiters}))
    assert ready.problem == "it has no acceptors"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"waiters": []}', "[" * 100000])
def test_a_file_without_waiters_is_refused(text):
    with pytest.raises(ConfigError, match="is not JSON|has no waiters"):
        import_waiters(text)
