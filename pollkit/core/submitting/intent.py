"""An intent's state machine: a job is submitted exactly once, whatever is killed and whenever.

An intent is a job that is to be submitted. Its key identifies it to the server.

House rules
  * The intent is stored before the first request, and `begin_request` before every request that
    submits. So a process that finds an intent SENT knows that another one died during the request,
    and `begin_lookup` makes it AMBIGUOUS.
  * A request that may have been accepted is repeated only if the server recognises the key
    (`has_key`, while the server remembers it), or after a lookup by the key has found nothing for
    so long that the request can't be under way any more (`settle_s`).
  * Without either, the intent ends as unreachable with the code AMBIGUOUS. To submit again is then
    the user's decision (`restart`).

Stages
  WRITTEN    no request was accepted
  SENT       the first request is under way, or its process died meanwhile
  AMBIGUOUS  a request may have been accepted
  KNOWN      the server has accepted the job, and its reply has the job's id or URL
  REFUSED    the server has refused the job

  answer         in stage SENT                          in stage AMBIGUOUS
  -------------  -------------------------------------  --------------------------------------
  ACCEPTED       KNOWN                                  KNOWN
  UNTRACKED      unreachable; with a lookup: AMBIGUOUS  unreachable; with a lookup: retry
  REFUSED        REFUSED: failed                        409: retry; otherwise ambiguous
  LIMITED        WRITTEN: retry as the server asks      retry as the server asks
  NOT_SENT       WRITTEN: retry, up to max_faults       retry, up to max_faults
  IMPOSSIBLE     WRITTEN: unreachable                   ambiguous
  UNAUTHORISED   WRITTEN: once with a fresh             once with a fresh credential,
                 credential, then unreachable           then ambiguous
  UNCLEAR        AMBIGUOUS                              retry, up to max_faults
  ABSENT                                                retry until `settle_s` has passed,
                                                        then WRITTEN

A 503 is UNCLEAR, also with a Retry-After: a gateway may send it although the server behind it has
accepted the job. A 429 is LIMITED: it comes before the server handles the request.
"""

from enum import Enum
from typing import Callable, Dict, NamedTuple, Optional, Union

from ..model import Error, State
from ..profiles.profile import Profile, to_pace
from ..reading.verdict import Reading
from ..units import NEVER, rounded_duration, to_seconds
from ..waiting.pace import Pace
from ..waiting.wait_settings import WaitSettings
from ..waiting.wait_state import Ending, Sleep

AMBIGUOUS_CODE = "submit-ambiguous"
UNTRACKED_CODE = "submit-untracked"  # accepted, but the reply has no id or URL to poll
_DIED = "the process ended before the reply came"


class Stage(str, Enum):
    """How far the submission of a job has come."""

    WRITTEN = "written"
    SENT = "sent"
    AMBIGUOUS = "ambiguous"
    KNOWN = "known"
    REFUSED = "refused"


class Kind(Enum):
    """The meaning of a reply for the intent."""

    ACCEPTED = "accepted"
    UNTRACKED = "untracked"
    REFUSED = "refused"
    LIMITED = "limited"
    NOT_SENT = "not sent"  # or a lookup that failed
    IMPOSSIBLE = "impossible"  # not sent, and to repeat the request can't help
    UNAUTHORISED = "unauthorised"
    UNCLEAR = "unclear"
    ABSENT = "absent"  # a lookup found no job


class Answer(NamedTuple):
    """The content of one reply to a submission or a lookup."""

    kind: Kind
    because: str
    error_code: Optional[str] = None  # the API's own code
    http_status: Optional[int] = None
    retry_after: Optional[float] = None
    job_id: Optional[str] = None  # of a job that was accepted
    job_url: Optional[str] = None  # None: the profile's
    is_finished: bool = False  # `reading` says that the job has finished already
    reading: Optional[Reading] = None  # None if there was no reply


class SubmitRules(NamedTuple):
    """The settings of a profile for submissions, and the deadline of one job."""

    has_key: bool = False
    key_ttl_s: float = 86400.0
    has_lookup: bool = False
    settle_s: float = 60.0
    retry: Pace = to_pace(Profile().retry)
    max_faults: Optional[int] = None
    can_reauthorise: bool = False
    deadline: float = NEVER
    remedy: str = ""  # after an ambiguous end

    @classmethod
    def from_profile(
        cls, profile: Profile, settings: WaitSettings, deadline: float, remedy: str = ""
    ) -> "SubmitRules":
        """The rules of a profile for a job with these settings."""
        return cls(
            has_key=profile.idempotency_header is not None,
            key_ttl_s=to_seconds(profile.idempotency_ttl),
            has_lookup=profile.submit_lookup is not None,
            settle_s=to_seconds(profile.submit_settle),
            retry=settings.retry,
            max_faults=settings.max_faults,
            can_reauthorise=settings.can_reauthorise,
            deadline=deadline,
            remedy=remedy,
        )


class Intent(NamedTuple):
    """A job that is to be submitted: its request, and how far the submission has come."""

    key: str
    url: str
    body: str
    stage: Stage = Stage.WRITTEN
    next_at: float = -NEVER  # no request before this instant
    first_sent_at: Optional[float] = None  # the first request that may have been accepted
    sent_at: Optional[float] = None  # the last one: it may have been under way until then
    faults: int = 0  # in a row
    last_fault: Optional[str] = None
    # Not stored:
    delay_s: float = 0.0  # the last one of the retry backoff
    has_renewed_credential: bool = False
    needs_fresh_credential: bool = False
    accepted: Optional[Answer] = None
    ending: Optional[Ending] = None


class RequestKind(Enum):
    """The request that an intent needs; the intent says whether with a fresh credential."""

    SUBMIT = "submit"  # the one that submits the job
    LOOK_UP = "look up"  # ask the server for a job with the key


Action = Union[RequestKind, Sleep, Ending]


def restart(intent: Intent) -> Intent:
    """Submit again, whatever may have been accepted: the user has decided so."""
    return Intent(intent.key, intent.url, intent.body)


def next_action(intent: Intent, rules: SubmitRules, now: float) -> Action:
    """The action that an intent needs now: a request, a sleep, or none because it has ended.

    An intent in stage KNOWN needs nothing more: don't ask.
    """
    if intent.ending is not None:
        return intent.ending
    may_be_accepted = intent.stage is not Stage.WRITTEN
    if now >= rules.deadline:
        if may_be_accepted:
            return _ambiguous_end(intent, rules, now)
        message = "not submitted in time" + _last_fault(intent)
        return Ending(State.TIMED_OUT, now, error=Error(None, message))
    can_repeat = rules.has_key and now < _key_expires_at(intent, rules)
    if may_be_accepted and not can_repeat and not rules.has_lookup:
        return _ambiguous_end(intent, rules, now)
    if now < intent.next_at:
        return Sleep(min(intent.next_at, rules.deadline), "fault")
    if may_be_accepted and not can_repeat:
        return RequestKind.LOOK_UP
    return RequestKind.SUBMIT


def begin_request(intent: Intent, now: float) -> Intent:
    """The intent to store before a request that submits."""
    stage = Stage.SENT if intent.stage is Stage.WRITTEN else Stage.AMBIGUOUS
    first_sent_at = now if intent.first_sent_at is None else intent.first_sent_at
    return intent._replace(stage=stage, first_sent_at=first_sent_at, sent_at=now)


def begin_lookup(intent: Intent) -> Intent:
    """The intent before a lookup: whatever that finds out, a request may have been accepted."""
    return intent._replace(stage=Stage.AMBIGUOUS)


def observe(intent: Intent, rules: SubmitRules, answer: Answer, now: float, rand: float) -> Intent:
    """The intent after a reply; `rand` is a random number in [0, 1)."""
    counted = intent._replace(needs_fresh_credential=False)
    return _TRANSITIONS[answer.kind](counted, _Observation(rules, answer, now, rand))


class _Observation(NamedTuple):
    """Everything besides the intent that a transition depends on."""

    rules: SubmitRules
    answer: Answer
    now: float
    rand: float


def _accepted(intent: Intent, seen: _Observation) -> Intent:
    return intent._replace(stage=Stage.KNOWN, accepted=seen.answer, faults=0)


def _untracked(intent: Intent, seen: _Observation) -> Intent:
    if seen.rules.has_lookup:
        return _unclear(intent, seen)
    error = Error(UNTRACKED_CODE, seen.answer.because)
    ending = Ending(State.UNREACHABLE, seen.now, error=error)
    return intent._replace(stage=Stage.AMBIGUOUS, sent_at=seen.now, ending=ending)


def _refused(intent: Intent, seen: _Observation) -> Intent:
    answer = seen.answer
    if intent.stage is Stage.AMBIGUOUS:
        # The server may still be handling the earlier request with the same key.
        is_in_progress = answer.http_status == 409
        return _retry(intent, seen) if is_in_progress else _give_up(intent, seen)
    ending = Ending(State.FAILED, seen.now, error=Error(answer.error_code, answer.because))
    return _nothing_accepted(intent)._replace(stage=Stage.REFUSED, ending=ending)


def _limited(intent: Intent, seen: _Observation) -> Intent:
    after = _nothing_accepted(intent)._replace(last_fault=seen.answer.because)
    return _sleep(after, seen, after.faults + 1)


def _not_sent(intent: Intent, seen: _Observation) -> Intent:
    return _retry(_nothing_accepted(intent), seen)


def _impossible(intent: Intent, seen: _Observation) -> Intent:
    return _give_up(_nothing_accepted(intent), seen)


def _unauthorised(intent: Intent, seen: _Observation) -> Intent:
    after = _nothing_accepted(intent)
    if intent.has_renewed_credential or not seen.rules.can_reauthorise:
        return _give_up(after, seen)
    return after._replace(
        has_renewed_credential=True, needs_fresh_credential=True, next_at=seen.now
    )


def _unclear(intent: Intent, seen: _Observation) -> Intent:
    # The request may have been under way until now.
    return _retry(intent._replace(stage=Stage.AMBIGUOUS, sent_at=seen.now), seen)


def _absent(intent: Intent, seen: _Observation) -> Intent:
    settled_at = (intent.sent_at or 0.0) + seen.rules.settle_s
    floor_at = seen.now + (seen.answer.retry_after or 0.0)
    if seen.now >= settled_at:
        return restart(intent)._replace(next_at=floor_at)
    after = _sleep(intent, seen, intent.faults + 1)
    return after._replace(next_at=max(floor_at, min(after.next_at, settled_at)))


_TRANSITIONS: Dict[Kind, Callable[[Intent, _Observation], Intent]] = {
    Kind.ACCEPTED: _accepted,
    Kind.UNTRACKED: _untracked,
    Kind.REFUSED: _refused,
    Kind.LIMITED: _limited,
    Kind.NOT_SENT: _not_sent,
    Kind.IMPOSSIBLE: _impossible,
    Kind.UNAUTHORISED: _unauthorised,
    Kind.UNCLEAR: _unclear,
    Kind.ABSENT: _absent,
}


# Steps that several transitions share


def _nothing_accepted(intent: Intent) -> Intent:
    """The intent if the server has not accepted its latest request."""
    if intent.stage is Stage.AMBIGUOUS:  # an earlier request may have been accepted
        return intent
    return intent._replace(stage=Stage.WRITTEN, first_sent_at=None, sent_at=None)


def _retry(intent: Intent, seen: _Observation) -> Intent:
    """Count a fault and sleep, or give up."""
    faults = intent.faults + 1
    max_faults = seen.rules.max_faults
    if max_faults is not None and faults >= max_faults:
        return _give_up(intent._replace(faults=faults), seen)
    after = intent._replace(faults=faults, last_fault=seen.answer.because)
    return _sleep(after, seen, faults)


def _sleep(intent: Intent, seen: _Observation, step: int) -> Intent:
    delay_s = seen.rules.retry.delay(step, intent.delay_s, 0.0, seen.rand) or 0.0
    floor_s = seen.answer.retry_after or 0.0
    if floor_s and seen.now + floor_s > seen.rules.deadline:
        asked = rounded_duration(floor_s)
        problem = "%s; the server asks to wait %s (Retry-After), past the deadline"
        late = seen.answer._replace(because=problem % (seen.answer.because, asked))
        return _give_up(intent, seen._replace(answer=late), State.TIMED_OUT)
    return intent._replace(delay_s=delay_s, next_at=seen.now + max(delay_s, floor_s))


def _give_up(intent: Intent, seen: _Observation, state: State = State.UNREACHABLE) -> Intent:
    """End: as ambiguous if the server may have accepted the job, otherwise in this state."""
    after = intent._replace(last_fault=seen.answer.because)
    ending = Ending(state, seen.now, error=Error(seen.answer.error_code, seen.answer.because))
    if intent.stage is not Stage.WRITTEN:
        ending = _ambiguous_end(after, seen.rules, seen.now)
    return after._replace(ending=ending)


def _ambiguous_end(intent: Intent, rules: SubmitRules, now: float) -> Ending:
    reason = intent.last_fault or _DIED
    message = "the API may have accepted the job: %s" % reason
    if rules.remedy:  # first, because status cuts long messages
        message += "; " + rules.remedy
    if not rules.has_key and not rules.has_lookup:
        message += "; without idempotency_header or submit_lookup, pollkit does not submit it again"
    elif rules.has_key and now >= _key_expires_at(intent, rules):
        message += "; its key may have expired (idempotency_ttl): pollkit does not submit it again"
    return Ending(State.UNREACHABLE, now, error=Error(AMBIGUOUS_CODE, message))


def _key_expires_at(intent: Intent, rules: SubmitRules) -> float:
    """When the server may forget the key. The request takes a while to reach it."""
    if intent.first_sent_at is None:
        return NEVER
    return intent.first_sent_at + rules.key_ttl_s * 0.95


def _last_fault(intent: Intent) -> str:
    return ": " + intent.last_fault if intent.last_fault else ""
