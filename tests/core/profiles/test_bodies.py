"""Request bodies with placeholders."""

import json

import pytest

from pollkit import ConfigError
from pollkit.core.profiles.bodies import fill_batch_body, fill_body
from pollkit.core.urls import fill_ids, has_ids

ODD = 'a"b\\c&d=é\n'


def test_a_value_in_json_is_escaped():
    body = fill_body('{"JobId": "{id}", "Kind": ["{label}"]}', {"id": ODD, "label": "x"})
    assert json.loads(body) == {"JobId": ODD, "Kind": ["x"]}


def test_a_value_in_a_form_is_percent_encoded():
    assert fill_body("Action=Describe&Id={id}", {"id": "a&b=c"}) == "Action=Describe&Id=a%26b%3Dc"


def test_other_braces_stay_as_they_are():
    assert fill_body('{"a": {"b": {}}}', {"id": "1"}) == '{"a": {"b": {}}}'


def test_a_body_with_a_label_needs_one():
    with pytest.raises(ConfigError, match="no value for {label}"):
        fill_body("{label}", {"id": "1"})


def test_the_ids_in_json_become_a_list():
    assert json.loads(fill_batch_body('{"ids": {ids}, "n": 1}', [ODD, "b"])) == {
        "ids": [ODD, "b"],
        "n": 1,
    }
    assert json.loads(fill_batch_body("[{ids}]", ["a"])) == [["a"]]


def test_the_ids_in_a_form_are_separated_or_repeated():
    assert fill_batch_body("ids={ids}", ["a b", "c"]) == "ids=a%20b,c"
    assert fill_batch_body("{ids}", ["a", "c"]) == "a,c"
    assert fill_batch_body("{job[]=ids}", ["a", "c"]) == "job[]=a&job[]=c"


def test_a_parameter_of_a_url_is_repeated():
    assert fill_ids("https://a/jobs?{id=ids}&x=1", ["1", "2"]) == "https://a/jobs?id=1&id=2&x=1"
    assert fill_ids("https://a/jobs", ["1", "2"]) == "https://a/jobs"
    assert has_ids("{id=ids}") and has_ids("{ids}") and not has_ids("https://a/jobs?id=ids")


def test_the_hold_is_filled_in_for_held_polls_and_stays_as_it_is_for_other_profiles():
    body = '{"id": "{id}", "wait": {hold_ms}}'
    assert fill_body(body, {"id": "a", "hold_ms": "25000"}) == '{"id": "a", "wait": 25000}'
    graphql = '{"query": "{job(id: {id}){index}}"}'
    assert fill_body(graphql, {"id": "7"}) == '{"query": "{job(id: 7){index}}"}'
