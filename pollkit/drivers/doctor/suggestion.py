"""Suggest a profile for an API, from the replies about one or two of its jobs.

The suggestion names the fields and values that were found, so that the user can check them.
Guesses are marked by comments. No text of the server gets into a profile unless it is a plain path
or word.
"""

import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ...core.model import Fault, FaultCode, Job, Reply
from ...core.profiles.profile import Profile
from ...core.reading.fields import conventions
from ...core.reading.fields.job_fields import parse_fraction
from ...core.reading.fields.json_paths import Path
from ...core.reading.fields.status_words import StatusWords, parse_word
from ...core.reading.fields.timestamps import parse_timestamp
from ...core.reading.json_decoding import try_decode_json
from ...core.reading.rate_limit_headers import parse_quota
from ...core.reading.reader import Reader
from ...core.reading.verdict import Reading, Verdict
from ...core.units import Limit, parse_limit
from ...core.urls import parse_url, redact_url
from ...edges.http.request import Request
from ...edges.profiles.keys import profile_to_ini
from ...errors import ConfigError
from ..endpoints.client import Client
from ..endpoints.endpoint import Target
from .url_templates import guess_template

_READABLE = (Verdict.DONE, Verdict.FAILED, Verdict.PENDING)
_PLAIN_PATH = re.compile(r"[\w$@|.-]+")
_PLAIN_WORD = re.compile(r"[\w.!-]+(?: [\w.!-]+)*")
_WINDOW = re.compile(r";\s*w=(\d{1,9})(?!\d)")
_NAME = re.compile(r"\w[\w.-]*")
_MISSING = object()
_HOW_TO_SEE = "pollkit doctor URL --show-reply shows the reply"


class NoReply(Exception):
    """The server did not answer, or its answer is not about a job."""


class _Sample(NamedTuple):
    """A reply about one job, decoded and understood."""

    reply: Reply
    data: Any  # None if it is not JSON, for example a 202 without a body
    reading: Reading


def suggest_profile(profile: Profile, headers: Mapping[str, str], urls: Sequence[str]) -> str:
    """Poll each URL once; a profile as INI text, without secrets.

    `profile` has the settings of the connection. If a URL gives no usable reply: NoReply.
    """
    client = Client(profile, headers=headers)
    try:
        targets = [client.locate(Job(url, url)) for url in urls]
        for target in targets:
            target.check()
        samples = [_poll(target) for target in targets]
    finally:
        client.close()
    text = _suggestion_text(profile._replace(headers=headers), urls, samples)
    for target in targets:
        text = target.endpoint.transport.scrub(text, target.url)
    return text


def _poll(target: Target) -> _Sample:
    transport = target.endpoint.transport
    seen = transport.fetch(Request(target.url, target.endpoint.origin))
    if isinstance(seen, Fault):
        raise NoReply(transport.scrub(str(seen), target.url))
    reading = target.endpoint.reader.read(seen)
    if reading.verdict not in _READABLE and reading.code is not FaultCode.NO_STATUS:
        raise NoReply(transport.scrub(reading.because, target.url))
    return _Sample(seen, try_decode_json(seen.body), reading)


def _suggestion_text(profile: Profile, urls: Sequence[str], samples: Sequence[_Sample]) -> str:
    comments: List[str] = []
    address = parse_url(urls[0])
    if address.userinfo:
        comments.append("the URL had a name and a password: set auth = basic env:NAME")
    url = guess_template(urls, [sample.data for sample in samples])
    if redact_url(url) != url:
        comments.append("the URL had a secret, shown as ***: set auth = instead if the API allows")
    fields: Dict[str, Any] = {
        "name": address.host if _NAME.fullmatch(address.host) else "mine",
        "url": redact_url(url),
    }
    fields.update(_suggest_status(samples, comments))
    fields.update(_suggest_fields(samples, fields.get("status", "")))
    limit = _suggest_limit(samples[-1].reply, comments)
    if limit is not None:
        fields["limit"] = limit
    text = profile_to_ini(profile._replace(**fields))
    return text + "".join("; %s\n" % comment for comment in comments)


def _suggest_status(samples: Sequence[_Sample], comments: List[str]) -> Dict[str, Any]:
    """The path of the status, and the values seen by their meaning."""
    path = _status_path(samples, comments)
    if path is None:
        return {}
    words = StatusWords()
    if path == "done" or any(_has_conclusion(sample, words) for sample in samples):
        comments.append(
            "no status = here: pollkit finds it, and another field shows whether the job failed"
        )
        return {}
    seen: Dict[Optional[str], List[str]] = {}  # the values by their meaning
    for sample in samples:
        word = parse_word(Path(path).find(sample.data))
        if word is None or not _PLAIN_WORD.fullmatch(word):
            continue
        alike = seen.setdefault(words.meaning(word), [])
        if word not in alike:
            alike.append(word)
    unknown = seen.pop(None, [])
    fields: Dict[str, Any] = {"status": path}
    fields.update((meaning, tuple(alike)) for meaning, alike in seen.items() if meaning)
    if unknown:
        comments.append(
            "unknown values of the status: %s; add each to done =, failed = or pending ="
            % ", ".join(unknown)
        )
    if seen:
        comments.append("only the values seen are listed: add the others for done, failed, pending")
    return fields


def _has_conclusion(sample: _Sample, words: StatusWords) -> bool:
    """Whether another field than the status decides between failed and done.

    A profile that names the status field would ignore the other one.
    """
    reading = sample.reading
    if reading.verdict is Verdict.FAILED and words.meaning(reading.status or "") == "done":
        return True
    paths = conventions.CONCLUSION_PATHS + (Path("result"),)
    values = (path.find(sample.data) for path in paths)
    return any(isinstance(value, str) and words.meaning(value) for value in values)


def _status_path(samples: Sequence[_Sample], comments: List[str]) -> Optional[str]:
    """The path of the status, or else of the field that most likely is the status."""
    reader = Reader(Profile())
    for sample in samples:
        path = reader.find_status_path(sample.data)
        if path is not None and _is_plain(path) and _finds_word(path, sample.data):
            return path
    candidates = [one for sample in samples for one in reader.list_candidates(sample.reply)]
    usable = [one for one in candidates if _is_plain(one.path)]
    if not usable:
        if any(sample.reading.code is FaultCode.NO_STATUS for sample in samples):
            comments.append("no field looks like a status: set status =; %s" % _HOW_TO_SEE)
        return None
    chosen = next((one for one in usable if not one.is_envelope), usable[0])
    comments.append("the status is a guess; %s" % _HOW_TO_SEE)
    return chosen.path


def _suggest_fields(samples: Sequence[_Sample], status_path: str) -> Dict[str, str]:
    """The paths of the result, the error, the progress and the times, as far as they are seen."""
    everything = [sample.data for sample in samples]
    failed = [sample.data for sample in samples if sample.reading.verdict is Verdict.FAILED]
    parent = status_path.rpartition(".")[0]
    suggested = {}
    for key, usual, fits in _FIELDS:
        replies = failed if key in ("error", "error_code") else everything
        path = _first_path(_near(parent, usual), replies, fits)
        if path is not None:
            suggested[key] = path
    return suggested


def _near(parent: str, usual: Sequence[Path]) -> List[Path]:
    """The usual paths, first those beside the status."""
    beside = [Path("%s.%s" % (parent, path.text)) for path in usual] if parent else []
    return beside + list(usual)


def _first_path(
    paths: Sequence[Path], replies: Sequence[Any], fits: Callable[[Any], bool]
) -> Optional[str]:
    """The first path that leads to a fitting value in some reply."""
    for path in paths:
        for data in replies:
            value = path.find(data, _MISSING)
            if value is not _MISSING and fits(value):
                return path.text
    return None


def _is_anything(value: Any) -> bool:
    return True


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_code(value: Any) -> bool:
    return isinstance(value, (str, int))


def _is_progress(value: Any) -> bool:
    return parse_fraction(value) is not None


def _is_timestamp(value: Any) -> bool:
    return parse_timestamp(value) is not None


# The keys of a profile, with the usual paths and a test of the value.
_FIELDS = (
    ("result", conventions.RESULT_PATHS, _is_anything),
    ("error", conventions.ERROR_MESSAGE_PATHS, _is_text),
    ("error_code", conventions.ERROR_CODE_PATHS, _is_code),
    ("progress", conventions.PROGRESS_PATHS, _is_progress),
    ("created", conventions.CREATED_PATHS, _is_timestamp),
    ("finished", conventions.FINISHED_PATHS, _is_timestamp),
)


def _is_plain(path: str) -> bool:
    return _PLAIN_PATH.fullmatch(path) is not None


def _finds_word(path: str, data: Any) -> bool:
    """Whether a profile with this path finds a status: there is no way to quote a key with dots."""
    try:
        return parse_word(Path(path).find(data)) is not None
    except ConfigError:
        return False


def _suggest_limit(reply: Reply, comments: List[str]) -> Optional[Limit]:
    """The limit in the headers; only a comment if they don't state the length of its window."""
    quota = parse_quota(reply.headers, reply.received_at)
    if quota is None or not quota.limit:
        return None
    headers = (reply.headers.get(name, "") for name in ("ratelimit-policy", "ratelimit-limit"))
    windows = _WINDOW.findall(" ".join(header[:1000] for header in headers))
    if len(set(windows)) == 1:
        try:
            return parse_limit(str(Limit(quota.limit, float(windows[0]))))
        except ConfigError:  # out of range
            return None
    comments.append(
        "the server reports a limit of %g requests, but not per which time: set limit = %g/m or /h"
        % (quota.limit, quota.limit)
    )
    return None
