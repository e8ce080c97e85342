"""Lists of jobs, as `batch` and `add` read them: ids or URLs, one a line, or JSON lines."""
import argparse
import json
import sys
from typing import Any, Dict, Iterable, Iterator, List, Tuple

from ..core.model import Job
from ..core.profile import checked_size
from ..errors import ConfigError
from .flags import job_from

_LARGEST = 256 * 1024 * 1024
_FIELDS = ("id", "url", "profile", "label", "size", "metadata")


def read_jobs(path: str, arguments: argparse.Namespace) -> List[Job]:
    """The jobs of a file, or of stdin for '-', each once; or a ConfigError that names the line.

    All of it is read before anything is done: a list with a mistake in it starts nothing.
    """
    name = "standard input" if path == "-" else path
    jobs: Dict[str, Job] = {}
    for number, line in _lines(_text(path, name)):
        try:
            job = _job(line, arguments)
        except ConfigError as error:
            raise ConfigError("%s, line %d: %s" % (name, number, error)) from None
        known = jobs.setdefault(job.id, job)
        if known != job:
            raise ConfigError("%s, line %d: %r stands there twice, and not for the same job" % (name, number, job.id))
    if not jobs:
        raise ConfigError("no jobs in %s: it should have ids or URLs, one a line, or JSON lines" % name)
    return list(jobs.values())


def _text(path: str, name: str) -> str:
    try:
        if path == "-":
            if sys.stdin is None:
                raise ConfigError("standard input is closed: there are no jobs to read")
            data = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        raise ConfigError("can't read %s: %s" % (name, getattr(error, "strerror", None) or error)) from None
    if len(data) > _LARGEST:
        raise ConfigError("%s has over %d MB: split it" % (name, _LARGEST >> 20))
    try:
        return data.decode("utf-8-sig")
    except UnicodeError:
        raise ConfigError("%s is not UTF-8 text" % name) from None


def _lines(text: str) -> Iterator[Tuple[int, str]]:
    """The lines that say something, with their numbers; '#' begins a comment."""
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if line and not line.startswith("#"):
            yield number, line


def _job(line: str, arguments: argparse.Namespace) -> Job:
    if not line.startswith("{"):
        return job_from(arguments, line)
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise ConfigError("not JSON, though it starts like it") from None
    _check(fields)
    job = job_from(arguments, fields.get("id") or fields.get("url") or "")
    fields = {name: value for name, value in fields.items() if value is not None and name != "id"}
    if "label" in fields or "size" in fields:  # its own, and not half of the flags'
        job = job._replace(label=None, size=None)
    return job._replace(**fields)


def _check(fields: Dict[str, Any]) -> None:
    unknown = _first(name for name in fields if name not in _FIELDS)
    if unknown is not None:
        raise ConfigError("unknown field %r: a job has %s" % (unknown, ", ".join(_FIELDS)))
    for name in ("id", "url", "profile", "label"):
        if not isinstance(fields.get(name), (str, type(None))):
            raise ConfigError("%s should be text, not %s" % (name, json.dumps(fields[name])[:60]))
    if fields.get("size") is not None:
        checked_size("size", fields["size"])
    if not isinstance(fields.get("metadata"), (dict, type(None))):
        raise ConfigError("metadata should be an object")


def _first(names: Iterable[str]) -> Any:
    return next(iter(names), None)
