"""The tests in this folder use proxies of the environment."""

import pytest

from tls_servers import CA


@pytest.fixture(autouse=True)
def environment(environment):
    """No proxies but those of the test."""
    return environment


@pytest.fixture
def transport_settings():
    """Trust in the test CA; the proxies are those of the environment."""
    return {"request_timeout": 10.0, "ca_file": CA}
