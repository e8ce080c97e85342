"""Submits jobs: sends the requests that core/submitting/intent.py asks for."""

import os
import threading
from typing import Any, Callable, Dict, NamedTuple, Optional

from ..core.model import Job
from ..core.profiles.profile import Profile, fill_base
from ..core.submitting import intent as machine
from ..core.submitting.intent import Answer, Intent, RequestKind, Stage, SubmitRules
from ..core.submitting.reply import SubmitReader
from ..core.submitting.request import fill_submit_body, fill_submit_url
from ..core.units import NEVER
from ..core.urls import parse_url
from ..core.waiting.wait_state import Ending, Sleep
from ..edges.http.request import Request
from ..errors import ConfigError
from .endpoints.client import Client
from .endpoints.endpoint import Endpoint

NO_TOKEN = "the rate limit allowed no request before the deadline"

Save = Callable[[Intent], bool]


def new_key() -> str:
    """A key that identifies one submission: a random UUID (RFC 9562, 5.4)."""
    digits = bytearray(os.urandom(16))
    digits[6] = digits[6] & 0x0F | 0x40
    digits[8] = digits[8] & 0x3F | 0x80
    text = digits.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def name_for_key(key: str) -> str:
    """The name of a job whose id is not known yet."""
    return "submit-" + key.replace("-", "")[:12]


class Attempt(NamedTuple):
    """A job to be submitted, and how."""

    job: Job
    endpoint: Endpoint
    rules: SubmitRules


class Submitter:
    """Submits jobs at the APIs of one client; any number of threads may use it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._clock = client.clock
        self._readers: Dict[Any, SubmitReader] = {}

    def new_intent(self, job: Job, text: Optional[str], url: Optional[str]) -> "Prepared":
        """Check a submission and fill in its request, or raise a ConfigError.

        `text` is the user's JSON, None for none; `url` is where to submit, None: the profile's.
        """
        key = new_key()
        job, url, endpoint = self._client.locate_at(job, url or self.submit_url(job, key))
        body = fill_submit_body(endpoint.profile, text, job.label, key)
        endpoint.transport.check(url, endpoint.settings.timeout)
        if endpoint.profile.submit_lookup:  # it is used when a job may have been accepted already
            lookup_url = _lookup_url(endpoint.profile, job, key)
            endpoint.transport.check(lookup_url, endpoint.settings.timeout)
        name = name_for_key(key)
        return Prepared(job._replace(id=name, url=None), Intent(key, url, body), endpoint)

    def submit_url(self, job: Job, key: str) -> str:
        """The URL to which the profile of a job submits it, or a ConfigError."""
        profile = self._client.profile_for(job)
        if not profile.submit_url:
            if profile.name is None:
                raise ConfigError(
                    "there is no URL to submit to: give it, or a profile with submit_url"
                )
            raise ConfigError(
                "profile %s has no submit_url: write one into it, or give the URL to submit to"
                % profile.name
            )
        if "{base}" in profile.submit_url:
            fill_base(profile)  # raises a ConfigError: every base that is known is filled in
        return fill_submit_url(profile.submit_url, key, job.label or profile.label)

    def run(
        self,
        attempt: Attempt,
        intent: Intent,
        save: Save,
        stop: Optional[threading.Event] = None,
        *,
        longest_sleep_s: float = NEVER,
        longest_hold_s: float = NEVER,
    ) -> Intent:
        """Submit a job: returns once it is known, has ended, or has to wait for too long.

        That is a sleep of over `longest_sleep_s` until the next request, or of over
        `longest_hold_s` until the rate limit allows it. `save` stores the intent before each
        request that submits, and after each reply; if it returns False, another process has taken
        over. Setting `stop` ends this between two requests.
        """
        bucket = attempt.endpoint.bucket
        while not _is_set(stop):
            now = self._clock.now()
            action = machine.next_action(intent, attempt.rules, now)
            if isinstance(action, Ending):
                return intent._replace(ending=action)
            if isinstance(action, Sleep):
                if action.until - now > longest_sleep_s:
                    return intent
                self._clock.sleep_until(action.until, stop)
                continue
            left_s = attempt.rules.deadline - now
            hold_s = min(left_s, longest_hold_s)
            if not bucket.acquire(None if hold_s == NEVER else hold_s, stop):
                if _is_set(stop) or hold_s < left_s:
                    return intent
                intent = intent._replace(last_fault=intent.last_fault or NO_TOKEN)
                self._clock.sleep_until(attempt.rules.deadline, stop)
                continue
            if action is RequestKind.LOOK_UP:
                intent = machine.begin_lookup(intent)
            else:
                intent = machine.begin_request(intent, self._clock.now())
                if not save(intent):
                    return intent
            intent = self._send_and_observe(attempt, intent, action)
            if intent.stage is Stage.KNOWN or not save(intent):
                return intent
        return intent

    def _send_and_observe(self, attempt: Attempt, intent: Intent, kind: RequestKind) -> Intent:
        """The intent after one request; its reply may also slow down the bucket."""
        answer = self.send(attempt, intent, kind)
        now = self._clock.now()
        after = machine.observe(intent, attempt.rules, answer, now, self._client.rng())
        if answer.reading is not None:
            attempt.endpoint.bucket.apply_feedback(answer.reading, now, after.next_at)
        return after

    def send(self, attempt: Attempt, intent: Intent, kind: RequestKind) -> Answer:
        """Send one request, and read its reply."""
        endpoint = attempt.endpoint
        is_lookup = kind is RequestKind.LOOK_UP
        request = _request(attempt, intent, kind)
        seen = endpoint.transport.fetch(request, endpoint.settings.timeout)
        reader = self._reader(endpoint, intent.url)
        answer = reader.read_lookup(seen) if is_lookup else reader.read(seen)
        return self._scrub(answer, endpoint, request.url)

    def _reader(self, endpoint: Endpoint, url: str) -> SubmitReader:
        profile = endpoint.profile
        if not profile.submit_url:  # the job's URL must be at the origin that it was submitted to
            profile = profile._replace(submit_url="%s/" % parse_url(url).origin)
        key = (endpoint, profile.submit_url)
        if key not in self._readers:
            is_own_client = endpoint.transport.client is None
            self._readers[key] = SubmitReader(profile, is_own_client)
        return self._readers[key]

    def _scrub(self, answer: Answer, endpoint: Endpoint, url: str) -> Answer:
        """Remove secrets: the server may have repeated them."""
        code = answer.error_code
        reading = answer.reading
        return answer._replace(
            because=endpoint.transport.scrub(answer.because, url),
            error_code=code and endpoint.transport.scrub(code, url),
            reading=reading and endpoint.scrub(reading, url),
        )


class Prepared(NamedTuple):
    """A new intent, with its job under a name of our own."""

    job: Job
    intent: Intent
    endpoint: Endpoint


def _request(attempt: Attempt, intent: Intent, kind: RequestKind) -> Request:
    profile = attempt.endpoint.profile
    is_fresh = intent.needs_fresh_credential
    if kind is RequestKind.LOOK_UP:
        url = _lookup_url(profile, attempt.job, intent.key)
        return Request(url, parse_url(url).origin, None, is_fresh, method=b"GET", body=b"")
    headers = {}
    if profile.idempotency_header is not None:
        headers[profile.idempotency_header] = intent.key
    if profile.prefer is not None:
        headers["Prefer"] = profile.prefer
    return Request(
        intent.url,
        parse_url(intent.url).origin,
        None,
        is_fresh,
        method=profile.submit_method.encode("ascii"),
        body=intent.body.encode("utf-8"),
        headers=headers,
        is_sent_once=True,
    )


def _lookup_url(profile: Profile, job: Job, key: str) -> str:
    return fill_submit_url(profile.submit_lookup or "", key, job.label)


def _is_set(stop: Optional[threading.Event]) -> bool:
    return stop is not None and stop.is_set()
