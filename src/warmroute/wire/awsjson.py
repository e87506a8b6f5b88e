"""AWS JSON 1.1: the protocol of the control plane, ``POST /`` with ``X-Amz-Target``.

Source: metadata of the ``sagemaker`` and ``application-autoscaling`` service models; botocore reads an
error's code from ``__type`` and its text from ``message``.
"""

from typing import Final

import msgspec

from warmroute.core.errors import Failure, Problem
from warmroute.wire.headers import HeaderList, text

CONTENT_TYPE: Final = b"application/x-amz-json-1.1"

_SERVICES: Final = {"SageMaker": "sagemaker", "AnyScaleFrontendService": "application-autoscaling"}
_SCALING: Final = b"AnyScaleFrontendService."


def operation(target: bytes | None) -> tuple[str, str] | Failure:
    """Read an ``X-Amz-Target`` header.

    Args:
        target: Its value, e.g. ``SageMaker.CreateEndpoint``; None where there is none.

    Returns:
        Signing name of the service and name of the operation, which may still be unknown; or
        NOT_FOUND for anything else.
    """
    prefix, dot, name = text(target or b"").partition(".")
    service = _SERVICES.get(prefix)
    if service is None or not dot or not (name.isascii() and name.isalnum()):
        given = "no X-Amz-Target" if target is None else f"X-Amz-Target '{text(target[:128])}'"
        return Failure(
            Problem.NOT_FOUND,
            f"Unknown operation: got {given}; {' and '.join(f'{known}.OPERATION' for known in _SERVICES)} "
            "are served.",
        )
    return service, name


def scales(target: bytes | None) -> bool:
    """Return whether an ``X-Amz-Target`` header is for Application Auto Scaling."""
    return target is not None and target.startswith(_SCALING)


def error(code: str, message: str, status: int = 400) -> tuple[int, HeaderList, bytes]:
    """Spell an error of the control plane.

    Args:
        code: As the service model or AWS's list of common errors has it.
        message: For the caller.
        status: HTTP status; AWS answers 400 to whatever the caller did wrong.

    Returns:
        HTTP status, fields without framing, and body.
    """
    body = msgspec.json.encode({"__type": code, "message": message})
    return status, [(b"x-amzn-errortype", code.encode("ascii")), (b"Content-Type", CONTENT_TYPE)], body


def failure(failed: Failure) -> tuple[int, HeaderList, bytes]:
    """Spell a failure that happened before the control plane was reached.

    Returns:
        As ``error``; the runtime's ValidationError is the control plane's ValidationException.
    """
    code = failed.row.native_code
    return error(
        "ValidationException" if code == "ValidationError" else code, failed.message, failed.row.status
    )
