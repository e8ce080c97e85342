"""List the profiles, show one as a file has it, check a file, or write profiles for an API.

suggest polls one or two jobs, and prints a profile with the fields and values that it found.
Guesses are marked by comments. Two URLs show which part is the id. A job that is done and one that
is running, or has failed, show the most values.

import converts waiters to profiles with rules: those in a waiters-2.json of botocore, or in a
Smithy model in JSON. It prints the profiles, and on stderr why others could not be converted.

examples:
  pollkit profiles                      every profile, and its files
  pollkit profiles show knowhere        one profile, as a start for your own
  pollkit profiles check ~/mine.ini     every mistake in a file, with its line
  pollkit profiles --profiles mine.ini  including those of another file
  pollkit profiles show mine --profiles mine.ini
  pollkit profiles suggest https://api.internal/v1/jobs/42 https://api.internal/v1/jobs/43
  pollkit profiles suggest https://api.internal/v1/jobs/42 --token-env API_TOKEN > mine.ini
  pollkit profiles import waiters-2.json > mine.ini

pollkit help profiles explains every key, and which files are read.
"""

import argparse
from typing import List, Tuple

from ...core.model import one_line
from ...edges.profiles.catalog import (
    ListedProfile,
    all_profiles,
    check_file,
    find_profile,
    profile_names,
)
from ...errors import ConfigError
from ..arguments.argument_types import path
from ..arguments.options import add_connection_options
from ..arguments.profile_options import connection_profile, given_connection_options
from ..exit_codes import ALL_DONE, UNREACHABLE, USAGE
from ..output.streams import write, write_error
from ..output.tables import format_table, terminal_width


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        metavar="show|check|suggest|import",
        help="show NAME prints a profile; check FILE finds mistakes; suggest URL and import FILE "
        "write profiles; without any of them: a list",
    )
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME|FILE|URL",
        help="the profile to show, the file to check or import, or the URL of a job",
    )
    parser.add_argument(
        "second_url", nargs="?", metavar="URL", help="for suggest: the URL of another job"
    )
    parser.add_argument(
        "--profiles",
        metavar="FILE",
        type=path,
        help="also read this file of profiles, after all others",
    )
    add_connection_options(parser.add_argument_group("the connection, for suggest"))


def run(arguments: argparse.Namespace) -> int:
    """List, show, check, suggest or import."""
    action = arguments.action
    name = arguments.name
    if action == "suggest":
        return _suggest(arguments)
    if arguments.second_url is not None:
        raise ConfigError("unrecognized arguments, from %r on" % arguments.second_url)
    flags = given_connection_options(arguments)
    if flags:
        raise ConfigError("%s is only for profiles suggest: leave it out" % flags[0])
    if action == "list":
        if name is not None:
            raise ConfigError("profiles list takes no %r: use pollkit profiles show NAME" % name)
        write(table(all_profiles(arguments.profiles)))
        return ALL_DONE
    if action == "show":
        if name is None:
            raise ConfigError("profiles show needs a NAME: pollkit profiles lists them")
        from ...edges.profiles.keys import profile_to_ini

        write(profile_to_ini(find_profile(name, arguments.profiles)))
        return ALL_DONE
    if action in ("check", "import"):
        if name is None:
            raise ConfigError(
                "profiles %s needs a FILE: pollkit profiles %s FILE" % (action, action)
            )
        if arguments.profiles is not None:
            raise ConfigError("profiles %s reads only its FILE: leave --profiles out" % action)
        return _check(path(name)) if action == "check" else _import(path(name))
    raise ConfigError(
        "invalid choice %r: profiles can list, show NAME, check FILE, suggest URL or import FILE; "
        "for a profile of that name: pollkit profiles show %s" % (action, action)
    )


def table(profiles: List[ListedProfile]) -> str:
    """One line per profile: name, labels, limit, and the files that define it."""
    rows = [("NAME", "LABELS", "LIMIT", "FROM")] + [_row(one) for one in profiles]
    return format_table(rows, terminal_width())


def _row(listed: ListedProfile) -> Tuple[str, str, str, str]:
    source = ", ".join(listed.sources)
    profile = listed.profile
    if profile is None:
        problem = "has mistakes: pollkit profiles check %s" % listed.problems[0].source
        return listed.name, "-", "-", "%s (%s)" % (source, problem)
    limit = "-" if profile.limit is None else str(profile.limit)
    return listed.name, ", ".join(profile.labels) or "-", limit, source


def _check(path: str) -> int:
    problems = check_file(path)
    if problems:
        write("".join(str(problem) + "\n" for problem in problems))
        return USAGE
    count = len(profile_names(path))
    write("%s: %d profile%s, no mistakes\n" % (path, count, "" if count == 1 else "s"))
    return ALL_DONE


def _import(path: str) -> int:
    from ...edges.profiles.keys import profile_to_ini
    from ...edges.profiles.waiters import import_file

    imported = import_file(path)
    profiles = [one.profile for one in imported if one.profile is not None]
    write("\n".join(map(profile_to_ini, profiles)))
    for one in imported:
        if one.profile is None:
            write_error("%s: not imported: %s" % (one_line(one.name, 80), one_line(one.problem)))
    return ALL_DONE if profiles else USAGE


def _suggest(arguments: argparse.Namespace) -> int:
    from ...core.urls import is_url, redact_url
    from ...drivers.doctor.suggestion import NoReply, suggest_profile

    if arguments.name is None:
        raise ConfigError("profiles suggest needs the URL of a job: pollkit profiles suggest URL")
    urls = [arguments.name.strip()]
    if arguments.second_url is not None:
        urls.append(arguments.second_url.strip())
    for url in urls:
        if not is_url(url) or not url.isprintable():
            raise ConfigError("%r is not a URL: give the whole URL of a job" % redact_url(url)[:80])
    try:
        text = suggest_profile(connection_profile(arguments), dict(arguments.header), urls)
    except NoReply as error:
        write_error("nothing to suggest: %s; try pollkit doctor URL" % error)
        return UNREACHABLE
    write(text)
    return ALL_DONE
