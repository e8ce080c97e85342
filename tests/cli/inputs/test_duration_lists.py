"""Durations for a simulation, from a file or a ledger."""

import json
import re

import pytest

from finished_ledger import make_ledger
from pollkit import Simulation
from pollkit.cli.inputs.duration_lists import read_durations
from pollkit.core.reading.verdict import Reading, Verdict


def test_durations_from_a_file_are_used_in_order(pollkit, tmp_path):
    path = tmp_path / "durations.txt"
    path.write_bytes(b"\xef\xbb\xbf# measured\r\n12\r\n\r\n7s\r\n0m30s\r\n")
    words = ["--durations", str(path), "--arrive", "every 1m", "--pace", "fixed 5s", "--json"]
    once = json.loads(pollkit("simulate", *words)[1])
    assert (once["jobs"], once["paces"][0]["polls_per_job"]) == (3, round(14 / 3, 3))
    again = json.loads(pollkit("simulate", *words + ["--jobs", "6"])[1])
    assert (again["jobs"], again["paces"][0]["polls_per_job"]) == (6, round(14 / 3, 3))


def test_durations_from_a_ledger_are_those_of_its_jobs_by_profile_and_label(pollkit, tmp_path):
    reported = Reading(Verdict.DONE, "done", duration_s=12.0)
    observed = Reading(Verdict.FAILED, "failed")
    from_ledger = make_ledger(
        tmp_path / "jobs.db",
        [("p", "small", reported, 20.0)] * 6 + [("p", None, observed, 300.0)] * 3,
    )
    code, out, err = pollkit(
        "simulate",
        "--durations",
        from_ledger,
        "--arrive",
        "every 1h",
        "--pace",
        "fixed 1s",
        "--json",
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


def test_a_ledger_with_jobs_of_one_kind_is_named_by_its_path(pollkit, tmp_path):
    from_ledger = make_ledger(
        tmp_path / "jobs.db", [(None, None, Reading(Verdict.DONE, "done", duration_s=9.0), 20.0)]
    )
    assert (
        json.loads(
            pollkit("simulate", "--durations", from_ledger, "--pace", "fixed 5s", "--json")[1]
        )["scenario"]
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
def test_a_ledger_without_durations_is_one_line_and_exit_code_2(pollkit, tmp_path, make, message):
    make(tmp_path / "jobs.db")
    code, out, err = pollkit("simulate", "--durations", "ledger:%s" % (tmp_path / "jobs.db"))
    assert (code, out, err.count("\n")) == (2, "", 1) and re.search(message, err), err


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
def test_an_invalid_file_is_refused_and_nothing_is_written(pollkit, tmp_path, text, message):
    path = tmp_path / "durations.txt"
    svg = tmp_path / "f.svg"
    path.write_text(text)
    code, out, err = pollkit("simulate", "--durations", str(path), "--svg", str(svg))
    assert (code, out, err.count("\n")) == (2, "", 1) and re.search(message, err), err
    assert not svg.exists()
