"""The callbacks of a run: its options, and the listener."""

import argparse
from contextlib import contextmanager
from typing import TYPE_CHECKING, Iterator, List, Optional

from ...core.profiles.profile import Profile
from ...edges.ledger.places import is_database
from ...errors import ConfigError
from ..output.streams import write_message

if TYPE_CHECKING:
    from ...drivers.listener import Listener


def add_callback_options(group: "argparse._ActionsContainer") -> None:
    group.add_argument(
        "--listen",
        metavar="ADDRESS",
        help="receive callbacks at this address, such as 127.0.0.1:8099, and poll the jobs that "
        "they name at once; needs --listen-secret; see pollkit help callbacks",
    )
    group.add_argument(
        "--listen-secret",
        metavar="SPEC",
        help="the secret that callbacks are signed with: env:VAR or file:PATH",
    )


def check_callback_options(arguments: argparse.Namespace) -> None:
    """Raise ConfigError if --listen lacks its secret, or would have no effect."""
    if arguments.listen is None:
        if arguments.listen_secret is not None:
            raise ConfigError("--listen-secret needs --listen ADDRESS")
        return
    if arguments.listen_secret is None:
        raise ConfigError(
            "--listen needs --listen-secret env:VAR or file:PATH: callbacks without a signature "
            "are refused"
        )
    if arguments.once:
        raise ConfigError("--listen has no effect with --once, which does not wait: use --for")


def secret_variables(arguments: argparse.Namespace) -> List[str]:
    """The environment variables with the secret of callbacks, and with the ledger's password."""
    kind, _, name = (arguments.listen_secret or "").partition(":")
    variables = [name] if kind == "env" else []
    if is_database(arguments.ledger):
        variables.append("PGPASSWORD")
    return variables


@contextmanager
def open_listener(
    arguments: argparse.Namespace, profile: Profile
) -> "Iterator[Optional[Listener]]":
    """The listener that --listen asks for, if it does; it listens, but has no thread yet."""
    if arguments.listen is None:
        yield None
        return
    from ...drivers.listener import Listener  # late: most runs have none
    from ...edges.credentials import read_callback_secret

    def warn(text: str) -> None:
        if not arguments.quiet:
            write_message("warning: --listen: " + text)

    with _name_flag("--listen-secret"):
        secret = read_callback_secret(arguments.listen_secret)
    with _name_flag("--listen"):
        listener = Listener(arguments.listen, secret, profile, warn)
    try:
        yield listener
    finally:
        listener.close()


@contextmanager
def _name_flag(flag: str) -> Iterator[None]:
    """Errors in the block begin with the name of a flag."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError("%s: %s" % (flag, error)) from None
