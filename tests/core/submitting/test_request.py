"""The request that submits a job: the user's JSON and the key are filled in."""

import pytest

from pollkit import ConfigError
from pollkit.core.profiles.profile import Profile
from pollkit.core.submitting import request as requests
from pollkit.core.submitting.request import data_to_text, fill_submit_body, fill_submit_url


def body(template, text=None, label=None, key="k-1"):
    return fill_submit_body(Profile(submit_body=template), text, label, key)


def test_without_a_template_the_body_is_the_json_itself():
    assert body(None, '{"pages": 3}') == '{"pages": 3}'
    assert body(None) == ""


def test_the_json_the_key_and_the_label_are_filled_in():
    template = '{"input": {json}, "token": "{key}", "model": "{label}"}'
    assert body(template, "[1]", 'a"b') == '{"input": [1], "token": "k-1", "model": "a\\"b"}'


def test_placeholders_in_the_users_json_stay():
    assert body('{"input": {json}}', '{"text": "{key} {label}"}') == (
        '{"input": {"text": "{key} {label}"}}'
    )


def test_in_a_form_values_are_percent_encoded():
    assert body("token={key}&model={label}", label="a b") == "token=k-1&model=a%20b"
    assert body("input={json}&n=1", '["a&n=2+"]') == "input=%5B%22a%26n%3D2%2B%22%5D&n=1"


def test_the_json_may_be_the_whole_body_or_inside_another_format():
    assert body(" {json}", '["a&b"]') == ' ["a&b"]'
    assert body("<x a=1>{json}</x>", '["a"]') == '<x a=1>["a"]</x>'


@pytest.mark.parametrize(
    "template, text, problem",
    [
        ('{"token": "{key}"}', "[1]", "has no {json}"),
        ('{"input": {json}}', None, "needs JSON"),
        ('{"model": "{label}", "input": {json}}', "[1]", "give --label"),
    ],
)
def test_what_can_not_be_filled_in_is_an_error(template, text, problem):
    with pytest.raises(ConfigError, match=problem):
        body(template, text)


def test_a_huge_body_is_an_error(monkeypatch):
    monkeypatch.setattr(requests, "LARGEST_BODY", 3)
    with pytest.raises(ConfigError, match="larger"):
        body(None, "[1, 2]")


def test_the_url_gets_the_key_and_the_label():
    assert fill_submit_url("https://a/{label}?k={key}", "k-1", "m/2") == "https://a/m%2F2?k=k-1"


def test_data_becomes_json():
    assert data_to_text({"pages": 3}) == '{"pages": 3}'
    assert data_to_text(None) is None


@pytest.mark.parametrize("data", [{1, 2}, float("nan"), object()])
def test_data_that_is_not_json_is_an_error(data):
    with pytest.raises(ConfigError, match="json can't be encoded"):
        data_to_text(data)
