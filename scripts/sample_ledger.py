#!/usr/bin/env python3
"""Make a ledger with the jobs of an invented API, for pictures and tests of `pollkit report`.

All of it happens in virtual time, with the code that decides in a real run: the agenda, the rate
limit and the state machine. The same seed gives the same jobs. The API has three kinds of jobs, a
limit of 24 requests per minute, an outage, some 500s, some failed jobs, and it says when a job
finished.

example:
  python3 scripts/sample_ledger.py sample.db --jobs 400
"""

import argparse
import math
import os
import sys
import threading
from random import Random
from typing import Dict, List, NamedTuple, Optional

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))

from pollkit import Job, Ledger, Profile
from pollkit.core.learning.completions import observed_duration
from pollkit.core.learning.durations import Durations
from pollkit.core.model import Counts, FaultCode
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.scheduling.agenda import Agenda
from pollkit.core.scheduling.lane import Entry, Lane
from pollkit.core.scheduling.outages import Outage
from pollkit.core.units import NEVER, parse_limit
from pollkit.core.waiting.machine import start
from pollkit.core.waiting.pace import Adaptive
from pollkit.core.waiting.wait_settings import LEDGER_DEFAULTS, WaitSettings
from pollkit.drivers.engine.dispatch import apply_feedback, next_work
from pollkit.drivers.simulation.server import SimJob, SimulatedApi
from pollkit.edges.ledger.records import Claim
from pollkit.testing import VirtualClock

ORIGIN = "https://api.example.com"
PROFILE = Profile("media", pace=Adaptive(), timeout=3600.0)
BEGAN_AT = 1794906000.0  # 2026-11-17 09:00 UTC
LIMIT = "24/m"
LEASE_S = 600.0


class JobKind(NamedTuple):
    """Jobs whose durations are lognormal; `spread` is that of the logarithm."""

    label: str
    share: float  # of all jobs
    median_s: float
    spread: float


KINDS = (
    JobKind("caption", 0.55, 240.0, 0.2),
    JobKind("dub", 0.3, 720.0, 0.25),
    JobKind("lipsync", 0.15, 1500.0, 0.3),
)
FAILURES = (
    ("AUDIO_TOO_SHORT", "the audio track is shorter than 2 seconds"),
    ("NO_FACE", "no face was found in frames 0 to 240"),
    ("INTERNAL", "worker lost; please submit the job again"),
)
SERVER_ERROR = Reading(
    Verdict.FAULT, "the server answered 500", code=FaultCode.HTTP_ERROR, http_status=500
)
NO_ANSWER = Reading(
    Verdict.FAULT, "api.example.com:443 refused the connection", code=FaultCode.CONNECT
)


class Plan(NamedTuple):
    """The extent of the sample."""

    jobs: int = 400
    hours: float = 6.0
    outage_from: float = 0.55  # shares of the time in which jobs arrive
    outage_to: float = 0.6
    seed: int = 1


class SampleRun:
    """Polls the invented API in virtual time, and writes each poll to a ledger."""

    def __init__(self, path: str, plan: Plan) -> None:
        self._random = Random(plan.seed)
        self._clock = VirtualClock(wall=BEGAN_AT)
        self._ledger = Ledger(path, clock=self._clock)
        self._jobs = _make_jobs(plan, self._random)
        arrivals_s = plan.hours * 3600
        self._down = (arrivals_s * plan.outage_from, arrivals_s * plan.outage_to)
        self._ends_at = self._jobs[-1].starts_at + 240.0
        # The API allows a little less than it says: now and then it sends a 429.
        self._api = SimulatedApi(self._jobs, parse_limit("22/m"), timestamps=True)
        self._lane = Lane(self._ledger.bucket(LIMIT, "media"))
        self._durations: Dict[Optional[str], Durations] = {}
        self._agenda = Agenda(8, self._learn)
        self._claims: Dict[str, Claim] = {}
        self._arrived = 0

    def run(self) -> float:
        """Poll until shortly after the last job was added, when some jobs still wait."""
        lock = threading.Lock()
        now = 0.0
        with self._ledger:
            while now < self._ends_at:
                self._clock.sleep_until(now)
                self._add_arrivals(now)
                work = next_work(self._agenda, now, lock)
                if work.entries:
                    self._poll(work.entries[0], now)
                else:
                    now = min(work.next_at, self._next_arrival_at())
            self._ledger._leases.release(list(self._claims.values()))
        return self._clock.wall()

    def _next_arrival_at(self) -> float:
        return self._jobs[self._arrived].starts_at if self._arrived < len(self._jobs) else NEVER

    def _add_arrivals(self, now: float) -> None:
        while self._next_arrival_at() <= now:
            sim_job = self._jobs[self._arrived]
            self._arrived += 1
            job = Job(sim_job.id, profile="media", label=sim_job.label)
            self._ledger.add([job])
            (claim,) = self._ledger._leases.claim_ids([job.id], LEASE_S)
            self._claims[job.id] = claim
            durations = self._durations.setdefault(job.label, Durations())
            settings = WaitSettings.from_profile(
                PROFILE,
                self._lane.bucket.spacing,
                durations,
                is_fresh=True,
                defaults=LEDGER_DEFAULTS,
            )
            state = start(job, "", settings, now)
            entry = self._agenda.adopt(state, settings, self._lane, owner=sim_job, origin=ORIGIN)
            entry.start = durations.begin(now)

    def _note_outage(self, outage: Outage) -> None:
        if outage.ended_at is not None:
            self._ledger._outages.end(ORIGIN, 0.0)
        elif not outage.failed_probes:
            self._ledger._outages.begin(outage)

    def _poll(self, entry: Entry, now: float) -> None:
        reading = self._read(entry.owner, now)
        rand = self._random.random()
        (step,) = self._agenda.apply_readings([entry], [reading], now, rand)
        outage = self._agenda.outages.observe(entry, ORIGIN, reading, now, rand)
        if outage is not None:
            self._note_outage(outage)
        self._agenda.release_slot()
        apply_feedback(self._lane, reading, [step], now)
        counts = Counts(
            polls=1,
            faults=int(reading.verdict is Verdict.FAULT),
            rate_limited=int(reading.verdict is Verdict.LIMITED),
            pauses=int(reading.retry_after is not None),
        )
        if counts.faults:
            self._ledger.statistics.add_faults({reading.fault_kind: 1})
        claim = self._claims[entry.owner.id]
        leases = self._ledger._leases
        if step.after.ending is None:
            leases.save_progress(claim, step.after, origin=ORIGIN, counts=counts)
        else:
            outcome = step.after.outcome(PROFILE, self._clock.wall() - now)
            leases.save_outcome(claim, step.after, outcome, origin=ORIGIN, counts=counts)
            del self._claims[entry.owner.id]

    def _read(self, job: SimJob, now: float) -> Reading:
        began_at, ended_at = self._down
        if began_at <= now < ended_at:
            return NO_ANSWER
        if self._random.random() < 0.004:
            return SERVER_ERROR
        reading = self._api.answer(job.id, now, now)
        number = int(job.id[-5:])
        if reading.verdict is Verdict.DONE and number % 37 == 5:
            code, message = FAILURES[number % len(FAILURES)]
            return reading._replace(
                verdict=Verdict.FAILED, error_code=code, error_message=message, status="failed"
            )
        return reading

    def _learn(self, entry: Entry) -> None:
        durations = self._durations[entry.state.job.label]
        durations.end(entry.start or 0.0, observed_duration(entry.state))


def _make_jobs(plan: Plan, random: Random) -> List[SimJob]:
    """Jobs of which a half arrives in three waves."""
    starts = []
    for _ in range(plan.jobs):
        wave = random.choice((0.15, 0.4, 0.75))
        in_wave = wave + abs(random.gauss(0.0, 0.02))
        starts.append(random.choice((in_wave, random.random())))
    starts.sort()
    labels = random.choices(KINDS, [kind.share for kind in KINDS], k=plan.jobs)
    jobs = []
    for number, (share, kind) in enumerate(zip(starts, labels)):
        duration = kind.median_s * math.exp(random.gauss(0.0, kind.spread))
        name = "%s-%05d" % (kind.label, number)
        jobs.append(SimJob(name, kind.label, share * plan.hours * 3600, duration))
    return jobs


def make_ledger(path: str, plan: Plan = Plan()) -> float:  # noqa: B008
    """Make a new ledger; return the wall-clock time of its last poll."""
    return SampleRun(path, plan).run()


def main() -> int:
    """Make the ledger that the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ledger", help="the file, which must not exist")
    parser.add_argument("--jobs", type=int, default=Plan().jobs)
    parser.add_argument("--hours", type=float, default=Plan().hours)
    arguments = parser.parse_args()
    if os.path.exists(arguments.ledger):
        parser.error("%s exists" % arguments.ledger)
    make_ledger(arguments.ledger, Plan(jobs=arguments.jobs, hours=arguments.hours))
    return 0


if __name__ == "__main__":
    sys.exit(main())
