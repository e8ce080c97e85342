"""The four transports, for suites that run over all of them."""

from pollkit.edges.http.adapters.catalog import named_adapter
from programs import needs_program

NAMES = ["builtin", "urllib", "requests", "curl"]


def adapter_for(name):
    """The adapter of a transport; None for the built-in one."""
    if name == "curl":
        needs_program("curl")
    return named_adapter(name)
