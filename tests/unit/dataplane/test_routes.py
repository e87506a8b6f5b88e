import pytest

from warmroute.dataplane.routes import RouteKind, match, speaks_openai
from warmroute.wire.chat import BodyKind

CHAT = "/openai/v1/chat/completions"


@pytest.mark.parametrize(
    ("path", "kind", "method"),
    [
        ("/", RouteKind.CONTROL, "POST"),
        ("/healthz", RouteKind.HEALTHZ, "GET"),
        ("/readyz", RouteKind.READYZ, "GET"),
        ("/v1/models", RouteKind.MODELS, "GET"),
        ("/endpoints/llm/invocations", RouteKind.NATIVE, "POST"),
        ("/endpoints/llm/invocations-response-stream", RouteKind.NATIVE_STREAM, "POST"),
        (f"/endpoints/llm{CHAT}", RouteKind.ENDPOINT_OPENAI, "POST"),
        (f"/endpoints/llm/inference-components/c{CHAT}", RouteKind.ENDPOINT_OPENAI, "POST"),
        ("/v1/chat/completions", RouteKind.PLAIN_OPENAI, "POST"),
    ],
)
def test_a_path_says_what_is_asked_for(path, kind, method):
    route = match(path)
    assert (route.kind, route.method) == (kind, method)
    assert route.name == kind.value


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v1/chat/completions", BodyKind.CHAT),
        ("/v1/completions", BodyKind.COMPLETIONS),
        ("/v1/embeddings", BodyKind.EMBEDDINGS),
        ("/v1/responses", BodyKind.RESPONSES),
        ("/v1/messages", BodyKind.MESSAGES),
    ],
)
def test_a_plain_openai_path_is_the_same_at_the_instance_and_says_how_to_read_the_body(path, kind):
    route = match(path)
    assert (route.upstream_path, route.body_kind, route.endpoint) == (path, kind, None)


def test_an_endpoints_chat_route_is_the_plain_one_at_the_instance():
    route = match(f"/endpoints/llm{CHAT}")
    assert (route.endpoint, route.component) == ("llm", None)
    assert (route.upstream_path, route.body_kind) == ("/v1/chat/completions", BodyKind.CHAT)


def test_endpoint_and_component_are_decoded():
    route = match(f"/endpoints/a%2Fb%20c/inference-components/%C3%A9{CHAT}")
    assert (route.endpoint, route.component) == ("a/b c", "é")


def test_the_native_routes_leave_the_instances_path_open():
    route = match("/endpoints/llm/invocations")
    assert (route.endpoint, route.upstream_path, route.body_kind) == ("llm", "", None)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "*",
        "//",
        "/nothing",
        "/v1",
        "/v1/",
        "/v1/unknown",
        "/healthz/",
        "/endpoints",
        "/endpoints/",
        "/endpoints/llm",
        "/endpoints/llm/",
        "/endpoints//invocations",
        "/endpoints/llm/invocations/",
        "/endpoints/llm/invocations/more",
        "endpoints/llm/invocations",
        "x/endpoints/llm/invocations",
        "/other/llm/invocations",
        "/endpoints/llm/openai/v1/completions",
        f"/endpoints/llm/inference-components/{CHAT}",
        "/endpoints/llm/inference-components/c/openai/v1/models",
    ],
)
def test_any_other_path_is_no_route(path):
    assert match(path) is None


def test_only_the_native_response_stream_is_an_event_stream():
    streaming = [
        path
        for path in (
            "/",
            "/v1/models",
            "/endpoints/a/invocations",
            "/endpoints/a/invocations-response-stream",
        )
        if match(path).streaming
    ]
    assert streaming == ["/endpoints/a/invocations-response-stream"]


@pytest.mark.parametrize(
    ("path", "openai"),
    [
        ("/v1/models", True),
        ("/v1/messages", True),
        (f"/endpoints/llm{CHAT}", True),
        ("/endpoints/llm/invocations", False),
        ("/", False),
        ("/healthz", False),
    ],
)
def test_a_route_says_in_which_form_its_errors_are_told(path, openai):
    assert match(path).openai is openai


@pytest.mark.parametrize(
    ("path", "openai"),
    [
        ("/v1", True),
        ("/v1/unknown", True),
        ("/endpoints/llm/openai/v1/models", True),
        ("/endpoints/llm/invocation", False),
        ("/", False),
        ("", False),
    ],
)
def test_a_caller_of_an_unknown_path_is_answered_in_the_form_it_seems_to_expect(path, openai):
    assert speaks_openai(path) is openai
