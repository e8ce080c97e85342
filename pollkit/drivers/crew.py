"""Threads that serve one agenda: as few awake as the load needs, the last to sleep first.

One idle thread at most is on watch: it sleeps until the next instant at which there is
something to do. The others sleep until somebody needs them. Whoever takes work sees to it that
there is a watch, so that a slow exchange holds up nothing else.

Where exchanges are quick (a server next door), one thread beats many that fight over the
interpreter. It then has up to AT_ONCE of them under way: a reply has come each time it looks, and
it need not sleep, which costs more than the poll. The others leave work alone while it is at it;
one of them steps in when it has taken nothing for STALL_S.
"""
import threading
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from ..edges.clock import Clock
from ..errors import PollkitError
from .asking import log
from .owners import new_bell, ring

QUICK_S = 0.003
AT_ONCE = 8         # more would gain nothing, and keep a reply waiting for those before it
STALL_S = 0.005
NEVER = float("inf")


class _Gate:
    """Where one thread sleeps."""

    __slots__ = ("lock", "until")

    def __init__(self) -> None:
        self.lock = new_bell()
        self.until = NEVER


class Exchanges(NamedTuple):
    """How work is done: `begin(work)` asks, `end(work, asked)` waits for the answer and gives what came of it.

    Of several that are under way, `wait` tells, by their places, which can be ended at once; one that
    is not under way, because a connection must be opened first, is all done when it is ended.
    """

    begin: Callable[[Any], Any]
    is_under_way: Callable[[Any], bool]
    wait: Callable[[List[Any]], List[int]]
    end: Callable[[Any, Any], Any]


class Crew:
    """Up to `size` threads, each started when there is use for it.

    `take(now)` gives work or the instant to come back at, `finish(work, result, now)` takes in
    what came of it; both are called with the lock held, and so is `crash(error)` after one of them
    failed. The `exchanges`, `announce(what finish gave)` and, by each thread at its end, `leave()`
    are called without it.
    """

    def __init__(self, size: int, clock: Clock, lock: threading.Lock, take: Callable[[float], Any],
                 exchanges: Exchanges, finish: Callable[[Any, Any, float], Any],
                 announce: Callable[[Any], None], leave: Callable[[], None],
                 crash: Callable[[Exception], None]) -> None:
        self._size, self._clock, self._lock = size, clock, lock
        self._take, self._exchanges, self._finish, self._announce = take, exchanges, finish, announce
        self._leave, self._crash = leave, crash
        self._threads: List[threading.Thread] = []
        self._idle: List[_Gate] = []
        self._watch: Optional[_Gate] = None
        self._coming = 0         # roused or started, and not here yet
        self._busy = 0
        self._taken_at, self._taker = -NEVER, _Gate()   # the last work that was taken: when, and by whom
        self._exchange_s = QUICK_S   # what an exchange takes, of late; the first one decides whether that is quick
        self._closed = False

    def wake(self) -> None:
        """There may be something to do sooner than anybody expects. Call with the lock held."""
        if self._watch is not None:
            self._rouse(self._watch)
        else:
            self._call_another()  # unless somebody is on the way

    def dismiss(self) -> None:
        """Let every thread go, once it is done with what it is doing. Call with the lock held."""
        self._closed = True
        for gate in self._idle[:]:
            self._rouse(gate)

    def is_member(self) -> bool:
        """Whether the thread that asks is one of the crew."""
        return threading.current_thread() in self._threads

    def join(self, timeout: Optional[float] = None) -> None:
        """Wait until the threads are gone, for `timeout` seconds at most."""
        until = NEVER if timeout is None else Clock().now() + timeout
        for thread in self._threads:
            if thread is not threading.current_thread() and thread.is_alive():
                thread.join(None if timeout is None else max(0.0, until - Clock().now()))

    def _call_another(self) -> None:
        if self._coming:
            return
        if self._idle:
            self._rouse(self._idle[-1])
        elif len(self._threads) < self._size and not self._closed:
            thread = threading.Thread(target=self._serve, name="pollkit-%d" % len(self._threads), daemon=True)
            self._threads.append(thread)  # before it starts: Ctrl-C may come in between
            self._coming += 1
            try:
                thread.start()
            except RuntimeError:  # no more threads to be had: those there are have to do
                self._threads.remove(thread)
                self._coming -= 1
                if not self._threads:
                    raise PollkitError("no thread can be started") from None

    def _rouse(self, gate: _Gate) -> None:
        ring(gate.lock)  # first: Ctrl-C may come in between, and a thread that is awake finds its way
        self._idle.remove(gate)
        self._coming += 1
        if gate is self._watch:
            self._watch = None

    def _serve(self) -> None:
        gate, clock, is_coming = _Gate(), self._clock, True
        try:
            while True:
                with self._lock:
                    self._coming -= is_coming
                    found = NEVER if self._closed else self._look(gate, clock.now())
                    if self._closed:
                        return
                    if isinstance(found, float):
                        self._lie_down(gate, found)
                self._tell(None)
                if isinstance(found, float):
                    clock.wait(gate.lock, gate.until)
                    with self._lock:
                        is_coming = not self._gets_up(gate)
                else:
                    self._work(gate, found)
                    is_coming = False
        except Exception as error:  # a bug: with its threads gone, a batch would wait for ever without a word
            log().exception("pollkit failed")
            with self._lock:
                self._crash(error)
            self._tell(None)
        finally:
            self._leave()

    def _work(self, gate: _Gate, work: Any) -> None:
        """From one exchange to the next, for as long as there is something to do."""
        clock, exchanges, most = self._clock, self._exchanges, min(AT_ONCE, self._size)
        begun: List[Tuple[float, Any, Any]] = []   # under way
        ready: List[Tuple[float, Any, Any]] = []   # to be ended next
        while True:
            if not isinstance(work, float):
                began = clock.now()
                asked = exchanges.begin(work)
                if not exchanges.is_under_way(asked):
                    ready.append((began, work, asked))
                else:
                    begun.append((began, work, asked))
                    if len(begun) + len(ready) < most and self._exchange_s < QUICK_S:
                        with self._lock:
                            work = NEVER if self._closed else self._look(gate, clock.now())
                        self._tell(None)
                        continue
            elif not begun and not ready:
                return
            if not ready:
                places = exchanges.wait([asked for _, _, asked in begun]) if len(begun) > 1 else [0]
                ready = [begun.pop(place) for place in reversed(places)]
            began, done, asked = ready.pop()
            result = exchanges.end(done, asked)
            with self._lock:
                now = clock.now()
                self._busy -= 1
                self._exchange_s += (now - began - self._exchange_s) / 8
                news = self._finish(done, result, now)
                work = NEVER if self._closed else self._look(gate, now)
            self._tell(news)

    def _tell(self, news: Any) -> None:
        try:
            self._announce(news)
        except BaseException:  # the work already taken must still be done
            log().exception("pollkit failed to say what came of a poll")

    def _look(self, gate: _Gate, now: float) -> Any:
        """Work for the thread with that gate; or the instant at which it is to look again."""
        if (gate is not self._taker and self._busy and self._exchange_s < QUICK_S
                and now < self._taken_at + STALL_S):
            return self._taken_at + STALL_S
        work = self._take(now)
        if not isinstance(work, float):
            self._busy += 1
            self._taken_at, self._taker = now, gate
            if self._watch is None:
                self._call_another()
        return work

    def _lie_down(self, gate: _Gate, until: float) -> None:
        if until < (NEVER if self._watch is None else self._watch.until):
            self._watch, gate.until = gate, until
        else:
            gate.until = NEVER
        self._idle.append(gate)

    def _gets_up(self, gate: _Gate) -> bool:
        """Whether a thread got up by itself, because its time had come: nobody roused it."""
        if gate not in self._idle:
            return False
        self._idle.remove(gate)
        if gate is self._watch:
            self._watch = None
        return True
