"""Outcomes on stdout: JSON lines for programs, or a short text for people (--output).

The text has no control characters: a server could move the cursor or hide what follows.
"""

import argparse
import json
import sys
from typing import Any, Callable, Iterable, Optional

from ...core.model import Job, Outcome, State, display_id, one_line
from ...core.units import percent, rounded_duration
from ..arguments.parser import FromEnvironment
from ..progress.terminal import clip, clip_id, is_terminal, pad, text_width, width_of
from .streams import as_json, as_text, count_text, without_controls

OUTPUTS = ("auto", "json", "text")
LONGEST_VALUE = 300  # characters
WIDEST_ID = 40
NARROWEST_ID = 12
STATE_WIDTH = max(len(state.value) for state in State)
WHOLE_RESULT = " (--result prints all of it)"


def add_output_option(parser: argparse.ArgumentParser) -> None:
    """Add --output."""
    parser.add_argument(
        "--output",
        choices=OUTPUTS,
        default=FromEnvironment("POLLKIT_OUTPUT", "auto"),
        help="json: one JSON object per line; text: a short summary for people; "
        "auto: text on a terminal, json otherwise (default: $POLLKIT_OUTPUT, or auto)",
    )


def wants_text(arguments: argparse.Namespace) -> bool:
    """Whether outcomes are printed as text for people."""
    if arguments.output == "auto":
        return is_terminal(sys.stdout)
    return bool(arguments.output == "text")


def line_formatter(arguments: argparse.Namespace, jobs: Iterable[Job]) -> Callable[[Outcome], str]:
    """The function that formats one outcome of a batch as one line."""
    if not wants_text(arguments):
        return lambda outcome: as_json(outcome.as_dict())
    widest = max((width_of(one_line(display_id(job))) for job in jobs), default=0)
    return lambda outcome: as_text(outcome_line(outcome, widest, _columns()))


def whole_result(result: Any) -> str:
    """The result as the server sent it; on a terminal, a text without control characters."""
    if isinstance(result, str) and is_terminal(sys.stdout):
        result = without_controls(result)
    return as_text(result)


def outcome_line(outcome: Outcome, id_width: int, columns: int) -> str:
    """One line: id, state, time, polls, and the error or the result.

    A narrow terminal shortens the id rather than the state.
    """
    id_width = min(id_width, WIDEST_ID, max(columns - STATE_WIDTH - 2, NARROWEST_ID))
    cells = [
        pad(clip_id(one_line(outcome.id), id_width), id_width),
        pad(str(outcome.state), STATE_WIDTH),
        "%6s" % rounded_duration(outcome.waited_s),
        "%-9s" % count_text(outcome.polls, "poll"),
        _fit(
            _error_text(outcome) or outcome.saved_to or _result_text(outcome.result) or "", columns
        ),
    ]
    return clip("  ".join(cells).rstrip(), columns)


def outcome_summary(outcome: Outcome) -> str:
    """A few aligned lines about one outcome, without the values that are unknown."""
    columns = _columns()
    rows = [
        ("job", outcome.id),
        ("state", str(outcome.state)),
        ("status", _status_text(outcome)),
        ("error", _error_text(outcome)),
        ("result", _result_text(outcome.result)),
        ("saved to", outcome.saved_to),
        ("progress", _progress_text(outcome)),
        ("polls", _polls_text(outcome)),
        ("time", _time_text(outcome)),
    ]
    return "".join(as_text(_row(name, value, columns)) for name, value in rows if value)


def _row(name: str, value: str, columns: int) -> str:
    """A name and its value: the result in one line, any other value in as many as it needs."""
    head = "%-8s  " % name
    room = max(columns - len(head), 1)
    text = _fit(value, room)
    if name == "result":
        if text != value:
            text = _fit(value, max(room - len(WHOLE_RESULT), 0)) + WHOLE_RESULT
        return head + text
    from textwrap import wrap  # late: programs get JSON

    lines = wrap(one_line(value, LONGEST_VALUE), room)
    return head + ("\n" + " " * len(head)).join(lines)


def _columns() -> int:
    """The columns to write in; a file or a pipe has no width."""
    if is_terminal(sys.stdout):
        return text_width(sys.stdout) - 1
    return LONGEST_VALUE


def _fit(text: str, columns: int) -> str:
    """Untrusted text in one line of at most this width, without control characters."""
    return clip(one_line(text, LONGEST_VALUE), columns)


def _status_text(outcome: Outcome) -> Optional[str]:
    """The API's own status, if it says more than the state."""
    if outcome.status is None or outcome.status.lower() == outcome.state.value:
        return None
    return outcome.status


def _error_text(outcome: Outcome) -> Optional[str]:
    error = outcome.error
    if error is None:
        return None
    if error.code is None or error.code in error.message:
        return error.message
    return "%s: %s" % (error.code, error.message)


def _result_text(result: Any) -> Optional[str]:
    if result is None or isinstance(result, str):
        return result
    return json.dumps(result, ensure_ascii=False)


def _progress_text(outcome: Outcome) -> Optional[str]:
    if outcome.state is State.DONE or outcome.progress is None:
        return None
    return "%d%%" % percent(outcome.progress)


def _polls_text(outcome: Outcome) -> str:
    if not outcome.faults:
        return str(outcome.polls)
    return "%d, with %s" % (outcome.polls, count_text(outcome.faults, "fault"))


def _time_text(outcome: Outcome) -> str:
    text = rounded_duration(outcome.waited_s)
    if outcome.notice_delay_s is not None:
        text += " (noticed %s after its end)" % rounded_duration(outcome.notice_delay_s)
    return text
