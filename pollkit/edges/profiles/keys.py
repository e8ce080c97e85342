"""The keys of a profile file: what each may say, read and written.

Every reader takes a key's text and gives the value that stands in the Profile, or raises
ConfigError. Messages never repeat what may be a secret. What `as_ini` writes reads back to the
same profile, but for secrets, which are written as ***.
"""

import os
import re
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from ...core.origins import REDIRECT_POLICIES, credential_origins, parse_origin
from ...core.pace import parse_pace
from ...core.profile import Profile, validate_base, validate_count, validate_size
from ...core.reading.json_paths import Path
from ...core.reading.status_words import normalize_word
from ...core.units import duration_text, parse_limit, to_seconds
from ...core.urls import is_secret, is_url, parse_url, redact_url
from ...errors import ConfigError
from ..credentials import parse_credential as parse_credential
from ..http.user_headers import validate_headers

_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_METHOD = re.compile(r"[A-Z]{1,20}")
_IN_BODY = re.compile(r"""(["']?)([\w.-]+)\1(\s*[:=]\s*)("[^"]*"|'[^']*'|[^&\s,}]+)""")
HEADER = "header."


def read_key(key: str, text: str, folder: str) -> Any:
    """The value of a key; paths in it are relative to `folder`."""
    if "\n" in text and key not in ("body", "done", "failed", "pending", "origins"):
        raise ConfigError("goes on over several lines: is the next line indented by mistake?")
    if not text:
        raise ConfigError("says nothing: write a value after the =, or leave the key out")
    if key in ("ca_file", "client_cert", "client_key"):
        return _absolute(text, folder)
    if key == "auth":
        return _auth(text, folder)
    return READERS[key](text)


def read_header(name: str, text: str) -> str:
    """The value of a header; errors name it, and never its value."""
    if "\n" in text:
        raise ConfigError("goes on over several lines: is the next line indented by mistake?")
    return validate_headers({name: text})[name]


def unknown_key(key: str) -> str:
    """There is no such key; perhaps the nearest one was meant."""
    import difflib

    near = difflib.get_close_matches(key.lower(), KEYS + [HEADER + "NAME"], 1)
    return "there is no such key" + (
        ": did you mean %s?" % near[0] if near else "; see pollkit help profiles"
    )


def contradictions(profile: Profile) -> Iterator[Tuple[str, str]]:
    """Keys that make no sense beside the others, and why."""
    if profile.client_key and not profile.client_cert:
        yield "client_key", "is of no use without client_cert"
    urls = [
        url
        for one in (profile, *profile.labels.values())
        for url in (one.url, one.batch_url)
        if url
    ]
    if profile.base and urls and not any("{base}" in url for url in urls):
        yield "base", "is of no use without {base} in url"
    try:
        credential_origins(profile)
    except ConfigError as error:
        yield "origins", str(error)
    if not profile.batch_url:
        usual = Profile()
        for key in ("batch_items", "batch_id", "batch_size"):
            if getattr(profile, key) != getattr(usual, key):
                yield key, "is of no use without batch_url"
    said: Dict[str, str] = {}
    for key in ("done", "failed", "pending"):
        for word in getattr(profile, key) or ():
            if said.setdefault(normalize_word(word), key) != key:
                yield (
                    key,
                    "has %r, which is said to be %s already" % (word, said[normalize_word(word)]),
                )


def _path(text: str) -> str:
    return Path(text).text


def _progress(text: str) -> str:
    part, slash, total = text.partition("/")
    if "/" in total:
        raise ConfigError("is one path, or two with a / between: pages.done / pages.total")
    return "%s / %s" % (_path(part), _path(total)) if slash else _path(text)


def _words(text: str) -> Tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(","))
    if not all(words):
        raise ConfigError("has an empty word: write it as 'done, finished'")
    if not all(word.isprintable() for word in words):
        raise ConfigError("goes on over several lines: is the next line indented by mistake?")
    return words


def _timeout(text: str) -> Optional[float]:
    return None if text == "never" else to_seconds(text)


def _above_zero(text: str) -> float:
    if not to_seconds(text):
        raise ConfigError("must be above zero")
    return to_seconds(text)


def _count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise ConfigError("must be a whole number from 1, not %r" % text)
    return validate_count("it", int(text))


def _up_to(text: str) -> float:
    try:
        return validate_size("it", float(text))
    except ValueError:  # also a ConfigError
        raise ConfigError("must be a number from 0, or inf, not %r" % text) from None


def _method(text: str) -> str:
    if not _METHOD.fullmatch(text):
        raise ConfigError("%r is not an HTTP method: write GET or POST" % text)
    return text


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ConfigError("is %s, not %r" % (" or ".join(words), text))
        return text

    return read


def _proxy(text: str) -> str:
    if text in ("env", "none"):
        return text
    if " " in text or (is_url(text) and not text.lower().startswith("http://")):
        raise ConfigError("is env, none or a URL such as http://proxy.internal:3128")
    parse_url(text if is_url(text) else "http://" + text)
    return text


def _origins(text: str) -> Tuple[str, ...]:
    return tuple(parse_origin(part.strip()) for part in text.split(","))


def _yes_or_no(text: str) -> bool:
    if text.lower() not in ("yes", "no"):
        raise ConfigError("is yes or no, not %r" % text)
    return text.lower() == "yes"


def _template(needed: str, *others: str) -> Callable[[str], str]:
    """A URL in which one placeholder must stand, and others may."""

    def read(text: str) -> str:
        for name in _PLACEHOLDER.findall(text):
            if name != needed and name not in others:
                raise ConfigError(
                    "there is no {%s}: %s may stand here"
                    % (name, ", ".join("{%s}" % one for one in (needed,) + others))
                )
        plain = _PLACEHOLDER.sub(
            "x", text.replace("{base}", "https://base", 1) if text.startswith("{base}") else text
        )
        if "{base}" in text[1:] or set(plain) & set("{} "):
            raise ConfigError(
                "is not a URL: it has a space, half a pair of braces, or {base} not at its start"
            )
        parse_url(plain)
        if "{%s}" % needed not in text:
            raise ConfigError("has no {%s} in it: where does it go?" % needed)
        return text

    return read


def _absolute(text: str, folder: str) -> str:
    return os.path.join(folder, os.path.expanduser(text))


def _auth(text: str, folder: str) -> str:
    source = parse_credential(text).source
    if not source.startswith("file:"):
        return text
    return text[: -len(source)] + "file:" + _absolute(source[len("file:") :], folder)


READERS: Dict[str, Callable[[str], Any]] = {
    "url": _template("id", "label", "base"),
    "base": validate_base,
    "method": _method,
    "body": str,
    "status": _path,
    "done": _words,
    "failed": _words,
    "pending": _words,
    "unknown": _one_of("pending", "failed"),
    "result": _path,
    "error": _path,
    "error_code": _path,
    "progress": _progress,
    "created": _path,
    "finished": _path,
    "limit": parse_limit,
    "pace": parse_pace,
    "retry": parse_pace,
    "timeout": _timeout,
    "request_timeout": _above_zero,
    "max_faults": _count,
    "not_found_grace": to_seconds,
    "retry_after_default": to_seconds,
    "up_to": _up_to,
    "proxy": _proxy,
    "origins": _origins,
    "redirects": _one_of(*REDIRECT_POLICIES),
    "tls_strict": _yes_or_no,
    "batch_url": _template("ids", "base"),
    "batch_items": _path,
    "batch_id": _path,
    "batch_size": _count,
}
# In the order in which they are written.
KEYS: List[str] = [
    "up_to",
    "url",
    "base",
    "auth",
    "method",
    "body",
    *(key for key in READERS if key not in ("up_to", "url", "base", "method", "body")),
    "ca_file",
    "client_cert",
    "client_key",
]


def profile_to_ini(profile: Profile) -> str:
    """A profile and its labels as sections of a file, with what differs from the defaults."""
    # The pace is always written: it decides how often a job is polled, and a section without a url
    # changes an earlier file's section, which may set another one.
    parts = [_section(profile.name or "", profile, Profile(pace="always written"))]
    parts += [
        _section("%s:%s" % (profile.name, name), one, profile)
        for name, one in profile.labels.items()
    ]
    return "\n".join(parts)


def _section(title: str, profile: Profile, usual: Profile) -> str:
    lines = list(_written(profile, usual))
    width = max([len(key) for key, _ in lines] or [0])
    return "[%s]\n" % title + "".join("%-*s = %s\n" % (width, key, text) for key, text in lines)


def _written(profile: Profile, usual: Profile) -> Iterator[Tuple[str, str]]:
    for key in KEYS:
        value = getattr(profile, key)
        if value != getattr(usual, key):
            yield key, _text(key, value)
    for name, value in profile.headers.items():
        if usual.headers.get(name) != value:
            yield HEADER + name, "***" if is_secret(name) else value


def _text(key: str, value: Any) -> str:
    if value is None:
        return "never"  # only a timeout can be None where that isn't the default
    if key in ("url", "batch_url", "base", "proxy"):
        return redact_url(value)
    if key == "body":
        return _IN_BODY.sub(_hidden, value).replace("\n", "\n    ")
    if key in ("done", "failed", "pending", "origins"):
        return ", ".join(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key == "up_to":
        return "%d" % value if value == value // 1 else repr(value)
    return duration_text(value) if isinstance(value, float) else str(value)


def _hidden(match: "re.Match[str]") -> str:
    quote, name, between, value = match.groups()
    if not is_secret(name):
        return match.group()
    mark = value[0] if value[0] in "\"'" else ""
    return "%s%s%s%s%s***%s" % (quote, name, quote, between, mark, mark)
