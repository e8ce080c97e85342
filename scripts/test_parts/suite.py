"""Run the test suite on one Python, in several processes at once, and count the results."""

import atexit
import contextlib
import functools
import os
import re
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple
from xml.etree import ElementTree

from .common import ROOT, run_command

TESTS = os.path.join(ROOT, "tests")
SLOW = "tests/slow"
PROCESSES = 6  # at once: much of the time the tests only wait
SLOW_SHARES = 10  # for as many processes: the estimates are rough
# The command line, the single file and PostgreSQL take 43 % of the CPU time of the suite.
NOT_OF_THE_LIBRARY = r"tests/cli/.*|tests/zipapp/.*"
LIBRARY_ONLY = ["-k", "not postgres"]
# These tests need pollkit.pyz, which takes a process a second to build.
KEPT_TOGETHER = r"tests/zipapp/.*|tests/edges/test_shared_directories\.py"
# About how many seconds the slowest files take, to divide and order them. Those of tests/slow were
# measured with two processes at once.
SLOWEST = {
    140: "ledger_kills",
    100: "waves",
    80: "ledger_hosts",
    60: "ledger_faults",
    45: "ledger_soak soak resources hostile_replies",
    37: "ledger_outages_live report_sizes nginx_ledger submit_kills",
    24: "ledger_takeover ledger_crowd terminal terminal_commands held_requests",
    18: "ledger_failover ledger_outage_crowd batch_crowds haproxy zipapp_build",
    15: "transport_outcomes",
    14: "result_kills study ledger_results",
    11: "nginx ledger_processes outbox_rotation",
    10: "ledger_clocks odd_file_systems submit",
    9: "database ledger_runner zipapp",
    8: "ledger_nudges ledger_outages",
    7: "history_commands shared_directories batch",
    6: "wait_and_batch bad_input results_commands job_lists batch_resume",
    5: "shared_bucket_hosts credential_commands results secrets listen ledger_sharing",
    4: "submissions listener drivers shared_bucket wait_command ledger_notices "
    "batch_outages startup injection batch_ends 11_one_bad_server postgres_tls "
    "changes_during_runs",
    3: "demo examples 09_no_leaks unpack callables copied_folder status_words run ledger_files "
    "engine_closing schema cancel_requests advice ledger_runner_api 08_nothing_lost "
    "batch_command stray_replies",
    2: "transport_faults curl_transport completion 01_bounded simulate_command squid "
    "05_faults exposed_files adapter_interface status simulation postgres_commands "
    "default_pace single history_file notified_programs",
}
SECONDS = {name: seconds for seconds, names in SLOWEST.items() for name in names.split()}
BYTES_PER_SECOND = 15000.0  # of the other files
TESTS_FAILED = 1  # an exit code of pytest, like the next
NO_TESTS_RAN = 5
NOT_SET_UP = 100  # the virtual environment could not be created
MEMORY = "/dev/shm"
FREE_MEMORY = 2 << 30  # bytes that MEMORY must have free for a process; it uses about 200 MB
MOST_REPEATED_FILES = 3  # with failed tests; if more have some, none is repeated


class Counts(NamedTuple):
    """How many tests passed, failed and were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __str__(self) -> str:
        text = "{} passed, {} failed".format(self.passed, self.failed)
        return text + (", {} skipped".format(self.skipped) if self.skipped else "")


class Outcome(NamedTuple):
    """The result of a suite or a check: one row of the final table."""

    name: str
    is_ok: Optional[bool]  # None: it did not run, and did not have to
    note: str = ""
    seconds: float = 0.0  # of all its processes together
    counts: Counts = Counts()
    output: bytes = b""
    failed_tests: Tuple[str, ...] = ()  # as pytest names them, if they are the only failures


class PytestRun(NamedTuple):
    """What one process of pytest did."""

    code: int
    counts: Counts
    failed_tests: List[str]
    output: bytes
    seconds: float


def total(outcomes: List[Outcome]) -> Counts:
    """The sum of the counts; a failure without a failed test counts as one failed test."""
    return Counts(
        sum(outcome.counts.passed for outcome in outcomes),
        sum(outcome.counts.failed or int(outcome.is_ok is False) for outcome in outcomes),
        sum(outcome.counts.skipped for outcome in outcomes),
    )


def test_environment() -> Dict[str, str]:
    """The environment without variables that change pollkit's behaviour or slow down its start."""
    kept = {}
    for name, value in os.environ.items():
        is_for_pollkit = name.lower().endswith("_proxy") or name.upper().startswith("POLLKIT_")
        if not is_for_pollkit and name != "PYTHONDONTWRITEBYTECODE":
            kept[name] = value
    return kept


def suite_shares(count: int) -> List[List[str]]:
    """The arguments of so many processes that run the whole suite."""
    return _share_out(_test_files(), count)


def library_shares(count: int) -> List[List[str]]:
    """The arguments of so many processes that run the tests of the library only."""
    paths = [path for path in _test_files() if not re.fullmatch(NOT_OF_THE_LIBRARY, path)]
    return [share + LIBRARY_ONLY for share in _share_out(paths, count)]


def slow_shares() -> List[List[str]]:
    """The arguments of the processes that run the slow tests."""
    return _share_out(_test_files(is_slow=True), SLOW_SHARES)


def run_suite(name: str, inner: str, shares: List[List[str]]) -> Outcome:
    """Run pytest with each of the lists of arguments, PROCESSES at once."""
    with ThreadPoolExecutor(PROCESSES) as pool:
        runs = list(pool.map(lambda share: run_pytest(inner, share), shares))
    return combine(name, runs)


def run_from_queue(inner: str) -> Outcome:
    """Run the whole suite in PROCESSES that claim one file after the other.

    Half of them begin with the slowest files, which mostly wait, and half with the quickest ones,
    which need the CPU. So all end at about the same time, and no core is idle before.
    """
    path = os.path.join(_shared_folder(), "queue.txt")
    with open(path, "w") as queue:
        queue.write("\n".join(" ".join(files) for _, files in _estimate_groups(_test_files())))
    # No process knows how many tests it will run, so it can't show a percentage.
    arguments = ["-o", "console_output_style=classic"]

    def run(number: int) -> PytestRun:
        from_end = "1" if number % 2 else ""
        return run_pytest(inner, arguments, {"TESTS_QUEUE": path, "TESTS_QUEUE_FROM_END": from_end})

    with ThreadPoolExecutor(PROCESSES) as pool:
        return combine("", list(pool.map(run, range(PROCESSES))))


def combine(name: str, runs: List[PytestRun]) -> Outcome:
    """The outcome of a suite, from those of its processes."""
    counts = Counts(*map(sum, zip(*(run.counts for run in runs))))
    code = exit_code(next((run.code for run in runs if run.code), 0), counts)
    note = ": ".join(filter(None, [str(counts), failure_reason(code, counts)]))
    output = b"".join(run.output for run in runs)
    failed_tests: Tuple[str, ...] = ()
    if all(run.code in (0, TESTS_FAILED) for run in runs):
        failed_tests = tuple(test for run in runs for test in run.failed_tests)
    seconds = sum(run.seconds for run in runs)
    return Outcome(name, code == 0, note, seconds, counts, output, failed_tests)


def can_be_repeated(outcome: Outcome) -> bool:
    """Whether only a few files have failed tests. One cause often fails many tests of a file."""
    paths = {test.partition("::")[0] for test in outcome.failed_tests}
    return 0 < len(paths) <= MOST_REPEATED_FILES


def repeat_failed_tests(first: Outcome, inner: str) -> Outcome:
    """Run the failed tests of an outcome once more, with nothing beside them.

    The result counts, and the final table names each test that passed only now.
    """
    again = run_suite(first.name, inner, [list(first.failed_tests)])
    counts = Counts(
        first.counts.passed + again.counts.passed, again.counts.failed, first.counts.skipped
    )
    passed = sorted(set(first.failed_tests) - set(again.failed_tests))
    note = "\n".join([str(counts)] + ["  only alone: " + test for test in passed])
    seconds = first.seconds + again.seconds
    return Outcome(first.name, again.is_ok, note, seconds, counts, again.output)


def run_pytest(
    inner: str, arguments: List[str], variables: Optional[Dict[str, str]] = None
) -> PytestRun:
    """Run pytest in a child process."""
    started_at = time.monotonic()
    is_slow = any(argument.startswith(SLOW) for argument in arguments)
    with _temporary_folder(in_memory=not is_slow) as scratch:
        report = os.path.join(scratch, "report.xml")
        environment = dict(test_environment(), TMPDIR=scratch, TESTS_SHARED_FOLDER=_shared_folder())
        environment.update(variables or {})
        code, output = run_command(pytest_command(inner, report, arguments), environment)
        counts = count_tests(report)
        failed_tests = find_failed_tests(report)
    seconds = time.monotonic() - started_at
    return PytestRun(code, counts, failed_tests, output, seconds)


def _new_folder(in_memory: bool) -> str:
    has_memory = in_memory and os.access(MEMORY, os.W_OK)
    if has_memory:
        has_memory = shutil.disk_usage(MEMORY).free >= FREE_MEMORY
    path = tempfile.mkdtemp(prefix="pollkit-tests-", dir=MEMORY if has_memory else None)
    os.chmod(path, 0o1777)  # as /tmp: some programs are run as another user
    return path


@functools.lru_cache(maxsize=None)
def _shared_folder() -> str:
    """A folder for what one process of the tests makes for all, such as a PostgreSQL cluster."""
    path = _new_folder(in_memory=True)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@contextlib.contextmanager
def _temporary_folder(in_memory: bool) -> Iterator[str]:
    """A folder for all temporary files of a process, in memory if there is enough.

    On a disk, the tests would wait for it, and ext4 takes 4 % of their CPU time.
    """
    path = _new_folder(in_memory)
    try:
        yield path
    finally:
        # A test may have left a child process that still writes.
        shutil.rmtree(path, ignore_errors=True)


def pytest_command(inner: str, report: str, arguments: List[str]) -> List[str]:
    """The command that runs pytest and writes a JUnit report."""
    # "-m" puts the working directory, the checkout, first on sys.path.
    return [inner, "-m", "pytest", "--junitxml=" + report] + arguments


def _share_out(paths: List[str], count: int) -> List[List[str]]:
    """Test files, divided into shares that take about as long."""
    shares: List[List[str]] = [[] for _ in range(count)]
    seconds = [0.0] * count
    for estimate, group in _estimate_groups(paths):
        shortest = seconds.index(min(seconds))
        shares[shortest] += group
        seconds[shortest] += estimate
    return shares


def _estimate_groups(paths: List[str]) -> List[Tuple[float, List[str]]]:
    """Test files, those that are kept together as one group, and their seconds; slowest first."""
    groups = [[path] for path in paths if not re.fullmatch(KEPT_TOGETHER, path)]
    groups.append(sorted(path for path in paths if re.fullmatch(KEPT_TOGETHER, path)))
    estimates = [(sum(map(_estimate_seconds, group)), group) for group in groups]
    return sorted(estimates, key=lambda each: (-each[0], each[1]))


def _test_files(is_slow: bool = False) -> List[str]:
    """The files of the suite, or of the slow tests."""
    found = []
    for folder, _, names in os.walk(TESTS):
        relative = os.path.relpath(folder, ROOT)
        if (relative == SLOW) == is_slow:
            found += [
                os.path.join(relative, name)
                for name in names
                if re.fullmatch(r"test_\w+\.py", name)
            ]
    return found


def _estimate_seconds(path: str) -> float:
    subject = os.path.basename(path)[len("test_") : -len(".py")]
    return SECONDS.get(subject) or os.path.getsize(os.path.join(ROOT, path)) / BYTES_PER_SECOND


def count_tests(report: str) -> Counts:
    """The counts in a JUnit report; all zero if pytest exited before it wrote one."""
    cases = _read_cases(report)
    failed = sum(1 for case in cases if _has_failed(case))
    skipped = sum(1 for case in cases if case.find("skipped") is not None and not _has_failed(case))
    return Counts(len(cases) - failed - skipped, failed, skipped)


def find_failed_tests(report: str) -> List[str]:
    """The tests that failed by a JUnit report, as pytest names them."""
    names = []
    for case in _read_cases(report):
        if _has_failed(case):
            path = case.get("classname", "").replace(".", "/")
            names.append("{}.py::{}".format(path, case.get("name")))
    return sorted(set(names))  # a test that also fails when it cleans up has two cases


def _read_cases(report: str) -> List[ElementTree.Element]:
    try:
        return list(ElementTree.parse(report).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return []


def _has_failed(case: ElementTree.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


def exit_code(code: int, counts: Counts) -> int:
    """The exit code of pytest, but not 0 if every test was skipped."""
    if code < 0:
        return 128 - code  # a signal stopped it: report that as a shell does
    return code if code or counts.passed else NO_TESTS_RAN


def failure_reason(code: int, counts: Counts) -> str:
    """Why a run failed, unless failed tests are the reason."""
    if not code or counts.failed:
        return ""
    reasons = {NO_TESTS_RAN: "no test ran", NOT_SET_UP: "not set up"}
    return reasons.get(code, "pytest exited with {}".format(code))
