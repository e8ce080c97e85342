"""Marks for slow tests that need to run with one Python only."""

import sys

import pytest

not_with_the_oldest = pytest.mark.skipif(
    sys.version_info < (3, 7), reason="the same on every Python: not with the oldest"
)
only_with_the_oldest = pytest.mark.skipif(
    sys.version_info >= (3, 7), reason="takes up to a minute: with the oldest Python only"
)
