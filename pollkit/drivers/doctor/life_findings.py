"""The doctor's findings about the result of a job, and about cancelling it."""

from typing import Iterator

from ...core.model import Job
from ...core.reading.verdict import Reading, Verdict
from ...core.urls import is_link_template, parse_url, redact_url
from ...core.waiting.ends.result_stage import template_url
from ...errors import ConfigError
from ..endpoints.endpoint import Endpoint
from .findings import Finding, Level


def life_findings(endpoint: Endpoint, job: Job, url: str, reading: Reading) -> Iterator[Finding]:
    """Findings about `result_url` and `cancel_url`, if the profile has them; nothing is sent."""
    profile = endpoint.profile
    if profile.result_url is not None:
        yield _result_finding(endpoint, job, url, reading)
    if profile.cancel_url is not None:
        request = endpoint.cancel_request(job, url)
        text = "%s %s (not sent)" % (profile.cancel_method, redact_url(request.url))
        yield _with_origin("cancel", text, request.url, request.trusted_origin)


def _result_finding(endpoint: Endpoint, job: Job, url: str, reading: Reading) -> Finding:
    template = endpoint.profile.result_url or ""
    if is_link_template(template):
        try:
            result_url = template_url(template, job, url)
        except ConfigError as error:
            return Finding(Level.PROBLEM, "result", str(error))
        trusted_origin = endpoint.trusted_origin_for(result_url)
        return _with_origin("result", "at %s" % redact_url(result_url), result_url, trusted_origin)
    if reading.verdict is not Verdict.DONE:
        return Finding(Level.OK, "result", "linked at %s, once the job is done" % template)
    if reading.result_link is None:
        advice = "correct result_url in the profile: --show-reply prints the reply"
        return Finding(Level.PROBLEM, "result", "there is no link at %s" % template, advice)
    text = "linked at %s: %s" % (template, redact_url(reading.result_link))
    return _with_origin("result", text, reading.result_link, endpoint.origin)


def _with_origin(step: str, text: str, url: str, trusted_origin: str) -> Finding:
    """A finding about a URL, which gets the credential only if it is at `trusted_origin`."""
    if parse_url(url).origin == trusted_origin:
        return Finding(Level.OK, step, text)
    return Finding(Level.OK, step, text + ", another origin, which gets no credential")
