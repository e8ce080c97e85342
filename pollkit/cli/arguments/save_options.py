"""The option --save, and what commands report about results that were not saved."""

import argparse
from typing import Callable, Optional

from ...core.model import Outcome, State
from ..exit_codes import ALL_DONE, UNREACHABLE, USAGE
from .argument_types import path


def add_save_option(parser: argparse.ArgumentParser, example: str = "results/{id}.json") -> None:
    """Add --save."""
    parser.add_argument(
        "--save",
        metavar="PATH",
        type=path,
        help="save the result to this file, such as '%s': see pollkit help results" % example,
    )


def result_code(outcome: Outcome) -> int:
    """The exit code for a job that is done but whose result is missing; 0 for any other."""
    if outcome.state is not State.DONE or outcome.error is None:
        return ALL_DONE
    return missing_result_code(outcome.error.code)


def missing_result_code(error_code: Optional[str]) -> int:
    """The exit code for a job that is done, but has this error in place of its result."""
    from ...core.waiting.ends.endings import SAVE_ERROR  # late: it is rare

    return USAGE if error_code == SAVE_ERROR else UNREACHABLE


def warn_about_result(outcome: Outcome, write_line: Callable[[str], object]) -> None:
    """Write a line if a job is done but its result is missing."""
    if result_code(outcome) != ALL_DONE and outcome.error is not None:
        write_line("pollkit: warning: %s is done, but %s" % (outcome.id, outcome.error.message))
