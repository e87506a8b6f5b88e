"""How an answer is told to a caller: natively, as an event stream, or as OpenAI's API does.

A dialect turns an instance's answer, or a failure, into the caller's bytes. It knows no sockets and
keeps no state but whether an answer's body is framed in chunks.
"""

from typing import Protocol

from warmroute.core.errors import Failure
from warmroute.core.fleet import Target
from warmroute.dataplane.telling import Place, model_answered
from warmroute.wire import eventstream, hop, http1, invocation, openai_errors
from warmroute.wire.chat import BodyKind
from warmroute.wire.headers import HeaderList, Headers


def is_event_stream(fields: HeaderList) -> bool:
    """Return whether an answer is a stream of server-sent events."""
    return any(
        name.lower() == b"content-type" and value.lstrip().lower().startswith(b"text/event-stream")
        for name, value in fields
    )


def is_json(fields: HeaderList) -> bool:
    """Return whether an answer is one JSON document, which is of no use before its end."""
    return any(
        name.lower() == b"content-type" and value.partition(b";")[0].strip().lower() == b"application/json"
        for name, value in fields
    )


class Dialect(Protocol):
    """One way to tell answers."""

    streams_frames: bool
    """The body is framed anew, so the instance's content length does not hold."""

    def upstream_fields(self, target: Target) -> HeaderList:
        """Return the header fields for the instance, without Host, Content-Length and its own key."""
        ...

    def fields(self, upstream: HeaderList, variant: str) -> HeaderList:
        """Return the answer's header fields, without those that frame its body."""
        ...

    def chunk(self, data: bytes) -> bytes:
        """Return a piece of the body as the caller reads it, as one chunk of a chunked body."""
        ...

    def piece(self, data: bytes) -> bytes:
        """Return a piece of the body as the caller reads it."""
        ...

    def relays_error(self, status: int) -> bool:
        """Return whether an instance's own answer, an error or a redirect, goes to the caller as it is."""
        ...

    def model_failure(self, status: int, body: bytes, target: Target) -> Failure:
        """Return what to tell of an instance's own error answer otherwise."""
        ...

    def error(self, failure: Failure, variant: str) -> tuple[int, HeaderList, bytes]:
        """Return status, fields and body of a failure before the first byte, on the variant chosen."""
        ...

    def broken(self, failure: Failure) -> bytes:
        """Return what ends a body that failed in its middle; empty where nothing can say so."""
        ...


class Native:
    """InvokeEndpoint."""

    streams_frames = False

    def __init__(self, *, request: invocation.NativeRequest, request_id: str, place: Place) -> None:
        self._request = request
        self._request_id = request_id
        self._place = place

    def upstream_fields(self, target: Target) -> HeaderList:
        """Return the API's own fields, request ids and trace context; nothing else crosses."""
        del target
        return self._request.upstream

    def fields(self, upstream: HeaderList, variant: str) -> HeaderList:
        """Return the fields of InvokeEndpoint's output."""
        fields = invocation.response_headers(upstream, variant, streaming=self.streams_frames)
        fields.append((b"x-amzn-RequestId", self._request_id.encode()))
        return fields

    def chunk(self, data: bytes) -> bytes:
        """Return the bytes as they came, as a chunk."""
        return http1.chunk(data)

    def piece(self, data: bytes) -> bytes:
        """Return the bytes as they came."""
        return data

    def relays_error(self, status: int) -> bool:
        """Return False: boto3 reads errors only in SageMaker's own form."""
        del status
        return False

    def model_failure(self, status: int, body: bytes, target: Target) -> Failure:
        """Return ModelError, with the model's status and words."""
        return model_answered(status, body, self._place, target)

    def error(self, failure: Failure, variant: str) -> tuple[int, HeaderList, bytes]:
        """Return the error as boto3 reads it, with the variant: SageMaker tells it on every response."""
        place = self._place
        status, fields, body = invocation.error(
            failure, self._request_id, region=place.region, account=place.account, endpoint=place.endpoint,
            component=place.component,
        )  # fmt: skip
        return status, [invocation.invoked_variant(variant), *fields], body

    def broken(self, failure: Failure) -> bytes:
        """Return nothing: only a body that ends too early can say that a plain answer broke."""
        del failure
        return b""


class NativeStream(Native):
    """InvokeEndpointWithResponseStream: the body in event-stream frames."""

    streams_frames = True

    def chunk(self, data: bytes) -> bytes:
        """Return the bytes as one PayloadPart in one chunk, joined once: this runs for every token."""
        head, payload, end = eventstream.payload_part_pieces(data)
        size = len(head) + len(payload) + len(end)
        return b"".join((b"%x\r\n" % size, head, payload, end, b"\r\n"))

    def piece(self, data: bytes) -> bytes:
        """Return the bytes as one PayloadPart."""
        return eventstream.payload_part(data)

    def broken(self, failure: Failure) -> bytes:
        """Return the exception event that makes boto3 raise EventStreamError."""
        return eventstream.exception(*invocation.stream_exception(failure))


class OpenAI:
    """The OpenAI routes, Anthropic's messages among them: the instance's answer as it is.

    Args:
        fields: The request's, in order.
        headers: The same by name.
        request_id: For answers that carry none.
        kind: Which API's events a stream is made of.
        quotes_errors: An instance's 4xx is told in SageMaker's words, as on ``/endpoints/…/openai``;
            else it goes through as it is, as on plain ``/v1``. A 5xx never does: SDKs would send again.
        place: For the words of errors.
    """

    streams_frames = False

    def __init__(
        self, *, fields: HeaderList, headers: Headers, request_id: str, kind: BodyKind, quotes_errors: bool,
        place: Place,
    ) -> None:  # fmt: skip
        self._fields = fields
        self._headers = headers
        self._request_id = request_id
        self._kind = kind
        self._quotes_errors = quotes_errors
        self._events = False
        self._place = place

    def upstream_fields(self, target: Target) -> HeaderList:
        """Return every end-to-end field but the caller's credentials."""
        del target
        fields = hop.upstream_fields(self._fields, self._headers)
        if b"x-request-id" not in self._headers:
            fields.append((b"x-request-id", self._request_id.encode()))
        return fields

    def fields(self, upstream: HeaderList, variant: str) -> HeaderList:
        """Return the instance's end-to-end fields, with a request id."""
        del variant
        fields = hop.downstream_fields(upstream)
        self._events = is_event_stream(fields)
        if not any(name == b"x-request-id" for name, _ in fields):
            fields.append((b"x-request-id", self._request_id.encode()))
        return fields

    def chunk(self, data: bytes) -> bytes:
        """Return the bytes as they came, as a chunk."""
        return http1.chunk(data)

    def piece(self, data: bytes) -> bytes:
        """Return the bytes as they came."""
        return data

    def relays_error(self, status: int) -> bool:
        """Return True for a 4xx on the plain routes.

        Not for those that SDKs send again although the model may have worked (408, 409), nor for a
        redirect, which would lead the caller past the gateway.
        """
        return 400 <= status < 500 and status not in (408, 409) and not self._quotes_errors

    def model_failure(self, status: int, body: bytes, target: Target) -> Failure:
        """Return the error envelope, with the model's status and words."""
        return model_answered(status, body, self._place, target)

    def error(self, failure: Failure, variant: str) -> tuple[int, HeaderList, bytes]:
        """Return OpenAI's error envelope."""
        del variant
        return openai_errors.error(failure, self._request_id, mirror=True)

    def broken(self, failure: Failure) -> bytes:
        """Return a server-sent event that tells the error; nothing where the answer is no event stream."""
        if not self._events:
            return b""
        return openai_errors.sse_error(failure, anthropic=self._kind is BodyKind.MESSAGES)
