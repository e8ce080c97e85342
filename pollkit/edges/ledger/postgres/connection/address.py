"""The URL of a database: postgresql://USER@HOST:PORT/DATABASE?PARAMETER=VALUE

libpq, which psycopg uses, takes the URL as it is, and reads the password from PGPASSWORD,
PGPASSFILE or a service file. pg8000 does none of that: `resolve` does it instead.
"""

import os
import re
from typing import Dict, List, Mapping, NamedTuple, Optional
from urllib.parse import parse_qsl, unquote

from .....errors import ConfigError, LedgerError
from ...places import DATABASE_SCHEMES

SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_VARIABLES = {  # of the parameters that `resolve` uses
    "host": "PGHOST",
    "port": "PGPORT",
    "dbname": "PGDATABASE",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "passfile": "PGPASSFILE",
    "service": "PGSERVICE",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
}


class Address(NamedTuple):
    """A URL, and the parameters in it."""

    url: str
    name: str  # for messages: the URL without parameters
    parameters: Dict[str, str]


def parse_address(url: str) -> Address:
    """The address; a ConfigError if the URL has a password or makes no sense."""
    scheme = next(each for each in DATABASE_SCHEMES if url.startswith(each))
    place, _, query = url[len(scheme) :].partition("?")
    authority, _, database = place.partition("/")
    userinfo, _, hosts = authority.rpartition("@")
    given = dict(parse_qsl(query, keep_blank_values=True))
    # Up to the last "@": a password may have an unescaped "/", "?", "#" or "@".
    has_password = ":" in url[len(scheme) :].rpartition("@")[0]
    if has_password or any("password" in name for name in given):
        raise ConfigError(
            "the URL of a ledger must not have a password, which others on this host can read: "
            "put it in ~/.pgpass (PGPASSFILE), a service file or PGPASSWORD; write an @ after the "
            "host as %40"
        )
    if not re.fullmatch(r"[^\s\x00-\x1f]*", url):
        raise ConfigError("the URL of a ledger has no spaces: postgresql://USER@HOST/DATABASE")
    names = _split_hosts(hosts)
    parameters = {
        "user": unquote(userinfo),
        "host": ",".join(name for name, _ in names),
        "port": ",".join(port for _, port in names) if any(port for _, port in names) else "",
        "dbname": unquote(database),
    }
    parameters = {name: value for name, value in parameters.items() if value}
    parameters.update(given)
    return Address(url, scheme + place, parameters)


def _split_hosts(hosts: str) -> List[List[str]]:
    """The hosts and ports of 'one:5432,two' or '[::1]:5432'."""
    found = []
    for each in hosts.split(","):
        match = re.fullmatch(r"(\[[^]]*\]|[^:]*)(?::(\d*))?", each)
        if match is None:
            # It is not quoted: it may be a password, if the "@" was forgotten.
            raise ConfigError(
                "the URL of the ledger has no valid host and port: write them as db.internal:5432"
            )
        found.append([unquote(match.group(1).strip("[]")), match.group(2) or ""])
    return found


def resolve(address: Address, environ: Mapping[str, str] = os.environ) -> Dict[str, str]:
    """All parameters: from the URL, then the service file, then the environment, as in libpq."""
    found = dict(address.parameters)
    service = found.get("service") or environ.get("PGSERVICE")
    if service:
        for name, value in _read_service(service, environ).items():
            found.setdefault(name, value)
    for name, variable in _VARIABLES.items():
        if environ.get(variable):
            found.setdefault(name, environ[variable])
    found.setdefault("host", "localhost")
    found.setdefault("port", "5432")
    found.setdefault("user", _user_name())
    found.setdefault("dbname", found["user"])
    _check(found)
    return found


def _check(parameters: Mapping[str, str]) -> None:
    """Raise a LedgerError if pg8000 could not use a parameter; libpq checks them itself."""
    for port in parameters["port"].split(","):
        if port and not (re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 65536):
            raise LedgerError("PostgreSQL: the port must be a number from 1 to 65535")
    if not re.fullmatch("-?[0-9]{1,6}", parameters.get("connect_timeout") or "0"):
        raise LedgerError("PostgreSQL: connect_timeout must be a number of seconds")
    if (parameters.get("sslmode") or SSL_MODES[0]) not in SSL_MODES:
        raise LedgerError("PostgreSQL: sslmode must be one of " + ", ".join(SSL_MODES))


def find_password(parameters: Mapping[str, str], host: str, port: str) -> Optional[str]:
    """The password for a host: PGPASSWORD, or the first line of the password file that matches."""
    if "password" in parameters:
        return parameters["password"]
    path = parameters.get("passfile") or os.path.expanduser("~/.pgpass")
    try:
        if os.name == "posix" and os.stat(path).st_mode & 0o077:
            return None  # as libpq does: others can read it
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    wanted = [host, port, parameters["dbname"], parameters["user"]]
    for line in lines:
        fields = [re.sub(r"\\(.)", r"\1", field) for field in re.findall(_FIELD, line)]
        is_entry = len(fields) == 5 and not line.startswith("#")
        if is_entry and all(f in ("*", value) for f, value in zip(fields, wanted)):
            return fields[4]
    return None


_FIELD = r"(?:^|(?<=:))((?:[^:\\]|\\.)*)(?=:|$)"


def _read_service(service: str, environ: Mapping[str, str]) -> Dict[str, str]:
    import configparser

    paths = [environ.get("PGSERVICEFILE") or os.path.expanduser("~/.pg_service.conf")]
    if environ.get("PGSYSCONFDIR"):
        paths.append(os.path.join(environ["PGSYSCONFDIR"], "pg_service.conf"))
    for path in paths:
        parser = configparser.RawConfigParser(delimiters=("=",), strict=False)
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            raise LedgerError("%s is not a service file of PostgreSQL" % path) from None
        if parser.has_section(service):
            return dict(parser.items(service))
    raise LedgerError("there is no service %r in %s" % (service, " or ".join(paths)))


def _user_name() -> str:
    import getpass

    try:
        return getpass.getuser()
    except Exception:  # KeyError or OSError: the user has no name
        return "postgres"
