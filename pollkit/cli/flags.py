"""The flags that say how an API speaks and is reached: the same for every command that polls."""
import argparse
import os
from typing import Any, Callable, Dict, Optional

from ..core.addresses import is_secret
from ..core.model import Job
from ..core.profile import Profile, based, checked, checked_size, pace_of
from ..core.units import parse_limit, seconds
from ..errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser, one_job: bool = True) -> None:
    """Add them to a command; `one_job`: its label and size are given here, not in a file."""
    group = parser.add_argument_group("the API")
    group.add_argument("--profile", metavar="NAME", help="how the API speaks: see pollkit profiles")
    group.add_argument("--profiles", metavar="FILE", help="an INI file with more profiles")
    group.add_argument("--base-url", metavar="URL", help="what {base} stands for in the profile's URLs")
    group.add_argument("--label", metavar="L", help="the class of jobs %s belongs to" %
                       ("this one" if one_job else "each"))
    group.add_argument("--size", metavar="N", type=_size, help="a size, which chooses the label")
    group = parser.add_argument_group("when to look")
    group.add_argument("--pace", metavar="SPEC", type=_by(pace_of), help="'fixed 5s', 'backoff 2s..30s x1.5', "
                       "'adaptive first=60s every=15s': see pollkit help paces")
    group.add_argument("--timeout", metavar="D", type=_timeout,
                       help="how long to wait for a job: 90s, 10m, 1h30m, or never; 0 looks once (default: 5m)")
    group.add_argument("--limit", metavar="L", type=_by(parse_limit), help="the API's limit: 60/m, '10/s burst 20'")
    group.add_argument("--max-faults", metavar="N", type=count, help="faults in a row before giving up (default: 10)")
    group = parser.add_argument_group("the connection")
    group.add_argument("--header", metavar="'K: V'", action="append", default=[], type=_header,
                       help="send this header, too; may be repeated. Not for secrets")
    group.add_argument("--token-env", metavar="VAR", help="the environment variable that holds the credential")
    group.add_argument("--token-file", metavar="F", help="the file that holds the credential")
    group.add_argument("--ca-file", metavar="F", help="trust these certificates (PEM)")
    group.add_argument("--client-cert", metavar="F", help="show this certificate (PEM)")
    group.add_argument("--client-key", metavar="F", help="its key, if it is not in the same file")
    group.add_argument("--proxy", metavar="URL", help="a proxy's URL, none, or env (the default): from the environment")


def profile_from(arguments: argparse.Namespace) -> Profile:
    """The profile that the flags name, with what they change in it."""
    profile = Profile()
    if arguments.profile is not None:
        from ..edges.profiles import find
        profile = find(arguments.profile, arguments.profiles)
    elif arguments.profiles is not None:
        _check_file(arguments.profiles)
    base = arguments.base_url
    if base is not None or profile.base is not None:
        profile = based(profile, base)
    changes = {name: value for name, value in (
        ("pace", arguments.pace), ("limit", arguments.limit), ("max_faults", arguments.max_faults),
        ("ca_file", arguments.ca_file), ("client_cert", arguments.client_cert),
        ("client_key", arguments.client_key), ("proxy", arguments.proxy)) if value is not None}
    if arguments.timeout is not None:
        changes["timeout"] = None if arguments.timeout == _NEVER else arguments.timeout
    return checked(_changed(profile, changes, arguments))


def job_from(arguments: argparse.Namespace, text: str) -> Job:
    """The job that a command's argument names."""
    if not text.strip() or not text.isprintable():
        raise ConfigError("%r is neither a URL nor an id" % text[:80])
    return Job.of(text)._replace(label=arguments.label, size=arguments.size)


def headers_from(arguments: argparse.Namespace) -> Dict[str, str]:
    """The headers given with --header."""
    return dict(arguments.header)


def warn(arguments: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Tell the user what they should know about the flags they gave."""
    path = arguments.token_file
    try:
        mode = os.stat(os.path.expanduser(path)).st_mode if path is not None and os.name == "posix" else 0
    except (OSError, ValueError):
        return  # said when it is read
    if mode & 0o077:
        say("pollkit: warning: others on this host can read %s; chmod 600 %s" % (path, path))


_NEVER = float("inf")


def _changed(profile: Profile, changes: Dict[str, Any], arguments: argparse.Namespace) -> Profile:
    """The profile and its labels with the changes, and with the credential from elsewhere."""
    changes = dict(changes)
    if arguments.token_env is not None or arguments.token_file is not None:
        changes["auth"] = _credential(profile.auth, arguments)
    return profile._replace(
        labels={name: _changed(one, changes, arguments) for name, one in profile.labels.items()}, **changes)


def _credential(auth: Optional[str], arguments: argparse.Namespace) -> str:
    """Where the credential comes from, sent the way the profile sends it: as bearer unless it says otherwise."""
    if arguments.token_env is not None and arguments.token_file is not None:
        raise ConfigError("--token-env and --token-file both name the credential: give one")
    if arguments.token_env is not None:
        if not arguments.token_env:
            raise ConfigError("--token-env needs the name of an environment variable")
        source = "env:" + arguments.token_env
    else:
        source = "file:" + arguments.token_file
    words = (auth or "bearer").split()
    kind = words[0].lower()
    return " ".join((words[:2] if kind == "header" else ["bearer" if kind == "bearer" else "basic"]) + [source])


def _check_file(path: str) -> None:
    from ..edges.profiles import names_in
    names_in(path)


def _by(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """An argument's type whose errors are told as they are."""
    def reads(text: str) -> Any:
        try:
            return read(text)
        except ConfigError as error:
            raise argparse.ArgumentTypeError(str(error).replace("%", "%%")) from None
    return reads


def _timeout(text: str) -> float:
    return _NEVER if text == "never" else float(_by(seconds)(text))


def _size(text: str) -> float:
    try:
        size = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError("a size is a number, not %r" % text) from None
    return float(_by(lambda _: checked_size("a size", size))(text))


def count(text: str) -> int:
    """A whole number, as an argument."""
    if not text.isdecimal() or not 1 <= int(text[:9]) <= 1000000:
        raise argparse.ArgumentTypeError("%r is not a whole number from 1 to 1000000" % text)
    return int(text)


def _header(text: str) -> Any:
    name, colon, value = text.partition(":")
    name, value = name.strip(), value.strip()
    if not colon or not name:
        raise argparse.ArgumentTypeError("write it as 'Name: value'")
    if is_secret(name):
        raise argparse.ArgumentTypeError(
            "%s is a secret, and what is on the command line can be read by others on this host: "
            "use --token-env, --token-file, or auth = in a profile" % name)
    return name, value
