"""Progress on stderr: a live display on a terminal, a log of changes elsewhere.

    display = display_for("auto", batch=True)
    with display, BatchPoller(profile, on_event=display.on_event) as batch:
        display.numbers = lambda: Numbers(total, batch.stats.polls, batch.stats.rate_limited)

What to show is decided in drawing and event_log; this only brings it to the terminal. Workers
that tell of events never wait for a painting: a thread of its own does that, ten times a second.
"""

import argparse
import os
import sys
import threading
import time
from typing import IO, TYPE_CHECKING, Callable, Mapping, Optional, Union

from ...core.events import Event
from ...core.units import Limit, parse_limit
from .event_log import CHANGES, EVERYTHING, TROUBLES, WARNINGS, EventLog
from .terminal import REDRAW_S, Terminal, can_draw, lines_within, size_of, style_for

if TYPE_CHECKING:
    from .views import Numbers, View

PROGRESS = ("auto", "bar", "log", "none")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of every command that shows progress; `display_from` reads them."""
    group = parser.add_argument_group("progress, on stderr")
    group.add_argument(
        "--progress",
        choices=PROGRESS,
        default="auto",
        help="auto (the default): a live display on a terminal, a log of changes elsewhere",
    )
    group.add_argument("--log-json", action="store_true", help="log as JSON lines")
    group.add_argument(
        "-v", "--verbose", action="count", default=0, help="log every poll, and what was made of it"
    )
    group.add_argument("--quiet", action="store_true", help="no progress and no log; errors only")


def display_from(
    arguments: argparse.Namespace,
    batch: bool = False,
    title: str = "",
    limit: Union[str, Limit, None] = None,
) -> "Display":
    """The display that a command's flags ask for; see display_for."""
    return display_for(
        arguments.progress,
        arguments.verbose,
        arguments.quiet,
        arguments.log_json,
        batch,
        title,
        limit,
    )


class Display:
    """Where a command's progress goes. Use it in a `with` block: leaving it clears the terminal."""

    def __init__(
        self,
        stream: Optional[IO[str]],
        view: "Optional[View]",
        log: EventLog,
        hears: bool,
        environ: Mapping[str, str],
    ) -> None:
        self._stream, self._view, self._log = stream, view, log
        self._terminal = Terminal(stream)
        self._style = style_for(stream, environ)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: Optional[threading.Thread] = None
        #: What a batch counts itself, asked for each time the display is drawn.
        self.numbers: "Optional[Callable[[], Numbers]]" = None
        #: For the driver; None where nobody wants to know, so that it makes no events at all.
        self.on_event: Optional[Callable[[Event], None]] = self._hear if hears else None
        #: Whether each end gets a line in the log.
        self.logs_ends = hears and log.level >= CHANGES

    def say(self, text: str) -> None:
        """A line for people on stderr, above the bar if there is one."""
        self._terminal.say(self._log.note(text, time.time()))

    def out(self, text: str) -> None:
        """Data on stdout, as it is; a bar on the same terminal makes room. A broken pipe is the caller's."""
        self._terminal.write_out(text)

    def start(self) -> None:
        """Begin to draw."""
        if self._view is not None and self._thread is None:
            self._thread = threading.Thread(target=self._tick, name="pollkit-display", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Clear the display; what was logged stays."""
        self._stop.set()
        self._terminal.clear()
        if self._thread is not None:
            self._thread.join(1.0)
            self._terminal.clear()  # what it may have painted in between

    def __enter__(self) -> "Display":
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _hear(self, event: Event) -> None:
        with self._lock:
            if self._view is not None:
                self._view.on_event(event)
            text = self._log.line(event, time.time())
        if text is not None:
            self._terminal.say(text)

    def _tick(self) -> None:
        while not self._stop.wait(REDRAW_S):
            self._draw(time.monotonic())

    def _draw(self, now: float) -> None:
        assert self._view is not None
        numbers = None if self.numbers is None else self.numbers()
        size = size_of(self._stream)  # each time: it may have been resized
        with self._lock:
            self._view.count(now, numbers)
            lines = self._view.lines(now, size, self._style)
        self._terminal.paint(lines_within(lines, size))


def display_for(
    progress: str = "auto",
    verbose: int = 0,
    quiet: bool = False,
    log_json: bool = False,
    batch: bool = False,
    title: str = "",
    limit: Union[str, Limit, None] = None,
    stream: Optional[IO[str]] = None,
    environ: Optional[Mapping[str, str]] = None,
) -> Display:
    """The display that the flags ask for and the terminal can show.

    `progress` is auto, bar, log or none. A bar needs a terminal of 40 columns that can move its
    cursor; elsewhere it becomes a log. `verbose` logs every poll, above the bar where there is
    one; `quiet` leaves only what the command itself says.
    """
    stream = sys.stderr if stream is None else stream
    environ = os.environ if environ is None else environ
    if quiet:
        progress, verbose = "none", 0
    draws = progress == "bar" or (progress == "auto" and not log_json)
    draws = draws and can_draw(stream, environ)
    logs = log_json or not draws
    level = EVERYTHING if verbose else CHANGES if logs else WARNINGS if batch else TROUBLES
    view: "Optional[View]" = None
    if draws:
        from .views import ManyJobs, OneJob  # late: cron watches no bar

        now = time.monotonic()
        view = (
            ManyJobs(now, parse_limit(limit) if isinstance(limit, str) else limit)
            if batch
            else OneJob(title, now)
        )
    return Display(
        stream, view, EventLog(level, log_json), bool(progress != "none" or verbose), environ
    )
