"""The kind of a fault, as statistics count it."""

import pytest

from pollkit.core.model import FaultCode
from pollkit.core.reading.verdict import Reading, Verdict


@pytest.mark.parametrize(
    "reading, kind",
    [
        ({"code": FaultCode.HTTP_ERROR, "http_status": 503}, "http 503"),
        ({"code": FaultCode.CONNECT}, "connect"),
        ({}, "other"),
    ],
)
def test_a_fault_is_named_by_its_status_or_its_code(reading, kind):
    assert Reading(Verdict.FAULT, "", **reading).fault_kind == kind
