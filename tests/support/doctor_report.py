"""The output of `pollkit doctor`, parsed."""

import re
import time

LINE = re.compile(r"(ok|warning|problem|skipped) +(\S+) +(.*)")
STEPS = ["proxy", "DNS", "TCP", "credential", "poll", "meaning", "limits", "clock"]
TLS_STEPS = STEPS[:3] + ["TLS"] + STEPS[3:]


class Report:
    """The parsed output of one run of the doctor."""

    def __init__(self, code, out):
        self.code = code
        self.out = out
        self.lines = out.splitlines()
        found = [LINE.fullmatch(line) for line in self.lines[1:-1]]
        assert all(found), out
        self.steps = [match.group(2) for match in found]
        self.level = {match.group(2): match.group(1) for match in found}
        self.text = {match.group(2): match.group(3) for match in found}

    @property
    def problems(self):
        return [step for step in self.steps if self.level[step] == "problem"]


def http_date(offset=0.0):
    """The time, so many seconds from now, as a Date header."""
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + offset))
