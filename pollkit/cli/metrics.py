"""What is in a ledger as a file for node_exporter's textfile collector, in Prometheus' text format."""

import os
import threading
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..edges.files import check_links, replace_file
from ..edges.ledger.ledger import Ledger
from ..errors import ConfigError, PollkitError

EVERY_S = 15.0
_QUANTILES = (0.5, 0.9, 0.99, 1.0)
_Sample = Tuple[str, Dict[str, str], float]  # what comes after the name, labels, value


def check_path(path: str) -> None:
    """See to it that the file can be written, before anything is done."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise ConfigError("--metrics: %s is a directory: name a file in it" % path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise ConfigError(
            "--metrics: %s is no ordinary file, which could be replaced: name another" % path
        )
    if not os.path.isdir(folder):
        raise ConfigError("--metrics: there is no directory %s" % folder)
    try:
        check_links(path)
    except OSError as error:
        raise ConfigError("--metrics: %s can't be written: %s" % (path, error.strerror)) from None


def write_metrics(path: str, ledger: Ledger, name: str) -> None:
    """Write the file at once: the collector reads all of it, or what was there before.

    `name` is the ledger's: it goes with every figure, as one host may have several. The collector
    runs as another user, so a new file is readable for all.
    """
    try:
        replace_file(path, metrics_text(ledger, name).encode("utf-8"), 0o644)
    except OSError as error:
        raise ConfigError(
            "can't write the metrics to %s: %s" % (path, error.strerror or error)
        ) from None


class MetricsFile:
    """Writes the metrics now and then while a block is run, and at its end."""

    def __init__(self, path: str, ledger: Ledger, name: str) -> None:
        self._path, self._ledger, self._name = path, ledger, name
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="pollkit-metrics", daemon=True)

    def __enter__(self) -> "MetricsFile":
        self._thread.start()
        return self

    def __exit__(self, kind: Optional[type], *exc_info: object) -> None:
        self._stop.set()
        if kind is None:
            self._thread.join()
            write_metrics(self._path, self._ledger, self._name)

    def _serve(self) -> None:
        while not self._stop.wait(EVERY_S):
            try:
                write_metrics(self._path, self._ledger, self._name)
            except PollkitError:
                pass  # said at the end


def metrics_text(ledger: Ledger, name: str) -> str:
    """The figures."""
    lines = []
    name = name.encode("utf-8", "surrogateescape").decode(
        "utf-8", "replace"
    )  # the format is UTF-8: a path need not be
    for metric, kind, about, samples in _families(ledger):
        lines += ["# HELP pollkit_%s %s" % (metric, about), "# TYPE pollkit_%s %s" % (metric, kind)]
        lines += [
            "pollkit_%s%s{%s} %s"
            % (metric, more, _labels(dict(labels, ledger=name)), _number(value))
            for more, labels, value in samples
        ]
    return "\n".join(lines) + "\n"


def _families(ledger: Ledger) -> Iterator[Tuple[str, str, str, List[_Sample]]]:
    summary, totals = ledger.summary(), ledger.statistics.totals()
    yield (
        "jobs",
        "gauge",
        "Jobs in the ledger, by state.",
        [("", {"state": state}, count) for state, count in summary.states.items()],
    )
    yield (
        "oldest_waiting_seconds",
        "gauge",
        "How long ago the oldest job that has not ended was added.",
        [("", {}, summary.oldest_s or 0)],
    )
    yield (
        "untold_jobs",
        "gauge",
        "Jobs whose end is still to be told.",
        [("", {}, summary.pending_notifications)],
    )
    yield (
        "gave_up_telling_jobs",
        "gauge",
        "Jobs whose end could not be told.",
        [("", {}, summary.gave_up_notifying)],
    )
    for field, about in (
        ("polls", "Requests made."),
        ("faults", "Requests that brought no usable reply."),
        ("rate_limited", "Requests answered with 429."),
    ):
        yield (
            field + "_total",
            "counter",
            about,
            [
                ("", {"profile": profile}, getattr(counts, field))
                for profile, counts in sorted(totals.items())
            ],
        )
    delays = sorted(ledger.statistics.notice_delays())
    yield (
        "notice_delay_seconds",
        "summary",
        "Time from a job's end to the poll that saw it: of the last 1000 jobs that ended, where it is known.",
        [
            ("", {"quantile": "%g" % share}, delays[int(share * (len(delays) - 1) + 0.5)])
            for share in _QUANTILES
            if delays
        ]
        + [("_sum", {}, sum(delays)), ("_count", {}, len(delays))],
    )
    yield (
        "last_run_timestamp_seconds",
        "gauge",
        "When the ledger was last run.",
        [("", {}, time.time())],
    )


def _labels(labels: Dict[str, str]) -> str:
    return ",".join(
        '%s="%s"' % (name, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
        for name, value in sorted(labels.items())
    )


def _number(value: Any) -> str:
    return "%d" % value if value == int(value) else "%.3f" % value
