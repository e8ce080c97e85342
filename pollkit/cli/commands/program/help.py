"""Print the longer documentation, which is part of the program.

pollkit help COMMAND prints the same text as pollkit COMMAND --help. If a topic and a command have
the same name (profiles, simulate, submit), the topic is printed.

examples:
  pollkit help              the commands and topics
  pollkit help profiles     how to describe an API
  pollkit help batch        the flags of a command
  pollkit help library | less
  pollkit help schema > pollkit-schema.json
"""

import argparse
import sys
from pkgutil import get_data

from ....errors import ConfigError
from ...arguments.help_folding import fold_text
from ...arguments.parser import unknown_name_error
from ...main import COMMANDS, build_parser, help_text
from ...output.streams import write
from ...progress.terminal import text_width

TOPICS = {
    "profiles": "how to describe an API in a file",
    "apis": "profiles for ten ways in which APIs report a job",
    "paces": "when to poll next",
    "hold": "long polling: servers that hold a request",
    "limits": "how to stay within an API's rate limit",
    "proxies": "how to reach a server: proxies and TLS",
    "transports": "how to poll with the HTTP client that you have",
    "submit": "how to submit jobs exactly once",
    "results": "how to fetch and save results, and cancel jobs",
    "cron": "how to wait for jobs from cron, with a ledger",
    "scale": "how many jobs one host and several hosts can poll",
    "callbacks": "how to poll at once when another system reports a job",
    "migrate": "how to replace the polling loop that you have",
    "environment": "which environment variables set defaults",
    "exit-codes": "how a command went, for scripts",
    "library": "how to use pollkit from Python",
    "testing": "how to test code that waits for jobs",
    "guarantees": "what pollkit always does, and what it does not do",
    "security": "the promises of pollkit, their tests, and their limits",
    "troubleshooting": "what may be wrong, and what to do",
    "simulate": "how to find the best pace for your jobs",
}
SCHEMA = {"schema": "the JSON Schema of outcomes, log lines and status --json"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    names = ", ".join([*TOPICS, *SCHEMA])
    parser.add_argument(
        "topic", nargs="?", metavar="TOPIC|COMMAND", help="a command, or one of: " + names
    )


def run(arguments: argparse.Namespace) -> int:
    """Print a topic, the help of a command, or the list of both."""
    topic = arguments.topic
    if topic is None:
        names = dict(TOPICS, **SCHEMA)
        topics = "".join("  %-16s %s\n" % line for line in names.items())
        text = help_text() + "\nTopics for pollkit help TOPIC:\n" + topics
        write(fold_text(text, text_width(sys.stdout)))
    elif topic in SCHEMA:
        write(_read_file("schema.json"))
    elif topic in TOPICS:
        write(text_of(topic) + see_also(topic))
    elif topic in COMMANDS:
        build_parser(topic).print_help()
    else:
        problem = unknown_name_error("topic or command", topic, [*TOPICS, *SCHEMA, *COMMANDS])
        raise ConfigError(problem + "; pollkit help lists them")
    return 0


def text_of(topic: str) -> str:
    """The text of a topic."""
    return _read_file("topics/%s.txt" % topic)


def see_also(topic: str) -> str:
    """A line about the command that has the same name as a topic, if there is one."""
    if topic not in COMMANDS:
        return ""
    return "\nThe flags of the command: pollkit %s --help\n" % topic


def _read_file(name: str) -> str:
    """A file of the package, which may be a zip."""
    return (get_data("pollkit.cli", name) or b"").decode("utf-8")
