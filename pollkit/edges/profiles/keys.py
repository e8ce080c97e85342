"""The keys of a profile file: parse their texts, and write them.

A parser turns the text of a key into the value of the profile's field, or raises a ConfigError.
Messages follow the name of the key ("[a] timeout: has no value"), and never quote a secret. The
text of `profile_to_ini` parses back to the same profile, except for secrets, which become ***.
"""

import os
import re
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from ...core.origins import REDIRECT_POLICIES, credential_origins, parse_origin
from ...core.pace import parse_pace
from ...core.profile import (
    TRANSPORTS,
    Profile,
    needs_base,
    validate_base,
    validate_count,
    validate_size,
)
from ...core.reading.json_paths import Path
from ...core.reading.status_words import normalize_word
from ...core.spelling import similar_name
from ...core.units import duration_text, parse_limit, to_seconds
from ...core.urls import PLACEHOLDER, is_secret, is_url, parse_url, redact_url
from ...errors import ConfigError
from ..credentials import parse_credential
from ..http.connecting import PKCS11
from ..http.user_headers import validate_headers

_METHOD = re.compile(r"[A-Z]{1,20}")
_BODY_FIELD = re.compile(r"""(["']?)([\w.-]+)\1(\s*[:=]\s*)("[^"]*"|'[^']*'|[^&\s,}]+)""")
_MULTI_LINE_KEYS = ("body", "done", "failed", "pending", "origins")
_CONTINUES = "continues on the next line: is that line indented by mistake?"
_DEFAULTS = Profile()
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
    if profile.client_key and not profile.client_cert:
        yield "client_key", "has no effect without client_cert"
    if profile.base and _has_only_urls_without_base(profile):
        yield "base", "has no effect without {base} in url"
    try:
        credential_origins(profile)
    except ConfigError as error:
        yield "origins", str(error)
    if not profile.batch_url:
        for key in ("batch_items", "batch_id", "batch_size"):
            if getattr(profile, key) != getattr(_DEFAULTS, key):
                yield key, "has no effect without batch_url"
    meanings: Dict[str, str] = {}
    for key in ("done", "failed", "pending"):
        for word in getattr(profile, key) or ():
            meaning = meanings.setdefault(normalize_word(word), key)
            if meaning != key:
                yield key, "has %r, which is also in %s" % (word, meaning)


def _has_only_urls_without_base(profile: Profile) -> bool:
    profiles = (profile, *profile.labels.values())
    has_urls = any(one.url or one.batch_url for one in profiles)
    return has_urls and not any(map(needs_base, profiles))


def _parse_path(text: str) -> str:
    return Path(text).text


def _parse_progress(text: str) -> str:
    part, slash, total = text.partition("/")
    if "/" in total:
        raise ConfigError("must be one path, or two with a / between: pages.done / pages.total")
    return "%s / %s" % (_parse_path(part), _parse_path(total)) if slash else _parse_path(text)


def _parse_words(text: str) -> Tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(","))
    if not all(words):
        raise ConfigError("has an empty word: write it as 'done, finished'")
    if not all(word.isprintable() for word in words):
        raise ConfigError(_CONTINUES)
    return words


def _parse_timeout(text: str) -> Optional[float]:
    return None if text == "never" else to_seconds(text)


def _parse_request_timeout(text: str) -> float:
    seconds = to_seconds(text)
    if seconds == 0:
        raise ConfigError("must be above zero")
    return seconds


def _parse_count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise ConfigError("must be a whole number from 1, not %r" % text)
    return validate_count("it", int(text))


def _parse_size(text: str) -> float:
    try:
        return validate_size("it", float(text))
    except ValueError:  # also a ConfigError
        raise ConfigError("must be a number from 0, or inf, not %r" % text) from None


def _parse_method(text: str) -> str:
    if not _METHOD.fullmatch(text):
        raise ConfigError("%r is not an HTTP method: write GET or POST" % text)
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


def _url_parser(required: str, *optional: str) -> Callable[[str], str]:
    """A parser for a URL with one required placeholder and some optional ones."""
    placeholders = (required,) + optional

    def parse(text: str) -> str:
        for name in PLACEHOLDER.findall(text):
            if name not in placeholders:
                known = ", ".join("{%s}" % known for known in placeholders)
                raise ConfigError("has an unknown placeholder {%s}: use %s" % (name, known))
        url = text
        if text.startswith("{base}"):
            url = text.replace("{base}", "https://base", 1)
        has_inner_base = "{base}" in url
        url = PLACEHOLDER.sub("x", url)
        if has_inner_base or set(url) & set("{} "):
            raise ConfigError(
                "is not a URL: it has a space, an unmatched brace, or {base} not at its start"
            )
        parse_url(url)
        if "{%s}" % required not in text:
            raise ConfigError("has no {%s}: write it where the URL needs it" % required)
        return text

    return parse


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
    "url": _url_parser("id", "label", "base"),
    "base": validate_base,
    "method": _parse_method,
    "body": str,
    "status": _parse_path,
    "done": _parse_words,
    "failed": _parse_words,
    "pending": _parse_words,
    "unknown": _choice_parser("pending", "failed"),
    "result": _parse_path,
    "error": _parse_path,
    "error_code": _parse_path,
    "progress": _parse_progress,
    "created": _parse_path,
    "finished": _parse_path,
    "limit": parse_limit,
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
    "batch_url": _url_parser("ids", "base"),
    "batch_items": _parse_path,
    "batch_id": _parse_path,
    "batch_size": _parse_count,
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
    return "[%s]\n" % title + "".join("%-*s = %s\n" % (width, key, text) for key, text in lines)


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
    if key in ("url", "batch_url", "base", "proxy"):
        return redact_url(value)
    if key == "body":
        return _BODY_FIELD.sub(_redact_body_field, value).replace("\n", "\n    ")
    if key in ("done", "failed", "pending", "origins"):
        return ", ".join(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key == "up_to":
        return "%d" % value if value == value // 1 else repr(value)
    return duration_text(value) if isinstance(value, float) else str(value)


def _redact_body_field(match: "re.Match[str]") -> str:
    quote, name, separator, value = match.groups()
    if not is_secret(name):
        return match.group()
    value_quote = value[0] if value[0] in "\"'" else ""
    return "%s%s%s%s%s***%s" % (quote, name, quote, separator, value_quote, value_quote)
