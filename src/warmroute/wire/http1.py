"""HTTP/1.1 messages as values, and the bytes of their heads.

Reading is llhttp's work (through httptools), which refuses ambiguous framing: two lengths, a length
beside chunks, folded headers, bare line feeds. What it lets through and we do not is refused in
`framing_problem`.
"""

from http import HTTPStatus

from warmroute.wire.headers import HeaderList, Headers

LAST_CHUNK = b"0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
} | {530: b"HTTP/1.1 530 Internal Dependency\r\n"}


class Request:
    """A request, whole. Built once per invocation on the hot path, hence a plain slotted class.

    Attributes:
        method: ``POST``, ….
        path: Raw, percent-encoded, without the query.
        query: Raw, without the ``?``.
        headers: By lower-case name, repeated fields joined.
        fields: In order, names in lower case.
        body: Whole, decoded from its framing.
        keep_alive: Whether the connection may serve another request.
        chunks_allowed: The client speaks HTTP/1.1 and can read a chunked answer.
    """

    __slots__ = ("body", "chunks_allowed", "fields", "headers", "keep_alive", "method", "path", "query")

    def __init__(self, method: str, path: str, query: str, headers: Headers, fields: HeaderList) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.fields = fields
        self.body = b""
        self.keep_alive = True
        self.chunks_allowed = True


def framing_problem(version: str, headers: Headers) -> str | None:
    """Return what is wrong with a parsed head that llhttp accepts and we do not; None when nothing is."""
    host = headers.get(b"host")
    if version == "1.1" and host is not None and b"," not in host and b"transfer-encoding" not in headers:
        return None
    if version not in ("1.1", "1.0"):
        return f"HTTP version {version} is not supported; use 1.1 or 1.0."
    if version == "1.0" and b"transfer-encoding" in headers:
        return "HTTP/1.0 has no Transfer-Encoding; use Content-Length, or HTTP/1.1."
    coding = headers.get(b"transfer-encoding", b"chunked")
    if coding.strip().lower() != b"chunked":
        return f"Transfer-Encoding is {coding.decode('latin-1')!r}; only 'chunked' is supported."
    if host is None:
        return "The Host header is missing." if version == "1.1" else None
    return "There is more than one Host header." if b"," in host else None


def response_head(status: int, fields: HeaderList) -> bytes:
    """Return status line and header fields, up to the empty line that ends them."""
    parts = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d Status\r\n" % status]
    for name, value in fields:  # four parts a field: joined at once, half the cost of formatting each
        parts += (name, b": ", value, b"\r\n")
    parts.append(b"\r\n")
    return b"".join(parts)


def request_head(method: str, path: str, fields: HeaderList) -> bytes:
    """Return request line and header fields, up to the empty line that ends them."""
    parts = [b"%b %b HTTP/1.1\r\n" % (method.encode(), path.encode())]
    parts += [b"%b: %b\r\n" % field for field in fields]
    parts.append(b"\r\n")
    return b"".join(parts)


def fields_after(start: bytes, fields: HeaderList, length: int) -> bytes:
    """Return a head whose first lines are there already, with more fields and the body's length."""
    parts = [start]
    for name, value in fields:
        parts += (name, b": ", value, b"\r\n")
    parts.append(b"content-length: %d\r\n\r\n" % length)
    return b"".join(parts)


def chunk(data: bytes) -> bytes:
    """Return one chunk of a chunked body; ``data`` must not be empty, which would end the body."""
    return b"%x\r\n%b\r\n" % (len(data), data)
