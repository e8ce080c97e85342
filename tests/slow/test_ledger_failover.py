"""A fail-over: runs wait for the new primary, lose nothing, and the commands name the cause."""

import collections
import contextlib
import os
import signal
import threading

import pytest

import postgres_server
from job_api import JobApi
from ledger_host import folder
from ledger_place import Place
from pollkit import Ledger
from pollkit.edges.ledger.postgres.connection import drivers
from raw_server import wait_for

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
PROFILE = "timeout = never\nlimit = 500/s burst 50\n"
NAMES = ["job_%d" % i for i in range(120)]


@pytest.fixture
def servers():
    postgres_server.skip_unless_available()
    with contextlib.ExitStack() as stack:

        def start(**options):
            server = postgres_server.PostgresServer(**options)
            stack.callback(server.remove)
            return server

        yield start


@contextlib.contextmanager
def place_with_jobs(api, url):
    """A folder whose ledger has all jobs; runs that a failed test leaves are killed."""
    with folder() as path:
        place = Place(path, api.url, PROFILE, url)
        place.add(NAMES)
        try:
            yield place
        finally:
            place.end_processes()


def use_driver(place, driver):
    """Let the commands of a place import no other driver."""
    hiding = place.file("hidden_drivers")
    os.mkdir(hiding)
    for name in set(drivers.NAMES) - {driver}:
        with open(os.path.join(hiding, name.partition(".")[0] + ".py"), "w") as file:
            file.write("raise ImportError('hidden by the test')\n")
    place.env["PYTHONPATH"] = os.pathsep.join([hiding, place.env["PYTHONPATH"]])


def start_runs(place, url, server, api):
    """Two runs, both connected and at work: a run that can't connect at its start exits.

    A run connects twice: briefly, to check its arguments, and then for as long as it polls.
    """
    runs = [place.start("run", url, "--quiet", "--outbox", "outbox") for _ in range(2)]
    name = url.rpartition("/")[2]
    clients = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = '%s' AND backend_type = 'client backend'"
        " AND backend_start < now() - interval '1 s'" % name
    )
    wait_for(lambda: int(server.execute(clients)) == len(runs))
    wait_for(lambda: sum(api.counts.values()) > 40)
    return runs


def new_api(may_finish):
    """Once the event is set, each job is done at its fifth poll."""
    return JobApi(lambda name, count: "done" if count >= 4 and may_finish.is_set() else "running")


def check_all_finished(place, url, runs):
    for run in runs:
        _, err = run.communicate(timeout=60)
        assert (run.returncode, err) == (0, "")
    with Ledger(url) as ledger:
        assert ledger.summary().states["done"] == len(NAMES)
        database = ledger._storage.database
        assert database.query("SELECT count(*) FROM pollkit.outcome") == [(len(NAMES),)]
        pending = database.query(
            "SELECT id FROM pollkit.job JOIN pollkit.notification ON notification.job = key "
            "WHERE notify_at IS NOT NULL"
        )
    lines = collections.Counter(line["id"] for line in place.lines("outbox"))
    # A claim whose commit the crash has hidden from the run is left to the next one, in a minute.
    assert set(lines).union(name for (name,) in pending) == set(NAMES)


@pytest.mark.parametrize("driver", drivers.NAMES)
def test_a_standby_that_is_promoted_takes_over(servers, driver):
    pytest.importorskip(driver)
    primary = servers()
    url = primary.new_database()
    standby = servers(primary=primary)
    primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    primary.execute("SELECT pg_reload_conf()")
    wait_for(lambda: primary.execute("SELECT sync_state FROM pg_stat_replication") == "sync")
    name = url.rpartition("/")[2]
    user = postgres_server.USER
    both = "postgresql://%s@127.0.0.1:%d,127.0.0.1:%d/%s" % (user, primary.port, standby.port, name)
    may_finish = threading.Event()
    with new_api(may_finish) as api, place_with_jobs(api, both) as place:
        use_driver(place, driver)
        runs = start_runs(place, both, primary, api)
        may_finish.set()
        primary.stop(signal.SIGQUIT)  # as a crash
        doctor = place.start("doctor", both)  # both at once: the runs give up after 30 s
        status = place.start("status", both)
        assert "read-only" in doctor.communicate(timeout=60)[0]
        assert "read-only" in status.communicate(timeout=60)[1] and status.returncode == 2
        assert [run.poll() for run in runs] == [None, None]
        standby.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
        standby.execute("SELECT pg_promote()")
        check_all_finished(place, standby.url(name), runs)
        assert "with " + driver in place.start("doctor", both).communicate(timeout=60)[0]


def test_runs_wait_while_the_server_is_read_only(servers):
    server = servers()
    url = server.new_database()

    def set_read_only(value):
        server.execute("ALTER SYSTEM SET default_transaction_read_only = " + value)
        server.execute("SELECT pg_reload_conf()")

    may_finish = threading.Event()
    with new_api(may_finish) as api, place_with_jobs(api, url) as place:
        runs = start_runs(place, url, server, api)
        set_read_only("on")
        may_finish.set()
        doctor = place.start("doctor", url).communicate(timeout=60)[0]
        assert "read-only" in doctor
        status = place.start("status", url, "--summary")  # it only reads
        assert status.communicate(timeout=60)[1] == "" and status.returncode == 5
        assert [run.poll() for run in runs] == [None, None]
        set_read_only("off")
        check_all_finished(place, url, runs)
