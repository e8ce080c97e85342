"""Profile: how one API speaks. A plain value; edges read it from INI, core obeys it."""
from typing import Any, Mapping, NamedTuple, Optional, Tuple, Union

from ..errors import ConfigError
from .lookup import Path
from .pace import Adaptive, Backoff, Fixed, Pace, parse_pace
from .units import Limit, parse_limit, seconds


class Profile(NamedTuple):
    """How one API speaks: its URL, where the status stands, what its words mean, its limit, its pace.

    Every field has the default of an API nobody has described: the status is found by itself.
    Paces, limits and durations may be given as text ('fixed 5s', '60/m', '10m').

    >>> Profile(name="mine", url="https://api.internal/jobs/{id}", status="data.state").timeout
    300.0
    """

    name: Optional[str] = None
    url: Optional[str] = None
    method: str = "GET"
    body: Optional[str] = None
    headers: Mapping[str, str] = {}
    auth: Optional[str] = None

    # where things stand in a reply: dotted paths; None: the common places
    status: Optional[str] = None
    result: Optional[str] = None
    error: Optional[str] = None
    error_code: Optional[str] = None
    progress: Optional[str] = None
    created: Optional[str] = None
    finished: Optional[str] = None

    # what the words mean; None: the common words
    done: Optional[Tuple[str, ...]] = None
    failed: Optional[Tuple[str, ...]] = None
    pending: Optional[Tuple[str, ...]] = None
    unknown: str = "pending"

    # when to look, how long, how often at the most
    pace: Union[Pace, str, None] = None
    retry: Union[Pace, str] = Backoff(1, 30, factor=2, jitter="equal")
    limit: Union[Limit, str, None] = None
    timeout: Union[float, str, None] = 300.0
    request_timeout: Union[float, str] = 30.0
    max_faults: int = 10
    not_found_grace: Union[float, str] = 10.0
    retry_after_default: Union[float, str, None] = None

    # one request for many jobs: {ids} in its URL, the path of the items, and of the id in each
    batch_url: Optional[str] = None
    batch_items: Optional[str] = None
    batch_id: str = "id"
    batch_size: int = 50

    # how to connect
    ca_file: Optional[str] = None
    client_cert: Optional[str] = None
    client_key: Optional[str] = None
    proxy: str = "env"


_PATHS = ("status", "result", "error", "error_code", "created", "finished", "batch_items", "batch_id")
_DURATIONS = ("timeout", "request_timeout", "not_found_grace", "retry_after_default")
_MAY_BE_NONE = ("timeout", "retry_after_default")


def checked(profile: Profile) -> Profile:
    """A profile that makes sense, with all that was given as text read; or a ConfigError."""
    if not isinstance(profile, Profile):
        raise ConfigError("a profile is a pollkit.Profile, not %r" % (profile,))
    if profile.unknown not in ("pending", "failed"):
        raise ConfigError("unknown is pending or failed, not %r" % (profile.unknown,))
    for name in ("max_faults", "batch_size"):
        whole_number(name, getattr(profile, name))
    for name in _PATHS:
        if getattr(profile, name) is not None:
            Path(getattr(profile, name))
    read = {name: getattr(profile, name) for name in _DURATIONS}
    for name, value in read.items():
        if value is not None or name not in _MAY_BE_NONE:
            read[name] = seconds(value, name)
    if read["request_timeout"] == 0:
        raise ConfigError("request_timeout must be above zero")
    limit = profile.limit
    return profile._replace(
        done=_words(profile.done), failed=_words(profile.failed), pending=_words(profile.pending),
        pace=None if profile.pace is None else pace_of(profile.pace), retry=pace_of(profile.retry),
        limit=parse_limit(limit) if isinstance(limit, str) else limit, **read)


def pace_of(pace: Any) -> Pace:
    """A pace, given as one or as text."""
    if isinstance(pace, str):
        return parse_pace(pace)
    if not isinstance(pace, (Fixed, Backoff, Adaptive)):
        raise ConfigError("a pace is Fixed, Backoff, Adaptive or text such as 'fixed 5s', not %r" % (pace,))
    return pace


def whole_number(name: str, value: Any) -> int:
    """A count that makes sense."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1000000:
        raise ConfigError("%s must be a whole number from 1, not %r" % (name, value))
    return value


def _words(words: Any) -> Optional[Tuple[str, ...]]:
    """Status words, given as a list or as text with commas in between."""
    if words is None:
        return None
    parts = words.split(",") if isinstance(words, str) else words
    return tuple(str(part).strip() for part in parts)
