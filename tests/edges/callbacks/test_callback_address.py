"""Addresses to listen on."""

import socket

import pytest

from pollkit import ConfigError
from pollkit.edges.callbacks.address import Address, address_of, open_socket


@pytest.mark.parametrize(
    "text, host, port, again",
    [
        ("127.0.0.1:8099", "127.0.0.1", 8099, "127.0.0.1:8099"),
        ("8099", "127.0.0.1", 8099, "127.0.0.1:8099"),
        ("localhost:1", "localhost", 1, "localhost:1"),
        ("[::1]:65535", "::1", 65535, "[::1]:65535"),
        ("0.0.0.0:0", "0.0.0.0", 0, "0.0.0.0:0"),
    ],
)
def test_an_address_is_a_host_and_a_port(text, host, port, again):
    address = Address.parse(text)
    assert address == (host, port) and str(address) == again


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":8099",
        "localhost",
        "localhost:",
        "::1:8099",
        "[::1]",
        "a b:1",
        "1:2:3",
        "x:-1",
        "x:1e3",
    ],
)
def test_other_texts_are_refused(text):
    with pytest.raises(ConfigError, match="is not an address: write 127.0.0.1:8099"):
        Address.parse(text)


@pytest.mark.parametrize("port", ["65536", "999999999"])
def test_a_port_out_of_range_is_refused(port):
    with pytest.raises(ConfigError, match=port + " is not a port: ports are numbers from 1 to"):
        Address.parse("127.0.0.1:" + port)


def test_only_loopback_addresses_are_loopback():
    assert Address("127.0.0.1", 1).is_loopback and Address("::1", 1).is_loopback
    assert not any(Address(host, 1).is_loopback for host in ("0.0.0.0", "::", "10.1.2.3"))


def test_the_system_chooses_a_port_for_0():
    with open_socket(Address.parse("localhost:0")) as listening:
        address = address_of(listening)
        assert address.is_loopback and address.port > 0


def test_an_address_in_use_is_reported():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        with pytest.raises(ConfigError, match="can't listen on .*: Address already in use: name"):
            open_socket(address_of(other))


@pytest.mark.parametrize("host", ["nonesuch.invalid", "192.0.2.1", "a" * 64 + ".internal"])
def test_a_host_that_is_not_this_one_is_reported(host):
    with pytest.raises(ConfigError, match="can't listen on .*: .*: name another address or port"):
        open_socket(Address(host, 8099))
