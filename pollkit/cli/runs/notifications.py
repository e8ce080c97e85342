"""The notifications of a run: its options, and the lines about failures."""

import argparse
import re

from ...core.units import to_seconds
from ...errors import ConfigError
from .. import argument_types


def add_notification_options(group: "argparse._ActionsContainer") -> None:
    group.add_argument(
        "--outbox",
        metavar="FILE",
        type=argument_types.path,
        help="append each outcome to this file, as one line of JSON",
    )
    group.add_argument(
        "--exec",
        dest="program",
        nargs=argparse.REMAINDER,
        help="PROGRAM [ARGS...]: run it for each finished job, see above; must be the last flag",
    )
    group.add_argument(
        "--exec-timeout",
        metavar="D",
        type=to_seconds,
        default=60.0,
        help="kill the program after this time (default: 60s)",
    )
    group.add_argument(
        "--exec-env",
        metavar="NAME",
        action="append",
        default=[],
        type=_variable,
        help="let the program inherit this variable, although it holds a credential; "
        "may be repeated",
    )
    group.add_argument(
        "--metrics",
        metavar="FILE",
        type=argument_types.path,
        help="write metrics for Prometheus' node_exporter to this file (.prom)",
    )


def _variable(text: str) -> str:
    if not re.fullmatch(r"[\w.-]+", text):
        raise ConfigError("give only the name of an environment variable")
    return text
