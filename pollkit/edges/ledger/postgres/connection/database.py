"""The database of a ledger: one connection per process, transactions, and what to do in trouble.

No transaction is open while its process waits for something else. If the connection is lost, or
the server restarts or is read-only during a fail-over, the work is repeated until it succeeds,
with a random delay, for PATIENCE_S. That is shorter than a lease minus the time between two
renewals: a run that can't reach the server stops before another host claims its jobs.

Work may therefore run twice: the answer of the server may be lost after it has committed. Every
statement of this package allows for that.
"""

import os
import random
import threading
import time
from typing import Any, Callable, List, Optional, Tuple, TypeVar

from .....core.model import one_line
from .....errors import LedgerError
from ....clock import Clock
from ...stored_jobs import LedgerTime
from .. import schema
from .address import parse_address
from .drivers import NO_PASSWORD, SERVICE_FILE, Driver, error_code, error_text, load_driver
from .session import Row, Session

STARTING = "57P03"  # the server is starting or stopping
PATIENCE_S = 30.0  # how long to repeat work while the server can't be reached
HURRY_S = 5.0  # how long `hurry` lasts
LONGEST_DELAY_S = 2.0  # between two attempts
MEASURE_S = 10.0  # how often to compare the clocks

_T = TypeVar("_T")
Work = Callable[[Session], _T]

# SQLSTATEs: a restart, a fail-over, too many connections, a broken connection.
_PASSING = (
    "57P01",
    "57P02",
    "57P03",
    "57P05",
    "25P03",
    "25006",
    "53300",
    "40001",
    "40P01",
    "55P03",
)
_EXPLANATIONS = {
    NO_PASSWORD: "the server needs a password: put it in ~/.pgpass (PGPASSFILE), which only you "
    "may read (chmod 600), in a service file or in PGPASSWORD",
    "28P01": "the server refused the password: put the right one in ~/.pgpass (PGPASSFILE) or "
    "PGPASSWORD",
    "28000": "the server refused the user: check the user in the URL, and the server's pg_hba.conf",
    "3D000": "there is no such database: create it with createdb",
    "42501": "the user may not use the tables: GRANT the rights, or name the owner in the URL",
    "25006": "the server is read-only (a standby, or a fail-over that has not ended): name the "
    "primary, or all servers: postgresql://USER@ONE,TWO/DATABASE",
    "53300": "the server has too many connections: raise max_connections, or use PgBouncer",
    "53100": "the disk of the server is full: make room; all that was written is safe",
    STARTING: "the server is starting or stopping: try again",
    "42P01": "the tables of the ledger are gone: was the schema 'pollkit' dropped?",
}
_inherited: List[Any] = []  # connections of the parent process, which must not be closed here


class Database:
    """A database that has, or will have, the tables of a ledger."""

    def __init__(
        self, url: str, clock: Clock, create: bool = True, needs_tables: bool = True
    ) -> None:
        self.address = parse_address(url)
        self.name = self.address.name
        self.clock = clock
        self._driver: Driver = load_driver()
        self.driver_name = self._driver.name
        self._lock = threading.RLock()
        self._connection: Any = None
        self._pid = os.getpid()
        self._hurried_until = 0.0
        self._offset = 0.0
        self._measured_at: Optional[float] = None
        self.shard = random.randrange(32)
        self._connect_once()
        if needs_tables:
            self._prepare_tables(create)

    def query(self, statement: str, *values: object) -> List[Row]:
        """Execute one statement, atomically; its rows."""
        if not self._driver.is_atomic:
            return self.run(lambda db: db.query(statement, *values))
        return self._repeat(lambda db: db.query(statement, *values))

    def run(self, work: Work[_T]) -> _T:
        """The result of `work(db)`, run in a transaction; it may run more than once."""

        def attempt(db: Session) -> _T:
            db.query("BEGIN ISOLATION LEVEL READ COMMITTED")
            try:
                result = work(db)
            except (LedgerError, ValueError):  # also a ConfigError
                db.query("ROLLBACK")
                raise
            db.query("COMMIT")
            return result

        return self._repeat(attempt)

    def time(self) -> LedgerTime:
        """This instant on the server's clock, which is ledger time."""
        virtual_now = self.clock.server_now()
        now = self.clock.now()
        if virtual_now is not None:
            self._offset = virtual_now - now
        elif self._measured_at is None or now >= self._measured_at + MEASURE_S:
            self.measure()
        ledger_now = now + self._offset
        return LedgerTime(ledger_now, self._offset, self.clock.wall() - ledger_now)

    def time_at(self, server_now: float) -> LedgerTime:
        """The time, from an answer that has just arrived with the server's `$now`."""
        now = self.clock.now()
        self._offset = server_now - now
        self._measured_at = now
        return LedgerTime(server_now, self._offset, self.clock.wall() - server_now)

    def measure(self) -> None:
        """Compare the clocks of this host and the server."""
        before = self.clock.now()
        ((server_now,),) = self.query("SELECT $now")
        after = self.clock.now()
        self._offset = server_now - (before + after) / 2
        self._measured_at = after

    def close(self) -> None:
        """Close the connection; it is opened again when it is next used."""
        with self._lock:
            connection = self._connection
            self._connection = None
            if connection is None:
                return
            if os.getpid() != self._pid:
                _inherited.append(connection)  # to close it would end the parent's session
                return
            try:
                connection.close()
            except self._driver.errors:
                pass  # it is closed

    def hurry(self) -> None:
        """Repeat no work in the next few seconds; see Storage."""
        self._hurried_until = time.monotonic() + HURRY_S

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None:
            self.close()

    def _connect_once(self) -> None:
        """Connect without patience: the address may be wrong."""
        try:
            with self._lock:
                self._session()
        except self._driver.errors as error:
            if error_code(error) != STARTING:
                raise self._explain(error) from None

    def _prepare_tables(self, create: bool) -> None:
        """Check the tables, or create them."""
        encoding, version = self.run(
            lambda db: (db.query("SHOW server_encoding")[0][0], schema.read_version(db))
        )
        if encoding != "UTF8":
            raise LedgerError(
                "%s has the encoding %s: a ledger needs UTF8: createdb -E UTF8 -T template0"
                % (self.name, encoding)
            )
        if version is not None:
            schema.check_version(version, self.name)
        elif create:
            self._create()
        else:
            raise LedgerError("%s has no ledger yet ('pollkit add' makes one)" % self.name)

    def _create(self) -> None:
        """Create the tables, unless another process is faster."""
        try:
            self.run(schema.migrate)
        except LedgerError:
            version = self.run(schema.read_version)
            if version is None:
                raise
            schema.check_version(version, self.name)

    def _repeat(self, work: Work[_T]) -> _T:
        """The result of `work`; repeated while the trouble is likely to pass."""
        give_up_at: Optional[float] = None
        delay_s = 0.05
        while True:
            try:
                with self._lock:
                    try:
                        return work(self._session())
                    except (LedgerError, ValueError):
                        raise
                    except BaseException:
                        self.close()  # its state is unknown
                        raise
            except self._driver.errors as error:
                now = time.monotonic()
                if give_up_at is None:
                    give_up_at = now + PATIENCE_S
                is_time_up = now >= give_up_at or now < self._hurried_until
                if is_time_up or not self._is_passing(error):
                    raise self._explain(error) from error
            time.sleep(random.uniform(0.2, 1.0) * delay_s)  # so that hosts don't come all at once
            delay_s = min(2 * delay_s, LONGEST_DELAY_S)

    def _session(self) -> Session:
        if os.getpid() != self._pid:  # a forked child
            self.close()
            self._pid = os.getpid()
        if self._connection is None:
            self._connection = self._driver.connect(self.address)
        return Session(self._connection, self.clock.server_now())

    def _is_passing(self, error: BaseException) -> bool:
        code = error_code(error)
        if code is not None:
            return code in _PASSING or code.startswith("08")
        module = self._driver.module
        return isinstance(error, (module.OperationalError, module.InterfaceError, OSError))

    def _explain(self, error: BaseException) -> LedgerError:
        code = error_code(error)
        text = one_line(error_text(error).partition("\n\tIs the server")[0])
        if code == SERVICE_FILE:
            return LedgerError(
                "%s can't be used: %s: check the name of the service (PGSERVICE, or service in the "
                "URL) and its file: PGSERVICEFILE, or ~/.pg_service.conf"
                % (self.name, text.replace("connection is bad: ", ""))  # as psycopg says
            )
        if code in _EXPLANATIONS:
            return LedgerError("%s: %s" % (self.name, _EXPLANATIONS[code]))
        if code is None and self._is_passing(error):
            return LedgerError(
                "%s can't be reached: %s: is the server running, and the address right?"
                % (self.name, text)
            )
        return LedgerError("%s can't be used: PostgreSQL says %r" % (self.name, text))


class DatabaseTables:
    """A part of the storage: some of the tables of the database."""

    def __init__(self, database: Database) -> None:
        self._database = database


def migrate_database(url: str, clock: Clock) -> Tuple[int, int]:
    """Apply the missing migrations to a ledger; its version before and after."""
    database = Database(url, clock, needs_tables=False)
    try:
        before = database.run(schema.read_version)
        if before is None:
            raise LedgerError("%s has no ledger yet ('pollkit add' makes one)" % database.name)
        database.run(schema.migrate)
        after = database.run(schema.read_version) or 0
        schema.check_version(after, database.name)
        return before, after
    finally:
        database.close()
