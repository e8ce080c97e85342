"""The keys of a profile file: parse their texts, and write them.

A parser turns the text of a key into the value of the profile's field, or raises a ConfigError.
Messages follow the name of the key ("[a] timeout: has no value"), and never quote a secret. The
text of `profile_to_ini` parses back to the same profile, except for secrets, which become ***.
"""

import os
import re
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from ...core.profiles.bodies import has_id
from ...core.profiles.hold_templates import PLACEHOLDERS, hold_mistakes, validate_hold
from ...core.profiles.origins import REDIRECT_POLICIES, credential_origins, parse_origin
from ...core.profiles.profile import (
    ABSENT,
    BODY_FIELDS,
    HEAVIEST,
    TRANSPORTS,
    URL_FIELDS,
    Profile,
    needs_base,
    validate_base,
    validate_count,
    validate_size,
    validate_weight,
)
from ...core.profiles.result_keys import ON_TIMEOUT
from ...core.reading.fields.json_paths import Path, parse_single_path, split_next_page
from ...core.reading.fields.status_words import normalize_word
from ...core.reading.rules.parser import parse_rules
from ...core.spelling import similar_name
from ...core.units import duration_text, parse_limit, to_seconds
from ...core.urls import PLACEHOLDER, is_secret, is_url, parse_url, redact_url
from ...core.waiting.pace import parse_pace
from ...errors import ConfigError
from ..credentials import parse_credential
from ..http.connections.connecting import PKCS11
from ..http.user_headers import HEADER_NAME, validate_headers
from .submit_keys import parse_prefer, parse_submit_body, submit_contradictions
from .url_keys import parse_cancel_url, parse_result_url, url_parser

_METHOD = re.compile(r"[A-Z]{1,20}")
_BODY_FIELD = re.compile(r"""(["']?)([\w.-]+)\1(\s*[:=]\s*)("[^"]*"|'[^']*'|[^&\s,}]+)""")
_MULTI_LINE_KEYS = BODY_FIELDS + ("done", "failed", "pending", "origins", "rules")
_CONTINUES = "continues on the next line: is that line indented by mistake?"
_DEFAULTS = Profile()
_DEPENDENT_KEYS = {
    "batch_url": (
        "batch_body",
        "batch_items",
        "batch_id",
        "batch_size",
        "batch_next",
        "batch_absent",
    ),
    "result_url": ("result_next",),
    "cancel_url": ("cancel_method", "on_timeout"),
}
HEADER = "header."


def read_key(key: str, text: str, folder: str) -> Any:
    """The value of a key; `folder` is the one that relative paths refer to."""
    if "\n" in text and key not in _MULTI_LINE_KEYS:
        raise ConfigError(_CONTINUES)
    if not text:
        raise ConfigError("has no value: write one after the =, or leave the key out")
    if key in ("ca_file", "client_cert", "client_key"):
        return _absolute_path(text, folder)
    if key == "auth":
        return _parse_auth(text, folder)
    return PARSERS[key](text)


def read_header(name: str, text: str) -> str:
    """The value of a header; errors quote its name, and never its value."""
    if "\n" in text:
        raise ConfigError(_CONTINUES)
    return validate_headers({name: text})[name]


def unknown_key_message(key: str) -> str:
    """The message for an unknown key, with the most similar one as a hint."""
    similar = similar_name(key, KEYS + [HEADER + "NAME"])
    if similar is None:
        return "there is no such key; see pollkit help profiles"
    return "there is no such key: did you mean %s?" % similar


def contradictions(profile: Profile) -> Iterator[Tuple[str, str]]:
    """Yield the keys that make no sense beside the others, each with the reason."""
    if profile.url and "{id}" not in profile.url and not has_id(profile.body or ""):
        yield "url", "has no {id}: write it where the URL needs it, or in the body"
    if profile.client_key and not profile.client_cert:
        yield "client_key", "has no effect without client_cert"
    if profile.base and _has_only_urls_without_base(profile):
        yield "base", "has no effect without {base} in url"
    try:
        credential_origins(profile)
    except ConfigError as error:
        yield "origins", str(error)
    yield from hold_mistakes(profile)
    for needed, keys in _DEPENDENT_KEYS.items():
        for key in keys:
            if not getattr(profile, needed) and getattr(profile, key) != getattr(_DEFAULTS, key):
                yield key, "has no effect without " + needed
    if profile.cancel_url and "{id}" not in profile.cancel_url:
        yield "cancel_url", "has no {id}: it would not name the job to cancel"
    yield from submit_contradictions(profile)
    meanings: Dict[str, str] = {}
    for key in ("done", "failed", "pending"):
        for word in getattr(profile, key) or ():
            meaning = meanings.setdefault(normalize_word(word), key)
            if meaning != key:
                yield key, "has %r, which is also in %s" % (word, meaning)


def _has_only_urls_without_base(profile: Profile) -> bool:
    profiles = (profile, *profile.labels.values())
    has_urls = any(getattr(one, field) for one in profiles for field in URL_FIELDS)
    return has_urls and not any(map(needs_base, profiles))


def _parse_path(text: str) -> str:
    return Path(text).text


def _parse_single_path(text: str) -> str:
    return parse_single_path(text).text


def _parse_progress(text: str) -> str:
    part, slash, total = text.partition("/")
    if "/" in total:
        raise ConfigError("must be one path, or two with a / between: pages.done / pages.total")
    if not slash:
        return _parse_single_path(text)
    return "%s / %s" % (_parse_single_path(part), _parse_single_path(total))


def _parse_next_page(text: str) -> str:
    path, parameter = split_next_page(text)
    if path is None:
        return "header Link"
    return "%s as %s" % (path.text, parameter) if parameter else path.text


def _parse_words(text: str) -> Tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(","))
    if not all(words):
        raise ConfigError("has an empty word: write it as 'done, finished'")
    if not all(word.isprintable() for word in words):
        raise ConfigError(_CONTINUES)
    return words


def _parse_rules(text: str) -> Tuple[str, ...]:
    return tuple(rule.text for rule in parse_rules(text))


def _parse_timeout(text: str) -> Optional[float]:
    return None if text == "never" else to_seconds(text)


def _parse_request_timeout(text: str) -> float:
    seconds = to_seconds(text)
    if seconds == 0:
        raise ConfigError("must be above zero")
    return seconds


def _parse_hold(text: str) -> float:
    return validate_hold("it", to_seconds(text))


def _parse_count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise ConfigError("must be a whole number from 1, not %r" % text)
    return validate_count("it", int(text))


def _parse_size(text: str) -> float:
    try:
        return validate_size("it", float(text))
    except ValueError:  # also a ConfigError
        raise ConfigError("must be a number from 0, or inf, not %r" % text) from None


def _parse_weight(text: str) -> float:
    try:
        return validate_weight("it", float(text))
    except ValueError:  # also a ConfigError
        raise ConfigError("must be a number above 0, up to %d, not %r" % (HEAVIEST, text)) from None


def _parse_method(text: str) -> str:
    if not _METHOD.fullmatch(text):
        raise ConfigError("%r is not an HTTP method: write GET or POST" % text)
    return text


def _parse_header_name(text: str) -> str:
    if not HEADER_NAME.fullmatch(text):
        raise ConfigError("%r can't be a header's name: write one such as X-Signature" % text)
    return text


def _choice_parser(*words: str) -> Callable[[str], str]:
    """A parser for a key that takes one of some words."""

    def parse(text: str) -> str:
        if text not in words:
            raise ConfigError("must be %s, not %r" % (" or ".join(words), text))
        return text

    return parse


def _parse_proxy(text: str) -> str:
    if text in ("env", "none"):
        return text
    has_other_scheme = is_url(text) and not text.lower().startswith("http://")
    if " " in text or has_other_scheme:
        raise ConfigError("must be env, none or a URL such as http://proxy.internal:3128")
    parse_url(text if is_url(text) else "http://" + text)
    return text


def _parse_origins(text: str) -> Tuple[str, ...]:
    return tuple(parse_origin(part.strip()) for part in text.split(","))


def _parse_yes_or_no(text: str) -> bool:
    if text.lower() not in ("yes", "no"):
        raise ConfigError("must be yes or no, not %r" % text)
    return text.lower() == "yes"


def _absolute_path(text: str, folder: str) -> str:
    if text.startswith(PKCS11):  # not a path, but the name of a key on a token
        return text
    return os.path.join(folder, os.path.expanduser(text))


def _parse_auth(text: str, folder: str) -> str:
    source = parse_credential(text).source
    if not source.startswith("file:"):
        return text
    return text[: -len(source)] + "file:" + _absolute_path(source[len("file:") :], folder)


PARSERS: Dict[str, Callable[[str], Any]] = {
    "url": url_parser("id", "label", "base", *PLACEHOLDERS),
    "base": validate_base,
    "method": _parse_method,
    "body": str,
    "status": _parse_single_path,
    "done": _parse_words,
    "failed": _parse_words,
    "pending": _parse_words,
    "unknown": _choice_parser("pending", "failed"),
    "unknown_ids": _choice_parser("error", "pending"),
    "rules": _parse_rules,
    "confirm": _parse_count,
    "result": _parse_path,
    "error": _parse_path,
    "error_code": _parse_single_path,
    "progress": _parse_progress,
    "created": _parse_single_path,
    "finished": _parse_single_path,
    "limit": parse_limit,
    "weight": _parse_weight,
    "pace": parse_pace,
    "retry": parse_pace,
    "timeout": _parse_timeout,
    "request_timeout": _parse_request_timeout,
    "max_faults": _parse_count,
    "not_found_grace": to_seconds,
    "retry_after_default": to_seconds,
    "up_to": _parse_size,
    "proxy": _parse_proxy,
    "origins": _parse_origins,
    "transport": _choice_parser(*TRANSPORTS),
    "redirects": _choice_parser(*REDIRECT_POLICIES),
    "tls_strict": _parse_yes_or_no,
    "hold": _parse_hold,
    "hold_url": url_parser("id", "label", "base", *PLACEHOLDERS),
    "hold_method": _parse_method,
    "batch_url": url_parser("ids", "base"),
    "batch_body": str,
    "batch_items": _parse_path,
    "batch_id": _parse_single_path,
    "batch_size": _parse_count,
    "batch_next": _parse_next_page,
    "batch_absent": _choice_parser(*ABSENT),
    "submit_url": url_parser("label", "key", "base"),
    "submit_method": _parse_method,
    "submit_body": parse_submit_body,
    "submit_id": _parse_single_path,
    "submit_status_url": _parse_single_path,
    "submit_lookup": url_parser("key", "label", "base"),
    "submit_settle": to_seconds,
    "idempotency_header": _parse_header_name,
    "idempotency_ttl": to_seconds,
    "prefer": parse_prefer,
    "result_url": parse_result_url,
    "result_next": _parse_next_page,
    "cancel_url": parse_cancel_url,
    "cancel_method": _parse_method,
    "on_timeout": _choice_parser(*ON_TIMEOUT),
    "callback_header": _parse_header_name,
    "callback_id": _parse_single_path,
}
# In the order in which `profile_to_ini` writes them.
KEYS: List[str] = [
    "up_to",
    "url",
    "base",
    "auth",
    "method",
    "body",
    *(key for key in PARSERS if key not in ("up_to", "url", "base", "method", "body")),
    "ca_file",
    "client_cert",
    "client_key",
]


def profile_to_ini(profile: Profile) -> str:
    """A profile and its labels as sections of a file, without the keys that have their default."""
    # The pace is always written: it decides how often a job is polled, and a section without a url
    # changes the section of an earlier file, which may set another one.
    sections = [_section_text(profile.name or "", profile, Profile(pace="always written"))]
    for label, one in profile.labels.items():
        sections.append(_section_text("%s:%s" % (profile.name, label), one, profile))
    return "\n".join(sections)


def _section_text(title: str, profile: Profile, inherited: Profile) -> str:
    lines = list(_key_texts(profile, inherited))
    width = max([len(key) for key, _ in lines] or [0])
    rows = ["%-*s = %s" % (width, key, text) for key, text in lines]
    return "[%s]\n" % title + "".join(row.replace(" \n", "\n") + "\n" for row in rows)


def _key_texts(profile: Profile, inherited: Profile) -> Iterator[Tuple[str, str]]:
    """Yield the keys whose values are not inherited, each with its text."""
    for key in KEYS:
        value = getattr(profile, key)
        if value != getattr(inherited, key):
            yield key, _value_text(key, value)
    for name, value in profile.headers.items():
        if inherited.headers.get(name) != value:
            yield HEADER + name, "***" if is_secret(name) else value


def _value_text(key: str, value: Any) -> str:
    if value is None:
        return "never"  # only a timeout can be None if that isn't the default
    if key in (*URL_FIELDS, "base", "proxy"):
        return redact_url(value)
    if key in BODY_FIELDS:
        return _BODY_FIELD.sub(_redact_body_field, value).replace("\n", "\n    ")
    if key in ("done", "failed", "pending", "origins"):
        return ", ".join(value)
    if key == "rules":
        return "".join("\n    " + rule for rule in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key in ("up_to", "weight"):
        return "%d" % value if value == value // 1 else repr(value)
    return duration_text(value) if isinstance(value, float) else str(value)


def _redact_body_field(match: "re.Match[str]") -> str:
    quote, name, separator, value = match.groups()
    is_placeholder = re.fullmatch(PLACEHOLDER, value.strip("\"'")) is not None
    if not is_secret(name) or is_placeholder:
        return match.group()
    value_quote = value[0] if value[0] in "\"'" else ""
    return "%s%s%s%s%s***%s" % (quote, name, quote, separator, value_quote, value_quote)
