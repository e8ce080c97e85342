"""List the profiles, show one in the format of a file, or check a file of profiles.

examples:
  pollkit profiles                             every profile, and its files
  pollkit profiles show knowhere               one profile, as a start for your own
  pollkit profiles check ~/mine.ini            every mistake in a file, with its line
  pollkit profiles --profiles mine.ini         including those of another file
  pollkit profiles show mine --profiles mine.ini

pollkit help profiles explains every key, and which files are read.
"""

import argparse
from typing import List, Tuple

from ...edges.profiles.catalog import (
    ListedProfile,
    all_profiles,
    check_file,
    find_profile,
    profile_names,
)
from ...errors import ConfigError
from ..argument_types import path
from ..exit_codes import ALL_DONE, USAGE
from ..output import write
from ..tables import format_table, terminal_width


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        metavar="show|check",
        help="show NAME prints a profile; check FILE finds mistakes; without either: a list",
    )
    parser.add_argument(
        "name", nargs="?", metavar="NAME|FILE", help="the profile to show, or the file to check"
    )
    parser.add_argument(
        "--profiles",
        metavar="FILE",
        type=path,
        help="also read this file of profiles, after all others",
    )


def run(arguments: argparse.Namespace) -> int:
    """List, show or check."""
    action = arguments.action
    name = arguments.name
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
    if action == "check":
        if name is None:
            raise ConfigError("profiles check needs a FILE: pollkit profiles check FILE")
        if arguments.profiles is not None:
            raise ConfigError("profiles check reads only its FILE: leave --profiles out")
        return _check(path(name))
    raise ConfigError(
        "invalid choice %r: profiles can list, show NAME or check FILE; "
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
