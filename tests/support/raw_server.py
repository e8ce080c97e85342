"""A real server on a real socket, whose every byte is scripted by the test.

    with RawServer(reply('{"status": "done"}'), [b"HTTP/1.1 200", CLOSE]) as server:
        ...  # the first request gets the first answer, the second the second; the last repeats

An answer is bytes, a callable that takes the connection and the request, or a list of those.
The server records requests and counts the connections it accepted; leaving the `with` block
closes everything, joins every thread, and raises the first error of a script.
"""

import concurrent.futures
import socket
import ssl
import struct
import threading
import time

PATIENCE_S = (
    10.0  # for events that should happen at once, on a slow machine; no test sleeps that long
)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Request:
    """A request as it was received."""

    def __init__(self, raw, body, connection):
        self.raw = raw + body
        self.body = body
        self.connection = connection  # its number: 0 for the first one accepted
        lines = raw.decode("latin-1").split("\r\n")
        self.line = lines[0]
        self.method, self.target, self.version = lines[0].split(" ")
        self.fields = [(line + " ").split(": ", 1) for line in lines[1:] if line]
        self.fields = [(name, value[:-1]) for name, value in self.fields]
        self.headers = {name.lower(): value for name, value in self.fields}

    def __repr__(self):
        return "<%r on connection %d>" % (self.line, self.connection)


class Connection:
    """One accepted connection, from the server's side."""

    def __init__(self, sock, number, stopping):
        self.sock = sock
        self.number = number
        self.closed = False
        self._stopping = stopping
        self._ahead = b""

    def send(self, data):
        """Send all of it."""
        self.sock.sendall(data)

    def drip(self, data, every=0.05):
        """Send one byte at a time until the client leaves."""
        for i in range(len(data)):
            self.sock.sendall(data[i : i + 1])
            if self.pause(every):
                break

    def pause(self, duration):
        """Wait; True as soon as the server is being closed."""
        return self._stopping.wait(duration)

    def receive(self):
        """The next bytes from the client; b"" once it has left."""
        return self.sock.recv(65536)

    def read_request(self):
        """The next request, or None if the client leaves first."""
        data = self._ahead
        while b"\r\n\r\n" not in data:
            more = self.receive()
            if not more:
                return None
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = Request(head, b"", 0).headers.get("content-length", "0")
        while len(body) < int(length):
            more = self.receive()
            if not more:
                return None
            body += more
        self._ahead = body[int(length) :]
        return Request(head + b"\r\n\r\n", body[: int(length)], self.number)

    def close(self):
        """Close the connection, as servers do."""
        if not self.closed:
            self.closed = True
            self.sock.close()

    def reset(self):
        """Break the connection: the client gets a reset instead of an end."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def wake(self):
        """End all waits on the socket; SSLSocket.shutdown is not for other threads."""
        try:
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)
        except OSError:
            pass


def CLOSE(connection, request):
    """An answer: close the connection."""
    connection.close()


def RESET(connection, request):
    """An answer: reset the connection."""
    connection.reset()


def HANG(connection, request):
    """An answer: send nothing until the client leaves."""
    while connection.receive():
        pass
    connection.close()


def DRIP(data, every=0.05):
    """An answer: a byte now and then."""
    return lambda connection, request: connection.drip(data, every)


def reply(body=b"", status="200 OK", version="HTTP/1.1", length=True, **headers):
    """A reply as bytes; header names are written with _ for -."""
    body = body.encode("utf-8") if isinstance(body, str) else body
    lines = ["%s %s" % (version, status)]
    lines += ["%s: %s" % (name.replace("_", "-"), value) for name, value in headers.items()]
    lines += ["Content-Length: %d" % len(body)] if length else []
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def redirect(location, status="302 Found"):
    """A redirect as bytes."""
    return reply(b"", status, Location=location)


class RawServer:
    """Listens on a free port of the loopback interface; see the module."""

    def __init__(self, *answers, **options):
        self.answers = answers
        self.requests = []
        self.accepted = 0
        self.handshake_errors = []
        self._greeting = options.pop("greeting", None)  # an answer before any request
        self._tls = options.pop("tls", None)  # an ssl.SSLContext
        self.host = options.pop("host", "127.0.0.1")
        self.name = options.pop("name", self.host)  # its name in URLs
        assert not options, options
        self._errors = []
        self._connections = []
        self._threads = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._listener = socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET)
        try:
            self._listener.bind((self.host, 0))
            self._listener.listen(128)
        except BaseException:
            self._listener.close()
            raise
        self.port = self._listener.getsockname()[1]
        self._start(self._accept)

    @property
    def authority(self):
        """Host and port, as in URLs."""
        return ("[%s]:%d" if ":" in self.name else "%s:%d") % (self.name, self.port)

    @property
    def origin(self):
        """The scheme, host and port of its URLs."""
        return "%s://%s:%d" % ("https" if self._tls else "http", self.name, self.port)

    def url(self, target="/jobs/1", userinfo=""):
        """A URL here."""
        scheme = "https" if self._tls else "http"
        return "%s://%s%s%s" % (scheme, userinfo and userinfo + "@", self.authority, target)

    @property
    def targets(self):
        """The targets of the requests, in order."""
        return [request.target for request in self.requests]

    @property
    def used(self):
        """The connection that each request came on, in order."""
        return [request.connection for request in self.requests]

    @property
    def open(self):
        """The number of open connections."""
        with self._lock:
            return sum(not connection.closed for connection in self._connections)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def close(self):
        """Close all connections, and raise the first error of a script."""
        self._stopping.set()
        try:
            # Closing alone would not wake the thread that accepts; a connection does.
            socket.create_connection((self.host, self.port), PATIENCE_S).close()
        except OSError:
            pass
        self._threads[0].join(PATIENCE_S)
        self._listener.close()
        with self._lock:
            connections = list(self._connections)
            threads = list(self._threads)
        for connection in connections:
            connection.wake()
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "a connection's script does not end"
        if self._errors:
            raise self._errors[0]

    def _start(self, target, *args):
        thread = threading.Thread(target=target, args=args, name="raw-server", daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError as error:  # too many open files, say: a test should not hang for it
                self._errors.append(error)
                return
            if self._stopping.is_set():
                sock.close()
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                connection = Connection(sock, self.accepted, self._stopping)
                self._connections.append(connection)
                self.accepted += 1
            self._start(self._serve, connection)

    def _serve(self, connection):
        try:
            if self._tls is not None and not self._handshake(connection):
                return
            if self._greeting is not None:
                _perform(self._greeting, connection, None)
            while not connection.closed:
                request = connection.read_request()
                if request is None:
                    break
                with self._lock:
                    self.requests.append(request)
                    answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
                _perform(answer, connection, request)
        except OSError:
            pass  # the client left in the middle, as some tests want it to
        except Exception as error:
            self._errors.append(error)
        finally:
            connection.close()

    def _handshake(self, connection):
        try:
            connection.sock = self._tls.wrap_socket(
                connection.sock, server_side=True, do_handshake_on_connect=False
            )
            connection.sock.do_handshake()
        except (ssl.SSLError, OSError) as error:
            self.handshake_errors.append(str(error))
            # Closing with unread bytes would reset the connection, and lose TLS's alert.
            socket.socket.shutdown(connection.sock, socket.SHUT_WR)
            while socket.socket.recv(connection.sock, 65536):
                pass
            return False
        return True


def _perform(answer, connection, request):
    for step in answer if isinstance(answer, list) else [answer]:
        if connection.closed:
            break
        if isinstance(step, bytes):
            connection.send(step)
        else:
            step(connection, request)


def at_once(cases, work):
    """Work on all cases at once, each in its own thread: futures by case."""
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        return {case: pool.submit(work, case) for case in cases}


def wait_for(condition):
    """Wait until something has happened in another thread or process."""
    give_up_at = time.monotonic() + 60.0  # a process that starts took 18 s on a busy machine
    while not condition():
        assert time.monotonic() < give_up_at, "it never happened"
        time.sleep(0.002)
