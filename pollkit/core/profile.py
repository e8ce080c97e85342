"""Profile: how one API speaks. A plain value; edges read it from INI, core obeys it."""

from typing import Any, Dict, Iterable, Mapping, NamedTuple, Optional, Tuple, Union

from ..errors import ConfigError
from .origins import REDIRECT_POLICIES, parse_origin
from .pace import Adaptive, Backoff, Fixed, Pace, parse_pace
from .reading.json_paths import Path
from .units import Limit, parse_limit, to_seconds
from .urls import is_secret, parse_url, redact_url

DEFAULT_TIMEOUT = "default"  # a timeout that nobody has named; None already means 'for ever'


class Profile(NamedTuple):
    """How one API speaks: its URL, where the status stands, what its words mean, its limit, its pace.

    Every field has the default of an API nobody has described: the status is found by itself.
    Paces, limits and durations may be given as text ('fixed 5s', '60/m', '10m').

    `timeout` and `max_faults` have a default that depends on who waits: see core/rules.py.

    >>> Profile(name="mine", url="https://api.internal/jobs/{id}", timeout="10m").timeout
    '10m'
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
    pace: Union[Pace, str, None] = Adaptive()  # None: the same
    retry: Union[Pace, str] = Backoff(1, 30, factor=2, jitter="equal")
    limit: Union[Limit, str, None] = None
    timeout: Union[float, str, None] = DEFAULT_TIMEOUT  # None: for ever
    request_timeout: Union[float, str] = 30.0
    max_faults: Optional[int] = None  # None: the default
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
    tls_strict: bool = True  # False: accept what only the stricter rules of Python 3.13 refuse

    # where credentials may go besides the origin of the URL, and which redirects are followed
    origins: Tuple[str, ...] = ()
    redirects: str = "safe"

    # what {base} in the URLs stands for; and labels: each a whole profile, up to which size, in order
    base: Optional[str] = None
    label: Optional[str] = None
    up_to: Optional[float] = None
    labels: Mapping[str, "Profile"] = {}

    def __repr__(self) -> str:
        """What differs from the defaults, without secrets."""
        usual = self._field_defaults
        return "Profile(%s)" % ", ".join(
            "%s=%s" % (name, _shown(name, value))
            for name, value in zip(self._fields, self)
            if value != usual[name]
        )


def _shown(name: str, value: Any) -> str:
    if name in ("url", "batch_url", "base", "proxy"):
        return repr(redact_url(str(value)))
    if name == "headers" and isinstance(value, Mapping):
        return repr(
            {header: "***" if is_secret(header) else text for header, text in value.items()}
        )
    return "'***'" if name in ("body", "headers") else repr(value)


_PATHS = (
    "status",
    "result",
    "error",
    "error_code",
    "created",
    "finished",
    "batch_items",
    "batch_id",
)
_DURATIONS = ("timeout", "request_timeout", "not_found_grace", "retry_after_default")
_MAY_BE_NONE = ("timeout", "retry_after_default")

# What the fields take that are read as they are; those with a check of their own are not here.
_TYPES = (
    (("method", "proxy", "batch_id"), str, "text"),
    (
        (
            "name",
            "url",
            "body",
            "auth",
            "progress",
            "batch_url",
            "base",
            "label",
            "ca_file",
            "client_cert",
            "client_key",
        )
        + _PATHS,
        (str, type(None)),
        "text",
    ),
    (("done", "failed", "pending"), (str, Iterable, type(None)), "words"),
    (("origins",), (str, Iterable), "origins such as https://api.internal"),
    (("tls_strict",), bool, "True or False"),
    (("limit",), (str, Limit, type(None)), "a limit such as '60/m'"),
    (("headers",), Mapping, "a mapping of names to values"),
    (("labels",), Mapping, "a mapping of labels to profiles"),
)


def validate_profile(profile: Profile) -> Profile:
    """A profile that makes sense, with all that was given as text read; or a ConfigError."""
    if not isinstance(profile, Profile):
        raise ConfigError("a profile is a pollkit.Profile, not %r" % (profile,))
    _check_types(profile)
    if profile.unknown not in ("pending", "failed"):
        raise ConfigError("unknown is pending or failed, not %r" % (profile.unknown,))
    if profile.redirects not in REDIRECT_POLICIES:
        policies = " or ".join(REDIRECT_POLICIES)
        raise ConfigError("redirects is %s, not %r" % (policies, profile.redirects))
    validate_count("batch_size", profile.batch_size)
    if profile.max_faults is not None:
        validate_count("max_faults", profile.max_faults)
    for name in _PATHS:
        if getattr(profile, name) is not None:
            Path(getattr(profile, name))
    if profile.base is not None:
        validate_base(profile.base)
    if profile.up_to is not None:
        validate_size("up_to", profile.up_to)
    limit = profile.limit
    return profile._replace(
        done=_words(profile.done),
        failed=_words(profile.failed),
        pending=_words(profile.pending),
        pace=Adaptive() if profile.pace is None else to_pace(profile.pace),
        retry=to_pace(profile.retry),
        limit=parse_limit(limit) if isinstance(limit, str) else limit,
        origins=tuple(map(parse_origin, _words(profile.origins) or ())),
        **_read_durations(profile),
    )


def _read_durations(profile: Profile) -> Dict[str, Any]:
    """The durations of a profile in seconds; a timeout that nobody has named stays the default."""
    read = {name: getattr(profile, name) for name in _DURATIONS}
    if read["timeout"] == "never":
        read["timeout"] = None
    for name, value in read.items():
        is_none = value is None and name in _MAY_BE_NONE
        is_default = value == DEFAULT_TIMEOUT and name == "timeout"
        if not is_none and not is_default:
            read[name] = to_seconds(value, name)
    if read["request_timeout"] == 0:
        raise ConfigError("request_timeout must be above zero")
    return read


def _check_types(profile: Profile) -> None:
    for names, types, takes in _TYPES:
        for name in names:
            value: Any = getattr(profile, name)
            if not isinstance(value, types):  # the value itself is not repeated: it may be a secret
                raise ConfigError("%s must be %s, not %s" % (name, takes, type(value).__name__))
    for one in profile.labels.values():
        if not isinstance(one, Profile):
            raise ConfigError(
                "labels must be a mapping of labels to profiles, not to %s" % type(one).__name__
            )


def profile_for_job(
    profile: Profile, label: Optional[str] = None, size: Optional[float] = None
) -> Profile:
    """The profile for a job of that label, or of that size: the smallest label that it fits in.

    A job that no label fits, or that has neither, gets the profile itself. So does a label the
    profile doesn't know, where it has none at all or its URL takes any (`{label}`).

    >>> mine = Profile(timeout=300.0, labels={"small": Profile(label="small", up_to=10, timeout=60.0)})
    >>> profile_for_job(mine, size=7).timeout, profile_for_job(mine, size=70).timeout
    (60.0, 300.0)
    """
    if size is not None:
        validate_size("size", size)
    if label is not None:
        if not isinstance(label, str):
            raise ConfigError("a label is text, not %r" % (label,))
        if label in profile.labels:
            return profile.labels[label]
        if not profile.labels or "{label}" in (profile.url or ""):
            return profile
        raise ConfigError(
            "profile %s has no label %r: it has %s"
            % (profile.name or "without a name", label, ", ".join(profile.labels))
        )
    if size is None:
        return profile
    fitting = [
        (one.up_to, one)
        for one in profile.labels.values()
        if one.up_to is not None and size <= one.up_to
    ]
    return min(fitting, key=lambda pair: pair[0])[1] if fitting else profile


def fill_base(profile: Profile, base: Optional[str] = None) -> Profile:
    """The profile with {base} filled in, by `base` or else by its own; its labels' likewise.

    A profile that needs a base URL, where none is known, is a ConfigError.

    >>> fill_base(Profile(url="{base}/jobs/{id}"), "http://ray.internal:8265/").url
    'http://ray.internal:8265/jobs/{id}'
    """
    if (
        base is None
        and profile.base is None
        and "{base}" in "%s %s" % (profile.url, profile.batch_url)
    ):
        raise ConfigError(
            "profile %s needs a base URL: give --base-url, POLLKIT_BASE_URL or base = URL in a file"
            % (profile.name or "without a name")
        )
    return _filled(profile, base)


def _filled(profile: Profile, base: Optional[str]) -> Profile:
    known = profile.base if base is None else base
    filled = profile._replace(
        labels={name: _filled(one, base) for name, one in profile.labels.items()}
    )
    if known is None:
        return filled
    root = validate_base(known).rstrip("/")
    return filled._replace(
        base=known,
        url=profile.url and profile.url.replace("{base}", root),
        batch_url=profile.batch_url and profile.batch_url.replace("{base}", root),
    )


def validate_base(base: Any) -> str:
    """A base URL that makes sense: what stands before the path of every job's URL."""
    if not isinstance(base, str):
        raise ConfigError("a base URL is text, not %r" % (base,))
    parse_url(base)
    if set(base) & set("?# {}"):
        raise ConfigError(
            "the base URL %r goes on with a job's path: it can have no query, space or brace"
            % redact_url(base)
        )
    return base


def validate_size(name: str, size: Any) -> float:
    """A size that makes sense: a number from 0; `inf` is one, too."""
    if (
        isinstance(size, bool) or not isinstance(size, (int, float)) or not size >= 0
    ):  # also for nan
        raise ConfigError("%s must be a number from 0, not %r" % (name, size))
    return size


def to_pace(pace: Any) -> Pace:
    """A pace, given as one or as text."""
    if isinstance(pace, str):
        return parse_pace(pace)
    if not isinstance(pace, (Fixed, Backoff, Adaptive)):
        raise ConfigError(
            "a pace is Fixed, Backoff, Adaptive or text such as 'fixed 5s', not %r" % (pace,)
        )
    return pace


def validate_count(name: str, value: Any) -> int:
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
