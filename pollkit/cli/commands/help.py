"""Print the longer documentation, which comes along with the program.

examples:
  pollkit help              the topics
  pollkit help profiles     how to describe an API
  pollkit help library | less
"""

import argparse
from pkgutil import get_data

from ...errors import ConfigError
from .. import COMMANDS, help_text
from ..output import write
from ..running import unknown_name_error

TOPICS = {
    "profiles": "how to describe an API in a file",
    "paces": "when to look next",
    "limits": "never asking more often than allowed",
    "proxies": "how to get out, and whom to trust: proxies and TLS",
    "cron": "waiting without anybody there",
    "exit-codes": "how it went, for scripts",
    "library": "pollkit in Python",
    "troubleshooting": "what may be wrong, and what to do",
    "simulate": "which pace is best: what pollkit simulate prints, and its scenarios",
}


ALIASES = {"ledger": "cron"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("topic", nargs="?", help="one of: " + ", ".join(TOPICS))


def run(arguments: argparse.Namespace) -> int:
    """Print a topic, or the list of them."""
    write(
        help_text() + "\nTopics for pollkit help TOPIC:\n" + topic_list()
        if arguments.topic is None
        else text_of(arguments.topic)
    )
    return 0


def topic_list() -> str:
    """The topics, a line each."""
    return "".join("  %-16s %s\n" % line for line in TOPICS.items())


def text_of(topic: str) -> str:
    """A topic's text, which is a file of the package: readable from a zip, too."""
    topic = ALIASES.get(topic, topic)
    if topic in COMMANDS and topic not in TOPICS:
        raise ConfigError("%s is a command: see pollkit %s --help" % (topic, topic))
    if topic not in TOPICS:
        raise ConfigError(
            unknown_name_error("topic", topic, list(TOPICS)) + "; pollkit help lists the topics"
        )
    return (get_data("pollkit.cli", "topics/%s.txt" % topic) or b"").decode("utf-8")
