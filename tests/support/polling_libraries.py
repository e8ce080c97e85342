"""Stand-ins for libraries that poll, which are not installed for the tests.

Each behaves as the documentation of its library says, as far as the topic `migrate` uses it. All
take a clock, so that they sleep in virtual time.
"""

import asyncio
from functools import partial
from types import SimpleNamespace


def polling2(clock):
    """polling2.poll: calls the target, checks the value, then the time, then sleeps a step."""

    def poll(target, step, check_success=bool, step_function=lambda step: step, timeout=None):
        give_up_at = clock.now() + timeout
        while True:
            value = target()
            if check_success(value):
                return value
            if clock.now() >= give_up_at:
                raise TimeoutError()
            clock.sleep(step)
            step = step_function(step)

    return SimpleNamespace(poll=poll, step_linear_double=lambda step: 2 * step)


def tenacity(clock):
    """tenacity.retry: calls the function again, while `retry` says so of its result.

    wait_exponential waits for 2 ** (attempt - 1) seconds, within min and max.
    """

    def retry(retry, wait, stop):
        def decorate(function):
            def call():
                began_at = clock.now()
                attempt = 1
                while True:
                    result = function()
                    if not retry(result):
                        return result
                    if stop(clock.now() - began_at):
                        raise TimeoutError()
                    clock.sleep(wait(attempt))
                    attempt += 1

            return call

        return decorate

    def wait_exponential(min, max):  # noqa: A002
        return lambda attempt: sorted([min, 2.0 ** (attempt - 1), max])[1]

    return SimpleNamespace(
        retry=retry,
        retry_if_result=lambda predicate: predicate,
        wait_exponential=wait_exponential,
        stop_after_delay=lambda most_s: lambda passed_s: passed_s >= most_s,
    )


class BotocoreClient:
    """A client of botocore with one operation and a waiter for it; `get` returns a job."""

    STATUSES = {"running": "IN_PROGRESS", "done": "COMPLETE", "failed": "FAILED"}

    def __init__(self, get, clock):
        self._get = get
        self._clock = clock

    def describe_job(self, JobId):
        job = self._get(JobId)
        return {"Job": {"Status": self.STATUSES[job["status"]], "Output": job.get("result")}}

    def get_waiter(self, name):
        assert name == "job_complete"
        return SimpleNamespace(wait=self._wait)

    def _wait(self, JobId, WaiterConfig):
        """Poll, sleep for Delay, MaxAttempts times at most; the result is not returned."""
        for _ in range(WaiterConfig["MaxAttempts"]):
            status = self.describe_job(JobId)["Job"]["Status"]
            if status == "COMPLETE":
                return
            if status == "FAILED":
                raise RuntimeError("WaiterError: encountered a terminal failure state")
            self._clock.sleep(WaiterConfig["Delay"])
        raise RuntimeError("WaiterError: max attempts exceeded")


class TaskPoller:
    """The task poller of API documentation: asks about all tasks in turn, every five seconds."""

    INTERVAL_S = 5.0

    def __init__(self, get_response, clock):
        self._get_response = get_response
        self._clock = clock
        self._tasks = []

    def add(self, model, task_id, callback):
        self._tasks.append((task_id, callback))

    def start(self):
        while self._tasks:
            self._tasks = [task for task in self._tasks if not self._check(*task)]
            self._clock.sleep(self.INTERVAL_S)

    def _check(self, task_id, callback):
        """Whether the task has finished; errors of the server are retried in the next round."""
        response = self._get_response(task_id)
        if response.status_code != 200:
            return False
        job = response.json()
        if job["status"] == "done":
            callback(None, job["result"])
        elif job["status"] == "failed":
            callback(job["error"], None)
        return job["status"] in ("done", "failed")


def promise_poll(clock):
    """The poll function of JavaScript tutorials, with `then` called at once."""

    def poll(function, is_finished, interval, max_attempts):
        for _ in range(max_attempts):
            value = function()
            if is_finished(value):
                return SimpleNamespace(then=partial(_call_with, value["result"]))
            clock.sleep(interval)
        raise TimeoutError()

    return poll


def _call_with(value, call):
    return call(value)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in which asyncio.sleep takes no time."""

    def __init__(self, clock):
        super().__init__()
        self._clock = clock
        select = self._selector.select

        def select_in_virtual_time(timeout):
            if timeout:
                clock.sleep(timeout)
                timeout = 0
            return select(timeout)

        self._selector.select = select_in_virtual_time

    def time(self):
        return self._clock.now()
