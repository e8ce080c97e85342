"""The metrics file of `run --metrics`: its format and its values."""

import os
import re
import shutil
import stat
import subprocess
import time

import pytest

from ledger_shell import added
from pollkit import Ledger
from pollkit.cli.metrics import metrics_text
from pollkit.core.scheduling.outages import Outage

pytestmark = pytest.mark.usefixtures("place")
LABEL = r'[a-z]+="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(r"([a-z_]+)\{(%s(?:,%s)*)\} ([0-9]+(?:\.[0-9]+)?)" % (LABEL, LABEL))
SUFFIXES = {"summary": ("", "_sum", "_count")}


def parse_metrics(text):
    """The values by name and labels; an AssertionError if the text breaks a rule of the format."""
    assert text.endswith("\n")
    values = {}
    kinds = {}
    family = None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert family not in kinds, "two blocks for one metric"
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name == family and kind in ("counter", "gauge", "summary")
            assert name.endswith("_total") == (kind == "counter")
            kinds[name] = kind
        else:
            name, labels, value = SAMPLE.fullmatch(line).groups()
            assert name in [family + suffix for suffix in SUFFIXES.get(kinds[family], ("",))]
            names = re.findall(r'([a-z]+)="', labels)
            assert names == sorted(set(names)), "labels are sorted and unique"
            key = (name, tuple(re.findall(LABEL, labels)))
            assert key not in values, "a sample occurs twice"
            values[key] = float(value)
    assert all(name.startswith("pollkit_") for name in kinds)
    return values


class Metrics:
    """The values of a metrics text, by name and the labels besides `ledger`."""

    def __init__(self, text):
        self._values = parse_metrics(text)

    def __getitem__(self, key):
        name, *labels = key if isinstance(key, tuple) else (key,)
        found = [
            value
            for (sample, pairs), value in self._values.items()
            if sample == "pollkit_" + name
            and [pair for pair in pairs if not pair.startswith("ledger=")] == labels
        ]
        assert len(found) == 1, (key, found)
        return found[0]


def run_with_metrics(pollkit, ledger="jobs.db"):
    code, out, err = pollkit("run", ledger, "--once", "--metrics", "m.prom")
    assert (code, out) == (0, "")
    with open("m.prom") as file:
        return file.read()


def test_metrics_are_in_the_format_of_prometheus(api, pollkit):
    added(api, 2, ledger='a"b\\.db')
    api.add("late", lasts=60)
    api.fault(500, "late")
    pollkit("add", 'a"b\\.db', "late", "--profile", "fake")
    text = run_with_metrics(pollkit, 'a"b\\.db')
    ledger = os.path.realpath('a"b\\.db').replace("\\", "\\\\").replace('"', '\\"')
    assert text.count('ledger="%s"' % ledger) == len(parse_metrics(text))
    found = Metrics(text)
    assert (found["jobs", 'state="done"'], found["jobs", 'state="waiting"']) == (2, 1)
    assert found["polls_total", 'profile="fake"'] == 3
    assert found["faults_total", 'profile="fake"'] == 1
    assert found["faulty_jobs"] == 1
    assert found["notice_delay_seconds_count"] == 2
    assert found["notice_delay_seconds", 'quantile="0.5"'] < 5
    assert (found["pending_notifications"], found["failed_notifications"]) == (2, 0)
    assert abs(found["last_run_timestamp_seconds"] - time.time()) < 60
    assert stat.S_IMODE(os.stat("m.prom").st_mode) == 0o644
    assert [name for name in os.listdir(".") if name.endswith(".tmp")] == []


def test_requests_faults_429s_and_pauses_are_counted_by_origin(api, pollkit):
    added(api, 2, lasts=60)
    api.fault(429, "job_0", retry_after=5)
    api.fault(503, "job_1")
    found = Metrics(run_with_metrics(pollkit))
    origin = 'origin="%s"' % api.url("").rpartition("/jobs")[0]
    for name, expected in [("polls", 2), ("faults", 1), ("rate_limited", 1), ("pauses", 1)]:
        assert found["origin_%s_total" % name, origin] == expected, name
    assert (found["origin_up", origin], found["origin_outage_seconds", origin]) == (1, 0)


def test_an_outage_is_visible(place):
    with Ledger("jobs.db") as ledger:
        now = ledger.clock.now()
        ledger._outages.begin(Outage("https://api.internal", now - 90, "refused", now + 5))
        found = Metrics(metrics_text(ledger, "jobs.db"))
        origin = 'origin="https://api.internal"'
        assert found["origin_up", origin] == 0
        assert 90 <= found["origin_outage_seconds", origin] < 120
        ledger._outages.end("https://api.internal", 0.0)
        assert "api.internal" not in metrics_text(ledger, "jobs.db")


def test_a_limit_that_delays_polls_has_a_shadow_price(place):
    with Ledger("jobs.db") as ledger:
        bucket = ledger.bucket("60/m", name="knowhere")
        bucket.shadow_price = 12.5
        bucket.reserve(ledger.clock.now())
        ledger.bucket("60/m", name="idle").reserve(ledger.clock.now())
        text = metrics_text(ledger, "jobs.db")
    assert Metrics(text)["limit_shadow_price_seconds", 'limit="knowhere"'] == 12.5
    assert 'limit="idle"' not in text


def test_the_time_of_the_last_run_comes_from_the_ledger(api, pollkit):
    added(api, 1)
    with Ledger("jobs.db") as ledger:
        assert "\npollkit_last_run_timestamp_seconds" not in metrics_text(ledger, "jobs.db")
    pollkit("run", "jobs.db", "--once")
    with Ledger("jobs.db") as ledger:
        found = Metrics(metrics_text(ledger, "jobs.db"))
        last_run_at = ledger.statistics.last_run_at()
    assert found["last_run_timestamp_seconds"] == round(last_run_at, 3)


def test_promtool_accepts_the_metrics(api, pollkit):
    promtool = shutil.which("promtool")
    if promtool is None:
        assert os.environ.get("CI") != "true", "CI must have promtool: see .ci/run"
        pytest.skip("promtool is not installed")
    added(api, 2)
    api.fault(500, "job_0")
    text = run_with_metrics(pollkit)
    checked = subprocess.run(
        [promtool, "check", "metrics"],
        input=text.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert (checked.returncode, checked.stdout) == (0, b"")
