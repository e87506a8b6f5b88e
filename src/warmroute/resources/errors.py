"""Errors of the SageMaker API: one table, one exception.

Source: the common errors of the SageMaker API reference and the ``sagemaker`` service model, which
models only ``ResourceLimitExceeded`` on the operations served here. Misuse and not-found are both
``ValidationException``, as SageMaker answers them: stock waiters match on that code. The codes from
``ObjectNotFoundException`` on are those of Application Auto Scaling, by its own service model.
"""

from enum import StrEnum


class ApiCode(StrEnum):
    """Every error code the control plane answers with."""

    VALIDATION = "ValidationException"
    SERIALIZATION = "SerializationException"
    LIMIT = "ResourceLimitExceeded"
    UNKNOWN_OPERATION = "UnknownOperationException"
    TOO_LARGE = "RequestEntityTooLargeException"
    INTERNAL = "InternalFailure"
    OBJECT_NOT_FOUND = "ObjectNotFoundException"
    RESOURCE_NOT_FOUND = "ResourceNotFoundException"
    TOO_MANY = "LimitExceededException"
    TOO_MANY_TAGS = "TooManyTagsException"
    BAD_PAGE = "InvalidNextTokenException"
    CONCURRENT = "ConcurrentUpdateException"
    UNAVAILABLE = "ServiceUnavailable"


HTTP_STATUS: dict[ApiCode, int] = {
    ApiCode.VALIDATION: 400,
    ApiCode.SERIALIZATION: 400,
    ApiCode.LIMIT: 400,
    ApiCode.UNKNOWN_OPERATION: 404,
    ApiCode.TOO_LARGE: 413,
    ApiCode.INTERNAL: 500,
    ApiCode.OBJECT_NOT_FOUND: 400,
    ApiCode.RESOURCE_NOT_FOUND: 400,
    ApiCode.TOO_MANY: 400,
    ApiCode.TOO_MANY_TAGS: 400,
    ApiCode.BAD_PAGE: 400,
    ApiCode.CONCURRENT: 400,
    ApiCode.UNAVAILABLE: 503,
}


class ApiError(Exception):
    """A call is refused. The text is for the caller.

    Attributes:
        code: The row of the table.
        message: What is wrong, what was got, what is allowed.
        logged: The same for logs, without what was got where that may hold a secret.
    """

    def __init__(self, code: ApiCode, message: str, *, logged: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.logged = logged or message

    @property
    def status(self) -> int:
        """HTTP status."""
        return HTTP_STATUS[self.code]


def invalid(message: str) -> ApiError:
    """Return a ``ValidationException``."""
    return ApiError(ApiCode.VALIDATION, message)


def not_found(kind: str, arn: str) -> ApiError:
    """Return SageMaker's answer for a resource that does not exist.

    Args:
        kind: ``model``, ``endpoint configuration`` or ``endpoint``.
        arn: The ARN that the resource would have.
    """
    return invalid(f'Could not find {kind} "{arn}".')


def already_exists(kind: str, arn: str) -> ApiError:
    """Return SageMaker's answer to a second creation under one name."""
    return invalid(f'Cannot create already existing {kind} "{arn}".')


def in_progress(arn: str) -> ApiError:
    """Return SageMaker's answer to a change of an endpoint that is changing; the same for a deletion."""
    return invalid(f'Cannot update in-progress endpoint "{arn}".')


def unsupported(what: str, instead: str) -> ApiError:
    """Refuse what warmroute cannot honour, instead of accepting it and doing something else.

    Args:
        what: The member and value, e.g. ``"ServerlessConfig of variant 'a'"``.
        instead: What to send.
    """
    return invalid(f"{what} is not supported by warmroute. {instead}")
