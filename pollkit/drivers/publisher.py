"""Events: which of them are needed, and how they reach the log and the caller's `on_event`."""

import functools
import sys
import threading
from typing import TYPE_CHECKING, Any, Callable, Iterable, Optional

from ..core import events
from ..core.events import Event
from ..core.reading.verdict import Reading
from ..core.waiting.counting import FAULT_VERDICTS
from ..core.waiting.wait_settings import WaitSettings
from ..core.waiting.wait_state import WaitState
from ..edges.shortages import describe_shortage
from ..errors import PollkitError

if TYPE_CHECKING:
    import logging

# The levels of the logging module, which takes long to import.
DEBUG = 10
INFO = 20
WARNING = 30
_LEVELS = {
    events.POLL: DEBUG,
    events.PAUSE: DEBUG,
    events.STATUS: INFO,
    events.END: INFO,
    events.FAULT: WARNING,
    events.WARNING: WARNING,
}

OnEvent = Callable[[Event], object]


@functools.lru_cache(maxsize=None)
def logger() -> "logging.Logger":
    """The logger of pollkit."""
    import logging

    logger = logging.getLogger("pollkit")
    logger.addHandler(logging.NullHandler())
    return logger


def is_logged(level: int) -> bool:
    """Whether messages of this level are logged; never if the program has not imported logging."""
    return "logging" in sys.modules and logger().isEnabledFor(level)


def call_safely(callback: Callable[[Any], object], argument: Any, message: str) -> None:
    """Call a user's callback; log any exception with `message`, even SystemExit."""
    try:
        callback(argument)
    except BaseException as error:
        logger().exception(message)
        is_main_thread = threading.current_thread() is threading.main_thread()
        if isinstance(error, KeyboardInterrupt) and is_main_thread:
            raise  # the user pressed Ctrl-C during the callback


def to_pollkit_error(error: Exception) -> PollkitError:
    """The error that callers get in place of any other; a bug is logged."""
    if isinstance(error, PollkitError):
        return error
    text = describe_shortage(error)
    if not text:
        text = "pollkit failed: %s: %s" % (type(error).__name__, error)
        logger().error("pollkit failed", exc_info=error)
    return PollkitError(text)


class Publisher:
    """Passes events to the log and to `on_event`, and creates none that neither of them needs.

    `scrub` removes the client's secrets from a text.
    """

    def __init__(self, on_event: Optional[OnEvent], scrub: Callable[[str], str]) -> None:
        self._on_event = on_event
        self._scrub = scrub

    @property
    def needs_every_event(self) -> bool:
        """Whether all events are needed, not only warnings and faults."""
        return self._on_event is not None or is_logged(INFO)

    def needs(self, reading: Reading) -> bool:
        """Whether the events of a poll with this reading are needed."""
        if self.needs_every_event:
            return True
        return bool(reading.warnings) or reading.verdict in FAULT_VERDICTS

    def publish(self, event: Event) -> None:
        """Log an event, and pass it to `on_event`."""
        level = _LEVELS[event.kind]
        if is_logged(level):
            logger().log(level, "%s", event)
        if self._on_event is not None:
            self._on_event(event)

    def poll_events(
        self,
        before: WaitState,
        after: WaitState,
        reading: Reading,
        now: float,
        settings: WaitSettings,
    ) -> Iterable[Event]:
        """The events of one poll, in order; none if they are not needed."""
        if not self.needs(reading):
            return ()
        found = events.poll_events(before, after, reading, now, settings)
        if after.url == before.url:
            return found
        # The server sent a link, which may repeat a secret that it received.
        return [event._replace(text=self._scrub(event.text)) for event in found]

    def publish_safely(self, found: Iterable[Event]) -> None:
        """Publish events; exceptions of `on_event` are logged."""
        for event in found:
            call_safely(self.publish, event, "on_event failed")
