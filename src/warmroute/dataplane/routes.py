"""From method and path to what is asked for."""

from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from urllib.parse import unquote

from warmroute.wire.chat import BodyKind


class RouteKind(StrEnum):
    """What a request asks for; also the ``route`` label of metrics and log lines."""

    NATIVE = "invocations"
    NATIVE_STREAM = "invocations_response_stream"
    ENDPOINT_OPENAI = "endpoint_openai"
    PLAIN_OPENAI = "openai"
    MODELS = "models"
    CONTROL = "control"
    HEALTHZ = "healthz"
    READYZ = "readyz"


@dataclass(frozen=True, slots=True)
class Route:
    """A matched route.

    Attributes:
        kind: What is asked for.
        method: The only method it has.
        endpoint: From the path; None where the body names it.
        component: Inference component from the path.
        upstream_path: Where an instance serves it; empty for the native routes, which depend on the target.
        body_kind: How to read the body on the OpenAI routes.
        name: The ``route`` label of metrics and log lines.
        openai: Whether errors are told in OpenAI's form.
        streaming: Whether the answer is an event stream of SageMaker's.
    """

    kind: RouteKind
    method: str
    endpoint: str | None = None
    component: str | None = None
    upstream_path: str = ""
    body_kind: BodyKind | None = None

    # Derived once per route: routes are kept, and enum members are slow to compare on every request.
    name: str = field(init=False)
    openai: bool = field(init=False)
    streaming: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.kind.value)
        object.__setattr__(
            self, "openai",
            self.kind in (RouteKind.ENDPOINT_OPENAI, RouteKind.PLAIN_OPENAI, RouteKind.MODELS),
        )  # fmt: skip
        object.__setattr__(self, "streaming", self.kind is RouteKind.NATIVE_STREAM)


KEPT_PATH_CHARACTERS_MAX = 256
"""Longer paths are no endpoint's: names have at most 63 characters."""
_FIXED = {
    "/": Route(RouteKind.CONTROL, "POST"),
    "/healthz": Route(RouteKind.HEALTHZ, "GET"),
    "/readyz": Route(RouteKind.READYZ, "GET"),
    "/v1/models": Route(RouteKind.MODELS, "GET"),
} | {
    f"/v1/{name}": Route(RouteKind.PLAIN_OPENAI, "POST", upstream_path=f"/v1/{name}", body_kind=kind)
    for name, kind in (
        ("chat/completions", BodyKind.CHAT),
        ("completions", BodyKind.COMPLETIONS),
        ("embeddings", BodyKind.EMBEDDINGS),
        ("responses", BodyKind.RESPONSES),
        ("messages", BodyKind.MESSAGES),
    )
}
_CHAT = ["openai", "v1", "chat", "completions"]


def match(path: str) -> Route | None:
    """Return the route of a raw path; None when there is none.

    Cost:
        0.1 µs for a path seen recently: there are as many as endpoints. Long ones are not kept.
    """
    return _known(path) if len(path) <= KEPT_PATH_CHARACTERS_MAX else _match(path)


def _match(path: str) -> Route | None:
    fixed = _FIXED.get(path)
    if fixed is not None:
        return fixed
    parts = path.split("/")
    if len(parts) < 4 or parts[0] or parts[1] != "endpoints" or not parts[2]:
        return None
    return _of_endpoint(unquote(parts[2]), parts[3:])


_known = lru_cache(maxsize=1024)(_match)


def _of_endpoint(endpoint: str, rest: list[str]) -> Route | None:
    match rest:
        case ["invocations"]:
            return Route(RouteKind.NATIVE, "POST", endpoint)
        case ["invocations-response-stream"]:
            return Route(RouteKind.NATIVE_STREAM, "POST", endpoint)
        case ["inference-components", component, *chat] if component and chat == _CHAT:
            return _endpoint_chat(endpoint, unquote(component))
        case _ if rest == _CHAT:
            return _endpoint_chat(endpoint, None)
        case _:
            return None


def _endpoint_chat(endpoint: str, component: str | None) -> Route:
    return Route(
        RouteKind.ENDPOINT_OPENAI,
        "POST",
        endpoint,
        component,
        upstream_path="/v1/chat/completions",
        body_kind=BodyKind.CHAT,
    )


def speaks_openai(path: str) -> bool:
    """Return whether a caller of an unknown path expects OpenAI's form of errors."""
    return path.startswith("/v1") or "/openai/" in path
