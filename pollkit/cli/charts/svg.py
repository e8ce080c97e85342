"""SVG elements as text."""

from html import escape
from typing import NamedTuple, Sequence, Tuple

INK = "#57606a"

Point = Tuple[float, float]


class Box(NamedTuple):
    """A rectangle on the paper."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        """The distance from left to right."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """The distance from top to bottom."""
        return self.bottom - self.top

    def overlaps(self, other: "Box") -> bool:
        """Whether the two have area in common."""
        overlaps_across = self.left < other.right and other.left < self.right
        overlaps_down = self.top < other.bottom and other.top < self.bottom
        return overlaps_across and overlaps_down


def text_element(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 12,
    anchor: str = "start",
    colour: str = "",
    weight: str = "",
) -> str:
    """A text that starts, ends or is centred at x."""
    attributes = ""
    if anchor != "start":
        attributes += ' text-anchor="%s"' % anchor
    if colour:
        attributes += ' fill="%s"' % colour
    if weight:
        attributes += ' font-weight="%s"' % weight
    position = 'x="%.1f" y="%.1f" font-size="%d"' % (x, y, size)
    return "<text %s%s>%s</text>" % (position, attributes, escape(text))


def line_element(start: Point, end: Point, attributes: str) -> str:
    """A straight line."""
    return '<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>' % (*start, *end, attributes)


def grid_line(start: Point, end: Point) -> str:
    """A faint line behind the data."""
    return line_element(start, end, 'stroke="%s" stroke-opacity="0.25"' % INK)


def polyline_element(points: Sequence[Point], attributes: str) -> str:
    """A line through several points."""
    text = " ".join("%.1f,%.1f" % point for point in points)
    return '<polyline points="%s" fill="none" %s/>' % (text, attributes)
