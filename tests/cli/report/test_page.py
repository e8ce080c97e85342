"""The page: one file that needs no other, escaped, with a policy that allows only its own parts."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from pollkit.cli.report.loading import Selection, read_outcomes
from pollkit.cli.report.page import report_page
from pollkit.cli.report.sections.timeline import GROUPS, MOST_LABELS, OTHER_LABELS
from report_files import BEGAN_AT, hostile_outcomes, outcome, write_outcomes

SCRIPTING = ("script", "iframe", "object", "embed", "img", "link", "meta", "base", "form", "a")


class Elements(HTMLParser):
    """All elements of a page, with their attributes."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def named(self, name):
        return [attributes for tag, attributes in self.found if tag == name]


@pytest.fixture
def page(tmp_path):
    """A function that makes the page of some outcomes."""

    def make(outcomes, **options):
        path = write_outcomes(tmp_path / "out.jsonl", outcomes)
        data = read_outcomes(path, Selection(BEGAN_AT + 7200))
        return report_page(data, **options).decode("utf-8")

    return make


def hash_of(text):
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return "'sha256-%s'" % base64.b64encode(digest).decode()


def test_the_policy_allows_exactly_the_style_and_the_script_of_the_page(page):
    made = page([outcome("a")])
    (policy,) = re.findall('http-equiv="Content-Security-Policy" content="([^"]*)"', made)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    (style,) = re.findall("<style>(.*?)</style>", made, re.DOTALL)
    (script,) = re.findall("<script>(.*?)</script>", made, re.DOTALL)
    assert rules == {
        "default-src": "'none'",
        "style-src": hash_of(style),
        "script-src": hash_of(script),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_the_page_refers_to_nothing_outside_and_has_no_style_attributes(page):
    elements = Elements(page([outcome("a")]))
    for _, attributes in elements.found:
        assert "style" not in attributes and "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("href", "#") in ("#behind", "data:,", "#")


def test_hostile_texts_add_no_element(page):
    plain = Elements(page([outcome("a", label="b"), outcome("c", state="failed")]))
    hostile = Elements(page(hostile_outcomes()))
    for name in SCRIPTING:
        assert len(hostile.named(name)) == len(plain.named(name)), name
    allowed = {tag for tag, _ in plain.found} | {"b"}
    assert {tag for tag, _ in hostile.found} <= allowed


def test_up_to_500_jobs_have_a_bar_each(page):
    made = page([outcome("job_%d" % i, began_at=BEGAN_AT + i) for i in range(500)])
    assert made.count('<use href="#behind"/>') == 500


def test_more_jobs_are_grouped_by_label_and_state_and_few_labels_can_be_chosen(page):
    outcomes = [
        outcome(
            "job_%d" % i,
            began_at=BEGAN_AT + i,
            label="label %d" % (i % 100),
            state="failed" if i % 10 == 0 else "done",
        )
        for i in range(3000)
    ]
    made = page(outcomes)
    assert made.count('<use href="#behind"/>') <= GROUPS + 2 * MOST_LABELS
    assert "3,000 jobs in" in made
    assert made.count('value="=label') == MOST_LABELS - 1
    assert 'value="=%s"' % OTHER_LABELS in made
    assert len(made) < 300000


def test_a_page_without_jobs_says_so(page):
    assert "There are no jobs to report." in page([])


def test_a_served_page_is_loaded_again(page):
    assert 'http-equiv="refresh"' not in page([outcome("a")])
    assert '<meta http-equiv="refresh" content="7">' in page([outcome("a")], refresh_s=7)


def test_failures_are_grouped_and_quote_the_api(page):
    error = {"code": "E42", "message": "page 7 is <empty>"}
    outcomes = [outcome("job_%d" % i, state="failed", error=error) for i in range(3)]
    made = page(outcomes + [outcome("late", state="timed_out")])
    assert "<td>3</td>" in made and "<b>E42</b> page 7 is &lt;empty&gt;" in made
    assert "no reason given" in made


def test_numbers_of_requests_that_a_file_lacks_are_not_invented(page):
    made = page([outcome("a", faults=2)])
    assert "Rate limited" not in made and "Outages" not in made
    assert "does not say when each request was sent" in made
    assert "2 polls met a fault" in made
