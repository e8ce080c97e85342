"""Lists of jobs, as `batch` and `add` read them: one id, URL or JSON object per line."""

import argparse
import json
import os
import sys
from typing import Any, BinaryIO, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from ...core.model import Job, display_id, job_timeout
from ...core.profiles.profile import URL_FIELDS, Profile, validate_size
from ...core.urls import is_url
from ...drivers.endpoints.client import Client
from ...drivers.endpoints.endpoint import Target
from ...errors import ConfigError
from ..arguments import argument_types
from ..arguments.options import job_from
from ..arguments.profile_options import options_for_one_profile

LARGEST_BYTES = 256 * 1024 * 1024
READ_BYTES = 1024 * 1024
FIELDS = ("id", "url", "profile", "label", "size", "metadata", "timeout")
UNKNOWN_BASE = "http://base.invalid"  # for jobs whose URL `run` completes
FILE_ENDINGS = (".txt", ".jsonl", ".json", ".ndjson", ".csv", ".list")
HOW_TO = 'write one id or URL per line, or JSON lines such as {"id": "job_1"}'


def read_jobs(
    path: str,
    arguments: argparse.Namespace,
    profile: Profile,
    check: Callable[[Job], object] = lambda job: None,
    will_poll: bool = False,
) -> List[Job]:
    """Read the jobs of a file, or of stdin if the path is '-', each once.

    The whole list is read and checked first: a list with a mistake starts nothing. The ConfigError
    names the line. `check` raises ConfigError for jobs that the command can't use. A URL that
    must not receive the credential is a mistake, too. If another command will poll the jobs, it
    may know a base that this one does not: then such URLs are not checked.
    """
    name = "standard input" if path == "-" else path
    client = _client(arguments, profile)
    jobs: Dict[str, Tuple[Job, int]] = {}
    for number, line in _lines(_read_text(path, name)):
        try:
            job = _parse_job(line, arguments, profile)
            known, known_number = jobs.setdefault(job.id, (job, number))
            if known != job:
                raise ConfigError(
                    "%r is also in line %d, for another job" % (display_id(job), known_number)
                )
            if known is job:
                _check_origin(client.locate(job), will_poll)
                check(job)
        except ConfigError as error:
            raise ConfigError("%s, line %d: %s" % (name, number, error)) from None
    return [job for job, _ in jobs.values()]


def named_jobs(
    names: Iterable[str], arguments: argparse.Namespace, profile: Profile, will_poll: bool = False
) -> List[Job]:
    """The jobs with these URLs or ids, each once; `will_poll` as for `read_jobs`."""
    client = _client(arguments, profile)
    jobs = {job.id: job for job in (job_from(arguments, name, profile) for name in names)}
    for job in jobs.values():
        _check_origin(client.locate(job), will_poll)
    return list(jobs.values())


def jobs_of_batch(words: List[str], arguments: argparse.Namespace, profile: Profile) -> List[Job]:
    """The jobs that the words of `pollkit batch` name: a file, '-' for stdin, or ids and URLs."""
    path = file_among(words)
    if path is not None:
        return read_jobs(path, arguments, profile, will_poll=True)
    try:
        return named_jobs(words, arguments, profile, will_poll=True)
    except ConfigError as error:
        if len(words) == 1 and not is_url(words[0]):
            raise ConfigError("there is no file %.80r, and %s" % (words[0], error)) from None
        raise


def file_among(words: List[str]) -> Optional[str]:
    """The path if the words name a file, or '-'; None if they are ids and URLs.

    A single word that exists as a file is a file; of several words, none may be one.
    """
    if len(words) == 1:
        word = words[0]
        path = argument_types.path(word)
        if word == "-" or os.path.exists(path):
            return path
        if _looks_like_path(word):
            raise ConfigError(
                "there is no file %r; if that is the id of a job, use pollkit wait" % word
            )
        return None
    for word in words:
        is_file = _looks_like_path(word) and os.path.exists(argument_types.path(word))
        if word == "-" or is_file:
            raise ConfigError(
                "%r is a file: give one file and nothing else, or only ids and URLs" % word
            )
    return None


def _looks_like_path(word: str) -> bool:
    return not is_url(word) and ("/" in word or word.lower().endswith(FILE_ENDINGS))


def _check_origin(target: Target, will_poll: bool) -> None:
    """Raise a ConfigError if the profile's credential must not be sent to the job's URL."""
    endpoint = target.endpoint
    has_own_url = target.job.url is not None
    if will_poll or (has_own_url and not _lacks_base(endpoint.profile)):
        endpoint.transport.check_origin(target.url)


def _lacks_base(profile: Profile) -> bool:
    urls = [getattr(profile, field) or "" for field in URL_FIELDS]
    return any("{base}" in url or UNKNOWN_BASE in url for url in urls)


def _client(arguments: argparse.Namespace, profile: Profile) -> Client:
    return Client(profile, profiles=arguments.profiles)


def _read_text(path: str, name: str) -> str:
    if path == "-" and sys.stdin is None:
        raise ConfigError("standard input is closed: there are no jobs to read")
    try:
        if path == "-":
            data = _read_bytes(sys.stdin.buffer)
        else:
            with open(path, "rb") as file:
                data = _read_bytes(file)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError("can't read %s: %s" % (name, reason)) from None
    if len(data) > LARGEST_BYTES:
        raise ConfigError("%s has over %d MB: split it" % (name, LARGEST_BYTES >> 20))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("%s, line %d: not UTF-8 text" % (name, line)) from None


def _read_bytes(file: BinaryIO) -> bytearray:
    """The content of a file; if it is too large, slightly more than is allowed.

    Read in portions: read(n) allocates n bytes at once, which `ulimit -v` may refuse.
    """
    data = bytearray()
    while len(data) <= LARGEST_BYTES:
        portion = file.read(READ_BYTES)
        data += portion
        if len(portion) < READ_BYTES:  # don't read again: a terminal would need a second Ctrl-D
            break
    return data


def _lines(text: str) -> Iterator[Tuple[int, str]]:
    """The lines with their numbers, without empty ones and comments."""
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if line and not line.startswith("#"):
            yield number, line


def _parse_job(line: str, arguments: argparse.Namespace, profile: Profile) -> Job:
    if line[0] in '["':
        raise ConfigError("this is JSON, but not an object: " + HOW_TO)
    if line[0] != "{":
        return job_from(arguments, line, profile)
    fields = _parse_fields(line)
    if fields.get("profile") == profile.name:
        fields.pop("profile", None)  # so that the options apply to this job, too
    if "profile" in fields:
        ignored = options_for_one_profile(arguments)
        if ignored:
            raise ConfigError(
                "the job names its own profile, so %s would not apply to it: "
                "put the setting into that profile" % " and ".join(ignored)
            )
    name = fields.pop("id", None) or fields.get("url")
    if name is None:
        raise ConfigError("a job needs an id or a url")
    needs_url = "profile" not in fields and "url" not in fields
    job = job_from(arguments, name, profile if needs_url else None)
    if "label" in fields or "size" in fields:  # --label must not apply along with the job's size
        job = job._replace(label=None, size=None)
    return job._replace(**fields)


def _parse_fields(line: str) -> Dict[str, Any]:
    """The fields of a JSON line, checked, without those that are null."""
    try:
        fields: Dict[str, Any] = json.loads(line, object_pairs_hook=_unique_fields)
    except ConfigError:
        raise
    except json.JSONDecodeError as error:
        raise ConfigError(
            "not JSON, although it begins with '{': %s, column %d" % (error.msg, error.colno)
        ) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, lists within lists
        raise ConfigError("this JSON can't describe a job: %s" % HOW_TO) from None
    for name in fields:
        if name not in FIELDS:
            raise ConfigError("unknown field %.60r: a job has %s" % (name, ", ".join(FIELDS)))
    fields = {name: value for name, value in fields.items() if value is not None}
    _check_fields(fields)
    if "timeout" in fields:
        fields["timeout"] = job_timeout(fields["timeout"])
    return fields


def _unique_fields(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """The fields of a JSON object; of two with the same name, Python would drop the first."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ConfigError("it has two fields with the same name")
    return fields


def _check_fields(fields: Dict[str, Any]) -> None:
    for name in ("id", "url", "profile", "label"):
        value = fields.get(name, "-")
        if not isinstance(value, str):
            raise ConfigError("%s should be text, not %s" % (name, json.dumps(value)[:60]))
        if not value.strip():
            raise ConfigError("%s is empty" % name)
    if "label" in fields:
        argument_types.label(fields["label"])
    if "size" in fields:
        validate_size("size", fields["size"])
    if not isinstance(fields.get("metadata", {}), dict):
        raise ConfigError("metadata should be an object")
    try:
        json.dumps(fields.get("metadata"), allow_nan=False)
    except ValueError as error:  # NaN or 1e400, which the outcome could not repeat as JSON
        raise ConfigError("metadata: %s" % error) from None
