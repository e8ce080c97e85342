"""List the profiles there are, show one as a file has it, or check a file of your own.

examples:
  pollkit profiles                             every profile, and where it comes from
  pollkit profiles show knowhere               one of them, as text to start your own from
  pollkit profiles check ~/mine.ini            everything that is wrong in a file, line by line
  pollkit profiles --profiles mine.ini         with those of a file that is not in a usual place
  pollkit profiles show mine --profiles mine.ini

pollkit help profiles explains every key, and where files are looked for.
"""

import argparse
from typing import List, Optional, Tuple

from ...edges.profiles.catalog import (
    ListedProfile,
    all_profiles,
    check_file,
    find_profile,
    profile_names,
)
from ...errors import ConfigError
from .. import options as flags
from ..output import write

BROKEN = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "what",
        nargs="?",
        default="list",
        metavar="show|check",
        help="show NAME prints a profile; check FILE looks for mistakes; nothing: a list",
    )
    parser.add_argument(
        "which", nargs="?", metavar="NAME|FILE", help="the profile to show, or the file to check"
    )
    parser.add_argument(
        "--profiles",
        metavar="FILE",
        type=flags.path,
        help="read this file of profiles, too, after all others",
    )


def run(arguments: argparse.Namespace) -> int:
    """List, show or check."""
    what, which = arguments.what, arguments.which
    if what not in ("list", "show", "check"):
        raise ConfigError(
            "invalid choice %r: profiles can list, show NAME or check FILE; for a profile of that name: "
            "pollkit profiles show %s" % (what, what)
        )
    if what == "list":
        if which is not None:
            raise ConfigError(
                "profiles list takes no %r; to see one: pollkit profiles show NAME" % which
            )
        write(table(all_profiles(arguments.profiles)))
        return 0
    if which is None:
        raise ConfigError(
            "profiles show needs a NAME: pollkit profiles lists them"
            if what == "show"
            else "profiles check needs a FILE: pollkit profiles check FILE"
        )
    if what == "show":
        return _show(which, arguments.profiles)
    if arguments.profiles is not None:
        raise ConfigError("profiles check reads the FILE it is given: leave --profiles out")
    return _check(flags.path(which) if which else which)


def table(listed: List[ListedProfile]) -> str:
    """The list: name, labels, limit, and which files have a say in it."""
    rows = [("NAME", "LABELS", "LIMIT", "FROM")] + [_row(one) for one in listed]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "".join(
        "%-*s  %-*s  %-*s  %s\n" % (widths[0], name, widths[1], labels, widths[2], limit, source)
        for name, labels, limit, source in rows
    )


def _row(one: ListedProfile) -> Tuple[str, str, str, str]:
    source = ", ".join(one.sources)
    if one.profile is None:
        return (
            one.name,
            "-",
            "-",
            "%s (has mistakes: pollkit profiles check %s)" % (source, one.problems[0].source),
        )
    limit = "-" if one.profile.limit is None else str(one.profile.limit)
    return one.name, ", ".join(one.profile.labels) or "-", limit, source


def _show(name: str, path: Optional[str]) -> int:
    from ...edges.profiles.keys import profile_to_ini

    write(profile_to_ini(find_profile(name, path)))
    return 0


def _check(path: str) -> int:
    problems = check_file(path)
    if problems:
        write("".join(str(problem) + "\n" for problem in problems))
        return BROKEN
    count = len(profile_names(path))
    write("%s: %d profile%s, all well\n" % (path, count, "" if count == 1 else "s"))
    return 0
