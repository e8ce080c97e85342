"""scripts/fuzz.py runs, finds failures, and prints a small input that repeats them."""

import ast
import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest

from paths import ROOT

SCRIPTS = os.path.join(ROOT, "scripts")

# The fuzzer with one more target, on inputs of letters.
WITH_TARGET = """
import sys
sys.path.insert(0, %r)
import fuzz
from fuzz_parts.common import Target, Violation

%s
corpus = [b"first line\\nsecond line\\n", b"Content: 5\\n"]
fuzz.TARGETS["test"] = Target("a test", corpus, [b"token", b"bad"], lambda: None, check)
sys.exit(fuzz.main(sys.argv[1:]))
"""


def run_python(*arguments):
    process = subprocess.Popen(
        [sys.executable] + list(arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    out, err = process.communicate()
    return process.returncode, out, err


def fuzz(*arguments):
    return run_python(os.path.join(SCRIPTS, "fuzz.py"), *arguments)


def fuzz_function(source, *arguments):
    """Fuzz a function `check` that the source defines."""
    return run_python("-c", WITH_TARGET % (SCRIPTS, textwrap.dedent(source)), "test", *arguments)


def test_a_second_of_fuzzing_finds_no_failure_in_the_parser():
    code, out, err = fuzz("parser", "--seconds", "1", "--seed", "1")
    assert (code, err) == (0, ""), out
    summary = r"parser: (\d+) executions in [\d.]+ s, (\d+) distinct outcomes, seed 1\n"
    found = re.match(summary, out)
    assert found, out
    assert int(found.group(1)) > 20
    assert int(found.group(2)) > 5
    assert "2xx, can be reused\n" in out


def test_a_failure_is_printed_as_a_small_input_with_exit_code_1():
    source = """
        def check(data, rng, is_thorough):
            if b"bad" in data:
                raise Violation("it has %d bytes" % len(data))
            return str(len(data) % 7)
    """
    code, out, err = fuzz_function(source, "--seconds", "60", "--seed", "5")
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert re.match(r"test: \d+ executions in .* seed 5$", lines[0])
    assert lines[1] == "test: FAILED: it has 3 bytes"
    assert ast.literal_eval(lines[-1]) == b"bad"
    code, out, err = fuzz_function(source, "--data", lines[-1])
    assert (code, out.splitlines()[-1]) == (1, "b'bad'")
    code, out, err = fuzz_function(source, "--data", "b'good'")
    assert (code, out, err) == (0, "test: no failure; outcome: 4\n", "")


def test_an_unexpected_exception_is_a_failure_with_an_identity():
    """The input is made smaller only as long as it fails in the same way."""
    code, out, _ = fuzz_function(
        """
        def check(data, rng, is_thorough):
            if len(data) < 4:
                raise Violation("too short")
            return {}[data] if b"bad" in data else ""
    """,
        "--seconds",
        "60",
        "--seed",
        "5",
    )
    assert code == 1
    assert re.search(r"^test: FAILED: KeyError in <string>, line \d+: b'", out, re.MULTILINE), out
    smallest = ast.literal_eval(out.splitlines()[-1])
    assert len(smallest) == 4
    assert b"bad" in smallest


def test_the_same_seed_repeats_the_run():
    source = """
        import zlib
        seen = []
        def check(data, rng, is_thorough):
            seen.append((data, rng.random()))
            if len(seen) == 300:
                print(zlib.crc32(str(seen).encode()))
                sys.exit(0)
            return ""
    """
    runs = [fuzz_function(source, "--seconds", "60", "--seed", seed)[1] for seed in ("7", "7", "8")]
    assert runs[0] != ""
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer signals here")
def test_an_input_that_never_ends_is_a_failure():
    code, out, _ = fuzz_function("""
        fuzz.HANGS_AFTER_S = 0.1
        fuzz.MINIMISING_S = 0.1

        def check(data, rng, is_thorough):
            while b"first" in data:
                pass
            return ""
    """)
    assert code == 1
    assert "test: FAILED: no end after 0.1 s of CPU time" in out


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "give a TARGET, or --cases N for all of them"),
        (["--seconds", "5", "--cases", "5"], "need a TARGET"),
        (["--cases", "0"], "'0' is not a number of cases"),
        (["nonsense"], "invalid choice: 'nonsense'"),
        (["parser", "--seconds", "0"], "'0' is not a number of seconds"),
        (["parser", "--seconds", "nan"], "'nan' is not a number of seconds"),
        (["parser", "--seconds", "x"], "'x' is not a number of seconds"),
        (["parser", "--data", "HTTP"], "not a Python literal"),
        (["parser", "--data", "'HTTP'"], "not a Python literal"),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_code_2(arguments, words):
    code, out, err = fuzz(*arguments)
    assert (code, out) == (2, "")
    assert words in err.splitlines()[-1]
