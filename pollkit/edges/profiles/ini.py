"""INI files as they are written: sections, keys, texts, and the line each stands on.

configparser reads the texts. It stops at the first key that stands twice, and forgets line
numbers, so a scan beside it, by the same rules of indentation, notes where everything is.
"""

import configparser
import os
import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

from ...errors import ConfigError

LARGEST = 1000000
_COMMENT = re.compile(r"(?:^|(?<=\s));.*")
_SECTION = re.compile(r"\[(?P<header>[^]]+)\]$")
_KEY = re.compile(r"([^=:]*?)\s*[=:]")
BUILT_IN = "built in"


class Problem(NamedTuple):
    """What is wrong in a file, and where."""

    source: str
    line: int
    section: str
    key: str
    what: str

    def __str__(self) -> str:
        where = "%s:%d:" % (self.source, self.line) if self.line else self.source + ":"
        section, key = "[%s]" % self.section if self.section else "", self.key and self.key + ":"
        return " ".join(
            part
            for part in (where, section if key else section and section + ":", key, self.what)
            if part
        )


class Setting(NamedTuple):
    """A key's text, and where it stands."""

    text: str
    source: str
    line: int


class IniFile(NamedTuple):
    """A file that could be parsed: its sections, and what is wrong with some of them."""

    source: str
    sections: Dict[str, Dict[str, Setting]]
    lines: Dict[str, int]
    problems: List[Problem]


def read_text(path: str, optional: bool = False) -> Optional[str]:
    """A file's text; None for an optional file that isn't there; otherwise a ConfigError."""
    try:
        with open(os.path.expanduser(path), "rb") as file:
            content = file.read(LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        if optional:
            return None
        raise ConfigError("can't read the profile file %s: %s" % (path, error.strerror)) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or "not a usable path"
        raise ConfigError("can't read the profile file %s: %s" % (path, reason)) from None
    if len(content) > LARGEST:
        raise ConfigError("the profile file %s is too large: over %d bytes" % (path, LARGEST))
    if b"\0" in content:
        raise ConfigError("the profile file %s is not text" % path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            "the profile file %s is not UTF-8 text: see line %d" % (path, line)
        ) from None


def parse(source: str, text: str) -> IniFile:
    """A file taken apart. Problems without a section are those of the file as a whole."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    problems: List[Problem] = []
    parser = _parsed(lines)
    if isinstance(parser, configparser.MissingSectionHeaderError):
        problems.append(
            Problem(source, parser.lineno, "", "", "a [section] must come before anything else")
        )
        _empty_before_sections(lines)
        parser = _parsed(lines)
    if isinstance(parser, configparser.ParsingError):
        # Emptied, so that what is wrong elsewhere is found, too. Not quoted: it may be a secret.
        for number, _ in getattr(parser, "errors", ()):
            problems.append(
                Problem(source, number, "", "", "this is neither [section] nor key = value")
            )
            lines[number - 1] = ""
        parser = _parsed(lines)
    if isinstance(parser, configparser.Error):
        return IniFile(
            source, {}, {}, problems or [Problem(source, 0, "", "", "this is not an INI file")]
        )
    places, repeated = _scan(source, lines)
    sections = {
        name: {
            key: Setting(value, source, places.get((name, key), 0))
            for key, value in parser.items(name)
        }
        for name in parser.sections()
    }
    return IniFile(
        source,
        sections,
        {name: places.get((name, ""), 0) for name in sections},
        problems + repeated,
    )


class _Parser(configparser.ConfigParser):
    SECTCRE = _SECTION  # Pythons differ about [a]b]; and what follows a header is no comment unless it says so


def _parsed(lines: List[str]) -> Union[configparser.ConfigParser, configparser.Error]:
    parser = _Parser(
        interpolation=None,
        strict=False,
        default_section="\n",
        comment_prefixes=("#", ";"),
        inline_comment_prefixes=(";",),
        empty_lines_in_values=False,
    )
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_file([line + "\n" for line in lines])
    except configparser.Error as error:
        return error
    return parser


def _empty_before_sections(lines: List[str]) -> None:
    for index, line in enumerate(lines):
        if _SECTION.match(_bare(line).strip()):
            return
        lines[index] = ""


def _bare(line: str) -> str:
    """A line without its comment."""
    return "" if line.lstrip().startswith("#") else _COMMENT.sub("", line)


def _scan(source: str, lines: List[str]) -> Tuple[Dict[Tuple[str, str], int], List[Problem]]:
    """Where every section and key stands, and those that stand twice."""
    places: Dict[Tuple[str, str], int] = {}
    problems = []
    for number, section, key in _heads(lines):
        first = places.setdefault((section, key), number)
        if first != number:
            problems.append(
                Problem(
                    source, number, section, key, "stands twice: it is on line %d already" % first
                )
            )
    return places, problems


def _heads(lines: List[str]) -> Iterator[Tuple[int, str, str]]:
    """The lines that begin something: number, section, and key ('' for the section's own line)."""
    section, key, level = "", "", 0
    for number, line in enumerate(lines, 1):
        text = _bare(line)
        indent = len(text) - len(text.lstrip())
        text = text.strip()
        if not text:
            key = ""  # an empty line, or one of comment, ends a value
            continue
        if key and indent > level:
            continue
        level = indent
        header, option = _SECTION.match(text), _KEY.match(text)
        if header:
            section, key = header.group(1), ""
            yield number, section, ""
        elif option:
            key = option.group(1)
            yield number, section, key
