#!/usr/bin/env python3
"""Run pollkit's tests: on this Python, or with --all on every Python it supports.

Arguments not listed below go to pytest: `scripts/test.py -k bucket`. What takes long (kills by
the hundred, stress, crowds of processes) stands in tests/slow: `scripts/test.py tests/slow` runs
it here, --all on the oldest and the newest Python.

The last line printed is always "N passed, N failed" (and "N skipped" if any were). A Python or a
check that fails without a failed test of its own counts as one failed there, so that line never
looks better than the exit code.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple
from xml.etree import ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SUPPORTED = [(3, minor) for minor in range(6, 14)]
PARTS = 4  # of a suite, side by side: much of what it does is to wait
# These take about 3 s or more each, the slowest first: not all of them in one part.
SLOWEST = (
    "wait_and_batch zipapp batch engine history_commands simulate_command bad_input simulation "
    "secrets bounded_work shared_bucket ledger_sharing ledger_commands parser fuzz multiplexer "
    "batch_ends ledger_runner notifier help doctor shared_directories"
).split()

# CI takes 15 minutes, and may take 90; a captured command that still runs at this point is stopped and shown.
STOP_AT = time.monotonic() + 40 * 60

TESTING = ["pytest", "responses"]
# The last releases for Python 3.6, and the last pip: the 18.1 it brings along is too old.
TESTING_36, PIP_36 = ["pytest==7.0.1", "responses==0.17.0"], "pip==21.3.1"
TOOLS = ["coverage", "mypy", "ruff"]
SLOW = "tests/slow"
COVERED = "pollkit/core"
# What core is tested by. Measuring makes tests slow, and those of the edges would cover it by chance.
CORE_TESTS = [
    "tests/core",
    "tests/drivers/doctor",
    "tests/drivers/simulation",
    "tests/edges/profiles",
    "tests/drivers/test_common_loops.py",
    "tests/drivers/test_single.py",
    "tests/drivers/test_batch_corners.py",
    "tests/cli/test_doctor.py",
    "tests/cli/test_profile_commands.py",
    "tests/cli/test_simulate_command.py",
    "tests/test_public.py",
]

NO_TESTS_RAN = 5  # pytest's own exit code for it


class Trouble(Exception):
    """A failure to tell in one line, with the output of the command that caused it."""

    def __init__(self, message: str, output: bytes = b"") -> None:
        super().__init__(message)
        self.output = output


class Python(NamedTuple):
    path: str
    prefix: str  # where it is installed: it may have several paths, but has one prefix
    version: Tuple[int, ...]


class Counts(NamedTuple):
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __str__(self) -> str:
        text = "{} passed, {} failed".format(self.passed, self.failed)
        return text + (", {} skipped".format(self.skipped) if self.skipped else "")


class Outcome(NamedTuple):
    """One line of the closing table."""

    name: str
    ok: Optional[bool]  # None: did not run, and did not have to
    note: str = ""
    seconds: float = 0.0
    counts: Counts = Counts()
    output: bytes = b""


Work = Callable[[str, str], List[Outcome]]


def dotted(version: Tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def run(command: List[str], env: Optional[Dict[str, str]] = None) -> Tuple[int, bytes]:
    """The exit code of a command and its output, stdout and stderr as they came."""
    # A file, not a pipe: a grandchild that outlives its parent would hold a pipe open.
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise Trouble("cannot run {}: {}".format(command[0], error.strerror)) from None
        try:
            code, ending = process.wait(max(0.0, STOP_AT - time.monotonic())), b""
        except subprocess.TimeoutExpired:
            process.kill()
            code, ending = process.wait(), b"\ntest.py: stopped, the time for the run is over\n"
        log.seek(0)
        return code, log.read() + ending


def show(output: bytes) -> None:
    # As bytes: what the tests print need not be encodable where this script prints.
    sys.stdout.flush()
    sys.stdout.buffer.write(output)
    if output and not output.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def find_pythons(wanted: List[Tuple[int, ...]]) -> Dict[Tuple[int, ...], Python]:
    root = pyenv_root()
    found = {}
    for version in wanted:
        for path in candidates(root, version):
            python = ask(path)
            if python and python.version[:2] == version:
                found[version] = python
                break
    return found


def pyenv_root() -> str:
    if os.environ.get("PYENV_ROOT"):
        return os.environ["PYENV_ROOT"]
    if shutil.which("pyenv"):
        code, output = run(["pyenv", "root"])
        if code == 0:
            return os.fsdecode(output.strip())
    return os.path.expanduser("~/.pyenv")


def candidates(root: str, version: Tuple[int, ...]) -> Iterator[str]:
    """Where that Python may be, best first: pyenv's, newest patch first, then on PATH."""
    versions = os.path.join(root, "versions")
    release = re.compile(re.escape(dotted(version)) + r"\.(\d+)")
    matches = map(release.fullmatch, os.listdir(versions) if os.path.isdir(versions) else [])
    for match in sorted(filter(None, matches), key=lambda match: -int(match.group(1))):
        yield os.path.join(versions, match.group(), "bin", "python3")
    on_path = shutil.which("python" + dotted(version))
    if on_path:
        yield on_path


def ask(path: str) -> Optional[Python]:
    """The CPython at that path. A pyenv shim may lead nowhere, a build may be broken: None."""
    question = (
        "import platform, sys; print(platform.python_implementation(), *sys.version_info[:3]);"
        "print(sys.base_prefix)"
    )
    try:
        code, output = run([path, "-c", question])
    except Trouble:
        return None
    answer = os.fsdecode(output).splitlines()
    if code != 0 or len(answer) != 2 or not answer[0].startswith("CPython "):
        return None
    return Python(path, answer[1], tuple(map(int, answer[0].split()[1:])))


def prepare(python: Python, tools: bool = False) -> str:
    """The interpreter of a virtual environment with all the tests need, made if it must be."""
    name = dotted(python.version[:2]) + ("-tools" if tools else "")
    venv = os.path.join(ROOT, ".venvs", name)
    inner = os.path.join(venv, "Scripts\\python.exe" if os.name == "nt" else "bin/python")
    old = python.version < (3, 7)
    requirements = (TESTING_36 if old else TESTING) + (TOOLS if tools else [])

    # The stamp is written last, so a half-made environment has none.
    stamp = os.path.join(venv, "installed.txt")
    content = os.fsencode("\n".join([python.prefix, dotted(python.version)] + requirements))
    if os.access(inner, os.X_OK) and read(stamp) == content:
        return inner

    print("test.py: setting up .venvs/" + name, file=sys.stderr, flush=True)
    install = [inner, "-m", "pip", "install", "--disable-pip-version-check"]
    must([python.path, "-m", "venv", "--clear", venv])
    if old:
        must(install + [PIP_36])
    must(install + requirements)
    with open(stamp, "wb") as file:
        file.write(content)
    return inner


def read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def must(command: List[str]) -> None:
    code, output = run(command)
    if code != 0:
        raise Trouble("failed: " + " ".join(command), output)


def pytest_command(inner: str, report: str, arguments: List[str]) -> List[str]:
    # "-m" puts the working directory, the checkout, first on sys.path.
    return [inner, "-m", "pytest", "--junitxml=" + report] + arguments


def parts() -> List[List[str]]:
    """The test files in parts that take about as long, to be run side by side."""
    paths = list(test_files())
    paths.sort(
        key=lambda path: (
            SLOWEST.index(subject(path)) if subject(path) in SLOWEST else len(SLOWEST),
            -os.path.getsize(os.path.join(ROOT, path)),
            path,
        )
    )
    dealt: List[List[str]] = [[] for _ in range(PARTS)]
    for i, path in enumerate(paths):
        turn, place = divmod(i, PARTS)
        dealt[place if turn % 2 == 0 else PARTS - 1 - place].append(path)
    return dealt


def test_files() -> Iterator[str]:
    """The test files of the suite, without the slow ones."""
    for folder, _, names in os.walk(os.path.join(ROOT, "tests")):
        relative = os.path.relpath(folder, ROOT)
        if relative != SLOW:
            for name in sorted(names):
                if re.fullmatch(r"test_\w+\.py", name):
                    yield os.path.join(relative, name)


def subject(path: str) -> str:
    """The part of a test file's name that says what it tests."""
    return os.path.basename(path)[len("test_") : -len(".py")]


def test_environment() -> Dict[str, str]:
    """The environment without what would change how pollkit behaves under test, or compile it for each process."""
    return {
        name: value
        for name, value in os.environ.items()
        if not (
            name.lower().endswith("_proxy")
            or name.upper().startswith("POLLKIT_")
            or name == "PYTHONDONTWRITEBYTECODE"
        )
    }


def tally(report: str) -> Counts:
    """Counts from pytest's JUnit report: all zero if pytest ended too early to write it."""
    try:
        cases = list(ElementTree.parse(report).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return Counts()
    kinds = [{child.tag for child in case} for case in cases]
    failed = sum(1 for kind in kinds if kind & {"failure", "error"})
    skipped = sum(1 for kind in kinds if "skipped" in kind and not kind & {"failure", "error"})
    return Counts(len(cases) - failed - skipped, failed, skipped)


def verdict(code: int, counts: Counts) -> int:
    """pytest's exit code, but never success for a run in which every test was skipped."""
    if code < 0:
        return 128 - code  # ended by a signal: say so the way a shell does
    return code if code or counts.passed else NO_TESTS_RAN


def total(outcomes: List[Outcome]) -> Counts:
    return Counts(
        sum(outcome.counts.passed for outcome in outcomes),
        sum(outcome.counts.failed or int(outcome.ok is False) for outcome in outcomes),
        sum(outcome.counts.skipped for outcome in outcomes),
    )


def reason(code: int, counts: Counts) -> str:
    """Why a run failed, where no failed test says so."""
    if not code or counts.failed:
        return ""
    return "no test ran" if code == NO_TESTS_RAN else "pytest ended with {}".format(code)


def here(arguments: List[str]) -> int:
    """The suite on this Python: in parts at once, or what the arguments choose, its output as it comes."""
    inner = prepare(Python(sys.executable, sys.base_prefix, tuple(sys.version_info[:3])))
    if not arguments:
        outcome = suite("", inner, [], test_environment())
        show(outcome.output)
        if not outcome.ok and outcome.note:
            print("test.py: " + outcome.note, file=sys.stderr, flush=True)
        print(total([outcome]))
        return 0 if outcome.ok else 1
    with tempfile.TemporaryDirectory() as scratch:
        report = os.path.join(scratch, "report.xml")
        process = subprocess.Popen(
            pytest_command(inner, report, arguments), cwd=ROOT, env=test_environment()
        )
        try:
            code = process.wait()
        except KeyboardInterrupt:
            code = process.wait()  # pytest got it too, and still has its summary to print
        counts = tally(report)
    code = verdict(code, counts)
    if reason(code, counts):
        print("test.py: " + reason(code, counts), file=sys.stderr, flush=True)
    print(total([Outcome("", code == 0, counts=counts)]))
    return code


def everywhere(required: List[Tuple[int, ...]], arguments: List[str]) -> int:
    """The suite on every Python found, one after the other; then, side by side, what need not run on each of them."""
    wanted = sorted(set(SUPPORTED + required))
    found = find_pythons(wanted)
    if not found:
        raise Trouble("found no Python 3.6 to 3.13, neither in pyenv nor on PATH")
    newest = max(found)

    rows = {}
    for version in sorted(found, reverse=True):
        (rows[version],) = revealed(
            examine(
                found[version],
                version == newest,
                lambda name, inner: [suite(name, inner, arguments, test_environment())],
            )
        )
    for version in wanted:
        rows.setdefault(
            version, Outcome(dotted(version), False if version in required else None, "not found")
        )

    rest = [(newest, lambda name, inner: checks(inner, not arguments))]
    for version in () if arguments else sorted({min(found), newest}):
        rest.append(
            (
                version,
                lambda name, inner: [suite(name + " slow", inner, [SLOW], test_environment())],
            )
        )
    with ThreadPoolExecutor(len(rest)) as pool:
        others = list(
            pool.map(lambda each: examine(found[each[0]], each[0] == newest, each[1]), rest)
        )
    return close(
        [rows[version] for version in wanted]
        + [row for outcomes in others for row in revealed(outcomes)]
    )


def revealed(outcomes: List[Outcome]) -> List[Outcome]:
    """Outcomes, once their output has been shown."""
    for outcome in outcomes:
        print("\n=== {}".format(outcome.name))
        show(outcome.output)
    return outcomes


def close(rows: List[Outcome]) -> int:
    print()
    for row in rows:
        seconds = "{:.1f} s".format(row.seconds) if row.seconds else ""
        state = {True: "ok", False: "FAILED", None: ""}[row.ok]
        print("{:<11} {:<42} {:>8}  {}".format(row.name, row.note, seconds, state).rstrip())
    print(total(rows))
    return 1 if any(row.ok is False for row in rows) else 0


def examine(python: Python, newest: bool, work: Work) -> List[Outcome]:
    """What comes of a piece of work on one Python: its name and its interpreter are what it gets."""
    name = dotted(python.version)
    try:
        return work(name, prepare(python, tools=newest))
    except (Trouble, OSError) as error:
        output = getattr(error, "output", b"") + os.fsencode("test.py: {}\n".format(error))
        return [Outcome(name, False, "not set up", output=output)]


def suite(name: str, inner: str, arguments: List[str], env: Dict[str, str]) -> Outcome:
    """The suite on one Python, in parts at once; or what the arguments choose, in one."""
    start = time.monotonic()
    chosen = [arguments] if arguments else parts()
    with ThreadPoolExecutor(len(chosen)) as pool:
        ended = list(pool.map(lambda part: run_part(inner, part, env), chosen))
    counts = Counts(*map(sum, zip(*(found for _, found, _ in ended))))
    code = next((code for code, _, _ in ended if code), 0)
    note = ": ".join(filter(None, [str(counts), reason(code, counts)]))
    return Outcome(
        name,
        code == 0,
        note,
        time.monotonic() - start,
        counts,
        b"".join(said for _, _, said in ended),
    )


def run_part(inner: str, part: List[str], env: Dict[str, str]) -> Tuple[int, Counts, bytes]:
    with tempfile.TemporaryDirectory() as scratch:
        report = os.path.join(scratch, "report.xml")
        code, output = run(pytest_command(inner, report, part), env)
        counts = tally(report)
    return verdict(code, counts), counts, output


def checks(inner: str, whole: bool) -> List[Outcome]:
    coverage = [
        ["coverage", "run", "-m", "pytest", "-q"] + CORE_TESTS,
        ["coverage", "report", "--include=" + COVERED + "/*", "--fail-under=100"],
    ]
    checked = [
        ("coverage", COVERED + ": 100 % of lines and branches", coverage),
        ("mypy", "--strict, on pollkit and scripts", [["mypy"]]),
        ("ruff", "check .", [["ruff", "check", "."]]),
    ]

    def check(row: Tuple[str, str, List[List[str]]]) -> Outcome:
        name, note, commands = row
        if commands is coverage and not whole:
            return Outcome(name, None, "not checked: pytest was given arguments")
        start, code, output = time.monotonic(), 0, b""
        with tempfile.TemporaryDirectory() as scratch:
            env = dict(test_environment(), COVERAGE_FILE=os.path.join(scratch, "coverage"))
            for command in commands:
                if code == 0:
                    code, said = run([inner, "-m"] + command, env)
                    output += said
        return Outcome(name, code == 0, note, time.monotonic() - start, output=output)

    return [check(row) for row in checked]


def series_list(text: str) -> List[Tuple[int, ...]]:
    if not re.fullmatch(r"3\.\d+(,3\.\d+)*", text):
        raise argparse.ArgumentTypeError("{!r} is not like 3.6,3.13".format(text))
    return [tuple(map(int, part.split("."))) for part in text.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="test.py",
        description=__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="every CPython 3.6 to 3.13 from pyenv or PATH; coverage, mypy and ruff too",
    )
    parser.add_argument(
        "--require",
        type=series_list,
        default=[],
        metavar="3.X,3.Y",
        help="with --all: fail if one of these was not found",
    )
    options, arguments = parser.parse_known_args()
    if options.require and not options.all:
        parser.error("--require goes with --all")
    try:
        return everywhere(options.require, arguments) if options.all else here(arguments)
    except BrokenPipeError:
        # Nobody reads on; keep the interpreter from failing once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("test.py: interrupted", file=sys.stderr)
        return 130
    except (Trouble, OSError) as error:
        show(getattr(error, "output", b""))
        print("test.py: {}".format(error), file=sys.stderr, flush=True)
        print(Counts(failed=1))
        return 1


if __name__ == "__main__":
    sys.exit(main())
