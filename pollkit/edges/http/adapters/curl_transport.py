"""CurlTransport: each request runs the system's curl.

For proxies that ask for Negotiate (Kerberos) or NTLM, and for keys on a PKCS#11 token: Python's
ssl can't use either. curl gets its options through a pipe, so that no other user of the host sees
them in the list of processes, and the body of the request on stdin. Its output is the response as
the server sent it (`raw`), which pollkit's own parser reads.
"""

import os
import re
import subprocess
from typing import List, Optional, Union

from ....core.model import Fault, FaultCode, Reply, one_line
from ....core.urls import Address, parse_url
from ....errors import ConfigError
from ..connections.connecting import PKCS11, TlsSettings, name_fault
from ..connections.connection import CLIENT_CERTIFICATE_ADVICE, DeadlinePassed, NoResponse
from ..connections.proxies import Route, choose_proxy, proxy_refusal, shown_route
from ..faults import response_fault
from ..parser import BadResponse
from .curl_process import CurlResult, run_curl
from .interface import Adapter, HttpRequest

OLDEST = (7, 54, 0)  # --suppress-connect-headers
_VERSION = re.compile(r"curl ([0-9]+)\.([0-9]+)\.([0-9]+)")
_VERSION_TIMEOUT_S = 10.0
_CONNECT_STATUS = re.compile(r"(?:HTTP code|response) ([0-9]{3})")  # in the error of a tunnel
_SWITCHES = (
    b"silent",
    b"show-error",
    b"include",
    b"raw",
    b"http1.1",
    b"tlsv1.2",
    b"globoff",
    b"path-as-is",
    b"suppress-connect-headers",
)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}

# curl's exit codes: https://curl.se/libcurl/c/libcurl-errors.html
_PROXY_NAME = 5
_HOST_NAME = 6
_NO_CONNECTION = 7
_EMPTY_REPLY = 52
_SEND_FAILED = 55
_RECEIVE_FAILED = 56
_PROXY_HANDSHAKE = 97
_FAULT_CODES = {
    1: FaultCode.BAD_HTTP,  # not HTTP, or not HTTP/1
    8: FaultCode.BAD_HTTP,
    35: FaultCode.TLS,
    51: FaultCode.CERTIFICATE_NAME,
    58: FaultCode.CONFIG,  # the client certificate
    60: FaultCode.CERTIFICATE,
    77: FaultCode.CONFIG,  # the CA file
    98: FaultCode.CLIENT_CERTIFICATE,
    _PROXY_HANDSHAKE: FaultCode.PROXY,
}
_CERTIFICATE_FAULTS = (FaultCode.CERTIFICATE, FaultCode.CERTIFICATE_NAME)
_ADVICE = {
    FaultCode.CERTIFICATE: "is the CA in use the right one? --ca-file names another",
    FaultCode.CLIENT_CERTIFICATE: CLIENT_CERTIFICATE_ADVICE,
}


class CurlTransport(Adapter):
    """Sends each request with the program curl, 7.54 or later.

    `path` is the program. Your .curlrc is not read. curl answers a proxy that asks for a login
    with the method that the proxy offers: Negotiate with your Kerberos ticket, or the name and
    password in the proxy's URL. client_cert and client_key may be pkcs11: URIs.

    >>> CurlTransport().description
    'curl'
    """

    def __init__(self, path: str = "curl") -> None:
        if not isinstance(path, str) or not path:
            raise ConfigError("path must be the path of curl, not %r" % (path,))
        self._path = path
        self._version: Optional[str] = None

    @property
    def description(self) -> str:
        """The client and its version, in messages."""
        return "curl" if self._version is None else "curl " + self._version

    def check(self, tls: TlsSettings, proxy: str) -> None:
        """Raise a ConfigError if curl is missing or too old, or a file has no certificate."""
        _check_files(tls)
        if self._version is None:
            self._version = _find_version(self._path)

    def send(self, request: HttpRequest) -> Union[Reply, Fault]:
        """Send one request."""
        address = parse_url(request.url)
        proxy, _ = choose_proxy(address, request.proxy)
        config = build_config(request, proxy)
        try:
            result = run_curl(self._path, config, request)
        except (BadResponse, DeadlinePassed) as error:
            return response_fault(error, address.authority, request.timeout_s)
        except OSError as error:
            problem = "can't run %s: %s" % (self._path, os.strerror(error.errno or 0))
            return Fault(problem, code=FaultCode.OTHER)
        if result.response is not None:
            status, headers, body = result.response[:3]
            return Reply(status, headers, body, request.url)
        return _fault(result, shown_route(address, proxy), request.timeout_s)


def build_config(request: HttpRequest, proxy: Optional[str]) -> bytes:
    """The options of curl for one request, in the format of its config files."""
    lines = [
        *_SWITCHES,
        _option("proto", "=http,https"),
        _option("max-time", "%.3f" % request.timeout_s),
        _option("url", request.url),
    ]
    if request.method == "HEAD":
        lines.append(b"head")
    else:
        lines.append(_option("request", request.method))
    if request.has_body:
        lines.append(_option("data-binary", "@-"))
    lines += _header_lines(request)
    lines += _proxy_lines(parse_url(request.url), proxy)
    tls = request.tls
    paths = {"cacert": tls.ca_file, "cert": tls.client_cert, "key": tls.client_key}
    lines += [_option(name, path) for name, path in paths.items() if path]
    return b"\n".join(lines) + b"\n"


def _header_lines(request: HttpRequest) -> List[bytes]:
    headers = ["%s: %s" % header for header in request.headers.items() if header[1].strip()]
    # 'Name:' removes a header, and 'Name;' sends it without a value.
    headers += [name + ";" for name, value in request.headers.items() if not value.strip()]
    names = {name.lower() for name in request.headers}
    if request.has_body:
        headers.append("Expect:")  # curl would wait for a 100 before a large body
        if "content-type" not in names:
            headers.append("Content-Type:")
    return [_option("header", header, "latin-1") for header in headers]


def _proxy_lines(address: Address, proxy: Optional[str]) -> List[bytes]:
    """The proxy that pollkit has chosen: the environment must not change it."""
    if proxy is None:
        return [_option("noproxy", "*")]
    lines = [_option("noproxy", ""), _option("proxy", _proxy_url(address, proxy)), b"proxy-anyauth"]
    if "@" not in proxy:
        lines.append(_option("proxy-user", ":"))  # the Kerberos ticket of the user
    return lines


def _proxy_url(address: Address, proxy: str) -> str:
    """The URL of a proxy with its port, for which curl has another default."""
    found = shown_route(address, proxy).proxy
    if found is None:
        return proxy  # of a kind that only curl can use
    userinfo = found.userinfo + "@" if found.userinfo else ""
    return "http://%s%s" % (userinfo, found.host_and_port)


def _option(name: str, value: str, encoding: str = "utf-8") -> bytes:
    """An option with its value; the escapes are those of curl's config files."""
    escaped = "".join(_ESCAPES.get(character, character) for character in value)
    return ('%s = "%s"' % (name, escaped)).encode(encoding, "surrogateescape")


def _fault(result: CurlResult, route: Route, timeout_s: float) -> Fault:
    """Why curl brought no response."""
    host = route.address.authority
    code = result.exit_code
    connect_status = _CONNECT_STATUS.search(result.message)
    if code == _RECEIVE_FAILED and route.needs_tunnel and connect_status:
        return proxy_refusal(route, int(connect_status.group(1)))
    if code == _PROXY_NAME:
        return name_fault(route.first_hop_name)
    if code == _HOST_NAME:
        return name_fault(host)
    if code == _NO_CONNECTION:
        return Fault(
            "no connection to %s: %s" % (route.first_hop_name, result.message),
            "is the server up, and the port right?",
            code=FaultCode.CONNECT,
        )
    if code in (_EMPTY_REPLY, _SEND_FAILED, _RECEIVE_FAILED):
        lost = NoResponse("the connection ended without a reply: %s" % result.message)
        return response_fault(lost, host, timeout_s)
    kind = _FAULT_CODES.get(code, FaultCode.OTHER)
    problem = "no reply from %s: %s" % (host, result.message)
    if kind in _CERTIFICATE_FAULTS:
        problem = "the certificate of %s was not accepted: %s" % (host, result.message)
    return Fault(problem, _ADVICE.get(kind, ""), kind is FaultCode.CONFIG, code=kind)


def _check_files(tls: TlsSettings) -> None:
    """Raise a ConfigError for files that ssl can't read. Only curl can read a token."""
    is_on_token = any(
        path and path.startswith(PKCS11) for path in (tls.client_cert, tls.client_key)
    )
    files = TlsSettings(ca_file=tls.ca_file) if is_on_token else tls
    if files.ca_file or files.client_cert or files.client_key:
        from ..connections.tls import (
            tls_context,  # late: ssl takes long to import, and curl does not need it
        )

        tls_context(files)


def _find_version(path: str) -> str:
    """The version of curl, or a ConfigError."""
    remedy = "install curl, or choose another transport"
    try:
        output = subprocess.check_output(
            [path, "-q", "--version"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_VERSION_TIMEOUT_S,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number else one_line(str(error))
        raise ConfigError(
            "the transport curl can't run %s: %s; %s" % (path, reason, remedy)
        ) from None
    found = _VERSION.match(output.decode("utf-8", "replace"))
    if found is None:
        raise ConfigError("the transport curl: %s is not curl; %s" % (path, remedy))
    version = ".".join(found.groups())
    if tuple(map(int, found.groups())) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ConfigError(
            "the transport curl needs curl %s or later, and %s is %s; %s"
            % (oldest, path, version, remedy)
        )
    return version
