"""Read a reply by the rules of a profile: the first rule that matches gives the verdict."""

from typing import Any, List, Optional

from ...model import Reply
from ...profiles.profile import Profile
from ..fields.job_fields import JobFields
from ..fields.json_paths import Path
from ..http_status import next_request, read_http_status
from ..json_decoding import decode_json
from ..verdict import Reading, Verdict
from .parser import parse_rules
from .rule import UNREADABLE, Evidence, Rule

_CALL_HTTP_STATUS = Path("ResponseMetadata.HTTPStatusCode")


class RuleReader:
    """Reads replies by the rules of one profile."""

    __slots__ = ("_rules", "_fields")

    def __init__(self, profile: Profile, fields: JobFields) -> None:
        self._rules = parse_rules(profile.rules)
        self._fields = fields

    def read_reply(self, reply: Reply) -> Optional[Reading]:
        """Read a reply with any HTTP status; None if no rule matches.

        A pending rule does not hide a 429 or its like: the rate limit concerns all jobs.
        """
        reading = self._read(_evidence_from(reply), reply)
        if reading is None or reading.verdict is not Verdict.PENDING or reply.status < 400:
            return reading
        is_limit = read_http_status(reply, accepted=False).verdict is Verdict.LIMITED
        return None if is_limit else reading

    def read_call(self, data: Any) -> Optional[Reading]:
        """Read the value that a callable returned, or the response that its exception carries.

        botocore's responses have the HTTP status at ResponseMetadata.HTTPStatusCode.
        """
        http = _CALL_HTTP_STATUS.find(data)
        return self._read(Evidence(data, http if isinstance(http, int) else None), None)

    def read_item(self, item: Any) -> Optional[Reading]:
        """Read one job of a list."""
        return self._read(Evidence(item, 200), None)

    def _read(self, evidence: Evidence, reply: Optional[Reply]) -> Optional[Reading]:
        for rule in self._rules:
            if rule.matches(evidence):
                return self._reading(rule, evidence, reply)
        return None

    def explain(self, reply: Reply) -> List[str]:
        """Which rule matches a reply, and which earlier ones nearly did; or else all rules."""
        evidence = _evidence_from(reply)
        matching = next((rule for rule in self._rules if rule.matches(evidence)), None)
        others = list(self._rules)
        lines = []
        if matching is not None:
            lines.append("%r matches: %s" % (matching.text, matching.explain(evidence)))
            earlier = self._rules[: self._rules.index(matching)]
            others = [rule for rule in earlier if rule.count_held(evidence)]
        by_nearness = sorted(others, key=lambda rule: -rule.count_held(evidence))
        for rule in by_nearness:
            lines.append("%r does not match: %s" % (rule.text, rule.explain(evidence)))
        return lines

    def _reading(self, rule: Rule, evidence: Evidence, reply: Optional[Reply]) -> Reading:
        data = evidence.data
        verdict = rule.verdict
        because = "rule %r (%s): %s" % (rule.text, rule.explain(evidence), verdict.value)
        fraction, total = self._fields.find_progress(data)
        reading = Reading(
            verdict,
            because,
            rule.status(evidence),
            fraction=fraction,
            total=total,
            quotes_server=True,
        )
        if verdict is Verdict.PENDING:
            location, etag = next_request(reply)
            return reading._replace(location=location, etag=etag)
        duration, notice_delay = self._fields.find_times(data, reply)
        reading = reading._replace(duration_s=duration, notice_delay_s=notice_delay)
        if verdict is Verdict.DONE:
            # The body of an error, as in 'done if http 404', is no result.
            return reading if evidence.is_http_error else self._fields.add_result(reading, data)
        code, message = self._fields.find_error(data)
        codes = evidence.error_codes or (None,)
        return reading._replace(error_code=code or codes[0], error_message=message or because)


def _evidence_from(reply: Reply) -> Evidence:
    """The parts of a reply that rules judge."""
    data: Any = None
    if reply.body and not reply.body.isspace():
        try:
            data = decode_json(reply.body)
        except ValueError:
            data = UNREADABLE
    return Evidence(data, reply.status, reply.headers)
