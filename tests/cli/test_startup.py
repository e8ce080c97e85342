"""Commands import only the modules they use: cron starts pollkit every minute."""

import gc
import subprocess
import sys

import pytest

from paths import ROOT
from pollkit.testing import FakeJobApi

CODE = """
import sys
from pollkit.cli import main
code = main(sys.argv[1:])
sys.stderr.write("\\nMODULES\\n" + " ".join(sys.modules))
sys.exit(code)
"""
BARE = [sys.executable, "-S", "-E", "-c"]  # without site: its .pth files may import anything

# Not needed for a plain wait over http without credential, proxy, profile and terminal.
LATE = """
    ssl urllib.request http.client email sqlite3 configparser concurrent.futures difflib pkgutil
    subprocess netrc locale
    logging
    shutil bz2 lzma
    encodings.idna
    base64 urllib.parse ipaddress
    pollkit.cli.interrupts pollkit.core.spelling
    pollkit.cli.progress.views pollkit.edges.credentials pollkit.edges.profiles.catalog
    pollkit.drivers.endpoints.callables
    pollkit.drivers.batch pollkit.core.scheduling.agenda pollkit.core.reading.rules pollkit.testing
""".split()


def imported(*words, **environ):
    """The modules that a command imports."""
    done = subprocess.run(
        BARE + [CODE] + list(words),
        cwd=ROOT,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.decode().partition("\nMODULES\n")[2].split())


@pytest.fixture
def url():
    with FakeJobApi() as api:
        api.add("job_1", result={"pages": 3})
        yield api.url("job_1")


def test_a_wait_over_http_imports_only_modules_that_it_uses(url):
    # Some of them are imported by modules that are used: argparse imports shutil on Python 3.8.
    used = "import sys, argparse, json, random, socket, threading, typing; print(*sys.modules)"
    already = set(subprocess.check_output(BARE + [used]).decode().split())
    assert not set(LATE) & (imported("wait", url) - already)


def test_a_wait_imports_few_modules_of_ours(url):
    """Each takes 0.3 million instructions or more, so those that it does not use are imported late.

    They are 111 now. Before you allow more, see which of the new ones a wait can do without.
    """
    ours = [name for name in imported("wait", url) if name.split(".")[0] == "pollkit"]
    assert 50 < len(ours) <= 113


def test_a_wait_evaluates_no_type_in_quotes(url):
    """The first one takes 10 million instructions, 4 % of a wait: see core/units.py."""
    code = (
        "import sys, typing; from pollkit.cli import main\n"
        "quoted = getattr(typing, 'ForwardRef', None) or typing._ForwardRef\n"
        "quoted.__init__ = None\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    command = BARE + [code, "wait", url]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr


def test_a_wait_compiles_no_pattern_that_its_url_and_reply_do_not_need(url):
    """They take 3 million instructions: see core/urls.py and edges/http/whole_chunks.py."""
    code = (
        "import re, sys; from pollkit.cli import main; code = main(sys.argv[1:])\n"
        "from pollkit.core import model, redaction, urls\n"
        "from pollkit.core.profiles import hold_templates\n"
        "from pollkit.edges.http import whole_chunks\n"
        "late = {urls._PARAMETER, urls._NESTED_LOGIN, urls.PLACEHOLDER, urls.REPEATED_IDS}\n"
        "late |= {hold_templates._PLACEHOLDER, whole_chunks._SIZE, whole_chunks._END}\n"
        "late |= {redaction._CUT, model._NOT_INDENTED}\n"
        "compiled = {key[1] for key in re._cache}\n"
        "assert len(compiled) > 9 and not late & compiled, late & compiled\n"
        "sys.exit(code)"
    )
    command = BARE + [code, "wait", url]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr


def test_modules_that_a_command_needs_are_imported(url):
    """Proves that `imported` can see the modules of the list above."""
    got = imported(
        "wait",
        url,
        "--token-env",
        "TOKEN",
        http_proxy="http://127.0.0.1:9",
        no_proxy="127.0.0.1",
        TOKEN="secret",
    )
    assert {"urllib.request", "pollkit.edges.credentials"} <= got
    assert {"pkgutil", "pollkit.edges.profiles.catalog"} <= imported("profiles")


def test_sqlite_is_imported_only_for_a_shared_limit_or_a_ledger(url, tmp_path):
    shared = ["--bucket", str(tmp_path / "bucket.db")]
    jobs = str(tmp_path / "jobs.txt")
    with open(jobs, "w") as file:
        file.write(url + "\n")
    assert "sqlite3" not in imported("batch", jobs)
    assert "sqlite3" in imported("batch", jobs, *shared)
    assert "sqlite3" in imported("wait", url, *shared)


def test_a_run_without_terminal_and_program_imports_no_modules_for_them(url, tmp_path):
    ledger = str(tmp_path / "jobs.db")
    added = imported("add", ledger, url)
    assert "pollkit.drivers.batch" not in added
    got = imported("run", ledger, "--once", "--outbox", str(tmp_path / "out"))
    late = {
        "subprocess",
        "tempfile",
        "ssl",
        "urllib.request",
        "configparser",
        "difflib",
        "pollkit.cli.progress.views",
        "pollkit.cli.processes",
        "pollkit.drivers.listener",
    }
    used = "import sys, argparse, concurrent.futures, logging, random, sqlite3; print(*sys.modules)"
    assert not late & (got - set(subprocess.check_output(BARE + [used]).decode().split()))


def test_version_imports_no_other_module_and_help_only_those_that_fold_it():
    usual = {"pollkit", "pollkit.cli", "pollkit.cli.main"}
    folding = {"arguments", "arguments.help_folding", "progress", "progress.terminal"}
    ours = {name for name in imported("--version") if name.startswith("pollkit")}
    assert ours == usual
    ours = {name for name in imported("--help") if name.startswith("pollkit")}
    assert ours == usual | {"pollkit.cli." + name for name in folding}


@pytest.mark.skipif(not hasattr(gc, "freeze"), reason="needs Python 3.7")
@pytest.mark.parametrize("call, is_program", [("main()", True), ("main(sys.argv[1:])", False)])
def test_the_garbage_collector_skips_the_modules_of_a_program_only(url, call, is_program):
    code = (
        "import gc, sys; from pollkit.cli import main; code = " + call + "\n"
        "sys.stderr.write('%d %d %d' % (code, gc.isenabled(), gc.get_freeze_count() > 10000))"
    )
    command = BARE + [code, "wait", url, "--quiet"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.stderr.decode() == "0 1 %d" % is_program
