"""Other users can't misuse what pollkit does in a directory that they may write, such as /tmp.

Neither by a link in the place of a file that pollkit writes, nor by a module beside its package.
"""

import os
import shutil
import stat
import subprocess
import sys

import pytest

from paths import ROOT
from pollkit import ConfigError, Ledger, LedgerError, SharedBucket
from pollkit.cli.metrics import write_metrics
from pollkit.core.learning.durations import Completion
from pollkit.edges import files
from pollkit.edges.history_file import History, Kind
from pollkit.edges.ledger.records import NotificationFailed
from pollkit.edges.notify.outbox import append
from pollkit.testing import FakeJobApi
from stdlib_names import STDLIB
from zipapp_build import build

SOMEBODY = 12345
SAFE = "not to be changed"
pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="for systems with users")


@pytest.fixture
def storage():
    """Only SQLite: the place of the ledger makes no difference to these files."""
    return "sqlite"


@pytest.fixture
def shared(tmp_path):
    """A directory that all users can write to, such as /tmp."""
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(0o1777)
    return place


@pytest.fixture
def victim(tmp_path):
    """A file of ours, elsewhere."""
    path = tmp_path / "victim"
    path.write_text(SAFE)
    path.chmod(0o600)
    return path


@pytest.fixture
def of_another_user(monkeypatch):
    """Makes a file or link look like another user's."""
    owned = set()
    lstat = os.lstat

    def fake(path, **options):
        found = lstat(path, **options)
        if os.path.abspath(os.fspath(path)) not in owned:
            return found
        return os.stat_result(
            [SOMEBODY if i == stat.ST_UID else value for i, value in enumerate(found[:10])]
        )

    monkeypatch.setattr(os, "lstat", fake)
    return lambda path: owned.add(str(path))


def mode_of(path):
    return stat.S_IMODE(os.stat(str(path)).st_mode)


# The metrics


def test_a_link_with_the_name_of_the_temporary_file_is_not_written_through(shared, victim, ledger):
    for name in (".m.prom.%d.tmp" % os.getpid(), ".m.prom.tmp", "m.prom.tmp"):
        (shared / name).symlink_to(victim)
    write_metrics(str(shared / "m.prom"), ledger, "jobs.db")
    assert "pollkit_jobs" in (shared / "m.prom").read_text()
    assert (victim.read_text(), mode_of(victim)) == (SAFE, 0o600)


def test_a_new_file_of_metrics_is_readable_for_all_with_any_umask(shared, ledger):
    before = os.umask(0o077)
    try:
        write_metrics(str(shared / "m.prom"), ledger, "jobs.db")
    finally:
        os.umask(before)
    assert mode_of(shared / "m.prom") == 0o644
    assert os.listdir(str(shared)) == ["m.prom"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_file_of_metrics_that_is_there_keeps_its_mode(shared, ledger, mode):
    (shared / "m.prom").write_text("")
    (shared / "m.prom").chmod(mode)
    write_metrics(str(shared / "m.prom"), ledger, "jobs.db")
    assert (shared / "m.prom").read_text() and mode_of(shared / "m.prom") == mode


def test_a_failed_write_leaves_no_temporary_file(shared, ledger, monkeypatch):
    def fail(*names):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ConfigError) as caught:
        write_metrics(str(shared / "m.prom"), ledger, "jobs.db")
    assert "m.prom: No space left on device" in str(caught.value)
    assert os.listdir(str(shared)) == []


def test_a_temporary_file_never_has_the_name_of_one_that_is_there(shared, victim, monkeypatch):
    """If another user guesses the name, nothing is written at all."""
    monkeypatch.setattr(os, "urandom", bytes)
    (shared / (".m.prom.%s.tmp" % ("00" * 8))).symlink_to(victim)
    with pytest.raises(FileExistsError):
        files.replace_file(str(shared / "m.prom"), b"new", 0o644)
    assert (victim.read_text(), mode_of(victim)) == (SAFE, 0o600)


# Links of another user


def try_metrics(path, ledger):
    write_metrics(path, ledger, "jobs.db")


def try_outbox(path, ledger):
    append(path, [])


def try_history(path, ledger):
    told = []
    with History(path, on_trouble=told.append) as history:
        history.record(Kind("p", None), Completion(1.0, 2.0, 3.0))
    if told:
        raise OSError(told[0])


def try_ledger(path, ledger):
    Ledger(path).close()


def try_bucket(path, ledger):
    SharedBucket(path, "60/m").close()


WRITERS = {
    "metrics": try_metrics,
    "outbox": try_outbox,
    "history": try_history,
    "ledger": try_ledger,
    "bucket": try_bucket,
}


@pytest.mark.parametrize("writer", list(WRITERS))
@pytest.mark.parametrize("target", ["a file", "nothing yet"])
def test_a_link_of_another_user_is_not_followed(
    shared, victim, of_another_user, ledger, writer, target
):
    if target == "nothing yet":
        victim.unlink()
    (shared / "name").symlink_to(victim)
    of_another_user(shared / "name")
    with pytest.raises((OSError, ConfigError, LedgerError, NotificationFailed)) as caught:
        WRITERS[writer](str(shared / "name"), ledger)
    assert "is a link of another user" in str(caught.value)
    assert os.path.exists(str(victim)) == (target == "a file")
    assert target == "nothing yet" or victim.read_text() == SAFE


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("is_link", [True, False])
def test_a_file_of_another_user_beside_a_ledger_is_not_used(
    shared, victim, of_another_user, suffix, is_new, is_link
):
    """SQLite would write to it, or replay it into the ledger."""
    path = shared / "jobs.db"
    planted = shared / ("jobs.db" + suffix)
    if not is_new:
        Ledger(str(path)).close()
    if is_link:
        planted.symlink_to(victim)
    else:
        planted.write_text(SAFE)
    of_another_user(planted)
    with pytest.raises(LedgerError, match="belongs to another user, and SQLite would use it"):
        Ledger(str(path)).add(["job_1"])
    assert victim.read_text() == SAFE
    assert path.exists() is not is_new
    planted.unlink()
    with Ledger(str(path)) as ledger:
        ledger.add(["job_1"])


@pytest.mark.parametrize("writer", list(WRITERS))
def test_a_link_on_the_path_to_the_file_is_not_followed(
    shared, tmp_path, of_another_user, ledger, writer
):
    (tmp_path / "mine").mkdir()
    (shared / "folder").symlink_to(tmp_path / "mine")
    of_another_user(shared / "folder")
    with pytest.raises((OSError, ConfigError, LedgerError, NotificationFailed)):
        WRITERS[writer](str(shared / "folder" / "name"), ledger)
    assert os.listdir(str(tmp_path / "mine")) == []


@pytest.mark.parametrize("writer", list(WRITERS))
def test_a_link_of_ones_own_is_followed(shared, tmp_path, ledger, writer):
    (shared / "name").symlink_to(tmp_path / "target")
    WRITERS[writer](str(shared / "name"), ledger)
    assert writer == "history" or os.path.islink(str(shared / "name"))
    assert os.path.getsize(str(tmp_path / "target")) > 0 or writer in ("outbox", "history")


@pytest.mark.parametrize("writer", list(WRITERS))
def test_links_of_others_are_followed_if_only_some_users_can_write(
    tmp_path, of_another_user, ledger, writer
):
    """The users who can write to the directory are trusted: it is not open to all."""
    (tmp_path / "name").symlink_to(tmp_path / "target")
    of_another_user(tmp_path / "name")
    WRITERS[writer](str(tmp_path / "name"), ledger)


@pytest.mark.parametrize("writer", list(WRITERS))
def test_a_second_name_for_a_file_of_ours_is_not_used(shared, victim, ledger, writer):
    os.link(str(victim), str(shared / "name"))
    with pytest.raises((OSError, ConfigError, LedgerError, NotificationFailed)) as caught:
        WRITERS[writer](str(shared / "name"), ledger)
    assert "name has a second name" in str(caught.value)
    assert victim.read_text() == SAFE


def test_links_that_lead_in_a_circle_are_an_error(shared):
    (shared / "a").symlink_to(shared / "b")
    (shared / "b").symlink_to(shared / "a")
    with pytest.raises(OSError):
        files.check_links(str(shared / "a"))


def test_the_command_reports_the_problem_in_one_line(shared, victim, of_another_user, api, pollkit):
    (shared / "m.prom").symlink_to(victim)
    of_another_user(shared / "m.prom")
    assert pollkit("add", "jobs.db", "job_1", "--profile", "fake")[0] == 0
    code, out, err = pollkit("run", "jobs.db", "--once", "--metrics", str(shared / "m.prom"))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and "m.prom is a link of another user" in err


def test_a_picture_is_not_drawn_through_a_link_of_another_user(
    shared, victim, of_another_user, pollkit
):
    (shared / "f.svg").symlink_to(victim)
    of_another_user(shared / "f.svg")
    words = [
        "simulate",
        "--jobs",
        "3",
        "--durations",
        "uniform 1s..2s",
        "--svg",
        str(shared / "f.svg"),
    ]
    code, _, err = pollkit(*words)
    assert code == 2 and "is a link of another user" in err
    assert victim.read_text() == SAFE


# Modules beside the package

HOSTILE = "import sys\nsys.stderr.write('HOSTILE ' + __name__)\nsys.exit(66)\n"


@pytest.fixture
def served():
    with FakeJobApi() as api:
        api.add("job_1", result={"pages": 3})
        yield api


def plant(folder):
    """A module for each one of the standard library that pollkit may import."""
    for name in STDLIB | {
        "__future__",
        "codecs",
        "keyword",
        "pollkit_plugin",
        "runpy",
        "token",
        "zipimport",
    }:
        (folder / (name + ".py")).write_text(HOSTILE)


def copy_package(folder):
    """Copy the package with its bytecode: to compile it takes longer than the command."""
    shutil.copytree(
        os.path.join(ROOT, "pollkit"),
        str(folder / "pollkit"),
        ignore=shutil.ignore_patterns("*.pyc.*"),  # which another process is writing
    )


def copy_script(folder):
    shutil.copy(os.path.join(ROOT, "scripts", "poll_job.py"), str(folder))
    return str(folder / "poll_job.py")


def run(cwd, *words, **environ):
    done = subprocess.run(
        [sys.executable] + list(words),
        cwd=str(cwd),
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    return done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8")


def check_ran(result):
    code, out, err = result
    assert (code, err) == (0, "") and '"pages": 3' in out


@pytest.mark.parametrize("how", ["pollkit", os.path.join("pollkit", "__main__.py")])
def test_a_module_beside_a_copied_package_is_not_imported(shared, served, how):
    plant(shared)
    copy_package(shared)
    check_ran(run("/", str(shared / how), "wait", served.url("job_1"), "--quiet"))
    check_ran(run(shared, how, "wait", served.url("job_1"), "--quiet"))
    code, _, err = run(shared, how, "wait", "https://127.0.0.1:9/", "--max-faults", "1")
    assert code == 4 and "refused the connection" in err and "HOSTILE" not in err


@pytest.mark.parametrize("package_is", ["beside the script", "beside its folder"])
def test_a_module_beside_a_script_or_its_folder_is_not_imported(shared, served, package_is):
    scripts = shared / "scripts"
    scripts.mkdir()
    plant(shared)
    plant(scripts)
    copy_package(scripts if package_is == "beside the script" else shared)
    script = copy_script(scripts)
    check_ran(run("/", script, served.url("job_1"), "--quiet"))
    check_ran(run(scripts, "poll_job.py", served.url("job_1"), "--quiet"))


def test_a_module_beside_a_script_and_a_zip_file_is_not_imported(shared, served):
    plant(shared)
    script = copy_script(shared)
    build(str(shared / "pollkit.pyz"))
    check_ran(run(shared, script, served.url("job_1"), "--quiet"))
    check_ran(run(shared, "pollkit.pyz", "wait", served.url("job_1"), "--quiet"))


@pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() != 0, reason="only root can give files away"
)
def test_a_package_that_another_user_put_beside_a_script_is_not_run(shared, served):
    """/tmp/mine/poll_job.py looks for /tmp/pollkit, too."""
    mine = shared / "mine"
    mine.mkdir()
    copy_package(mine)
    script = copy_script(mine)
    planted = shared / "pollkit"
    planted.mkdir()
    for name in ("__init__.py", "__main__.py"):
        (planted / name).write_text(HOSTILE)
    os.chown(str(planted), SOMEBODY, -1)
    check_ran(run("/", script, served.url("job_1"), "--quiet"))


def test_a_copied_package_goes_before_an_installed_one(shared, tmp_path, served):
    (tmp_path / "site" / "pollkit").mkdir(parents=True)
    (tmp_path / "site" / "pollkit" / "__init__.py").write_text(HOSTILE)
    copy_package(shared)
    check_ran(
        run(
            "/",
            str(shared / "pollkit"),
            "wait",
            served.url("job_1"),
            "--quiet",
            PYTHONPATH=str(tmp_path / "site"),
        )
    )
