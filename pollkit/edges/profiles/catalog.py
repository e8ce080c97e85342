"""Profiles by name: the built-in ones, and those in the user's files.

Files are read in this order, and later ones win: built in, /etc/pollkit/profiles.ini,
~/.config/pollkit/profiles.ini, $POLLKIT_PROFILES, and the file that the user names. A section with
a `url` describes a new API: it replaces the section of that name in earlier files, with its labels.
A section without a `url` changes only its keys. [name:label] inherits from [name].

A profile is built when it is needed, so that a mistake in one profile does not affect the others.
"""

import functools
import os
import re
from pkgutil import get_data
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ...core.profiles.profile import Profile, needs_base, validate_base
from ...core.reading.rules.parser import RuleError, parse_rules, split_rules
from ...core.spelling import similar_name
from ...errors import ConfigError
from ..http.user_headers import merge_headers
from .ini import BUILT_IN, IniFile, Problem, Setting, parse_ini, read_text
from .keys import HEADER, KEYS, contradictions, read_header, read_key, unknown_key_message

SYSTEM_FILE = "/etc/pollkit/profiles.ini"
USER_FILE = ".config/pollkit/profiles.ini"
_NAME = re.compile(r"\w[\w.-]*")
_RESERVED_NAME = "DEFAULT"  # in other INI files, this section has the defaults of all sections

Settings = Dict[str, Setting]


class ListedProfile(NamedTuple):
    """A name in the list of profiles, with its profile or its problems."""

    name: str
    profile: Optional[Profile]
    sources: Tuple[str, ...]
    problems: List[Problem]


class UnknownProfile(ConfigError):
    """No file defines the profile."""


class _Entry:
    """The settings for one name in all files: those of [name] and of each [name:label]."""

    def __init__(self) -> None:
        self.settings: Optional[Settings] = None
        self.labels: Dict[str, Settings] = {}
        self.label_places: Dict[str, Tuple[str, int]] = {}
        self.sources: List[str] = []
        self.problems: List[Problem] = []


def find_profile(name: str, path: Optional[str] = None) -> Profile:
    """The profile of this name, with its labels; `path` is a file to read last.

    {base} is still in its URLs: `core.profiles.profile.fill_base` replaces it. POLLKIT_BASE_URL
    takes precedence over the `base` in the files.
    """
    entries = _collect_entries(_read_files(path))
    if name not in entries:
        raise UnknownProfile(_unknown_profile_message(name, list(entries)))
    profile, problems = _build_profile(name, entries[name])
    if problems:
        raise _config_error(problems[0])
    base = os.environ.get("POLLKIT_BASE_URL")
    return _with_base(profile, base) if base else profile


def all_profiles(path: Optional[str] = None) -> List[ListedProfile]:
    """Every profile, sorted by name, with the files that contribute to it."""
    listed = []
    for name, entry in sorted(_collect_entries(_read_files(path)).items()):
        profile, problems = _build_profile(name, entry)
        usable = None if problems else profile
        listed.append(ListedProfile(name, usable, tuple(entry.sources), problems))
    return listed


def profile_names(path: str) -> List[str]:
    """The names of the profiles in a file."""
    return list(_collect_entries([_read_file(path)]))


def check_file(path: str) -> List[Problem]:
    """The mistakes in a file, in the order of its lines; a ConfigError if it can't be read."""
    file = _read_file(path)
    problems = [problem for problem in file.problems if not problem.section]
    if not file.sections:
        return problems or [Problem(path, 0, "", "", "the file has no [profile] section")]
    try:
        files = [other for other in _read_files(None) if other.source != path]
    except ConfigError:  # a problem of another file
        files = [_built_in_file()]
    for name, entry in _collect_entries(files + [file]).items():
        if path in entry.sources:
            problems += _build_profile(name, entry)[1]
    return sorted(problem for problem in problems if problem.source == path)


# Files


def _read_files(path: Optional[str]) -> List[IniFile]:
    """All files that exist, in the order in which they are read."""
    files = [_built_in_file()]
    home = os.environ.get("HOME") or os.environ.get("USERPROFILE")
    optional_paths = [SYSTEM_FILE]
    if home:
        optional_paths.append(os.path.join(home, USER_FILE))
    for optional_path in optional_paths:
        text = read_text(optional_path, optional=True)
        if text is not None:
            files.append(parse_ini(optional_path, text))
    files += _read_variable("POLLKIT_PROFILES")
    if path:
        files.append(_read_file(path))
    for file in files:
        for problem in file.problems:
            if not problem.section:  # the other problems only matter to the profile they are in
                raise _config_error(problem)
    return files


def _read_variable(variable: str) -> List[IniFile]:
    """The file that an environment variable names, if it is set."""
    path = os.environ.get(variable)
    try:
        return [_read_file(path)] if path else []
    except ConfigError as error:
        raise ConfigError("%s: %s" % (variable, error)) from None


def _read_file(path: str) -> IniFile:
    return parse_ini(path, read_text(path) or "")


@functools.lru_cache(maxsize=None)
def _built_in_file() -> IniFile:
    content = get_data("pollkit.edges.profiles", "builtin.ini") or b""
    return parse_ini(BUILT_IN, content.decode("utf-8"))


def _config_error(problem: Problem) -> ConfigError:
    return ConfigError(
        "%s (pollkit profiles check %s lists every problem)" % (problem, problem.source)
    )


def _unknown_profile_message(name: str, known: List[str]) -> str:
    profile, colon, label = name.partition(":")
    if colon and profile in known:
        hint = ": give the label separately, as --profile %s --label %s" % (profile, label)
    else:
        similar = similar_name(name, known)
        hint = "" if similar is None else " (did you mean %s?)" % similar
    return "there is no profile %r%s; see pollkit profiles" % (name, hint)


# Sections


def _collect_entries(files: List[IniFile]) -> Dict[str, _Entry]:
    """The settings of all files, by the name of the profile."""
    entries: Dict[str, _Entry] = {}
    for file in files:
        # A [name] is added before its labels, wherever in the file it is.
        for section in sorted(file.sections, key=lambda section: ":" in section):
            _add_section(entries, file, section)
    return entries


def _add_section(entries: Dict[str, _Entry], file: IniFile, section: str) -> None:
    name, colon, label = section.partition(":")
    settings = file.sections[section]
    is_new_api = "url" in settings
    if is_new_api and not colon:
        entries.pop(name, None)
    entry = entries.setdefault(name, _Entry())
    if colon:
        earlier = {} if is_new_api else entry.labels.get(label, {})
        entry.labels[label] = {**earlier, **settings}
        entry.label_places[label] = (file.source, file.lines[section])
    else:
        entry.settings = {**(entry.settings or {}), **settings}
    if file.source not in entry.sources:
        entry.sources.append(file.source)
    entry.problems += [problem for problem in file.problems if problem.section == section]
    if name == _RESERVED_NAME:
        message = "there are no defaults for all profiles: repeat shared keys in each profile"
        _add_problem(entry, file, section, message)
    elif not is_name(name) or (colon and not label):
        message = "write it as [name] or [name:label], the name of letters, digits, . _ and -"
        _add_problem(entry, file, section, message)


def _add_problem(entry: _Entry, file: IniFile, section: str, message: str) -> None:
    entry.problems.append(Problem(file.source, file.lines[section], section, "", message))


def is_name(name: str) -> bool:
    """Whether a profile may have this name."""
    return name != _RESERVED_NAME and _NAME.fullmatch(name) is not None


# From settings to a profile


def _build_profile(name: str, entry: _Entry) -> Tuple[Profile, List[Problem]]:
    """A profile with its labels, from its valid settings, and the problems with the others."""
    problems = list(entry.problems)
    settings = entry.settings or {}
    profile = Profile(name=name)._replace(**_read_settings(name, settings, problems))
    labels: Dict[str, Profile] = {}
    for label, label_settings in entry.labels.items():
        section = "%s:%s" % (name, label)
        if entry.settings is None and is_name(name):
            source, line = entry.label_places[label]
            message = "there is no [%s] to inherit from" % name
            problems.append(Problem(source, line, section, "", message))
        values = _read_settings(section, label_settings, problems)
        values["headers"] = merge_headers(profile.headers, values.get("headers", {}))
        labels[label] = profile._replace(label=label, **values)
        problems += _find_contradictions(section, label_settings, labels[label])
        problems += _find_equal_size(section, label_settings, labels)
    profile = profile._replace(labels=labels)
    return profile, problems + _find_contradictions(name, settings, profile)


def _problem(setting: Setting, section: str, key: str, message: str) -> Problem:
    return Problem(setting.source, setting.line, section, key, message)


def _find_contradictions(section: str, settings: Settings, profile: Profile) -> List[Problem]:
    """The keys of this section that contradict others."""
    return [
        _problem(settings[key], section, key, message)
        for key, message in contradictions(profile)
        if key in settings
    ]


def _find_equal_size(section: str, settings: Settings, labels: Dict[str, Profile]) -> List[Problem]:
    """A problem if the latest label has the `up_to` of an earlier one."""
    *earlier, latest = labels.values()
    for other in earlier:
        if latest.up_to is not None and latest.up_to == other.up_to:
            message = "is the same as for %s, so no size would select this label" % other.label
            return [_problem(settings["up_to"], section, "up_to", message)]
    return []


def _read_settings(section: str, settings: Settings, problems: List[Problem]) -> Dict[str, Any]:
    """The fields of the profile that a section sets; adds its mistakes to `problems`."""
    fields: Dict[str, Any] = {}
    headers: Dict[str, str] = {}
    # The lines of headers by file: a later file may write a header in other letter case.
    header_lines: Dict[Tuple[str, str], int] = {}
    for key, setting in settings.items():
        try:
            if key.startswith(HEADER):
                name = key[len(HEADER) :]
                first = header_lines.setdefault((setting.source, name.lower()), setting.line)
                if first != setting.line:
                    raise ConfigError("appears twice: first on line %d, in other letters" % first)
                headers = merge_headers(headers, {name: read_header(name, setting.text)})
            elif key not in KEYS:
                raise ConfigError(unknown_key_message(key))
            elif key == "up_to" and ":" not in section:
                raise ConfigError(
                    "belongs to a label: put it in a section such as [%s:small]" % section
                )
            else:
                folder = os.path.dirname(os.path.abspath(os.path.expanduser(setting.source)))
                fields[key] = read_key(key, setting.text, folder)
        except RuleError:
            problems.extend(_rule_problems(setting, section, key))
        except ConfigError as error:
            problems.append(_problem(setting, section, key, str(error)))
    if headers:
        fields["headers"] = headers
    return fields


def _rule_problems(setting: Setting, section: str, key: str) -> Iterator[Problem]:
    """Yield the mistakes of all rules, each with its line."""
    for index, rule in enumerate(split_rules(setting.text)):
        try:
            parse_rules([rule])
        except RuleError as error:
            place = setting._replace(line=setting.line + index)
            yield _problem(place, section, key, str(error))


def _with_base(profile: Profile, base: str) -> Profile:
    """The profile and its labels with another base, if their URLs need one."""
    try:
        validate_base(base)
    except ConfigError as error:
        raise ConfigError("POLLKIT_BASE_URL: %s" % error) from None
    labels = {
        label: one._replace(base=base) if needs_base(one) else one
        for label, one in profile.labels.items()
    }
    if needs_base(profile):
        profile = profile._replace(base=base)
    return profile._replace(labels=labels)
