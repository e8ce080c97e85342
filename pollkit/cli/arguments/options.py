"""The options of every command that polls, and the objects made from them.

profile_options.py makes the profile.
"""

import argparse
import os
import re
from typing import Any, Callable, Dict, Iterable, Optional, Union

from ...core.model import Job
from ...core.profiles.profile import TRANSPORTS, Profile, profile_for_job, to_pace, validate_base
from ...core.units import NEVER, Limit, parse_limit
from ...core.urls import is_url, redact_url
from ...edges.exposed_files import take_warnings
from ...edges.history_file import History, default_path
from ...edges.limits.token_bucket import TokenBucket
from ...errors import ConfigError
from . import argument_types
from .parser import FromEnvironment


def add_polling_options(
    parser: argparse.ArgumentParser,
    *,
    many_jobs: bool = False,
    from_ledger: bool = False,
    submits: bool = False,
) -> None:
    """Add the options that describe the API, the pace, the connection and the shared files.

    With `from_ledger`, the jobs come from a ledger, along with their labels, sizes and durations.
    """
    group = parser.add_argument_group("the API")
    _add_profile(group)
    group.add_argument(
        "--base-url",
        metavar="URL",
        type=validate_base,
        help="the value of {base} in the profile's URLs",
    )
    if not from_ledger:
        _add_label_and_size(group, "each job" if many_jobs else "the job")
    _add_pace(
        parser.add_argument_group("when to poll"),
        _timeout_help(many_jobs=many_jobs, from_ledger=from_ledger, submits=submits),
        from_ledger,
    )
    add_connection_options(parser.add_argument_group("the connection"))
    parser.add_argument(
        "--bucket",
        metavar="FILE",
        type=argument_types.path,
        help="share the rate limit with every process that names this file (created if needed)",
    )
    if not from_ledger:
        parser.add_argument(
            "--history",
            metavar="FILE",
            type=argument_types.path,
            default=FromEnvironment("POLLKIT_HISTORY"),
            help="save the durations of jobs in this file, for adaptive paces; none: don't save "
            "them (default: $POLLKIT_HISTORY, or ~/.local/state/pollkit/history.json)",
        )


def _timeout_help(*, many_jobs: bool, from_ledger: bool, submits: bool) -> str:
    whose = "a job without its own timeout" if many_jobs else "the job"
    durations = "90s, 10m, 1h30m, or never"
    if submits:  # 0 would leave no time for the request
        return "how long to wait for the job: %s (default: 5m; with --ledger, 24h)" % durations
    default = "24h" if from_ledger else "5m"
    return "how long to wait for %s: %s; 0 polls once (default: %s)" % (whose, durations, default)


def _add_pace(group: "argparse._ActionsContainer", timeout_help: str, from_ledger: bool) -> None:
    group.add_argument(
        "--pace",
        metavar="SPEC",
        type=to_pace,
        help="'fixed 5s', 'backoff 2s..30s x1.5', 'adaptive first=60s every=15s': "
        "see pollkit help paces (default: the profile's pace, or adaptive)",
    )
    group.add_argument("--timeout", metavar="D", type=argument_types.timeout, help=timeout_help)
    group.add_argument(
        "--limit", metavar="L", type=parse_limit, help="the API's rate limit: 60/m, '10/s burst 20'"
    )
    group.add_argument(
        "--max-faults",
        metavar="N",
        type=argument_types.count,
        help="faults in a row before giving up (default: %s)"
        % ("no limit, retry until the timeout" if from_ledger else "10"),
    )


def add_connection_options(group: "argparse._ActionsContainer") -> None:
    """Add the headers, the credential, and the TLS and proxy settings."""
    group.add_argument(
        "--header",
        metavar="'K: V'",
        action="append",
        default=[],
        type=argument_types.header,
        help="send this header, too; may be repeated. Not for secrets",
    )
    group.add_argument(
        "--token-env",
        metavar="VAR",
        type=argument_types.token_variable,
        help="the environment variable that holds the credential",
    )
    group.add_argument(
        "--auth",
        metavar="SPEC",
        type=argument_types.auth,
        help="how to send the credential, and its source: 'header X-API-Key env:VAR', "
        "'basic file:PATH', 'bearer command:PROGRAM' or netrc",
    )
    for name, description in (
        ("--token-file", "the file that holds the credential"),
        ("--ca-file", "trust the certificates in this file (PEM)"),
        ("--client-cert", "the client certificate to present (PEM)"),
        ("--client-key", "the key of the client certificate, if it is in another file"),
    ):
        group.add_argument(name, metavar="F", type=argument_types.path, help=description)
    _add_proxy_and_transport(group)


def _add_proxy_and_transport(group: "argparse._ActionsContainer") -> None:
    group.add_argument(
        "--proxy",
        metavar="URL",
        type=argument_types.proxy,
        help="the URL of a proxy, none, or env (the default): from the environment",
    )
    group.add_argument(
        "--transport",
        metavar="NAME",
        choices=TRANSPORTS,
        help="the HTTP client (builtin, urllib, requests or curl; default: builtin): "
        "see pollkit help transports",
    )


def add_ledger_job_options(parser: argparse.ArgumentParser) -> None:
    """Add the options whose values are stored in a ledger along with a job."""
    _add_profile(parser)
    _add_label_and_size(parser, "each job")
    parser.add_argument(
        "--timeout",
        metavar="D",
        type=argument_types.timeout,
        help="how long to wait for each job, from now on: 90s, 10m, 1h30m, or never; "
        "0 polls once (default: from pollkit run or the profile)",
    )


def _add_profile(group: "argparse._ActionsContainer") -> None:
    group.add_argument(
        "--profile",
        metavar="NAME",
        default=FromEnvironment("POLLKIT_PROFILE"),
        help="the profile of the API: see pollkit profiles (default: $POLLKIT_PROFILE)",
    )
    group.add_argument(
        "--profiles",
        metavar="FILE",
        type=argument_types.path,
        help="an INI file with more profiles",
    )


def _add_label_and_size(group: "argparse._ActionsContainer", whose: str) -> None:
    group.add_argument(
        "--label",
        metavar="L",
        type=argument_types.label,
        help="the label (class of jobs) of %s" % whose,
    )
    group.add_argument(
        "--size",
        metavar="N",
        type=argument_types.size,
        help="the size of %s, which chooses the label" % whose,
    )


def add_workers(parser: argparse.ArgumentParser, where: str = "") -> None:
    """Add --workers."""
    parser.add_argument(
        "--workers",
        metavar="N",
        type=lambda text: argument_types.count(text, 1000),
        default=8,
        help="requests in flight at once%s (default: 8)" % where,
    )


def bucket_from(
    arguments: argparse.Namespace, limit: Union[Limit, str, None]
) -> Optional[TokenBucket]:
    """The shared bucket, or None without --bucket."""
    if arguments.bucket is None:
        return None
    from ...edges.limits.shared_bucket import SharedBucket  # late: it imports sqlite3

    return SharedBucket(arguments.bucket, limit)


def limit_from(
    arguments: argparse.Namespace, profile: Profile, jobs: Iterable[Job]
) -> Union[Limit, str, None]:
    """The limit of `profile`; if it has none, the one limit of the jobs' profiles for --bucket."""
    if arguments.bucket is None or profile.limit is not None:
        return profile.limit
    from ...edges.profiles.catalog import find_profile

    known: Dict[Optional[str], Profile] = {None: profile, profile.name: profile}
    limits = set()
    for name, label, size in {(job.profile, job.label, job.size) for job in jobs}:
        try:
            if name not in known:
                known[name] = find_profile(name or "", arguments.profiles)
            limits.add(profile_for_job(known[name], label, size).limit)
        except ConfigError:
            known.setdefault(name, Profile())  # reported when its jobs are polled
    texts = sorted(str(limit) for limit in limits if limit is not None)
    if len(texts) > 1:
        raise ConfigError(
            "--bucket is one limit for all jobs, but their profiles have several (%s): "
            "choose one with --profile NAME, or leave --bucket out" % ", ".join(texts)
        )
    return texts[0] if texts else None


def history_from(arguments: argparse.Namespace, write_line: Callable[[str], None]) -> History:
    """The duration history in the file of --history.

    The default path is often unusable under cron, which has no home directory or a read-only one.
    Cron would mail a warning about that every minute, so it needs --history or -v.
    """

    def warn(text: str) -> None:
        if not arguments.quiet:
            write_line("pollkit: warning: " + text)

    if arguments.history == "none":
        return History()
    path = default_path()
    if arguments.history is not None:
        path = os.path.expanduser(arguments.history)
    elif not arguments.verbose:
        return History(path, warn)
    if path is None:
        warn("can't save the duration history: there is no home directory; use --history FILE")
    return History(path, warn, warn)


def job_from(arguments: argparse.Namespace, text: str, profile: Optional[Profile] = None) -> Job:
    """The job with this URL or id; with `profile`, an id is an error if the profile has no URL."""
    text = text.strip()
    if not text:
        raise ConfigError("there is no job: give its URL, or its id")
    if not text.isprintable():
        raise ConfigError(
            "%r is neither a URL nor an id: it has control characters, or bytes that are not text"
            % redact_url(text)[:80]
        )
    if profile is not None and not is_url(text) and not _has_url(profile):
        problem = "there is no profile with a URL for it"
        if profile.name is not None:
            problem = "the profile %s has no url for it" % profile.name
        raise ConfigError(
            "%r is not a URL, and %s: give the job's whole URL, or --profile NAME with its id"
            % (redact_url(text), problem)
        )
    return Job.from_any(text)._replace(label=arguments.label, size=arguments.size)


def _has_url(profile: Profile) -> bool:
    return any(one.url for one in [profile, *profile.labels.values()])


def overrides_from(arguments: argparse.Namespace) -> Dict[str, Any]:
    """Arguments for a poller of many jobs: they override the profile of each job."""
    overrides = {
        "headers": dict(arguments.header),
        "pace": arguments.pace,
        "max_faults": arguments.max_faults,
        "profiles": arguments.profiles,
    }
    if arguments.timeout is not None:
        overrides["timeout"] = None if arguments.timeout == NEVER else arguments.timeout
    return overrides


def warn_about_secrets(arguments: argparse.Namespace, write_line: Callable[[str], None]) -> None:
    """Warn if others on this host can read a credential, or change a profile, of this command."""
    if getattr(arguments, "quiet", False):
        return
    warnings = [str(warning) for warning in take_warnings()]
    named = [getattr(arguments, name, None) for name in ("job", "url", "base_url")]
    urls = [text for text in named + getattr(arguments, "jobs", []) if text and is_url(text)]
    if any("@" in re.split("[/?#]", url, maxsplit=3)[2] for url in urls):
        warnings.append(
            "others on this host can read the password in the URL; "
            "use --token-env, --auth, or auth = in a profile"
        )
    for text in warnings:
        write_line("pollkit: warning: " + text)
