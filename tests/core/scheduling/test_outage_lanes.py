"""When an origin is down, how it is probed, and how its jobs resume."""

import pytest

from agenda_calls import ENDLESS, PENDING, apply_readings, ids, make_lane, take
from pollkit import Fixed, Job
from pollkit.core.model import FaultCode
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.scheduling import outage_lanes
from pollkit.core.scheduling.agenda import Agenda
from pollkit.core.scheduling.outages import Outage, is_failure, is_reply
from pollkit.core.waiting.machine import start
from pollkit.core.waiting.wait_settings import WaitSettings

HERE = "https://api.internal"
THERE = "https://other.internal"
REFUSED = Reading(Verdict.FAULT, "10.0.0.5:443 refused the connection", code=FaultCode.CONNECT)
TIMEOUT = Reading(Verdict.FAULT, "no reply in time", code=FaultCode.TIMEOUT)
BAD_GATEWAY = Reading(Verdict.FAULT, "502", code=FaultCode.HTTP_ERROR, http_status=502)
BROKEN_JOB = Reading(Verdict.FAULT, "500", code=FaultCode.HTTP_ERROR, http_status=500)
BAD_CERTIFICATE = Reading(Verdict.FAULT, "certificate expired", code=FaultCode.CERTIFICATE_DATE)
NO_FILES = Reading(Verdict.FAULT, "too many open files", code=FaultCode.NO_RESOURCES)
LIMITED = Reading(Verdict.LIMITED, "503", code=FaultCode.HTTP_ERROR, http_status=503)
NOT_FOUND = Reading(Verdict.NOT_FOUND, "404")
IN_LEDGER = WaitSettings(pace=Fixed(5), timeout=60.0, max_faults=None)


class Driver:
    """Polls the jobs of an agenda; every poll takes no time."""

    def __init__(self, slots=8):
        self.agenda = Agenda(slots)
        self.lane = make_lane()
        self.changes = []

    @property
    def outages(self):
        return self.agenda.outages.current()

    def add(self, names, origin=HERE, settings=ENDLESS, now=0.0, lane=None):
        for name in names:
            state = start(Job(name), origin + "/" + name, settings, now)
            self.agenda.adopt(state, settings, lane or self.lane, origin=origin)

    def begin(self, now):
        """The job that is polled now."""
        entries = take(self.agenda, now)
        return entries[0] if isinstance(entries, list) else None

    def finish(self, entry, reading, now):
        origin = entry.origin
        (step,) = apply_readings(self.agenda, [entry], [reading], reading, now, 0.5)
        change = self.agenda.outages.observe(entry, origin, reading, now, 0.5)
        if change is not None:
            self.changes.append(change)
        return step

    def poll(self, reading, now):
        """Poll the next job; its id, or None if none is due."""
        entry = self.begin(now)
        if entry is None:
            return None
        self.finish(entry, reading, now)
        return entry.state.job.id

    def poll_all(self, reading, now):
        """Poll until no job is due; their ids."""
        return list(iter(lambda: self.poll(reading, now), None))

    def expired(self):
        return {step.after.job.id: step.after.ending for step in self.agenda.take_expired()}


@pytest.mark.parametrize(
    "reading, failure, is_a_reply",
    [
        (REFUSED, True, False),
        (TIMEOUT, True, False),
        (BAD_GATEWAY, True, False),
        (BROKEN_JOB, False, True),
        (BAD_CERTIFICATE, False, False),
        (NO_FILES, False, False),
        (LIMITED, False, True),
        (NOT_FOUND, False, True),
        (PENDING, False, True),
    ],
)
def test_a_poll_fails_if_the_server_did_not_speak(reading, failure, is_a_reply):
    assert (is_failure(reading), is_reply(reading)) == (failure, is_a_reply)


def test_three_failed_polls_in_a_row_are_an_outage_with_one_probe_at_a_time():
    driver = Driver()
    driver.add("abcdef")
    assert driver.poll_all(REFUSED, 10.0) == ["a", "b", "c"]
    (outage,) = driver.outages
    assert (outage.origin, outage.began_at, outage.last_fault) == (HERE, 10.0, REFUSED.because)
    assert outage.next_probe_at == 11.0 and driver.begin(10.9) is None
    probe = driver.begin(11.0)
    assert probe.state.job.id == "d" and driver.begin(11.5) is None  # not while one is in flight
    driver.finish(probe, REFUSED, 12.0)
    assert driver.outages[0].next_probe_at == 14.0  # after twice the delay
    assert [change.failed_probes for change in driver.changes] == [0, 1]


def test_the_delay_between_probes_grows_to_a_minute_and_the_jobs_take_turns():
    driver = Driver()
    driver.add("abcdef", settings=ENDLESS._replace(max_faults=1000))
    driver.poll_all(REFUSED, 0.0)
    now = 0.0
    probes = []
    delays = []
    for _ in range(10):
        probe_at = driver.outages[0].next_probe_at
        delays.append(probe_at - now)
        now = probe_at
        probes.append(driver.poll(REFUSED, now))
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    assert set(probes) == set("abcdef")


def test_no_job_is_polled_before_the_retry_after_of_a_server_that_is_down():
    maintenance = BAD_GATEWAY._replace(retry_after=100.0)
    driver = Driver()
    driver.add("abcdef")
    assert driver.poll_all(maintenance, 0.0) == ["a", "b", "c"]
    assert driver.begin(99.9) is None and driver.poll(maintenance, 100.0) == "d"
    assert driver.begin(199.9) is None and driver.poll(BAD_GATEWAY, 200.0)
    assert driver.outages[0].next_probe_at == 204.0  # at the pace of the probes again


def test_a_reply_of_any_kind_in_between_resets_the_count():
    driver = Driver()
    driver.add("abcdef")
    for reading in [REFUSED, TIMEOUT, NOT_FOUND, REFUSED, BAD_GATEWAY, BROKEN_JOB]:
        assert driver.poll(reading, 0.0)
    assert driver.outages == []


def test_a_bad_certificate_neither_counts_nor_resets():
    driver = Driver()
    driver.add("abcdef")
    for reading in [REFUSED, REFUSED, BAD_CERTIFICATE]:
        driver.poll(reading, 0.0)
    assert driver.outages == []
    driver.poll(REFUSED, 0.0)
    assert len(driver.outages) == 1
    driver.poll(BAD_CERTIFICATE, 1.0)  # but it is a failed probe
    assert driver.outages[0].last_fault == BAD_CERTIFICATE.because


def test_one_broken_job_does_not_stop_its_neighbours():
    driver = Driver()
    driver.add("a", settings=ENDLESS._replace(retry=Fixed(1)))
    driver.add("b", now=100.0)
    for now in range(5):
        assert driver.poll(TIMEOUT, float(now)) == "a"
    assert driver.outages == []


def test_the_only_job_of_an_origin_can_find_an_outage():
    driver = Driver()
    driver.add("a", settings=ENDLESS._replace(retry=Fixed(1)))
    driver.add("b", origin=THERE, now=100.0)
    for now in range(3):
        driver.poll(TIMEOUT, float(now))
    assert [outage.origin for outage in driver.outages] == [HERE]


def test_another_origin_under_the_same_limit_goes_on():
    driver = Driver()
    driver.add("abcd")
    driver.poll_all(REFUSED, 0.0)
    driver.add("xyz", origin=THERE)
    assert driver.poll_all(PENDING, 0.5) == ["x", "y", "z"]
    assert [outage.origin for outage in driver.outages] == [HERE]


def test_a_probe_needs_a_token_of_its_own_limit():
    driver = Driver()
    slow = make_lane(rate=0.1, burst=3)
    driver.add("abcd", lane=slow)
    driver.poll_all(REFUSED, 0.0)
    assert take(driver.agenda, 1.0) == 10.0
    assert driver.poll(PENDING, 10.0) == "d" and driver.outages == []


def test_jobs_resume_within_ten_seconds_and_their_delay_counts_as_slept_for_faults():
    driver = Driver()
    names = ["job_%d" % i for i in range(1000)]
    driver.add(names, settings=ENDLESS._replace(pace=Fixed(100)))
    driver.poll_all(REFUSED, 0.0)
    driver.poll(PENDING, 40.0)
    assert driver.outages == [] and driver.changes[-1].ended_at == 40.0
    assert 150 < len(driver.poll_all(PENDING, 42.0)) < 250
    assert 750 < len(driver.poll_all(PENDING, 50.0)) < 850
    assert driver.agenda.get("job_999").state.slept == (0.0, 0.0, 0.0, pytest.approx(50.0, abs=0.1))


def test_a_few_jobs_resume_almost_at_once():
    driver = Driver()
    driver.add("abcdef")
    driver.poll_all(REFUSED, 0.0)
    driver.poll(PENDING, 40.0)
    assert len(driver.poll_all(PENDING, 40.5)) == 5


def test_a_reply_to_a_poll_from_before_the_outage_ends_it():
    driver = Driver()
    driver.add("abcdef")
    early = driver.begin(0.0)
    driver.poll_all(REFUSED, 0.0)
    probe = driver.begin(1.0)
    driver.finish(early, NOT_FOUND, 1.5)
    assert driver.outages == []
    driver.finish(probe, REFUSED, 2.0)  # only one failure of a new row
    assert driver.outages == []


def test_a_failed_probe_is_a_fault_of_every_job_until_they_give_up():
    driver = Driver()
    driver.add("abcdef", settings=ENDLESS._replace(max_faults=4))
    early = driver.begin(0.0)
    driver.poll_all(REFUSED, 0.0)  # b, c and d
    driver.finish(early, REFUSED, 0.5)
    assert early.state.faults == 1
    while driver.agenda:
        now = driver.outages[0].next_probe_at
        driver.poll(REFUSED, now)
    assert driver.changes[-1].failed_probes == 4
    endings = driver.expired()
    assert {ending.state.value for ending in endings.values()} == {"unreachable"}
    message = "4 faults in a row, the last: 10.0.0.5:443 refused the connection"
    assert {ending.error.message for ending in endings.values()} == {message}


def test_failed_probes_no_longer_count_against_the_jobs_after_the_outage():
    driver = Driver()
    driver.add("abcdef")
    driver.poll_all(REFUSED, 0.0)
    for _ in range(5):
        driver.poll(REFUSED, driver.outages[0].next_probe_at)
    assert driver.agenda.get("f").state.retry.faults_in_row == 5
    driver.poll(PENDING, driver.outages[0].next_probe_at)
    assert driver.agenda.get("f").state.retry.faults_in_row == 0
    assert driver.agenda.get("f").state.faults == 5


def test_a_job_whose_deadline_passes_in_an_outage_ends_without_a_poll():
    driver = Driver()
    driver.add("abcd", settings=ENDLESS._replace(timeout=30.0))
    driver.add("e", settings=ENDLESS._replace(timeout=300.0))
    driver.poll_all(REFUSED, 0.0)
    driver.begin(1.0)  # this probe hangs
    assert take(driver.agenda, 29.0) == 30.0
    assert driver.begin(30.0) is None
    endings = driver.expired()
    assert len(endings) == 3
    assert {each.state.value for each in endings.values()} == {"unreachable"}
    message = "https://api.internal has been down for 30s: 10.0.0.5:443 refused the connection"
    assert {each.error.message for each in endings.values()} == {message}


def test_a_job_that_is_added_during_an_outage_waits_for_its_end():
    driver = Driver()
    driver.add("abc")
    driver.poll_all(REFUSED, 0.0)
    driver.add("x", now=0.5)
    driver.add("y", settings=ENDLESS._replace(timeout=0.0), now=0.5)  # would be polled once
    assert driver.begin(0.5) is None
    assert list(driver.expired()) == ["y"]
    assert driver.poll(PENDING, 1.0) == "x"


def test_nothing_hangs_if_the_probes_job_is_cancelled_or_withdrawn():
    driver = Driver()
    driver.add("abcdef")
    driver.poll_all(REFUSED, 0.0)
    probe = driver.begin(1.0)
    driver.agenda.cancel(probe.state.job.id, 1.1)
    driver.finish(probe, REFUSED, 1.2)
    probe = driver.begin(driver.outages[0].next_probe_at)
    driver.agenda.withdraw(probe)
    driver.finish(probe, PENDING, 9.0)
    assert driver.outages == [] and driver.poll_all(PENDING, 20.0)


def test_a_nudged_job_is_the_next_probe_but_not_before_its_time():
    driver = Driver()
    driver.add("abcdef")
    driver.poll_all(REFUSED, 0.0)
    assert driver.agenda.nudge("f", 0.1) and driver.begin(0.1) is None
    assert driver.poll(REFUSED, 1.0) == "f"


def test_a_job_that_is_sent_to_another_origin_belongs_there():
    driver = Driver()
    driver.add("abcd")
    entry = driver.begin(0.0)
    driver.poll_all(REFUSED, 0.0)
    driver.finish(entry, PENDING._replace(location=THERE + "/jobs/a"), 0.5)
    assert entry.origin == THERE and driver.outages == []
    driver.poll_all(REFUSED, 4.0)
    assert [outage.origin for outage in driver.outages] == [HERE]
    assert driver.poll(PENDING, 5.5) == "a"


def test_an_origin_without_jobs_is_forgotten_when_another_goes_down():
    driver = Driver()
    driver.add("abc")
    driver.poll_all(REFUSED, 0.0)
    for name in "abc":
        driver.agenda.cancel(name, 0.5)
    driver.add("xyz", origin=THERE)
    driver.poll_all(REFUSED, 1.0)
    assert [outage.origin for outage in driver.outages] == [THERE]


@pytest.mark.parametrize("most, is_forgotten", [(2, True), (3, False)])
def test_failures_are_remembered_for_a_bounded_number_of_origins(monkeypatch, most, is_forgotten):
    monkeypatch.setattr(outage_lanes, "MOST_ORIGINS", most)
    driver = Driver()
    driver.add("ab")
    driver.poll_all(REFUSED, 0.0)
    for now, name in ((0.1, "y"), (0.2, "z")):
        driver.add(name, origin="https://%s.internal" % name, now=now)
        driver.poll(REFUSED, now)
    driver.add("c", now=0.3)
    assert driver.poll(REFUSED, 0.3) == "c"
    assert [outage.origin for outage in driver.outages] == ([] if is_forgotten else [HERE])


# In a ledger, waits go on until the origin is back


def test_a_wait_in_a_ledger_outlasts_its_deadline_during_an_outage():
    driver = Driver()
    driver.add("abcdef", settings=IN_LEDGER)
    driver.poll_all(REFUSED, 59.0)
    for now in (60.0, 62.0, 66.0, 90.0, 150.0):
        assert driver.poll(REFUSED, now)
    assert len(driver.agenda) == 6 and driver.expired() == {}
    driver.poll(PENDING, 300.0)
    driver.poll_all(PENDING, 301.0)  # the final poll of each
    assert len(driver.agenda) == 0


def test_a_wait_in_a_ledger_ends_at_its_deadline_after_a_day():
    driver = Driver()
    driver.add("abcdef", settings=IN_LEDGER._replace(timeout=25 * 3600.0))
    driver.poll_all(REFUSED, 0.0)
    assert driver.begin(25 * 3600.0) is None
    assert len(driver.expired()) == 6


def test_a_final_poll_in_a_ledger_that_fails_is_repeated_three_times():
    """Three failures would be an outage, were they not all of one job."""
    driver = Driver()
    driver.add("a", settings=IN_LEDGER._replace(timeout=0.0, retry=Fixed(1)))
    driver.add("b", settings=IN_LEDGER, now=100.0)
    for now in range(4):
        assert driver.agenda.get("a") is not None
        driver.poll(TIMEOUT, float(now))
    assert driver.agenda.get("a") is None and driver.outages == []


def test_a_retry_after_past_the_deadline_does_not_end_a_wait_in_a_ledger_that_is_down():
    maintenance = BAD_GATEWAY._replace(retry_after=100.0)
    driver = Driver()
    driver.add("abc", settings=IN_LEDGER)
    for name in "abc":
        step = driver.finish(driver.begin(0.0), maintenance, 0.0)
        assert (step.after.job.id, step.after.ending) == (name, None)
    assert driver.poll(PENDING, 101.0) and driver.outages == []


def test_an_outage_that_another_process_has_found_is_applied_and_updated():
    driver = Driver()
    driver.add("abcdef", settings=IN_LEDGER)
    lanes = driver.agenda.outages
    lanes.begin(Outage(HERE, 0.0, "no reply", 20.0, 3), 1.0)
    assert take(driver.agenda, 1.0) == 20.0
    lanes.begin(Outage(HERE, 0.0, "no reply", 2.0, 4), 1.0)
    probe = driver.begin(2.0)
    lanes.begin(Outage(HERE, 0.0, "no reply", 3.0, 5), 2.0)
    assert driver.begin(3.0) is None  # a probe is in flight
    driver.finish(probe, REFUSED, 4.0)
    assert driver.outages[0].failed_probes == 6
    assert lanes.end(HERE, 5.0, 0.5).ended_at == 5.0
    assert lanes.end(HERE, 5.0, 0.5) is None
    assert ids(driver.agenda) == list("abcdef")


def test_a_single_poll_that_the_limit_has_delayed_does_not_wait_for_the_end_of_an_outage():
    driver = Driver(slots=3)
    driver.add("abc")
    state = start(Job("once"), HERE + "/once", ENDLESS._replace(timeout=0.0), 0.0)
    driver.agenda.adopt(state, ENDLESS, driver.lane, origin=HERE, is_late=True)
    polled = [driver.begin(0.0) for _ in range(3)]
    for entry in polled:
        driver.finish(entry, REFUSED, 0.0)
    assert driver.begin(0.0) is None
    assert driver.expired()["once"].state == "unreachable"
