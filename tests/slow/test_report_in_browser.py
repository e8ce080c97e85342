"""The page in a real browser: it runs cleanly, sorts and filters, and executes nothing hostile."""

from pathlib import Path

import pytest

from browser import running_browser
from one_python import not_with_the_oldest
from pollkit import Simulation
from pollkit.cli.report.loading import Selection, read_outcomes
from pollkit.cli.report.page import report_page
from pollkit.cli.report.simulation_page import simulation_page
from report_files import BEGAN_AT, hostile_outcomes, outcome, write_outcomes

pytestmark = not_with_the_oldest

SHOWN = """Array.from(document.querySelectorAll('#jobs tbody tr')).filter(
    row => row.offsetParent).map(row => row.cells[0].textContent)"""


@pytest.fixture(scope="module")
def browser():
    with running_browser() as started:
        yield started


@pytest.fixture
def opened(browser, tmp_path):
    """A function that opens the page of some outcomes, from a file."""

    def open_page(outcomes, **options):
        path = write_outcomes(tmp_path / "out.jsonl", outcomes)
        page = Path(str(tmp_path), "report.html")
        page.write_bytes(report_page(read_outcomes(path, Selection(BEGAN_AT + 7200))))
        return browser.open(page.as_uri(), **options)

    return open_page


@pytest.fixture
def three_jobs():
    return [
        outcome("alpha", label="small", polls=12, waited_s=90.0),
        outcome("beta", label="large", polls=9, waited_s=600.0, began_at=BEGAN_AT + 60),
        outcome("gamma", label="small", polls=100, state="failed", began_at=BEGAN_AT + 120),
    ]


def choose(page, name, value):
    """Choose a value of a control as a person does."""
    page.evaluate(
        "(function (control) { control.value = '%s'; "
        "control.dispatchEvent(new Event('input', {bubbles: true})); })"
        "(document.forms.filter.elements['%s'])" % (value, name)
    )


def click_heading(page, text):
    page.evaluate(
        "Array.from(document.querySelectorAll('#jobs thead button'))"
        ".filter(each => each.textContent === '%s')[0].click()" % text
    )


@pytest.mark.parametrize("width, is_dark", [(1200, False), (400, False), (1200, True)])
def test_nothing_is_logged_requested_or_wider_than_the_window(opened, three_jobs, width, is_dark):
    page = opened(three_jobs, width=width, is_dark=is_dark)
    assert page.console() == []
    assert [url for url in page.requests() if not url.startswith("data:")] == [
        page.evaluate("location.href").partition("#")[0]
    ]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (not is_dark)


def test_the_style_and_the_script_are_applied(opened, three_jobs):
    page = opened(three_jobs)
    assert page.evaluate("getComputedStyle(document.querySelector('.tiles')).display") == "grid"
    assert page.evaluate("document.forms.filter.hidden") is False
    assert page.evaluate("document.querySelector('output').value") == "3 of 3 shown"


def test_a_heading_sorts_by_value_and_a_second_click_reverses(opened, three_jobs):
    page = opened(three_jobs)
    assert page.evaluate(SHOWN) == ["alpha", "beta", "gamma"]
    click_heading(page, "Polls")
    assert page.evaluate(SHOWN) == ["beta", "alpha", "gamma"]
    click_heading(page, "Polls")
    assert page.evaluate(SHOWN) == ["gamma", "alpha", "beta"]
    assert page.evaluate("document.querySelector('[aria-sort]').textContent") == "Polls"
    click_heading(page, "Waited")
    assert page.evaluate(SHOWN) == ["gamma", "alpha", "beta"]  # 60 s, 90 s, 600 s
    click_heading(page, "Start")
    assert page.evaluate(SHOWN) == ["alpha", "beta", "gamma"]


def test_labels_states_and_parts_of_ids_filter_together(opened, three_jobs):
    page = opened(three_jobs)
    choose(page, "label", "=small")
    assert page.evaluate(SHOWN) == ["alpha", "gamma"]
    choose(page, "state", "=failed")
    assert page.evaluate(SHOWN) == ["gamma"]
    assert page.evaluate("document.querySelector('output').value") == "1 of 3 shown"
    choose(page, "state", "")
    choose(page, "find", "LPH")
    assert page.evaluate(SHOWN) == ["alpha"]


def test_a_long_url_shows_its_end_and_is_found_by_its_start(opened):
    urls = ["https://api.internal/v1/projects/12/jobs/%d" % i for i in (1, 2)]
    page = opened([outcome(url) for url in urls] + [outcome("other")])
    first, second, _ = page.evaluate(SHOWN)
    assert first.endswith("jobs/1") and second.endswith("jobs/2")
    choose(page, "find", "api.internal")
    assert page.evaluate(SHOWN) == [first, second]


def test_a_page_that_is_loaded_again_keeps_the_choices(opened, three_jobs):
    page = opened(three_jobs)
    choose(page, "label", "=small")
    choose(page, "zoom", "4")
    click_heading(page, "Polls")
    click_heading(page, "Polls")
    page.reload()
    assert page.evaluate(SHOWN) == ["gamma", "alpha"]
    assert page.evaluate("document.querySelector('#jobs table').className") == "zoom4"


def test_zooming_makes_the_timeline_wider_inside_of_its_frame(opened, three_jobs):
    page = opened(three_jobs)
    width = "document.querySelector('#jobs table').offsetWidth"
    before = page.evaluate(width)
    choose(page, "zoom", "4")
    assert page.evaluate(width) == pytest.approx(4 * before, rel=0.01)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1200


def test_bars_are_where_their_times_are(opened):
    page = opened([outcome("a", waited_s=50.0), outcome("b", waited_s=100.0)])
    bar = "document.querySelectorAll('#jobs td rect')[%d].getBoundingClientRect()"
    short, long = (page.evaluate(bar % i + ".width") for i in (0, 1))
    assert short == pytest.approx(long / 2, rel=0.02)
    assert page.evaluate(bar % 0 + ".left") == pytest.approx(page.evaluate(bar % 1 + ".left"))


@pytest.mark.parametrize("width", [400, 1200])
def test_no_bar_or_dot_hides_a_number_of_a_vertical_axis(opened, three_jobs, width):
    page = opened(three_jobs, width=width)
    places = page.evaluate("""Array.from(document.querySelectorAll('.plot')).map(function (plot) {
        var boxes = name => Array.from(plot.querySelectorAll(name)).map(
            shape => shape.getBoundingClientRect());
        return {
            frame: plot.parentNode.getBoundingClientRect().left,
            shapes: Math.min(...boxes('rect, circle, svg').map(box => box.left)),
            numbers: boxes('text[x="-8"]').map(box => [box.left, box.right])
        }; })""")
    assert len(places) == 3  # notice delay, and the durations of two labels
    for place in places:
        assert len(place["numbers"]) >= 2
        for left, right in place["numbers"]:
            assert place["frame"] <= left < right < place["shapes"]


def test_the_timeline_has_its_times_on_a_phone(opened, three_jobs):
    page = opened(three_jobs, width=400)
    label = "document.querySelector('#jobs thead .axis-labels text').getBoundingClientRect()"
    assert page.evaluate(label + ".width") > 0


def test_hostile_texts_are_shown_and_not_executed(opened):
    outcomes = hostile_outcomes()
    page = opened(outcomes)
    assert page.evaluate("window.attacked") is None
    assert page.console() == []
    assert page.evaluate("document.images.length") == 0
    assert len(page.evaluate(SHOWN)) == len(outcomes)
    assert page.evaluate(SHOWN)[0] == outcomes[0]["id"]
    choose(page, "find", "<script>")
    assert len(page.evaluate(SHOWN)) == 1


def test_the_policy_blocks_a_script_that_the_page_does_not_have(opened, three_jobs):
    page = opened(three_jobs)
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=attacked=1>')")
    page.evaluate(
        "document.body.appendChild(document.createElement('script')).textContent = 'attacked = 2'"
    )
    assert page.evaluate("window.attacked") is None
    assert page.console() != []


def test_every_picture_has_a_name_and_a_table(opened, three_jobs):
    page = opened(three_jobs)
    pictures = "document.querySelectorAll('svg[role=img]').length"
    named = "document.querySelectorAll('svg[role=img] > title').length"
    assert page.evaluate(pictures) == page.evaluate(named) > 0
    assert page.evaluate("document.querySelectorAll('figure details table').length") == (
        page.evaluate("document.querySelectorAll('figure').length")
    )


def test_the_page_of_a_simulation_runs_cleanly_at_every_width(browser, tmp_path):
    simulation = Simulation(durations="uniform 10s..30s", jobs=20)
    figures = [simulation.run("adaptive"), simulation.run("fixed 10s")]
    path = Path(str(tmp_path), "paces.html")
    path.write_bytes(simulation_page(simulation, figures, [], "Use 'adaptive'."))
    for width in (400, 1200):
        page = browser.open(path.as_uri(), width=width)
        assert page.console() == []
        assert page.requests() == [path.as_uri()]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.querySelectorAll('circle').length") == 2
