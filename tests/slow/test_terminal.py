"""The progress display in a real pseudo-terminal: drawn in place, resized, interrupted, cleared."""

import re
import subprocess
import threading

import pytest

pytest.importorskip("pty")

from screen import InPty, Screen

DEMO = ["-m", "pollkit", "demo", "--quick"]
SINGLE = ["tests/support/single_display.py", "polls=9"]
FOR_EVER = ["tests/support/single_display.py", "polls=600"]
WIDTHS = [40, 80, 200]
BAR = re.compile("[█░]{8,}")


def has_bar(screen):
    return any("%" in row for row in screen.shown())


def read_to_end(terminal):
    terminal.read()


def interrupt(terminal):
    terminal.read(until=has_bar)
    terminal.type("\x03")
    terminal.read()


def resize(terminal):
    """Make the terminal narrower, then wider; each time wait until the bar fits; then press ^C."""
    screen = terminal.screen
    for columns, fits in ((40, lambda row: len(row) < 40), (120, lambda row: len(row) > 50)):
        terminal.read(until=has_bar)
        terminal.resize(columns)
        # A drawing for the old width may still arrive; the next one replaces it.
        terminal.read(
            until=lambda screen, fits=fits: any(
                BAR.search(row) and fits(row) for row in screen.shown()
            )
        )
        wrapped = screen.wrapped
        seen = len(screen.frames)
        terminal.read(until=lambda screen, seen=seen: len(screen.frames) >= seen + 3)
        terminal.fits.append((columns, screen.wrapped - wrapped, screen.frames[-1]))
    interrupt(terminal)


# Arguments, columns, action, options. All run at once, because each takes a second or two.
RUNS = {
    "no colour": (SINGLE, 80, read_to_end, {"NO_COLOR": "1"}),
    "ascii": (SINGLE, 80, read_to_end, {"PYTHONIOENCODING": "ascii:backslashreplace"}),
    "dumb": (SINGLE, 80, read_to_end, {"TERM": "dumb"}),
    "narrow": (SINGLE, 39, read_to_end, {}),
    "verbose": (SINGLE + ["-v"], 200, read_to_end, {}),
    "resized": (FOR_EVER, 80, resize, {}),
    "short": (DEMO, 80, read_to_end, {"lines": 3}),
    "just as high": (DEMO, 80, read_to_end, {"lines": 6}),
    "demo interrupted": (DEMO, 80, interrupt, {}),
}
RUNS.update(("single %d" % columns, (SINGLE, columns, read_to_end, {})) for columns in WIDTHS)
RUNS.update(("batch %d" % columns, (DEMO, columns, read_to_end, {})) for columns in WIDTHS)
RUNS.update(("interrupted %d" % columns, (FOR_EVER, columns, interrupt, {})) for columns in WIDTHS)


@pytest.fixture(scope="module")
def runs():
    terminals = {}
    threads = []
    try:
        for name, (words, columns, act, options) in RUNS.items():
            # The table of the demo would scroll the terminal.
            stdout = subprocess.PIPE if words is DEMO else None
            terminal = terminals[name] = InPty(words, columns, stdout=stdout, **options)
            terminal.fits = []
            threads.append(threading.Thread(target=act, args=(terminal,)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        yield terminals
    finally:
        for terminal in terminals.values():
            terminal.__exit__()


@pytest.mark.parametrize(
    "name", [name for name in RUNS if name.startswith("batch")] + ["short", "just as high"]
)
def test_a_batch_is_drawn_in_place_and_cleared(runs, name):
    terminal = runs[name]
    screen = terminal.screen
    assert terminal.process.returncode == 0
    assert (screen.scrolled, screen.wrapped, screen.unknown) == (0, 0, [])
    assert screen.widest < screen.columns
    assert screen.shown() == [] and (screen.row, screen.column) == (0, 0)
    assert all("waiting" in frame[0] for frame in screen.frames)
    assert max(len(frame) for frame in screen.frames) == (2 if name == "short" else 5)
    assert 3 <= len(screen.frames) <= 10 * terminal.lasted_s + 2


@pytest.mark.parametrize("columns", WIDTHS)
def test_the_demo_shows_no_rate_above_its_limit(runs, columns):
    frames = runs["batch %d" % columns].screen.frames
    rates = [re.search(r"(\d+)(?:/| requests? per minute of )(\d+)", frame[1]) for frame in frames]
    assert any(rates)
    assert all(int(rate.group(1)) <= int(rate.group(2)) for rate in rates if rate)


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_single_job_is_drawn_in_place_and_cleared(runs, columns):
    terminal = runs["single %d" % columns]
    screen = terminal.screen
    assert terminal.process.returncode == 0
    bars = [[row for row in frame if BAR.search(row)] for frame in screen.frames]
    assert 3 <= len(bars) <= 10 * terminal.lasted_s + 2 and any(bars)
    assert (screen.scrolled, screen.unknown) == (0, [])
    assert screen.wrapped == (1 if columns == 40 else 0)  # a line of the log, never the bar
    assert all(len(bar) <= 1 and len("".join(bar)) < columns for bar in bars)
    shown = "".join(screen.shown())
    assert re.fullmatch(
        r"above the bar\S+ job: unknown status .* counts as pendinghalf wayfinished: done", shown
    )


@pytest.mark.parametrize(
    "name", ["interrupted 40", "interrupted 80", "interrupted 200", "demo interrupted"]
)
def test_ctrl_c_leaves_a_clean_terminal(runs, name):
    terminal = runs[name]
    assert terminal.process.returncode == 130
    assert b"^C" in terminal.raw  # the terminal echoed it into the bar
    shown = "".join(terminal.screen.shown())
    assert not BAR.search(shown)
    assert not any(text in shown for text in ("^C", "%", "Traceback"))
    assert terminal.screen.column == 0


def test_after_a_resize_the_bar_fits_again(runs):
    terminal = runs["resized"]
    assert [columns for columns, _, _ in terminal.fits] == [40, 120]
    for columns, wrapped, shown in terminal.fits:
        assert wrapped == 0
        assert [len(row) < columns for row in shown if BAR.search(row)] == [True]
    assert not BAR.search("".join(terminal.screen.shown()))


def test_log_lines_are_written_whole_above_the_bar(runs):
    terminal = runs["verbose"]
    rows = terminal.screen.shown()
    polls = [row for row in rows if re.fullmatch(r"\d\d:\d\d:\d\d job: poll \d+: status .*", row)]
    assert len(polls) == 9 and not any(BAR.search(row) for row in rows)
    assert terminal.screen.wrapped == 0
    assert len(terminal.screen.frames) <= 10 * terminal.lasted_s + 2
    for frame in terminal.screen.frames:  # the bar is always the last line
        assert not any(BAR.search(row) for row in frame[:-1])


def test_no_color_is_honoured(runs):
    assert runs["no colour"].screen.colours == 0 and runs["single 80"].screen.colours > 0
    assert any(BAR.search(frame[-1]) for frame in runs["no colour"].screen.frames)


def test_a_terminal_that_is_not_utf8_gets_ascii(runs):
    terminal = runs["ascii"]
    # The log may spell out a character; the bar may not, it would be too long.
    assert all(byte < 128 for byte in terminal.raw) and b"####" in terminal.raw
    bars = [row for frame in terminal.screen.frames for row in frame if "####" in row]
    assert bars and all(len(row) < 80 and "\\u" not in row for row in bars)
    assert (terminal.screen.scrolled, terminal.screen.unknown) == (0, [])


@pytest.mark.parametrize("name", ["dumb", "narrow"])
def test_a_terminal_that_can_not_draw_gets_a_log(runs, name):
    assert b"\x1b" not in runs[name].raw
    assert re.search(rb"job: done \(", runs[name].raw)


# The emulator detects mistakes


@pytest.mark.parametrize(
    "text, scrolled, wrapped, unknown, shown",
    [
        ("abc\r\x1b[Kd", 0, 0, 0, ["d"]),
        ("abcdef", 0, 1, 0, ["abcde", "f"]),
        ("a\r\nb\r\nc\r\nd", 1, 0, 0, ["b", "c", "d"]),
        ("a\r\nb\r\x1b[1Ac\x1b[J", 0, 0, 0, ["c"]),
        ("\x1b[2J\x07", 0, 0, 2, []),
        ("処処処", 0, 1, 0, ["処処", "処"]),
        ("\x1b[31ma\x1b[0m", 0, 0, 0, ["a"]),
    ],
)
def test_the_emulator_counts_wrapping_scrolling_and_unknown_sequences(
    text, scrolled, wrapped, unknown, shown
):
    for step in (1, len(text)):
        screen = Screen(5, 3)
        for i in range(0, len(text), step):
            screen.feed(text[i : i + step])
        assert (screen.scrolled, screen.wrapped) == (scrolled, wrapped)
        assert (len(screen.unknown), screen.shown()) == (unknown, shown)
