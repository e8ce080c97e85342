"""The requests of a profile with long polling: held polls, and ordinary ones."""

from typing import Mapping, Optional

from ...core.model import Reply
from ...core.profiles.bodies import fill_body, has_id
from ...core.profiles.hold_templates import (
    NO_HOLD,
    fill_hold,
    hold_headers,
    hold_values,
    index_from_headers,
    mentions_hold,
)
from ...core.profiles.profile import Profile
from ...core.reading.reader import Seen
from ...core.reading.verdict import Reading
from ...core.units import to_seconds
from ...core.urls import fill_template
from ...core.waiting.wait_state import Poll
from ...edges.http.request import Request

SHORTEST_TIMEOUT_S = 1.0


class HeldRequests:
    """Builds requests for one job each; core/profiles/hold_templates.py has the rules."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._timeout_s = to_seconds(profile.request_timeout)
        self._headers = hold_headers(profile.headers)
        body = profile.body or ""
        self._has_hold_in_body = mentions_hold(body)
        self._fills_body = has_id(body) or self._has_hold_in_body
        method = profile.hold_method or profile.method
        self._method = method.encode("ascii") if profile.hold_url else None
        self._template: Optional[str] = profile.hold_url
        if self._template is None and mentions_hold(profile.url):
            self._template = profile.url

    def request(
        self, poll: Poll, origin: str, job_values: Mapping[str, str], is_profile_url: bool
    ) -> Request:
        """The request for a job; `is_profile_url`: it is held, at the URL that its profile gives.

        At another URL, to which the server has redirected, only headers and the body can ask for
        a hold.
        """
        if not poll.hold_s:
            body = self._body({**NO_HOLD, **job_values}, is_held=False)
            return _request(poll, origin, body=body)
        values = {**hold_values(poll.hold_s, poll.hold_index), **job_values}
        timeout_s = min(poll.hold_s + self._timeout_s, max(poll.left_s, SHORTEST_TIMEOUT_S))
        headers = {name: fill_hold(text, values) for name, text in self._headers.items()}
        body = self._body(values, is_held=True)
        has_own_url = is_profile_url and self._template is not None and not poll.is_moved
        if has_own_url:
            poll = poll._replace(url=fill_template(self._template or "", **values))
        return _request(
            poll,
            origin,
            method=self._method if has_own_url else None,
            body=body,
            timeout_s=timeout_s,
            headers=headers,
        )

    def add_index(self, reading: Reading, seen: Seen) -> Reading:
        """A reading with the index of its reply."""
        if not isinstance(seen, Reply):
            return reading
        return reading._replace(hold_index=index_from_headers(seen.headers))

    def _body(self, values: Mapping[str, str], is_held: bool) -> Optional[bytes]:
        """The body of a request; None if it is always the same."""
        is_for_held_polls = self._has_hold_in_body and self._profile.hold_url is not None
        if is_for_held_polls and not is_held:
            return b""
        if not self._fills_body:
            return None
        return fill_body(self._profile.body or "", values).encode("utf-8")


def _request(
    poll: Poll,
    origin: str,
    *,
    method: Optional[bytes] = None,
    body: Optional[bytes] = None,
    timeout_s: Optional[float] = None,
    headers: Optional[Mapping[str, str]] = None,
) -> Request:
    return Request(
        poll.url,
        origin,
        poll.etag,
        poll.needs_fresh_credential,
        poll.is_moved,
        method=method,
        body=body,
        timeout_s=timeout_s,
        headers=headers,
    )
