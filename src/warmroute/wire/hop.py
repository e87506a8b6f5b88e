"""Which header fields cross the gateway.

Hop-by-hop fields never do (RFC 9110 §7.6.1), nor do the caller's credentials on the way up. Request
ids and trace context always do.
"""

from warmroute.wire.headers import HeaderList, Headers

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    }
)
CREDENTIALS = frozenset(
    {
        b"authorization",
        b"x-api-key",
        b"api-key",
        b"cookie",
        b"x-amz-security-token",
        b"x-amz-date",
        b"x-amz-content-sha256",
    }
)
OURS = frozenset(
    {
        b"x-amzn-sagemaker-adapter-identifier",
        b"x-amzn-sagemaker-adapter-alias",
        b"x-amzn-sagemaker-forwarded-api",
        b"x-amzn-sagemaker-inference-component",
        b"x-amzn-sagemaker-session-id",
    }
)
"""Fields by which containers take orders from SageMaker alone: a caller would choose an adapter or a session
that routing knows nothing of."""
_RESTATED = frozenset({b"host", b"content-length", b"expect"})
"""Fields whose value is ours on the next hop."""
_DROPPED_UPSTREAM = HOP_BY_HOP | CREDENTIALS | OURS | _RESTATED
_DROPPED_DOWNSTREAM = HOP_BY_HOP | {b"content-length", b"server", b"date", b"set-cookie"}


def upstream_fields(fields: HeaderList, headers: Headers) -> HeaderList:
    """Return the request's fields that go to an instance on the OpenAI routes.

    Args:
        fields: The request's, names in lower case.
        headers: The same by name, for the names that Connection lists.
    """
    listed = _connection_names(headers)
    return [
        field
        for field in fields
        if field[0] not in _DROPPED_UPSTREAM
        and field[0] not in listed
        and not field[0].startswith(b"x-warmroute-")
    ]


def downstream_fields(fields: HeaderList) -> HeaderList:
    """Return an instance's answer fields that go to the caller on the OpenAI routes, names in lower case."""
    listed: frozenset[bytes] = frozenset()
    for name, value in fields:
        if name.lower() == b"connection":
            listed |= _names(value)
    kept = [(name.lower(), value) for name, value in fields]
    return [field for field in kept if field[0] not in _DROPPED_DOWNSTREAM and field[0] not in listed]


def _connection_names(headers: Headers) -> frozenset[bytes]:
    value = headers.get(b"connection")
    return frozenset() if value is None else _names(value)


def _names(value: bytes) -> frozenset[bytes]:
    return frozenset(name.strip().lower() for name in value.split(b","))
