"""For your own tests: a clock that you move."""
from .edges.clock import VirtualClock

__all__ = ["VirtualClock"]
