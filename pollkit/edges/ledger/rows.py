"""How a ledger writes a job to its row; the columns are explained in ledger_schema.py."""

import json
from math import isfinite
from typing import Any, Optional, Tuple, Union

from ...core.model import NO_TIMEOUT, Job
from ...core.reading.json_decoding import to_plain_json
from ...core.units import NEVER, Duration, to_seconds
from ...core.urls import is_url, redact_url
from ...errors import ConfigError

LARGEST_JOB = 64 * 1024  # bytes of its id, URL, names and metadata


def job_to_row(job: Job) -> Tuple[Any, ...]:
    """A job as it is written, or a ConfigError."""
    for url in filter(None, (job.url, job.id if is_url(job.id) else None)):
        if redact_url(url) != url:
            raise ConfigError(
                "%s has a secret in it, which a ledger would keep: leave it out, and name the "
                "credential in a profile (auth = ...)" % redact_url(url)
            )
    try:
        metadata = (
            None
            if job.metadata is None
            else json.dumps(dict(job.metadata), separators=(",", ":"), allow_nan=False)
        )
        if metadata is not None:
            to_plain_json(json.loads(metadata))  # complains where it is nested too deep
        size = None if job.size is None else float(job.size)
        if not isfinite(size or 0.0):
            raise ValueError("its size is no number that can be written down")
        text = "".join(text for text in job[:4] + (metadata,) if text is not None)
        if "\0" in text:
            raise ValueError("it has a NUL character in it")
        if (
            len(text.encode("utf-8")) > LARGEST_JOB
        ):  # a program gets it in its environment, which takes no more
            raise ValueError(
                "its id, URL and metadata have over %d KB: keep them elsewhere"
                % (LARGEST_JOB >> 10)
            )
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ConfigError("%.80r can't be put in a ledger: %s" % (job.id, error)) from None
    if not job.id:
        raise ConfigError("a job needs an id")
    return job.id, job.url, job.profile, job.label, size, metadata, _timeout_to_row(job.timeout)


def _timeout_to_row(timeout: Optional[Duration]) -> Optional[float]:
    """A job's timeout as `timeout_s` has it."""
    if timeout is None:
        return None
    return NEVER if timeout == NO_TIMEOUT else to_seconds(timeout)


def timeout_from_row(timeout_s: Optional[float]) -> Union[float, str, None]:
    """A job's timeout from `timeout_s`."""
    return NO_TIMEOUT if timeout_s == NEVER else timeout_s
