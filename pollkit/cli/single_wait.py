"""The wait for one job, as the commands wait and submit show it, and its exit code."""

import argparse
from typing import Callable, Optional

from ..core.events import Event
from ..core.model import Outcome, State
from ..core.profiles.profile import Profile
from ..drivers.publisher import OnEvent
from ..drivers.single import Poller
from .arguments import options
from .arguments.save_options import result_code, warn_about_result
from .exit_codes import combine_exit_codes, exit_code
from .output.outcome_text import outcome_summary, wants_text, whole_result
from .output.streams import as_json
from .progress.display import Display, display_from

WriteLine = Callable[[str], None]


def wait_and_print(
    arguments: argparse.Namespace,
    profile: Profile,
    title: str,
    wait: Callable[[Poller], Outcome],
    on_interrupt: Callable[[Poller, WriteLine], object],
    on_event: Optional[OnEvent] = None,
) -> int:
    """Wait with a display, print the outcome, and return the exit code for it."""
    display = display_from(arguments, title=title, limit=profile.limit)
    # The history is saved last: the outcome matters more.
    with options.history_from(arguments, display.write_line) as history:
        with Poller(
            profile,
            headers=dict(arguments.header),
            on_event=_call_both(display.on_event, on_event),
            bucket=options.bucket_from(arguments, profile.limit),
            history=history,
            save=arguments.save,
        ) as poller, display:
            try:
                outcome = wait(poller)
            except KeyboardInterrupt:
                on_interrupt(poller, display.write_line)
                raise
            options.warn_about_secrets(arguments, display.write_line)
        _print(outcome, arguments, display)
        has_shown_error = wants_text(arguments) and not arguments.result
        if not arguments.quiet and not has_shown_error:
            warn_about_result(outcome, display.write_line)
    return combine_exit_codes([exit_code([outcome.state]), result_code(outcome)])


def _call_both(first: Optional[OnEvent], second: Optional[OnEvent]) -> Optional[OnEvent]:
    if first is None or second is None:
        return first or second
    calls = (first, second)

    def call(event: Event) -> None:
        for on_event in calls:
            on_event(event)

    return call


def _print(outcome: Outcome, arguments: argparse.Namespace, display: Display) -> None:
    if arguments.result and outcome.state is State.DONE:
        display.write_data(whole_result(outcome.result))
    elif arguments.result:
        display.write_line("pollkit: " + outcome.summary())
    elif wants_text(arguments):
        display.write_data(outcome_summary(outcome))
    else:
        display.write_data(as_json(outcome.as_dict()))
