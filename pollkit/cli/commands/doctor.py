"""Test each step on the way to a job, and poll it once.

Each line starts with ok, warning, problem or skipped, then names the step; after -> it says what
to do. A step that needs a failed one is skipped. No secrets are shown.

The exit code is 0 if there is no problem, and 4 if there is one. A problem would keep a wait from
succeeding. A failed job is not a problem; a job that the server does not know is one.

doctor takes all flags of pollkit wait, so that you can reuse the command line. Flags that make no
sense for a single poll are ignored: --pace, --timeout, --max-faults, --bucket, --history,
--result, --save, --cancel-on-interrupt, --output, --progress, --log-json, -v, --quiet.

examples:
  pollkit doctor https://api.internal/v1/jobs/42
  pollkit doctor https://api.internal/v1/jobs/42 --show-reply
  pollkit doctor job_1 --profile knowhere
  pollkit doctor https://api.internal/v1/jobs/42 --token-env API_TOKEN --ca-file internal.pem
  pollkit doctor postgresql://me@db.internal/jobs      the server of a ledger
"""

import argparse
from typing import Iterable, List

from ...drivers.doctor.examination import Examination
from ...drivers.doctor.findings import Finding, Level, summarise
from ...edges.ledger.places import is_database
from ..arguments import options
from ..arguments.profile_options import profile_from
from ..exit_codes import ALL_DONE, UNREACHABLE
from ..output.streams import as_text
from ..output.tables import terminal_width, wrap_line
from . import wait

NARROW = 70  # columns; on a narrower terminal, findings are not aligned
TEXT_COLUMN = 21  # the column in which the text of a finding begins


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: those of wait, and one more."""
    wait.add_arguments(parser)
    parser.add_argument(
        "--show-reply",
        action="store_true",
        help="print the reply, too: shortened, and without secrets",
    )


def run(arguments: argparse.Namespace) -> int:
    """Examine, and print each finding at once; the exit code says whether there is a problem."""
    if is_database(arguments.job):
        return _examine_server(arguments.job)
    profile = profile_from(arguments, needs_credential=False)
    job = options.job_from(arguments, arguments.job)
    examination = Examination(job, profile, dict(arguments.header))
    _print(examination.url)
    findings = _print_findings(examination.run())
    if arguments.show_reply:
        _print_reply(examination.reply_lines())
    return _conclude(findings)


def _examine_server(url: str) -> int:
    from ...drivers.doctor.ledger_findings import examine_server

    return _conclude(_print_findings(examine_server(url)))


def _print_findings(found: Iterable[Finding]) -> List[Finding]:
    """Print each finding as soon as it is made."""
    findings = []
    for finding in found:
        findings.append(finding)
        _print(_finding_text(finding))
    return findings


def _conclude(findings: List[Finding]) -> int:
    """Print the summary; the exit code says whether there is a problem."""
    _print(summarise(findings))
    has_problem = any(finding.level is Level.PROBLEM for finding in findings)
    return UNREACHABLE if has_problem else ALL_DONE


def _finding_text(finding: Finding) -> str:
    """A finding in one line; on a terminal, wrapped to its width."""
    width = terminal_width()
    if width is None or width >= NARROW:
        return wrap_line(str(finding), width, TEXT_COLUMN)
    text = "%s %s: %s" % (finding.level.value, finding.step, finding.text)
    if finding.advice:
        text += " -> " + finding.advice
    return wrap_line(text, width, 4)


def _print_reply(lines: List[str]) -> None:
    if not lines:
        _print("the reply: none")
        return
    _print("the reply:")
    for line in lines:
        _print("  " + line)


def _print(line: str) -> None:
    print(as_text(line), end="", flush=True)  # show a step before a slow one starts
