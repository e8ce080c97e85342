"""Python source without comments and docstrings, for an archive that should be small.

Every other token keeps its line, so that tracebacks name the right lines. The result does not
depend on the Python that makes it.
"""

import io
import tokenize
from typing import List, NamedTuple, Optional, Tuple

_IGNORED = (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING)


class _Cut(NamedTuple):
    """A part of the source to replace; rows count from 1, columns from 0."""

    start: Tuple[int, int]
    end: Tuple[int, int]
    replacement: str


def strip_source(source: bytes, keeps_module_docstring: bool = False) -> bytes:
    """The source without comments and docstrings."""
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
    cuts = []
    before: Optional[int] = None  # the type of the last token that counts
    text: Optional[_Cut] = None  # a string at the start of a block, perhaps a docstring
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        if token.type == tokenize.COMMENT:
            cuts.append(_Cut(token.start, token.end, ""))
        if token.type in _IGNORED:
            continue
        if text is not None and token.type == tokenize.NEWLINE:  # nothing else in the statement
            cuts.append(text)
        text = None
        if before is None:
            can_be_docstring = not keeps_module_docstring
        else:
            can_be_docstring = before == tokenize.INDENT
        if can_be_docstring and token.type == tokenize.STRING:
            # Not nothing: a body may consist of its docstring.
            text = _Cut(token.start, token.end, "0")
        before = token.type
    return sorted(cuts)
