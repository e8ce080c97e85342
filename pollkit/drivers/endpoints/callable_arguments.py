"""The arguments of Poller and BatchPoller for jobs that a function of the user's asks about.

They are apart from `callables`, which a Poller imports when it is given the first callable: that
takes 2 million instructions, and most jobs are URLs.
"""

from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Tuple, Type, Union

from ...errors import ConfigError

Function = Callable[[Any], Any]
if TYPE_CHECKING:  # only annotations in quotes have them: a million instructions less per start
    Check = Callable[[], Any]
    Exceptions = Union[Type[BaseException], Tuple[Type[BaseException], ...]]
    PathOrFunction = Union[str, Function, None]
    WordsOrFunction = Union[str, Iterable[str], Function, None]


def parse_fields(
    status: "PathOrFunction",
    done: "WordsOrFunction",
    failed: "WordsOrFunction",
    result: "PathOrFunction",
) -> "Tuple[Dict[str, Function], Dict[str, Any]]":
    """The functions, and the fields of a profile for the arguments that are paths and words."""
    given = {"status": status, "done": done, "failed": failed, "result": result}
    functions = {name: value for name, value in given.items() if callable(value)}
    fields = {
        name: value for name, value in given.items() if value is not None and name not in functions
    }
    if "done" in functions:
        fields["done"] = ()  # no word means done: the function decides
    return functions, fields


def validate_retry_on(retry_on: "Exceptions") -> "Tuple[Type[BaseException], ...]":
    """The exceptions that count as faults; a ConfigError if one is no exception."""
    kinds = retry_on if isinstance(retry_on, tuple) else (retry_on,)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise ConfigError("retry_on must be exception classes, not %r" % (retry_on,))
    return kinds
