"""wait --cancel-on-interrupt: cancels the job between Ctrl-C and the end of the command."""

import signal
import threading
from typing import Callable

from ..core.model import Job
from ..core.profiles.profile import Profile, profile_for_job
from ..drivers.single import Poller
from ..errors import ConfigError, PollkitError

CANCEL_WITHIN_S = 0.7  # the command has to end within a second


def check_cancel_url(profile: Profile, job: Job) -> None:
    """Raise a ConfigError if the profile of a job does not say how to cancel it."""
    if profile_for_job(profile, job.label, job.size).cancel_url is not None:
        return
    remedy = "give --profile NAME"
    if profile.name is not None:
        remedy = "the profile %s has none" % profile.name
    raise ConfigError("--cancel-on-interrupt needs a profile with cancel_url: " + remedy)


def cancel_at_exit(poller: Poller, job: Job, write_line: Callable[[str], None]) -> None:
    """Ask the API to cancel a job, within a short time, and report whether that was possible.

    A second Ctrl-C ends it at once.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        poller.cancel(job, CANCEL_WITHIN_S)
        write_line("pollkit: asked the API to cancel it; whether it does is not known yet")
    except PollkitError as error:
        write_line("pollkit: %s" % error)
