"""The lines of `pollkit help cron`, run by a real cron and checked by systemd."""

import os
import re
import shutil
import subprocess
import sys
import time

import pytest

from job_api import JobApi
from ledger_place import placed
from one_python import only_with_the_oldest
from pollkit.cli.commands.program.help import text_of

# The daemon sees our folders instead of its own and /var/lib; other processes don't.
CRON = """
set -e
mount -t tmpfs none /run
mount -t tmpfs none /var/spool
mkdir -p /var/spool/cron/crontabs
[ ! -d /etc/cron.d ] || mount -t tmpfs none /etc/cron.d
[ ! -e /etc/crontab ] || mount --bind /dev/null /etc/crontab
cp crontab /var/spool/cron/crontabs/root
chmod 600 /var/spool/cron/crontabs/root
mount --bind var /var/lib
exec cron -f
"""


def tool(name):
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        assert os.environ.get("CI") != "true", "CI must have %s: see .ci/run" % name
        pytest.skip("has no " + name)
    return path


@only_with_the_oldest
def test_cron_runs_the_line_of_the_documentation():
    """In cron's environment, without a terminal; only the path to Python is changed."""
    lines = re.findall(
        r"^    (DB=.*|[*] [*] [*] [*] [*] pollkit run \$DB .*)$", text_of("cron"), re.MULTILINE
    )
    crontab = [line for line in lines if line.startswith("DB=") or "--outbox" in line]
    cron = tool("cron")
    if subprocess.call(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL):
        pytest.skip("may not unshare mounts here, and must not use the folders of the real cron")
    with JobApi(lambda name, count: "done") as api, placed(api) as place:
        for name in ("bin", "var"):
            os.mkdir(place.file(name))
        place.script(
            'env > "$0.env"; [ ! -t 0 ] || exit 9\nexec %s -m pollkit "$@" 2> "$0.err"\n'
            % sys.executable,
            "bin/pollkit",
        )
        with open(place.file("crontab"), "w") as file:
            file.write(
                "PATH=%s:/usr/bin:/bin\nPYTHONPATH=%s\n%s\n"
                % (place.file("bin"), place.env["PYTHONPATH"], "\n".join(crontab))
            )
        added = place.start("add", "var/jobs.db", api.url + "/jobs/job_1", "--quiet")
        assert added.communicate() == ("", "")
        env = dict(os.environ, PATH=os.environ["PATH"] + ":" + os.path.dirname(cron))
        daemon = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", CRON],
            cwd=place.path,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            until = time.monotonic() + 75
            while (
                not place.lines("var/finished.jsonl")
                and daemon.poll() is None
                and time.monotonic() < until
            ):
                time.sleep(0.1)
        finally:
            daemon.kill()
            output = daemon.communicate()[0]
        assert [outcome["result"] for outcome in place.lines("var/finished.jsonl")] == ["job_1"], (
            output
        )
        with open(place.file("bin/pollkit.err")) as file:
            assert file.read() == ""
        with open(place.file("bin/pollkit.env")) as file:
            names = {text.partition("=")[0] for text in file}
        assert names <= {
            "HOME",
            "LOGNAME",
            "PATH",
            "PYTHONPATH",
            "DB",
            "PWD",
            "SHELL",
            "LANG",
            "LC_ALL",
            "_",
            "OLDPWD",
            "SHLVL",
            "USER",
        }


def test_systemd_finds_nothing_wrong_with_the_unit_and_the_timer(tmp_path):
    analyze = tool("systemd-analyze")
    text = text_of("cron")
    for kind in ("service", "timer"):
        found = re.search(r"pollkit\.%s:\n\n((?:    .*\n|\n)+)" % kind, text).group(1)
        (tmp_path / ("pollkit." + kind)).write_text(
            re.sub("^    ", "", found, flags=re.MULTILINE).replace("/usr/bin/pollkit", "/bin/true")
        )
    done = subprocess.run(
        [analyze, "verify", "pollkit.timer", "pollkit.service"],
        cwd=str(tmp_path),
        env=dict(os.environ, SYSTEMD_UNIT_PATH=str(tmp_path) + ":"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    ours = [line for line in done.stdout.decode().splitlines() if "pollkit" in line]
    assert (done.returncode, ours) == (0, [])
