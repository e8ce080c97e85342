"""Drivers for PostgreSQL: psycopg 3, psycopg2 or pg8000, whichever can be imported.

A connection is in autocommit mode, so that no transaction begins unasked. Nothing is set for the
session, and no statement is prepared: PgBouncer may run each transaction in another session.
"""

import os
import re
import socket
from importlib import import_module
from typing import Any, Dict, Optional, Tuple, Type

from .....errors import LedgerError
from .address import Address, find_password, resolve

CONNECT_S = 10
READ_ONLY = "session is read-only"  # libpq's words for a standby among several hosts
NO_PASSWORD = "no password"  # that libpq and pg8000 have in their errors; here also a code
SERVICE_FILE = "service file"  # a code: libpq finds no such service, or can't read its file
SILENCE_MS = 15000  # a server that acknowledges nothing for so long is gone
NAMES = ("psycopg", "psycopg2", "pg8000.dbapi")


class Driver:
    """A driver: opens connections, and names its errors."""

    def __init__(self, name: str) -> None:
        self.module: Any = import_module(name)
        self.name = name
        # Whether one statement is one exchange with the server. pg8000 needs several, and without
        # a transaction PgBouncer may send them to different sessions.
        self.is_atomic = name != "pg8000.dbapi"
        self.errors: Tuple[Type[BaseException], ...] = (self.module.Error, OSError)

    def connect(self, address: Address) -> Any:
        """A new connection."""
        if not self.is_atomic:
            return self._connect_pg8000(address)
        options: Dict[str, Any] = {
            "connect_timeout": CONNECT_S,
            "application_name": "pollkit",
            "keepalives_idle": 5,
            "keepalives_interval": 5,
            "keepalives_count": 2,
        }
        if "," in address.parameters.get("host", ""):
            options["target_session_attrs"] = "read-write"  # after a fail-over, the new primary
        options = {name: options[name] for name in options if name not in address.parameters}
        if self.name == "psycopg":
            connection = self.module.connect(
                address.url, autocommit=True, prepare_threshold=None, **options
            )
        else:
            connection = self.module.connect(address.url, **options)
            connection.autocommit = True
        _bound_silence(connection.fileno())
        return connection

    def _connect_pg8000(self, address: Address) -> Any:
        parameters = resolve(address)
        hosts = parameters["host"].split(",")
        ports = parameters["port"].split(",")
        has_standby = False
        for number, host in enumerate(hosts):
            port = ports[number % len(ports)] or "5432"
            try:
                connection = self._connect_to(host, port, parameters)
                if len(hosts) == 1 or _is_writable(connection):
                    return connection
                has_standby = True
                connection.close()
            except self.errors:
                is_last = number == len(hosts) - 1
                if is_last and not has_standby:
                    raise
        # As libpq (target_session_attrs); it also says more than that the primary does not answer.
        raise self.module.OperationalError(READ_ONLY)

    def _connect_to(self, host: str, port: str, parameters: Dict[str, str]) -> Any:
        options: Dict[str, Any] = {"host": host, "port": int(port)}
        if host.startswith("/"):
            options = {"unix_sock": "%s/.s.PGSQL.%s" % (host, port)}
        else:
            options["ssl_context"] = _ssl_context(parameters)
        password = find_password(parameters, host, port)
        timeout_s = int(parameters.get("connect_timeout") or CONNECT_S)
        try:
            connection = self.module.connect(
                user=parameters["user"],
                database=parameters["dbname"],
                password=password,
                timeout=timeout_s if timeout_s > 0 else None,  # as in libpq
                application_name="pollkit",
                **options,
            )
        except AttributeError:  # it needs a password for SCRAM, and does not check for None
            if password is not None:
                raise
            raise self.module.OperationalError(NO_PASSWORD) from None
        connection.autocommit = True
        connection._usock.settimeout(None)
        _bound_silence(connection._usock.fileno())
        return connection


def _is_writable(connection: Any) -> bool:
    cursor = connection.cursor()
    cursor.execute("SHOW transaction_read_only")
    ((read_only,),) = cursor.fetchall()
    return bool(read_only == "off")


def load_driver() -> Driver:
    """The first driver that can be imported; a LedgerError if there is none."""
    for name in NAMES:
        try:
            return Driver(name)
        except ImportError:  # psycopg raises one, too, if it does not find libpq
            pass
    raise LedgerError(
        "a ledger on PostgreSQL needs psycopg, psycopg2 or pg8000, and none can be imported: "
        "pip install 'pollkit[postgres]'"
    )


# libpq reports no SQLSTATE if a connection is refused, only the text in the server's language.
_TEXTS = (
    ("password", "28P01"),
    ("pg_hba.conf", "28000"),
    ('role "', "28000"),
    ('database "', "3D000"),
    ("too many", "53300"),
    ("remaining connection slots", "53300"),
    ("the database system is", "57P03"),  # starting up, shutting down, in recovery
)


_SERVICE_ERRORS = 'definition of service "|service file "'


def error_code(error: BaseException) -> Optional[str]:
    """The SQLSTATE of an error, NO_PASSWORD or SERVICE_FILE; None if the server sent none."""
    code = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    details = error.args[0] if error.args else None
    if code is None and isinstance(details, dict):
        return details.get("C")
    if code is None and READ_ONLY in str(error):
        return "25006"
    if code is None and NO_PASSWORD in str(error):
        return NO_PASSWORD
    if code is None and re.search(_SERVICE_ERRORS, str(error)):
        return SERVICE_FILE
    if code is None and "FATAL:" in str(error):
        text = str(error).rpartition("FATAL:")[2]
        code = next((code for part, code in _TEXTS if part in text), None)
    return code


def error_text(error: BaseException) -> str:
    """The message of an error."""
    details = error.args[0] if error.args else None
    if isinstance(details, dict):
        return str(details.get("M"))
    # pg8000 does not say why it could not connect.
    cause = error.__cause__
    return str(cause) if isinstance(cause, OSError) else str(error)


def _bound_silence(descriptor: int) -> None:
    """Break the connection if the network no longer delivers anything."""
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    try:
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            if option is not None and copy.family in (socket.AF_INET, socket.AF_INET6):
                copy.setsockopt(socket.IPPROTO_TCP, option, SILENCE_MS)
    except OSError:
        pass  # an unusual socket: the system's own limits apply


def _ssl_context(parameters: Dict[str, str]) -> Any:
    """For pg8000: TLS as sslmode says. 'prefer' is the default, as in libpq."""
    mode = parameters.get("sslmode", "prefer")
    if mode in ("disable", "allow"):
        return _no_tls()
    if mode == "prefer":
        return None  # pg8000 1.31 uses TLS if the server does; earlier ones never do
    import ssl

    authority = parameters.get("sslrootcert") or None
    context = ssl.create_default_context(cafile=authority)
    context.check_hostname = mode == "verify-full"
    if mode == "require" and authority is None:  # with a CA, libpq verifies the certificate, too
        context.verify_mode = ssl.CERT_NONE
    return context


def _no_tls() -> Any:
    """The `ssl_context` that means no TLS: False since pg8000 1.31, None before."""
    version = import_module("pg8000").__version__
    major, minor = version.split(".")[:2]
    return False if (int(major), int(minor)) >= (1, 31) else None
