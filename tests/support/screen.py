"""Terminals for tests: an emulator for the output of the display, and commands in a real pty."""

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
import unicodedata

from paths import ROOT

TOKEN = re.compile("\x1b\\[(\\??[0-9;]*)([A-Za-z])|(.)", re.DOTALL)


class Screen:
    """A terminal screen. It wraps long lines and scrolls as terminals do, and counts both.

    Too long lines are counted even while wrapping is switched off. At the end of each drawing,
    wrapping is switched on again; `frames` are copies of the screen at those instants.
    """

    def __init__(self, columns, lines=24):
        self.columns = columns
        self.lines = lines
        self.cells = [[] for _ in range(lines)]
        self.row = self.column = 0
        self.scrolled = self.wrapped = self.colours = 0
        self.widest = 0
        self.unknown = []  # control characters and sequences that the display should not write
        self.frames = []
        self._wraps = True
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""

    def feed(self, data):
        text = self._rest + (data if isinstance(data, str) else self._decode(data))
        incomplete = re.search("\x1b(\\[[0-9;?]*)?$", text)
        end = incomplete.start() if incomplete else len(text)
        self._rest = text[end:]
        text = text[:end]
        for number, command, char in TOKEN.findall(text):
            if command:
                self._command(number, command)
            else:
                self._put(char)

    def _command(self, number, command):
        if command == "K" and not number:
            del self.cells[self.row][self.column :]
        elif command == "J" and not number:
            del self.cells[self.row][self.column :]
            for row in range(self.row + 1, self.lines):
                self.cells[row] = []
        elif command == "A":
            self.row = max(0, self.row - int(number or 1))
        elif command == "m":
            self.colours += 1
        elif (number, command) == ("?7", "l"):
            self._wraps = False
        elif (number, command) == ("?7", "h"):
            self._wraps = True
            self.frames.append(self.shown())
        else:
            self.unknown.append((number, command))

    def _put(self, char):
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self._down()
        elif ord(char) < 32 or char == "\x7f":
            self.unknown.append(char)
        elif not unicodedata.combining(char):
            width = 2 if unicodedata.east_asian_width(char) in "WF" else 1
            if self.column + width > self.columns:
                self.wrapped += 1
                self.column = 0 if self._wraps else self.columns - width
                if self._wraps:
                    self._down()
            cells = self.cells[self.row]
            cells.extend(" " * (self.column - len(cells)))
            cells[self.column : self.column + width] = [char] + [""] * (width - 1)
            self.column += width
            self.widest = max(self.widest, self.column)

    def _down(self):
        self.row += 1
        if self.row == self.lines:
            self.row -= 1
            self.scrolled += 1
            self.cells = self.cells[1:] + [[]]

    def resize(self, columns, wraps_again=False):
        """Cut off lines that are too wide, or wrap them again: terminals do one or the other."""
        self.columns = columns
        if wraps_again:
            self._wrap_again()
        for row in self.cells:
            del row[columns:]
        self.column = min(self.column, columns - 1)
        self.widest = 0

    def _wrap_again(self):
        """Split the lines that are too wide; the cursor stays at its character."""
        rows = []
        for number, row in enumerate(self.cells):
            if number == self.row:
                cursor_row = len(rows) + self.column // self.columns
            rows += [row[i : i + self.columns] for i in range(0, len(row) or 1, self.columns)]
        while len(rows) > self.lines and not rows[-1]:
            rows.pop()
        above = len(rows) - self.lines  # these rows scroll off the screen
        self.scrolled += above
        self.cells = rows[above:]
        self.row = max(0, cursor_row - above)
        self.column %= self.columns

    def shown(self):
        rows = ["".join(row).rstrip() for row in self.cells]
        while rows and not rows[-1]:
            rows.pop()
        return rows


class InPty:
    """A command with its own terminal as stdin, stderr and, unless `stdout` is given, stdout."""

    def __init__(self, words, columns, lines=24, stdout=None, **environ):
        self.master, slave = pty.openpty()
        self.screen = Screen(columns, lines)
        self.resize(columns, lines)
        env = {
            "PATH": os.environ.get("PATH", ""),
            "TERM": "xterm",
            "PYTHONIOENCODING": "utf-8",
            "PYTHONPATH": ROOT + os.pathsep + os.path.join(ROOT, "tests", "support"),
        }
        env.update(environ)

        def take_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [sys.executable] + words,
            stdin=slave,
            stdout=stdout or slave,
            stderr=slave,
            preexec_fn=take_terminal,
            env=env,
            cwd=ROOT,
        )
        os.close(slave)
        self.raw = b""
        self.lasted_s = 0.0
        self._started_at = time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        os.close(self.master)

    def resize(self, columns, lines=24, wraps_again=False):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.resize(columns, wraps_again)

    def type(self, text):
        os.write(self.master, text.encode())

    def read(self, until=lambda screen: False, within_s=20.0):
        """Read output until the condition is true of the screen, or the command exits."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if not select.select([self.master], [], [], 0.05)[0]:
                continue
            try:
                data = os.read(self.master, 65536)
            except OSError:  # Linux: the command has exited
                data = b""
            if not data:
                self.process.wait()
                self.lasted_s = time.monotonic() - self._started_at
                return until(self.screen)
            self.raw += data
            self.screen.feed(data)
            if until(self.screen):
                return True
        raise AssertionError(
            "the condition never became true; the screen shows %r" % self.screen.shown()
        )
