"""Python source without comments, docstrings and the annotations of functions.

This is for an archive that should be small and start fast.

Every other token keeps its line, so that tracebacks name the right lines. The result does not
depend on the Python that makes it.
"""

import io
import tokenize
from typing import Iterator, List, NamedTuple, Optional, Tuple

_IGNORED = (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING)
_OPENING = ("(", "[", "{")
_CLOSING = (")", "]", "}")
_ENDS_OF_PARAMETERS = ((1, ","), (1, "="), (0, ")"))  # depth of brackets, token


class _Cut(NamedTuple):
    """A part of the source to replace; rows count from 1, columns from 0."""

    start: Tuple[int, int]
    end: Tuple[int, int]
    replacement: str


def strip_source(source: bytes, keeps_module_docstring: bool = False) -> bytes:
    """The source without comments, docstrings and the annotations of functions."""
    lines = source.decode("utf-8").split("\n")
    for cut in reversed(_find_cuts(source, keeps_module_docstring)):
        first, start = cut.start
        last, end = cut.end
        rest = lines[last - 1][end:]
        lines[first - 1] = (lines[first - 1][:start] + cut.replacement + rest).rstrip()
        for row in range(first, last):  # the other lines of a docstring stay, empty
            lines[row] = ""
    return "\n".join(lines).encode("utf-8")


def _find_cuts(source: bytes, keeps_module_docstring: bool) -> List[_Cut]:
    tokens = list(tokenize.tokenize(io.BytesIO(source).readline))
    comments = [token for token in tokens if token.type == tokenize.COMMENT]
    rest = [token for token in tokens if token.type not in _IGNORED]
    cuts = [_Cut(token.start, token.end, "") for token in comments]
    cuts += _find_docstrings(rest, keeps_module_docstring)
    cuts += _find_annotations(rest)
    return sorted(cuts)


def _find_docstrings(
    tokens: List[tokenize.TokenInfo], keeps_module_docstring: bool
) -> Iterator[_Cut]:
    before: Optional[int] = None  # the type of the last token
    text: Optional[_Cut] = None  # a string at the start of a block, perhaps a docstring
    for token in tokens:
        if text is not None and token.type == tokenize.NEWLINE:  # nothing else in the statement
            yield text
        text = None
        if before is None:
            can_be_docstring = not keeps_module_docstring
        else:
            can_be_docstring = before == tokenize.INDENT
        if can_be_docstring and token.type == tokenize.STRING:
            # Not nothing: a body may consist of its docstring.
            text = _Cut(token.start, token.end, "0")
        before = token.type


def _find_annotations(tokens: List[tokenize.TokenInfo]) -> Iterator[_Cut]:
    """The annotations of parameters and return values, if they are on one line."""
    depth: Optional[int] = None  # of brackets in a signature; None elsewhere
    is_return = False  # whether the annotation is that of the return value
    is_default = False  # in a default, a colon belongs to a lambda or a dictionary
    start: Optional[Tuple[int, int]] = None  # of an annotation
    before = (0, 0)  # the end of the last token
    for token in tokens:
        text = token.string
        if text == "def":
            depth = 0
            is_return = False
        elif depth is not None:
            depth += (text in _OPENING) - (text in _CLOSING)
            ends_parameter = (depth, text) in _ENDS_OF_PARAMETERS and not is_return
            ends_signature = (depth, text) == (0, ":")
            if ends_parameter or ends_signature:
                if start is not None and start[0] == before[0]:
                    yield _Cut(start, before, "")
                start = None
                is_default = text == "="
            if ends_signature:
                depth = None
            elif (depth, text) == (0, "->"):
                is_return = True
                start = before
            elif (depth, text) == (1, ":") and not is_default and not is_return:
                start = before
        before = token.end
