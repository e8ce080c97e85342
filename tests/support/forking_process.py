"""A process that has imported pollkit, and forks for each measurement.

    process = ForkingProcess(__file__, "poll")    # the tests' side
    cost = process.ask(url="http://...")

    answer_requests(work)    # the side of the process: prints the dict that work(url=...) returns

So each measurement has a process of its own, with its own memory and CPU time, and none has to wait
for another one's imports.
"""

import atexit
import json
import os
import subprocess
import sys
import traceback


class ForkingProcess:
    """Starts a script, which has to call `answer_requests`; starts it again if it has ended."""

    def __init__(self, script, *words, **environ):
        self._command = [sys.executable, os.path.abspath(script)] + list(words)
        self._environ = dict(os.environ, **environ)
        self._process = None

    def ask(self, **request):
        """The answer to a request."""
        if self._process is None or self._process.poll() is not None:
            self._process = self._start()
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the process has ended: its stderr says why"
        answer = json.loads(line)
        assert "exit_status" not in answer, answer
        return answer

    def _start(self):
        process = subprocess.Popen(
            self._command,
            env=self._environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            universal_newlines=True,
        )
        atexit.register(process.communicate)  # closes its stdin, which ends it
        return process


def answer_requests(work):
    """Answer each line of stdin with what `work` returns in a forked process."""
    for line in iter(sys.stdin.readline, ""):
        child = os.fork()
        if child == 0:
            try:
                print(json.dumps(work(**json.loads(line))), flush=True)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            print(json.dumps({"exit_status": status}), flush=True)
