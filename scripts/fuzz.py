#!/usr/bin/env python3
"""Feed random changes of valid input to the parts of pollkit that read untrusted input.

    python3 scripts/fuzz.py --cases 300000 --seed 1    # all targets, in turn
    python3 scripts/fuzz.py parser --seconds 10 --seed 1
    python3 scripts/fuzz.py urls --atheris --seconds 300   # guided by coverage; needs atheris

Prints the number of executions, the outcomes and the seed, which repeats the run. The exit code
is 1 if something failed; the input is then made as small as possible and printed as a Python
literal, which --data takes to run it again.
"""

import argparse
import ast
import collections
import importlib
import os
import random
import re
import signal
import sys
import tempfile
import time
import traceback
import zlib
from typing import Callable, Counter, Dict, List, NamedTuple, Optional

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from fuzz_parts import callback_requests, http_parser, ledger_rows, replies, texts
from fuzz_parts.common import Target, Violation
from fuzz_parts.mutations import LONGEST_INPUT, Material, minimise, mutate

TARGETS: Dict[str, Target] = {
    "parser": http_parser.TARGET,
    "streaming": http_parser.STREAMING,
    "callbacks": callback_requests.TARGET,
    "reader": replies.READER,
    "headers": replies.RATE_LIMITS,
    "urls": texts.URL_TARGET,
    "ini": texts.INI_TARGET,
    "ledger": ledger_rows.TARGET,
}
SHARES = {"ledger": 0.02}  # of --cases, relative to the other targets: its cases are slow

HANGS_AFTER_S = 5.0  # of CPU time, for one input
MINIMISING_S = 10.0
LARGEST_CORPUS = 2000
SHOWN_OUTCOMES = 30


class Failure(NamedTuple):
    """An input that fails, and how."""

    data: bytes
    reason: str
    kind: str  # the same for inputs that fail for the same reason

    @classmethod
    def from_error(cls, data: bytes, error: Exception) -> "Failure":
        """The failure if a check raised this."""
        text = " ".join(str(error).split())[:500]
        if isinstance(error, Violation):
            return cls(data, text, re.sub("[0-9]+", "", text.partition(":")[0]))
        last_call = traceback.extract_tb(error.__traceback__)[-1]
        place = "%s in %s, line %s" % (type(error).__name__, last_call[0], last_call[1])
        return cls(data, "%s: %s" % (place, text), place)


class Run:
    """A run over one target."""

    def __init__(self, target: Target, seed: int) -> None:
        self._target = target
        self._seed = seed
        self._rng = random.Random(seed)
        self._corpus = list(target.corpus)
        self.outcomes: Counter[str] = collections.Counter()
        self.executions = 0

    def fuzz(self, seconds: float, cases: float) -> Optional[Failure]:
        """Check inputs until time or cases are used up or one fails; first those of the corpus."""
        give_up_at = time.monotonic() + seconds
        for data in self._target.corpus:
            failure = self.check(data)
            if failure is not None:
                return failure
        while time.monotonic() < give_up_at and self.executions < cases:
            failure = self.check(mutate(Material(self._corpus, self._target.tokens), self._rng))
            if failure is not None:
                return failure
        return None

    def check(self, data: bytes, is_thorough: bool = False) -> Optional[Failure]:
        """Check one input."""
        self.executions += 1
        # From the data, so that the input alone repeats what happened.
        rng = random.Random(zlib.crc32(data) + self._seed)
        stop_after(HANGS_AFTER_S)
        try:
            outcome = self._target.check(data, rng, is_thorough)
        except Exception as error:
            return Failure.from_error(data, error)
        finally:
            stop_after(0)
        self.outcomes[outcome] += 1
        if self.outcomes[outcome] == 1 and len(self._corpus) < LARGEST_CORPUS:
            self._corpus.append(data)
        return None

    def minimise(self, failure: Failure) -> Failure:
        """The smallest input found that fails in the same way."""
        found = failure

        def fails(data: bytes) -> bool:
            nonlocal found
            again = self.check(data, is_thorough=True)
            if again is None or again.kind != failure.kind:
                return False
            found = again
            return True

        minimise(failure.data, fails, MINIMISING_S)
        return found


def stop_after(seconds: float) -> None:
    """Stop a check after this much CPU time with a Violation; 0 disables this."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)


def raise_hang(*_: object) -> None:
    raise Violation("no end after %g s of CPU time" % HANGS_AFTER_S)


def run_target(name: str, seconds: float, cases: float, seed: int) -> int:
    """Fuzz one target; the exit code."""
    run = Run(TARGETS[name], seed)
    started_at = time.monotonic()
    failure = run.fuzz(seconds, cases)
    took_s = time.monotonic() - started_at
    print(
        "%s: %d executions in %.1f s, %d distinct outcomes, seed %d"
        % (name, run.executions, took_s, len(run.outcomes), seed)
    )
    if failure is None:
        for outcome, count in run.outcomes.most_common(SHOWN_OUTCOMES):
            print("%8d  %s" % (count, outcome))
        return 0
    return report(name, seed, run.minimise(failure))


def run_all(cases: int, seed: int) -> int:
    """Fuzz every target with its share of the cases; the exit code."""
    total = sum(SHARES.get(name, 1.0) for name in TARGETS)
    codes = []
    for name in TARGETS:
        TARGETS[name].prepare()
        share = SHARES.get(name, 1.0) / total
        codes.append(run_target(name, float("inf"), cases * share, seed))
    return max(codes)


def run_atheris(name: str, seconds: float, seed: int) -> int:
    """Fuzz one target with atheris, guided by coverage; the exit code."""
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        print("fuzz.py: atheris is not installed: pip install atheris", file=sys.stderr)
        return 2
    # Import pollkit again, so that atheris sees it. To instrument all modules takes minutes.
    packages = ["pollkit", "fuzz_parts"]
    for module in list(sys.modules):
        if module.partition(".")[0] in packages:
            del sys.modules[module]
    with atheris.instrument_imports(include=packages):
        again = importlib.import_module("fuzz")
    again.TARGETS[name].prepare()
    with tempfile.TemporaryDirectory() as folder:
        options = again.libfuzzer_options(TARGETS[name], folder, seconds, seed)
        child = os.fork()  # because atheris ends its process
        if child == 0:
            atheris.Setup([sys.argv[0]] + options, again.guided_check(name, seed))
            atheris.Fuzz()
        return 1 if os.waitpid(child, 0)[1] else 0


def guided_check(name: str, seed: int) -> Callable[[bytes], None]:
    """A function that checks one input, and reports a failure and ends the process."""
    run = Run(TARGETS[name], seed)

    def check(data: bytes) -> None:
        failure = run.check(data)
        if failure is not None:
            report(name, seed, run.minimise(failure))
            sys.stdout.flush()
            os._exit(1)

    return check


def libfuzzer_options(target: Target, folder: str, seconds: float, seed: int) -> List[str]:
    """Write the target's corpus and tokens to files; the options that name them."""
    corpus = os.path.join(folder, "corpus")
    os.mkdir(corpus)
    for number, data in enumerate(target.corpus):
        with open(os.path.join(corpus, str(number)), "wb") as file:
            file.write(data)
    tokens = os.path.join(folder, "tokens")
    with open(tokens, "w") as text_file:
        for token in target.tokens:
            escaped = "".join("\\x%02x" % byte for byte in token)
            text_file.write('"%s"\n' % escaped)
    limits = ["-max_total_time=%d" % max(1, round(seconds)), "-max_len=%d" % LONGEST_INPUT]
    limits.append("-len_control=0")  # long inputs from the beginning
    return [corpus, "-dict=" + tokens, "-seed=%d" % (seed + 1)] + limits


def run_once(name: str, data: bytes, seed: int) -> int:
    """Check one input; the exit code."""
    run = Run(TARGETS[name], seed)
    failure = run.check(data, is_thorough=True)
    if failure is not None:
        return report(name, seed, failure)
    print("%s: no failure; outcome: %s" % (name, ", ".join(run.outcomes)))
    return 0


def report(name: str, seed: int, failure: Failure) -> int:
    print("%s: FAILED: %s" % (name, failure.reason))
    print(
        "the input, %d bytes (again: fuzz.py %s --seed %d --data LITERAL):"
        % (len(failure.data), name, seed)
    )
    print(repr(failure.data))
    return 1


def parse_seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 86400:
        raise argparse.ArgumentTypeError("%r is not a number of seconds up to 86400" % text)
    return value


def parse_cases(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) <= 10**9:
        raise argparse.ArgumentTypeError("%r is not a number of cases up to 10**9" % text)
    return int(text)


def parse_literal(text: str) -> bytes:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = None
    if not isinstance(value, bytes):
        raise argparse.ArgumentTypeError("not a Python literal like b'HTTP/1.1 200'")
    return value


def parse_arguments(arguments: Optional[List[str]]) -> argparse.Namespace:
    targets = "\n".join("  %-11s %s" % (name, target.help) for name, target in TARGETS.items())
    parser = argparse.ArgumentParser(
        prog="fuzz.py",
        description=__doc__,
        epilog="targets:\n" + targets,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "target",
        nargs="?",
        choices=sorted(TARGETS),
        metavar="TARGET",
        help="what to fuzz (default: all targets in turn, with --cases)",
    )
    parser.add_argument(
        "--cases", type=parse_cases, metavar="N", help="the number of inputs to check"
    )
    parser.add_argument(
        "--atheris", action="store_true", help="use atheris, which is guided by coverage"
    )
    parser.add_argument(
        "--seconds",
        type=parse_seconds,
        metavar="S",
        help="how long to run (default: 10, unless --cases is given)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="seed for the random numbers; without it, a random one",
    )
    parser.add_argument(
        "--data",
        type=parse_literal,
        metavar="LITERAL",
        help="check this input only, a Python bytes literal",
    )
    options = parser.parse_args(arguments)
    if options.target is None and options.cases is None:
        parser.error("give a TARGET, or --cases N for all of them")
    if options.target is None and (options.seconds or options.data or options.atheris):
        parser.error("--seconds, --data and --atheris need a TARGET")
    return options


def main(arguments: Optional[List[str]] = None) -> int:
    options = parse_arguments(arguments)
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    if hasattr(signal, "SIGVTALRM"):
        signal.signal(signal.SIGVTALRM, raise_hang)
    try:
        if options.target is None:
            return run_all(options.cases, seed)
        TARGETS[options.target].prepare()
        if options.data is not None:
            return run_once(options.target, options.data, seed)
        if options.atheris:
            return run_atheris(options.target, options.seconds or 10.0, seed)
        seconds = options.seconds or (float("inf") if options.cases else 10.0)
        return run_target(options.target, seconds, options.cases or float("inf"), seed)
    except BrokenPipeError:
        # The reader closed the pipe; keep the interpreter from failing again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("fuzz.py: interrupted, seed %d" % seed, file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
