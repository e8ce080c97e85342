"""Progress on stderr: a live display on a terminal, a log of changes otherwise.

    display = display_from(arguments, batch=True)
    with display, BatchPoller(profile, on_event=display.on_event) as batch:
        display.follow(batch, len(jobs))

views.py and event_log.py build the text; this module brings it to the terminal. A background
thread draws, ten times per second, so that workers never wait for the terminal.
"""

import argparse
import os
import sys
import threading
import time
from typing import IO, TYPE_CHECKING, Callable, Mapping, Optional, Sequence, Union

from ...core.events import Event
from ...core.units import Limit, parse_limit
from ..arguments.parser import FromEnvironment
from .event_log import CHANGES, EVERYTHING, FAULTS, WARNINGS, EventLog
from .terminal import REDRAW_S, Terminal, can_draw, size_of, style_for

if TYPE_CHECKING:
    from ...drivers.batch import BatchPoller
    from ...drivers.ledger.runner import LedgerRunner
    from .views import Totals, View


def add_progress_options(
    parser: argparse.ArgumentParser, without_terminal: str = "a log of changes"
) -> None:
    """Add the options of every command that shows progress."""
    group = parser.add_argument_group("progress, on stderr")
    group.add_argument(
        "--progress",
        choices=("auto", "bar", "log", "none"),
        default=FromEnvironment("POLLKIT_PROGRESS", "auto"),
        help="auto: a live display on a terminal, %s otherwise (default: $POLLKIT_PROGRESS, "
        "or auto)" % without_terminal,
    )
    group.add_argument("--log-json", action="store_true", help="write the log as JSON lines")
    group.add_argument(
        "-v", "--verbose", action="count", default=0, help="log every poll and its result"
    )
    group.add_argument("--quiet", action="store_true", help="no progress and no log; errors only")


class Display:
    """Shows the progress of a command. Use it in a `with` block, which clears the terminal."""

    def __init__(
        self,
        stream: Optional[IO[str]],
        environ: Mapping[str, str],
        log: EventLog,
        view: "Optional[View]",
        shows_events: bool,
    ) -> None:
        self._stream = stream
        self._log = log
        self._view = view
        self._terminal = Terminal(stream)
        self._style = style_for(stream, environ)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._poller: "Union[BatchPoller, LedgerRunner, None]" = None
        self._jobs = 0
        #: For the driver; if no events are shown it is None, and the driver creates none.
        self.on_event: Optional[Callable[[Event], None]] = None
        if shows_events:
            self.on_event = self._show_event
        #: Whether each finished job gets a line in the log.
        self.logs_outcomes = shows_events and log.level >= CHANGES

    def follow(self, poller: "Union[BatchPoller, LedgerRunner]", jobs: int) -> None:
        """Show the requests of a poller that waits for this number of jobs."""
        self._jobs = jobs
        self._poller = poller

    def write_line(self, text: str) -> None:
        """Write a line to stderr, above the live display if there is one."""
        self._terminal.write_line(self._log.format_note(text, time.time()))

    def write_data(self, text: str) -> None:
        """Write data to stdout, above a live display on the same terminal.

        A closed pipe raises BrokenPipeError.
        """
        self._terminal.write_data(text)

    def __enter__(self) -> "Display":
        if self._view is not None:
            self._thread = threading.Thread(target=self._run, name="pollkit-display", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._terminal.clear()
        if self._thread is not None:
            self._thread.join(1.0)
            self._terminal.clear()  # the thread may have drawn once more

    def _show_event(self, event: Event) -> None:
        with self._lock:
            if self._view is not None:
                self._view.on_event(event)
            text = self._log.format_event(event, time.time())
        if text is not None:
            self._terminal.write_line(text)

    def _run(self) -> None:
        while not self._stop.wait(REDRAW_S):
            self._draw(time.monotonic())

    def _draw(self, now: float) -> None:
        view = self._view
        assert view is not None
        size = size_of(self._stream)  # each time: the user may resize the window
        with self._lock:
            view.update(now, self._totals(view.due_ids(now)))
            lines = view.lines(now, size, self._style)
        # One line less than the terminal has: the line above, with the command, stays visible.
        self._terminal.draw(lines[: max(1, size.lines - 1)])

    def _totals(self, due_ids: Sequence[str]) -> "Optional[Totals]":
        from .views import Totals  # late: cron shows no live display

        poller = self._poller
        if poller is None:
            return None
        return Totals(
            jobs=self._jobs,
            polls=poller.stats.polls,
            rate_limited=poller.stats.rate_limited,
            limit_delays=poller.limit_delays(due_ids),
            outages=poller.outages,
        )


def display_from(
    arguments: argparse.Namespace,
    *,
    batch: bool = False,
    title: str = "",
    limit: Union[str, Limit, None] = None,
    stream: Optional[IO[str]] = None,
    environ: Optional[Mapping[str, str]] = None,
) -> Display:
    """The display that the options ask for and the terminal can show.

    The live display needs a terminal of 40 columns that can move its cursor; otherwise there is a
    log. With -v, every poll is logged, above the live display if there is one. With --quiet, only
    the lines that the command itself writes are shown.
    """
    stream = sys.stderr if stream is None else stream
    environ = os.environ if environ is None else environ
    progress = "none" if arguments.quiet else arguments.progress
    is_verbose = bool(arguments.verbose) and not arguments.quiet
    wants_view = progress == "bar" or (progress == "auto" and not arguments.log_json)
    view = None
    if wants_view and can_draw(stream, environ):
        view = _new_view(batch, title, limit)

    if is_verbose:
        level = EVERYTHING
    elif view is None or arguments.log_json:
        level = CHANGES
    elif batch:
        level = WARNINGS  # the view counts the faults of a batch
    else:
        level = FAULTS
    log = EventLog(level, arguments.log_json)
    return Display(stream, environ, log, view, shows_events=progress != "none" or is_verbose)


def _new_view(batch: bool, title: str, limit: Union[str, Limit, None]) -> "View":
    from .views import ManyJobs, OneJob  # late: cron shows no live display

    now = time.monotonic()
    if not batch:
        return OneJob(title, now)
    return ManyJobs(now, parse_limit(limit) if isinstance(limit, str) else limit)
