#!/usr/bin/env python3
"""Measure pollkit and its peers on this machine: `scripts/bench.py transport`.

A benchmark is not a test: it prints the figures, the machine and whether a goal was reached, and
the exit code is 0 in any case; it is 1 if the benchmark could not run. The peers are installed in
.venvs/bench; pollkit itself does not need them.
"""

import argparse
import contextlib
import json
import os
import sys
from typing import Callable, Dict, List, Optional

from bench_parts import batch, ledger, pace, startup, transport
from bench_parts.common import Failure, Options, Results

# Each function prints its tables and returns the results for --json. The first line of its
# docstring is its help.
BENCHMARKS: Dict[str, Callable[[Options], Results]] = {
    "transport": transport.run,
    "batch": batch.run,
    "startup": startup.run,
    "ledger": ledger.run,
    "pace": pace.run,
}


def parse_seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 3600:
        raise argparse.ArgumentTypeError(
            "{} is not a number of seconds from 0 to 3600".format(text)
        )
    return value


def parse_rounds(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1000:
        raise argparse.ArgumentTypeError("{} is not a number of rounds from 1 to 1000".format(text))
    return value


def build_parser() -> argparse.ArgumentParser:
    names = "\n".join(
        "  {:<11} {}".format(name, (run.__doc__ or "").splitlines()[0])
        for name, run in BENCHMARKS.items()
    )
    parser = argparse.ArgumentParser(
        prog="bench.py",
        description=__doc__,
        epilog="benchmarks:\n" + names,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "name",
        nargs="?",
        choices=sorted(BENCHMARKS),
        metavar="NAME",
        help="the benchmark to run; without it, this help",
    )
    parser.add_argument(
        "--rounds",
        type=parse_rounds,
        metavar="N",
        help="rounds of each case; the median counts (default: 5)",
    )
    parser.add_argument(
        "--seconds",
        type=parse_seconds,
        metavar="S",
        help="how long one round of one case takes (default: 1)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="3 rounds of 0.3 s: to try it, not to quote"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the results there; - is stdout")
    return parser


def run_benchmark(name: str, options: Options, json_path: Optional[str]) -> None:
    """Run a benchmark, and write its results as JSON if a path is given."""
    with contextlib.ExitStack() as stack:
        out = sys.stdout
        if json_path not in (None, "-"):
            # Opened first, so that a bad path is reported before a run of minutes.
            out = stack.enter_context(open(json_path or "", "w", encoding="utf-8"))
        results = BENCHMARKS[name](options)
        if json_path is not None:
            json.dump(results, out, indent=1)
            print(file=out)


def main(argv: Optional[List[str]] = None) -> int:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if arguments.name is None:
        parser.print_help()
        return 0
    defaults = Options(3, 0.3) if arguments.quick else Options(5, 1.0)
    options = Options(arguments.rounds or defaults.rounds, arguments.seconds or defaults.seconds)
    try:
        run_benchmark(arguments.name, options, arguments.json)
    except BrokenPipeError:
        # The reader closed the pipe; keep the interpreter from failing again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("bench.py: interrupted", file=sys.stderr)
        return 130
    except (Failure, OSError) as error:
        print("bench.py: {}".format(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
