"""Print the longer documentation, which comes along with the program.

examples:
  pollkit help              the topics
  pollkit help profiles     how to describe an API
"""
import argparse
import sys
from pkgutil import get_data

from ...errors import ConfigError
from .. import COMMANDS, help_text
from ..running import unknown

TOPICS = {
    "profiles": "how to describe an API in a file",
    "simulate": "which pace is best: what pollkit simulate prints, and its scenarios",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("topic", nargs="?", help="one of: " + ", ".join(TOPICS))


def run(arguments: argparse.Namespace) -> int:
    """Print a topic, or the list of them."""
    sys.stdout.write(text_of(arguments.topic) if arguments.topic else
                     help_text() + "\nTopics for pollkit help TOPIC:\n" + topic_list())
    return 0


def topic_list() -> str:
    """The topics, a line each."""
    return "".join("  %-16s %s\n" % line for line in TOPICS.items())


def text_of(topic: str) -> str:
    """A topic's text, which is a file of the package: readable from a zip, too."""
    if topic in COMMANDS and topic not in TOPICS:
        raise ConfigError("%s is a command: see pollkit %s --help" % (topic, topic))
    if topic not in TOPICS:
        raise ConfigError(unknown("topic", topic, list(TOPICS)) + "; pollkit help lists the topics")
    return (get_data("pollkit.cli", "topics/%s.txt" % topic) or b"").decode("utf-8")
