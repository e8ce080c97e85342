"""Several exchanges in one thread: each waits for a descriptor or an instant, and none blocks."""

import os
import select
import signal
import socket
import threading
import time

import pytest

from pollkit.core.units import NEVER
from pollkit.edges import multiplexer as multiplexer_module
from pollkit.edges.multiplexer import NOTHING, READ, WRITE, Finished, Multiplexer, run
from raw_server import PATIENCE_S

PAST = 0.0  # an instant that has passed on any machine


@pytest.fixture(params=["poll", "select"], autouse=True)
def poller(request, monkeypatch):
    """Every test runs with select.poll and with the substitute for systems that lack it."""
    if request.param == "select":
        monkeypatch.setattr(multiplexer_module, "new_poller", multiplexer_module._SelectPoller)
    elif not hasattr(select, "poll"):
        pytest.skip("this system has no select.poll")


@pytest.fixture
def multiplexer():
    made = Multiplexer()
    yield made
    made.close()


@pytest.fixture
def new_pair():
    """Makes pairs of connected sockets that don't block, and closes them."""
    made = []

    def new():
        pair = socket.socketpair()
        made.extend(pair)
        for sock in pair:
            sock.setblocking(False)
        return pair

    yield new
    for sock in made:
        sock.close()


def soon():
    """An instant that comes only if something is wrong."""
    return time.monotonic() + PATIENCE_S


def wait_for_read(sock, until):
    """An exchange that waits once; its result is whether the descriptor was ready."""
    is_ready = yield sock.fileno(), READ, until
    return is_ready


def wait_once(wait):
    is_ready = yield wait
    return is_ready


def lateness_of(wait):
    """An exchange that waits in vain; by how much it is late when it is resumed."""
    is_ready = yield wait
    assert not is_ready
    return time.monotonic() - wait[2]


def echo(sock, until):
    """Receives a line, in as many pieces as it comes, and sends it back in capitals."""
    line = b""
    while not line.endswith(b"\n"):
        is_ready = yield sock.fileno(), READ, until
        if not is_ready:
            return None
        line += sock.recv(4)
    reply = line.upper()
    while reply:
        is_ready = yield sock.fileno(), WRITE, until
        if not is_ready:
            return None
        reply = reply[sock.send(reply[:3]) :]
    return line


def count_reads(sock, until):
    """Waits as often as the descriptor is ready, and never reads the bytes."""
    count = 0
    while (yield sock.fileno(), READ, until):
        count += 1
    return count


def wait_for_all(multiplexer, count):
    """The finished exchanges by tag, once there are this many."""
    found = {}
    give_up_at = soon()
    while len(found) < count:
        assert time.monotonic() < give_up_at
        for finished in multiplexer.wait(PATIENCE_S):
            found[finished.tag] = finished
    return found


def open_descriptors():
    return sorted(os.listdir("/proc/self/fd"), key=int)


needs_proc = pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="descriptors are counted in /proc"
)


# One exchange in the caller's thread


def test_run_drives_an_exchange_to_its_end(new_pair):
    here, there = new_pair()
    there.send(b"hello\n")
    assert run(echo(here, soon())) == b"hello\n"
    assert there.recv(100) == b"HELLO\n"


def test_run_resumes_with_false_when_the_instant_has_passed(new_pair):
    here, _ = new_pair()
    started_at = time.monotonic()
    assert run(wait_for_read(here, started_at + 0.03)) is False
    assert time.monotonic() >= started_at + 0.03
    assert run(wait_once((NOTHING, 0, started_at + 0.05))) is False
    assert time.monotonic() >= started_at + 0.05


def test_run_lets_a_ready_descriptor_win_over_an_instant_that_has_passed(new_pair):
    here, there = new_pair()
    there.send(b"x")
    assert run(wait_for_read(here, PAST)) is True
    assert run(wait_once((there.fileno(), WRITE, PAST))) is True


def test_run_does_not_let_a_descriptor_that_is_always_ready_outlast_the_instant(new_pair):
    here, there = new_pair()
    there.send(b"x")
    assert run(count_reads(here, PAST)) == 1
    assert run(count_reads(here, time.monotonic() + 0.02)) >= 1


def test_run_waits_for_longer_than_the_system_call_can(new_pair, monkeypatch):
    monkeypatch.setattr(multiplexer_module, "_LONGEST_WAIT_S", 0.01)
    here, there = new_pair()
    sender = threading.Timer(0.1, there.send, (b"x",))
    sender.start()
    assert run(wait_for_read(here, NEVER)) is True
    sender.join()


def test_run_returns_the_result_of_an_exchange_that_never_waits():
    def at_once():
        return 42
        yield

    assert run(at_once()) == 42


def test_run_raises_the_error_of_the_exchange_and_closes_it(new_pair):
    here, there = new_pair()
    there.send(b"x")
    closed = []

    def failing():
        try:
            yield here.fileno(), READ, soon()
            raise KeyError("a bug")
        finally:
            closed.append(True)

    with pytest.raises(KeyError, match="a bug"):
        run(failing())
    assert closed == [True]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer signals here")
def test_an_exchange_is_closed_when_a_signal_interrupts_run(new_pair):
    here, _ = new_pair()
    closed = []

    def steps():
        try:
            yield here.fileno(), READ, soon()
        finally:
            closed.append(True)

    def interrupt(signum, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            run(steps())
    finally:
        signal.signal(signal.SIGALRM, before)
    assert closed == [True]


# Many exchanges in one thread


def test_exchanges_go_on_in_the_order_in_which_their_bytes_arrive(multiplexer, new_pair):
    pairs = [new_pair() for _ in range(20)]
    for i, (here, _) in enumerate(pairs):
        multiplexer.start(i, echo(here, soon()))
    assert len(multiplexer) == 20
    finished = []
    for i in reversed(range(20)):
        pairs[i][1].send(b"line %d\n" % i)
        finished += multiplexer.wait(PATIENCE_S)
    assert [each.tag for each in finished] == list(reversed(range(20)))
    assert finished[0] == Finished(19, b"line 19\n", None)
    assert pairs[7][1].recv(100) == b"LINE 7\n"
    assert len(multiplexer) == 0


def test_a_stalled_exchange_and_a_dripping_one_delay_no_other(multiplexer, new_pair):
    stalled, _ = new_pair()
    dripping, dripper = new_pair()
    multiplexer.start("stalled", echo(stalled, soon()))
    multiplexer.start("dripping", echo(dripping, soon()))
    for i in range(50):
        dripper.send(b"x")
        here, there = new_pair()
        multiplexer.start(i, echo(here, soon()))
        there.send(b"hello\n")
        assert multiplexer.wait(PATIENCE_S) == [Finished(i, b"hello\n")]
    assert len(multiplexer) == 2


def test_an_exchange_waits_to_write_while_the_other_side_does_not_read(multiplexer, new_pair):
    here, there = new_pair()
    with pytest.raises(BlockingIOError):
        while True:
            here.send(b"x" * 65536)
    multiplexer.start("full", wait_once((here.fileno(), WRITE, soon())))
    assert multiplexer.wait(0.02) == []
    with pytest.raises(BlockingIOError):
        while True:
            there.recv(65536)
    assert multiplexer.wait(PATIENCE_S) == [Finished("full", True)]


def test_the_end_of_a_connection_makes_its_descriptor_ready(multiplexer, new_pair):
    here, there = new_pair()
    multiplexer.start("left", wait_for_read(here, soon()))
    there.close()
    assert multiplexer.wait(PATIENCE_S) == [Finished("left", True)]


def test_a_refused_connection_makes_its_descriptor_ready(multiplexer):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    address = listener.getsockname()
    listener.close()
    with socket.socket() as sock:
        sock.setblocking(False)
        sock.connect_ex(address)
        multiplexer.start("refused", wait_once((sock.fileno(), WRITE, soon())))
        assert multiplexer.wait(PATIENCE_S) == [Finished("refused", True)]


def test_an_exchange_may_go_from_one_descriptor_to_another(multiplexer, new_pair):
    first, to_first = new_pair()
    second, to_second = new_pair()

    def steps():
        yield first.fileno(), READ, soon()
        yield NOTHING, 0, time.monotonic() + 0.01
        yield second.fileno(), READ, soon()
        return "both"

    multiplexer.start("a", steps())
    to_second.send(b"x")
    assert multiplexer.wait(0.02) == []
    to_first.send(b"x")
    assert multiplexer.wait(PATIENCE_S) == [Finished("a", "both")]


def test_a_new_socket_may_have_the_number_of_the_one_just_closed(multiplexer):
    """As when a connection was stale and the exchange opens another."""

    def steps():
        here, there = socket.socketpair()
        try:
            for _ in range(3):
                there.send(b"x")
                assert (yield here.fileno(), READ, soon())
                number = here.fileno()
                here.close()
                there.close()
                here, there = socket.socketpair()
                assert number in (here.fileno(), there.fileno())
                assert (yield number, WRITE, soon())
        finally:
            here.close()
            there.close()
        return "three times"

    multiplexer.start("a", steps())
    assert multiplexer.wait(PATIENCE_S) == [Finished("a", "three times")]


def test_two_exchanges_on_one_descriptor_are_a_bug_that_shows(multiplexer, new_pair):
    """One of them would never be resumed."""
    here, _ = new_pair()
    multiplexer.start("a", wait_for_read(here, soon()))
    with pytest.raises(AssertionError, match="two exchanges wait"):
        multiplexer.start("b", wait_for_read(here, soon()))


# Instants


def test_exchanges_whose_instant_has_passed_are_resumed_with_false(multiplexer, new_pair):
    now = time.monotonic()
    for delay in 0.06, 0.02, 2 * PATIENCE_S:
        multiplexer.start(delay, lateness_of((new_pair()[0].fileno(), READ, now + delay)))
    found = wait_for_all(multiplexer, 2)
    assert sorted(found) == [0.02, 0.06]
    assert all(finished.result >= 0 for finished in found.values())
    assert len(multiplexer) == 1


@pytest.mark.parametrize("direction", [0, READ, WRITE])
def test_an_exchange_may_wait_for_an_instant_only(multiplexer, direction):
    now = time.monotonic()
    for delay in 0.04, 0.02:
        multiplexer.start(delay, lateness_of((NOTHING, direction, now + delay)))
    assert len(multiplexer) == 2
    found = wait_for_all(multiplexer, 2)
    assert all(finished.result >= 0 for finished in found.values())
    assert len(multiplexer) == 0


def test_an_exchange_may_wait_for_one_instant_after_the_other(multiplexer):
    def steps():
        for _ in range(5):
            assert (yield NOTHING, 0, time.monotonic() + 0.002) is False
        return "awake"

    multiplexer.start("a", steps())
    assert multiplexer.wait(PATIENCE_S) == [Finished("a", "awake")]


def test_a_ready_descriptor_wins_over_an_instant_that_has_passed(multiplexer, new_pair):
    here, there = new_pair()
    there.send(b"x")
    multiplexer.start("ready", wait_for_read(here, PAST))
    multiplexer.start("not ready", wait_for_read(new_pair()[0], PAST))
    found = wait_for_all(multiplexer, 2)
    assert (found["ready"].result, found["not ready"].result) == (True, False)


def test_a_descriptor_that_is_always_ready_does_not_outlast_the_instant(multiplexer, new_pair):
    """A server that never stops sending can't hold an exchange past its deadline."""
    for i, until in enumerate([PAST, time.monotonic() + 0.02]):
        here, there = new_pair()
        there.send(b"x")
        multiplexer.start(i, count_reads(here, until))
    found = wait_for_all(multiplexer, 2)
    assert found[0].result == 1
    assert found[1].result >= 1


def test_a_reply_that_comes_while_another_exchange_takes_its_time_is_not_too_late(
    multiplexer, new_pair
):
    """The process may have been suspended, too: it checks for bytes before giving up."""
    slow, to_slow = new_pair()
    other, to_other = new_pair()

    def slow_steps():
        yield slow.fileno(), READ, soon()
        to_other.send(b"x")
        while time.monotonic() < other_until:
            time.sleep(0.005)

    other_until = time.monotonic() + 0.05
    multiplexer.start("other", wait_for_read(other, other_until))
    multiplexer.start("slow", slow_steps())
    to_slow.send(b"x")
    found = wait_for_all(multiplexer, 2)
    assert found["other"].result is True


def test_an_instant_that_moves_back_counts(multiplexer, new_pair):
    here, there = new_pair()

    def steps():
        yield here.fileno(), READ, NEVER
        here.recv(1)
        yield here.fileno(), READ, time.monotonic() + 0.01
        return "in time"

    multiplexer.start("a", steps())
    there.send(b"x")
    assert multiplexer.wait(PATIENCE_S) == [Finished("a", "in time")]


def test_wait_without_anything_to_wait_for_ends_in_time(multiplexer):
    started_at = time.monotonic()
    assert multiplexer.wait(0.03) == []
    assert time.monotonic() >= started_at + 0.03
    assert multiplexer.wait(0) == []
    assert multiplexer.wait(-1) == []


def test_wait_does_not_spin(multiplexer, new_pair):
    here, _ = new_pair()
    multiplexer.start("a", wait_for_read(here, time.monotonic() + 0.3))
    started_at = time.process_time()
    assert multiplexer.wait(0.2) == []
    assert time.process_time() - started_at < 0.1


# Ends


def test_an_exception_ends_its_own_exchange_and_is_reported_with_its_tag(multiplexer, new_pair):
    bad, to_bad = new_pair()
    good, to_good = new_pair()

    def failing():
        yield bad.fileno(), READ, soon()
        raise KeyError("a bug")

    multiplexer.start("bad", failing())
    multiplexer.start("good", wait_for_read(good, soon()))
    to_bad.send(b"x")
    to_good.send(b"x")
    found = wait_for_all(multiplexer, 2)
    assert found["good"] == Finished("good", True)
    assert found["bad"].result is None
    assert isinstance(found["bad"].error, KeyError)
    assert len(multiplexer) == 0


def test_an_exchange_may_end_or_fail_without_ever_waiting(multiplexer):
    def at_once(error):
        if error:
            raise error
        return "done"
        yield

    error = ValueError("a bug")
    multiplexer.start("a", at_once(None))
    multiplexer.start("b", at_once(error))
    assert multiplexer.wait(PATIENCE_S) == [Finished("a", "done"), Finished("b", None, error)]


def test_exchanges_that_end_at_once_do_not_hold_up_the_others(multiplexer, new_pair):
    """A server that refuses every connection must not keep others' replies from being read."""
    here, there = new_pair()
    there.send(b"x")
    multiplexer.start("other", wait_for_read(here, soon()))

    def at_once():
        return None
        yield

    multiplexer.start("refused", at_once())
    assert {finished.tag for finished in multiplexer.wait(0)} == {"refused", "other"}


def test_close_closes_every_exchange(new_pair):
    multiplexer = Multiplexer()
    closed = []

    def steps(name, wait):
        try:
            yield wait
        finally:
            closed.append(name)

    multiplexer.start("reading", steps("reading", (new_pair()[0].fileno(), READ, soon())))
    multiplexer.start("sleeping", steps("sleeping", (NOTHING, 0, soon())))
    multiplexer.close()
    assert sorted(closed) == ["reading", "sleeping"]
    assert len(multiplexer) == 0
    multiplexer.close()


def test_close_closes_the_others_even_if_one_fails_to_close(new_pair):
    multiplexer = Multiplexer()
    closed = []

    def steps(i):
        try:
            yield new_pair()[0].fileno(), READ, soon()
        finally:
            closed.append(i)
            if i == 1:
                raise KeyError("a bug")

    for i in range(3):
        multiplexer.start(i, steps(i))
    with pytest.raises(KeyError):
        multiplexer.close()
    assert sorted(closed) == [0, 1, 2]


@needs_proc
def test_no_descriptor_is_left_open(new_pair):
    before = open_descriptors()

    def steps(i):
        here, there = socket.socketpair()
        with here, there:
            if i % 2:
                there.send(b"x")
            is_ready = yield here.fileno(), READ, soon()
            return is_ready

    for _ in range(5):
        multiplexer = Multiplexer()
        for i in range(10):
            multiplexer.start(i, steps(i))
        assert sorted(wait_for_all(multiplexer, 5)) == [1, 3, 5, 7, 9]
        multiplexer.wake()
        multiplexer.close()
    assert open_descriptors() == before


# Waking


def test_wake_from_another_thread_ends_the_wait(multiplexer, new_pair):
    multiplexer.start("a", wait_for_read(new_pair()[0], NEVER))
    waker = threading.Timer(0.05, multiplexer.wake)
    waker.start()
    assert multiplexer.wait(None) == []
    waker.join()
    assert len(multiplexer) == 1


def test_wake_before_the_wait_counts_and_only_once(multiplexer):
    for _ in range(3):
        multiplexer.wake()
    started_at = time.monotonic()
    assert multiplexer.wait(PATIENCE_S) == []
    assert time.monotonic() - started_at < PATIENCE_S
    started_at = time.monotonic()
    assert multiplexer.wait(0.03) == []
    assert time.monotonic() - started_at >= 0.03


def test_wake_never_blocks_and_never_fails(multiplexer):
    for _ in range(100000):
        multiplexer.wake()
    assert multiplexer.wait(PATIENCE_S) == []
    multiplexer.close()
    multiplexer.wake()


def test_wakes_do_not_delay_exchanges_that_are_ready(multiplexer, new_pair):
    here, there = new_pair()
    multiplexer.start("a", wait_for_read(here, soon()))
    there.send(b"x")
    multiplexer.wake()
    assert multiplexer.wait(PATIENCE_S) == [Finished("a", True)]


def test_a_wake_while_the_last_one_is_being_taken_is_not_lost(multiplexer):
    """It ends this wait or the next, and later ones work still."""
    receiver = multiplexer._receiver

    class Receiver:
        """A wake-up comes just before the bytes of the last are read."""

        def fileno(self):
            return receiver.fileno()

        def recv(self, size):
            multiplexer.wake()
            return receiver.recv(size)

        def close(self):
            receiver.close()

    multiplexer._receiver = Receiver()
    multiplexer.wake()
    assert multiplexer.wait(PATIENCE_S) == []
    multiplexer._receiver = receiver
    multiplexer.wait(0)
    waker = threading.Timer(0.02, multiplexer.wake)
    waker.start()
    started_at = time.monotonic()
    assert multiplexer.wait(PATIENCE_S) == []
    assert time.monotonic() - started_at < PATIENCE_S
    waker.join()


def test_work_that_other_threads_put_in_a_queue_is_always_found(multiplexer, no_thread_is_left):
    """Each adds to the queue and then wakes the thread that waits, as drivers do."""
    queue = []
    threads_count = 4
    rounds = 500

    def add():
        for _ in range(rounds):
            queue.append(1)
            multiplexer.wake()

    threads = [threading.Thread(target=add) for _ in range(threads_count)]
    for thread in threads:
        thread.start()
    found = 0
    give_up_at = soon()
    while found < threads_count * rounds and time.monotonic() < give_up_at:
        while queue:
            queue.pop()
            found += 1
        if found < threads_count * rounds:
            multiplexer.wait(PATIENCE_S)
    for thread in threads:
        thread.join()
    assert found == threads_count * rounds
    assert time.monotonic() < give_up_at, "a wake-up was lost"


def test_the_same_descriptor_may_be_waited_for_again(multiplexer, new_pair):
    """As when a connection carries one exchange after the other."""
    here, there = new_pair()
    for i in range(10):
        there.send(b"x")
        multiplexer.start(i, wait_for_read(here, soon()))
        assert multiplexer.wait(PATIENCE_S) == [Finished(i, True)]
        here.recv(1)
