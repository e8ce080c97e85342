"""Another thread can wake a multiplexer that waits, and no wake is lost."""

import threading
import time

from exchanges import Finished, ends, soon, wait_for_read
from pollkit.core.units import NEVER
from raw_server import PATIENCE_S


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
    assert ends(multiplexer.wait(PATIENCE_S)) == [Finished("a", True)]


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
