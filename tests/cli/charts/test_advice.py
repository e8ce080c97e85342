"""The recommendation of a pace, and the comparison of equal numbers of polls."""

import json
import re

import pytest

from pollkit import Simulation
from pollkit.cli.charts import advice

SMALL = ["--durations", "uniform 10s..30s", "--jobs", "20"]
TOO_SHORT = "the timeout is too short for these jobs (try a longer --timeout)"
TOO_FEW = "the attempts are too few (try more attempts=)"


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
def test_it_recommends_a_pace_and_gives_the_reason(pollkit, paces, text):
    assert text in run_with_paces(pollkit, SMALL, paces)


def run_with_paces(pollkit, words, paces):
    """The output as one line."""
    code, out, _ = pollkit(
        "simulate", *words + [word for pace in paces for word in ("--pace", pace)]
    )
    assert code == 0
    return " ".join(out.split())


@pytest.mark.parametrize(
    "words, limit_decides",
    [
        (["--jobs", "100", "--limit", "10/m", "--seed", "2"], True),
        (["--jobs", "100", "--limit", "600/h", "--seed", "2"], True),
        (["--jobs", "20"], False),
        (["--jobs", "20", "--limit", "600/m"], False),
        (["--jobs", "3", "--latency", "10h"], False),
    ],
)
def test_the_limit_is_named_as_the_reason_only_if_the_paces_use_it_up(
    pollkit, words, limit_decides
):
    paces = ["fixed 30s", "backoff 2s..10s x1.5"] if limit_decides else ["fixed 30s"] * 2
    reason = ", because the limit decides and not the pace" if limit_decides else ""
    out = run_with_paces(pollkit, ["--durations", "uniform 2m..15m"] + words, paces)
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
def test_only_arguments_that_were_given_are_named_as_causes(pollkit, words, pace, cause):
    out = run_with_paces(pollkit, ["--durations", "uniform 2m..15m", "--jobs", "5"] + words, [pace])
    assert "No pace saw any job finish: %s." % cause in out


def test_a_pace_that_gave_up_jobs_is_not_compared_with_the_optimum(pollkit):
    words = ["--durations", "uniform 2m..15m", "--timeout", "3m", "--jobs", "100"]
    _, out, _ = pollkit("simulate", *words)
    text = " ".join(out.split())
    assert "Every pace gave up jobs: %s. Use '" % TOO_SHORT in text
    assert re.search(
        r"it gave up (\d+) of 100 jobs and costs least; the next best, '.*', gave up \1, makes ",
        text,
    )
    assert "times the optimum" not in text
    assert {line.split()[-1] for line in out.splitlines() if re.match("[A-D] ", line)} == {"-"}
    _, out, _ = pollkit("simulate", *words + ["--json"])
    assert [one["cost_ratio"] for one in json.loads(out)["paces"]] == [None] * 4
    text = run_with_paces(pollkit, words, ["fixed 30s"])
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


def test_a_price_that_matches_two_rivals_is_listed_once(pollkit):
    words = ["--durations", "uniform 2m..15m", "--limit", "10/m", "--jobs", "100", "--seed", "5"]
    _, out, _ = pollkit("simulate", *words)
    prices = re.findall(", at (price=.*)$", out, re.MULTILINE)
    assert len(prices) == 3 and len(set(prices)) == 1
    assert out.count("adaptive %s " % prices[0]) == 1
