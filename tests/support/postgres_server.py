"""A real PostgreSQL server on a loopback port, for the tests of this process."""

import atexit
import contextlib
import fcntl
import glob
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from ports import unused_port

USER = "pollkit"
WRITABLE = "-c default_transaction_read_only=off -c client_min_messages=warning"
SETTINGS = {
    "max_connections": "200",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "64MB",
    "max_wal_size": "4GB",
    "log_min_messages": "fatal",
}
# Removes the server if the process that started it was killed: then its stdin ends.
GUARD = """
import os, shutil, signal, sys
sys.stdin.read()
try:
    with open(os.path.join(sys.argv[1], "data", "postmaster.pid")) as file:
        os.kill(int(file.readline()), signal.SIGQUIT)
except (OSError, ValueError):
    pass
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""
# Makes the ledger of a database an empty one again if its tables are those of a new one. That is a
# tenth of the work of removing and creating them.
EMPTY_LEDGER = """
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'pollkit' LOOP
        IF name = 'ledger' THEN
            UPDATE pollkit.ledger SET run_at = NULL WHERE run_at IS NOT NULL;
        ELSIF pg_relation_size(('pollkit.' || name)::regclass) > 65536 THEN
            EXECUTE 'TRUNCATE pollkit.' || name;
        ELSE
            EXECUTE 'DELETE FROM pollkit.' || name;
        END IF;
    END LOOP;
    PERFORM setval(('pollkit.' || sequencename)::regclass, 1, false)
        FROM pg_sequences WHERE schemaname = 'pollkit' AND last_value IS NOT NULL;
END $$"""
# The parts of the tables that a test may have changed: columns, indexes, number of migrations.
DESCRIBE_LEDGER = """
SELECT md5(string_agg(concat_ws(' ', c.oid, c.relfilenode <> 0, a.attname, a.atttypid), ','
    ORDER BY c.oid, a.attnum)) || (SELECT string_agg(l::text, ',') FROM pollkit.ledger l)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = 'pollkit'::regnamespace"""
DONE = "-- done --"
_names = itertools.count(1)
_servers = []
_free = []  # URLs of databases of the shared server without a ledger
_with_ledger = []  # URLs of databases with an empty ledger, and descriptions of its tables
_clusters = []


def find_binary(name):
    """The path of one of PostgreSQL's programs; None if it is not installed."""
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    return shutil.which(name, path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))


def has_driver():
    """Whether this Python can connect to PostgreSQL."""
    for name in ("psycopg", "psycopg2", "pg8000"):
        with contextlib.suppress(ImportError):
            return bool(__import__(name))
    return False


def is_available():
    """Whether the tests of PostgreSQL can run here."""
    return find_binary("initdb") is not None and has_driver()


def skip_unless_available():
    """Skip the test if PostgreSQL or a driver is missing; fail in CI."""
    import pytest  # late: the benchmarks use this module, too

    assert is_available() or os.environ.get("CI") != "true", "CI must have PostgreSQL: see .ci/run"
    if not is_available():
        pytest.skip("needs PostgreSQL, and psycopg, psycopg2 or pg8000")


def unprivileged():
    """Options of a process that must not run as root, as PostgreSQL and PgBouncer."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")

    def drop_privileges():
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)

    return {"preexec_fn": drop_privileges}


def run(*command):
    """Run a command that must not run as root."""
    subprocess.run(
        command,
        check=True,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        **unprivileged(),
    )


def guarded_folder(in_memory=True):
    """A temporary folder, in memory if possible, and the process that removes it."""
    shm = "/dev/shm"
    folder = tempfile.mkdtemp(dir=shm if in_memory and os.access(shm, os.W_OK) else None)
    os.chmod(folder, 0o777)  # of another user, if this one is root
    command = [sys.executable, "-S", "-c", GUARD, folder]
    return folder, subprocess.Popen(command, stdin=subprocess.PIPE)


def unused_cluster():
    """The data of a server that was never started; to copy it takes a tenth of initdb's time.

    All processes that scripts/test.py has started share one.
    """
    if not _clusters:
        shared = os.environ.get("TESTS_SHARED_FOLDER")
        if shared is None:
            folder, guard = guarded_folder()
            pid = os.getpid()
            atexit.register(lambda: os.getpid() == pid and guard.communicate())
            _clusters.append(_create_cluster(folder))
        else:
            with open(os.path.join(shared, "cluster.lock"), "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                _clusters.append(_create_cluster(shared))
    return _clusters[0]


def _create_cluster(folder):
    """The cluster in a folder, which is created if necessary."""
    data = os.path.join(folder, "data")
    if not os.path.exists(data):
        options = ["-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync"]
        run(find_binary("initdb"), "-D", data + ".new", *options)
        os.rename(data + ".new", data)
    return data


class PostgresServer:
    """A server with its data in a temporary folder, in memory if possible.

    Without `is_durable`, it does not wait for its disk: the tests kill processes, not machines.
    """

    def __init__(self, address="127.0.0.1", primary=None, is_durable=False):
        self.folder, self._guard = guarded_folder(in_memory=not is_durable)
        self.settings = dict(SETTINGS, fsync="on" if is_durable else "off")
        self.data = os.path.join(self.folder, "data")
        self.address = address
        self.port = unused_port()
        self.process = None
        self._sessions = {}  # of psql, by database
        if primary is None:
            run("cp", "-a", unused_cluster(), self.data)
        else:
            words = ["-R", "--no-sync", "-c", "fast", "-d", primary.url("postgres")]
            run(find_binary("pg_basebackup"), "-D", self.data, *words)
        if address != "127.0.0.1":
            with open(os.path.join(self.data, "pg_hba.conf"), "a") as file:
                file.write("host all all 0.0.0.0/0 trust\n")
        self.start()

    def start(self):
        settings = dict(self.settings, port=str(self.port), listen_addresses=self.address)
        words = [find_binary("postgres"), "-D", self.data]
        for name, value in settings.items():
            words += ["-c", "%s=%s" % (name, value)]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(
                words,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **unprivileged(),
            )
        self._wait_until_ready()

    def stop(self, signal_number=signal.SIGINT):
        """Stop the server: 'fast' by default, which ends all sessions."""
        self._close_sessions()
        self.process.send_signal(signal_number)
        self.process.wait(30)

    def restart(self, down_s=0.0):
        self.stop()
        time.sleep(down_s)
        self.start()

    def remove(self):
        if self.process.poll() is None:
            self.stop()
        self._guard.communicate()  # it removes the folder

    def use_tls(self, certificate, key):
        """Have the server use TLS, and refuse connections without it."""
        for source, name in ((certificate, "server.crt"), (key, "server.key")):
            path = shutil.copy(source, os.path.join(self.folder, name))
            os.chmod(path, 0o600)
            owner = os.stat(self.data)
            os.chown(path, owner.st_uid, owner.st_gid)
        self.settings["ssl"] = "on"
        self.settings["ssl_cert_file"] = os.path.join(self.folder, "server.crt")
        self.settings["ssl_key_file"] = os.path.join(self.folder, "server.key")
        self.configure_access("hostnossl all all 127.0.0.1/32 reject")

    def configure_access(self, line):
        """Put a line before all others in pg_hba.conf."""
        path = os.path.join(self.data, "pg_hba.conf")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(line + "\n" + text)
        self.restart()

    def url(self, database):
        return "postgresql://%s@%s:%d/%s" % (USER, self.address, self.port, database)

    def new_database(self):
        """The URL of an empty database."""
        name = "ledger_%d" % next(_names)
        self.execute("CREATE DATABASE %s" % name)
        return self.url(name)

    def empty_database(self, url):
        """Remove the ledger; half as much work as a new database."""
        self._reset_sessions(url)
        self.administer(url, "DROP SCHEMA IF EXISTS pollkit CASCADE")

    def empty_ledger(self, url, tables):
        """Remove all from the ledger; whether its tables are still as they were described."""
        self._reset_sessions(url)
        if self.administer(url, "SELECT to_regclass('pollkit.ledger')") == "":
            return False
        self.administer(url, EMPTY_LEDGER)
        return self.describe_ledger(url) == tables

    def describe_ledger(self, url):
        return self.administer(url, DESCRIBE_LEDGER)

    def _reset_sessions(self, url):
        """End the sessions that a test has left, and undo its settings of new ones."""
        self.administer(
            url,
            "ALTER DATABASE %s RESET ALL;"
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            % url.rpartition("/")[2],
        )

    def administer(self, url, statements):
        """Execute statements in a session that stays; their output as text.

        psql and the server take most of their time to begin a session.
        """
        database = url.rpartition("/")[2]
        if database in self._sessions:
            with contextlib.suppress(OSError):
                return self._ask(database, statements)
            self._close_session(database)  # a test has ended it
        self._sessions[database] = subprocess.Popen(
            [find_binary("psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", self.url(database)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(os.environ, PGOPTIONS=WRITABLE),
            universal_newlines=True,
        )
        return self._ask(database, statements)

    def _ask(self, database, statements):
        session = self._sessions[database]
        session.stdin.write("%s;\n\\echo '%s'\n" % (statements, DONE))
        session.stdin.flush()
        lines = []
        for line in session.stdout:
            if line.strip() == DONE:
                return "\n".join(filter(None, lines))
            lines.append(line.strip())
        raise OSError("psql ended: " + " ".join(lines))

    def _close_session(self, database):
        session = self._sessions.pop(database)
        with contextlib.suppress(OSError):
            session.stdin.close()
        session.stdout.close()
        session.wait(10)

    def _close_sessions(self):
        for database in list(self._sessions):
            self._close_session(database)

    def execute(self, statement, database="postgres"):
        """Execute a statement; its output as text."""
        words = ["psql", "-X", "-q", "-A", "-t", "-c", statement, self.url(database)]
        words[0] = find_binary("psql")
        env = dict(os.environ, PGOPTIONS=WRITABLE)
        return subprocess.check_output(words, stderr=subprocess.STDOUT, env=env).decode().strip()

    def _wait_until_ready(self):
        ready = [find_binary("pg_isready"), "-q", "-h", self.address, "-p", str(self.port)]
        until = time.monotonic() + 30
        while subprocess.call(ready) != 0:
            assert self.process.poll() is None and time.monotonic() < until, self._log()
            time.sleep(0.02)

    def _log(self):
        with open(os.path.join(self.folder, "log")) as file:
            return file.read()


BOUNCER = """
[databases]
* = host=127.0.0.1 port=%(server_port)d user=%(user)s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %(port)d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
server_lifetime = 2
ignore_startup_parameters = extra_float_digits
logfile = %(folder)s/pgbouncer.log
"""


class PgBouncer:
    """PgBouncer in transaction mode, with fewer sessions than clients."""

    def __init__(self, server):
        from programs import needs_program
        from raw_server import wait_for

        self.port = unused_port()
        self.folder = tempfile.mkdtemp()
        os.chmod(self.folder, 0o777)
        values = {"server_port": server.port, "user": USER, "port": self.port}
        path = os.path.join(self.folder, "pgbouncer.ini")
        with open(path, "w") as file:
            file.write(BOUNCER % dict(values, folder=self.folder))
        self.process = subprocess.Popen(
            [needs_program("pgbouncer"), "-q", path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **unprivileged(),
        )
        wait_for(self._listens)

    def _listens(self):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 5).close()
            return True
        return False

    def url(self, url):
        """The URL of a database, through PgBouncer."""
        return "postgresql://%s@127.0.0.1:%d/%s" % (USER, self.port, url.rpartition("/")[2])

    def remove(self):
        self.process.terminate()
        self.process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def pgbouncer():
    """A PgBouncer before the shared server."""
    bouncer = PgBouncer(shared_server())
    try:
        yield bouncer
    finally:
        bouncer.remove()


@contextlib.contextmanager
def shared_database():
    """The URL of a database of the shared server, without a ledger."""
    server = shared_server()
    url = _free.pop() if _free else server.new_database()
    yield url
    server.empty_database(url)
    _free.append(url)


@contextlib.contextmanager
def shared_ledger():
    """The URL of a database of the shared server, with an empty ledger."""
    from pollkit import Ledger  # late: the benchmarks start a server without pollkit

    server = shared_server()
    if _with_ledger:
        url, tables = _with_ledger.pop()
    else:
        url = _free.pop() if _free else server.new_database()
        Ledger(url).close()
        tables = server.describe_ledger(url)
    yield url
    if server.empty_ledger(url, tables):
        _with_ledger.append((url, tables))
    else:
        server.empty_database(url)
        _free.append(url)


def shared_server():
    """The server of this process, which the first caller starts; it is removed at the exit."""
    if not _servers:
        _servers.append(PostgresServer())
        pid = os.getpid()
        atexit.register(lambda: os.getpid() == pid and _servers[0].remove())
    return _servers[0]
