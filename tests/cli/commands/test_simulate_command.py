"""`pollkit simulate`: its output, its errors and its help."""

import json
import os
import re
import subprocess
import sys

import pytest

from paths import ROOT
from pollkit.cli.commands import simulate as command
from pollkit.cli.commands.program.help import text_of
from pollkit.drivers.simulation.scenarios import SCENARIOS

SMALL = ["--durations", "uniform 10s..30s", "--jobs", "20"]


def test_json_has_the_documented_keys(pollkit):
    code, out, err = pollkit("simulate", *SMALL + ["--json"])
    assert (code, err, out.count("\n")) == (0, "", 1)
    document = json.loads(out)
    assert list(document) == ["scenario", "jobs", "paces"]
    assert (document["scenario"], document["jobs"]) == ("uniform 10s..30s", 20)
    assert [one["pace"] for one in document["paces"]][:4] == [
        "adaptive",
        "fixed 30s",
        "backoff 2s..10s x1.5",
        "backoff 5s..5m x2 jitter=full",
    ]
    for one in document["paces"]:
        assert list(one) == [
            "pace",
            "polls_per_job",
            "notice_delay_s",
            "rate_limited",
            "timed_out",
            "cost",
            "optimum_cost",
            "cost_ratio",
        ]
        assert list(one["notice_delay_s"]) == ["mean", "p50", "p95", "max"]
        assert one["cost"] == pytest.approx(
            one["polls_per_job"] + one["notice_delay_s"]["mean"], abs=0.002
        )
    _, out, _ = pollkit("simulate", "--scenario", "documents", "--jobs", "9", "--json")
    assert json.loads(out)["scenario"] == "documents"


def test_the_table_is_aligned_and_the_output_fits_on_a_terminal(pollkit):
    code, out, err = pollkit("simulate", "--scenario", "lipsync", "--jobs", "15")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    head = next(i for i, line in enumerate(lines) if line.startswith("  pace"))
    rows = lines[head : lines.index("", head)]
    assert len(rows) >= 6
    assert [row[0] for row in rows] == [" "] + list("ABCDEFG"[: len(rows) - 2]) + [" "]
    assert {len(row) for row in rows} == {len(rows[0])}
    assert any(line.startswith("Use '") for line in lines)
    chart = lines[lines.index("", head) + 2 :][:14]
    assert all(any(row[0] in line[9:] for line in chart) for row in rows[1:-1])


@pytest.mark.parametrize(
    "columns, widest", [("40", 39), ("3", 39), ("60", 59), ("500", 79), ("wide", 79)]
)
def test_everything_but_the_table_fits_on_a_narrow_terminal(pollkit, monkeypatch, columns, widest):
    monkeypatch.setenv("COLUMNS", columns)
    code, out, _ = pollkit("simulate", "--durations", "uniform 10s..30s", "--jobs", "1")
    lines = out.splitlines()
    head = next(i for i, line in enumerate(lines) if line.endswith("against"))
    rest = lines[:head] + lines[lines.index("", head) :]
    assert widest - 10 < max(map(len, rest)) <= widest
    assert "uniform 10s..30s: 1 job, all at once" in " ".join(out.split())


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_long_simulation_reports_its_polls_on_a_terminal_only(pollkit, monkeypatch, is_terminal):
    for name, value in (
        ("is_terminal", lambda stream: is_terminal),
        ("REPORT_EVERY_S", 0.0),
        ("POLLS_PER_CLOCK_READING", 10),
    ):
        monkeypatch.setattr(command, name, value)
    code, out, err = pollkit("simulate", *SMALL + ["--pace", "fixed 5s", "--pace", "fixed 1s"])
    reports = re.findall("\r([0-9,]+ polls simulated)", err)
    assert code == 0 and "polls simulated" not in out and bool(err) == bool(reports) == is_terminal
    # The line is cleared at the end.
    assert not err or err.endswith("\r%s\r" % (" " * len(reports[-1])))


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_the_chart_uses_only_characters_of_the_locale(encoding):
    done = subprocess.run(
        [sys.executable, "-m", "pollkit", "simulate"] + SMALL,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ, PYTHONIOENCODING=encoding),
    )
    assert (done.returncode, done.stderr) == (0, b"")
    out = done.stdout.decode(encoding)
    assert ("|" in out, "│" in out) == (encoding == "ascii", encoding != "ascii")


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "which jobs?"),
        (["--scenario", "lipsink"], "did you mean lipsync?"),
        (["--scenario", "models", "--durations", "uniform 1s..2s"], "not both"),
        (["--durations", "uniform 9m..2m"], "from the shorter"),
        (["--durations", "gamma 5m"], "name a readable file"),
        (["--durations", "/nowhere/at/all"], "No such file"),
        (["--durations", "/"], "directory"),
        (["--durations", ""], "name a readable file"),
        (["--durations", "ledger:"], "write ledger:PATH"),
        (SMALL + ["--jobs", "0"], "whole number from 1"),
        (SMALL + ["--jobs", "1e3"], "whole number from 1"),
        (SMALL + ["--jobs", "1000000000"], "up to 1000000|to 1000000"),
        (SMALL + ["--jobs", "99999999999999999999"], "to 1000000"),
        (SMALL + ["--jobs", "-3"], "whole number|expected"),
        (SMALL + ["--arrive", "soon"], "write burst"),
        (SMALL + ["--limit", "lots"], "is not a limit"),
        (SMALL + ["--pace", "quick"], "is not a pace"),
        (SMALL + ["--price", "0s"], "above zero"),
        (SMALL + ["--price", "cheap"], "is not a duration"),
        (SMALL + ["--warm-up", "20"], "warm-up"),
        (SMALL + ["--window", "sliding"], "invalid choice"),
        (
            SMALL + ["--limit", "none", "--window", "bucket"],
            "--window has no effect without a limit",
        ),
        (SMALL + ["--svg", "a", "--html", "a"], "--svg and --html name the same file"),
        (SMALL + ["--limit", "none", "--unknown-limit"], "--unknown-limit has no effect without"),
        (SMALL + ["--fault-rate", "x"], "not a share"),
        (SMALL + ["--fault-rate", "200%"], "not a share: write 0.02 or 2%;"),
        (SMALL + ["--seed", "x"], "seed"),
        (SMALL + ["--timeout", "x"], "timeout"),
        (SMALL + ["--svg", "/nowhere/at/all.svg"], "can't be written"),
        (SMALL + ["--svg", "/"], "can't be written"),
        (SMALL + ["--svg", "/dev/full"], "can't be written"),
        (SMALL + ["--svg", "-"], "stdout gets the figures"),
        (SMALL + ["--pace", "fixed 1ms", "--jobs", "100000"], "more than 3000000 polls"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(pollkit, words, message):
    code, out, err = pollkit("simulate", *words)
    assert (
        (code, out, err.count("\n")) == (2, "", 1)
        and err.startswith("pollkit: ")
        and re.search(message, err)
    ), err


# The help


def test_the_help_is_short_and_names_every_scenario(pollkit):
    text = text_of("simulate")
    assert len(text.splitlines()) <= 125 and max(map(len, text.splitlines())) <= 80
    text.encode("ascii")
    assert "no pace comes near it." in text
    for name in SCENARIOS:
        assert re.search(r"^  %s +[0-9,]+ " % name, text, re.MULTILINE), name
    code, out, _ = pollkit("simulate", "--help")
    assert code == 0 and len(out.splitlines()) <= 100
    for flag in re.findall(r"--[a-z-]+", text):
        assert flag in out, flag


def test_with_a_hold_the_frontier_with_holding_is_below_the_other(pollkit, tmp_path):
    svg = tmp_path / "held.svg"
    code, out, _ = pollkit("simulate", *SMALL + ["--hold", "10s", "--svg", str(svg)])
    assert code == 0
    assert "polls are held for up to 10s" in out.replace("\n", " ")
    rows = {line[2:20].strip(): line.split() for line in out.splitlines() if "  " in line}
    assert float(rows["the optimum"][-2]) < float(rows["without holding"][-2])
    assert rows["the optimum"][-1] == "1.00"
    assert "::: without holding" in out and out.count(":") > 10
    assert "the optimum without holding" in svg.read_text()
    _, plain, _ = pollkit("simulate", *SMALL)
    assert "holding" not in plain


def test_an_absurd_hold_is_one_clear_line(pollkit):
    code, out, err = pollkit("simulate", *SMALL + ["--hold", "2h"])
    assert (code, out, err) == (2, "", "pollkit: hold must be from 1s to 10m, not 2h\n")


def test_a_page_has_the_charts_the_figures_and_the_advice(pollkit, tmp_path):
    page = tmp_path / "paces.html"
    code, out, err = pollkit("simulate", *SMALL + ["--limit", "60/m", "--html", str(page)])
    assert (code, err) == (0, "")
    text = page.read_text(encoding="utf-8")
    assert "Paces compared: uniform 10s..30s" in text
    assert "limit 60/m" in text and text.count("<circle") >= 4
    advice = " ".join(out[out.index("\nUse '") :].split())
    assert advice[:80] in text.replace("&#x27;", "'")


def test_a_page_is_drawn_although_no_job_was_seen_to_finish(pollkit, tmp_path):
    page = tmp_path / "paces.html"
    words = ["--durations", "uniform 60s..90s", "--jobs", "3", "--timeout", "1s", "--pace"]
    assert pollkit("simulate", *words + ["fixed 5s", "--html", str(page)])[0] == 0
    assert "No pace saw any job finish" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("flag", ["--svg", "--html"])
@pytest.mark.parametrize("path", ["-", ".", "missing/x"])
def test_a_picture_that_can_not_be_written_is_refused_before_the_simulation(pollkit, flag, path):
    code, out, err = pollkit("simulate", *SMALL + [flag, path])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("pollkit: %s " % flag)
