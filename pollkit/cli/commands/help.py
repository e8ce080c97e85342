"""Print the longer documentation, which is part of the program.

examples:
  pollkit help              the topics
  pollkit help profiles     how to describe an API
  pollkit help library | less
"""

import argparse
from pkgutil import get_data

from ...errors import ConfigError
from ..main import COMMANDS, help_text
from ..output import write
from ..parser import unknown_name_error

TOPICS = {
    "profiles": "how to describe an API in a file",
    "paces": "when to poll next",
    "limits": "how to stay within an API's rate limit",
    "proxies": "how to reach a server: proxies and TLS",
    "transports": "how to poll with the HTTP client that you have",
    "cron": "how to wait for jobs from cron, with a ledger",
    "exit-codes": "how a command went, for scripts",
    "library": "how to use pollkit from Python",
    "testing": "how to test code that waits for jobs",
    "guarantees": "what pollkit always does, and what it does not do",
    "troubleshooting": "what may be wrong, and what to do",
    "simulate": "how to find the best pace for your jobs",
}
ALIASES = {"ledger": "cron"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("topic", nargs="?", help="one of: " + ", ".join(TOPICS))


def run(arguments: argparse.Namespace) -> int:
    """Print a topic, or the list of topics."""
    if arguments.topic is None:
        topics = "".join("  %-16s %s\n" % line for line in TOPICS.items())
        write(help_text() + "\nTopics for pollkit help TOPIC:\n" + topics)
    else:
        write(text_of(arguments.topic))
    return 0


def text_of(topic: str) -> str:
    """The text of a topic, from a file of the package, which may be a zip."""
    topic = ALIASES.get(topic, topic)
    if topic in COMMANDS and topic not in TOPICS:
        raise ConfigError("%s is a command: see pollkit %s --help" % (topic, topic))
    if topic not in TOPICS:
        problem = unknown_name_error("topic", topic, list(TOPICS))
        raise ConfigError(problem + "; pollkit help lists the topics")
    return (get_data("pollkit.cli", "topics/%s.txt" % topic) or b"").decode("utf-8")
