"""Lists of jobs, as `batch` and `add` read them: ids or URLs, one a line, or JSON lines."""

import argparse
import json
import sys
from typing import Any, BinaryIO, Callable, Dict, Iterable, Iterator, List, Tuple

from ..core.model import Job, display_id, job_timeout
from ..core.profile import Profile, validate_size
from ..drivers.client import Client
from ..errors import ConfigError
from .options import checked_label, for_one_profile, job_from

_LARGEST = 256 * 1024 * 1024
_PORTION = 1024 * 1024
_FIELDS = ("id", "url", "profile", "label", "size", "metadata", "timeout")
_HOW_TO = 'write an id or a URL a line, or JSON lines such as {"id": "job_1"}'


def read_jobs(
    path: str,
    arguments: argparse.Namespace,
    profile: Profile,
    check: Callable[[Job], object] = lambda job: None,
    will_poll: bool = False,
) -> List[Job]:
    """The jobs of a file, or of stdin for '-', each once; or a ConfigError that names the line.

    All of it is read before anything is done: a list with a mistake in it starts nothing. `check`
    complains of jobs that the command can't use. With `will_poll`, a job that credentials must not
    be sent to is a mistake, too.
    """
    name = "standard input" if path == "-" else path
    asker = _asker(arguments, profile)
    jobs: Dict[str, Tuple[Job, int]] = {}
    for number, line in _lines(_text(path, name)):
        try:
            job = _job(line, arguments, profile)
            known, before = jobs.setdefault(job.id, (job, number))
            if known != job:
                raise ConfigError(
                    "%r stands in line %d, too, and not for the same job"
                    % (display_id(job), before)
                )
            if before == number:
                url = _check_address(asker, job)
                if will_poll:
                    asker.locate(job).endpoint.transport.check_origin(url)
                check(job)
        except ConfigError as error:
            raise ConfigError("%s, line %d: %s" % (name, number, error)) from None
    if not jobs:
        raise ConfigError("no jobs in %s: %s" % (name, _HOW_TO))
    return [job for job, _ in jobs.values()]


def named_jobs(names: Iterable[str], arguments: argparse.Namespace, profile: Profile) -> List[Job]:
    """The jobs that a command's arguments name, each once."""
    asker = _asker(arguments, profile)
    jobs: Dict[str, Job] = {}
    for name in names:
        job = job_from(arguments, name, profile)
        if jobs.setdefault(job.id, job) is job:
            _check_address(asker, job)
    return list(jobs.values())


def _asker(arguments: argparse.Namespace, profile: Profile) -> Client:
    return Client(profile, profiles=arguments.profiles)


def _check_address(asker: Client, job: Job) -> str:
    """The URL of a job, or a ConfigError."""
    return asker.locate(job).url


def _text(path: str, name: str) -> str:
    if path == "-" and sys.stdin is None:
        raise ConfigError("standard input is closed: there are no jobs to read")
    try:
        if path == "-":
            data = _read_all(sys.stdin.buffer)
        else:
            with open(path, "rb") as file:
                data = _read_all(file)
    except (OSError, ValueError) as error:
        raise ConfigError(
            "can't read %s: %s" % (name, getattr(error, "strerror", None) or error)
        ) from None
    if len(data) > _LARGEST:
        raise ConfigError("%s has over %d MB: split it" % (name, _LARGEST >> 20))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("%s, line %d: not UTF-8 text" % (name, line)) from None


def _read_all(file: BinaryIO) -> bytearray:
    """The content of a file; of one that is too large, a little more than is allowed.

    In portions: read(n) reserves n bytes at once, which a host may not grant (ulimit -v).
    """
    data = bytearray()
    is_at_end = False
    while not is_at_end and len(data) <= _LARGEST:
        portion = file.read(_PORTION)
        data += portion
        is_at_end = (
            len(portion) < _PORTION
        )  # no further read: a terminal would want a second Ctrl-D
    return data


def _lines(text: str) -> Iterator[Tuple[int, str]]:
    """The lines that say something, with their numbers; '#' begins a comment."""
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if line and not line.startswith("#"):
            yield number, line


def _job(line: str, arguments: argparse.Namespace, profile: Profile) -> Job:
    if line[0] in '["':
        raise ConfigError("this is JSON, but no object: " + _HOW_TO)
    if line[0] != "{":
        return job_from(arguments, line, profile)
    fields = _fields(line)
    if fields.get("profile") == profile.name:
        fields.pop("profile", None)  # the flags count for it, too
    given = for_one_profile(arguments) if "profile" in fields else []
    if given:
        raise ConfigError(
            "the job names a profile itself, and %s would not count for it: put that into the profile"
            % " and ".join(given)
        )
    name = fields.pop("id", None) or fields.get("url")
    if name is None:
        raise ConfigError("a job needs an id or a url")
    job = job_from(arguments, name, None if "profile" in fields or "url" in fields else profile)
    if "label" in fields or "size" in fields:  # its own, and not half of the flags'
        job = job._replace(label=None, size=None)
    return job._replace(**fields)


def _fields(line: str) -> Dict[str, Any]:
    """What a JSON line says; null is as good as nothing."""
    try:
        fields: Dict[str, Any] = json.loads(line, object_pairs_hook=_once)
    except ConfigError:
        raise
    except json.JSONDecodeError as error:
        raise ConfigError(
            "not JSON, though it starts like it: %s, column %d" % (error.msg, error.colno)
        ) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, lists within lists
        raise ConfigError("not JSON that makes sense for a job: %s" % _HOW_TO) from None
    for name in fields:
        if name not in _FIELDS:
            raise ConfigError("unknown field %.60r: a job has %s" % (name, ", ".join(_FIELDS)))
    fields = {name: value for name, value in fields.items() if value is not None}
    _check(fields)
    if "timeout" in fields:
        fields["timeout"] = job_timeout(fields["timeout"])
    return fields


def _once(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """An object of JSON; of two fields with one name Python would take the last, and say nothing."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ConfigError("it has two fields of the same name")
    return fields


def _check(fields: Dict[str, Any]) -> None:
    for name in ("id", "url", "profile", "label"):
        value = fields.get(name, "-")
        if not isinstance(value, str):
            raise ConfigError("%s should be text, not %s" % (name, json.dumps(value)[:60]))
        if not value.strip():
            raise ConfigError("%s is empty" % name)
    if "label" in fields:
        checked_label(fields["label"])
    if "size" in fields:
        validate_size("size", fields["size"])
    if not isinstance(fields.get("metadata", {}), dict):
        raise ConfigError("metadata should be an object")
