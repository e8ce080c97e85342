"""The arguments that commands on a ledger have in common."""

import argparse

from ...edges.ledger.ledger import Ledger
from ..output.streams import write_message
from .argument_types import path


def add_ledger(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names the ledger."""
    parser.add_argument(
        "ledger",
        metavar="LEDGER",
        type=path,
        help="the ledger: a file, or postgresql://USER@HOST/DATABASE",
    )


def add_ids(parser: argparse.ArgumentParser, description: str) -> None:
    """Add the arguments that name jobs."""
    parser.add_argument("ids", metavar="ID", nargs="*", help=description)


def open_ledger(arguments: argparse.Namespace, create: bool = False) -> Ledger:
    """Open the ledger; unless `create` is given, it must exist."""
    return Ledger(
        arguments.ledger, create=create, warn=lambda text: write_message("warning: " + text)
    )
