"""Bad timeouts, and an API whose jobs run longer than any timeout."""

from job_api import JobApi

MINUTE = 60.0
OUT_OF_RANGE = "is out of range: from 0 to ten years; 'never' means no timeout"
BAD = [
    ("soon", "'soon' is not a duration: write 500ms, 5s, 2m or 1h30m; 'never' means no timeout"),
    ("", "is not a duration"),
    ("-5s", "is not a duration"),
    ("10 m", "is not a duration"),
    ("x" * 5000, "xxx... is not a duration"),
    ("9" * 400 + "s", OUT_OF_RANGE),
    (-1, "-1 " + OUT_OF_RANGE),
    (10**12, OUT_OF_RANGE),
    (True, "must be seconds or text such as '5s', not True"),
    ([5], "must be seconds"),
]


def endless_api():
    """An API whose jobs run longer than every timeout in the tests, but not for ever."""
    return JobApi(lambda name, count: "running" if count < 1000 else "done")


def timeout_in(message):
    """The timeout that the message of a job names."""
    assert message.startswith("not done within ")
    return message[len("not done within ") :].split(";")[0]
