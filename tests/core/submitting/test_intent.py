"""The state machine of an intent, on virtual time: a job is never submitted twice by accident."""

import itertools
import random

import pytest

from pollkit import Fixed, State
from pollkit.core.profiles.profile import Profile
from pollkit.core.submitting.intent import (
    AMBIGUOUS_CODE,
    UNTRACKED_CODE,
    Answer,
    Intent,
    Kind,
    RequestKind,
    Stage,
    SubmitRules,
    begin_lookup,
    begin_request,
    next_action,
    observe,
    restart,
)
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.core.waiting.wait_state import Ending, Sleep

INTENT = Intent("key", "https://api.internal/jobs", "{}")
BARE = SubmitRules(retry=Fixed(5))
KEYED = BARE._replace(has_key=True, key_ttl_s=3600.0)
LOOKED_UP = BARE._replace(has_lookup=True, settle_s=60.0)
NOW = 1000.0


def sent(intent=INTENT, now=NOW):
    return begin_request(intent, now)


def after(kind, rules=BARE, intent=None, now=NOW, **fields):
    """The intent after the reply to its first request, or to the one that is given."""
    answer = Answer(kind, "the reason", **fields)
    return observe(sent() if intent is None else intent, rules, answer, now, 0.5)


def ambiguous(rules=BARE, now=NOW):
    return after(Kind.UNCLEAR, rules, now=now)


def test_a_new_intent_is_submitted_at_once():
    assert next_action(INTENT, BARE, NOW) is RequestKind.SUBMIT


def test_the_intent_is_marked_as_sent_before_the_request():
    begun = sent()
    assert (begun.stage, begun.first_sent_at, begun.sent_at) == (Stage.SENT, NOW, NOW)


def test_an_accepted_job_is_known():
    known = after(Kind.ACCEPTED, job_id="job_1")
    assert (known.stage, known.accepted.job_id) == (Stage.KNOWN, "job_1")


# A request whose reply never came


@pytest.mark.parametrize("found", [sent(), ambiguous()], ids=["after a crash", "after a fault"])
def test_without_a_key_or_a_lookup_an_ambiguous_intent_ends_at_once(found):
    ending = next_action(found, BARE._replace(remedy="ask"), NOW)
    assert (ending.state, ending.error.code) == (State.UNREACHABLE, AMBIGUOUS_CODE)
    message = ending.error.message
    assert "; ask; without idempotency_header or submit_lookup" in message
    assert "does not submit it again" in message


def test_the_ambiguous_end_names_the_reason():
    assert "the reason" in next_action(ambiguous(), BARE, NOW).error.message
    assert "the process ended before" in next_action(sent(), BARE, NOW).error.message


def test_with_a_key_it_is_submitted_again_while_the_server_remembers_the_key():
    assert next_action(sent(), KEYED, NOW + 60) is RequestKind.SUBMIT
    assert next_action(sent(), KEYED, NOW + 3400) is RequestKind.SUBMIT
    expired = next_action(sent(), KEYED, NOW + 3500)
    assert expired.error.code == AMBIGUOUS_CODE
    assert "submit_lookup" not in expired.error.message  # it would not be the reason
    assert "its key may have expired (idempotency_ttl)" in expired.error.message


def test_the_lifetime_of_a_key_counts_from_the_first_request():
    again = begin_request(ambiguous(KEYED), NOW + 3000)
    assert (again.stage, again.first_sent_at, again.sent_at) == (Stage.AMBIGUOUS, NOW, NOW + 3000)
    assert isinstance(next_action(again, KEYED, NOW + 3500), Ending)


def test_with_a_lookup_the_job_is_looked_up():
    assert next_action(sent(), LOOKED_UP, NOW) is RequestKind.LOOK_UP
    found = after(Kind.ACCEPTED, LOOKED_UP, job_id="job_7")
    assert found.stage is Stage.KNOWN


def test_after_the_key_has_expired_a_lookup_decides():
    both = KEYED._replace(has_lookup=True)
    assert next_action(sent(), both, NOW + 60) is RequestKind.SUBMIT
    assert next_action(sent(), both, NOW + 3500) is RequestKind.LOOK_UP


def test_not_found_is_no_proof_until_the_request_can_not_be_under_way_any_more():
    looking = after(Kind.ABSENT, LOOKED_UP, begin_lookup(sent()), NOW + 58)
    assert looking.stage is Stage.AMBIGUOUS
    assert next_action(looking, LOOKED_UP, NOW + 58) == Sleep(NOW + 60, "fault")
    assert next_action(looking, LOOKED_UP, NOW + 60) is RequestKind.LOOK_UP
    settled = after(Kind.ABSENT, LOOKED_UP, looking, NOW + 60)
    assert settled == INTENT._replace(next_at=NOW + 60)
    assert next_action(settled, LOOKED_UP, NOW + 60) is RequestKind.SUBMIT


def test_a_lookup_that_finds_nothing_may_have_a_retry_after():
    looking = after(Kind.ABSENT, LOOKED_UP, begin_lookup(sent()), NOW + 58, retry_after=30.0)
    assert next_action(looking, LOOKED_UP, NOW + 58) == Sleep(NOW + 88, "fault")
    settled = after(Kind.ABSENT, LOOKED_UP, looking, NOW + 88, retry_after=30.0)
    assert next_action(settled, LOOKED_UP, NOW + 88) == Sleep(NOW + 118, "fault")


@pytest.mark.parametrize("kind", [Kind.NOT_SENT, Kind.LIMITED, Kind.UNAUTHORISED])
def test_a_lookup_that_fails_does_not_say_that_nothing_was_accepted(kind):
    rules = LOOKED_UP._replace(can_reauthorise=True)
    looking = after(kind, rules, begin_lookup(sent()))
    assert looking.stage is Stage.AMBIGUOUS
    assert next_action(looking, rules, NOW + 5) is RequestKind.LOOK_UP


def test_the_time_to_settle_begins_when_the_request_failed_not_when_it_was_sent():
    slow = after(Kind.UNCLEAR, LOOKED_UP, now=NOW + 30)
    assert after(Kind.ABSENT, LOOKED_UP, slow, NOW + 80).stage is Stage.AMBIGUOUS
    assert after(Kind.ABSENT, LOOKED_UP, slow, NOW + 90).stage is Stage.WRITTEN


# Requests that the server did not accept


@pytest.mark.parametrize("kind", [Kind.NOT_SENT, Kind.LIMITED])
def test_a_request_that_was_not_accepted_is_repeated(kind):
    unsent = after(kind)
    assert (unsent.stage, unsent.first_sent_at, unsent.sent_at) == (Stage.WRITTEN, None, None)
    assert next_action(unsent, BARE, NOW) == Sleep(NOW + 5, "fault")
    assert next_action(unsent, BARE, NOW + 5) is RequestKind.SUBMIT


def test_a_retry_after_is_a_floor():
    assert after(Kind.LIMITED, retry_after=30.0).next_at == NOW + 30
    assert after(Kind.UNCLEAR, KEYED, retry_after=2.0).next_at == NOW + 5


def test_a_retry_after_past_the_deadline_ends_the_submission():
    rules = BARE._replace(deadline=NOW + 20)
    limited = after(Kind.LIMITED, rules, retry_after=30.0)
    assert limited.ending.state is State.TIMED_OUT
    assert "30s (Retry-After), past the deadline" in limited.ending.error.message
    unclear = after(Kind.UNCLEAR, rules._replace(has_key=True), retry_after=30.0)
    assert unclear.ending.error.code == AMBIGUOUS_CODE


def test_what_is_not_accepted_does_not_settle_an_earlier_request():
    for kind in (Kind.NOT_SENT, Kind.LIMITED, Kind.UNAUTHORISED):
        rules = KEYED._replace(can_reauthorise=True)
        again = begin_request(ambiguous(rules), NOW + 5)
        assert after(kind, rules, again, NOW + 5).stage is Stage.AMBIGUOUS


def test_faults_in_a_row_end_the_submission():
    rules = KEYED._replace(max_faults=2)
    assert after(Kind.NOT_SENT, rules).ending is None
    unsent = after(Kind.NOT_SENT, rules, after(Kind.NOT_SENT, rules))
    assert (unsent.ending.state, unsent.ending.error) == (State.UNREACHABLE, (None, "the reason"))
    unclear = after(Kind.UNCLEAR, rules, ambiguous(rules))
    assert unclear.ending.error.code == AMBIGUOUS_CODE
    assert next_action(unclear, rules, NOW) == unclear.ending


def test_a_refused_job_fails_in_the_words_of_the_api():
    refused = after(Kind.REFUSED, error_code="bad-pages", http_status=422)
    assert refused.stage is Stage.REFUSED
    assert (refused.ending.state, refused.ending.error) == (
        State.FAILED,
        ("bad-pages", "the reason"),
    )


def test_a_refusal_of_a_repeated_request_does_not_say_what_became_of_the_first_one():
    refused = after(Kind.REFUSED, KEYED, ambiguous(KEYED), http_status=422)
    assert refused.ending.error.code == AMBIGUOUS_CODE


def test_a_conflict_means_that_the_server_still_handles_the_first_request():
    waiting = after(Kind.REFUSED, KEYED, ambiguous(KEYED), http_status=409)
    assert waiting.ending is None and waiting.next_at == NOW + 5
    assert after(Kind.REFUSED, KEYED, http_status=409).ending.state is State.FAILED


def test_a_request_that_can_not_be_sent_ends_as_unreachable():
    assert after(Kind.IMPOSSIBLE).ending.error == (None, "the reason")


def test_an_unauthorised_request_is_repeated_once_with_a_fresh_credential():
    rules = BARE._replace(can_reauthorise=True)
    first = after(Kind.UNAUTHORISED, rules)
    assert next_action(first, rules, NOW) is RequestKind.SUBMIT and first.needs_fresh_credential
    second = after(Kind.UNAUTHORISED, rules, begin_request(first, NOW))
    assert second.ending.state is State.UNREACHABLE
    assert after(Kind.UNAUTHORISED).ending.state is State.UNREACHABLE  # there is no credential


def test_a_job_that_can_not_be_tracked_is_not_submitted_again():
    untracked = after(Kind.UNTRACKED, KEYED)
    assert untracked.stage is Stage.AMBIGUOUS
    assert untracked.ending.error == (UNTRACKED_CODE, "the reason")
    assert next_action(after(Kind.UNTRACKED, LOOKED_UP), LOOKED_UP, NOW + 5) is RequestKind.LOOK_UP


# The deadline


def test_at_the_deadline_an_intent_ends():
    rules = KEYED._replace(deadline=NOW + 3)
    unsent = after(Kind.NOT_SENT, rules)
    assert next_action(unsent, rules, NOW) == Sleep(NOW + 3, "fault")
    late = next_action(unsent, rules, NOW + 3)
    assert (late.state, late.error.message) == (
        State.TIMED_OUT,
        "not submitted in time: the reason",
    )
    assert next_action(INTENT, rules, NOW + 3).error.message == "not submitted in time"
    assert next_action(ambiguous(rules), rules, NOW + 3).error.code == AMBIGUOUS_CODE


def test_a_user_may_decide_to_submit_again():
    assert next_action(restart(ambiguous()), BARE, NOW) is RequestKind.SUBMIT


def test_the_rules_come_from_the_profile():
    profile = Profile(
        submit_lookup="https://api.internal/find?key={key}",
        submit_settle="2m",
        idempotency_header="Idempotency-Key",
        idempotency_ttl="1h",
    )
    rules = SubmitRules.from_profile(profile, WaitSettings(max_faults=4), 7.0, "ask")
    assert (rules.has_key, rules.key_ttl_s, rules.has_lookup, rules.settle_s) == (
        True,
        3600.0,
        True,
        120.0,
    )
    assert (rules.max_faults, rules.deadline, rules.remedy) == (4, 7.0, "ask")


# Random walks against a server that counts


class Server:
    """Creates jobs; a request may arrive up to 50 s after its client died or gave up."""

    def __init__(self, rng, knows_keys):
        self.rng = rng
        self.knows_keys = knows_keys
        self.jobs = []
        self.under_way = []

    def post(self, now):
        """Whether a reply comes back. A lost request may still arrive later."""
        if self.rng.random() < 0.4:
            self.under_way.append(now + self.rng.uniform(0, 50))
            return False
        self.create(now)
        return self.rng.random() < 0.5

    def create(self, now):
        if not (self.knows_keys and self.jobs):
            self.jobs.append(now)

    def advance(self, now):
        arrived = [at for at in self.under_way if at <= now]
        self.under_way = [at for at in self.under_way if at > now]
        for at in arrived:
            self.create(at)


def walk(seed, rules):
    """Submit with faults and crashes at random instants; the number of jobs, and the ending."""
    rng = random.Random(seed)
    server = Server(rng, rules.has_key)
    now = NOW
    stored = INTENT
    for _ in itertools.count():
        server.advance(now)
        action = next_action(stored, rules, now)
        if isinstance(action, Ending):
            break
        if isinstance(action, Sleep):
            now = action.until
            continue
        if action is RequestKind.LOOK_UP:
            stored = begin_lookup(stored)
            kind = Kind.ACCEPTED if server.jobs else Kind.ABSENT
            if rng.random() < 0.3:
                kind = rng.choice([Kind.NOT_SENT, Kind.LIMITED])
        else:
            if rng.random() < 0.1:
                now += rng.uniform(0, 5)  # a crash before the request was marked
                continue
            stored = begin_request(stored, now)
            if rng.random() < 0.1:
                continue  # a crash before the request was sent
            has_reply = server.post(now)
            now += rng.uniform(0, 5)
            if rng.random() < 0.2:
                continue  # a crash before the reply was stored
            kind = Kind.ACCEPTED if has_reply else Kind.UNCLEAR
        stored = observe(stored, rules, Answer(kind, ""), now, rng.random())
        if stored.stage is Stage.KNOWN:
            break
    server.advance(now + 100)
    return len(server.jobs), stored


@pytest.mark.parametrize("rules", [KEYED, LOOKED_UP], ids=["key", "lookup"])
def test_with_a_key_or_a_lookup_every_walk_creates_exactly_one_job(rules):
    for seed in range(500):
        jobs, intent = walk(seed, rules)
        assert (jobs, intent.stage) == (1, Stage.KNOWN), seed


def test_without_either_no_walk_creates_two_jobs():
    results = [walk(seed, BARE) for seed in range(500)]
    assert {jobs for jobs, _ in results} == {0, 1}
    assert all(jobs == 1 for jobs, intent in results if intent.stage is Stage.KNOWN)
