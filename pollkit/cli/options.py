"""The flags that say how an API speaks and is reached: the same for every command that polls."""

import argparse
import os
import re
from typing import Any, Callable, Dict, Iterable, List, Optional, Union

from ..core.model import NO_TIMEOUT, Job
from ..core.profile import (
    Profile,
    fill_base,
    profile_for_job,
    to_pace,
    validate_base,
    validate_profile,
    validate_size,
)
from ..core.units import NEVER, Limit, parse_limit, to_seconds
from ..core.urls import is_secret, is_url, parse_url, redact_url
from ..edges.history_file import History, default_path
from ..edges.limits.token_bucket import TokenBucket
from ..errors import ConfigError


def add_arguments(
    parser: argparse.ArgumentParser, one_job: bool = True, of_jobs: bool = True
) -> None:
    """Add them to a command; `one_job`: its label and size are given here, not in a file.

    Without `of_jobs`, jobs come from a ledger, with their label and size.
    """
    whose_timeout = "the job" if of_jobs and one_job else "a job without its own timeout"
    usual_timeout = "5m" if of_jobs else "24h"
    usual_max_faults = "10" if of_jobs else "no limit, retry until the timeout"
    group = parser.add_argument_group("the API")
    _add_profile(group)
    group.add_argument(
        "--base-url",
        metavar="URL",
        type=_by(validate_base),
        help="what {base} stands for in the profile's URLs",
    )
    if of_jobs:
        _add_kind(group, "this one" if one_job else "each")
    group = parser.add_argument_group("when to look")
    group.add_argument(
        "--pace",
        metavar="SPEC",
        type=_by(to_pace),
        help="'fixed 5s', 'backoff 2s..30s x1.5', "
        "'adaptive first=60s every=15s': see pollkit help paces (default: the profile's, "
        "else adaptive)",
    )
    group.add_argument(
        "--timeout",
        metavar="D",
        type=_timeout,
        help="how long to wait for %s: 90s, 10m, 1h30m, or never; 0 polls once "
        "(default: %s)" % (whose_timeout, usual_timeout),
    )
    group.add_argument(
        "--limit", metavar="L", type=_by(_limit), help="the API's limit: 60/m, '10/s burst 20'"
    )
    group.add_argument(
        "--max-faults",
        metavar="N",
        type=count,
        help="faults in a row before giving up (default: %s)" % usual_max_faults,
    )
    group = parser.add_argument_group("the connection")
    group.add_argument(
        "--header",
        metavar="'K: V'",
        action="append",
        default=[],
        type=_header,
        help="send this header, too; may be repeated. Not for secrets",
    )
    group.add_argument(
        "--token-env",
        metavar="VAR",
        type=_variable,
        help="the environment variable that holds the credential",
    )
    group.add_argument(
        "--token-file", metavar="F", type=path, help="the file that holds the credential"
    )
    group.add_argument("--ca-file", metavar="F", type=path, help="trust these certificates (PEM)")
    group.add_argument("--client-cert", metavar="F", type=path, help="show this certificate (PEM)")
    group.add_argument(
        "--client-key", metavar="F", type=path, help="its key, if it is not in the same file"
    )
    group.add_argument(
        "--proxy",
        metavar="URL",
        type=_by(_proxy),
        help="a proxy's URL, none, or env (the default): from the environment",
    )


def add_job_arguments(parser: argparse.ArgumentParser) -> None:
    """Add those that say what jobs are, and no more: what can be kept in a ledger."""
    _add_profile(parser)
    _add_kind(parser, "each")
    parser.add_argument(
        "--timeout",
        metavar="D",
        type=_timeout,
        help="how long to wait for each, from now on: 90s, 10m, 1h30m, or never; "
        "0 polls once (default: as run or the profile says)",
    )


def _add_profile(group: "argparse._ActionsContainer") -> None:
    group.add_argument("--profile", metavar="NAME", help="how the API speaks: see pollkit profiles")
    group.add_argument(
        "--profiles", metavar="FILE", type=path, help="an INI file with more profiles"
    )


def _add_kind(group: "argparse._ActionsContainer", which: str) -> None:
    group.add_argument(
        "--label",
        metavar="L",
        type=_by(checked_label),
        help="the class of jobs %s belongs to" % which,
    )
    group.add_argument("--size", metavar="N", type=_size, help="a size, which chooses the label")


def duration(text: str) -> float:
    """A duration, as an argument."""
    return float(_by(to_seconds)(text))


def add_bucket(parser: argparse.ArgumentParser) -> None:
    """Add --bucket to a command whose limit is its own otherwise."""
    parser.add_argument(
        "--bucket",
        metavar="FILE",
        type=path,
        help="share the limit with every process that names this file; it is made if need be",
    )


def bucket_from(
    arguments: argparse.Namespace, limit: Union[Limit, str, None]
) -> Optional[TokenBucket]:
    """The limit that is shared by --bucket, if there is one."""
    if arguments.bucket is None:
        return None
    from ..edges.limits.shared_bucket import SharedBucket  # late: it takes sqlite3

    return SharedBucket(arguments.bucket, limit)


def limit_from(
    arguments: argparse.Namespace, profile: Profile, jobs: Iterable[Job]
) -> Union[Limit, str, None]:
    """The limit that --limit or --profile names; where neither does, --bucket takes that of the jobs' own profiles."""
    if arguments.bucket is None or profile.limit is not None:
        return profile.limit
    from ..edges.profiles.catalog import find_profile

    known: Dict[Optional[str], Profile] = {None: profile, profile.name: profile}
    limits = set()
    for name, label, size in {(job.profile, job.label, job.size) for job in jobs}:
        try:
            if name not in known:
                known[name] = find_profile(name or "", arguments.profiles)
            limits.add(profile_for_job(known[name], label, size).limit)
        except ConfigError:
            known.setdefault(
                name, Profile()
            )  # it is told of the jobs themselves, as they can't be asked about
    named = sorted(str(limit) for limit in limits if limit is not None)
    if len(named) > 1:
        raise ConfigError(
            "--bucket is one limit for all jobs, and their profiles have several (%s): give --profile "
            "NAME to say whose it is, or leave --bucket out" % ", ".join(named)
        )
    return named[0] if named else None


def add_history(parser: argparse.ArgumentParser) -> None:
    """Add --history to a command that keeps what it learns outside a ledger."""
    parser.add_argument(
        "--history",
        metavar="FILE",
        type=path,
        help="keep here how long jobs take, for adaptive paces; none: nowhere "
        "(default: ~/.local/state/pollkit/history.json)",
    )


def history_from(arguments: argparse.Namespace, say: Callable[[str], None]) -> History:
    """What jobs teach, kept where the flags want it.

    The usual place may well be unusable, where cron has no home or a read-only one. That is nothing
    to be mailed: only whoever named a file, or wants to know all, is told.
    """

    def warn(text: str) -> None:
        if not arguments.quiet:
            say("pollkit: warning: " + text)

    if arguments.history == "none":
        return History()
    wants_events = arguments.history is not None or arguments.verbose
    where = default_path() if arguments.history is None else os.path.expanduser(arguments.history)
    if where is None and wants_events:
        warn(
            "what jobs teach can't be kept: there is no home folder; --history FILE names another place"
        )
    return History(where, warn, warn if wants_events else None)


def profile_from(arguments: argparse.Namespace, needs_credential: bool = True) -> Profile:
    """The profile that the flags name, with the changes that other flags make to it."""
    profile = Profile()
    if needs_credential and arguments.token_env is not None:
        _check_variable(arguments.token_env)
    if arguments.profile is not None:
        from ..edges.profiles.catalog import find_profile

        profile = find_profile(arguments.profile, arguments.profiles)
    elif arguments.profiles is not None:
        check_file(arguments.profiles)
    base = arguments.base_url
    if base is not None:
        _check_base(profile)
    if (
        arguments.client_key is not None
        and arguments.client_cert is None
        and profile.client_cert is None
    ):
        raise ConfigError(
            "--client-key is of no use without its certificate: give --client-cert, too"
        )
    if base is not None or profile.base is not None:
        profile = fill_base(profile, base)
    changes = {
        name: value
        for name, value in (
            ("pace", arguments.pace),
            ("limit", arguments.limit),
            ("max_faults", arguments.max_faults),
            ("ca_file", arguments.ca_file),
            ("client_cert", arguments.client_cert),
            ("client_key", arguments.client_key),
            ("proxy", arguments.proxy),
        )
        if value is not None
    }
    if arguments.timeout is not None:
        changes["timeout"] = None if arguments.timeout == NEVER else arguments.timeout
    return validate_profile(_changed(profile, changes, arguments))


def job_from(arguments: argparse.Namespace, text: str, profile: Optional[Profile] = None) -> Job:
    """The job that a command's argument, or a line of a list, names; `profile` must know where to ask about an id."""
    text = text.strip()
    if not text:
        raise ConfigError("there is no job: give its URL, or its id")
    if not text.isprintable():
        raise ConfigError(
            "%r is neither a URL nor an id: it has control characters, or bytes that are not text"
            % redact_url(text)[:80]
        )
    if (
        profile is not None
        and not is_url(text)
        and not any(one.url for one in [profile, *profile.labels.values()])
    ):
        raise ConfigError(
            "%r is not a URL, and %s: give the job's whole URL, or --profile NAME with its id"
            % (
                redact_url(text),
                "no profile says where to ask about it"
                if profile.name is None
                else "the profile %s has no url to ask about it" % profile.name,
            )
        )
    return Job.from_any(text)._replace(label=arguments.label, size=arguments.size)


def job_timeout_from(arguments: argparse.Namespace) -> Union[float, str, None]:
    """The timeout that --timeout gives each job, as Job.timeout has it."""
    return NO_TIMEOUT if arguments.timeout == NEVER else arguments.timeout


def headers_from(arguments: argparse.Namespace) -> Dict[str, str]:
    """The headers given with --header."""
    return dict(arguments.header)


def options_from(arguments: argparse.Namespace) -> Dict[str, Any]:
    """What goes before whatever any profile says, also one that a job names itself."""
    options = {
        "headers": headers_from(arguments),
        "pace": arguments.pace,
        "max_faults": arguments.max_faults,
        "profiles": arguments.profiles,
    }
    if arguments.timeout is not None:
        options["timeout"] = None if arguments.timeout == NEVER else arguments.timeout
    return options


def for_one_profile(arguments: argparse.Namespace) -> List[str]:
    """The flags given that change the profile of --profile, and no other."""
    names = (
        "base_url",
        "limit",
        "token_env",
        "token_file",
        "ca_file",
        "client_cert",
        "client_key",
        "proxy",
    )
    return [
        "--" + name.replace("_", "-")
        for name in names
        if getattr(arguments, name, None) is not None
    ]


def warn(arguments: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Tell the user what they should know about the flags they gave."""
    authority = re.split("[/?#]", getattr(arguments, "job", "").partition("://")[2], maxsplit=1)[0]
    if "@" in authority and not arguments.quiet:
        say(
            "pollkit: warning: others on this host can read the password in the URL; use --token-env, or auth = "
            "in a profile"
        )
    name = arguments.token_file
    if name is None or arguments.quiet:
        return
    from ..edges.credentials import Credential

    if Credential("bearer file:" + name).is_readable_by_others:
        say("pollkit: warning: others on this host can read %s; chmod 600 %s" % (name, name))


_MOST = 1000000


def _changed(profile: Profile, changes: Dict[str, Any], arguments: argparse.Namespace) -> Profile:
    """The profile and its labels with the changes, and with the credential from elsewhere."""
    changes = dict(changes)
    if arguments.token_env is not None or arguments.token_file is not None:
        changes["auth"] = _credential(profile.auth, arguments)
    return profile._replace(
        labels={name: _changed(one, changes, arguments) for name, one in profile.labels.items()},
        **changes,
    )


def _credential(auth: Optional[str], arguments: argparse.Namespace) -> str:
    """Where the credential comes from, sent the way the profile sends it: as bearer unless it says otherwise."""
    if arguments.token_env is not None and arguments.token_file is not None:
        raise ConfigError("--token-env and --token-file both name the credential: give one")
    if arguments.token_env is not None:
        source = "env:" + arguments.token_env
    else:
        source = "file:" + arguments.token_file
    words = (auth or "bearer").split()
    kind = words[0].lower()
    return " ".join(
        (words[:2] if kind == "header" else ["bearer" if kind == "bearer" else "basic"]) + [source]
    )


def check_file(path: str) -> None:
    """See to it that a file of profiles can be read, though none of them is named."""
    from ..edges.profiles.catalog import profile_names

    profile_names(path)


def _check_base(profile: Profile) -> None:
    if profile.name is None:
        raise ConfigError(
            "--base-url stands for {base} in a profile's URLs: give --profile NAME, too"
        )
    urls = ["%s %s" % (one.url, one.batch_url) for one in [profile, *profile.labels.values()]]
    if "{base}" not in " ".join(urls):
        raise ConfigError(
            "the profile %s has a URL of its own, without {base}: --base-url would change nothing"
            % profile.name
        )


def _by(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """An argument's type whose errors are told as they are."""

    def reads(text: str) -> Any:
        try:
            return read(text)
        except ConfigError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        except (ValueError, OverflowError):  # a number with thousands of digits
            raise argparse.ArgumentTypeError("%.40r is out of range" % text) from None

    return reads


def _timeout(text: str) -> float:
    try:
        return NEVER if text.lower() == "never" else to_seconds(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            "%.40r is not a time to wait: write 90s, 10m, 1h30m (up to ten years), never, or 0 to look once"
            % text
        ) from None


def _limit(text: str) -> Limit:
    limit = parse_limit(text)
    if limit.burst > _MOST:
        raise ConfigError("a burst of so many is no limit: %d at the most" % _MOST)
    return limit


def path(text: str) -> str:
    """The name of a file, as an argument."""
    if not text:
        raise argparse.ArgumentTypeError("the name of a file is missing")
    # Without a locale, as in cron, Python 3.6 opens only what it has not understood as text.
    return os.fsdecode(text.encode("utf-8", "surrogateescape"))


def _variable(text: str) -> str:
    """The name of a variable, as an argument."""
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", text):
        raise argparse.ArgumentTypeError(
            "give the name of an environment variable, and never the credential itself"
        )
    return text


def _check_variable(name: str) -> None:
    """It is repeated only if it can't be the credential itself."""
    shown = " " + name if re.fullmatch("[A-Z][A-Z_]{0,39}", name) else ""
    if not os.environ.get(name, "").strip():
        raise ConfigError(
            "--token-env: the environment variable%s is not set, or empty: export it first" % shown
        )


def _proxy(text: str) -> str:
    if text.lower() in ("none", "env"):
        return text.lower()
    if not text:
        raise ConfigError("a proxy's URL is missing; none means no proxy at all")
    if is_url(text) and not text.lower().startswith("http://"):
        raise ConfigError("%s can't be used: only http:// proxies are supported" % redact_url(text))
    if parse_url(text if is_url(text) else "http://" + text).userinfo:
        raise ConfigError(
            "a password on the command line can be read by others on this host: "
            "set http_proxy or https_proxy, or proxy = in a profile"
        )
    return text


def checked_label(text: str) -> str:
    """A label that makes sense."""
    if not text.strip() or not text.isprintable():
        raise ConfigError("%.40r is not a label: it should be a word" % text)
    return text


def _size(text: str) -> float:
    try:
        size = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError("a size is a number, not %r" % text) from None
    return float(_by(lambda _: validate_size("a size", size))(text))


def count(text: str, most: int = _MOST) -> int:
    """A whole number, as an argument."""
    if not text.isdecimal() or not 1 <= int(text[:9]) <= most:
        raise argparse.ArgumentTypeError("%.40r is not a whole number from 1 to %d" % (text, most))
    return int(text)


def _header(text: str) -> Any:
    name, colon, value = text.partition(":")
    name, value = name.strip(), value.strip()
    if not colon or not name:
        raise argparse.ArgumentTypeError("write it as 'Name: value'")
    if is_secret(name) or re.match(r"(?:bearer|basic)\s", value, re.IGNORECASE):
        raise argparse.ArgumentTypeError(
            "%s carries a secret, and what is on the command line can be read by others on this host: "
            "use --token-env, --token-file, or auth = in a profile" % name
        )
    return name, value
