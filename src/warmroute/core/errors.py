"""The error table of the data plane: one row per error, read by every dialect.

The dialects (``wire.invocation`` for the native routes, ``wire.chat`` for the OpenAI routes) only
spell a row; whose fault it is and whether an SDK may send again is decided here.

Source: codes and HTTP statuses of the native routes from the ``sagemaker-runtime`` service model;
boto3 sends again on 408, 5xx and dropped connections, so a row whose work may have started uses
another status.
"""

from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """Whose fault it is. Only ``INSTANCE`` counts against an instance."""

    CALLER = "caller"
    INSTANCE = "instance"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One error.

    Attributes:
        status: HTTP status on the native routes.
        native_code: SageMaker runtime error code.
        openai_status: HTTP status on the OpenAI routes.
        openai_type: ``error.type`` there.
        openai_code: ``error.code`` there.
        fault: Whose fault.
        may_have_run: A model may have worked on it, so no SDK may be led to send it again.
        retry_after_s: Seconds for ``Retry-After``; None sends no such header.
    """

    status: int
    native_code: str
    openai_status: int
    openai_type: str
    openai_code: str
    fault: Fault
    may_have_run: bool = False
    retry_after_s: int | None = None


class Problem(StrEnum):
    """Every error the data plane can answer with."""

    BAD_REQUEST = "bad_request"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    UNAUTHENTICATED = "unauthenticated"
    INCOMPLETE_SIGNATURE = "incomplete_signature"
    INVALID_SIGNATURE = "invalid_signature"
    EXPIRED = "expired"
    ACCESS_DENIED = "access_denied"
    BODY_TOO_LARGE = "body_too_large"
    HEAD_TOO_LARGE = "head_too_large"
    REQUEST_TIMEOUT = "request_timeout"
    LENGTH_UNREADABLE = "length_unreadable"
    NO_CAPACITY = "no_capacity"
    NO_COPY = "no_copy"
    ADAPTER_NOT_READY = "adapter_not_ready"
    OVERLOADED = "overloaded"
    INSTANCE_UNREACHABLE = "instance_unreachable"
    MODEL_ERROR = "model_error"
    MODEL_TIMEOUT = "model_timeout"
    MODEL_DIED = "model_died"
    SHUTTING_DOWN = "shutting_down"
    CONTROL_UNAVAILABLE = "control_unavailable"
    INTERNAL = "internal"


_C, _I, _S = Fault.CALLER, Fault.INSTANCE, Fault.SERVICE
_INVALID = "invalid_request_error"

ERRORS: dict[Problem, ErrorRow] = {
    Problem.BAD_REQUEST: ErrorRow(400, "ValidationError", 400, _INVALID, "validation_error", _C),
    Problem.NOT_FOUND: ErrorRow(404, "UnknownOperationException", 404, _INVALID, "unknown_url", _C),
    Problem.METHOD_NOT_ALLOWED: ErrorRow(405, "UnknownOperationException", 405, _INVALID, "method_not_allowed", _C),
    Problem.UNAUTHENTICATED: ErrorRow(403, "UnrecognizedClientException", 401, "authentication_error", "invalid_api_key", _C),
    Problem.INCOMPLETE_SIGNATURE: ErrorRow(403, "IncompleteSignature", 401, "authentication_error", "invalid_api_key", _C),
    Problem.INVALID_SIGNATURE: ErrorRow(403, "InvalidSignatureException", 401, "authentication_error", "invalid_api_key", _C),
    Problem.EXPIRED: ErrorRow(403, "ExpiredTokenException", 401, "authentication_error", "token_expired", _C),
    Problem.ACCESS_DENIED: ErrorRow(403, "AccessDeniedException", 403, "permission_error", "access_denied", _C),
    Problem.BODY_TOO_LARGE: ErrorRow(413, "RequestEntityTooLargeException", 413, _INVALID, "request_too_large", _C),
    Problem.HEAD_TOO_LARGE: ErrorRow(431, "ValidationError", 431, _INVALID, "headers_too_large", _C),
    Problem.REQUEST_TIMEOUT: ErrorRow(408, "RequestTimeoutException", 408, _INVALID, "request_timeout", _C),
    Problem.LENGTH_UNREADABLE: ErrorRow(400, "ValidationError", 400, _INVALID, "malformed_request", _C),
    Problem.NO_CAPACITY: ErrorRow(503, "ServiceUnavailable", 503, "server_error", "no_capacity", _S, retry_after_s=1),
    Problem.NO_COPY: ErrorRow(400, "ValidationError", 400, _INVALID, "validation_error", _S),
    Problem.ADAPTER_NOT_READY: ErrorRow(429, "ModelNotReadyException", 503, "server_error", "adapter_not_ready", _S, retry_after_s=1),
    Problem.OVERLOADED: ErrorRow(503, "ServiceUnavailable", 503, "server_error", "overloaded", _S, retry_after_s=1),
    Problem.INSTANCE_UNREACHABLE: ErrorRow(503, "ServiceUnavailable", 503, "server_error", "instance_unreachable", _I, retry_after_s=1),
    Problem.MODEL_ERROR: ErrorRow(424, "ModelError", 424, "server_error", "model_error", _I, may_have_run=True),
    Problem.MODEL_TIMEOUT: ErrorRow(424, "ModelError", 424, "server_error", "model_timeout", _I, may_have_run=True),
    Problem.MODEL_DIED: ErrorRow(424, "ModelError", 424, "server_error", "model_error", _I, may_have_run=True),
    Problem.SHUTTING_DOWN: ErrorRow(503, "ServiceUnavailable", 503, "server_error", "shutting_down", _S, retry_after_s=1),
    Problem.CONTROL_UNAVAILABLE: ErrorRow(503, "ServiceUnavailable", 503, "server_error", "control_unavailable", _S, retry_after_s=1),
    Problem.INTERNAL: ErrorRow(500, "InternalFailure", 500, "server_error", "internal_error", _S),
}  # fmt: skip


MEANINGS: dict[Problem, str] = {
    Problem.BAD_REQUEST: "The request does not say what it must say, or names an endpoint, variant, "
    "component or session that does not exist. The message says which.",
    Problem.NOT_FOUND: "There is no such path, or no such operation.",
    Problem.METHOD_NOT_ALLOWED: "The path has another method; `Allow` names it.",
    Problem.UNAUTHENTICATED: "There are no credentials, or none that are known here.",
    Problem.INCOMPLETE_SIGNATURE: "A part of the SigV4 signature is missing or malformed.",
    Problem.INVALID_SIGNATURE: "The signature does not fit: another secret, Region, service or body, or a "
    "clock that is too far off.",
    Problem.EXPIRED: "The presigned request or the bearer token is past its time.",
    Problem.ACCESS_DENIED: "Credentials of a kind that this route does not take.",
    Problem.BODY_TOO_LARGE: "The body is longer than `limits.body_bytes`.",
    Problem.HEAD_TOO_LARGE: "The headers are longer than `limits.head_bytes` or more than "
    "`limits.header_count`.",
    Problem.REQUEST_TIMEOUT: "The request did not arrive whole in time (`timeouts.head_read_s`, "
    "`timeouts.body_idle_s`).",
    Problem.LENGTH_UNREADABLE: "The bytes are not HTTP, or it is not clear where the request ends.",
    Problem.NO_CAPACITY: "The variant has no instance in service, or no room for another session.",
    Problem.NO_COPY: "The inference component has no copy in service. SageMaker's own status, which no SDK "
    "sends again.",
    Problem.ADAPTER_NOT_READY: "The LoRA adapter is loaded on no copy of its base component, and could not be "
    "in time, or at all.",
    Problem.OVERLOADED: "All bodies held at once would exceed `limits.buffered_bodies_bytes`.",
    Problem.INSTANCE_UNREACHABLE: "No instance could be reached, and nothing has run.",
    Problem.MODEL_ERROR: "The model server answered with an error, which the message quotes.",
    Problem.MODEL_TIMEOUT: "The model server did not answer in time, or stopped in the middle of its answer.",
    Problem.MODEL_DIED: "The connection to the model server broke after it may have begun to work.",
    Problem.SHUTTING_DOWN: "Reserved. What is cut off by the end of warmroute is told as `model_died`.",
    Problem.CONTROL_UNAVAILABLE: "The control process is down; invocations go on.",
    Problem.INTERNAL: "A defect of warmroute, or a control process that ended in the middle of a call.",
}
"""When each happens, for the reference of errors."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error on its way to a caller: a row of the table and what to say.

    Attributes:
        problem: The row.
        message: For the caller: what is wrong, what was got, what is allowed.
        original_status: The model server's status; 0 when it gave none.
        original_body: What it answered, possibly cut.
    """

    problem: Problem
    message: str
    original_status: int = 0
    original_body: str = ""

    @property
    def row(self) -> ErrorRow:
        """The table's row."""
        return ERRORS[self.problem]


class ConfigurationError(Exception):
    """A setting is wrong. The text says which, what was got and what is allowed."""
