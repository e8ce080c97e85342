"""The fields of a job besides its status: result, error, progress and times."""

import json
from typing import Any, Optional, Tuple

from ...model import LONGEST_TEXT, Reply
from ...profiles.profile import Profile
from ...urls import is_link_template
from ..verdict import Reading
from . import conventions
from .json_paths import Path
from .status_words import FAILED, normalize_word
from .timestamps import parse_timestamp, server_time

LONGEST_LAG_S = 5.0  # of a Date header
_MISSING = object()
_NO_RESULT = (
    "there is nothing at %s: the result is null; check the path that result names "
    "(pollkit doctor --show-reply prints the reply)"
)
_NO_FETCHED_RESULT = (
    "there is nothing at %s in the fetched result: the result is null; check the path that result "
    "names, which is one in the reply of result_url"
)
_TRACEBACKS = ("exc_info", "traceback")
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


def paths_for(named: Optional[str], usual: Tuple[Path, ...]) -> Tuple[Path, ...]:
    """The path that a profile names for a field, or the usual paths if it names none."""
    return usual if named is None else (Path(named),)


class JobFields:
    """Finds the fields of a job in the decoded replies of one API."""

    __slots__ = (
        "_result",
        "_has_result_url",
        "_result_link",
        "_error_message",
        "_error_code",
        "_progress",
        "_total",
        "_created",
        "_finished",
    )

    def __init__(self, profile: Profile) -> None:
        self._result = None if profile.result is None else Path(profile.result)
        self._has_result_url = profile.result_url is not None
        self._result_link: Optional[Path] = None  # of a link in the reply
        if profile.result_url is not None and not is_link_template(profile.result_url):
            self._result_link = Path(profile.result_url)
        self._error_message = paths_for(profile.error, conventions.FAILURE_REASON_PATHS)
        self._error_code = paths_for(profile.error_code, conventions.ERROR_CODE_PATHS)
        part, _, total = (profile.progress or "").partition(" / ")
        progress = paths_for(part or None, conventions.PROGRESS_PATHS)
        self._progress = tuple((path.steps[0], path) for path in progress)
        self._total = Path(total) if total else None
        self._created = paths_for(profile.created, conventions.CREATED_PATHS)
        self._finished = paths_for(profile.finished, conventions.FINISHED_PATHS)

    def find_result(self, data: Any) -> Any:
        """The result of a job that is done; by default, the whole reply."""
        if self._result is not None:
            return self._result.find(data)
        values = (path.find(data) for path in conventions.RESULT_PATHS)
        return next((value for value in values if value is not None), data)

    def missing_result_path(self, data: Any) -> Optional[str]:
        """The path that the profile names for the result, if it leads nowhere."""
        if self._result is None or self._result.find(data, _MISSING) is not _MISSING:
            return None
        return self._result.text

    def add_result(self, reading: Reading, data: Any) -> Reading:
        """The reading of a job that is done, with its result, or the link to it."""
        fraction = None if reading.fraction is None else 1.0
        if self._has_result_url:
            return reading._replace(result_link=self._find_link(data), fraction=fraction)
        warnings = reading.warnings
        missing_path = self.missing_result_path(data)
        if missing_path is not None:
            warnings += (_NO_RESULT % missing_path,)
        return reading._replace(result=self.find_result(data), fraction=fraction, warnings=warnings)

    def _find_link(self, data: Any) -> Optional[str]:
        """The link to the result, as it is in the reply."""
        link = None if self._result_link is None else self._result_link.find(data)
        return link if isinstance(link, str) and link else None

    def add_fetched_result(self, reading: Reading, data: Any) -> Reading:
        """The reading with the result in data from `result_url`; by default, all of it."""
        if self._result is None:
            return reading._replace(result=data)
        warnings = reading.warnings
        missing_path = self.missing_result_path(data)
        if missing_path is not None:
            warnings += (_NO_FETCHED_RESULT % missing_path,)
        return reading._replace(result=self._result.find(data), warnings=warnings)

    def find_error(self, data: Any) -> Tuple[Optional[str], Optional[str]]:
        """The error code and the error message of a job that has failed."""
        codes = (path.find(data) for path in self._error_code)
        code = next((str(value) for value in codes if isinstance(value, (str, int))), None)
        messages = (_find_reason(path, data) for path in self._error_message)
        message = next((value for value in messages if value), None)
        if message is None or isinstance(message, str):
            return code, message
        return code, data_text(message)

    def find_progress(self, data: Any) -> Tuple[Optional[float], Optional[float]]:
        """The progress as a fraction, and the total that it refers to, if the profile names it."""
        if not isinstance(data, dict):
            return None, None
        for key, path in self._progress:
            if key not in data:  # saves time: most replies have one of these keys at most
                continue
            value = path.find(data)
            if value is None or isinstance(value, dict):  # other paths may lead to its fields
                continue
            if self._total is not None:
                return _share(parse_amount(value), parse_amount(self._total.find(data)))
            fraction = parse_fraction(value)
            if fraction is not None:
                return fraction, None
        return None, None

    def find_times(
        self, data: Any, reply: Optional[Reply]
    ) -> Tuple[Optional[float], Optional[float]]:
        """How long the job took, and the time between its end and this reply, in seconds."""
        finished_at = _first_timestamp(self._finished, data)
        if finished_at is None:
            return None, None
        duration = None
        created_at = _first_timestamp(self._created, data)
        if created_at is not None and created_at <= finished_at:
            duration = finished_at - created_at
        now = None if reply is None else server_time(reply.headers, reply.received_at)
        if reply is None or now is None:
            return duration, None
        ours = reply.received_at
        # Some servers update their Date only now and then, so that it lags behind.
        if ours is not None and now < finished_at <= ours <= now + LONGEST_LAG_S:
            now = ours
        return duration, max(0.0, now - finished_at)


def _find_reason(path: Path, data: Any) -> Any:
    """The reason of a failure at a path: of a traceback the last line, of a result only text."""
    value = path.find(data)
    if not isinstance(value, str):
        return None if path.text == "result" else value
    if path.text in _TRACEBACKS:
        return value.rstrip()[-LONGEST_TEXT:].rpartition("\n")[2].strip()
    is_conclusion = path.text == "result" and normalize_word(value) in FAILED
    return None if is_conclusion else value


def _first_timestamp(paths: Tuple[Path, ...], data: Any) -> Optional[float]:
    timestamps = (parse_timestamp(path.find(data)) for path in paths)
    return next((at for at in timestamps if at is not None), None)


def _share(
    part: Optional[float], total: Optional[float]
) -> Tuple[Optional[float], Optional[float]]:
    if part is None or not total:
        return None, None
    return min(1.0, part / total), total


def parse_fraction(value: Any) -> Optional[float]:
    """A progress as a fraction: '45%' and 45 are percentages, and so is any number above 1."""
    # A whole number is a percentage, too: 1 means 1 % far more often than 100 %.
    is_percentage = isinstance(value, int)
    if isinstance(value, str):
        is_percentage = "%" in value
        value = value.strip().rstrip("%")
    amount = parse_amount(value)
    if amount is None:
        return None
    if is_percentage or amount > 1:
        amount /= 100
    return min(1.0, amount)


def parse_amount(value: Any) -> Optional[float]:
    """A number, or text that is one; None if it is negative or absurd."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        amount = float(value)
    except (ValueError, OverflowError):
        return None
    return amount if 0 <= amount < 1e15 else None  # also None for nan


def data_text(value: Any) -> str:
    """Untrusted data as text, truncated."""
    text = ""
    try:
        for piece in _ENCODER.iterencode(value):
            text += piece[: LONGEST_TEXT + 1]
            if len(text) > LONGEST_TEXT:
                return text[:LONGEST_TEXT] + "..."
    except (ValueError, RecursionError):  # it contains itself, or is nested too deep
        return "data that can't be shown"
    return text
