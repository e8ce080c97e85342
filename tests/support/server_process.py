"""A server of the tests in another process.

The module of the server has a subclass with SCRIPT = __file__. If it is run as a program, it prints
its ports as a JSON list, and answers GET /log with the requests so far.
"""

import json
import subprocess
import sys
import urllib.request


class ServerProcess:
    """Starts the process; each port is an origin. `url(path)` is at the first one."""

    SCRIPT = ""

    def __enter__(self):
        self._process = subprocess.Popen([sys.executable, self.SCRIPT], stdout=subprocess.PIPE)
        self.ports = json.loads(self._process.stdout.readline().decode())
        self.port = self.ports[0]
        self.origin = "http://127.0.0.1:%d" % self.port
        return self

    def __exit__(self, *exc_info):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def url(self, path):
        return self.origin + path

    def other_url(self, path):
        """The URL of a path at the second origin."""
        return "http://127.0.0.1:%d%s" % (self.ports[1], path)

    def log(self):
        """The requests so far."""
        return self.get("/log")

    def reset(self):
        """Forget the requests so far, and the jobs; not all servers can."""
        self.get("/reset")

    def get(self, path):
        """The JSON document that the server returns for a path."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.url(path), timeout=10) as response:
            return json.loads(response.read().decode())
