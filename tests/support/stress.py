"""A BatchPoller under stress; not in a test module, so that it can run without pytest."""

import collections
import itertools
import random
import threading
import time

from pollkit import Backoff, BatchPoller, Profile, TokenBucket


def stress(seed, api, operations):
    """Submit, cancel and nudge at random from several threads; check that each future is settled.

    The callback of each future is called exactly once, unless the future was cancelled.
    """
    calls = collections.Counter()
    futures = []
    lock = threading.Lock()

    def count_calls(number):
        def on_done(outcome):
            with lock:
                calls[number] += 1

        return on_done

    numbers = itertools.count()
    quick = Profile(url=api.url + "/jobs/{id}", proxy="none", retry=Backoff(0.01, 0.02))
    with BatchPoller(
        quick, pace="fixed 10ms", workers=6, max_faults=4, bucket=TokenBucket(5000, burst=50)
    ) as batch:

        def hammer(seed):
            rng = random.Random(seed)
            for _ in range(operations):
                name = "j%d" % rng.randrange(300)
                action = rng.random()
                if action < 0.6:
                    number = next(numbers)
                    future = batch.submit(name, on_done=count_calls(number))
                    with lock:
                        futures.append((number, future))
                elif action < 0.75:
                    batch.cancel(name)
                elif action < 0.9:
                    batch.nudge(name)
                elif futures:
                    rng.choice(futures)[1].cancel()
                if rng.random() < 0.3:
                    time.sleep(0.001)

        threads = [threading.Thread(target=hammer, args=(seed * 10 + i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(futures) > operations
    for number, future in futures:
        assert future.done()
        assert future.cancelled() or calls[number] == 1, "seed %d" % seed
        assert calls[number] <= 1


def flaky(seed):
    rng = random.Random(seed)
    answers = ["running"] * 5 + ["done", "done", "failed", (500, {}, None), (404, {}, None), None]
    return lambda name, count: rng.choice(answers)
