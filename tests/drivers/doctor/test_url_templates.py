"""Which part of a job's URL is its id."""

import pytest

from pollkit import ConfigError
from pollkit.drivers.doctor.url_templates import guess_template

API = "https://api.internal"


@pytest.mark.parametrize(
    "url, reply, template",
    [
        ("/v1/jobs/42", None, "/v1/jobs/{id}"),
        ("/v1/jobs/42", {"id": 42}, "/v1/jobs/{id}"),
        ("/v1/jobs/42/status", {"status": "done"}, "/v1/jobs/{id}/status"),
        ("/v2/jobs/abc", {"data": {"job": {"id": "abc"}}}, "/v2/jobs/{id}"),
        ("/v2/abc/jobs/x/status", {"jobs": [{"id": "abc"}]}, "/v2/{id}/jobs/x/status"),
        ("/v1/jobs/abc", {}, "/v1/jobs/{id}"),
        ("/status?verbose=1&job=abc", {"job_id": "abc"}, "/status?verbose=1&job={id}"),
        ("/jobs/a%2Fb", {"id": "a/b"}, "/jobs/{id}"),
        ("/jobs/7?format=json#top", None, "/jobs/{id}?format=json"),
        ("/{x}/jobs/7", None, "/%7Bx%7D/jobs/{id}"),
        ("?job=7", None, "/?job={id}"),
        ("/jobs/7/", None, "/jobs/{id}/"),
    ],
)
def test_one_url(url, reply, template):
    assert guess_template([API + url], [reply]) == API + template


@pytest.mark.parametrize(
    "urls, template",
    [
        (("/a1/jobs/x", "/a1/jobs/y"), "/a1/jobs/{id}"),
        (("/x/jobs/1", "/y/jobs/1"), "/{id}/jobs/1"),
        (("/jobs/x/tasks/x", "/jobs/y/tasks/y"), "/jobs/{id}/tasks/{id}"),
        (("/jobs?id=x&a=1", "/jobs?id=y&a=1"), "/jobs?id={id}&a=1"),
        (("/jobs/7", "/jobs/7"), "/jobs/{id}"),
    ],
)
def test_two_urls_differ_in_the_id(urls, template):
    assert guess_template([API + url for url in urls], [{}, {}]) == API + template


@pytest.mark.parametrize(
    "urls",
    [
        (API + "/jobs/1", API + "/tasks/2"),
        (API + "/jobs/1", API + "/jobs/2/status"),
        (API + "/jobs/1", "https://other.internal/jobs/2"),
        (API + "/jobs/1", API + "/jobs?1"),
    ],
)
def test_two_urls_that_differ_in_more_are_refused(urls):
    with pytest.raises(ConfigError, match="differ in more than the id"):
        guess_template(urls, [None, None])


def test_a_url_without_any_part_is_refused():
    with pytest.raises(ConfigError, match="no part that could be an id"):
        guess_template([API], [None])
