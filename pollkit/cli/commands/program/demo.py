"""Start a job API on this host's loopback and wait for its jobs, live, in about 10 seconds.

Nothing leaves the host, and nothing else is needed. The API answers some requests with a 429 or
an error, and breaks a connection. One job fails on purpose; the exit code is 0 nevertheless.

examples:
  pollkit demo               on a terminal: the live display of a batch
  pollkit demo 2>/dev/null   only the table
  pollkit demo --quick       in about 2 seconds
"""

import argparse
import sys
from typing import List, NamedTuple, Optional, Tuple, Union

from ....core.model import Outcome, State
from ....core.waiting.pace import Backoff
from ....drivers.batch import BatchPoller
from ....edges.shortages import can_open_files
from ....errors import PollkitError
from ....testing import FakeJobApi
from ...exit_codes import ALL_DONE, UNREACHABLE
from ...output.tables import wrap_line
from ...progress.display import add_progress_options, display_from
from ...progress.terminal import text_width

QUICK_SCALE = 0.2
OPEN_FILES = 12  # at once: both ends of each connection, and those to listen and to wake up
TABLE_WIDTH = 80
NARROWEST = 20  # columns; on a narrower terminal, lines are not wrapped any further
DELAYED_SHARE = 0.1  # of a job's wait: shorter delays by the rate limit are not mentioned
DISTURBANCES = {0: "a broken connection", 429: "a 429 with Retry-After", 503: "a 503"}
NEXT_STEPS = """
Try next:
  pollkit profiles     the APIs it knows by name
  pollkit wait URL     wait for a job of your own
  pollkit help         the longer documentation
"""


class DemoJob(NamedTuple):
    """A job of the demo; some of its requests are disturbed."""

    id: str
    lasts_s: float
    pages: Optional[int] = None
    error: Optional[str] = None
    fault: Union[str, int, None] = None  # "reset" (a broken connection) or an HTTP status
    fault_at: int = 0  # the number of the request that gets it


JOBS = (
    DemoJob("scan-1", 0.7, 4),
    DemoJob("scan-2", 1.4, 9),
    DemoJob("scan-3", 2.2, 14),
    DemoJob("scan-4", 3.0, 20, fault="reset", fault_at=3),
    DemoJob("scan-5", 3.8, 25, error="page 7 can't be read"),
    DemoJob("scan-6", 4.6, 30),
    DemoJob("scan-7", 5.3, 36, fault=429, fault_at=4),
    DemoJob("scan-8", 6.1, 40, fault=503, fault_at=5),
    DemoJob("video-1", 6.9),
    DemoJob("video-2", 7.7, fault=429, fault_at=9),
    DemoJob("book-1", 8.5, 300),
    DemoJob("book-2", 9.3, 480),
)
Answers = List[Tuple[str, int]]  # the id and the HTTP status (0: connection broken) of each request


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--quick", action="store_true", help="five times as fast")
    add_progress_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; the exit code is 0 if every job finished as planned."""
    from random import Random

    if not can_open_files(OPEN_FILES):
        raise PollkitError(
            "the demo needs %d more open files: raise the limit (ulimit -n)" % OPEN_FILES
        )
    scale = QUICK_SCALE if arguments.quick else 1.0
    limit = "%d/s burst %d" % (30 / scale, len(JOBS))
    display = display_from(arguments, batch=True, limit=limit)
    with FakeJobApi() as api:
        profile = api.profile._replace(
            limit=limit, retry=Backoff(0.4 * scale, 2, factor=2), timeout=30
        )
        pace = Backoff(0.25 * scale, 0.8 * scale, factor=1.2)
        rng = Random(7).random  # the same random numbers each time
        with display, BatchPoller(
            profile, pace, workers=4, on_event=display.on_event, rng=rng
        ) as batch:
            display.follow(batch, len(JOBS))
            _start_jobs(api, scale)
            outcomes = batch.run([job.id for job in JOBS])
        answers = [(name, request.status) for request in api.requests for name in request.ids]
    expected = [State.FAILED if job.error else State.DONE for job in JOBS]
    is_as_planned = [outcome.state for outcome in outcomes] == expected
    width = max(NARROWEST, text_width(sys.stdout))
    text = _summary(outcomes, answers, is_as_planned) + NEXT_STEPS
    sys.stdout.write(_table(outcomes, answers, width) + "\n" + _wrap_lines(text, width))
    return ALL_DONE if is_as_planned else UNREACHABLE


def _start_jobs(api: FakeJobApi, scale: float) -> None:
    for job in JOBS:
        result = {"pages": job.pages}
        api.add(job.id, job.lasts_s * scale, job.pages, result, job.error, queued=0.3 * scale)
        if job.fault is not None:
            retry_after = 1.0 * scale if job.fault == 429 else None
            api.fault(job.fault, job.id, job.fault_at, retry_after)


def _table(outcomes: List[Outcome], answers: Answers, width: int) -> str:
    """One row per job; in a narrow terminal, the disturbances have lines of their own."""
    rows = [("job", "state", "polls", "waited", "noticed after", "disturbed by")]
    for outcome in outcomes:
        delay_s = outcome.notice_delay_s
        rows.append(
            (
                outcome.id,
                str(outcome.state),
                "%d" % outcome.polls,
                "%.1f s" % outcome.waited_s,
                "" if delay_s is None else "%.2f s" % delay_s,
                ", ".join(_disturbances(outcome, answers)),
            )
        )
    if width >= TABLE_WIDTH:
        return "".join(("%-8s  %-6s  %5s  %7s  %13s  %s" % row).rstrip() + "\n" for row in rows)
    lines = []
    for row in rows:
        lines.append("%-8s  %-6s  %5s  %7s" % row[:4])
        disturbances = row[-1]
        if disturbances and row is not rows[0]:
            lines.append("  " + disturbances)
    return _wrap_lines("\n".join(lines), width)


def _wrap_lines(text: str, width: int) -> str:
    return "".join(wrap_line(line, width, 4) + "\n" for line in text.splitlines())


def _disturbances(outcome: Outcome, answers: Answers) -> List[str]:
    statuses = [status for name, status in answers if name == outcome.id]
    found = [DISTURBANCES[status] for status in statuses if status in DISTURBANCES]
    if outcome.state is State.FAILED and outcome.error is not None:
        found.append("failed: " + outcome.error.message)
    delayed_s = outcome.slept_s.limit  # a 429 pauses all jobs
    if not found and delayed_s > DELAYED_SHARE * outcome.waited_s:
        found.append("delayed %.1f s by the rate limit" % delayed_s)
    return found


def _summary(outcomes: List[Outcome], answers: Answers, is_as_planned: bool) -> str:
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
    if is_as_planned:
        return text + "%s failed on purpose.\n" % ", ".join(job.id for job in JOBS if job.error)
    return text + "Not all jobs finished as planned: is this host very busy?\n"
