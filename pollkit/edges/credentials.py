"""Where a credential comes from: environment, file, netrc or a command; never argv.

A specification is a scheme and a source: 'bearer env:TOKEN', 'basic file:PATH' (user:password),
'header X-API-Key command:pass show api', or just 'netrc'. Errors name the source, never what
was in it.
"""

import errno
import os
import re
import stat
import time
from typing import TYPE_CHECKING, Dict, List, Optional, Tuple

from ..errors import ConfigError
from .http.user_headers import validate_headers

if TYPE_CHECKING:
    from subprocess import Popen

_TOKEN = re.compile(
    r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
)  # RFC 9110, 5.6.2: what a header's name is made of
_VARIABLE = re.compile(r"[\w.-]+")  # more than a shell allows: containers are given such names
_LATIN_1 = re.compile(r"[\x00-\xff]*")
_LARGEST = 65536
_COMMAND_TIMEOUT_S = 30.0  # also for what a command writes to a pipe
_TURN_S = (
    0.05  # how often to see whether a command has ended while something else keeps its pipe open
)
_HOW_TO = "write bearer env:NAME, basic file:PATH, header X-API-Key command:PROGRAM, or netrc"


class Credential:
    """A credential that is read when first needed, and again when told that it is stale."""

    def __init__(self, specification: str) -> None:
        self._header, self._scheme, self._source = parse_credential(specification)
        self._read: Dict[str, Tuple[str, str]] = {}

    def header(
        self, host: str, fresh: bool = False, timeout: Optional[float] = None
    ) -> Tuple[str, str]:
        """The header that carries the credential: its name and value.

        `timeout` is that of the wait it is for: no command or pipe takes longer. A wait of 0 looks
        once, however long that takes.
        """
        known = self._read.get(host)
        if known is not None and not fresh:
            return known
        try:
            secret = _read_source(
                self._source,
                host,
                self._scheme == "Basic",
                min(timeout or _COMMAND_TIMEOUT_S, _COMMAND_TIMEOUT_S),
            )
        except ConfigError:
            if known is not None:
                return known  # gone meanwhile: the server has the last word on the old one
            raise
        if self._scheme == "Basic":
            from base64 import b64encode

            secret = b64encode(secret.encode("utf-8")).decode("ascii")
        value = (self._scheme + " " + secret).strip()
        self._read[host] = self._header, value
        return self._read[host]

    @property
    def origin(self) -> str:
        """Where it comes from and how it is sent, in words; of a command no more than its name."""
        kind, _, name = self._source.partition(":")
        where = {
            "env": "from the environment variable %s" % name,
            "file": "from the file %s" % name,
            "netrc": "from netrc",
        }.get(kind) or "from the command %s" % (name.split() or [""])[0]
        how = "as the header %s" % self._header if not self._scheme else "as %s" % self._scheme
        return "%s, sent %s" % (where, how)

    @property
    def is_open(self) -> bool:
        """Whether it is in a file that others on this host can read."""
        kind, _, path = self._source.partition(":")
        if kind == "netrc":
            path = os.environ.get("NETRC") or os.path.join("~", ".netrc")
        try:
            mode = os.stat(os.path.expanduser(path)).st_mode if kind in ("file", "netrc") else 0
        except (OSError, ValueError):
            return False  # said when it is read
        return os.name == "posix" and stat.S_ISREG(mode) and bool(mode & 0o077)


def parse_credential(specification: str) -> Tuple[str, str, str]:
    """Header, scheme and source of a specification."""
    words = specification.strip().split(None, 1)
    kind, rest = (words[0].lower() if words else ""), (words[1] if len(words) > 1 else "")
    header, scheme = "Authorization", ""
    if kind == "netrc" and not rest:
        scheme, rest = "Basic", "netrc"
    elif kind in ("bearer", "basic"):
        scheme = kind.capitalize()
    elif kind == "header":
        header, rest = (rest.split(None, 1) + ["", ""])[:2]
    else:
        raise ConfigError("auth names no scheme it can use: " + _HOW_TO)
    if not re.match(r"(env|file|command):.|netrc$", rest) or not _TOKEN.fullmatch(header):
        raise ConfigError("auth names no source for the credential: " + _HOW_TO)
    validate_headers({header: ""})  # some are not the user's to set
    kind, _, name = rest.partition(":")
    if kind == "env" and not _VARIABLE.fullmatch(name):
        raise ConfigError(
            "auth names no environment variable: write bearer env:NAME and nothing after it; "
            "a comment begins with a semicolon"
        )
    if kind == "command":
        _words(name)
    return header, scheme, rest


def credential_variable(specification: str) -> Optional[str]:
    """The environment variable that a credential comes from, if it is one."""
    kind, _, name = parse_credential(specification)[2].partition(":")
    return name if kind == "env" else None


def _read_source(source: str, host: str, basic: bool, limit_s: float) -> str:
    kind, _, name = source.partition(":")
    if kind == "env":
        secret = os.environ.get(name, "")
        where = "the environment variable %s is" % name
    elif kind == "file":
        secret, where = _read_file(name, limit_s), "the credential file %s is" % name
    elif kind == "netrc":
        secret, where = _read_netrc(host), "netrc has no entry for %s, or it is" % host
    else:
        secret, where = _run(name, limit_s), "the credential command's output is"
    secret = secret.strip()
    if not secret:
        raise ConfigError("%s empty: no credential to send" % where)
    if not secret.isprintable():
        raise ConfigError("%s not one line of printable text" % where)
    if not basic and not _LATIN_1.fullmatch(secret):
        raise ConfigError(
            "%s not what a header can carry: it has characters beyond Latin-1" % where
        )
    return secret


def _read_file(path: str, limit_s: float) -> str:
    path = os.path.expanduser(path)
    try:
        if stat.S_ISFIFO(os.stat(path).st_mode):
            return _read_pipe(path, limit_s).decode("utf-8")
        with open(path, encoding="utf-8") as file:
            return file.read(_LARGEST)
    except (OSError, UnicodeError, ValueError) as error:
        what = "it is not UTF-8 text" if isinstance(error, UnicodeError) else _reason(error)
        raise ConfigError("can't read the credential file %s: %s" % (path, what)) from None


def _read_pipe(path: str, limit_s: float) -> bytes:
    """What somebody writes to a pipe, as with --token-file <(program): a program may take for ever."""
    import selectors

    said, until = b"", time.monotonic() + limit_s
    with open(
        path, "rb", 0, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)
    ) as pipe, selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while selector.select(max(0.0, until - time.monotonic())):
            chunk = pipe.read(_LARGEST)
            said += chunk or b""
            if chunk == b"" or len(said) >= _LARGEST:
                return said
    raise TimeoutError(
        errno.ETIMEDOUT, "it is a pipe that nobody wrote to, or closed, within %g s" % limit_s
    )


def _read_netrc(host: str) -> str:
    import netrc

    try:
        found = netrc.netrc(os.environ.get("NETRC") or None).authenticators(host)
    except (OSError, UnicodeError, netrc.NetrcParseError) as error:
        # NetrcParseError quotes the line it fell over, which may hold the password.
        what = (
            _reason(error)
            if isinstance(error, OSError)
            else "others may read it: chmod 600 it"
            if "permissi" in str(error)
            else "it is not well-formed"
        )
        raise ConfigError("can't read netrc: %s" % what) from None
    return "%s:%s" % (found[0], found[2]) if found else ""


def _words(command: str) -> List[str]:
    import shlex

    try:
        return shlex.split(command)
    except ValueError:
        raise ConfigError("can't run the credential command: its quotes don't match") from None


def _run(command: str, limit_s: float) -> str:
    import subprocess

    words = _words(command)
    try:
        # A session of its own, so that whatever it starts can be ended with it.
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL
        raise ConfigError(
            "can't run the credential command %s: %s" % (words[0], _reason(error))
        ) from None
    try:
        until = time.monotonic() + limit_s
        said = _said(process, until)
        code = process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise ConfigError("the credential command took over %g s" % limit_s) from None
    finally:  # also where a signal breaks it off
        _end(process)
    if code:
        raise ConfigError("the credential command failed with exit code %d" % code)
    return said.decode("utf-8", "replace")


def _said(process: "Popen[bytes]", until: float) -> bytes:
    """What a command prints before it ends, or closes the pipe; what it leaves behind may keep that open."""
    import selectors
    import subprocess

    assert process.stdout is not None
    if os.name != "posix":  # no pipe can be selected there
        return process.communicate(timeout=until - time.monotonic())[0]
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            has_ended = (
                process.poll() is not None
            )  # asked first: all that it said is in the pipe by then
            left = until - time.monotonic()
            if left <= 0 and not has_ended:
                raise subprocess.TimeoutExpired(process.args, 0)
            if selector.select(0 if has_ended else min(left, _TURN_S)):
                chunk = os.read(process.stdout.fileno(), _LARGEST + 1)
                said += chunk
                if len(said) > _LARGEST:
                    raise ConfigError(
                        "the credential command prints too much: over %d bytes" % _LARGEST
                    )
                if not chunk:
                    return said
            elif has_ended:
                return said


def _end(process: "Popen[bytes]") -> None:
    """Close the pipe of a command; where it still runs, kill it with all that it has started."""
    assert process.stdout is not None
    process.stdout.close()
    if process.returncode is not None:
        return
    try:
        if os.name == "posix":
            os.killpg(process.pid, 9)  # not waited for yet: the number is still its own
        else:
            process.kill()
    except OSError:
        return  # somebody else's by now, as with sudo: nothing that could be waited for
    process.wait()


def _reason(error: Exception) -> str:
    strerror: Optional[str] = getattr(error, "strerror", None)
    return strerror or type(error).__name__
