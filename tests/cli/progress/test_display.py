"""The lines of the progress display and of the log, computed without a terminal."""

import io
import json
import re
from argparse import Namespace
from types import SimpleNamespace

import pytest

from pollkit.cli.progress import terminal
from pollkit.cli.progress.display import display_from
from pollkit.cli.progress.event_log import CHANGES, EVERYTHING, WARNINGS, EventLog
from pollkit.cli.progress.terminal import Size, Style, can_draw, clip, style_for, width_of
from pollkit.cli.progress.texts import clock_text, eta
from pollkit.cli.progress.views import ManyJobs, OneJob, Totals
from pollkit.core.events import END, FAULT, PAUSE, POLL, STATUS, WARNING, Event, end_event
from pollkit.core.model import Error, Job, State
from pollkit.core.scheduling.outages import Outage
from pollkit.core.units import Limit
from pollkit.core.waiting.machine import start
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.core.waiting.wait_state import Cancel, Ending

ASCII = Style("ascii", False, False)
PLAIN = Style("utf-8", True, False)
COLOURED = Style("utf-8", True, True)
WIDTHS = [40, 80, 200]


def wait(job="job_1", **changes):
    """The progress of a wait that started at 100."""
    changes = dict({"next_at": 112.0, "polls": 1, "status": "running"}, **changes)
    return start(Job(job), "http://x/" + job, WaitSettings(), 100.0)._replace(**changes)


def poll(at, job="job_1", **changes):
    return Event(POLL, job, at, "poll", wait(job, **changes))


def end(job="job_1", state=State.DONE, at=110.0):
    return Event(END, job, at, str(state), wait(job, ending=Ending(state, at)))


def one_job(*events):
    view = OneJob("job_1", 100.0)
    for event in events:
        view.on_event(event)
    return view


# A single job

HALF_WAY = [poll(104.0, fraction=0.2), poll(110.0, fraction=0.5)]


@pytest.mark.parametrize(
    "columns, expected",
    [
        (40, "BAR  50%  running  0:11  ETA 0:09"),
        (80, "BAR  50%  running  0:11  ETA 0:09  next poll in 1.0s  job_1"),
        (200, "BAR  50%  running  0:11  ETA 0:09  next poll in 1.0s  job_1"),
    ],
)
def test_a_single_job_shows_what_the_width_has_room_for(columns, expected):
    shown = one_job(*HALF_WAY).lines(111.0, Size(columns, 24), ASCII)
    assert [re.sub("[#.]{8,}", "BAR", line) for line in shown] == [expected]
    assert width_of(shown[0]) < columns


@pytest.mark.parametrize(
    "fraction, total, columns, expected",
    [
        (0.5, 480.0, 80, "50% (240 of 480)  running"),
        (3 / 7, 7.0, 80, "42% (3 of 7)  running"),
        (0.5, 480.0, 52, "240/480  running"),
        (0.5, 480.0, 40, " 50%  running"),
        (0.5, 1.5, 80, " 50%  running"),  # not a count
        (1e-15, 999999999999999.0, 40, " 0%  running"),
    ],
)
def test_a_single_job_shows_page_counts_if_the_api_reports_them(fraction, total, columns, expected):
    view = one_job(
        poll(104.0, fraction=fraction / 2, total=total), poll(110.0, fraction=fraction, total=total)
    )
    assert expected in view.lines(111.0, Size(columns, 24), PLAIN)[0]


@pytest.mark.parametrize(
    "why, event, expected",
    [
        ("pace", POLL, "next poll in 1.0s"),
        ("limit", PAUSE, "waits for the rate limit, about 1s"),
        ("retry_after", PAUSE, "next poll in 1.0s (Retry-After)"),
        ("fault", FAULT, "next poll in 1.0s (the server answered 500)"),
    ],
)
def test_a_single_job_shows_why_the_next_poll_is_delayed(why, event, expected):
    view = one_job(Event(event, "job_1", 110.0, "the server answered 500", wait(why=why)))
    assert expected + "  job_1" in view.lines(111.0, Size(120, 24), PLAIN)[0]


@pytest.mark.parametrize(
    "now, expected",
    [
        (99.0, "in 13s"),
        (101.9, "in 10s"),
        (102.1, "in 9.9s"),
        (111.99, "in 0.1s"),
        (112.0, "polling now"),
        (115.0, "polling now"),
    ],
)
def test_the_countdown_shows_the_time_until_the_next_poll(now, expected):
    assert expected in one_job(poll(100.0)).lines(now, Size(80, 24), PLAIN)[0]


def test_before_the_first_reply_it_shows_that_none_has_come():
    assert (
        "waiting for the first reply  0:03  job_1" in one_job().lines(103.0, Size(80, 24), PLAIN)[0]
    )


def test_without_reported_progress_there_is_no_bar_and_no_percent():
    shown = one_job(poll(101.0)).lines(103.0, Size(80, 24), PLAIN)[0]
    assert "%" not in shown and "█" not in shown and "running  0:03" in shown


@pytest.mark.parametrize(
    "reports, now, expected",
    [
        ([], 110, None),
        ([(0.2, 104)], 110, None),  # one report has no speed
        ([(0.2, 104), (0.2, 108)], 110, None),
        ([(0.2, 104), (0.5, 110)], 110, 10.0),
        ([(0.2, 104), (0.5, 110)], 113, 7.0),  # it decreases between reports
        ([(0.2, 104), (0.5, 110)], 130, None),  # overdue
        ([(0.2, 104), (0.5, 110), (0.5, 112)], 112, 8.0),
        ([(0.8, 104), (0.1, 110), (0.4, 113)], 113, 6.0),  # the job was restarted
    ],
)
def test_the_estimate_follows_the_speed_since_the_first_report(reports, now, expected):
    view = one_job(*[poll(float(at), fraction=fraction) for fraction, at in reports])
    left = eta(view._first, view._latest, float(now))
    assert left == (expected if expected is None else pytest.approx(expected))
    shown = view.lines(float(now), Size(80, 24), PLAIN)[0]
    assert ("ETA" in shown) == (expected is not None)


# Many jobs


def batch(total=None, count=20, limit=None):
    view = ManyJobs(100.0, limit)
    for i in range(count):
        view.on_event(poll(101.0, "job_%d" % i, fraction=i / 100))
    for i in range(6):
        view.on_event(end("job_%d" % i, State.FAILED if i == 0 else State.DONE))
    for second in range(101, 111):
        view.update(float(second), Totals(total, second - 100, 3))
    return view


@pytest.mark.parametrize(
    "columns, expected",
    [
        (
            40,
            [
                "5 done  1 failed  14 waiting  0:10",
                "10 requests  60/60 per min  429s: 3",
                "  job_6    6%  0:10  running  in 2.0s",
                "  job_7    7%  0:10  running  in 2.0s",
                "  job_8    8%  0:10  running  in 2.0s",
            ],
        ),
        (
            80,
            [
                "BAR  5 done  1 failed  14 waiting  0:10  ETA about 0:23",
                "10 requests  60 requests per minute of 60 allowed  rate limited (429): 3",
                "  job_6    6%  0:10  running  next poll in 2.0s",
                "  job_7    7%  0:10  running  next poll in 2.0s",
                "  job_8    8%  0:10  running  next poll in 2.0s",
            ],
        ),
    ],
)
def test_a_batch_shows_counts_requests_and_the_slowest_jobs(columns, expected):
    shown = batch(total=20, limit=Limit(60, 60)).lines(110.0, Size(columns, 24), ASCII)
    assert [re.sub("[#.]{8,}", "BAR", line) for line in shown] == expected


def test_the_bar_of_a_batch_shows_the_share_of_finished_jobs():
    shown = batch(total=20).lines(110.0, Size(200, 24), ASCII)[0]
    assert shown.startswith("#" * 12 + "." * 28 + "  ")


def test_a_batch_of_unknown_size_has_no_bar_and_no_estimate():
    shown = batch(total=None).lines(110.0, Size(80, 24), ASCII)
    assert shown[0] == "5 done  1 failed  14 waiting  0:10" and "allowed" not in shown[1]


def test_finished_jobs_are_counted_by_state():
    view = ManyJobs(100.0)
    for i, state in enumerate(State):
        view.on_event(end("job_%d" % i, state))
    assert view.lines(110.0, Size(80, 24), PLAIN)[0] == (
        "1 done  1 failed  1 timed out  1 unreachable  1 cancelled  0 waiting  0:10"
    )


def test_the_request_rate_is_that_of_the_last_minute():
    view = ManyJobs(0.0)
    for second in range(1, 301):
        view.update(
            float(second), Totals(None, 1000 if second < 200 else 1000 + (second - 200) * 2)
        )
    assert "120 requests per minute" in view.lines(300.0, Size(80, 24), PLAIN)[1]


@pytest.mark.parametrize(
    "polls, within_s, limit, expected",
    [
        (1, 60, None, "1 request per minute"),
        (6, 1, Limit(60, 60, burst=5), "60 requests per minute of 60 allowed"),
        (5, 5, Limit(60, 60, burst=5), "30 requests per minute of 60 allowed"),
        (42, 1, Limit(30, 1, burst=12), "1800 requests per minute of 1800 allowed"),
        (64, 60, Limit(60, 60), "60 requests per minute of 60 allowed"),  # replies came late
        (110, 60, Limit(60, 60), "110 requests per minute"),  # two origins with a limit each
        (1, 60, Limit(60, 60), "1 request per minute of 60 allowed"),
    ],
)
def test_no_rate_is_shown_above_the_limit(polls, within_s, limit, expected):
    view = ManyJobs(100.0, limit)
    view.update(100.0 + within_s, Totals(9, polls))
    shown = view.lines(100.0 + within_s, Size(80, 24), PLAIN)[1]
    assert shown == "%d request%s  %s" % (polls, "" if polls == 1 else "s", expected)


@pytest.mark.parametrize(
    "columns, expected",
    [
        (
            80,
            [
                "  job_0  0:15  running  waits for the rate limit, about 40s",
                "  job_1  0:15  running  waits for the rate limit, about 1s",
                "  job_2  0:15  running  polling now",
            ],
        ),
        (
            40,
            [
                "  job_0  0:15  running  limit 40s",
                "  job_1  0:15  running  limit 1s",
                "  job_2  0:15  running  polling now",
            ],
        ),
    ],
)
def test_jobs_that_the_rate_limit_delays_say_so(columns, expected):
    view = ManyJobs(100.0)
    for i in range(3):
        view.on_event(poll(101.0, "job_%d" % i))
    assert view.due_ids(111.0) == [] and view.due_ids(115.0) == ["job_0", "job_1", "job_2"]
    view.update(115.0, Totals(3, 3, limit_delays={"job_0": 39.7, "job_1": 0.2}))
    assert view.lines(115.0, Size(columns, 24), PLAIN)[2:] == expected


@pytest.mark.parametrize(
    "columns, next_probe_at, expected",
    [
        (80, 127.0, "https://api.internal: down for 0:45, next try in 12s"),
        (80, 115.0, "https://api.internal: down for 0:45, trying now"),
        (50, 127.0, "https://api.internal: down for 0:45, next in 12s"),
        (40, 127.0, "https://api.internal: down for 0:45"),
        (30, 127.0, "https://api.internal: down .."),
    ],
)
def test_an_outage_is_shown_above_the_jobs(columns, next_probe_at, expected):
    view = ManyJobs(100.0)
    view.on_event(poll(101.0))
    outage = Outage("https://api.internal", 70.0, "refused", next_probe_at)
    view.update(115.0, Totals(3, 3, outages=[outage]))
    shown = view.lines(115.0, Size(columns, 24), PLAIN)
    assert shown[2] == expected and shown[3].startswith("  job_1")
    assert not shown[3].endswith("outage")  # it is not due yet
    view.update(116.0, Totals(3, 3))
    assert "down for" not in "".join(view.lines(116.0, Size(columns, 24), PLAIN))


def test_a_due_job_whose_origin_is_down_waits_for_the_end_of_the_outage():
    view = ManyJobs(100.0)
    for name, url in (("a", "https://api.internal:443/a"), ("b", "http://api.internal/b")):
        view.on_event(poll(101.0, name, url=url))
    view.update(115.0, Totals(2, 2, outages=[Outage("https://api.internal", 70.0, "x", 127.0)]))
    assert view.lines(115.0, Size(80, 24), PLAIN)[3:] == [
        "  a  0:15  running  waits for the end of the outage",
        "  b  0:15  running  polling now",
    ]
    assert view.lines(115.0, Size(40, 24), PLAIN)[3] == "  a  0:15  running  outage"


def test_without_totals_polls_are_counted_from_events():
    view = batch()
    view.update(112.0, None)
    assert view.lines(112.0, Size(80, 24), PLAIN)[1].startswith("20 requests")


def test_drawing_ten_thousand_jobs_reads_only_a_few_of_them():
    view = ManyJobs(100.0)
    events = [poll(101.0, "job_%d" % i) for i in range(10000)]
    for event in events:
        view.on_event(event)

    class Counted(dict):
        seen = 0

        def values(self):
            for value in dict.values(self):
                Counted.seen += 1
                yield value

    view._waiting = Counted(view._waiting)
    view.lines(110.0, Size(80, 24), PLAIN)
    assert Counted.seen <= 100


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
        size = Size(columns, 24)
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


# The log

STORY = [
    (POLL, "poll 1: pending", {}),
    (STATUS, 'status "queued"', {}),
    (POLL, "poll 2", {"why": "fault", "in_row": 1}),
    (FAULT, "the server answered 500", {"why": "fault", "in_row": 1}),
    (POLL, "poll 3", {"why": "fault", "in_row": 2}),
    (FAULT, "the server answered 500", {"why": "fault", "in_row": 2}),
    (POLL, "poll 4", {"why": "fault", "in_row": 3}),
    (FAULT, "connection refused", {"why": "fault", "in_row": 3}),
    (POLL, "poll 5: pending", {}),
    (WARNING, "unknown status", {}),
    (POLL, "poll 6", {"why": "retry_after"}),
    (PAUSE, "the server asks for a pause of 1s", {"why": "retry_after"}),
    (POLL, "poll 7", {"why": "retry_after"}),
    (PAUSE, "the server asks for a pause of 1.1s", {"why": "retry_after"}),
    (PAUSE, "the rate limit allows the next poll in 3s", {"why": "limit"}),
    (POLL, "poll 8: pending", {}),
    (POLL, "poll 9", {"why": "fault", "in_row": 1}),
    (FAULT, "connection refused", {"why": "fault", "in_row": 1}),
    (POLL, "poll 10: done", {"done": True}),
    (STATUS, 'status "done"', {"done": True}),
    (END, "done", {"done": True}),
]


def story():
    for kind, text, how in STORY:
        at = 100.0 + len(text)
        state = wait(
            why=how.get("why", "pace"), ending=Ending(State.DONE, at) if how.get("done") else None
        )
        row = how.get("in_row", 0)
        yield Event(
            kind,
            "job_1",
            112.3,
            text,
            state._replace(retry=state.retry._replace(faults_in_row=row, steps=row)),
        )


@pytest.mark.parametrize(
    "level, expected",
    [
        (WARNINGS, ["unknown status"]),
        (
            CHANGES,
            [
                'status "queued"',
                "the server answered 500",
                "connection refused",
                "unknown status",
                "the server asks for a pause of 1s",
                "connection refused",
                "done (12s, 1 poll)",
            ],
        ),
    ],
)
def test_the_log_has_changes_and_each_fault_once(level, expected):
    log = EventLog(level)
    lines = [line for line in (log.format_event(event, 1800000000.0) for event in story()) if line]
    assert [re.sub(r"^\d\d:\d\d:\d\d job_1: ", "", line) for line in lines] == expected
    assert not log._reported


def test_the_display_of_a_submitted_job_names_the_job():
    view = OneJob("https://api.internal/jobs", 100.0)
    view.on_event(poll(101.0, "job_7"))
    (line,) = view.lines(102.0, Size(200, 20), PLAIN)
    assert line.rstrip().endswith("job_7") and "api.internal" not in line


@pytest.mark.parametrize("cancel, is_logged", [(None, False), (Cancel.SENT, True)])
def test_the_end_of_a_job_that_its_api_cancelled_is_logged(cancel, is_logged):
    """A wait that was stopped is not: the command reports these in one line."""
    ending = Ending(State.CANCELLED, 1.0, error=Error(None, "why"))
    state = start(Job("job_1"), "http://x/1", WaitSettings(), 0.0)
    event = end_event(state._replace(ending=ending, cancel=cancel), 1.0)
    assert (EventLog(CHANGES).format_event(event, 0.0) is not None) == is_logged


@pytest.mark.parametrize("as_json", [False, True])
def test_verbose_logs_every_event_but_the_text_of_a_fault_once(as_json):
    """The line of a poll has the text of its fault; in JSON, each kind of event has its line."""
    log = EventLog(EVERYTHING, as_json)
    logged = [event.kind for event in story() if log.format_event(event, 0.0)]
    kinds = [kind for kind, _, _ in STORY]
    assert logged == (kinds if as_json else [kind for kind in kinds if kind != "fault"])


def test_the_log_as_json_has_one_object_per_event():
    line = EventLog(CHANGES, True).format_event(list(story())[1], 1800000000.0)
    assert json.loads(line) == {
        "at": "2027-01-15T08:00:00.000Z",
        "id": "job_1",
        "event": "status",
        "text": 'status "queued"',
        "status": "running",
        "progress": None,
        "polls": 1,
    }
    assert json.loads(EventLog(CHANGES, True).format_note("a\nb", 0.0)) == {
        "at": "1970-01-01T00:00:00.000Z",
        "id": None,
        "event": "note",
        "text": "a b",
    }


def test_a_log_line_is_bounded_however_long_an_id_or_a_status_is():
    event = list(story())[1]
    endless = event._replace(
        id="x" * 3000000, progress=event.progress._replace(status="y" * 3000000)
    )
    plain, as_json = (EventLog(CHANGES, kind).format_event(endless, 0.0) for kind in (False, True))
    assert len(plain) < 700 and plain.endswith('xxx...: status "queued"')
    assert len(as_json) < 2000 and json.loads(as_json)["id"] == "x" * 597 + "..."


@pytest.mark.parametrize("as_json", [False, True])
def test_control_characters_of_a_server_do_not_reach_the_log(as_json):
    event = Event(FAULT, "job\x1b[2J", 0.0, "evil\r\n\x1b]0;title\x07", wait())
    assert EventLog(CHANGES, as_json).format_event(event, 0.0).isprintable()


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
