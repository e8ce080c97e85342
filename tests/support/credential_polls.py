"""Credentials that a command prints, and polls with a credential."""

import sys

from pollkit import Poller, Profile
from pollkit.testing import VirtualClock


def print_command(text):
    """A credential command that prints text, on any system."""
    return "command:'%s' -c 'import sys; sys.stdout.write(\"%s\")'" % (sys.executable, text)


def poll(server, target="/jobs/1", **settings):
    """The outcome of a wait on a virtual clock."""
    options = {
        name: settings.pop(name)
        for name in ("headers", "max_faults", "on_event")
        if name in settings
    }
    with Poller(Profile(**settings), pace="fixed 1s", clock=VirtualClock(), **options) as poller:
        return poller.poll(server.url(target))
