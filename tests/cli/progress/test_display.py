"""The progress display fits any terminal, and options choose it."""

import io
import re
from argparse import Namespace
from types import SimpleNamespace

import pytest

from display_events import ASCII, COLOURED, PLAIN, WIDTHS, end, poll
from pollkit.cli.progress import terminal
from pollkit.cli.progress.display import display_from
from pollkit.cli.progress.terminal import Size, Style, can_draw, clip, style_for, width_of
from pollkit.cli.progress.texts import clock_text
from pollkit.cli.progress.views import ManyJobs, OneJob, Totals
from pollkit.core.events import FAULT

# Any width, any text, any terminal

NASTY = [
    "running",
    "処理中です" * 9,
    "e\u0301" * 30,
    "a\x1b[31mb\rc\nd\x07",
    "🎉" * 20,
    "\u202eevil",
    "x" * 300,
    "",
]


@pytest.mark.parametrize("style", [ASCII, PLAIN, COLOURED, Style("latin-1", False, True)])
@pytest.mark.parametrize("status", NASTY, ids=ascii)
def test_no_line_reaches_the_last_column_whatever_the_server_sends(status, style):
    for columns in list(range(10, 90, 9)) + WIDTHS:
        size = Size((columns, 24))
        single = OneJob(status, 100.0)
        many = ManyJobs(100.0)
        lines = single.lines(101.0, size, style)
        for fraction in (None, 0.0, 0.5, 1.0):
            event = poll(110.0, "job_" + status, status=status, fraction=fraction, why="fault")
            single.on_event(event)
            single.on_event(event._replace(kind=FAULT, text=status))
            many.on_event(event)
            many.update(110.0, Totals(1000000, 1000000, 1000000))
            lines += single.lines(111.0, size, style) + many.lines(111.0, size, style)
        for line in lines:
            assert width_of(line) < columns
            assert line.encode(style.encoding)
            assert re.sub("\x1b\\[[0-9;]*m", "", line).isprintable()
            assert style.colour or "\x1b" not in line


@pytest.mark.parametrize(
    "text, width, expected",
    [
        ("running", 7, "running"),
        ("running", 6, "runn.."),
        ("running", 3, "run"),
        ("処理中", 6, "処理中"),
        ("処理中", 5, "処.."),
        ("e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"),
        ("", 0, ""),
    ],
)
def test_text_is_clipped_by_its_width_in_columns(text, width, expected):
    assert clip(text, width) == expected and width_of(expected) <= width


@pytest.mark.parametrize(
    "duration, expected",
    [(0, "0:00"), (59.9, "0:59"), (754, "12:34"), (3723, "1:02:03"), (-3, "0:00")],
)
def test_durations_are_shown_like_a_clock(duration, expected):
    assert clock_text(duration) == expected


class Tty(io.StringIO):
    """A stream that claims to be a terminal; its size is unknown, so 80 columns are assumed."""

    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.mark.parametrize(
    "stream, environ, draws",
    [
        (Tty(), {"TERM": "xterm"}, True),
        (Tty(), {"TERM": "dumb"}, False),
        (Tty(), {}, False),
        (Tty(), {"WT_SESSION": "1"}, True),
        (io.StringIO(), {"TERM": "xterm"}, False),
        (None, {"TERM": "xterm"}, False),
    ],
)
def test_a_live_display_needs_a_terminal_that_can_move_its_cursor(stream, environ, draws):
    assert can_draw(stream, environ) is draws


@pytest.mark.parametrize(
    "encoding, environ, expected",
    [
        ("utf-8", {"TERM": "xterm"}, Style("utf-8", True, True)),
        ("utf-8", {"TERM": "xterm", "NO_COLOR": "1"}, Style("utf-8", True, False)),
        ("utf-8", {"TERM": "xterm", "NO_COLOR": ""}, Style("utf-8", True, True)),
        ("utf-8", {"TERM": "dumb"}, Style("utf-8", True, False)),
        ("ascii", {"TERM": "xterm", "NO_COLOR": "1"}, ASCII),
        ("latin-1", {"TERM": "dumb"}, Style("latin-1", False, False)),
        ("no-such-encoding", {"TERM": "dumb"}, ASCII),
        (None, {"TERM": "dumb"}, ASCII),
    ],
)
def test_the_style_follows_the_encoding_and_the_environment(encoding, environ, expected):
    stream = Tty()
    stream.__class__ = type("Tty", (Tty,), {"encoding": encoding})
    assert style_for(stream, environ) == expected


# The display that the options choose


def new_display(stream, flags, **options):
    arguments = Namespace(progress="auto", verbose=0, quiet=False, log_json=False)
    vars(arguments).update(flags)
    return display_from(arguments, stream=stream, environ={"TERM": "xterm"}, **options)


@pytest.mark.parametrize(
    "flags, terminal, has_view, shows_events",
    [
        ({}, True, True, True),
        ({}, False, False, True),
        ({"progress": "bar"}, True, True, True),
        ({"progress": "bar"}, False, False, True),
        ({"progress": "log"}, True, False, True),
        ({"progress": "none"}, True, False, False),
        ({"progress": "none", "verbose": 1}, True, False, True),
        ({"quiet": True}, True, False, False),
        ({"quiet": True, "verbose": 1, "progress": "bar"}, True, False, False),
        ({"log_json": True}, True, False, True),
        ({"log_json": True, "progress": "bar"}, True, True, True),
        ({"log_json": True, "progress": "none"}, True, False, False),
    ],
)
def test_options_choose_the_display(flags, terminal, has_view, shows_events):
    stream = Tty() if terminal else io.StringIO()
    for batch in (False, True):
        display = new_display(stream, flags, batch=batch, limit="60/m")
        assert (display._view is not None) is has_view
        assert (display.on_event is not None) is shows_events


def test_a_log_has_no_escape_codes_and_quiet_still_shows_the_lines_of_the_command():
    for flags in ({}, {"quiet": True}):
        stream = io.StringIO()
        with new_display(stream, flags) as display:
            display.write_line("something is wrong")
            if display.on_event:
                display.on_event(end())
        assert (
            stream.getvalue().startswith("something is wrong\n") and "\x1b" not in stream.getvalue()
        )
        assert stream.getvalue().count("\n") == (1 if flags else 2)


def test_a_closed_stderr_stops_nothing():
    class Closed(Tty):
        def write(self, text):
            raise BrokenPipeError()

    for stream in (Closed(), None):
        with new_display(stream, {"verbose": 1}) as display:
            display.write_line("x")
            display.on_event(poll(101.0))
            if display._view is not None:
                display._draw(101.0)


def test_the_block_is_drawn_at_most_ten_times_per_second_however_much_is_logged(monkeypatch):
    now = [50.0]
    monkeypatch.setattr(terminal, "time", SimpleNamespace(monotonic=lambda: now[0]))
    stream = io.StringIO()
    block = terminal.Terminal(stream)
    for i in range(1000):  # ten seconds
        now[0] = 50.0 + i / 100
        block.write_line("line %d" % i)
        if i % 9 == 0:
            block.draw(["%d" % i])
    drawings = stream.getvalue().count("\x1b[?7l")
    assert 90 <= drawings <= 100
    now[0] += 0.1
    block.draw(["the last"])
    assert stream.getvalue().rpartition("line 999")[2].count("the last") == 1
