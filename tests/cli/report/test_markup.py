"""HTML as text: everything that is not markup is escaped."""

import pytest

from pollkit.cli.report.markup import Html, join, legend, shape, table, tag
from report_files import HOSTILE


@pytest.mark.parametrize("text", HOSTILE)
def test_text_and_attributes_are_escaped(text):
    made = tag("td", text, title=text)
    inner = made[len("<td title=") : -len("</td>")]
    assert "<" not in inner and inner.count(">") == 1 and inner.count('"') == 2
    assert made == join([made])  # markup is not escaped again


def test_attributes_are_named_as_in_html():
    assert tag("p", class_="note", aria_label="x", hidden=True, title=False) == (
        '<p class="note" aria-label="x" hidden></p>'
    )
    assert shape("rect", x="1%") == '<rect x="1%"/>'


def test_a_table_has_a_heading_for_each_column_and_escapes_its_cells():
    assert table(("A", "B"), [("<", Html("<b>1</b>"))], "numbers") == (
        '<table class="numbers"><thead><tr><th scope="col">A</th><th scope="col">B</th></tr>'
        "</thead><tbody><tr><td>&lt;</td><td><b>1</b></td></tr></tbody></table>"
    )


def test_a_legend_pairs_colours_with_texts():
    assert legend(("done", "a & b")) == (
        '<ul class="legend"><li><i class="done"></i>a &amp; b</li></ul>'
    )
