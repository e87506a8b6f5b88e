"""Helpers for tests of the live path: a running warmroute, raw clients, instances that follow a script."""

import contextlib
import gc
import re
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.running import start_warmroute, wait_until

CHAT_PATH = "/v1/chat/completions"
NATIVE_PATH = "/endpoints/llm/invocations"
NATIVE_STREAM_PATH = "/endpoints/llm/invocations-response-stream"
ENDPOINT_CHAT_PATH = "/endpoints/llm/openai/v1/chat/completions"
CHAT_BODY = b'{"model": "llm", "messages": [{"role": "user", "content": "hi"}]}'


# --- A running warmroute --------------------------------------------------------------------


@contextlib.contextmanager
def running(directory: Path, *urls, toml="", flags=(), environment=None):
    """Run warmroute over these model servers, as endpoint ``llm``, with a settings file."""
    settings = directory / "warmroute.toml"
    settings.write_text(toml)
    server = start_warmroute(
        *("--instances", ",".join(urls), "--endpoint", "llm", "--config", settings, *flags),
        data_dir=directory / "data",
        log=directory / "warmroute.log",
        environment=environment,
        cwd=directory,
    )
    try:
        server.wait_until_started("/readyz")
        yield server
    finally:
        problem = server.finish()
    assert not problem, problem
    assert "Traceback" not in server.log_text(), server.log_text()


def metrics(server):
    """Return the sums over labels of every metric, by name."""
    sums = {}
    for line in server.get("/metrics", admin=True)[1].decode().splitlines():
        if not line.startswith("#"):
            name, value = re.fullmatch(r"(\w+)(?:\{.*\})? (\S+)(?: \S+)?", line).groups()
            sums[name] = sums.get(name, 0.0) + float(value)
    return sums


def metric(server, name, **labels):
    """Return the sum of a metric's series that have these labels."""
    total = 0.0
    for line in server.get("/metrics", admin=True)[1].decode().splitlines():
        if line.startswith((f"{name}{{", f"{name} ")) and all(
            f'{label}="{value}"' in line for label, value in labels.items()
        ):
            total += float(line.rpartition(" ")[2])
    return total


AT_REST = ("open_leases", "open_exchanges", "connections", "buffered_body_bytes", "in_flight")


REPORTS_S = 2.5
"""Two of the router's reports of its totals, one per second, have arrived by then."""


def wait_until_at_rest(server, seconds=10.0):
    """Wait until nothing is under way, and stays so: no lease, exchange, connection or kept body."""
    gc.collect()  # errors that a test has caught hold on to their connections
    time.sleep(REPORTS_S)  # what is read at once is from before the test's end

    def busy():
        now = metrics(server)
        return {name: now.get(f"warmroute_{name}") for name in AT_REST if now.get(f"warmroute_{name}") != 0}

    wait_until(lambda: not busy(), seconds=seconds, explain=lambda: f"{busy()}\n{server.log_text()}")


# --- A client of raw bytes ------------------------------------------------------------------


@dataclass
class Answer:
    """An HTTP answer as it came; names of fields in lower case, in order."""

    status: int
    fields: list[tuple[str, str]]
    body: bytes
    chunks: list[bytes] = field(default_factory=list)
    complete: bool = True

    @property
    def headers(self):
        """Return the fields by name; a repeated one fails the test."""
        names = [name for name, _ in self.fields]
        assert len(names) == len(set(names)), f"repeated fields: {self.fields}"
        return dict(self.fields)


class RawClient:
    """A client's connection to warmroute; a context manager."""

    def __init__(self, url, *, timeout=10.0, receive_buffer=None):
        parts = urlsplit(url)
        self.socket = socket.socket()
        self.socket.settimeout(timeout)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect((parts.hostname, parts.port))
        self._buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)
        return self

    def close(self):
        """End with FIN."""
        self.socket.close()

    def reset(self):
        """End with RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def answer(self, *, head=False):
        """Read one answer; ``head`` for one to HEAD."""
        status, fields = self.answer_head()
        names = dict(fields)
        if head or status in {204, 304} or status < 200:
            return Answer(status, fields, b"")
        if names.get("transfer-encoding") == "chunked":
            chunks, complete = self._chunks()
            return Answer(status, fields, b"".join(chunks), chunks, complete)
        if "content-length" in names:
            body = self._exactly(int(names["content-length"]))
            return Answer(status, fields, body, complete=len(body) == int(names["content-length"]))
        return Answer(status, fields, self.rest())

    def answer_head(self):
        """Read an answer's head."""
        head = self._until(b"\r\n\r\n")
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        assert re.match(r"HTTP/1\.1 \d{3} ", first), f"no HTTP: {head!r}"
        fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        return int(first.split(" ")[1]), fields

    def rest(self):
        """Read to the end of the connection."""
        found = self._buffer
        self._buffer = b""
        with contextlib.suppress(ConnectionResetError):
            while data := self.socket.recv(1 << 16):
                found += data
        return found

    def some(self, size=1 << 16):
        """Read what there is, at most ``size`` bytes."""
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found or self.socket.recv(size)

    def unread(self, data):
        """Put back what `some` returned."""
        self._buffer = data + self._buffer

    def _more(self):
        data = self.socket.recv(1 << 16)
        self._buffer += data
        return bool(data)

    def _until(self, mark):
        while mark not in self._buffer:
            assert self._more(), f"the connection ended after {self._buffer!r}"
        found, _, self._buffer = self._buffer.partition(mark)
        return found + mark

    def _exactly(self, size):
        with contextlib.suppress(ConnectionResetError):
            while len(self._buffer) < size and self._more():
                pass
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found

    def _chunks(self):
        chunks = []
        while True:
            try:
                size = int(self._until(b"\r\n"), 16)
            except (AssertionError, ConnectionResetError):
                return chunks, False
            data = self._exactly(size + 2)
            if len(data) < size + 2:
                return [*chunks, data], False
            assert data.endswith(b"\r\n")
            if size == 0:
                return chunks, True
            chunks.append(data[:-2])


def request(
    path=CHAT_PATH, body=CHAT_BODY, *headers, method="POST", version="1.1", host="Host: test", length=True
):
    """Return the bytes of a request; ``headers`` are whole lines."""
    lines = [f"{method} {path} HTTP/{version}", host, "Content-Type: application/json", *headers]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*filter(None, lines), "", ""]).encode("latin-1") + body


def call(server, data, *, timeout=10.0):
    """Send a request on a connection of its own and return the answer."""
    with RawClient(server.url, timeout=timeout) as client:
        return client.send(data).answer()


def assert_serves(server):
    """Assert that a plain request on a new connection is answered."""
    answer = call(server, request())
    assert (answer.status, b"chat.completion" in answer.body) == (200, True), answer


# --- An instance that follows a script ------------------------------------------------------


@dataclass
class Arrived:
    """A request as an instance saw it."""

    head: bytes
    body: bytes

    @property
    def path(self):
        return self.head.split(b" ")[1].decode()

    @property
    def fields(self):
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return [
            (name.lower(), value.strip())
            for name, _, value in (line.partition(":") for line in lines if line)
        ]

    @property
    def headers(self):
        names = [name for name, _ in self.fields]
        assert len(names) == len(set(names)), f"repeated fields: {self.fields}"
        return dict(self.fields)


class ScriptedServer:
    """An instance whose answers a test writes byte by byte; a context manager.

    ``script(arrived, connection)`` is called with every POST and the connection's socket. It returns
    True to keep the connection. Health routes answer by themselves.
    """

    def __init__(self, script=None):
        self.script = script or answering(b"{}")
        self.arrived: list[Arrived] = []
        self.connections = 0
        self.deaf = False  # True: read nothing of new connections
        self._open: set[socket.socket] = set()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        self._open.add(connection)
        with contextlib.suppress(OSError), connection:
            reader = connection.makefile("rb")
            while self.deaf:
                time.sleep(0.05)
            while (arrived := _read(reader)) is not None:
                if arrived.head.startswith(b"GET"):
                    body = b'{"data": [{"id": "scripted"}]}'
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
                    continue
                self.arrived.append(arrived)
                if not self.script(arrived, connection):
                    break
            connection.shutdown(socket.SHUT_RDWR)  # the reader holds the socket open otherwise
        self._open.discard(connection)


def _read(reader):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = reader.readline()
        if not line:
            return None
        head += line
    length = re.search(rb"^content-length: (\d+)\r$", head, re.MULTILINE | re.IGNORECASE)
    return Arrived(head[:-4], reader.read(int(length[1])) if length else b"")


def answering(body, *lines, status="200 OK", framing=True):
    """Return a script that answers with this body; ``lines`` are header lines."""
    fields = [f"Content-Length: {len(body)}"] if framing else []
    head = "\r\n".join([f"HTTP/1.1 {status}", *lines, *fields, "", ""]).encode("latin-1")

    def script(arrived, connection):
        connection.sendall(head + body)
        return framing

    return script


def streaming(pieces, *lines, delay_s=0.0):
    """Return a script that answers with these pieces, each a chunk and, with a delay, a packet of its own."""
    head = "\r\n".join(["HTTP/1.1 200 OK", *lines, "Transfer-Encoding: chunked", "", ""]).encode("latin-1")

    def script(arrived, connection):
        connection.sendall(head)
        for piece in pieces:
            time.sleep(delay_s)
            connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
        connection.sendall(b"0\r\n\r\n")
        return True

    return script
