"""Errors on the OpenAI routes: the plain ``/v1`` ones and those under ``/endpoints``.

Source: the envelope SageMaker's OpenAI-compatible route answers with (message, type, code);
``x-should-retry`` is obeyed by the OpenAI and Anthropic SDKs, which would send 408, 409, 429 and 5xx
again by themselves; Anthropic's error object for ``/v1/messages`` streams.
"""

from typing import Final

import msgspec

from warmroute.core.errors import Failure
from warmroute.wire.headers import HeaderList, ascii_bytes
from warmroute.wire.sse import error_event

_ANTHROPIC_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    503: "overloaded_error",
}


def error(failure: Failure, request_id: str, *, mirror: bool = False) -> tuple[int, HeaderList, bytes]:
    """Spell a failure as an answer of its own.

    Args:
        failure: Its message as the caller reads it.
        request_id: Of this call; SDKs show it.
        mirror: Give a model's own 4xx status, as SageMaker's OpenAI route does, in place of 424.

    Returns:
        HTTP status, fields without framing, and body. Where a model may have worked on the request
        ``x-should-retry: false`` keeps SDKs from paying for it twice; where nothing ran and a moment
        helps, ``Retry-After`` says how long.
    """
    row = failure.row
    fields: HeaderList = [(b"x-request-id", ascii_bytes(request_id)), (b"Content-Type", b"application/json")]
    if row.may_have_run:
        fields.append((b"x-should-retry", b"false"))
    elif row.retry_after_s is not None:
        fields.append((b"Retry-After", str(row.retry_after_s).encode("ascii")))
    mirrored = mirror and 400 <= failure.original_status < 500
    return failure.original_status if mirrored else row.openai_status, fields, _envelope(failure)


def sse_error(failure: Failure, *, anthropic: bool = False) -> bytes:
    """Spell a failure after the first byte of a stream.

    Args:
        failure: As above.
        anthropic: The stream is one of ``/v1/messages``.

    Returns:
        A whole server-sent event, after whatever event was cut off: the envelope that an answer of
        its own would have, or Anthropic's ``event: error``.
    """
    if not anthropic:
        return error_event(_envelope(failure))
    kind = _ANTHROPIC_TYPES.get(failure.row.openai_status, "api_error")
    body = {"type": "error", "error": {"type": kind, "message": failure.message}}
    return error_event(msgspec.json.encode(body), "error")


def _envelope(failure: Failure) -> bytes:
    row = failure.row
    envelope = {"message": failure.message, "type": row.openai_type, "code": row.openai_code}
    return msgspec.json.encode({"error": envelope})
