"""The leases of a dead process are free at once; those of a live one never are."""

import os
import signal
import subprocess
import sys

import pytest

from ledger_host import ROOT, forked, poll_job, python, states
from pollkit import Ledger
from pollkit.core.reading.verdict import Verdict

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="for Linux only")

CLAIM = """
import sys, time
sys.path.insert(0, "tests/support")
from ledger_host import Ledger, Verdict, poll_job
with Ledger(sys.argv[1]) as ledger:
    (first, second) = ledger._leases.claim(2)
    poll_job(ledger, first, Verdict.DONE)
    ledger._notifications.claim(1, lease_s=600)
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def real(path):
    """A ledger on the clock of this host, with two jobs."""
    with Ledger(path) as ledger:
        ledger.add(["a", "b"])
        yield ledger


def claim_in_another_process(path, wrapper=()):
    process = subprocess.Popen(
        [*wrapper, sys.executable, "-c", CLAIM, path],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    return process, process.stdout.readline()


def test_what_a_killed_process_has_claimed_is_free_at_once(path, real):
    process, _ = claim_in_another_process(path)
    with process:
        real._storage.maintain()
        assert real._leases.claim(9) == [] and real._notifications.claim(9) == []
        process.send_signal(signal.SIGSTOP)
        real._storage.maintain()
        assert real._leases.claim(9) == [] and real._notifications.claim(9) == []
        process.kill()
        process.wait()
        real._storage.maintain()
        (claim,) = real._leases.claim(9)
        assert claim.job.id == "b"
        (notification,) = real._notifications.claim(9)
        assert (notification.id, notification.attempt) == ("a", 2)
        assert poll_job(real, claim, Verdict.DONE)


def test_a_forked_child_owns_its_leases_and_its_parent_keeps_its_own(path, real):
    (mine,) = real._leases.claim(1)
    child = forked(lambda: real._leases.claim(1)[0])
    os.waitpid(child, 0)
    real._storage.maintain()
    (claim,) = real._leases.claim(9)
    assert claim.job.id == "b"
    assert poll_job(real, mine, Verdict.DONE)
    assert states(real) == {"done": 1, "leased": 1}


def test_a_forked_child_does_not_take_its_parent_for_dead(path, real):
    (mine,) = real._leases.claim(1)

    def work():
        real._storage.maintain()
        assert [claim.job.id for claim in real._leases.claim(9)] == ["b"]

    assert os.waitpid(forked(work), 0)[1] == 0
    assert poll_job(real, mine, Verdict.DONE)


def can_unshare():
    command = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
    try:
        return subprocess.call(command, stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


@pytest.mark.skipif(not can_unshare(), reason="PID namespaces are not allowed here")
def test_a_process_in_another_container_keeps_its_leases(path, real):
    """Its pid is that of another process here, or of none."""
    process, line = claim_in_another_process(path, ["unshare", "--pid", "--fork", "--mount-proc"])
    with process:
        try:
            assert line == "ready\n"
            real._storage.maintain()
            assert real._leases.claim(9) == [] and real._notifications.claim(9) == []
        finally:
            for child in children_of(process.pid):
                os.kill(child, signal.SIGKILL)


def children_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return [int(child) for child in file.read().split()]


def owners(ledger):
    query = "SELECT COUNT(*) FROM owners"
    return ledger._storage.file.read(lambda db: db.execute(query).fetchone()[0])


def test_a_renewed_lease_of_a_process_that_dies_later_is_free_at_once(path, real):
    def work():
        claims = real._leases.claim(1, lease_s=0.01)
        real._leases.renew(claims, 600.0)

    assert os.waitpid(forked(work), 0)[1] == 0
    real._storage.maintain()
    assert sorted(claim.job.id for claim in real._leases.claim(9)) == ["a", "b"]


def test_after_a_reboot_leases_expire_and_their_owners_are_forgotten(ledger, leases, clock):
    ledger.add(["a"])
    leases.claim(1)
    clock.restart()
    with Ledger(ledger._storage.name, clock) as other:
        other._storage.maintain()
        assert other._leases.claim(1) == [] and owners(other) == 1
        clock.pass_s(61)
        other._storage.maintain()
        assert owners(other) == 0 and len(other._leases.claim(1)) == 1


def test_a_process_registers_again_if_another_one_has_forgotten_it(real):
    run = "import sys; from pollkit import Ledger; Ledger(sys.argv[1])._leases.claim(1)"
    assert python(run, real._storage.name).communicate() == ("", "")
    real._storage.maintain()
    assert owners(real) == 0
    real._storage.file.write(lambda db: db.execute("DELETE FROM owners"))
    real._leases.claim(1)
    assert owners(real) == 1
    real._storage.file.write(lambda db: db.execute("DELETE FROM owners"))
    real._leases.claim(1)
    assert owners(real) == 1
