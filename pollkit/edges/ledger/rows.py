"""How a job is checked before a ledger stores it, and the texts and numbers that are stored."""

import json
from math import isfinite
from typing import Any, Mapping, NamedTuple, Optional, Tuple

from ...core.model import NO_TIMEOUT, Job
from ...core.reading.json_decoding import to_plain_json
from ...core.units import NEVER, Duration, to_seconds
from ...core.urls import is_url, redact_url
from ...errors import ConfigError

LARGEST_JOB = 64 * 1024  # bytes of its id, URL, names and metadata


class NewJob(NamedTuple):
    """A job as it is stored when it is added."""

    id: str
    url: Optional[str]
    profile: Optional[str]
    label: Optional[str]
    size: Optional[float]
    metadata: Optional[str]  # as JSON
    timeout_s: Optional[float]  # infinite for 'never'


def job_to_row(job: Job) -> NewJob:
    """A job as it is stored; a ConfigError if it can't be."""
    _check_secrets(job)
    try:
        metadata = None if job.metadata is None else _metadata_text(job.metadata)
        size = None if job.size is None else float(job.size)
        if not isfinite(size or 0.0):
            raise ValueError("its size is not a finite number")
        texts = (job.id, job.url, job.profile, job.label, metadata)
        text = "".join(text for text in texts if text is not None)
        if "\0" in text:
            raise ValueError("it contains a NUL character")
        # A program gets all of it in its environment, which holds no more.
        if len(text.encode("utf-8")) > LARGEST_JOB:
            raise ValueError(
                "its id, URL and metadata have over %d KB: store them elsewhere"
                % (LARGEST_JOB >> 10)
            )
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ConfigError("%.80r can't be put in a ledger: %s" % (job.id, error)) from None
    if not job.id:
        raise ConfigError("a job needs an id")
    timeout_s = _timeout_seconds(job.timeout)
    return NewJob(job.id, job.url, job.profile, job.label, size, metadata, timeout_s)


def check_known(job: NewJob, known: Tuple[Optional[str], Optional[str]]) -> None:
    """Raise a ConfigError if the ledger has the id with another URL or profile (`known`)."""
    if known != (job.url, job.profile):
        raise ConfigError(
            "%r is in the ledger already, with another URL or profile: an id identifies one job; "
            "forget that one first, or use another ledger" % job.id
        )


def _check_secrets(job: Job) -> None:
    urls = [job.id] if is_url(job.id) else []
    if job.url is not None:
        urls.append(job.url)
    for url in urls:
        if redact_url(url) != url:
            raise ConfigError(
                "%s has a secret in it, which a ledger would store: leave it out, and name the "
                "credential in a profile (auth = ...)" % redact_url(url)
            )


def _metadata_text(metadata: Mapping[str, Any]) -> str:
    text = json.dumps(dict(metadata), separators=(",", ":"), allow_nan=False)
    to_plain_json(json.loads(text))  # raises a ValueError if it is nested too deep
    return text


def _timeout_seconds(timeout: Optional[Duration]) -> Optional[float]:
    if timeout is None:
        return None
    return NEVER if timeout == NO_TIMEOUT else to_seconds(timeout)
