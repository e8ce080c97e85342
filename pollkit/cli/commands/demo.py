"""Start a job API on this host's loopback, and wait for its jobs, live, in about 10 seconds.

Nothing leaves the host, and nothing is needed for it. The API answers some requests with a 429
or an error, and breaks a connection; one job fails on purpose, so the exit code is 0 all the same.

examples:
  pollkit demo               on a terminal: the live display of a batch
  pollkit demo 2>/dev/null   the table alone
  pollkit demo --quick       in about 2 seconds
"""

import argparse
import sys
from typing import Callable, List, NamedTuple, Optional, Tuple

from ...core.model import Outcome, State
from ...core.pace import Backoff
from ...drivers.batch import BatchPoller
from ...testing import FakeJobApi
from ..progress import display as progress
from ..progress.views import Numbers

QUICKER = 0.2
HELD_SHARE = 0.1  # of a wait: less of it is not worth a word
IN_THE_WAY = {0: "a broken connection", 429: "a 429 with Retry-After", 503: "a 503"}
NEXT = """
Try next:
  pollkit profiles     the APIs it knows by name
  pollkit wait URL     wait for a job of your own
  pollkit help         the longer documentation
"""


Answers = List[Tuple[str, int]]  # which job was asked about, and with which status it was answered


class Part(NamedTuple):
    """A job of the demo, and what comes in its way."""

    id: str
    lasts: float
    pages: Optional[int] = None
    fails: Optional[str] = None
    reset_at: int = 0  # the request about it that is answered with a broken connection,
    limited_at: int = 0  # with a 429,
    broken_at: int = 0  # with a 503


PARTS = (
    Part("scan-1", 0.7, 4),
    Part("scan-2", 1.4, 9),
    Part("scan-3", 2.2, 14),
    Part("scan-4", 3.0, 20, reset_at=3),
    Part("scan-5", 3.8, 25, fails="page 7 can't be read"),
    Part("scan-6", 4.6, 30),
    Part("scan-7", 5.3, 36, limited_at=4),
    Part("scan-8", 6.1, 40, broken_at=5),
    Part("video-1", 6.9),
    Part("video-2", 7.7, limited_at=9),
    Part("book-1", 8.5, 300),
    Part("book-2", 9.3, 480),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--quick", action="store_true", help="the same, five times as fast")
    progress.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; 0 if all went as it was meant to."""
    scale = QUICKER if arguments.quick else 1.0
    limit = "%d/s burst %d" % (30 / scale, len(PARTS))
    with FakeJobApi() as api:
        display = progress.display_from(arguments, batch=True, limit=limit)
        profile = api.profile._replace(
            limit=limit, retry=Backoff(0.4 * scale, 2, factor=2), timeout=30
        )
        pace = Backoff(0.25 * scale, 0.8 * scale, factor=1.2)
        with display, BatchPoller(
            profile, pace, workers=4, on_event=display.on_event, rng=_seeded()
        ) as batch:
            display.numbers = lambda: Numbers(
                len(PARTS), batch.stats.polls, batch.stats.rate_limited
            )
            _prepare(api, scale)
            outcomes = batch.run([part.id for part in PARTS])
        answers = [(name, request.status) for request in api.requests for name in request.ids]
    expected = [State.FAILED if part.fails else State.DONE for part in PARTS]
    as_meant = [outcome.state for outcome in outcomes] == expected
    sys.stdout.write(
        _table(outcomes, answers) + "\n" + _summary(outcomes, answers, as_meant) + NEXT
    )
    return 0 if as_meant else 4


def _prepare(api: FakeJobApi, scale: float) -> None:
    for part in PARTS:
        api.add(
            part.id,
            part.lasts * scale,
            part.pages,
            {"pages": part.pages},
            part.fails,
            queued=0.3 * scale,
        )
        if part.reset_at:
            api.fault("reset", part.id, part.reset_at)
        if part.limited_at:
            api.fault(429, part.id, part.limited_at, retry_after=1.0 * scale)
        if part.broken_at:
            api.fault(503, part.id, part.broken_at)


def _seeded() -> Callable[[], float]:
    """The same random numbers each time, so that the demo is, too."""
    from random import Random

    return Random(7).random


def _table(outcomes: List[Outcome], answers: Answers) -> str:
    rows = [("job", "state", "polls", "waited", "noticed after", "in the way")]
    for outcome in outcomes:
        found = [
            IN_THE_WAY[status]
            for name, status in answers
            if name == outcome.id and status in IN_THE_WAY
        ]
        if outcome.state is State.FAILED and outcome.error is not None:
            found.append("failed: " + outcome.error.message)
        if not found and outcome.slept_s.limit > HELD_SHARE * outcome.waited_s:
            found.append(
                "held back %.1f s by the limit" % outcome.slept_s.limit
            )  # after a 429, everyone is
        delay = outcome.notice_delay_s
        rows.append(
            (
                outcome.id,
                str(outcome.state),
                "%d" % outcome.polls,
                "%.1f s" % outcome.waited_s,
                "" if delay is None else "%.2f s" % delay,
                ", ".join(found),
            )
        )
    return "".join(("%-8s  %-6s  %5s  %7s  %13s  %s" % row).rstrip() + "\n" for row in rows)


def _summary(outcomes: List[Outcome], answers: Answers, as_meant: bool) -> str:
    statuses = [status for _, status in answers]
    delays = [outcome.notice_delay_s for outcome in outcomes if outcome.notice_delay_s is not None]
    text = "%d jobs, %d polls; %d x 429 obeyed, %d broken connection and %d x 503 survived;\n" % (
        len(outcomes),
        len(answers),
        statuses.count(429),
        statuses.count(0),
        statuses.count(503),
    )
    text += "on average, the end of a job was noticed after %.2f s.\n" % (
        sum(delays) / max(1, len(delays))
    )
    if as_meant:
        return text + "%s failed on purpose.\n" % ", ".join(part.id for part in PARTS if part.fails)
    return text + "Not all jobs ended as they were meant to: is this host very busy?\n"
