"""The doctor on the result of a job, and on cancelling it."""

import pytest

from pollkit import Job, Profile
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.drivers.doctor.findings import Level
from pollkit.drivers.doctor.life_findings import life_findings
from pollkit.drivers.endpoints.client import Client

DONE = Reading(Verdict.DONE, "done")
PENDING = Reading(Verdict.PENDING, "pending")
ELSEWHERE = ", another origin, which gets no credential"


def findings(reading, **fields):
    profile = Profile(name="x", url="https://api.internal/jobs/{id}", **fields)
    job, url, endpoint = Client(profile).locate(Job("1"))
    return [tuple(finding[:3]) for finding in life_findings(endpoint, job, url, reading)]


def test_a_profile_without_these_keys_has_no_findings():
    assert findings(DONE) == []


@pytest.mark.parametrize(
    ("reading", "result_url", "level", "text"),
    [
        (PENDING, "/r/{id}", Level.OK, "at https://api.internal/r/1"),
        (PENDING, "https://cdn/{id}", Level.OK, "at https://cdn/1" + ELSEWHERE),
        (PENDING, "/r/{label}", Level.PROBLEM, "URL template '/r/{label}': no value for {label}"),
        (PENDING, "out.url", Level.OK, "linked at out.url, once the job is done"),
        (DONE, "out.url", Level.PROBLEM, "there is no link at out.url"),
        (
            DONE._replace(result_link="https://cdn/1?sig=abc"),
            "out.url",
            Level.OK,
            "linked at out.url: https://cdn/1?sig=***" + ELSEWHERE,
        ),
    ],
)
def test_the_result(reading, result_url, level, text):
    ((found_level, step, found_text),) = findings(reading, result_url=result_url)
    assert (found_level, step) == (level, "result") and found_text.startswith(text)


def test_the_cancel_request_is_shown_and_not_sent():
    found = findings(PENDING, cancel_url="/jobs/{id}", cancel_method="DELETE")
    assert found == [(Level.OK, "cancel", "DELETE https://api.internal/jobs/1 (not sent)")]
    (finding,) = findings(PENDING, cancel_url="https://other/{id}")
    assert finding[2].endswith(ELSEWHERE)
    (finding,) = findings(PENDING, cancel_url="https://other/{id}", origins=["https://other"])
    assert finding[2].endswith("(not sent)")
