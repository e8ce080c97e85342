"""Outcomes and ledgers for tests of reports."""

import json

from pollkit.core.model import iso_text

BEGAN_AT = 1800000000.0  # 2027-01-15 08:00 UTC
HOSTILE = [
    "<script>window.attacked = 1</script>",
    "\"><img src=x onerror='window.attacked = 2'>",
    "</style></title></svg><svg onload=window.attacked=3>",
    "' autofocus onfocus=window.attacked=4 x='",
    "&lt;b&gt; {{1}} ${1} \x00\x1b[31m\u202e\ud800",
    "javascript:window.attacked=5",
]


def outcome(name, **fields):
    """An outcome as `pollkit batch` prints it; by default, done after 60 s and 3 polls."""
    began_at = fields.pop("began_at", BEGAN_AT)
    waited_s = fields.pop("waited_s", 60.0)
    values = {
        "id": name,
        "url": None,
        "profile": "media",
        "label": None,
        "metadata": None,
        "state": "done",
        "status": "done",
        "result": None,
        "error": None,
        "progress": None,
        "polls": 3,
        "faults": 0,
        "waited_s": waited_s,
        "slept_s": {"pace": waited_s, "limit": 0.0, "retry_after": 0.0, "fault": 0.0},
        "notice_delay_s": 2.0,
        "started_at": iso_text(began_at),
        "ended_at": iso_text(began_at + waited_s),
    }
    assert set(fields) <= set(values), fields
    values.update(fields)
    return values


def write_outcomes(path, outcomes):
    """Write outcomes, one per line; the path as text."""
    with open(str(path), "w", encoding="ascii") as file:
        file.writelines(json.dumps(each) + "\n" for each in outcomes)
    return str(path)


def hostile_outcomes():
    """Outcomes whose texts try to break out of the page."""
    return [
        outcome(
            text,
            label=text,
            profile=text,
            state="failed" if i % 2 else "done",
            error={"code": text, "message": text} if i % 2 else None,
            began_at=BEGAN_AT + i,
        )
        for i, text in enumerate(HOSTILE)
    ]
