"""Profile: how one API is polled and its replies are understood. A plain value, read from INI."""

from enum import Enum
from typing import Any, Dict, Iterable, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ...errors import ConfigError
from ..reading.fields.json_paths import Path, parse_single_path
from ..units import Duration, Limit, is_number, parse_limit, to_seconds
from ..urls import is_secret, parse_url, redact_url
from ..waiting.pace import Adaptive, Backoff, Fixed, Pace, parse_pace
from .hold_templates import hold_mistakes, validate_hold
from .origins import REDIRECT_POLICIES, parse_origin
from .result_keys import ON_TIMEOUT, check_result_and_cancel

URL_FIELDS = "url batch_url hold_url submit_url submit_lookup result_url cancel_url".split()
TRANSPORTS = ("builtin", "urllib", "requests", "curl")
BODY_FIELDS = ("body", "batch_body", "submit_body")
HEAVIEST = 1000  # the largest weight
DEFAULT_TIMEOUT = "default"  # no timeout is configured; None already means 'for ever'


class Profile(NamedTuple):
    """How one API is polled and its replies are understood.

    By default, pollkit detects the status field and the meaning of its values. Paces, limits and
    durations may be given as text ('fixed 5s', '60/m', '10m'), a duration also as seconds or a
    timedelta, and a fixed pace as seconds.

    The defaults of `timeout` and `max_faults` depend on the driver: see
    core/waiting/wait_settings.py.

    >>> Profile(name="mine", url="https://api.internal/jobs/{id}", timeout="10m").timeout
    '10m'
    """

    name: Optional[str] = None
    url: Optional[str] = None
    method: str = "GET"
    body: Optional[str] = None
    headers: Mapping[str, str] = {}
    auth: Optional[str] = None

    # the fields of a reply, as dotted paths; None: the usual fields
    status: Optional[str] = None
    result: Optional[str] = None
    error: Optional[str] = None
    error_code: Optional[str] = None
    progress: Optional[str] = None
    created: Optional[str] = None
    finished: Optional[str] = None

    # the status words of each meaning; None: the usual words
    done: Optional[Tuple[str, ...]] = None
    failed: Optional[Tuple[str, ...]] = None
    pending: Optional[Tuple[str, ...]] = None
    unknown: str = "pending"
    unknown_ids: str = "error"  # the API's answer for an id that it does not know, or pending

    # rules that judge a reply before its status does: see reading/rule_parser.py
    rules: Union[str, Sequence[str]] = ()
    confirm: int = 1  # done and failed count when seen so many times in a row

    # when to poll, how long, and how often at most
    pace: Union[Pace, str, float, None] = Adaptive()  # None: the same
    retry: Union[Pace, str, float] = Backoff(1, 30, factor=2, jitter="equal")
    limit: Union[Limit, str, None] = None
    weight: float = 1.0  # a second of delay of its jobs counts so many times
    timeout: Optional[Duration] = DEFAULT_TIMEOUT  # None: for ever
    request_timeout: Duration = 30.0
    max_faults: Optional[int] = None  # None: the default
    not_found_grace: Duration = 10.0
    retry_after_default: Optional[Duration] = None

    # one request for many jobs: its URL and body with {ids}, the path of the items, the path of an
    # item's id, the path of the next page, and the meaning of a job's absence
    batch_url: Optional[str] = None
    batch_body: Optional[str] = None
    batch_items: Optional[str] = None
    batch_id: str = "id"
    batch_size: int = 50
    batch_next: Optional[str] = None  # 'PATH', 'PATH as PARAMETER' or 'header Link'
    batch_absent: str = "ask"

    # long polling: the longest time of a held poll, and its address and method if it has its own;
    # see hold_templates.py
    hold: Optional[Duration] = None
    hold_url: Optional[str] = None
    hold_method: Optional[str] = None

    # how to submit a job: see core/submitting; {key} is a new one for each job
    submit_url: Optional[str] = None  # {label}, {key}
    submit_method: str = "POST"
    submit_body: Optional[str] = None  # {json} is the user's JSON; {key}, {label}; None: {json}
    submit_id: Optional[str] = None  # the path of the id in the reply; None: the usual fields
    submit_status_url: Optional[str] = None  # the path of the job's URL in the reply
    submit_lookup: Optional[str] = None  # a URL with {key} that finds the job
    submit_settle: Duration = 60.0  # how long a lookup may miss a job that was submitted
    idempotency_header: Optional[str] = None
    idempotency_ttl: Duration = 86400.0  # how long the server remembers a key
    prefer: Optional[str] = None  # the Prefer header of a submission, such as respond-async

    # the result of a done job, if it has its own URL, and how to cancel a job: URL templates;
    # result_url may also be the path of a link in the reply
    result_url: Optional[str] = None
    result_next: Optional[str] = None  # as batch_next
    cancel_url: Optional[str] = None
    cancel_method: str = "POST"
    on_timeout: str = "stop"

    # callbacks: the header with the signature, the path of the id in the body; None: the defaults
    callback_header: Optional[str] = None
    callback_id: Optional[str] = None

    # how to connect
    ca_file: Optional[str] = None
    client_cert: Optional[str] = None
    client_key: Optional[str] = None
    proxy: str = "env"
    transport: str = "builtin"
    tls_strict: bool = True  # False: accept certificates that only Python 3.13 rejects

    # other origins that credentials may be sent to, and which redirects are followed
    origins: Tuple[str, ...] = ()
    redirects: str = "safe"

    # the value of {base} in the URLs; and the labels, each a whole profile with its largest size
    base: Optional[str] = None
    label: Optional[str] = None
    up_to: Optional[float] = None
    labels: Mapping[str, Any] = {}  # Any is a Profile; in quotes, it would be slow: see units.py

    def __repr__(self) -> str:
        """The fields that differ from their defaults, without secrets."""
        fields = [
            "%s=%s" % (name, _redact_field(name, value))
            for name, value in zip(self._fields, self)
            if value != self._field_defaults[name]
        ]
        return "Profile(%s)" % ", ".join(fields)


def _redact_field(name: str, value: Any) -> str:
    if name in (*URL_FIELDS, "base", "proxy"):
        return repr(redact_url(str(value)))
    if name == "headers" and isinstance(value, Mapping):
        return repr(
            {header: "***" if is_secret(header) else text for header, text in value.items()}
        )
    return "'***'" if name in BODY_FIELDS + ("headers",) else repr(value)


# Paths to one value each; a path to several has [] in it.
_SINGLE_PATHS = ["status", "error_code", "created", "finished", "batch_id", "callback_id"]
_SINGLE_PATHS += ["submit_id", "submit_status_url"]
_PATHS = _SINGLE_PATHS + ["result", "error", "batch_items"]
_TEXTS = """
    name url body auth progress batch_url batch_body batch_next callback_header base label
    ca_file client_cert client_key submit_url submit_body submit_lookup idempotency_header prefer
    result_url result_next cancel_url hold_url hold_method
""".split()
ABSENT = ("pending", "ask", "done", "failed")  # the values of batch_absent
_CHOICES = {
    "unknown": ("pending", "failed"),
    "unknown_ids": ("error", "pending"),
    "batch_absent": ABSENT,
    "on_timeout": ON_TIMEOUT,
    "redirects": REDIRECT_POLICIES,
    "transport": TRANSPORTS,
}
_DURATIONS = ["timeout", "request_timeout", "not_found_grace", "retry_after_default"]
_DURATIONS += ["submit_settle", "idempotency_ttl", "hold"]
_MAY_BE_NONE = ("timeout", "retry_after_default", "hold")

# The types of the fields, and their description in errors. Fields with other checks are not listed.
_TYPES = (
    (["method", "submit_method", "cancel_method", "proxy", "batch_id"], str, "text"),
    (_TEXTS + _PATHS, (str, type(None)), "text"),
    (["done", "failed", "pending"], (str, Iterable, type(None)), "words"),
    (["origins"], (str, Iterable), "origins such as https://api.internal"),
    (["rules"], (str, list, tuple), "rules, as text or as a list"),
    (["tls_strict"], bool, "True or False"),
    (["limit"], (str, Limit, type(None)), "a limit such as '60/m'"),
    (["headers"], Mapping, "a mapping of names to values"),
    (["labels"], Mapping, "a mapping of labels to profiles"),
)


def validate_profile(profile: Profile) -> Profile:
    """A valid profile, in which texts such as '10m' are parsed; otherwise a ConfigError."""
    if not isinstance(profile, Profile):
        raise ConfigError("a profile must be a pollkit.Profile, not %r" % (profile,))
    _check_types(profile)
    for name, words in _CHOICES.items():
        value = getattr(profile, name)
        if value not in words:
            raise ConfigError("%s must be %s, not %r" % (name, " or ".join(words), value))
    check_result_and_cancel(profile)
    validate_count("batch_size", profile.batch_size)
    validate_count("confirm", profile.confirm)
    if profile.max_faults is not None:
        validate_count("max_faults", profile.max_faults)
    for name in _PATHS:
        if getattr(profile, name) is not None:
            parse = parse_single_path if name in _SINGLE_PATHS else Path
            parse(getattr(profile, name))
    if profile.progress is not None:
        for part in profile.progress.split("/"):
            parse_single_path(part)
    rules: Sequence[str] = ()
    if profile.rules:
        from ..reading.rules.parser import parse_rules  # late: it takes 2 ms, and few have rules

        rules = tuple(rule.text for rule in parse_rules(profile.rules))
    for key, mistake in hold_mistakes(profile):
        raise ConfigError("%s %s" % (key, mistake))
    if profile.base is not None:
        validate_base(profile.base)
    if profile.up_to is not None:
        validate_size("up_to", profile.up_to)
    validate_weight("weight", profile.weight)
    limit = profile.limit
    return profile._replace(
        done=_to_words(profile.done),
        failed=_to_words(profile.failed),
        pending=_to_words(profile.pending),
        rules=rules,
        pace=Adaptive() if profile.pace is None else to_pace(profile.pace),
        retry=to_pace(profile.retry),
        limit=parse_limit(limit) if isinstance(limit, str) else limit,
        origins=tuple(map(parse_origin, _to_words(profile.origins) or ())),
        **_parse_durations(profile),
    )


def _parse_durations(profile: Profile) -> Dict[str, Any]:
    """The durations of a profile in seconds; the default timeout stays as it is."""
    durations = {name: getattr(profile, name) for name in _DURATIONS}
    if durations["timeout"] == "never":
        durations["timeout"] = None
    for name, value in durations.items():
        is_none = value is None and name in _MAY_BE_NONE
        is_default = value == DEFAULT_TIMEOUT and name == "timeout"
        if not is_none and not is_default:
            durations[name] = to_seconds(value, name)
    if durations["request_timeout"] == 0:
        raise ConfigError("request_timeout must be above zero")
    if durations["hold"] is not None:
        validate_hold("hold", durations["hold"])
    return durations


def _check_types(profile: Profile) -> None:
    for names, types, description in _TYPES:
        for name in names:
            value: Any = getattr(profile, name)
            if not isinstance(value, types):  # the value is not quoted: it may be a secret
                raise ConfigError(
                    "%s must be %s, not %s" % (name, description, type(value).__name__)
                )
    for labelled in profile.labels.values():
        if not isinstance(labelled, Profile):
            raise ConfigError(
                "labels must be a mapping of labels to profiles, not to %s"
                % type(labelled).__name__
            )


def profile_for_job(
    profile: Profile, label: Optional[str] = None, size: Optional[float] = None
) -> Profile:
    """The profile for a job with a label or a size; a size selects the smallest label that fits.

    A job with neither, or whose size fits no label, gets the profile itself. So does a job with an
    unknown label, if the profile has no labels or its URL accepts any (`{label}`).

    >>> small = Profile(label="small", up_to=10, timeout=60.0)
    >>> mine = Profile(timeout=300.0, labels={"small": small})
    >>> profile_for_job(mine, size=7).timeout, profile_for_job(mine, size=70).timeout
    (60.0, 300.0)
    """
    if size is not None:
        validate_size("size", size)
    if label is not None:
        return _profile_for_label(profile, label)
    if size is None:
        return profile
    by_size = [(one.up_to, one) for one in profile.labels.values() if one.up_to is not None]
    fitting = [(up_to, one) for up_to, one in by_size if size <= up_to]
    return min(fitting, key=lambda pair: pair[0])[1] if fitting else profile


def _profile_for_label(profile: Profile, label: Any) -> Profile:
    if not isinstance(label, str):
        raise ConfigError("a label must be text, not %r" % (label,))
    labelled: Optional[Profile] = profile.labels.get(label)
    if labelled is not None:
        return labelled
    if not profile.labels or "{label}" in "%s %s" % (profile.url, profile.submit_url):
        return profile
    raise ConfigError(
        "profile %s has no label %r: it has %s"
        % (profile.name or "without a name", label, ", ".join(profile.labels))
    )


def needs_base(profile: Profile) -> bool:
    """Whether one of the profile's URLs has a {base} to fill in."""
    return any("{base}" in (getattr(profile, field) or "") for field in URL_FIELDS)


def fill_base(profile: Profile, base: Optional[str] = None) -> Profile:
    """The profile and its labels with {base} filled in, by `base` or by their own base.

    A ConfigError if the profile needs a base URL and there is none.

    >>> fill_base(Profile(url="{base}/jobs/{id}"), "http://ray.internal:8265/").url
    'http://ray.internal:8265/jobs/{id}'
    """
    if base is None and profile.base is None and needs_base(profile):
        raise ConfigError(
            "profile %s needs a base URL: give --base-url, POLLKIT_BASE_URL or base = URL in a file"
            % (profile.name or "without a name")
        )
    labels = {name: _replace_base(one, base) for name, one in profile.labels.items()}
    return _replace_base(profile, base)._replace(labels=labels)


def _replace_base(profile: Profile, base: Optional[str]) -> Profile:
    base = profile.base if base is None else base
    if base is None:
        return profile
    root = validate_base(base).rstrip("/")
    urls = {field: getattr(profile, field) for field in URL_FIELDS}
    filled = {field: url and url.replace("{base}", root) for field, url in urls.items()}
    return profile._replace(base=base, **filled)


def validate_base(base: Any) -> str:
    """A valid base URL, which precedes the path of every job; otherwise a ConfigError."""
    if not isinstance(base, str):
        raise ConfigError("a base URL must be text, not %r" % (base,))
    parse_url(base)
    if set(base) & set("?# {}"):
        raise ConfigError(
            "the base URL %r can have no query, fragment, space or brace: the path of a job "
            "follows it" % redact_url(base)
        )
    return base


def validate_size(name: str, size: Any) -> float:
    """A valid size: a number from 0, also `inf`; otherwise a ConfigError."""
    if not is_number(size) or not size >= 0:  # nan is not >= 0, either
        raise ConfigError("%s must be a number from 0, not %r" % (name, size))
    valid: float = size  # not float(size): a large int has no float
    return valid


def validate_weight(name: str, weight: Any) -> float:
    """A valid weight: a number above 0, up to 1000; otherwise a ConfigError."""
    if not is_number(weight) or not 0 < weight <= HEAVIEST:
        raise ConfigError(
            "%s must be a number above 0, up to %d, not %r" % (name, HEAVIEST, weight)
        )
    return float(weight)


def to_pace(pace: Any) -> Pace:
    """A pace, from a pace, a text such as 'fixed 5s', or the seconds of a fixed pace."""
    if isinstance(pace, (Fixed, Backoff, Adaptive)):
        return pace
    if isinstance(pace, str):
        return parse_pace(pace)
    if is_number(pace):
        return Fixed(to_seconds(pace, "pace"))
    raise ConfigError(
        "a pace must be Fixed, Backoff, Adaptive, seconds or text such as 'fixed 5s', not %r"
        % (pace,)
    )


def validate_count(name: str, value: Any) -> int:
    """A valid count: a whole number from 1 to a million; otherwise a ConfigError."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not 1 <= value <= 1000000:
        raise ConfigError("%s must be a whole number from 1, not %r" % (name, value))
    return int(value)


def _to_words(words: Any) -> Optional[Tuple[str, ...]]:
    """Words, from an iterable or from a text with commas between them."""
    if words is None:
        return None
    if isinstance(words, str):
        words = words.split(",")
    values = [word.value if isinstance(word, Enum) else word for word in words]
    return tuple(str(value).strip() for value in values)
