"""The SVG picture that `pollkit simulate --svg` draws."""

import os
from xml.etree import ElementTree

import pytest

SMALL = ["--durations", "uniform 10s..30s", "--jobs", "20"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_picture_is_not_written_to_a_named_pipe(pollkit, tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    # With a reader, a failing test does not block.
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    code, out, err = pollkit("simulate", *SMALL + ["--svg", path])
    os.close(reader)
    assert (code, out, err.count("\n")) == (2, "", 1) and "is it an ordinary file" in err


# The picture


def text_boxes(picture):
    """Each text with its approximate left, top, right and bottom."""
    for text in picture.iter("{http://www.w3.org/2000/svg}text"):
        x = float(text.get("x"))
        y = float(text.get("y"))
        width = 6.5 * len(text.text)
        left = x - {"middle": width / 2, "end": width}.get(text.get("text-anchor"), 0)
        yield text.text, left, y - 10, left + width, y + 2


def test_the_picture_refers_to_no_other_file_and_its_texts_do_not_overlap(pollkit, tmp_path):
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
    code, out, err = pollkit(
        "simulate",
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


def test_a_picture_without_any_finished_job_is_valid(pollkit, tmp_path):
    svg = tmp_path / "f.svg"
    path = tmp_path / "<a> & \u00fc\x07.txt"
    path.write_text("100\n")
    code, out, err = pollkit(
        "simulate", "--durations", str(path), "--pace", "fixed 1s attempts=2", "--svg", str(svg)
    )
    assert (code, err) == (0, "") and "No pace saw any job finish" in out
    assert "no pace saw any job finish" in svg.read_text(encoding="utf-8")
    ElementTree.parse(str(svg))


@pytest.mark.parametrize(
    "durations, ticks", [("0\n0\n5\n", ["0", "1", "2"]), ("60\n60\n60\n", ["0", "0.5", "0.7", "1"])]
)
def test_a_pace_without_any_delay_is_drawn_at_zero(pollkit, tmp_path, durations, ticks):
    path = tmp_path / "durations.txt"
    svg = tmp_path / "f.svg"
    path.write_text(durations)
    code, out, err = pollkit(
        "simulate",
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
