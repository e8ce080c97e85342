"""The lines of the progress display, computed from the events of the jobs.

House rules: `on_event` and `update` change a view, `lines` does not. The time, the size and the
style of the terminal are arguments; nothing here writes. The cost of an event does not depend on
the number of jobs, and `lines` reads only a few of them.
"""

from collections import deque
from itertools import islice
from typing import Deque, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ...core.events import END, FAULT, POLL, Event
from ...core.model import State, display_id, one_line
from ...core.profiles.origins import origin_text
from ...core.scheduling.outages import Outage
from ...core.units import Limit
from ...core.urls import is_url, parse_url
from ...core.waiting.wait_state import WaitState
from ..output.streams import count_text
from .terminal import Size, Style, clip, clip_id, pad, width_of
from .texts import (
    POLLING_NOW,
    Report,
    amount_texts,
    clock_text,
    eta,
    limit_texts,
    next_poll_texts,
    outage_texts,
    percent_text,
    rate_texts,
    spinner,
)

WIDEST_BAR = 40
NARROWEST_BAR = 8
SLOW_JOBS_SHOWN = 3
SLOW_JOBS_READ = 50  # the jobs among which the slowest are found
OUTAGES_SHOWN = 3
RATE_WINDOW_S = 60
ETA_MIN_FINISHED = 5  # jobs that must have finished before an ETA is shown
GAP = "  "
_STATES = (
    (State.DONE, "done", "green"),
    (State.FAILED, "failed", "red"),
    (State.TIMED_OUT, "timed out", "yellow"),
    (State.UNREACHABLE, "unreachable", "red"),
    (State.CANCELLED, "cancelled", "yellow"),
)


class Totals(NamedTuple):
    """The present state of a batch, as its poller knows it."""

    jobs: Optional[int] = None  # None if unknown
    polls: int = 0
    rate_limited: int = 0  # polls that were answered with 429
    limit_delays: Mapping[str, float] = {}  # seconds, by the ids of jobs that the limit delays
    outages: Sequence[Outage] = ()


class Part(NamedTuple):
    """A part of a line, with its texts from the longest to the shortest."""

    rank: int  # if a line is too long, the parts of the highest rank are shortened first, in turn
    texts: Sequence[str]
    colour: str = ""


def fit_line(
    parts: Sequence[Part], width: int, style: Style, fraction: Optional[float] = None
) -> str:
    """The parts on one line of at most `width` columns, after a bar if there is a fraction."""
    room = width
    if fraction is not None:
        room -= NARROWEST_BAR + len(GAP)
    texts = _shorten(parts, room, style)
    text_width = _width(texts)
    if text_width > width:
        return clip(GAP.join(filter(None, texts)), width)
    line = GAP.join(style.paint(text, part.colour) for text, part in zip(texts, parts) if text)
    if fraction is None or text_width > room:
        return line
    return bar(fraction, min(WIDEST_BAR, width - text_width - len(GAP)), style) + GAP + line


def _shorten(parts: Sequence[Part], width: int, style: Style) -> List[str]:
    """A text for each part, such that all fit into the width if possible."""
    chosen = [0] * len(parts)
    texts = [_make_encodable(part.texts[0], style) for part in parts]
    while _width(texts) > width:
        longer = [i for i, part in enumerate(parts) if chosen[i] + 1 < len(part.texts)]
        if not longer:
            break
        index = max(longer, key=lambda i: (parts[i].rank, -chosen[i], i))
        chosen[index] += 1
        texts[index] = _make_encodable(parts[index].texts[chosen[index]], style)
    return texts


def bar(fraction: float, width: int, style: Style) -> str:
    """A bar of this many columns."""
    full, empty = "█░" if style.unicode else "#."
    done = int(min(1.0, max(0.0, fraction)) * width)
    return style.paint(full * done, "cyan") + style.paint(empty * (width - done), "faint")


class OneJob:
    """The display of a single job."""

    def __init__(self, title: str, started_at: float) -> None:
        self._title = one_line(title, 80)
        self._started_at = started_at
        self._progress: Optional[WaitState] = None
        self._fault = ""
        self._first: Optional[Report] = None
        self._latest: Optional[Report] = None  # the latest one that differs

    def on_event(self, event: Event) -> None:
        """Record an event."""
        self._progress = event.progress
        self._title = one_line(display_id(event.progress.job), 80)  # submit learns the id late
        if event.kind == FAULT:
            self._fault = event.text
        elif event.kind == POLL and event.progress.fraction is not None:
            report = Report(event.progress.fraction, event.at)
            if self._latest is None or report.fraction < self._latest.fraction:
                self._first = self._latest = report  # the first report, or the job was restarted
            elif report.fraction > self._latest.fraction:
                self._latest = report

    def due_ids(self, now: float) -> List[str]:
        """None: the events of a single job say whether the rate limit delays it."""
        return []

    def update(self, now: float, totals: Optional[Totals]) -> None:
        """Do nothing: a single job has no totals."""

    def lines(self, now: float, size: Size, style: Style) -> List[str]:
        """The line to show, narrower than the terminal."""
        width = size.columns - 1
        if self._progress is None:
            parts = [
                Part(0, [spinner(now)]),
                Part(1, ["waiting for the first reply", "no reply yet"]),
                Part(2, [clock_text(now - self._started_at)]),
                Part(3, [self._title, ""]),
            ]
            return [fit_line(parts, width, style)]
        parts = self._parts(self._progress, now)
        return [fit_line(parts, width, style, self._progress.fraction)]

    def _parts(self, progress: WaitState, now: float) -> List[Part]:
        amount = [spinner(now)]
        if progress.fraction is not None:
            amount = amount_texts(progress.fraction, progress.total)
        status = one_line(progress.status or "no status yet", 60)
        remaining_s = eta(self._first, self._latest, now)
        return [
            Part(4, amount),
            Part(4, [status, clip(status, 16), clip(status, 8)]),
            Part(1, [clock_text(now - progress.started_at)]),
            Part(3, ["" if remaining_s is None else "ETA " + clock_text(remaining_s), ""]),
            Part(
                4,
                next_poll_texts(progress, now, self._fault),
                "yellow" if progress.why != "pace" else "",
            ),
            Part(5, [self._title, clip(self._title, 24), ""], "faint"),
        ]


class ManyJobs:
    """The display of a batch."""

    def __init__(self, started_at: float, limit: Optional[Limit] = None) -> None:
        self._started_at = started_at
        self._limit = limit
        self._waiting: Dict[str, WaitState] = {}  # in order of their first polls
        self._finished: Dict[State, int] = {}
        self._polls = 0
        self._totals = Totals()
        # The number of requests, about once per second.
        self._poll_counts: Deque[Tuple[float, int]] = deque([(started_at, 0)], maxlen=RATE_WINDOW_S)

    def on_event(self, event: Event) -> None:
        """Record an event."""
        progress = event.progress
        if event.kind == END and progress.ending is not None:
            self._waiting.pop(progress.job.id, None)
            state = progress.ending.state
            self._finished[state] = self._finished.get(state, 0) + 1
        elif event.kind == POLL:
            self._polls += 1
            if progress.ending is None:
                self._waiting[progress.job.id] = progress

    def due_ids(self, now: float) -> List[str]:
        """The ids of the jobs that are shown and are due by now."""
        return [progress.job.id for progress in self._slowest() if progress.next_at <= now]

    def update(self, now: float, totals: Optional[Totals]) -> None:
        """Record the totals of the command; called before each drawing."""
        self._totals = totals or Totals(polls=self._polls)
        if now - self._poll_counts[-1][0] >= 1:
            self._poll_counts.append((now, self._totals.polls))

    def lines(self, now: float, size: Size, style: Style) -> List[str]:
        """The lines to show, each of them narrower than the terminal."""
        width = size.columns - 1
        lines = [
            self._jobs_line(now, width, style),
            fit_line(self._request_parts(now), width, style),
        ]
        for outage in self._totals.outages[:OUTAGES_SHOWN]:
            texts = outage_texts(outage, now)
            lines.append(fit_line([Part(0, texts, "red")], width, style))
        return lines + self._job_lines(now, width, style)

    def _job_lines(self, now: float, width: int, style: Style) -> List[str]:
        slowest = self._slowest()
        longest = max([width_of(display_id(progress.job)) for progress in slowest], default=0)
        name_width = min(longest, max(8, width // 4))
        has_fractions = any(progress.fraction is not None for progress in slowest)
        lines = []
        for progress in slowest:
            parts = _job_parts(progress, now, name_width, style)
            if progress.next_at <= now:
                parts[-1] = Part(3, self._due_texts(progress), "yellow")
            if not has_fractions:
                del parts[1]
            lines.append(fit_line(parts, width, style))
        return lines

    def _due_texts(self, progress: WaitState) -> List[str]:
        """Why a due job has not been polled yet."""
        limit_delay_s = self._totals.limit_delays.get(progress.job.id)
        if limit_delay_s is not None:
            return limit_texts(limit_delay_s)
        if self._totals.outages and is_url(progress.url):
            origin = origin_text(parse_url(progress.url))
            if any(outage.origin == origin for outage in self._totals.outages):
                return ["waits for the end of the outage", "outage", ""]
        return POLLING_NOW

    def _jobs_line(self, now: float, width: int, style: Style) -> str:
        total = self._totals.jobs
        finished = sum(self._finished.values())
        waiting = len(self._waiting) if total is None else max(0, total - finished)
        elapsed_s = now - self._started_at
        parts = [
            Part(1, ["%d %s" % (self._finished.get(state, 0), word)], colour)
            for state, word, colour in _STATES
            if self._finished.get(state) or state is State.DONE
        ]
        parts += [Part(1, ["%d waiting" % waiting]), Part(2, [clock_text(elapsed_s)])]
        if not total:
            return fit_line(parts, width, style)
        if waiting and finished >= max(ETA_MIN_FINISHED, total / 10):
            remaining_s = elapsed_s * waiting / finished
            parts.append(Part(3, ["ETA about " + clock_text(remaining_s), ""]))
        return fit_line(parts, width, style, finished / total)

    def _request_parts(self, now: float) -> List[Part]:
        totals = self._totals
        parts = [Part(2, [count_text(totals.polls, "request")])]
        since, polls_before = self._poll_counts[0]
        if now - since >= 1:
            parts.append(Part(1, rate_texts(totals.polls - polls_before, now - since, self._limit)))
        if totals.rate_limited:
            count = totals.rate_limited
            texts = ["rate limited (429): %d" % count, "429s: %d" % count]
            parts.append(Part(1, texts, "yellow"))
        return parts

    def _slowest(self) -> List[WaitState]:
        jobs = sorted(
            islice(self._waiting.values(), SLOW_JOBS_READ),
            key=lambda progress: (progress.started_at, progress.fraction or 0.0),
        )
        return jobs[:SLOW_JOBS_SHOWN]


View = Union[OneJob, ManyJobs]


def _job_parts(progress: WaitState, now: float, name_width: int, style: Style) -> List[Part]:
    """The line of one job of a batch."""
    name = _make_encodable(one_line(display_id(progress.job), 200), style)
    name = clip_id(name, name_width)
    status = one_line(progress.status or "", 40)
    percentage = "" if progress.fraction is None else percent_text(progress.fraction)
    return [
        Part(0, [GAP + pad(name, name_width)]),
        Part(0, ["%4s" % percentage]),
        Part(2, [clock_text(now - progress.started_at)]),
        Part(1, [status, clip(status, 12), clip(status, 8)]),
        Part(3, next_poll_texts(progress, now), "yellow" if progress.why != "pace" else "faint"),
    ]


def _width(texts: Sequence[str]) -> int:
    widths = [width_of(text) for text in texts if text]
    return sum(widths) + len(GAP) * max(0, len(widths) - 1)


def _make_encodable(text: str, style: Style) -> str:
    return text.encode(style.encoding, "replace").decode(style.encoding)
