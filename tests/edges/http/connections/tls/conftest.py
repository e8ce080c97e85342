"""The tests in this folder trust the test CA."""

import pytest

from tls_servers import CA


@pytest.fixture
def transport_settings():
    """Trust in the test CA, unless a test says otherwise."""
    return {"request_timeout": 10.0, "proxy": "none", "ca_file": CA}
