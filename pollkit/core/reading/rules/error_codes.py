"""The error codes that a reply carries, wherever APIs put them.

header x-amzn-errortype    AWS: ResourceNotFoundException:http://internal/...
__type                     AWS: com.amazonaws#ResourceNotFoundException
error.code, Error.Code     most others; Google has a word at error.status, too
code                       only if the HTTP status is an error: elsewhere it may mean success
"""

from typing import Any, List, Mapping, Optional, Tuple

from ..fields.json_paths import Path

LONGEST_CODE = 200  # characters
_HEADER = "x-amzn-errortype"


def _paths(text: str) -> Tuple[Path, ...]:
    return tuple(map(Path, text.split()))


_ANYWHERE = _paths(
    "error.code error.status Error.Code errors.0.code error_code errorCode ErrorCode"
)
_IN_ERRORS = _paths("__type code Code error errorType")


def find_error_codes(
    data: Any, http: Optional[int], headers: Mapping[str, str]
) -> Optional[Tuple[str, ...]]:
    """The error codes of a reply, which may be none; None if the reply is no error."""
    is_error = http is not None and http >= 400
    values: List[Any] = [path.find(data) for path in _ANYWHERE]
    if is_error:
        values += [headers.get(_HEADER)] + [path.find(data) for path in _IN_ERRORS]
    codes = tuple(filter(None, map(_code_text, values)))
    return codes if codes or is_error else None


def _code_text(value: Any) -> str:
    """A code without its namespace before '#' and the address after ':'; 0 is no error."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not isinstance(value, str) and not is_number:
        return ""
    code = str(value)[:LONGEST_CODE].rpartition("#")[2].partition(":")[0].strip()
    return "" if code == "0" else code
