"""Profiles as values: the profile of a job, its base URL, and the checks of its fields."""

import math
import re
from datetime import timedelta

import pytest

from pollkit import Adaptive, Backoff, ConfigError, Fixed, Profile
from pollkit.core.profiles.profile import (
    fill_base,
    needs_base,
    profile_for_job,
    to_pace,
    validate_profile,
)

SIZED = Profile(
    name="docs",
    url="https://a/{id}",
    labels={
        "odd": Profile(name="docs", label="odd"),
        "large": Profile(name="docs", label="large", up_to=math.inf),
        "small": Profile(name="docs", label="small", up_to=10),
        "medium": Profile(name="docs", label="medium", up_to=50.5),
    },
)

# The profile of a job


@pytest.mark.parametrize(
    "label, size, expected",
    [
        (None, None, None),
        ("odd", None, "odd"),
        ("small", 1000, "small"),
        (None, 0, "small"),
        (None, 10, "small"),
        (None, 10.1, "medium"),
        (None, 50.5, "medium"),
        (None, 51, "large"),
        (None, math.inf, "large"),
    ],
)
def test_a_label_takes_precedence_and_a_size_selects_the_smallest_that_fits(label, size, expected):
    assert profile_for_job(SIZED, label, size).label == expected


def test_a_job_that_fits_no_label_gets_the_profile_itself():
    small = Profile(labels={"small": Profile(label="small", up_to=10)})
    assert profile_for_job(small, size=11) is small


def test_any_label_is_accepted_if_there_are_none_or_the_url_has_a_placeholder():
    plain = Profile(url="https://a/{id}")
    open_to_all = SIZED._replace(url="https://a/{label}/{id}")
    assert profile_for_job(plain, "whatever") is plain
    assert profile_for_job(open_to_all, "whatever") is open_to_all
    assert profile_for_job(open_to_all, "small").label == "small"


def test_the_error_for_an_unknown_label_lists_the_known_ones():
    with pytest.raises(
        ConfigError, match="profile docs has no label 'smal': it has odd, large, small, medium"
    ):
        profile_for_job(SIZED, "smal")


@pytest.mark.parametrize("size", [-1, math.nan, "7", True, [], -math.inf])
def test_a_bad_size_is_refused_even_beside_a_label(size):
    with pytest.raises(ConfigError, match="size must be a number from 0"):
        profile_for_job(SIZED, "small", size)


@pytest.mark.parametrize(
    "base, url",
    [
        ("http://ray:8265", "http://ray:8265/jobs/{id}"),
        ("http://ray:8265/", "http://ray:8265/jobs/{id}"),
        ("https://a/b/c//", "https://a/b/c/jobs/{id}"),
        (None, "https://own/jobs/{id}"),
    ],
)
def test_base_is_filled_in_with_one_slash(base, url):
    profile = Profile(url="{base}/jobs/{id}", batch_url="{base}/jobs?ids={ids}", base="https://own")
    assert fill_base(profile, base).url == url
    assert fill_base(profile, base).batch_url == url.replace("/{id}", "?ids={ids}")


def test_labels_get_the_base_or_have_their_own():
    labels = {"eu": Profile(url="{base}/{id}", base="https://eu"), "us": Profile(url="{base}/{id}")}
    profile = Profile(url="https://a/{id}", labels=labels)
    assert [one.url for one in fill_base(profile).labels.values()] == [
        "https://eu/{id}",
        "{base}/{id}",
    ]
    assert [one.url for one in fill_base(profile, "https://x").labels.values()] == [
        "https://x/{id}"
    ] * 2


def test_a_missing_base_is_a_clear_error():
    for fields in ({"url": "{base}/{id}"}, {"batch_url": "{base}/{ids}"}):
        with pytest.raises(
            ConfigError, match="profile p needs a base URL: give --base-url, POLLKIT_BASE_URL or "
        ):
            fill_base(Profile(name="p", **fields))
    assert fill_base(Profile(url="https://a/{id}")) == Profile(url="https://a/{id}")


@pytest.mark.parametrize(
    "base",
    [
        "ray:8265",
        "ftp://a",
        "https://",
        "https://a?x=1",
        "https://a/#f",
        "https://a b",
        "https://a/{id}",
        "",
        7,
    ],
)
def test_a_base_must_be_a_url_that_a_path_can_follow(base):
    for use in (
        lambda: fill_base(Profile(url="{base}/{id}"), base),
        lambda: validate_profile(Profile(base=base)),
    ):
        with pytest.raises(ConfigError):
            use()


@pytest.mark.parametrize(
    "fields",
    [
        {"up_to": -1},
        {"up_to": "10"},
        {"up_to": math.nan},
        {"label": 7},
        {"labels": ["small"]},
        {"base": "nowhere"},
    ],
)
def test_the_fields_of_labels_are_checked(fields):
    with pytest.raises(ConfigError):
        validate_profile(Profile(**fields))


@pytest.mark.parametrize("name", Profile._fields)
def test_a_field_of_a_wrong_type_is_one_line_that_names_it(name):
    """The line does not repeat the value: it may be a secret."""
    for value in (5j, object()):
        with pytest.raises(
            ConfigError, match=name.replace("labels", "label").replace("retry", "(retry|pace)")
        ) as caught:
            validate_profile(Profile(**{name: value}))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("url", 5, "url must be text, not int"),
        ("status", 5, "status must be text, not int"),
        ("body", b"hush", "body must be text, not bytes"),
        ("done", 5, "done must be words, not int"),
        ("limit", 5, "limit must be a limit such as '60/m', not int"),
        ("proxy", None, "proxy must be text, not NoneType"),
        ("headers", [("X-Key", "hush")], "headers must be a mapping of names to values, not list"),
        ("labels", {"small": 5}, "labels must be a mapping of labels to profiles, not to int"),
    ],
)
def test_the_error_for_a_field_does_not_quote_its_value(name, value, message):
    profile = Profile(**{name: value})
    with pytest.raises(ConfigError, match="^%s$" % message):
        validate_profile(profile)
    assert "hush" not in repr(profile) and name in repr(profile)


def test_a_profile_must_be_one():
    with pytest.raises(ConfigError, match="a profile must be a pollkit.Profile, not 'sync'"):
        validate_profile("sync")


def test_words_may_be_a_text_with_commas():
    assert validate_profile(Profile(done="ok, fine")).done == ("ok", "fine")


def test_a_request_needs_some_time():
    with pytest.raises(ConfigError, match="^request_timeout must be above zero"):
        validate_profile(Profile(request_timeout=0))


def test_a_timeout_of_never_is_none():
    assert validate_profile(Profile(timeout="never")).timeout is None


def test_a_label_must_be_text():
    with pytest.raises(ConfigError, match="a label must be text"):
        profile_for_job(SIZED, ["small"])
    assert validate_profile(SIZED) == SIZED


# Texts, numbers and timedeltas


@pytest.mark.parametrize(
    "name", ["timeout", "request_timeout", "not_found_grace", "retry_after_default"]
)
@pytest.mark.parametrize("value", ["1m30s", 90, 90.0, timedelta(seconds=90)])
def test_a_duration_may_be_text_seconds_or_a_timedelta(name, value):
    assert getattr(validate_profile(Profile(**{name: value})), name) == 90.0


@pytest.mark.parametrize("value", [-1, math.nan, True, timedelta(seconds=-1), "soon", [5]])
def test_a_bad_duration_is_refused_by_name(value):
    with pytest.raises(ConfigError, match="^timeout "):
        validate_profile(Profile(timeout=value))


@pytest.mark.parametrize(
    "value, pace",
    [
        (5, Fixed(5)),
        (0.5, Fixed(0.5)),
        ("fixed 5s", Fixed(5)),
        (Backoff(2, 10), Backoff(2, 10)),
        (Adaptive(), Adaptive()),
    ],
)
def test_a_pace_may_be_a_pace_text_or_the_seconds_of_a_fixed_one(value, pace):
    assert to_pace(value) == pace
    assert validate_profile(Profile(pace=value)).pace == pace
    assert validate_profile(Profile(retry=value)).retry == pace


@pytest.mark.parametrize(
    "value, message",
    [
        (-5, "pace -5 is out of range: from 0 to ten years"),
        (0, "every must be above zero"),
        (math.nan, "pace nan is out of range"),
        (math.inf, "pace inf is out of range"),
        (True, "a pace must be Fixed, Backoff, Adaptive, seconds or text such as .* not True"),
        ([5], "a pace must be Fixed, Backoff, Adaptive, seconds or text"),
        ("5", "pace '5' is not a pace"),
    ],
)
def test_a_bad_pace_is_one_clear_line(value, message):
    with pytest.raises(ConfigError, match="^" + message):
        to_pace(value)


def test_a_profile_shows_no_secret():
    shown = repr(
        Profile(
            name="mine",
            url="https://u:hush@a/{id}?token=hush",
            proxy="http://u:hush@p:1",
            headers={"X-Api-Key": "hush", "Accept": "text/plain"},
            body="key=hush",
            timeout=5,
        )
    )
    assert (
        "hush" not in shown and "mine" in shown and "text/plain" in shown and "timeout=5" in shown
    )
    assert repr(Profile()) == "Profile()"


def test_a_transport_is_one_of_four():
    assert validate_profile(Profile(transport="curl")).transport == "curl"
    with pytest.raises(ConfigError, match="transport must be builtin or urllib or .*, not 'x'"):
        validate_profile(Profile(transport="x"))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"cancel_url": "data.cancel"}, "cancel_url must be a URL"),
        ({"on_timeout": "kill"}, "on_timeout must be stop or cancel, not 'kill'"),
        ({"on_timeout": "cancel"}, "on_timeout = cancel needs cancel_url"),
        ({"result_url": "tasks[].url"}, "leads to several values"),
        ({"result_next": "next as"}, "write PATH, PATH as PARAMETER, or header Link"),
    ],
)
def test_bad_keys_for_results_and_cancelling(fields, problem):
    with pytest.raises(ConfigError, match=re.escape(problem)):
        validate_profile(Profile(**fields))


def test_the_base_is_filled_into_every_url():
    profile = Profile(
        url="{base}/{id}", result_url="{base}/r/{id}", cancel_url="{base}/c/{id}", name="x"
    )
    filled = fill_base(profile, "http://api/")
    assert (filled.result_url, filled.cancel_url) == ("http://api/r/{id}", "http://api/c/{id}")
    assert needs_base(Profile(url="http://api/{id}", cancel_url="{base}/{id}"))
