"""How a profile asks a server to hold a poll, and the mistakes that can be made."""

import pytest

from pollkit import ConfigError, Profile
from pollkit.core.profiles.hold_templates import (
    fill_hold,
    hold_values,
    index_from_headers,
    is_hold_in_url,
    needs_index,
    without_hold,
)
from pollkit.core.profiles.profile import fill_base, validate_profile

URL = "https://a.internal/jobs/{id}"
CONSUL = "http://consul:8500/v1/kv/{id}?index={index}&wait={hold}s"


@pytest.mark.parametrize(
    "url, ordinary",
    [
        (CONSUL, "http://consul:8500/v1/kv/{id}"),
        (CONSUL + "&dc=east", "http://consul:8500/v1/kv/{id}?dc=east"),
        (URL + "?a=1&wait={hold_ms}", URL + "?a=1"),
        (URL + "?a=1", URL + "?a=1"),
        (URL, URL),
    ],
)
def test_an_ordinary_poll_leaves_the_parameters_out(url, ordinary):
    assert without_hold(url) == ordinary


def test_the_hold_is_sent_in_whole_seconds_or_in_milliseconds():
    values = hold_values(25.0, "17")
    assert fill_hold("wait={hold}, {hold_ms} {index}", values) == "wait=25, 25000 17"
    assert hold_values(25.0, None)["index"] == "0"


@pytest.mark.parametrize(
    "headers, index",
    [
        ({"x-consul-index": "17"}, "17"),
        ({"etag": "1", "x-nomad-index": "0a"}, "0a"),
        ({"x-consul-index": "1 7"}, None),
        ({"x-consul-index": "9" * 101}, None),
        ({"x-consul-index": ""}, None),
        ({"index": "17"}, None),
        ({}, None),
    ],
)
def test_the_index_is_that_of_the_reply_unless_it_is_odd(headers, index):
    assert index_from_headers(headers) == index


def test_a_profile_shows_whether_it_needs_an_index_and_where_it_asks_for_the_hold():
    prefer = Profile(hold=25, headers={"Prefer": "wait={hold}"})
    consul = Profile(url=CONSUL, hold=25)
    google = Profile(url=URL, hold=25, hold_url=URL + ":wait")
    assert [needs_index(one) for one in (prefer, consul, google)] == [False, True, False]
    assert [is_hold_in_url(one) for one in (prefer, consul, google)] == [False, True, True]


@pytest.mark.parametrize(
    "fields, problem",
    [
        ({"hold": "25s"}, "hold has no effect: write {hold} or {hold_ms} in url"),
        ({"hold_url": URL + "/wait"}, "hold_url has no effect without hold: write hold = 25s"),
        ({"hold_method": "POST"}, "hold_method has no effect without hold_url"),
        ({"url": URL + "?wait={hold}"}, "url has a placeholder that has no effect without hold"),
        ({"headers": {"Prefer": "wait={hold}"}}, "header.Prefer has a placeholder that has no"),
        ({"hold": "500ms", "url": URL + "?w={hold}"}, "hold must be from 1s to 10m, not 500ms"),
        ({"hold": "2h", "url": URL + "?w={hold}"}, "hold must be from 1s to 10m, not 2h"),
        ({"hold": "soon", "url": URL + "?w={hold}"}, "hold 'soon' is not a duration"),
        ({"hold": "25s", "url": URL + "/{hold}"}, "url has {hold}, {hold_ms} or {index} outside"),
        (
            {"hold": "25s", "url": URL + "?w={hold}", "hold_url": URL + "/wait"},
            "url has {hold}, {hold_ms} or {index}, but held polls go to hold_url",
        ),
        ({"hold": "25s", "url": None, "hold_url": URL}, "hold_url has no effect without url"),
        ({"hold": "25s", "hold_url": "https://b.internal/{id}"}, "hold_url must begin like url"),
        ({"hold": "25s", "hold_url": "wait/{id}"}, "hold_url must begin like url"),
        ({"hold": "25s", "hold_url": "https://a.internal/wait"}, "hold_url has no {id}"),
        (
            {"hold": "25s", "headers": {"X-Api-Key": "{hold}"}},
            "header.X-Api-Key can't have a placeholder: its name looks secret",
        ),
    ],
)
def test_mistakes_are_reported_before_any_poll(fields, problem):
    with pytest.raises(ConfigError) as caught:
        validate_profile(Profile(url=URL)._replace(**fields))
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"url": CONSUL},
        {"headers": {"Prefer": "wait={hold}"}, "url": None},
        {"body": '{"wait": {hold}}', "method": "POST"},
        {"hold_url": "https://A.internal/wait?job={id}", "hold_method": "POST"},
        {"hold_url": "https://a.internal/wait", "body": "job={id}", "method": "POST"},
    ],
)
def test_each_way_to_ask_for_a_hold_is_valid(fields):
    profile = validate_profile(Profile(url=URL, hold="25s")._replace(**fields))
    assert profile.hold == 25.0


def test_the_base_is_filled_in_for_held_polls_too():
    profile = Profile(url="{base}/{id}", hold="25s", hold_url="{base}/{id}:wait")
    assert fill_base(profile, "http://a").hold_url == "http://a/{id}:wait"
