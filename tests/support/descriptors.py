"""The descriptors that this process has open."""

import os

import pytest


def open_descriptors():
    return sorted(os.listdir("/proc/self/fd"), key=int)


needs_proc = pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="descriptors are counted in /proc"
)
