"""Profiles by name: the built-in ones, and those in the user's own files.

Files are read in order, later ones win: built in, /etc/pollkit/profiles.ini,
~/.config/pollkit/profiles.ini, $POLLKIT_PROFILES, and the file that was named. A section with a
`url` of its own describes an API anew and replaces what earlier files say under its name, labels
included; one without a `url` changes only the keys it has. [name:label] inherits from [name].

A profile is put together when it is asked for: a mistake in one is no concern of the others.
"""

import functools
import os
import re
from pkgutil import get_data
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ...core.profile import Profile, validate_base
from ...errors import ConfigError
from ..http.user_headers import merge_headers
from .ini import BUILT_IN, IniFile, Problem, Setting, parse, read_text
from .keys import HEADER, KEYS, contradictions, read_header, read_key, unknown_key

SYSTEM_FILE = "/etc/pollkit/profiles.ini"
USER_FILE = ".config/pollkit/profiles.ini"
_NAME = re.compile(r"\w[\w.-]*")
_NO_NAME = "DEFAULT"  # it means something else in other INI files, and would be taken for that

Settings = Dict[str, Setting]


class ListedProfile(NamedTuple):
    """A name in the list of profiles; without a profile, it has problems instead."""

    name: str
    profile: Optional[Profile]
    sources: Tuple[str, ...]
    problems: List[Problem]


class _Entry:
    """What the files say under one name: the settings of [name] and of each [name:label]."""

    def __init__(self) -> None:
        self.own: Optional[Settings] = None
        self.labels: Dict[str, Settings] = {}
        self.lines: Dict[str, Tuple[str, int]] = {}
        self.sources: List[str] = []
        self.problems: List[Problem] = []


def find_profile(name: str, path: Optional[str] = None) -> Profile:
    """The profile of that name, all its labels with it; `path` is a file to read last.

    `{base}` still stands in its URLs: `core.profile.based` fills it in. POLLKIT_BASE_URL goes
    before the `base` of the file.
    """
    entries = _entries(_files(path))
    if name not in entries:
        raise ConfigError(_no_such(name, entries) + "; see pollkit profiles")
    profile, problems = _assembled(name, entries[name])
    if problems:
        raise ConfigError("%s%s" % (problems[0], _hint(problems[0].source)))
    base = os.environ.get("POLLKIT_BASE_URL")
    return _with_base(profile, base) if base else profile


def all_profiles(path: Optional[str] = None) -> List[ListedProfile]:
    """Every profile there is, by name, and the files that have a say in it."""
    entries = _entries(_files(path))
    listed = []
    for name in sorted(entries):
        profile, problems = _assembled(name, entries[name])
        listed.append(
            ListedProfile(
                name, None if problems else profile, tuple(entries[name].sources), problems
            )
        )
    return listed


def profile_names(path: str) -> List[str]:
    """The names of the profiles that a file has a say in."""
    return list(_entries([_own(path)]))


def check_file(path: str) -> List[Problem]:
    """All that is wrong in a file, in order of its lines. One that can't be read is a ConfigError."""
    file = _own(path)
    whole = [problem for problem in file.problems if not problem.section]
    if not file.sections:
        return whole or [Problem(path, 0, "", "", "there is no [profile] in it")]
    try:
        files = [one for one in _files(None) if one.source != path] + [file]
    except ConfigError:  # another file's trouble
        files = [_built_in(), file]
    found = [
        problem for name, entry in _entries(files).items() for problem in _assembled(name, entry)[1]
    ]
    return sorted(whole + [problem for problem in found if problem.source == path])


def _own(path: str) -> IniFile:
    return parse(path, read_text(path) or "")


def _sound(file: IniFile) -> IniFile:
    """A file that could be parsed; what is wrong inside a section is for whoever wants that section."""
    for problem in file.problems:
        if not problem.section:
            raise ConfigError("%s%s" % (problem, _hint(file.source)))
    return file


def _hint(source: str) -> str:
    return " (pollkit profiles check %s lists all that is wrong)" % source


@functools.lru_cache(maxsize=None)  # it never changes, and nobody changes what it says
def _built_in() -> IniFile:
    return parse(
        BUILT_IN, (get_data("pollkit.edges.profiles", "builtin.ini") or b"").decode("utf-8")
    )


def _files(path: Optional[str]) -> List[IniFile]:
    """Every file that is there, in the order in which they are read."""
    files = [_built_in()]
    home = os.environ.get("HOME") or os.environ.get("USERPROFILE")
    for usual in (SYSTEM_FILE, home and os.path.join(home, USER_FILE)):
        text = read_text(usual, optional=True) if usual else None
        if usual and text is not None:
            files.append(_sound(parse(usual, text)))
    return files + [
        _sound(_own(named)) for named in (os.environ.get("POLLKIT_PROFILES"), path) if named
    ]


def _entries(files: List[IniFile]) -> Dict[str, _Entry]:
    entries: Dict[str, _Entry] = {}
    for file in files:
        seen: Dict[Tuple[str, ...], str] = {}
        # A [name] counts before its labels, wherever in the file it stands.
        for section in sorted(file.sections, key=lambda section: ":" in section):
            parts = tuple(part.strip() for part in section.partition(":"))
            _add(entries, file, section, parts)
            if seen.setdefault(parts, section) != section:  # [a:b] and [a: b]
                entries[parts[0]].problems.append(_about(file, section, "stands twice"))
    return entries


def _about(file: IniFile, section: str, what: str) -> Problem:
    return Problem(file.source, file.lines[section], section, "", what)


def _add(entries: Dict[str, _Entry], file: IniFile, section: str, parts: Tuple[str, ...]) -> None:
    name, colon, label = parts
    settings = file.sections[section]
    anew = "url" in settings
    if not colon and anew:
        entries.pop(name, None)
    entry = entries.setdefault(name, _Entry())
    if colon:
        kept = {} if anew else entry.labels.get(label, {})
        entry.labels[label] = {**kept, **settings}
    else:
        entry.own = {**(entry.own or {}), **settings}
    entry.lines[label] = file.source, file.lines[section]
    if file.source not in entry.sources:
        entry.sources.append(file.source)
    entry.problems += [problem for problem in file.problems if problem.section == section]
    if name == _NO_NAME:
        entry.problems.append(
            _about(
                file,
                section,
                "there are no defaults for all profiles: write what they share into each",
            )
        )
    elif not _NAME.fullmatch(name) or (colon and not label):
        entry.problems.append(
            _about(
                file,
                section,
                "write it as [name] or [name:label], the name of letters, digits, . _ and -",
            )
        )


def _assembled(name: str, entry: _Entry) -> Tuple[Profile, List[Problem]]:
    """A profile with its labels, as far as it makes sense, and all that doesn't."""
    problems = list(entry.problems)
    is_name = name != _NO_NAME and _NAME.fullmatch(name)  # otherwise that is what is wrong with it
    for label in entry.labels if entry.own is None and is_name else ():
        source, line = entry.lines[label]
        problems.append(
            Problem(
                source,
                line,
                "%s:%s" % (name, label),
                "",
                "there is no [%s] that it could inherit from" % name,
            )
        )
    own = _values(name, entry.own or {}, problems)
    profile = Profile(name=name)._replace(**own)
    labels: Dict[str, Profile] = {}
    for label, settings in entry.labels.items():
        values = _values("%s:%s" % (name, label), settings, problems)
        values["headers"] = merge_headers(profile.headers, values.get("headers", {}))
        labels[label] = profile._replace(label=label, **values)
        problems += _contradicted("%s:%s" % (name, label), settings, labels[label])
        twin = [
            other for other, one in labels.items() if one.up_to == labels[label].up_to is not None
        ]
        if len(twin) > 1:
            at = settings["up_to"]
            problems.append(
                Problem(
                    at.source,
                    at.line,
                    "%s:%s" % (name, label),
                    "up_to",
                    "is the same as that of %s, which would never leave it a job" % twin[0],
                )
            )
    profile = profile._replace(labels=labels)
    return profile, problems + _contradicted(name, entry.own or {}, profile)


def _contradicted(section: str, settings: Settings, profile: Profile) -> List[Problem]:
    """What this section's own keys say against others."""
    return [
        Problem(settings[key].source, settings[key].line, section, key, what)
        for key, what in contradictions(profile)
        if key in settings
    ]


def _values(section: str, settings: Settings, problems: List[Problem]) -> Dict[str, Any]:
    """The fields that a section sets; what is wrong with it goes to the problems."""
    values: Dict[str, Any] = {}
    headers: Dict[str, str] = {}
    seen: Dict[
        Tuple[str, str], int
    ] = {}  # the lines of headers; a later file may write them in other letters
    for key, setting in settings.items():
        try:
            if key.startswith(HEADER):
                name = key[len(HEADER) :]
                line = seen.setdefault((setting.source, name.lower()), setting.line)
                if line != setting.line:
                    raise ConfigError(
                        "stands twice: it is on line %d already, in other letters" % line
                    )
                headers = merge_headers(headers, {name: read_header(name, setting.text)})
            elif key not in KEYS:
                raise ConfigError(unknown_key(key))
            elif key == "up_to" and ":" not in section:
                raise ConfigError("belongs to a label, in a section such as [%s:small]" % section)
            else:
                values[key] = read_key(key, setting.text, _folder(setting.source))
        except ConfigError as error:
            problems.append(Problem(setting.source, setting.line, section, key, str(error)))
    return dict(values, headers=headers) if headers else values


def _folder(source: str) -> str:
    return os.path.dirname(os.path.abspath(os.path.expanduser(source)))


def _with_base(profile: Profile, base: str) -> Profile:
    try:
        validate_base(base)
    except ConfigError as error:
        raise ConfigError("POLLKIT_BASE_URL: %s" % error) from None

    def with_base(one: Profile) -> Profile:
        return one._replace(base=base) if "{base}" in "%s %s" % (one.url, one.batch_url) else one

    return with_base(profile)._replace(
        labels={label: with_base(one) for label, one in profile.labels.items()}
    )


def _no_such(name: str, known: Dict[str, _Entry]) -> str:
    import difflib

    profile, colon, label = name.partition(":")
    if colon and profile in known:
        return "there is no profile %r: a label is given by itself, as --profile %s --label %s" % (
            name,
            profile,
            label,
        )
    near = difflib.get_close_matches(name, list(known), 1)
    return "there is no profile %r%s" % (name, " (did you mean %s?)" % near[0] if near else "")
