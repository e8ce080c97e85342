"""Paths into decoded JSON."""

import json
import re

import pytest

from pollkit import ConfigError
from pollkit.core.reading.fields.json_paths import Path, parse_single_path

NOT_SUPPORTED = "not supported: write it as data.state, items.0.id or tasks[].state"


@pytest.mark.parametrize(
    "path, found",
    [
        ("a.b", 1),
        ("list.0", "x"),
        ("list.1.c", 2),
        ("list.2", None),
        ("list.-1", None),
        ("list.x", None),
        ("a.b.c", None),
        ("made|json.urls.0", "u"),
        ("a|json.b", None),
        ("bad|json.x", None),
        ("none", None),
        (" a.b ", 1),
    ],
)
def test_a_path_finds_a_value_or_none(path, found):
    data = {
        "a": {"b": 1},
        "list": ["x", {"c": 2}],
        "made": '{"urls": ["u"]}',
        "bad": "{",
        "none": None,
    }
    assert Path(path).find(data) == found


@pytest.mark.parametrize("path", ["", ".", "a..b", "a.", "a|xml.b", "|json", "a|"])
def test_a_bad_path_is_refused(path):
    with pytest.raises(ConfigError, match="path"):
        Path(path)


@pytest.mark.parametrize(
    "path, remedy",
    [
        ("$.data.state", "write it as data.state"),
        ("items[0].id", "write it as items.0.id"),
        ("$.items[12][3]", "write it as items.12.3"),
        ("$['data'][\"state\"]", "write it as data.state"),
        ("[0].status", "write it as 0.status"),
        ("made[0]|json.urls[1]", "write it as made.0|json.urls.1"),
        ("$.tasks[*].state", "write it as tasks[].state"),
        ("items[-1]", NOT_SUPPORTED),
        ("$..state[?(@.x)]", NOT_SUPPORTED),
        ("$.", NOT_SUPPORTED),
    ],
)
def test_a_path_in_the_syntax_of_jsonpath_is_refused_with_the_right_form(path, remedy):
    with pytest.raises(ConfigError, match=re.escape(remedy)) as raised:
        Path(path)
    assert repr(path) in str(raised.value)


def test_a_path_to_several_values_is_refused_if_one_is_needed():
    assert parse_single_path(" data.state ").text == "data.state"
    with pytest.raises(ConfigError, match="judge them by rules, such as 'done if all tasks"):
        parse_single_path("tasks[].state")


def test_keys_may_begin_with_a_dollar_sign():
    assert Path("$type.$ref").find({"$type": {"$ref": 1}}) == 1


@pytest.mark.parametrize(
    "text",
    ["[%s]" % ("9" * 4301), "[%s{}]" % ("{}," * 110000), "[%s" % ("[" * 5000)],
    ids=["a long number", "many values", "too deep"],
)
def test_json_inside_a_string_has_limits_too(text):
    assert Path("a|json").find({"a": text}) is None


def test_json_inside_a_string_may_be_long():
    data = [{"url": "https://api.internal/%d" % number} for number in range(9000)]
    found = Path("a|json.8999.url").find({"a": json.dumps(data)})
    assert found == "https://api.internal/8999"


@pytest.mark.parametrize("value", [["a"] * 10000, [5], 7])
def test_a_value_that_is_no_string_contains_no_json(value):
    assert Path("a|json").find({"a": value}) is None
