#!/usr/bin/env python3
"""Measure pollkit beside its peers on this machine: `scripts/bench.py transport`.

Nothing here is a test: a measurement never fails, it says what was measured, on what, and
whether a goal was reached. The exit code is 0 for that too; 1 where it could not be measured.
The peers are installed into .venvs/bench, which pollkit itself never needs.
"""

import argparse
import json
import os
import sys
from typing import Callable, Dict, List, Optional

from bench_parts import batch, ledger, pace, startup, transport
from bench_parts.common import Options, Results, Trouble

# A benchmark is a function: it prints its table and returns what --json writes. The first line
# of its docstring is its help.
BENCHMARKS: Dict[str, Callable[[Options], Results]] = {
    "transport": transport.run,
    "batch": batch.run,
    "startup": startup.run,
    "ledger": ledger.run,
    "pace": pace.run,
}


def positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 3600:
        raise argparse.ArgumentTypeError("{} is not a duration to measure for".format(text))
    return value


def rounds(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1000:
        raise argparse.ArgumentTypeError("{} is not a number of rounds".format(text))
    return value


def arguments() -> argparse.ArgumentParser:
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
        help="which one; without it, this help",
    )
    parser.add_argument(
        "--rounds",
        type=rounds,
        metavar="N",
        help="rounds of each case, in turn with the others (5; the median counts)",
    )
    parser.add_argument(
        "--seconds", type=positive, metavar="S", help="how long one round of one case takes (1)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="3 rounds of 0.3 s: for trying out, not for quoting"
    )
    parser.add_argument("--json", metavar="FILE", help="write the results there too; - is stdout")
    return parser


def main(argv: Optional[List[str]] = None) -> int:
    parser = arguments()
    given = parser.parse_args(argv)
    if given.name is None:
        parser.print_help()
        return 0
    options = Options(
        given.rounds or (3 if given.quick else 5), given.seconds or (0.3 if given.quick else 1.0)
    )
    try:
        # Opened first: a run of minutes should not end with a path that can't be written.
        out = None if given.json in (None, "-") else open(given.json, "w", encoding="utf-8")  # noqa: SIM115
        results = BENCHMARKS[given.name](options)
        if given.json is not None:
            json.dump(results, out or sys.stdout, indent=1)
            print(file=out)
        if out is not None:
            out.close()
    except BrokenPipeError:
        # Nobody reads on; keep the interpreter from failing once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("bench.py: interrupted", file=sys.stderr)
        return 130
    except (Trouble, OSError) as error:
        print("bench.py: {}".format(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
