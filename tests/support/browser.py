"""A real browser for tests: Chromium without a window, driven by its DevTools protocol.

Chromium reads commands from a pipe and writes replies and events to another, each a JSON object
that ends with a NUL byte. https://chromedevtools.github.io/devtools-protocol/ lists them.
"""

import base64
import contextlib
import fcntl
import json
import os
import select
import subprocess
import tempfile
import time

from programs import needs_program

ANSWER_S = 60.0  # a loaded machine starts a browser slowly
FLAGS = """
    --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars
    --remote-debugging-pipe --no-first-run --disable-background-networking --disable-extensions
    --disable-component-update --force-color-profile=srgb
""".split()


@contextlib.contextmanager
def running_browser():
    """A Browser that is closed afterwards; without Chromium, skip the test, or fail in CI."""
    program = needs_program("chromium")
    commands_out, commands_in = os.pipe()
    events_out, events_in = os.pipe()
    with tempfile.TemporaryDirectory() as profile:

        def number_pipes():
            """Chromium expects the pipes as 3 and 4; one of them may have the other's number."""
            reading = fcntl.fcntl(commands_out, fcntl.F_DUPFD, 10)
            writing = fcntl.fcntl(events_in, fcntl.F_DUPFD, 10)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        process = subprocess.Popen(
            [program] + FLAGS + ["--user-data-dir=" + profile, "about:blank"],
            close_fds=False,
            preexec_fn=number_pipes,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands_out)
        os.close(events_in)
        try:
            yield Browser(commands_in, events_out)
        finally:
            os.close(commands_in)  # Chromium exits when the pipe is closed
            os.close(events_out)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _wait_until_removable(profile)


def _wait_until_removable(folder):
    """Helpers of Chromium may still write to its profile for a moment."""
    for _ in range(50):
        size = sum(len(files) for _, _, files in os.walk(folder))
        time.sleep(0.1)
        if size == sum(len(files) for _, _, files in os.walk(folder)):
            return


class Browser:
    """Sends commands and collects events."""

    def __init__(self, commands, events):
        self._commands = commands
        self._events = events
        self._buffer = b""
        self._number = 0
        self.received = []  # the events so far

    def call(self, method, session=None, **parameters):
        """Send a command and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            found = self._receive()
            if found.get("id") == self._number:
                assert "error" not in found, (method, found["error"])
                return found["result"]
            self.received.append(found)

    def wait_for(self, method):
        """Wait for an event, unless it is among those received."""
        for event in self.received:
            if event.get("method") == method:
                return
        found = {}
        while found.get("method") != method:
            found = self._receive()
            self.received.append(found)

    def _receive(self):
        until = time.monotonic() + ANSWER_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._events], [], [], max(0.0, until - time.monotonic()))
            assert ready, "Chromium does not answer"
            data = os.read(self._events, 1 << 20)
            assert data, "Chromium has exited"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message.decode("utf-8"))

    def open(self, url, width=1200, height=900, is_dark=False):
        """Open a page in a new tab."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(domain + ".enable")
        page.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        page.call("Emulation.setEmulatedMedia", features=[scheme])
        page.load(url)
        return page


class Page:
    """A page in the browser."""

    def __init__(self, browser, session):
        self._browser = browser
        self._session = session

    def call(self, method, **parameters):
        """Send a command to this page."""
        return self._browser.call(method, self._session, **parameters)

    def load(self, url):
        """Load a URL, and forget all events before that."""
        del self._browser.received[:]
        self.call("Page.navigate", url=url)
        self._browser.wait_for("Page.loadEventFired")

    def reload(self):
        """Load the page again, with its whole address."""
        del self._browser.received[:]
        self.call("Page.reload")
        self._browser.wait_for("Page.loadEventFired")

    def evaluate(self, expression):
        """The value of a JavaScript expression."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def console(self):
        """All that the page or the browser wrote to the console, and exceptions."""
        self.evaluate("0")  # earlier messages have arrived when this returns
        methods = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event for event in self._browser.received if event.get("method") in methods]

    def requests(self):
        """The URLs that the page has requested, its own first."""
        self.evaluate("0")
        return [
            event["params"]["request"]["url"]
            for event in self._browser.received
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def screenshot(self, path, top=0, height=None):
        """Save a PNG of the page from `top` on, by default all of it."""
        width = self.evaluate("document.documentElement.clientWidth")
        if height is None:
            height = self.evaluate("document.documentElement.scrollHeight") - top
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        found = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(found["data"]))
