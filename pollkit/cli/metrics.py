"""The state of a ledger in Prometheus' text format, for node_exporter's textfile collector."""

import os
import threading
import time
from functools import partial
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence

from ..core.model import Counts
from ..edges.files import check_links, replace_file
from ..edges.ledger.ledger import Ledger
from ..edges.ledger.records import Summary
from ..errors import ConfigError, PollkitError

EVERY_S = 15.0
QUANTILES = (0.5, 0.9, 0.99, 1.0)
_COUNTER_TEXTS = {
    "polls": "Requests sent",
    "faults": "Requests without a usable reply",
    "rate_limited": "Requests answered with 429",
    "pauses": "Replies that asked for a pause (Retry-After)",
}


class Sample(NamedTuple):
    """One line of a metric."""

    value: float
    labels: Dict[str, str] = {}
    suffix: str = ""  # of the metric's name


class Metric(NamedTuple):
    """A metric with its samples."""

    name: str
    kind: str
    description: str
    samples: List[Sample]


def check_path(path: str) -> None:
    """Raise ConfigError if the file can't be written."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise ConfigError("--metrics: %s is a directory: name a file in it" % path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise ConfigError(
            "--metrics: %s is not a regular file and can't be replaced: name another" % path
        )
    if not os.path.isdir(folder):
        raise ConfigError("--metrics: there is no directory %s" % folder)
    try:
        check_links(path)
    except OSError as error:
        raise ConfigError("--metrics: %s can't be written: %s" % (path, error.strerror)) from None


def write_metrics(path: str, ledger: Ledger, name: str) -> None:
    """Replace the file as a whole: the collector reads the old or the new version.

    `name` identifies the ledger in every sample. The collector runs as another user, so all users
    can read a new file.
    """
    try:
        replace_file(path, metrics_text(ledger, name).encode("utf-8"), 0o644)
    except OSError as error:
        raise ConfigError(
            "can't write the metrics to %s: %s" % (path, error.strerror or error)
        ) from None


class MetricsFile:
    """Writes the metrics every 15 s while a block runs, and once more after it."""

    def __init__(self, path: str, ledger: Ledger, name: str) -> None:
        self._write = partial(write_metrics, path, ledger, name)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pollkit-metrics", daemon=True)

    def __enter__(self) -> "MetricsFile":
        self._thread.start()
        return self

    def __exit__(self, kind: Optional[type], *exc_info: object) -> None:
        self._stop.set()
        if kind is None:
            self._thread.join()
            self._write()

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            try:
                self._write()
            except PollkitError:
                pass  # reported when the block ends


def metrics_text(ledger: Ledger, name: str) -> str:
    """The content of the file."""
    # The format is UTF-8; a path may have other bytes.
    name = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    lines = []
    for metric in _metrics(ledger):
        lines += [
            "# HELP pollkit_%s %s" % (metric.name, metric.description),
            "# TYPE pollkit_%s %s" % (metric.name, metric.kind),
        ]
        for sample in metric.samples:
            labels = _labels_text(dict(sample.labels, ledger=name))
            lines.append(
                "pollkit_%s%s{%s} %s"
                % (metric.name, sample.suffix, labels, _number_text(sample.value))
            )
    return "\n".join(lines) + "\n"


def _metrics(ledger: Ledger) -> Iterator[Metric]:
    now = time.time()
    yield from _job_metrics(ledger.summary())
    yield from _counters(
        "", "profile", ledger.statistics.totals(), ("polls", "faults", "rate_limited")
    )
    yield from _origin_metrics(ledger, now)
    yield Metric(
        "limit_shadow_price_seconds",
        "gauge",
        "Notice delay that one more request would save, by rate limit; "
        "only limits that delay polls now.",
        [Sample(price, {"limit": limit}) for limit, price in ledger.shadow_prices().items()],
    )
    yield Metric(
        "notice_delay_seconds",
        "summary",
        "Time from the end of a job to the poll that noticed it, "
        "for those of the last 1000 finished jobs where it is known.",
        _quantiles(sorted(ledger.statistics.notice_delays())),
    )
    last_run_at = ledger.statistics.last_run_at()
    yield Metric(
        "last_run_timestamp_seconds",
        "gauge",
        "Time at which a run was last active.",
        [] if last_run_at is None else [Sample(last_run_at)],
    )


def _job_metrics(summary: Summary) -> Iterator[Metric]:
    yield Metric(
        "jobs",
        "gauge",
        "Jobs in the ledger, by state.",
        [Sample(count, {"state": state}) for state, count in summary.states.items()],
    )
    for name, description, value in (
        ("oldest_waiting_seconds", "Age of the oldest unfinished job.", summary.oldest_s or 0),
        ("faulty_jobs", "Unfinished jobs whose last poll was a fault.", summary.faulty),
        (
            "pending_notifications",
            "Finished jobs whose notification is pending.",
            summary.pending_notifications,
        ),
        (
            "failed_notifications",
            "Finished jobs whose notification was given up.",
            summary.gave_up_notifying,
        ),
    ):
        yield Metric(name, "gauge", description, [Sample(value)])


def _origin_metrics(ledger: Ledger, now: float) -> Iterator[Metric]:
    totals = ledger.statistics.totals_by_origin()
    totals.pop("", None)  # polls that an older pollkit counted
    down_s = {outage.origin: now - outage.began_at for outage in ledger.outages()}
    origins = sorted({*totals, *down_s})
    yield from _counters("origin_", "origin", totals, Counts._fields)
    yield Metric(
        "origin_up",
        "gauge",
        "0 during an outage of the origin, otherwise 1.",
        [Sample(0 if origin in down_s else 1, {"origin": origin}) for origin in origins],
    )
    yield Metric(
        "origin_outage_seconds",
        "gauge",
        "Length of the present outage of the origin, 0 if there is none.",
        [Sample(max(0.0, down_s.get(origin, 0.0)), {"origin": origin}) for origin in origins],
    )


def _counters(
    prefix: str, label: str, totals: Dict[str, Counts], fields: Sequence[str]
) -> Iterator[Metric]:
    """One counter for each of these fields of Counts."""
    for field in fields:
        samples = [
            Sample(getattr(counts, field), {label: value})
            for value, counts in sorted(totals.items())
        ]
        description = "%s, by %s." % (_COUNTER_TEXTS[field], label)
        yield Metric("%s%s_total" % (prefix, field), "counter", description, samples)


def _quantiles(delays: List[float]) -> List[Sample]:
    samples = []
    if delays:
        for quantile in QUANTILES:
            index = int(quantile * (len(delays) - 1) + 0.5)
            samples.append(Sample(delays[index], {"quantile": "%g" % quantile}))
    totals = [Sample(sum(delays), suffix="_sum"), Sample(len(delays), suffix="_count")]
    return samples + totals


def _labels_text(labels: Dict[str, str]) -> str:
    return ",".join(
        '%s="%s"' % (name, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
        for name, value in sorted(labels.items())
    )


def _number_text(value: float) -> str:
    return "%d" % value if value == int(value) else "%.3f" % value
