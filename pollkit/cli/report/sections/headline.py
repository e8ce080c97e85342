"""The headline figures: jobs by state, then one tile per figure."""

from ....core.model import State
from ....core.units import rounded_duration
from ..figures import Quantiles, outage_seconds, saved_share, simulate_loop, state_counts
from ..markup import Html, join, shape, tag
from ..plot import percent
from ..records import ReportData

STATE_TEXTS = {"timed_out": "timed out"}


def state_text(state: str) -> str:
    """A state for people."""
    return STATE_TEXTS.get(state, state)


def headline(data: ReportData) -> Html:
    """The jobs by state, and the tiles."""
    tiles = [_polls(data), _saved(data), _notice_delay(data)]
    if data.minutes is not None:
        tiles += [_rate_limited(data), _outages(data)]
    return tag("section", _states(data), tag("dl", *tiles, class_="tiles"), aria_label="Figures")


def _states(data: ReportData) -> Html:
    """A bar with a part for each state, and the numbers below it."""
    counts = state_counts([job.state for job in data.jobs])
    total = len(data.jobs)
    bars = []
    before = 0
    for state, count in counts.items():
        bars.append(
            shape(
                "rect",
                x=percent(before / total),
                width=percent(count / total),
                height="100%",
                class_=state,
            )
        )
        before += count
    items = [
        tag("li", tag("i", class_=state), tag("b", "{:,}".format(count)), " " + state_text(state))
        for state, count in counts.items()
    ]
    noun = "job" if total == 1 else "jobs"
    return join(
        [
            tag("p", tag("b", "{:,}".format(total)), " " + noun, class_="total"),
            tag("svg", *bars, class_="states", aria_hidden="true"),
            tag("ul", *items, class_="legend"),
        ]
    )


def _tile(name: str, value: str, *notes: str) -> Html:
    lines = [tag("dd", note, class_="note") for note in notes]
    return tag("div", tag("dt", name), tag("dd", value), *lines)


def _polls_per_job(data: ReportData) -> float:
    finished = [job.polls for job in data.jobs if job.ended_at is not None]
    return sum(finished) / len(finished) if finished else 0.0


def _polls(data: ReportData) -> Html:
    polls = _polls_per_job(data)
    total = sum(job.polls for job in data.jobs)
    return _tile("Polls per finished job", "%.1f" % polls, "{:,} polls in all".format(total))


def _saved(data: ReportData) -> Html:
    done = [job.duration_s for job in data.jobs if job.state == State.DONE.value]
    loop = simulate_loop(done)
    name = "Polls saved"
    if loop is None:
        return _tile(name, "–", "no job is done yet")
    share = saved_share(loop, _polls_per_job(data))
    if share < 0:
        name = "Polls more than a loop"
    return _tile(
        name,
        "%.0f %%" % (100 * abs(share)),
        "a 30 s loop without a limit makes %.1f per job and notices after %s"
        % (loop.polls_per_job, rounded_duration(loop.mean_delay_s)),
    )


def _notice_delay(data: ReportData) -> Html:
    delays = [job.notice_delay_s for job in data.jobs if job.notice_delay_s is not None]
    found = Quantiles.of_values(delays)
    if found is None:
        return _tile("Notice delay", "–", "the API does not say when a job finished")
    return _tile(
        "Notice delay",
        rounded_duration(found.median),
        "median; %s on average," % rounded_duration(found.mean),
        "95 %% within %s" % rounded_duration(found.p95),
    )


def _rate_limited(data: ReportData) -> Html:
    minutes = data.minutes or []
    rate_limited = sum(minute.counts.rate_limited for minute in minutes)
    pauses = sum(minute.counts.pauses for minute in minutes)
    return _tile(
        "Rate limited (429)", "{:,}".format(rate_limited), "{:,} pauses asked for".format(pauses)
    )


def _outages(data: ReportData) -> Html:
    length = outage_seconds(data.outages, data.now)
    note = "%s in all" % rounded_duration(length) if data.outages else "every server was up"
    return _tile("Outages", str(len(data.outages)), note)
