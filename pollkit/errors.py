"""Everything pollkit raises on purpose. All of it derives from PollkitError."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # errors stands below every other layer and imports none of them
    from .core.model import Outcome


class PollkitError(Exception):
    """The base of every error that pollkit raises."""


class ConfigError(PollkitError, ValueError):
    """What was asked for makes no sense: a bad URL, pace, duration, profile or credential."""


class LedgerError(PollkitError):
    """A ledger, or the file of a shared bucket, can't be used; the message says why and what to do."""


class JobError(PollkitError):
    """A wait that did not end with 'done'; `.outcome` tells the whole story.

    The outcome is the exception's only argument, so that it pickles.
    """

    def __init__(self, outcome: "Outcome") -> None:
        super().__init__(outcome)
        self.outcome = outcome

    def __str__(self) -> str:
        return self.outcome.summary()


class JobFailed(JobError):
    """The job itself ended badly: failed, was cancelled or expired on the server."""


class JobTimedOut(JobError, TimeoutError):
    """The deadline came first. The job may still be running."""


class JobUnreachable(JobError):
    """Nobody could say: too many faults in a row, refused, not authorised or not found."""
