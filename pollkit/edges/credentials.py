"""Credentials: read from the environment, a file, netrc or a command; never from argv.

A specification is a scheme and a source: 'bearer env:TOKEN', 'basic file:PATH' (user:password),
'header X-API-Key command:pass show api', or just 'netrc'. Errors name the source, never its
content.
"""

import errno
import os
import re
import stat
import time
from typing import TYPE_CHECKING, Callable, Dict, List, NamedTuple, Optional, Tuple

from ..errors import ConfigError
from .exposed_files import note_secret_file
from .http.user_headers import HEADER_NAME, validate_headers

if TYPE_CHECKING:
    from subprocess import Popen

_SOURCE = re.compile(r"(env|file|command):.|netrc$")
_VARIABLE = re.compile(r"[\w.-]+")  # more than a shell allows: containers may use such names
_MAX_BYTES = 65536
_COMMAND_TIMEOUT_S = 30.0  # also for a pipe in place of a file
_EXIT_CHECK_S = 0.05  # how often to check whether a command has exited
_HOW_TO = "write bearer env:NAME, basic file:PATH, header X-API-Key command:PROGRAM, or netrc"


class Specification(NamedTuple):
    """A parsed specification: 'bearer env:TOKEN' is ('Authorization', 'Bearer', 'env:TOKEN')."""

    header: str
    scheme: str  # empty if the header has the credential alone
    source: str


class Credential:
    """A credential that is read when it is first needed, and again if the server refuses it."""

    def __init__(self, specification: str) -> None:
        self._header, self._scheme, self._source = parse_credential(specification)
        self._headers: Dict[str, Tuple[str, str]] = {}  # by host

    def header(
        self, host: str, fresh: bool = False, timeout: Optional[float] = None
    ) -> Tuple[str, str]:
        """The header that carries the credential: its name and value.

        No command or pipe may take longer than `timeout`, that of the wait. A timeout of 0, which
        means a single poll, does not limit them.
        """
        known = self._headers.get(host)
        if known is not None and not fresh:
            return known
        is_basic = self._scheme == "Basic"
        limit_s = min(timeout or _COMMAND_TIMEOUT_S, _COMMAND_TIMEOUT_S)
        try:
            secret = _read_secret(self._source, host, limit_s, is_basic)
        except ConfigError:
            if known is not None:
                return known  # it can't be read any more: the server decides about the old one
            raise
        if is_basic:
            from base64 import b64encode

            secret = b64encode(secret.encode("utf-8")).decode("ascii")
        self._headers[host] = self._header, (self._scheme + " " + secret).strip()
        return self._headers[host]

    @property
    def description(self) -> str:
        """The source and the header in words; of a command only its name."""
        kind, _, name = self._source.partition(":")
        sources = {
            "env": "from the environment variable %s" % name,
            "file": "from the file %s" % name,
            "netrc": "from netrc",
        }
        source = sources.get(kind) or "from the command %s" % (name.split() or [""])[0]
        return "%s, sent as %s" % (source, self._scheme or "the header %s" % self._header)


def parse_credential(specification: str) -> Specification:
    """Header, scheme and source of a specification, or a ConfigError."""
    word, source = _split_word(specification.strip())
    kind = word.lower()
    header = "Authorization"
    scheme = ""
    if kind == "netrc" and not source:
        scheme = "Basic"
        source = "netrc"
    elif kind in ("bearer", "basic"):
        scheme = kind.capitalize()
    elif kind == "header":
        header, source = _split_word(source)
    else:
        raise ConfigError("auth names no scheme it can use: " + _HOW_TO)
    if not _SOURCE.match(source) or not HEADER_NAME.fullmatch(header):
        raise ConfigError("auth names no source for the credential: " + _HOW_TO)
    validate_headers({header: ""})  # pollkit sets some headers itself
    kind, _, name = source.partition(":")
    if kind == "env" and not _VARIABLE.fullmatch(name):
        raise ConfigError(
            "auth names no environment variable: write bearer env:NAME and nothing after it; "
            "a comment begins with a semicolon"
        )
    if kind == "command":
        _split_command(name)
    return Specification(header, scheme, source)


def _split_word(text: str) -> Tuple[str, str]:
    """The first word of a text, and the rest."""
    word, rest = (text.split(None, 1) + ["", ""])[:2]
    return word, rest


def credential_variable(specification: str) -> Optional[str]:
    """The environment variable that a credential comes from, if it is one."""
    kind, _, name = parse_credential(specification).source.partition(":")
    return name if kind == "env" else None


def note_credential_file(specification: str) -> None:
    """Remember a warning if others can read the file that a credential comes from."""
    _note_file(parse_credential(specification).source)


def _note_file(source: str) -> None:
    kind, _, path = source.partition(":")
    if kind == "file":
        note_secret_file(path)
    elif kind == "netrc":
        note_secret_file(os.environ.get("NETRC") or os.path.join("~", ".netrc"))


def read_callback_secret(source: str) -> bytes:
    """The secret that callbacks are signed with, from 'env:VAR' or 'file:PATH'."""
    kind, _, name = source.partition(":")
    has_variable = kind == "env" and _VARIABLE.fullmatch(name)
    has_path = kind == "file" and name
    if not has_variable and not has_path:  # the text is not quoted: it may be the secret itself
        raise ConfigError("write env:VAR or file:PATH, never the secret itself")
    return _read_secret(source, "", _COMMAND_TIMEOUT_S, is_basic=True).encode("utf-8")


def _read_secret(source: str, host: str, limit_s: float, is_basic: bool) -> str:
    """The credential, or a ConfigError if no header can carry it."""
    _note_file(source)
    kind, _, name = source.partition(":")
    if kind == "env":
        secret = os.environ.get(name, "")
        subject = "the environment variable %s is" % name
    elif kind == "file":
        secret = _read_file(name, limit_s)
        subject = "the credential file %s is" % name
    elif kind == "netrc":
        secret = _read_netrc(host)
        subject = "netrc has no entry for %s, or it is" % host
    else:
        secret = _run_command(name, limit_s)
        subject = "the credential command's output is"
    secret = secret.strip()
    if not secret:
        problem = "not set, or empty" if kind == "env" else "empty"
        raise ConfigError("%s %s: it must hold the secret" % (subject, problem))
    if not secret.isprintable():
        raise ConfigError("%s not one line of printable text" % subject)
    if not is_basic and max(secret) > "\xff":
        raise ConfigError("%s not usable in a header: not all characters are Latin-1" % subject)
    return secret


def _read_file(path: str, limit_s: float) -> str:
    path = os.path.expanduser(path)
    try:
        if stat.S_ISFIFO(os.stat(path).st_mode):
            return _read_pipe(path, limit_s).decode("utf-8")
        with open(path, encoding="utf-8") as file:
            return file.read(_MAX_BYTES)
    except UnicodeError:
        raise ConfigError("can't read the credential file %s: it is not UTF-8" % path) from None
    except (OSError, ValueError) as error:
        raise ConfigError(
            "can't read the credential file %s: %s" % (path, _reason(error))
        ) from None


def _read_pipe(path: str, limit_s: float) -> bytes:
    """Read a named pipe, as for --token-file <(program); the program may hang."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return _read_until_end(descriptor, time.monotonic() + limit_s, lambda: False)
    except TimeoutError:
        reason = "it is a pipe that was not written and closed within %g s" % limit_s
        raise TimeoutError(errno.ETIMEDOUT, reason) from None
    finally:
        os.close(descriptor)


def _read_until_end(descriptor: int, until: float, has_exited: Callable[[], bool]) -> bytes:
    """Read a pipe until it is closed, or its program has exited, or it delivers too much.

    Children of the program may keep the pipe open after that.
    """
    import selectors

    data = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while len(data) <= _MAX_BYTES:
            is_last_read = has_exited()  # if so, the pipe contains all of its output
            left_s = until - time.monotonic()
            if left_s <= 0 and not is_last_read:
                raise TimeoutError()
            is_ready = selector.select(0 if is_last_read else min(left_s, _EXIT_CHECK_S))
            try:
                chunk = os.read(descriptor, _MAX_BYTES + 1) if is_ready else b""
            except BlockingIOError:  # another process reads the pipe, too, and was faster
                continue
            data += chunk
            if not chunk and (is_ready or is_last_read):
                break
    return data


def _read_netrc(host: str) -> str:
    import netrc

    try:
        found = netrc.netrc(os.environ.get("NETRC") or None).authenticators(host)
    except OSError as error:
        raise ConfigError("can't read netrc: %s" % _reason(error)) from None
    except (UnicodeError, netrc.NetrcParseError) as error:
        # A NetrcParseError quotes the line that it could not parse: it may hold the password.
        reason = "it is not well-formed"
        if "permissi" in str(error):
            reason = "others may read it: chmod 600 it"
        raise ConfigError("can't read netrc: %s" % reason) from None
    return "%s:%s" % (found[0], found[2]) if found else ""


def _split_command(command: str) -> List[str]:
    import shlex

    try:
        return shlex.split(command)
    except ValueError:
        raise ConfigError("can't run the credential command: its quotes don't match") from None


def _run_command(command: str, limit_s: float) -> str:
    """The output of a command; when it takes too long, it is killed with all its children."""
    import subprocess

    words = _split_command(command)
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that its children can be killed with it
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL
        raise ConfigError(
            "can't run the credential command %s: %s" % (words[0], _reason(error))
        ) from None
    try:
        until = time.monotonic() + limit_s
        output = _read_output(process, until)
        code = process.wait(max(0.0, until - time.monotonic()))
    except (TimeoutError, subprocess.TimeoutExpired):
        raise ConfigError("the credential command took over %g s" % limit_s) from None
    finally:  # also if a signal interrupts it
        _kill(process)
    if code:
        raise ConfigError("the credential command failed with exit code %d" % code)
    return output.decode("utf-8", "replace")


def _read_output(process: "Popen[bytes]", until: float) -> bytes:
    assert process.stdout is not None
    if os.name != "posix":  # only sockets can be selected there
        return process.communicate(timeout=until - time.monotonic())[0]
    output = _read_until_end(process.stdout.fileno(), until, lambda: process.poll() is not None)
    if len(output) > _MAX_BYTES:
        raise ConfigError("the credential command prints too much: over %d bytes" % _MAX_BYTES)
    return output


def _kill(process: "Popen[bytes]") -> None:
    """Close the pipe of a command; if it still runs, kill it with all its children."""
    assert process.stdout is not None
    process.stdout.close()
    if process.returncode is not None:
        return
    try:
        if os.name == "posix":
            os.killpg(process.pid, 9)  # the id is still valid: it has not been waited for
        else:
            process.kill()
    except OSError:
        return  # it runs as another user, for example with sudo: don't wait for it
    process.wait()


def _reason(error: Exception) -> str:
    strerror: Optional[str] = getattr(error, "strerror", None)
    return strerror or type(error).__name__
