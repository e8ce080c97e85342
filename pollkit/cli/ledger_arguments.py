"""What the commands that look into a ledger have in common."""

import argparse
import sys
from typing import List

from ..core.model import one_line
from ..edges.ledger.ledger import Ledger
from . import options as flags


def add_ledger(parser: argparse.ArgumentParser) -> None:
    """The argument that names the ledger."""
    parser.add_argument("ledger", metavar="LEDGER", type=flags.path, help="the ledger's file")


def add_ids(parser: argparse.ArgumentParser, about: str) -> None:
    """The arguments that name jobs."""
    parser.add_argument("ids", metavar="ID", nargs="*", help=about)


def open_ledger(arguments: argparse.Namespace) -> Ledger:
    """The ledger, which must be there."""
    return Ledger(arguments.ledger, create=False, warn=lambda text: say("warning: " + text))


def say(text: str) -> None:
    """A line for people, on stderr."""
    sys.stderr.write("pollkit: %s\n" % one_line(text, 600))


def listed(names: List[str], most: int = 10) -> str:
    """Names in a line, not all of them if there are many."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
