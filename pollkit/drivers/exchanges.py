"""What a batch hands from one of its parts to the next: ways of asking, and what came of it."""
import time
from typing import List, NamedTuple, Union

from ..core.agenda import Entry, Lane, Step
from ..core.machine import Poll, Rules, next_action
from ..core.reading import Reading, Verdict
from ..edges.wire import with_news
from .asking import Heard as Heard
from .asking import Manner, Question, log

NEVER = float("inf")
Asked = Union[Question, Heard]         # or what is to be said of it already


class Stats(NamedTuple):
    """What a batch has asked so far, counted in exchanges."""

    polls: int = 0
    faults: int = 0
    rate_limited: int = 0


class Polled(NamedTuple):
    """An exchange that is over, and what it changed."""

    steps: List[Step]
    readings: List[Reading]
    heard: Reading
    at: float


class Way(NamedTuple):
    """How some jobs are asked about, and under which limit."""

    manner: Manner
    home: str         # the origin that credentials belong to
    is_many: bool     # one exchange asks about many of them
    lane: Lane
    rules: Rules


def ask(entries: List[Entry]) -> Asked:
    """Ask about jobs that were handed out together."""
    way: Way = entries[0].manner
    try:
        if way.is_many:
            fresh = any(entry.progress.trouble.wants_credential for entry in entries)
            return way.manner.ask_many([entry.progress.job.id for entry in entries], way.home, fresh)
        poll = next_action(entries[0].progress, NEVER)
        assert isinstance(poll, Poll)
        return way.manner.ask(poll, way.home)
    except Exception as error:
        return _failed(entries, error)


def hear(entries: List[Entry], asked: Asked) -> Heard:
    """What came of it."""
    if not isinstance(asked, Question):
        return asked
    way: Way = entries[0].manner
    try:
        return way.manner.hear(asked)
    except Exception as error:
        return _failed(entries, error)


def is_under_way(asked: Asked) -> bool:
    """Whether it was sent."""
    return isinstance(asked, Question) and asked.exchange.wire is not None


def wait(several: List[Question]) -> List[int]:
    """Wait until some of these, which are under way, can be heard: their places."""
    places = with_news([question.exchange.wire for question in several])
    now = time.monotonic()
    for question in several:
        question.exchange.awaited_until = now
    return places


def _failed(entries: List[Entry], error: Exception) -> Heard:
    """A bug; whoever waits for these jobs must not wait for ever."""
    log().error("pollkit failed to poll %s", entries[0].progress.job.id, exc_info=error)
    reading = Reading(Verdict.FAULT, "pollkit failed: %s" % type(error).__name__)
    return reading, [reading] * len(entries)
