"""Events, styles and views for the tests of the progress display."""

from pollkit.cli.progress.terminal import Style
from pollkit.cli.progress.views import ManyJobs, OneJob, Totals
from pollkit.core.events import END, POLL, Event
from pollkit.core.model import Job, State
from pollkit.core.waiting.machine import start
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.core.waiting.wait_state import Ending

ASCII = Style("ascii", False, False)
PLAIN = Style("utf-8", True, False)
COLOURED = Style("utf-8", True, True)
WIDTHS = [40, 80, 200]


def wait(job="job_1", **changes):
    """The progress of a wait that started at 100."""
    changes = dict({"next_at": 112.0, "polls": 1, "status": "running"}, **changes)
    return start(Job(job), "http://x/" + job, WaitSettings(), 100.0)._replace(**changes)


def poll(at, job="job_1", **changes):
    return Event(POLL, job, at, "poll", wait(job, **changes))


def end(job="job_1", state=State.DONE, at=110.0):
    return Event(END, job, at, str(state), wait(job, ending=Ending(state, at)))


def one_job(*events):
    view = OneJob("job_1", 100.0)
    for event in events:
        view.on_event(event)
    return view


def batch(total=None, count=20, limit=None):
    view = ManyJobs(100.0, limit)
    for i in range(count):
        view.on_event(poll(101.0, "job_%d" % i, fraction=i / 100))
    for i in range(6):
        view.on_event(end("job_%d" % i, State.FAILED if i == 0 else State.DONE))
    for second in range(101, 111):
        view.update(float(second), Totals(total, second - 100, 3))
    return view
