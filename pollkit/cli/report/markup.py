"""HTML and SVG as text, escaped by construction.

`Html` is text that is markup already. Every other text that becomes part of an element is escaped,
because ids, labels and messages come from strangers. There are no style attributes: the
Content-Security-Policy of the page forbids them.
"""

from html import escape
from typing import Dict, Iterable, Sequence, Union


class Html(str):
    """Markup that needs no escaping."""

    __slots__ = ()


Content = Union[str, int]  # a plain str is escaped
NOTHING = Html("")


def tag(name: str, *content: Content, **attributes: Union[str, int, bool]) -> Html:
    """An element with its content.

    >>> tag("td", "1 < 2", class_="number")
    '<td class="number">1 &lt; 2</td>'
    """
    return Html("<%s>%s</%s>" % (_start(name, attributes), join(content), name))


def shape(name: str, **attributes: Union[str, int, bool]) -> Html:
    """An SVG element without content."""
    return Html("<%s/>" % _start(name, attributes))


def join(parts: Iterable[Content]) -> Html:
    """Parts one after another."""
    return Html("".join(part if isinstance(part, Html) else escape(str(part)) for part in parts))


def _start(name: str, attributes: Dict[str, Union[str, int, bool]]) -> str:
    """The start tag without its brackets; 'class_' and 'aria_label' are class and aria-label."""
    parts = [name]
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(key)
        elif value is not False:
            parts.append('%s="%s"' % (key, escape(str(value))))
    return " ".join(parts)


def table(headings: Sequence[str], rows: Iterable[Sequence[Content]], class_: str = "") -> Html:
    """A table."""
    head = tag("tr", *(tag("th", text, scope="col") for text in headings))
    lines = [tag("tr", *(tag("td", cell) for cell in row)) for row in rows]
    return tag("table", tag("thead", head), tag("tbody", *lines), class_=class_ or False)


def figure(title: Content, picture: Html, data: Html) -> Html:
    """A picture with its title, and the table behind it."""
    details = tag("details", tag("summary", "Table"), tag("div", data, class_="scroll"))
    return tag("figure", tag("figcaption", title), picture, details)


def legend(*entries: Sequence[str]) -> Html:
    """The meaning of colours: pairs of a class and a text."""
    items = [tag("li", tag("i", class_=class_), text) for class_, text in entries]
    return tag("ul", *items, class_="legend")
