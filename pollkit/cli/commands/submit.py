"""Submit a job with a POST, wait for it and print its outcome, as pollkit wait does.

The profile has the URL to submit to (submit_url), and the path of the job's id in the reply.
Without a profile, give the URL; the reply must then have the job's URL in Location or
Operation-Location.

With --ledger, the command only submits; pollkit run waits. The job is in the ledger before it is
sent, with its body but without the credential. If this process or the network fails meanwhile,
pollkit run completes the submission: it sends the job again only if the profile says how to do that
without creating a second one (idempotency_header or submit_lookup). Otherwise the job ends as
unreachable with the error code submit-ambiguous, and pollkit retry --resubmit is your decision.
See pollkit help submit.

examples:
  pollkit submit --profile replicate --json prediction.json
  pollkit submit --profile replicate --json - --result < prediction.json
  pollkit submit https://api.internal/v1/jobs --json job.json --token-env API_TOKEN
  pollkit submit --profile replicate --json prediction.json --ledger jobs.db --timeout 6h
"""

import argparse
import json
import sys
from typing import Any, List, Optional

from ...core.events import STATUS, Event
from ...core.model import NO_TIMEOUT, Job, Outcome
from ...core.profiles.profile import Profile
from ...core.submitting.request import LARGEST_BODY
from ...core.units import NEVER
from ...core.urls import is_url, redact_url
from ...drivers.single import Poller
from ...errors import ConfigError
from ..arguments import argument_types, options
from ..arguments.profile_options import profile_from
from ..arguments.save_options import add_save_option
from ..output.outcome_text import add_output_option
from ..progress.display import add_progress_options
from ..single_wait import WriteLine, wait_and_print


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "url",
        metavar="URL",
        nargs="?",
        help="the URL to submit to (default: the profile's submit_url)",
    )
    parser.add_argument(
        "--json",
        metavar="FILE|-",
        dest="source",
        type=argument_types.path,
        help="the JSON to submit: a file, or - for standard input",
    )
    parser.add_argument(
        "--ledger",
        metavar="FILE",
        type=argument_types.path,
        help="put the job in this ledger (created if needed), for pollkit run to wait for",
    )
    parser.add_argument(
        "--metadata",
        metavar="JSON",
        type=_metadata,
        help="data of yours about the job, such as '{\"customer\": 7}'; the outcome has it, too",
    )
    parser.add_argument(
        "--result", action="store_true", help="print only the result; if it is text, without quotes"
    )
    add_save_option(parser, "result.json")
    add_output_option(parser)
    options.add_polling_options(parser, submits=True)
    add_progress_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Submit the job; return the exit code for its outcome."""
    profile = profile_from(arguments)
    if arguments.url is not None and not is_url(arguments.url):
        raise ConfigError(
            "%r is not a URL: --json FILE names the JSON to submit" % redact_url(arguments.url)
        )
    if arguments.timeout == 0:
        raise ConfigError("--timeout 0 leaves no time to submit the job: give more, such as 10s")
    if arguments.ledger is not None:
        _refuse_flags_of_a_wait(arguments)
    data = None if arguments.source is None else _read_json(arguments.source)
    if arguments.ledger is not None:
        from ..runs.ledger_submission import submit_to_ledger  # late: it imports sqlite3

        return submit_to_ledger(arguments, profile, new_job(arguments, profile), data)
    return _submit_and_wait(arguments, profile, data)


def _refuse_flags_of_a_wait(arguments: argparse.Namespace) -> None:
    """Raise a ConfigError about a flag that would have no effect with --ledger."""
    has_history = arguments.history is not None and "history" not in arguments.variables
    given = {
        "--result": arguments.result,
        "--pace": arguments.pace is not None,
        "--history": has_history,
    }
    for flag, is_given in given.items():
        if is_given:
            raise ConfigError("%s does not go with --ledger, which does not wait" % flag)


def new_job(arguments: argparse.Namespace, profile: Profile) -> Job:
    """The job to put in a ledger; its id is not known yet."""
    timeout = NO_TIMEOUT if arguments.timeout == NEVER else arguments.timeout
    job = Job(
        "submission",
        profile=profile.name,
        label=arguments.label,
        size=arguments.size,
        metadata=arguments.metadata,
        timeout=timeout,
    )
    return Job.from_any(job)


def _submit_and_wait(arguments: argparse.Namespace, profile: Profile, data: Any) -> int:
    title = redact_url(arguments.url or profile.submit_url or "")

    def submit(poller: Poller) -> Outcome:
        return poller.submit(
            data,
            arguments.url,
            label=arguments.label,
            size=arguments.size,
            metadata=arguments.metadata,
        )

    submitted_ids: List[str] = []

    def on_event(event: Event) -> None:
        # The first change of status is that the API has accepted the job: then its id is known.
        if event.kind == STATUS and not submitted_ids:
            submitted_ids.append(event.id)

    def on_interrupt(poller: Poller, write_line: WriteLine) -> None:
        text = "the job may have been submitted"
        if submitted_ids:
            text = "the job was submitted as %s and has not finished" % submitted_ids[0]
        write_line("pollkit: interrupted: " + text)

    return wait_and_print(arguments, profile, title, submit, on_interrupt, on_event)


def _metadata(text: str) -> Optional[Any]:
    try:
        value = _parse_json(text)
    except ValueError as error:
        raise ConfigError("metadata must be JSON, but: %s" % error) from None
    if not isinstance(value, dict):
        raise ConfigError('metadata must be a JSON object, such as {"customer": 7}')
    return value


def _read_json(source: str) -> Any:
    """The JSON in a file, or in standard input if the source is '-'; otherwise a ConfigError."""
    name = "standard input" if source == "-" else source
    if source == "-" and sys.stdin is None:
        raise ConfigError("standard input is closed: there is no JSON to submit; name a file")
    try:
        if source == "-":
            data = sys.stdin.buffer.read(LARGEST_BODY + 1)
        else:
            with open(source, "rb") as file:
                data = file.read(LARGEST_BODY + 1)
    except OSError as error:
        if source.lstrip()[:1] in ("{", "["):
            raise ConfigError("--json takes a file, not JSON; - reads standard input") from None
        raise ConfigError("%s can't be read: %s" % (name, error.strerror)) from None
    if len(data) > LARGEST_BODY:
        raise ConfigError("%s is larger than %d MB" % (name, LARGEST_BODY >> 20))
    try:
        return _parse_json(data.decode("utf-8-sig"))
    except ValueError as error:
        raise ConfigError("%s is not JSON: %s" % (name, error)) from None


def _parse_json(text: str) -> Any:
    """The value of a JSON text; otherwise a ValueError that names the mistake and its place."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _refuse_constant(name: str) -> None:
    raise ValueError("%s is no number in JSON" % name)
