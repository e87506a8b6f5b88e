"""Control over HTTP: the SageMaker JSON API on a Unix socket, and the admin pages.

Callers reach the API through a router, which has authenticated them and names them in
``x-warmroute-principal`` and the call in ``x-warmroute-request-id``, the id of its line in the access
log; the socket itself is open to this user only.

Source: the AWS JSON 1.1 protocol: ``X-Amz-Target``, ``__type`` and ``message`` in errors.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from warmroute.controlplane.calls import UNAVAILABLE
from warmroute.controlplane.ports import StoreUnavailable
from warmroute.core import limits
from warmroute.resources.errors import ApiCode, ApiError
from warmroute.resources.records import JsonObject

_log = logging.getLogger(__name__)

TARGET_PREFIX: Final = "SageMaker."
CONTENT_TYPE: Final = "application/x-amz-json-1.1"
PRINCIPAL_HEADER: Final = "x-warmroute-principal"
REQUEST_ID_HEADER: Final = "x-warmroute-request-id"


class Api(Protocol):
    """Operations of one service, by the name behind its prefix in ``X-Amz-Target``."""

    async def call(self, operation: str, body: bytes, *, principal: str, request_id: str) -> JsonObject:
        """Serve a call; raises ``ApiError`` when it is refused."""
        ...


def api_app(service: Api, others: Mapping[str, Api] = MappingProxyType({})) -> Starlette:
    """Return the application of the SageMaker API.

    Args:
        service: Serves SageMaker's operations.
        others: Further services by their prefixes in ``X-Amz-Target``, the dot included.
    """
    services = {TARGET_PREFIX: service, **others}

    async def serve(request: Request) -> Response:
        request_id = request.headers.get(REQUEST_ID_HEADER) or str(uuid.uuid4())
        try:
            output = await _serve(services, request, request_id)
            return _answer(200, output, request_id)
        except ApiError as error:
            return _error(error, request_id)
        except ClientDisconnect:
            return Response(status_code=499)  # nobody reads it
        except StoreUnavailable as error:
            _log.error("Request %s: %s", request_id, error)
            return _error(ApiError(ApiCode.UNAVAILABLE, UNAVAILABLE), request_id)
        except Exception:  # noqa: BLE001  (a caller gets an answer, whatever happened)
            _log.exception("Request %s failed.", request_id)
            return _error(ApiError(ApiCode.INTERNAL, f"Internal failure, request {request_id}."), request_id)

    return Starlette(routes=[Route("/{path:path}", serve, methods=["GET", "POST", "PUT", "DELETE"])])


async def _serve(services: Mapping[str, Api], request: Request, request_id: str) -> JsonObject:
    if request.method != "POST" or request.url.path != "/":
        raise ApiError(ApiCode.UNKNOWN_OPERATION, f"{request.method} {request.url.path}: use POST /.")
    service, operation = _operation(request.headers.get("x-amz-target"), services)
    body = await _body(request)
    principal = request.headers.get(PRINCIPAL_HEADER, "")
    call = service.call(operation, body, principal=principal, request_id=request_id)
    return await _unless_gone(request, call)


def _operation(target: str | None, services: Mapping[str, Api]) -> tuple[Api, str]:
    allowed = " or ".join(f"{prefix}<Operation>" for prefix in services)
    if target is None:
        raise ApiError(
            ApiCode.UNKNOWN_OPERATION, f"The header X-Amz-Target is missing. It must be {allowed}."
        )
    for prefix, service in services.items():
        if target.startswith(prefix):
            return service, target.removeprefix(prefix)[:100]
    raise ApiError(
        ApiCode.UNKNOWN_OPERATION,
        f"X-Amz-Target is {target[:100]!r}. It must be {allowed}; "
        "other services are not supported by warmroute.",
    )


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limits.CONTROL_BODY_BYTES_MAX:
            raise ApiError(
                ApiCode.TOO_LARGE,
                f"The request body has more than {limits.CONTROL_BODY_BYTES_MAX} bytes, the most allowed.",
            )
    return bytes(body)


async def _unless_gone(request: Request, call: Awaitable[JsonObject]) -> JsonObject:
    """Await a call, but give it up when the client goes: DescribeEndpoint may wait for a while."""
    calling = asyncio.ensure_future(call)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({calling, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not calling.done():
            raise ClientDisconnect
        return await calling
    finally:
        for task in (calling, leaving):
            task.cancel()
        await asyncio.gather(calling, leaving, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _answer(status: int, document: JsonObject, request_id: str) -> Response:
    return Response(
        msgspec.json.encode(document),
        status_code=status,
        media_type=CONTENT_TYPE,
        headers={"x-amzn-RequestId": request_id},
    )


def _error(error: ApiError, request_id: str) -> Response:
    # Both spellings: SDKs read "message", the modelled member is "Message".
    document = {"__type": str(error.code), "message": error.message, "Message": error.message}
    response = _answer(error.status, document, request_id)
    response.headers["x-amzn-errortype"] = str(error.code)
    return response


def admin_app(
    *, metrics: Callable[[], bytes], overview: Callable[[], dict[str, Any]], healthy: Callable[[], bool]
) -> Starlette:
    """Return the application of the admin port.

    Args:
        metrics: Returns the metrics in Prometheus' text format.
        overview: Returns what there is, for people.
        healthy: Whether control does its work.
    """

    async def index(_request: Request) -> Response:
        return JSONResponse(overview())

    async def health(_request: Request) -> Response:
        good = healthy()
        return JSONResponse({"status": "ok" if good else "failing"}, status_code=200 if good else 503)

    async def scrape(_request: Request) -> Response:
        return Response(metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return Starlette(
        routes=[Route("/", index), Route("/healthz", health), Route("/metrics", scrape)],
    )
