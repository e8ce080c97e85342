"""What the progress display shows: from what was heard of the jobs to lines of text.

House rules: `hear` and `count` take in what happened, `lines` says what to show of it and changes
nothing; the instant, the size and the style of the terminal come in, and nothing here writes.
Hearing an event costs the same however many jobs there are; `lines` looks at a few of them.
"""

from collections import deque
from itertools import islice
from typing import Deque, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...core.events import END, FAULT, POLL, Event
from ...core.model import State, display_id, one_line
from ...core.units import Limit, duration_text, percent
from ...core.wait_state import FAULT as FOR_FAULT
from ...core.wait_state import LIMIT, RETRY_AFTER, WaitState
from .terminal import Size, Style, clip, width_of

BAR_MOST, BAR_LEAST = 40, 8
SLOWEST_SHOWN, SLOWEST_AMONG = 3, 50
RATE_OVER_S = 60
ENOUGH_ENDED = 5  # jobs that must have ended before their number says when all will have
GAP = "  "
_WHY = {LIMIT: "rate limit", RETRY_AFTER: "the server said so", FOR_FAULT: "fault"}
_STATES = (
    (State.DONE, "done", "green"),
    (State.FAILED, "failed", "red"),
    (State.TIMED_OUT, "timed out", "yellow"),
    (State.UNREACHABLE, "unreachable", "red"),
    (State.CANCELLED, "cancelled", "yellow"),
)


class Numbers(NamedTuple):
    """What a batch counts itself: its jobs (None where nobody knows), its requests, its 429s."""

    total: Optional[int] = None
    polls: int = 0
    rate_limited: int = 0


class Piece(NamedTuple):
    """A part of a line, in its wordings from the longest to the shortest; the highest rank shrinks first.

    Pieces of one rank shrink in turn.
    """

    rank: int
    wordings: Sequence[str]
    colour: str = ""


def line(
    pieces: Sequence[Piece], width: int, style: Style, fraction: Optional[float] = None
) -> str:
    """Pieces on one line of at most `width` columns, a bar in front where there is a fraction to show."""
    room = width - (BAR_LEAST + len(GAP) if fraction is not None else 0)
    chosen = [0] * len(pieces)
    shown = [_encodable(piece.wordings[0], style) for piece in pieces]
    while _width(shown) > room:
        left = [i for i, piece in enumerate(pieces) if chosen[i] + 1 < len(piece.wordings)]
        if not left:
            break
        worst = max(left, key=lambda i: (pieces[i].rank, -chosen[i], i))
        chosen[worst] += 1
        shown[worst] = _encodable(pieces[worst].wordings[chosen[worst]], style)
    if _width(shown) > width:
        return clip(GAP.join(filter(None, shown)), width)
    text = GAP.join(style.paint(part, piece.colour) for part, piece in zip(shown, pieces) if part)
    if fraction is None or _width(shown) > room:
        return text
    return bar(fraction, min(BAR_MOST, width - _width(shown) - len(GAP)), style) + GAP + text


def bar(fraction: float, width: int, style: Style) -> str:
    """A bar of so many columns."""
    full, empty = "█░" if style.unicode else "#."
    done = int(min(1.0, max(0.0, fraction)) * width)
    return style.paint(full * done, "cyan") + style.paint(empty * (width - done), "faint")


class View:
    """What is known of the jobs, and how it is shown."""

    def on_event(self, event: Event) -> None:
        """Take in an event."""
        raise NotImplementedError

    def count(self, now: float, numbers: Optional[Numbers]) -> None:
        """Take in what the command counts itself; a view may have no use for it."""

    def lines(self, now: float, size: Size, style: Style) -> List[str]:
        """What to show, a string a line, none of them as wide as the terminal."""
        raise NotImplementedError


class OneJob(View):
    """The display of a single job."""

    def __init__(self, title: str, began: float) -> None:
        self._title, self._began = one_line(title, 80), began
        self._progress: Optional[WaitState] = None
        self._trouble = ""
        self._first: Optional[Tuple[float, float]] = (
            None  # the first progress that was reported, and when
        )
        self._latest: Tuple[float, float] = (0.0, 0.0)

    def on_event(self, event: Event) -> None:
        self._progress = progress = event.progress
        if event.kind == FAULT:
            self._trouble = event.text
        elif event.kind == POLL and progress.fraction is not None:
            if self._first is None or progress.fraction < self._latest[0]:  # it began anew
                self._first = self._latest = (progress.fraction, event.at)
            elif progress.fraction > self._latest[0]:
                self._latest = (progress.fraction, event.at)

    def lines(self, now: float, size: Size, style: Style) -> List[str]:
        progress, width = self._progress, size.columns - 1
        if progress is None:
            return [
                line(
                    [
                        Piece(0, [spinner(now)]),
                        Piece(1, ["waiting for the first answer", "no answer yet"]),
                        Piece(2, [clock_text(now - self._began)]),
                        Piece(3, [self._title, ""]),
                    ],
                    width,
                    style,
                )
            ]
        fraction, left = progress.fraction, eta(self._first, self._latest, now)
        status = one_line(progress.status or "no status yet", 60)
        pieces = [
            Piece(4, [spinner(now)] if fraction is None else how_far(fraction, progress.total)),
            Piece(4, [status, clip(status, 16), clip(status, 8)]),
            Piece(1, [clock_text(now - progress.started_at)]),
            Piece(3, ["" if left is None else "ETA " + clock_text(left), ""]),
            Piece(
                4,
                next_poll_age(progress, now, self._trouble),
                "yellow" if progress.why != "pace" else "",
            ),
            Piece(5, [self._title, clip(self._title, 24), ""], "faint"),
        ]
        return [line(pieces, width, style, fraction)]


class ManyJobs(View):
    """The display of a batch."""

    def __init__(self, began: float, limit: Optional[Limit] = None) -> None:
        self._began, self._limit = began, limit
        self._waiting: Dict[str, WaitState] = {}  # those that were polled, the first of them first
        self._ended: Dict[State, int] = {}
        self._polls = 0
        self._numbers = Numbers()
        self._counts: Deque[Tuple[float, int]] = deque(
            [(began, 0)], maxlen=RATE_OVER_S
        )  # requests, each second

    def on_event(self, event: Event) -> None:
        progress = event.progress
        if event.kind == END and progress.ending is not None:
            self._waiting.pop(progress.job.id, None)
            state = progress.ending.state
            self._ended[state] = self._ended.get(state, 0) + 1
        elif event.kind == POLL:
            self._polls += 1
            if progress.ending is None:
                self._waiting[progress.job.id] = progress

    def count(self, now: float, numbers: Optional[Numbers]) -> None:
        self._numbers = Numbers(None, self._polls) if numbers is None else numbers
        if now - self._counts[-1][0] >= 1:
            self._counts.append((now, self._numbers.polls))

    def lines(self, now: float, size: Size, style: Style) -> List[str]:
        width, slowest = size.columns - 1, self._slowest()
        longest = max([0] + [width_of(display_id(progress.job)) for progress in slowest])
        name_width = min(longest, max(8, width // 4))
        return [self._jobs_line(now, width, style), self._requests_line(now, width, style)] + [
            slow_job(progress, now, name_width, width, style) for progress in slowest
        ]

    def _jobs_line(self, now: float, width: int, style: Style) -> str:
        ended, total = sum(self._ended.values()), self._numbers.total
        waiting = len(self._waiting) if total is None else max(0, total - ended)
        pieces = [
            Piece(1, ["%d %s" % (self._ended.get(state, 0), word)], colour)
            for state, word, colour in _STATES
            if self._ended.get(state) or state is State.DONE
        ]
        pieces.append(Piece(1, ["%d waiting" % waiting]))
        pieces.append(Piece(2, [clock_text(now - self._began)]))
        if total and waiting and ended >= max(ENOUGH_ENDED, total / 10):
            pieces.append(
                Piece(3, ["ETA about " + clock_text((now - self._began) * waiting / ended), ""])
            )
        return line(pieces, width, style, ended / total if total else None)

    def _requests_line(self, now: float, width: int, style: Style) -> str:
        numbers, (at, polls) = self._numbers, self._counts[0]
        rate = (numbers.polls - polls) / (now - at) * 60 if now - at >= 1 else None
        pieces = [Piece(2, ["%d requests" % numbers.polls])]
        if rate is not None:
            limit = None if self._limit is None else self._limit.polls / self._limit.per * 60
            pieces.append(
                Piece(
                    1,
                    ["%.0f a minute" % rate, "%.0f/min" % rate]
                    if limit is None
                    else [
                        "%.0f a minute of %.0f allowed" % (rate, limit),
                        "%.0f/%.0f a min" % (rate, limit),
                    ],
                )
            )
        if numbers.rate_limited:
            pieces.append(
                Piece(
                    1,
                    [
                        "told to slow down (429): %d" % numbers.rate_limited,
                        "429s: %d" % numbers.rate_limited,
                    ],
                    "yellow",
                )
            )
        return line(pieces, width, style)

    def _slowest(self) -> List[WaitState]:
        some = islice(self._waiting.values(), SLOWEST_AMONG)
        return sorted(some, key=lambda progress: (progress.started_at, progress.fraction or 0.0))[
            :SLOWEST_SHOWN
        ]


def slow_job(progress: WaitState, now: float, name_width: int, width: int, style: Style) -> str:
    """The line of one of a batch's jobs."""
    name = _encodable(one_line(display_id(progress.job), 200), style)
    if "://" in name and width_of(name) > name_width:
        name = ".." + name[2 - name_width :]  # URLs differ at their ends
    name = clip(name, name_width)
    status = one_line(progress.status or "", 40)
    return line(
        [
            Piece(0, [GAP + name + " " * (name_width - width_of(name))]),
            Piece(0, ["%4s" % ("" if progress.fraction is None else share(progress.fraction))]),
            Piece(2, [clock_text(now - progress.started_at)]),
            Piece(1, [status, clip(status, 12), clip(status, 8)]),
            Piece(
                3, next_poll_age(progress, now, ""), "yellow" if progress.why != "pace" else "faint"
            ),
        ],
        width,
        style,
    )


def next_poll_age(progress: WaitState, now: float, trouble: str) -> List[str]:
    """When the next look comes, and why not sooner: from the longest wording to the shortest."""
    wait = progress.next_at - now
    if progress.ending is not None:
        return [""]
    if wait <= 0:
        return ["looking now", "now", ""]
    left = "%.1fs" % max(0.1, wait) if wait < 9.95 else duration_text(round(wait))
    why = _WHY.get(progress.why, "")
    wordings = [
        "next look in %s%s" % (left, why and " (%s)" % why),
        "next in " + left,
        "in " + left,
        "",
    ]
    if trouble and progress.why == FOR_FAULT:
        wordings.insert(0, "next look in %s (%s)" % (left, one_line(trouble, 90)))
    elif why:
        wordings.insert(1, "in %s (%s)" % (left, why))
    return wordings


def eta(
    first: Optional[Tuple[float, float]], latest: Tuple[float, float], now: float
) -> Optional[float]:
    """Seconds to the end, if all goes on as it has since the first report; None where nothing is known."""
    if first is None or latest[0] <= first[0] or latest[1] <= first[1]:
        return None
    a_second = (latest[0] - first[0]) / (latest[1] - first[1])
    left = latest[1] + (1 - latest[0]) / a_second - now
    return left if left > 0 else None


def share(fraction: float) -> str:
    """A fraction as it is shown."""
    return "%d%%" % percent(min(1.0, max(0.0, fraction)))


def how_far(fraction: float, total: Optional[float]) -> List[str]:
    """A fraction in percent; of a number of pages, say, in pages, too, from the longest wording to the shortest."""
    shown = share(fraction)
    if total is None or total % 1:
        return [shown]
    count = (round(fraction * total), total)
    return ["%s (%d of %d)" % ((shown,) + count), "%d/%d" % count, shown]


def clock_text(duration: float) -> str:
    """0:12, 12:34, 1:02:03."""
    minutes, rest = divmod(int(max(0.0, duration)), 60)
    hours, minutes = divmod(minutes, 60)
    return "%d:%02d:%02d" % (hours, minutes, rest) if hours else "%d:%02d" % (minutes, rest)


def spinner(now: float) -> str:
    """Shows that something lives, where no progress is reported."""
    return "|/-\\"[int(now * 4) % 4]


def _width(parts: Sequence[str]) -> int:
    shown = [part for part in parts if part]
    return sum(map(width_of, shown)) + len(GAP) * max(0, len(shown) - 1)


def _encodable(text: str, style: Style) -> str:
    return text.encode(style.encoding, "replace").decode(style.encoding)
