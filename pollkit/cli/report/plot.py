"""Charts that fit any width: positions across are in percent, positions down in pixels.

Text keeps its size on a phone and on a wide screen. The labels of the vertical axis are left of
the plot, in a margin that the style gives it, so that no bar or dot hides them. Curves can't be
written in percent; they are in an <svg> of their own that stretches (`curve`).
"""

import time
from typing import List, NamedTuple, Sequence, Tuple, Union

from ..charts.scales import LogAxis, even_ticks, number_text
from .markup import Html, join, shape, tag

TOP = 16  # pixels above the plot, for the unit of the vertical axis
AXIS = 28  # pixels below the plot, for marks and the labels of the horizontal axis
# Steps between the ticks of a time axis, in seconds
SECOND_STEPS = [1, 2, 5, 10, 15, 30]
MINUTES = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080, 20160, 43200)
MINUTE_STEPS = [60 * minutes for minutes in (*MINUTES, 129600, 525600)]
MOST_TICKS = 8


def percent(share: float) -> str:
    """A position across, from a share of the width."""
    return "%.6g%%" % round(100 * min(1.0, max(0.0, share)), 2)


class TimeAxis(NamedTuple):
    """The time from left to right."""

    start: float
    end: float

    @property
    def span(self) -> float:
        """The seconds from left to right; never 0."""
        return max(1.0, self.end - self.start)

    def share(self, at: float) -> float:
        """The position of an instant, from 0 to 1."""
        return (at - self.start) / self.span

    def x(self, at: float) -> str:
        """The position of an instant in percent."""
        return percent(self.share(at))

    def width(self, start: float, end: float) -> str:
        """The width of a period in percent; the part outside of the axis is left out."""
        return percent(self.share(min(end, self.end)) - self.share(max(start, self.start)))

    def ticks(self) -> List[float]:
        """Round instants, in UTC."""
        steps = [each for each in SECOND_STEPS + MINUTE_STEPS if self.span / each <= MOST_TICKS]
        step = min(steps, default=MINUTE_STEPS[-1])
        first = -(-self.start // step) * step
        return [first + i * step for i in range(int((self.end - first) // step) + 1)]

    def labels(self) -> "List[Tuple[float, str]]":
        """The ticks with their texts: the time, or the date at midnight."""
        return [(self.share(at), _instant_text(at)) for at in self.ticks()]


def _instant_text(at: float) -> str:
    moment = time.gmtime(at)
    if at % 86400 == 0:
        return date_text(at)
    return time.strftime("%H:%M:%S" if at % 60 else "%H:%M", moment)


def date_text(at: float) -> str:
    """The day and the month of an instant, in UTC, whatever the locale."""
    moment = time.gmtime(at)
    months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
    return "%d %s" % (moment.tm_mday, months[moment.tm_mon - 1])


def moment_text(at: float) -> str:
    """An instant to the minute, in UTC."""
    return "%s %s" % (date_text(at), time.strftime("%H:%M", time.gmtime(at)))


class EvenAxis(NamedTuple):
    """A linear axis from 0 on."""

    high: float

    def position(self, value: float) -> float:
        """The position of a value: 0 at the low end, 1 at the high end."""
        return value / self.ticks()[-1]

    def ticks(self, most: int = 5) -> List[float]:
        """Round numbers; the last one is the high end."""
        return even_ticks(max(self.high, 1e-6), most)


class Plot:
    """A chart with a vertical axis."""

    def __init__(self, axis: Union[EvenAxis, LogAxis], height: int = 150) -> None:
        self._axis = axis
        self.height = height
        self._shapes: List[Html] = []

    def y(self, value: float) -> float:
        """The position of a value, in pixels from the top."""
        share = min(1.0, max(0.0, self._axis.position(value)))
        return round(TOP + (1.0 - share) * self.height, 1)

    @property
    def bottom(self) -> int:
        """The position of the horizontal axis."""
        return TOP + self.height

    def add(self, *shapes: Html) -> None:
        """Draw shapes over those that are there."""
        self._shapes.extend(shapes)

    def bar(self, x: str, width: str, value: float, **attributes: str) -> Html:
        """A bar from the axis up to a value."""
        y = self.y(value)
        height = round(self.bottom - y, 1)
        return shape("rect", x=x, y="%g" % y, width=width, height="%g" % height, **attributes)

    def rule(self, value: float, text: str) -> Html:
        """A dashed line across, with its text at the right end."""
        y = self.y(value)
        label = tag("text", text, x="100%", y="%g" % (y - 5), class_="end")
        return join([_line_across(y, "rule"), label])

    def band(self, x: str, width: str, title: str) -> Html:
        """A shaded period."""
        size = {"y": str(TOP), "width": width, "height": str(self.height)}
        return tag("rect", tag("title", title), x=x, class_="band", **size)

    def mark(self, x: str, width: str, class_: str) -> Html:
        """A mark below the axis."""
        return shape("rect", x=x, y=str(self.bottom + 3), width=width, height="4", class_=class_)

    def curve(self, points: Sequence[Tuple[float, float]], class_: str) -> Html:
        """A line through points (share of the width, value)."""
        text = " ".join("%g,%g" % (round(1000 * x, 1), self.y(value)) for x, value in points)
        line = shape("polyline", points=text, class_="curve " + class_)
        return tag(
            "svg",
            line,
            width="100%",
            height=str(self.bottom),
            viewBox="0 0 1000 %d" % self.bottom,
            preserveAspectRatio="none",
        )

    def draw(self, title: str, axis: Sequence[Tuple[float, str]], unit: str) -> Html:
        """The whole chart; `axis` has the ticks across, `unit` is that of the numbers."""
        lines = [tag("title", title)]
        texts = [tag("text", unit, x="0", y=str(TOP - 5))]
        for tick in self._axis.ticks(5):
            y = self.y(tick)
            if y < self.bottom:
                lines.append(_line_across(y, "grid"))
            texts.append(tag("text", number_text(tick), x="-8", y="%g" % (y + 4), class_="end"))
        lines.append(_line_across(self.bottom, "axis"))
        size = {"width": "100%", "height": str(self.bottom + AXIS)}
        axis_texts = axis_labels(axis, self.bottom + AXIS - 4)
        parts = [*lines, *self._shapes, *texts, axis_texts]
        return tag("svg", *parts, role="img", class_="plot", **size)


def _line_across(y: float, class_: str) -> Html:
    return shape("line", x1="0", x2="100%", y1="%g" % y, y2="%g" % y, class_=class_)


def axis_labels(axis: Sequence[Tuple[float, str]], y: int) -> Html:
    """The texts of a horizontal axis; on a phone, every other one."""
    labels = []
    for i, (share, text) in enumerate(axis):
        anchor = "middle"
        if share < 0.03:
            anchor = "start"
        elif share > 0.97:
            anchor = "end"
        class_ = anchor + " odd" if i % 2 else anchor
        labels.append(tag("text", text, x=percent(share), y=str(y), class_=class_))
    return join(labels)
