"""The native routes: InvokeEndpoint and InvokeEndpointWithResponseStream as headers and bytes.

Source: header names, limits, patterns and error codes from the ``sagemaker-runtime`` service model
(2017-05-13); what reaches a container from SageMaker's guide on inference containers. boto3 checks
none of the limits but the empty string, so they are checked here.
"""

import re
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw, Struct

from warmroute.core.errors import Failure, Problem
from warmroute.core.limits import PREFIX_AWARE_ID_CHARACTERS_MAX
from warmroute.wire.headers import HeaderList, Headers, ascii_bytes, text
from warmroute.wire.texts import log_group

EVENT_STREAM: Final = b"application/vnd.amazon.eventstream"
"""Content type of every response stream."""

_ASCII_CHARACTERS_MAX: Final = 1024  # Header in the service model
_NAME_CHARACTERS_MAX: Final = 63
_INFERENCE_ID_CHARACTERS_MAX: Final = 64
_EXPLANATIONS_CHARACTERS_MAX: Final = 64
_SESSION_ID_CHARACTERS_MAX: Final = 256

# Patterns as the service model spells them, for messages, and as they are checked. Its \S would let a
# first character outside ASCII pass; AWS says that ids are ASCII.
_ASCII: Final = (r"\p{ASCII}*", re.compile(rb"[\x00-\x7f]*"))
_PRINTABLE: Final = (r"\A\S[\p{Print}]*\z", re.compile(rb"[!-~][ -~]*"))
_NAME: Final = (r"^[a-zA-Z0-9](-*[a-zA-Z0-9])*", re.compile(rb"[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?"))
_COMPONENT: Final = (r"^[a-zA-Z0-9]([\-a-zA-Z0-9]*[a-zA-Z0-9])?$", _NAME[1])
_SESSION: Final = (
    r"^(NEW_SESSION)$|^[a-zA-Z0-9](-*[a-zA-Z0-9])*$",
    re.compile(rb"NEW_SESSION|[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?"),
)
_SESSION_OF_STREAM: Final = (r"^[a-zA-Z0-9](-*[a-zA-Z0-9])*$", _NAME[1])
_ANYTHING: Final = (".*", re.compile(rb".*"))


class NativeRequest(Struct):
    """The API's own headers of a call; None where absent. Not frozen: one is built per request.

    Attributes:
        streaming: Whether the call is InvokeEndpointWithResponseStream.
        content_type: Of the body.
        accept: What the caller wants; a stream's travels as ``X-Amzn-SageMaker-Accept``.
        custom_attributes: Opaque, for the container.
        target_model: Of a multi-model endpoint; never on streams.
        target_variant: Overrides the weighted choice.
        target_container_hostname: Of a multi-container endpoint.
        inference_id: For the caller's records.
        enable_explanations: A JMESPath expression; never on streams.
        inference_component: The component to invoke.
        session_id: ``NEW_SESSION`` (never on streams) or the id of a session.
        prefix_aware_id: Part of the routing key.
        upstream: The fields an instance gets, without framing and host.
    """

    streaming: bool
    content_type: str | None = None
    accept: str | None = None
    custom_attributes: str | None = None
    target_model: str | None = None
    target_variant: str | None = None
    target_container_hostname: str | None = None
    inference_id: str | None = None
    enable_explanations: str | None = None
    inference_component: str | None = None
    session_id: str | None = None
    prefix_aware_id: str | None = None
    upstream: HeaderList = []


@dataclass(frozen=True, slots=True)
class _Row:
    attribute: str
    member: str
    header: bytes
    upstream: bytes
    length_min: int
    length_max: int
    pattern: tuple[str, re.Pattern[bytes]]
    sensitive: bool = False


def _row(
    attribute: str,
    member: str,
    name: str,
    *,
    length: tuple[int, int],
    pattern: tuple[str, re.Pattern[bytes]],
    sensitive: bool = False,
) -> _Row:
    header = name if name in ("Content-Type", "Accept") else f"X-Amzn-SageMaker-{name}"
    field = header.encode("ascii")
    return _Row(attribute, member, field.lower(), field, *length, pattern, sensitive=sensitive)


_SHARED: Final = (
    _row("content_type", "contentType", "Content-Type", length=(0, _ASCII_CHARACTERS_MAX), pattern=_ASCII),
    _row(
        "custom_attributes",
        "customAttributes",
        "Custom-Attributes",
        length=(0, _ASCII_CHARACTERS_MAX),
        pattern=_ASCII,
        sensitive=True,
    ),
    _row(
        "target_variant", "targetVariant", "Target-Variant", length=(0, _NAME_CHARACTERS_MAX), pattern=_NAME
    ),
    _row(
        "target_container_hostname",
        "targetContainerHostname",
        "Target-Container-Hostname",
        length=(0, _NAME_CHARACTERS_MAX),
        pattern=_NAME,
    ),
    _row(
        "inference_id",
        "inferenceId",
        "Inference-Id",
        length=(1, _INFERENCE_ID_CHARACTERS_MAX),
        pattern=_PRINTABLE,
    ),
    _row(
        "inference_component",
        "inferenceComponentName",
        "Inference-Component",
        length=(0, _NAME_CHARACTERS_MAX),
        pattern=_COMPONENT,
    ),
    _row(
        "prefix_aware_id",
        "prefixAwareId",
        "Prefix-Aware-Id",
        length=(1, PREFIX_AWARE_ID_CHARACTERS_MAX),
        pattern=_PRINTABLE,
    ),
)
_INVOKE: Final = (
    *_SHARED,
    _row("accept", "accept", "Accept", length=(0, _ASCII_CHARACTERS_MAX), pattern=_ASCII),
    _row(
        "target_model", "targetModel", "Target-Model", length=(1, _ASCII_CHARACTERS_MAX), pattern=_PRINTABLE
    ),
    _row(
        "enable_explanations",
        "enableExplanations",
        "Enable-Explanations",
        length=(1, _EXPLANATIONS_CHARACTERS_MAX),
        pattern=_ANYTHING,
    ),
    _row("session_id", "sessionId", "Session-Id", length=(0, _SESSION_ID_CHARACTERS_MAX), pattern=_SESSION),
)
_STREAM: Final = (
    *_SHARED,
    _Row("accept", "accept", b"x-amzn-sagemaker-accept", b"Accept", 0, _ASCII_CHARACTERS_MAX, _ASCII),
    _row(
        "session_id",
        "sessionId",
        "Session-Id",
        length=(0, _SESSION_ID_CHARACTERS_MAX),
        pattern=_SESSION_OF_STREAM,
    ),
)
_TRACE: Final = (b"x-request-id", b"x-amzn-trace-id", b"traceparent", b"tracestate", b"baggage")
_INVOKE_ROWS: Final = dict.fromkeys(_TRACE) | {row.header: row for row in _INVOKE}
_STREAM_ROWS: Final = dict.fromkeys(_TRACE) | {row.header: row for row in _STREAM}
_FORWARDED_INVOKE: Final = (b"X-Amzn-SageMaker-Forwarded-Api", b"InvokeEndpoint")
_FORWARDED_STREAM: Final = (b"X-Amzn-SageMaker-Forwarded-Api", b"InvokeEndpointWithResponseStream")


def read(headers: Headers, streaming: bool) -> NativeRequest | Failure:  # noqa: FBT001  (the operation)
    """Read and check the API's own headers.

    Args:
        headers: Of the request.
        streaming: Whether the route is the response stream's.

    Returns:
        The request; or BAD_REQUEST in SageMaker's constraint style, naming every member that is
        wrong, what it was and what is allowed. Headers that the operation does not model are ignored.

    Cost: about 2 µs with two headers present.
    """
    request = NativeRequest(streaming)
    fields = request.upstream
    wrong: list[str] = []
    rows = _STREAM_ROWS if streaming else _INVOKE_ROWS
    for name, value in headers.items():
        if name not in rows:
            continue
        row = rows[name]
        if row is None:
            fields.append((name, value))
        elif row.length_min <= len(value) <= row.length_max and row.pattern[1].fullmatch(value):
            setattr(request, row.attribute, value.decode("ascii", "replace"))
            fields.append((row.upstream, value))
        else:
            wrong += _constraints(row, value)
    if wrong:
        count = f"{len(wrong)} validation error{'s' if len(wrong) > 1 else ''} detected: "
        return Failure(Problem.BAD_REQUEST, count + "; ".join(wrong))
    fields.append(_FORWARDED_STREAM if streaming else _FORWARDED_INVOKE)
    return request


def _constraints(row: _Row, value: bytes) -> list[str]:
    shown = "" if row.sensitive else f"'{text(value)}' "
    head = f"Value {shown}at '{row.member}' failed to satisfy constraint: Member must "
    found = []
    if len(value) > row.length_max:
        found.append(f"{head}have length less than or equal to {row.length_max}")
    if len(value) < row.length_min:
        found.append(f"{head}have length greater than or equal to {row.length_min}")
    if not row.pattern[1].fullmatch(value):
        found.append(f"{head}satisfy regular expression pattern: {row.pattern[0]}")
    return found


_ANSWER: Final = {
    b"content-type": b"Content-Type",
    b"content-encoding": b"Content-Encoding",  # the body crosses as it is, so its coding has to
    b"x-amzn-sagemaker-custom-attributes": b"X-Amzn-SageMaker-Custom-Attributes",
    b"x-amzn-sagemaker-new-session-id": b"X-Amzn-SageMaker-New-Session-Id",
    b"x-amzn-sagemaker-closed-session-id": b"X-Amzn-SageMaker-Closed-Session-Id",
    b"x-request-id": b"X-Request-Id",
}
_STREAM_ANSWER: Final = {
    b"content-type": b"X-Amzn-SageMaker-Content-Type",
    b"x-amzn-sagemaker-custom-attributes": b"X-Amzn-SageMaker-Custom-Attributes",
    b"x-request-id": b"X-Request-Id",
}
_SESSION_HEADER: Final = b"x-amzn-sagemaker-session-id"


def invoked_variant(variant: str) -> tuple[bytes, bytes]:
    """Return the field that says which variant served a call."""
    return b"x-Amzn-Invoked-Production-Variant", variant.encode("ascii")


def response_headers(upstream: HeaderList, variant: str, streaming: bool) -> HeaderList:  # noqa: FBT001
    """Return the fields of a successful answer.

    Args:
        upstream: The instance's own fields, names in any case.
        variant: Name of the variant that served the call.
        streaming: Whether the answer is an event stream.

    Returns:
        Without framing and the request id. A new session is announced by containers in two
        spellings, and both become ``X-Amzn-SageMaker-New-Session-Id``.
    """
    fields: HeaderList = [invoked_variant(variant)]
    if streaming:
        fields.append((b"Content-Type", EVENT_STREAM))
    names = _STREAM_ANSWER if streaming else _ANSWER
    for name, value in upstream:
        key = name.lower()
        if key == _SESSION_HEADER and b";" in value and not streaming:  # "ID; Expires=…": a new one
            key = b"x-amzn-sagemaker-new-session-id"
        spelled = names.get(key)
        if spelled is not None:
            fields.append((spelled, value))
    return fields


# --- Errors -------------------------------------------------------------------------------------


def error(
    failure: Failure, request_id: str, *, region: str, account: str, endpoint: str, component: str = ""
) -> tuple[int, HeaderList, bytes]:
    """Spell a failure as the native routes do.

    Args:
        failure: Its message as the caller reads it; a model's error as ``wire.texts`` makes it.
        request_id: Of this call.
        region: For the ARN of the logs.
        account: Twelve digits.
        endpoint: Name from the path; may be empty where there is none.
        component: Inference component that was invoked, or ``""``.

    Returns:
        HTTP status, fields without framing, and body. boto3 takes the code from
        ``x-amzn-errortype`` and the text from ``Message``.
    """
    row = failure.row
    fields: HeaderList = [
        (b"x-amzn-RequestId", ascii_bytes(request_id)),
        (b"x-amzn-errortype", row.native_code.encode("ascii")),
        (b"Content-Type", b"application/json"),
    ]
    if row.retry_after_s is not None:
        fields.append((b"Retry-After", str(row.retry_after_s).encode("ascii")))
    body: dict[str, str | int] = {"Message": failure.message}
    if row.native_code == "ModelError":
        client_error = 400 <= failure.original_status < 500
        body = {
            "ErrorCode": "CLIENT_ERROR_FROM_MODEL" if client_error else "INTERNAL_FAILURE_FROM_MODEL",
            "LogStreamArn": f"arn:aws:logs:{region}:{account}:log-group:{log_group(endpoint, component)}",
            "Message": failure.message,
            "OriginalMessage": failure.original_body,
            "OriginalStatusCode": failure.original_status,
        }
    return row.status, fields, msgspec.json.encode(body)


_STREAM_CODES: Final = {
    Problem.MODEL_TIMEOUT: "ModelInvocationTimeExceeded",
    Problem.MODEL_ERROR: "StreamBroken",
    Problem.MODEL_DIED: "StreamBroken",
}


def stream_exception(failure: Failure) -> tuple[str, bytes]:
    """Spell a failure after the first byte of a response stream.

    Returns:
        Exception type and body, for ``eventstream.exception``: ``ModelStreamError`` with its
        ``ErrorCode`` where the model failed, else ``InternalStreamFailure``.
    """
    code = _STREAM_CODES.get(failure.problem)
    if code is None:
        return "InternalStreamFailure", msgspec.json.encode({"Message": failure.message})
    return "ModelStreamError", msgspec.json.encode({"ErrorCode": code, "Message": failure.message})


# --- Engines without /invocations ---------------------------------------------------------------

_NO_VALUE: Final = Raw(b"")


class _Shape(Struct, gc=False):
    messages: Raw = _NO_VALUE
    prompt: Raw = _NO_VALUE
    input: Raw = _NO_VALUE
    stream: Raw = _NO_VALUE


_decode_shape: Final = msgspec.json.Decoder(_Shape).decode


def _shape(body: bytes) -> _Shape | None:
    try:
        return _decode_shape(body)
    except (msgspec.DecodeError, RecursionError):
        return None


def openai_path(body: bytes) -> str | None:
    """Return the OpenAI route for a native body, by its shape.

    Args:
        body: Any bytes.

    Returns:
        Path for ``messages``, else for ``prompt``, else for ``input``; None for anything else.

    Cost: one pass over the body, about 15 µs for 32 KB.
    """
    shape = _shape(body)
    if shape is None:
        return None
    if memoryview(shape.messages):
        return "/v1/chat/completions"
    if memoryview(shape.prompt):
        return "/v1/completions"
    return "/v1/embeddings" if memoryview(shape.input) else None


def is_stream(body: bytes) -> bool:
    """Return whether the top-level ``stream`` of a body is true; False for any other bytes."""
    shape = _shape(body)
    return shape is not None and bytes(shape.stream) == b"true"
