"""The page: one HTML file that needs no other, with its style and its script inside.

The Content-Security-Policy allows exactly these two, by hash, and forbids every request. So even a
text that slipped through unescaped could not run, nor send anything.
"""

import base64
import hashlib
import time
from pkgutil import get_data
from typing import Optional

from .markup import NOTHING, Html, join, tag
from .plot import TimeAxis, date_text, moment_text
from .records import ReportData
from .sections.durations import durations
from .sections.headline import headline
from .sections.problems import problems
from .sections.time_charts import notice_delay, request_rate
from .sections.timeline import timeline

PACKAGE = __package__ or ""


def report_page(data: ReportData, refresh_s: Optional[int] = None) -> bytes:
    """The report; with `refresh_s`, browsers load it again after so many seconds."""
    axis = TimeAxis(data.began_at, max(data.ended_at, data.began_at + 1.0))
    if not data.jobs:
        sections = [tag("section", tag("p", "There are no jobs to report."))]
    else:
        sections = [
            headline(data),
            timeline(data, axis),
            request_rate(data, axis),
            notice_delay(data, axis),
            durations(data),
            problems(data),
        ]
    subtitle = _subtitle(data, axis)
    return page("pollkit report", data.title, subtitle, join(sections), refresh_s)


def _subtitle(data: ReportData, axis: TimeAxis) -> str:
    """The period, the selection, and when the report was made."""
    parts = [data.filters, "as of %s UTC" % moment_text(data.now)]
    if data.jobs:
        start = moment_text(axis.start)
        end = moment_text(axis.end)
        if date_text(axis.start) == date_text(axis.end):
            end = end[len(date_text(axis.end)) :].strip()
        year = time.strftime("%Y", time.gmtime(axis.end))
        parts.insert(0, "%s to %s UTC, %s" % (start, end, year))
    return " · ".join(filter(None, parts))


def page(
    kicker: str, title: str, subtitle: str, content: Html, refresh_s: Optional[int] = None
) -> bytes:
    """A whole page with this content; `kicker` is the kind of page, shown above its title."""
    style = _read("style.css")
    script = _read("script.js")
    policy = (
        "default-src 'none'; style-src '%s'; script-src '%s'; img-src data:; base-uri 'none'; "
        "form-action 'none'" % (_hash(style), _hash(script))
    )
    refresh = NOTHING
    if refresh_s is not None:
        refresh = Html('<meta http-equiv="refresh" content="%d">' % refresh_s)
    head = join(
        [
            Html('<meta charset="utf-8">'),
            Html('<meta http-equiv="Content-Security-Policy" content="%s">' % policy),
            Html('<meta name="viewport" content="width=device-width,initial-scale=1">'),
            Html('<meta name="color-scheme" content="light dark">'),
            refresh,
            Html('<link rel="icon" href="data:,">'),
            tag("title", "%s – %s" % (title, kicker)),
            tag("style", Html(style)),
        ]
    )
    header = tag("header", tag("p", kicker, class_="kicker"), tag("h1", title), tag("p", subtitle))
    body = tag("body", tag("main", header, content), tag("script", Html(script)))
    document = "<!doctype html>\n" + tag("html", tag("head", head), body, lang="en") + "\n"
    return document.encode("utf-8", "replace")


def _read(name: str) -> str:
    """A file of this package, which may be in a .pyz."""
    return (get_data(PACKAGE, name) or b"").decode("utf-8").replace("\r\n", "\n")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")
