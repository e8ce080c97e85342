"""Callables whose answers a test chooses."""


def script(*answers):
    """A callable that returns one answer after the other."""
    remaining = iter(answers)
    return lambda: next(remaining)
