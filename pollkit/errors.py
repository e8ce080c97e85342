"""The exceptions that pollkit raises; all derive from PollkitError."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # this module is the lowest layer and imports no other
    from .core.model import Outcome


class PollkitError(Exception):
    """The base class of every error that pollkit raises.

    >>> issubclass(ConfigError, PollkitError), issubclass(JobTimedOut, PollkitError)
    (True, True)
    """


class ConfigError(PollkitError, ValueError):
    """An argument or a setting is invalid: a URL, pace, duration, profile or credential.

    >>> import pollkit
    >>> pollkit.wait("https://api.internal/42", timeout="soon")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pollkit.errors.ConfigError: timeout 'soon' is not a duration: ...
    """


class LedgerError(PollkitError):
    """A ledger or the file of a shared bucket can't be used; the message gives the remedy.

    >>> import pollkit
    >>> try:
    ...     pollkit.Ledger("/no such folder/jobs.db")
    ... except LedgerError as error:
    ...     print("can't open the ledger")
    can't open the ledger
    """


class JobError(PollkitError):
    """A wait whose outcome is not 'done'; `.outcome` is its Outcome.

    >>> import pollkit
    >>> try:
    ...     pollkit.wait(lambda: {"status": "failed", "error": "bad input"})
    ... except JobError as error:
    ...     print(error.outcome.state, error.outcome.error.message, sep=": ")
    failed: bad input
    """

    def __init__(self, outcome: "Outcome") -> None:
        super().__init__(outcome)
        self.outcome = outcome

    def __str__(self) -> str:
        return self.outcome.summary()


class JobFailed(JobError):
    """The server reports that the job failed, was cancelled or expired.

    >>> import pollkit
    >>> pollkit.wait(lambda: "failed")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pollkit.errors.JobFailed: <lambda>: failed after ... and 1 poll: ...
    """


class JobTimedOut(JobError, TimeoutError):
    """The job did not finish before the deadline. It may still be running.

    >>> import pollkit
    >>> pollkit.wait(lambda: "running", timeout=0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pollkit.errors.JobTimedOut: <lambda>: timed out after ... and 1 poll: ...
    """


class JobUnreachable(JobError):
    """The job's state is unknown: too many faults in a row, refused, unauthorised or not found.

    >>> import pollkit
    >>> pollkit.wait("http://127.0.0.1:9/", max_faults=1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pollkit.errors.JobUnreachable: http://127.0.0.1:9/: unreachable after ...
    """
