"""Threads that serve one agenda: as few awake as the load needs, the last to sleep first.

One idle thread at most is on watch: it sleeps until the next instant at which there is
something to do. The others sleep until somebody needs them. Whoever takes work sees to it that
there is a watch, so that a slow exchange holds up nothing else.

Where exchanges are quick (a server next door), one thread beats many that fight over the
interpreter. It then has up to AT_ONCE of them under way: a reply has come each time it looks, and
it need not sleep, which costs more than the poll. The others leave work alone while it is at it.
When it has taken nothing for STALL_S (a reply that drips, a slow callback), one of them steps in,
and takes over what it has under way.
"""
import threading
from collections import deque
from typing import Any, Callable, Deque, List, NamedTuple, Optional, Tuple

from ..edges.clock import Clock
from ..errors import PollkitError
from .asking import log
from .owners import new_bell, ring

QUICK_S = 0.003
AT_ONCE = 8         # more would gain nothing, and keep a reply waiting for those before it
STALL_S = 0.005
NEVER = float("inf")

_Begun = Tuple[float, Any, Any]  # an exchange: since when, the work, what was asked


class _Gate:
    """Where one thread sleeps, and what it has under way: `ready` is to be ended next."""

    __slots__ = ("lock", "until", "begun", "ready", "waits")

    def __init__(self) -> None:
        self.lock = new_bell()
        self.until = NEVER
        self.begun: Deque[_Begun] = deque()
        self.ready: Deque[_Begun] = deque()
        self.waits = False   # for replies, and so will see to them

    @property
    def has_more(self) -> bool:
        """Whether there is something that waits for its thread."""
        return bool(self.begun or self.ready)


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
    """Up to `size` threads, each started when there is use for it, with up to `at_once` exchanges under way.

    `take(now)` gives work or the instant to come back at, `finish(work, result, now)` takes in
    what came of it; both are called with the lock held, and so is `crash(error)` after one of them
    failed. The `exchanges`, `announce(what finish gave)` and, by each thread at its end, `leave()`
    are called without it.
    """

    def __init__(self, size: int, clock: Clock, lock: threading.Lock, take: Callable[[float], Any],
                 exchanges: Exchanges, finish: Callable[[Any, Any, float], Any],
                 announce: Callable[[Any], None], leave: Callable[[], None],
                 crash: Callable[[Exception], None], at_once: int = AT_ONCE) -> None:
        self._size, self._clock, self._lock, self._at_once = size, clock, lock, min(at_once, size)
        self._take, self._exchanges, self._finish, self._announce = take, exchanges, finish, announce
        self._leave, self._crash = leave, crash
        self._threads: List[threading.Thread] = []
        self._gates: List[_Gate] = []
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
        self._gates.append(gate)
        try:
            while True:
                with self._lock:
                    self._coming -= is_coming
                    found = NEVER if self._closed else self._look(gate, clock.now())
                    if self._closed:
                        return
                    is_idle = isinstance(found, float) and not gate.has_more
                    if is_idle:
                        self._lie_down(gate, found)
                self._tell(None)
                if is_idle:
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
        clock, exchanges, most = self._clock, self._exchanges, self._at_once
        while True:
            if not isinstance(work, float):
                began = clock.now()
                asked = exchanges.begin(work)
                is_quick = self._exchange_s < QUICK_S
                if most == 1 or not exchanges.is_under_way(asked) or not (is_quick or gate.has_more):
                    work = self._end(gate, began, work, asked)
                    continue
                gate.begun.append((began, work, asked))
                if is_quick and len(gate.begun) + len(gate.ready) < most:
                    with self._lock:
                        work = NEVER if self._closed else self._look(gate, clock.now())
                    self._tell(None)
                    continue
            found = self._next(gate)
            if found is None:
                return
            work = self._end(gate, *found)

    def _next(self, gate: _Gate) -> Optional[_Begun]:
        """What is to be ended next; of several that are under way, one whose reply has come."""
        if not gate.ready and len(gate.begun) > 1:
            with self._lock:
                gate.waits, several = True, list(gate.begun)
            places = self._exchanges.wait([asked for _, _, asked in several]) if several else []
            with self._lock:
                gate.waits = False
                gate.begun = deque(one for i, one in enumerate(several) if i not in places)
                gate.ready.extend(several[place] for place in reversed(places))
        for mine in (gate.ready, gate.begun):
            try:
                return mine.pop()
            except IndexError:
                pass  # there is none, or somebody has taken over
        return None

    def _end(self, gate: _Gate, began: float, work: Any, asked: Any) -> Any:
        """Hear what came of an exchange, and tell; what is to be done next."""
        result = self._exchanges.end(work, asked)
        with self._lock:
            now = self._clock.now()
            self._busy -= 1
            self._exchange_s += (now - began - self._exchange_s) / 8
            news = self._finish(work, result, now)
            is_slow = gate.has_more and self._exchange_s >= QUICK_S  # what is left will do for one thread
            found = NEVER if self._closed or is_slow else self._look(gate, now)
            if gate.has_more and (is_slow or self._watch is None or self._watch.until > now + STALL_S):
                self.wake()  # another, to help, or to step in should what follows here take long
        self._tell(news)
        return found

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
        if gate is not self._taker:
            self._take_over(gate)
        work = self._take(now)
        if not isinstance(work, float):
            self._busy += 1
            self._taken_at, self._taker = now, gate
            if self._watch is None:
                self._call_another()
        return work

    def _take_over(self, gate: _Gate) -> None:
        """See to what other threads have under way, and can't see to just now."""
        for other in self._gates:
            if other is not gate and not other.waits:
                for theirs, mine in ((other.begun, gate.begun), (other.ready, gate.ready)):
                    while theirs:
                        try:
                            mine.append(theirs.pop())
                        except IndexError:  # it does see to it
                            break

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
