"""The keys of a profile that describe how jobs are submitted."""

from typing import Iterator, Tuple

from ...core.profiles.bodies import is_json
from ...core.profiles.profile import Profile
from ...core.submitting.request import fill_names
from ...errors import ConfigError
from ..http.user_headers import validate_headers

_DEFAULTS = Profile()
_SUBMIT_KEYS = """
    submit_method submit_body submit_id submit_status_url submit_lookup submit_settle
    idempotency_header idempotency_ttl prefer
""".split()


def parse_submit_body(text: str) -> str:
    """A body with placeholders; if it looks like JSON, it must be JSON once they are filled in."""
    if is_json(text):
        import json  # late: few profiles have a body

        try:
            json.loads(fill_names(text, {"json": "null", "key": "k", "label": "l"}))
        except ValueError as error:
            raise ConfigError(
                "is not JSON once {json} and {key} are filled in: %s" % error
            ) from None
    return text


def parse_prefer(text: str) -> str:
    """The value of a Prefer header (RFC 7240)."""
    return validate_headers({"Prefer": text})["Prefer"]


def submit_contradictions(profile: Profile) -> Iterator[Tuple[str, str]]:
    """Yield the submit keys that make no sense beside the others, each with the reason."""
    if not profile.submit_url:
        for key in _SUBMIT_KEYS:
            if getattr(profile, key) != getattr(_DEFAULTS, key):
                yield key, "has no effect without submit_url"
        return
    if profile.submit_id and not profile.url and not profile.submit_status_url:
        yield "submit_id", "needs a url with {id}, or the job can't be polled"
    if profile.submit_method == "GET":
        yield (
            "submit_method",
            "must not be GET: caches and proxies may repeat it; write POST or PUT",
        )
    sent = "%s %s" % (profile.submit_url, profile.submit_body or "")
    has_key = profile.idempotency_header is not None or "{key}" in sent
    if profile.submit_lookup and "{key}" not in profile.submit_lookup:
        yield "submit_lookup", "has no {key}: write it where the URL names the job's key"
    elif profile.submit_lookup and not has_key:
        problem = "finds nothing unless the API gets the key: write {key} in submit_body"
        yield "submit_lookup", problem
    if profile.submit_settle != _DEFAULTS.submit_settle and not profile.submit_lookup:
        yield "submit_settle", "has no effect without submit_lookup"
    has_ttl = profile.idempotency_ttl != _DEFAULTS.idempotency_ttl
    if has_ttl and not profile.idempotency_header:
        yield "idempotency_ttl", "has no effect without idempotency_header"
