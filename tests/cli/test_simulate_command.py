"""pollkit simulate: the command, its picture and its help."""

import json
import os
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from paths import ROOT
from pollkit import Job, Ledger, Profile, Simulation
from pollkit.cli import main
from pollkit.cli.charts import advice
from pollkit.cli.charts.scales import LogAxis, even_ticks, number_text
from pollkit.cli.commands import simulate as command
from pollkit.cli.commands.help import text_of
from pollkit.cli.duration_lists import read_durations
from pollkit.core.machine import observe, start
from pollkit.core.reading.reader import Reading, Verdict
from pollkit.core.wait_settings import WaitSettings
from pollkit.drivers.simulation.matching import match_adaptive
from pollkit.drivers.simulation.scenarios import SCENARIOS
from pollkit.testing import VirtualClock

SMALL = ["--durations", "uniform 10s..30s", "--jobs", "20"]
TOO_SHORT = "the timeout is too short for these jobs (try a longer --timeout)"
TOO_FEW = "the attempts are too few (try more attempts=)"


# Output


def run(capsys, *words):
    code = main(["simulate"] + list(words))
    out, err = capsys.readouterr()
    return code, out, err


def test_json_has_the_documented_keys(capsys):
    code, out, err = run(capsys, *SMALL + ["--json"])
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
    _, out, _ = run(capsys, "--scenario", "documents", "--jobs", "9", "--json")
    assert json.loads(out)["scenario"] == "documents"


def test_the_table_is_aligned_and_the_output_fits_on_a_terminal(capsys):
    code, out, err = run(capsys, "--scenario", "lipsync", "--jobs", "15")
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


def test_a_rival_that_gave_up_jobs_or_polls_too_rarely_is_not_matched():
    simulation = Simulation(durations=[60] * 5, arrive="every 2m", timeout="30s")
    assert match_adaptive(simulation, simulation.run("fixed 5s")) is None
    simulation = Simulation(durations=[60] * 5, arrive="every 2m")
    assert (
        match_adaptive(simulation, simulation.run("fixed 5s")._replace(polls_per_job=0.9)) is None
    )


@pytest.mark.parametrize(
    "paces, text",
    [
        (["fixed 5s"], "'fixed 5s' costs"),
        (["fixed 30s", "fixed 5s"], "Use 'fixed 5s': it costs least"),
        (
            ["fixed 5s attempts=3", "fixed 5s"],
            "Use 'fixed 5s': it is the cheapest pace that waits for all jobs",
        ),
        (
            ["fixed 5s attempts=4", "fixed 5s attempts=3"],
            "it gave up 13 of 20 jobs and costs least of those that gave up so few.",
        ),
        (["fixed 1s attempts=3"], "No pace saw any job finish"),
        (["fixed 5s", "fixed 5001ms", "fixed 30s"], "Use 'fixed 5s': at "),
        (["fixed 5s", "fixed 5001ms"], "Use 'fixed 5s': at "),
    ],
)
def test_it_recommends_a_pace_and_gives_the_reason(capsys, paces, text):
    assert text in run_with_paces(capsys, SMALL, paces)


def run_with_paces(capsys, words, paces):
    """The output as one line."""
    code, out, _ = run(capsys, *words + [word for pace in paces for word in ("--pace", pace)])
    assert code == 0
    return " ".join(out.split())


@pytest.mark.parametrize(
    "words, limit_decides",
    [
        (["--jobs", "100", "--limit", "10/m"], True),
        (["--jobs", "100", "--limit", "600/h"], True),
        (["--jobs", "20"], False),
        (["--jobs", "20", "--limit", "600/m"], False),
        (["--jobs", "3", "--latency", "10h"], False),
    ],
)
def test_the_limit_is_named_as_the_reason_only_if_the_paces_use_it_up(capsys, words, limit_decides):
    paces = ["fixed 30s", "backoff 2s..10s x1.5"] if limit_decides else ["fixed 30s"] * 2
    reason = ", because the limit decides and not the pace" if limit_decides else ""
    out = run_with_paces(capsys, ["--durations", "uniform 2m..15m"] + words, paces)
    assert " it is as good as any pace here%s." % reason in out


@pytest.mark.parametrize(
    "words, pace, cause",
    [
        (
            ["--fault-rate", "99%"],
            "fixed 5s",
            "there are too many faults in a row (batch and run have --max-faults)",
        ),
        (["--timeout", "5s"], "fixed 5s", TOO_SHORT),
        ([], "fixed 1s attempts=2", TOO_FEW),
        (["--timeout", "never"], "fixed 1s attempts=2", TOO_FEW),
        (["--timeout", "5s"], "fixed 1s attempts=2", TOO_SHORT + " or " + TOO_FEW),
    ],
)
def test_only_arguments_that_were_given_are_named_as_causes(capsys, words, pace, cause):
    out = run_with_paces(capsys, ["--durations", "uniform 2m..15m", "--jobs", "5"] + words, [pace])
    assert "No pace saw any job finish: %s." % cause in out


def test_a_pace_that_gave_up_jobs_is_not_compared_with_the_optimum(capsys):
    words = ["--durations", "uniform 2m..15m", "--timeout", "3m", "--jobs", "100"]
    _, out, _ = run(capsys, *words)
    text = " ".join(out.split())
    assert "Every pace gave up jobs: %s. Use '" % TOO_SHORT in text
    assert re.search(
        r"it gave up (\d+) of 100 jobs and costs least; the next best, '.*', gave up \1, makes ",
        text,
    )
    assert "times the optimum" not in text
    assert {line.split()[-1] for line in out.splitlines() if re.match("[A-D] ", line)} == {"-"}
    _, out, _ = run(capsys, *words + ["--json"])
    assert [one["cost_ratio"] for one in json.loads(out)["paces"]] == [None] * 4
    text = run_with_paces(capsys, words, ["fixed 30s"])
    assert re.search(
        r"'fixed 30s' gave up \d+ of 100 jobs: the timeout is too short .*--timeout\)\.$", text
    )


def make_figures(pace, timed_out, cost, jobs=100):
    one = Simulation(durations=[30] * 3, arrive="every 1m").run("fixed 5s")
    return one._replace(
        pace=pace, timed_out=timed_out, cost=cost, polls_per_job=cost - 9.0, mean=9.0, jobs=jobs
    )


@pytest.mark.parametrize(
    "found, best",
    [
        ([("a", 0, 90.0), ("b", 0, 30.0), ("c", 0, 60.0)], "b"),
        # A pace that waits for all jobs comes first.
        ([("a", 0, 90.0), ("b", 1, 30.0), ("c", 0, 60.0)], "c"),
        # If all give up jobs, a few in a hundred may be chance.
        ([("a", 2, 90.0), ("b", 3, 30.0), ("c", 18, 20.0)], "b"),
        ([("a", 2, 90.0), ("b", 5, 30.0)], "b"),
        ([("a", 2, 90.0), ("b", 6, 30.0)], "a"),
        ([("a", 1, 90.0, 9), ("b", 2, 30.0, 9)], "b"),
        ([("a", 1, 90.0, 9), ("b", 3, 30.0, 9)], "a"),
    ],
)
def test_a_pace_that_waits_for_all_jobs_is_best_and_then_the_cost_decides(found, best):
    assert advice.best_pace([make_figures(*one) for one in found]).pace == best


def test_a_cheaper_pace_that_gave_up_a_few_jobs_is_mentioned():
    def text(*found):
        return advice.recommend([make_figures(*one) for one in found], width=999)

    assert text(("a", 0, 90.0), ("b", 1, 30.0)).endswith(
        "; 'b' gave up 1 of 100 jobs, but makes 21.0 polls per job instead of 81.0"
        " and notices finished jobs as soon.\n"
    )
    assert "'b'" not in text(("a", 0, 90.0), ("b", 1, 89.0))
    assert "'b'" not in text(("a", 0, 90.0), ("b", 9, 30.0))
    only_job = text(("a", 1, 30.0, 1), ("b", 1, 30.1, 1))
    assert "it gave up its only job and is as cheap as any; the next best, 'b'" in only_job


def test_figures_that_print_the_same_count_as_equal():
    best = make_figures("a", 0, 10.0)._replace(polls_per_job=1.16)
    for polls, text in (
        (1.24, "makes as many polls and"),
        (1.26, "makes 1.3 polls per job instead of 1.2 and"),
    ):
        rival = best._replace(pace="b", cost=20.0, polls_per_job=polls)
        assert text in advice.recommend([best, rival], width=999)


def test_a_comparison_states_whether_adaptive_wins_loses_or_ties():
    ours = Simulation(durations=[30] * 3, arrive="every 1m").run("adaptive price=2s")
    rival = ours._replace(pace="x", mean=5.0)
    pairs = [(ours._replace(mean=mean), rival) for mean in (4.0, 6.0, 5.01)]
    lines = advice.compare_matched(pairs).splitlines()[2:]
    assert lines == [
        "   4.0 s instead of  5.0 s for x, at price=2s",
        "   6.0 s, later than 5.0 s for x, at price=2s",
        "   5.0 s, as does x, at price=2s",
    ]


def test_a_price_that_matches_two_rivals_is_listed_once(capsys):
    _, out, _ = run(capsys, "--durations", "uniform 2m..15m", "--limit", "10/m", "--jobs", "100")
    prices = re.findall(", at (price=.*)$", out, re.MULTILINE)
    assert len(prices) == 3 and len(set(prices)) == 1
    assert out.count("adaptive %s " % prices[0]) == 1


@pytest.mark.parametrize(
    "columns, widest", [("40", 39), ("3", 39), ("60", 59), ("500", 79), ("wide", 79)]
)
def test_everything_but_the_table_fits_on_a_narrow_terminal(capsys, monkeypatch, columns, widest):
    monkeypatch.setenv("COLUMNS", columns)
    code, out, _ = run(capsys, "--durations", "uniform 10s..30s", "--jobs", "1")
    lines = out.splitlines()
    head = next(i for i, line in enumerate(lines) if line.endswith("against"))
    rest = lines[:head] + lines[lines.index("", head) :]
    assert widest - 10 < max(map(len, rest)) <= widest
    assert "uniform 10s..30s: 1 job, all at once" in " ".join(out.split())


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_long_simulation_reports_its_polls_on_a_terminal_only(capsys, monkeypatch, is_terminal):
    for name, value in (
        ("is_terminal", lambda stream: is_terminal),
        ("REPORT_EVERY_S", 0.0),
        ("POLLS_PER_CLOCK_READING", 10),
    ):
        monkeypatch.setattr(command, name, value)
    code, out, err = run(capsys, *SMALL + ["--pace", "fixed 5s", "--pace", "fixed 1s"])
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


def test_durations_from_a_file_are_used_in_order(capsys, tmp_path):
    path = tmp_path / "durations.txt"
    path.write_bytes(b"\xef\xbb\xbf# measured\r\n12\r\n\r\n7s\r\n0m30s\r\n")
    words = ["--durations", str(path), "--arrive", "every 1m", "--pace", "fixed 5s", "--json"]
    once = json.loads(run(capsys, *words)[1])
    assert (once["jobs"], once["paces"][0]["polls_per_job"]) == (3, round(14 / 3, 3))
    again = json.loads(run(capsys, *words + ["--jobs", "6"])[1])
    assert (again["jobs"], again["paces"][0]["polls_per_job"]) == (6, round(14 / 3, 3))


def make_ledger(path, jobs):
    """A ledger of finished jobs, each given as (profile, label, last reading, seconds).

    The seconds are those between the poll that saw it pending and the last one.
    """
    clock = VirtualClock()
    with Ledger(str(path), clock=clock) as ledger:
        for i, (profile, label, reading, later) in enumerate(jobs):
            ledger.add([Job("job_%d" % i, profile=profile, label=label)])
            (claim,) = ledger._leases.claim(1)
            settings = WaitSettings()
            progress = observe(
                start(claim.job, "", settings, clock.now()),
                settings,
                Reading(Verdict.PENDING, "running"),
                clock.now(),
                0.5,
            )
            clock.sleep_until(clock.now() + later)
            progress = observe(progress, settings, reading, clock.now(), 0.5)
            ledger._leases.save_outcome(claim, progress, progress.outcome(Profile(), 0.0))
    return "ledger:%s" % path


def test_durations_from_a_ledger_are_those_of_its_jobs_by_profile_and_label(capsys, tmp_path):
    reported = Reading(Verdict.DONE, "done", duration_s=12.0)
    observed = Reading(Verdict.FAILED, "failed")
    from_ledger = make_ledger(
        tmp_path / "jobs.db",
        [("p", "small", reported, 20.0)] * 6 + [("p", None, observed, 300.0)] * 3,
    )
    code, out, err = run(
        capsys, "--durations", from_ledger, "--arrive", "every 1h", "--pace", "fixed 1s", "--json"
    )
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert (document["scenario"], document["jobs"]) == (from_ledger + ", 2 kinds of jobs", 9)
    simulation = Simulation(durations=read_durations(from_ledger))
    assert list(simulation.distributions) == ["p:small", "p"]
    assert simulation.distributions["p:small"].durations == (12.0,) * 6
    # Within the interval, and not all at the same point.
    durations = simulation.distributions["p"].durations
    assert len(set(durations)) == 3 and all(0.0 < duration < 300.0 for duration in durations)
    by_label = [
        job.label for job in Simulation(durations=read_durations(from_ledger), jobs=900).jobs
    ]
    assert 0.6 < by_label.count("p:small") / 900 < 0.73


def test_a_ledger_with_jobs_of_one_kind_is_named_by_its_path(capsys, tmp_path):
    from_ledger = make_ledger(
        tmp_path / "jobs.db", [(None, None, Reading(Verdict.DONE, "done", duration_s=9.0), 20.0)]
    )
    assert (
        json.loads(run(capsys, "--durations", from_ledger, "--pace", "fixed 5s", "--json")[1])[
            "scenario"
        ]
        == from_ledger
    )


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda path: None, "there is no such file"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: path.write_bytes(b"5s\n6s\n"), "is not a ledger"),
        (lambda path: path.write_bytes(b""), "not a ledger|no durations yet"),
        (lambda path: make_ledger(path, []), "no durations yet"),
        (
            lambda path: make_ledger(
                path, [(None, None, Reading(Verdict.DONE, "", duration_s=0.0), 5.0)]
            ),
            "no durations yet",
        ),
    ],
)
def test_a_ledger_without_durations_is_one_line_and_exit_code_2(capsys, tmp_path, make, message):
    make(tmp_path / "jobs.db")
    code, out, err = run(capsys, "--durations", "ledger:%s" % (tmp_path / "jobs.db"))
    assert (code, out, err.count("\n")) == (2, "", 1) and re.search(message, err), err


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
def test_bad_input_is_one_line_and_exit_code_2(capsys, words, message):
    code, out, err = run(capsys, *words)
    assert (
        (code, out, err.count("\n")) == (2, "", 1)
        and err.startswith("pollkit: ")
        and re.search(message, err)
    ), err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_picture_is_not_written_to_a_named_pipe(capsys, tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    # With a reader, a failing test does not block.
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    code, out, err = run(capsys, *SMALL + ["--svg", path])
    os.close(reader)
    assert (code, out, err.count("\n")) == (2, "", 1) and "is it an ordinary file" in err


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "no duration above zero"),
        ("5s\n-3s\n", ":2: .*not a duration"),
        ("5s\nfive\n", ":2:"),
        ("0\n0s\n", "above zero"),
        ("\x00\x01\n", ":1:"),
    ],
)
def test_an_invalid_file_is_refused_and_nothing_is_written(capsys, tmp_path, text, message):
    path, svg = tmp_path / "durations.txt", tmp_path / "f.svg"
    path.write_text(text)
    code, out, err = run(capsys, "--durations", str(path), "--svg", str(svg))
    assert (code, out, err.count("\n")) == (2, "", 1) and re.search(message, err), err
    assert not svg.exists()


# The picture


def text_boxes(picture):
    """Each text with its approximate left, top, right and bottom."""
    for text in picture.iter("{http://www.w3.org/2000/svg}text"):
        x, y, width = float(text.get("x")), float(text.get("y")), 6.5 * len(text.text)
        left = x - {"middle": width / 2, "end": width}.get(text.get("text-anchor"), 0)
        yield text.text, left, y - 10, left + width, y + 2


def test_the_picture_refers_to_no_other_file_and_its_texts_do_not_overlap(capsys, tmp_path):
    svg = tmp_path / "f.svg"
    paces = [
        "adaptive",
        "fixed 30s",
        "fixed 29s",
        "fixed 28s",
        "fixed 27s",
        "backoff 2s..10s x1.5",
        "fixed 5s",
    ]
    words = [word for pace in paces for word in ("--pace", pace)]
    code, out, err = run(
        capsys,
        "--durations",
        "uniform 1m..5m",
        "--jobs",
        "40",
        "--limit",
        "60/m",
        "--svg",
        str(svg),
        *words,
    )
    assert (code, err) == (0, "")
    text = svg.read_text(encoding="utf-8")
    assert "<script" not in text and "http" not in text.replace("http://www.w3.org/2000/svg", "")
    picture = ElementTree.fromstring(text)
    boxes = list(text_boxes(picture))
    names = [name for name, _, _, _, _ in boxes]
    assert set(paces) | {
        "the optimum",
        "limit",
        "polls per job",
        "mean notice delay, seconds",
    } <= set(names)
    for i, (name, left, top, right, bottom) in enumerate(boxes):
        assert left >= 0 and right <= 820 and top >= 0 and bottom <= 740, name
        for other, *box in boxes[:i]:
            assert not (left < box[2] and box[0] < right and top < box[3] and box[1] < bottom), (
                name,
                other,
            )


def test_a_picture_without_any_finished_job_is_valid(capsys, tmp_path):
    svg = tmp_path / "f.svg"
    path = tmp_path / "<a> & \u00fc\x07.txt"
    path.write_text("100\n")
    code, out, err = run(
        capsys, "--durations", str(path), "--pace", "fixed 1s attempts=2", "--svg", str(svg)
    )
    assert (code, err) == (0, "") and "No pace saw any job finish" in out
    assert "no pace saw any job finish" in svg.read_text(encoding="utf-8")
    ElementTree.parse(str(svg))


@pytest.mark.parametrize(
    "low, high, most", [(3.9, 130, 8), (0.01, 1e4, 5), (9, 11, 8), (0.4, 0.5, 4)]
)
def test_log_axes_have_a_few_distinct_ticks(low, high, most):
    ticks = LogAxis(low, high).ticks(most)
    assert len(ticks) <= most and all(low <= tick <= high for tick in ticks)
    assert len(set(map(number_text, ticks))) == len(ticks)


@pytest.mark.parametrize(
    "value, text",
    [
        (0.0, "0"),
        (0.0003, "0.0003"),
        (0.003, "0.003"),
        (0.03, "0.03"),
        (0.3, "0.3"),
        (1, "1"),
        (1.05, "1.1"),
        (3, "3"),
        (10, "10"),
        (30.04, "30"),
        (100, "100"),
        (1300, "1,300"),
    ],
)
def test_ticks_have_as_few_digits_as_they_need(value, text):
    assert number_text(value) == text


def test_a_log_axis_shows_zero_below_the_least_of_the_other_values():
    axis = LogAxis.around([0.0, 1e-14, 2.0, 50.0])
    assert 0.0 < axis.position(0.0) == axis.position(1e-14) < axis.position(1.9)
    assert axis.ticks()[:2] == [0.0, 1.0]
    assert LogAxis.around([0.0, 0.0]).ticks()[0] == 0.0
    assert 0.0 not in LogAxis.around([0.01, 50.0]).ticks()


@pytest.mark.parametrize(
    "durations, ticks", [("0\n0\n5\n", ["0", "1", "2"]), ("60\n60\n60\n", ["0", "0.5", "0.7", "1"])]
)
def test_a_pace_without_any_delay_is_drawn_at_zero(capsys, tmp_path, durations, ticks):
    path, svg = tmp_path / "durations.txt", tmp_path / "f.svg"
    path.write_text(durations)
    code, out, err = run(
        capsys,
        "--durations",
        str(path),
        "--pace",
        "fixed 5s",
        "--pace",
        "fixed 10s",
        "--svg",
        str(svg),
    )
    assert (code, err) == (0, "")
    lines = out.splitlines()
    axis = next(
        i for i, line in enumerate(lines) if line.endswith("mean notice delay, seconds (log)")
    )
    chart = [line[9:] for line in lines[axis - 16 : axis - 2]]
    assert any("A" in line for line in chart) and any("B" in line for line in chart)
    assert lines[axis - 1].split() == ticks
    names = [name for name, _, _, _, _ in text_boxes(ElementTree.parse(str(svg)))]
    assert {"fixed 5s", "fixed 10s", "the optimum", "0"} <= set(names)
    assert "0.0 s instead of 0.0 s" not in out


def test_even_axes_start_at_zero_and_reach_the_highest_value():
    for high in (0.3, 1, 7, 58.2, 60, 61, 999, 12345):
        ticks = even_ticks(high, 5)
        assert ticks[0] == 0 and ticks[-1] >= high and 2 <= len(ticks) <= 12, ticks


# The help


def test_the_help_is_short_and_names_every_scenario(capsys):
    text = text_of("simulate")
    assert len(text.splitlines()) <= 125 and max(map(len, text.splitlines())) <= 80
    text.encode("ascii")
    assert "no pace comes near it." in text
    for name in SCENARIOS:
        assert re.search(r"^  %s +[0-9,]+ " % name, text, re.MULTILINE), name
    code, out, _ = run(capsys, "--help")
    assert code == 0 and len(out.splitlines()) <= 100
    for flag in re.findall(r"--[a-z-]+", text):
        assert flag in out, flag
