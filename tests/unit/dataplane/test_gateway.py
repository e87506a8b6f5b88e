"""From a whole request to an answer or an exchange: routes, callers, endpoints, keys. On fakes."""

import json
import re
from random import Random

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.unit.dataplane.conftest import PREFIX_AWARE, target
from warmroute.adapters.fakes import FakeDownstream
from warmroute.core.errors import Failure, Problem
from warmroute.core.fleet import (
    AccessKey,
    ApiKey,
    Component,
    Endpoint,
    Fleet,
    Routing,
    RoutingStrategy,
    TargetState,
    Variant,
)
from warmroute.core.limits import FIRST_BYTE_NATIVE_S, FIRST_BYTE_OPENAI_S
from warmroute.dataplane.gateway import Gateway, model_list
from warmroute.wire.signing import parse_time

CHAT = b'{"model": "llm", "messages": [{"role": "user", "content": "hello"}]}'
NATIVE = "/endpoints/llm/invocations"
STREAM = "/endpoints/llm/invocations-response-stream"
OPENAI = "/endpoints/llm/openai/v1/chat/completions"
PLAIN = "/v1/chat/completions"
ACCESS = AccessKey("AK", "secret", "team-a")
API = ApiKey("app", "key-1")
UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}")


def native_error(client):
    return client.status, client.header(b"x-amzn-errortype"), json.loads(client.body)["Message"]


def openai_error(client):
    told = json.loads(client.body)["error"]
    return client.status, told["code"], told["message"]


def fleet_of(*endpoints, version=1, **more):
    return Fleet(version, "eu-west-1", "123456789012", endpoints, **more)


def of(name, *targets, routing=None, in_service=True):
    routing = routing or Routing(RoutingStrategy.LEAST_OUTSTANDING_REQUESTS)
    return Endpoint(name, in_service, (Variant("AllTraffic", 1.0, routing, targets),))


# --- routes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "upstream"),
    [
        (NATIVE, b"\x00any", "/invocations"),
        (STREAM, b"\x00any", "/invocations"),
        (OPENAI, CHAT, "/v1/chat/completions"),
        (PLAIN, CHAT, "/v1/chat/completions"),
        ("/v1/completions", b'{"model": "llm", "prompt": "a"}', "/v1/completions"),
        ("/v1/embeddings", b'{"model": "llm", "input": "a"}', "/v1/embeddings"),
        ("/v1/responses", b'{"model": "llm", "input": "a"}', "/v1/responses"),
        ("/v1/messages", CHAT, "/v1/messages"),
    ],
)
def test_every_serving_route_starts_an_exchange_on_the_instances_own_path(two, path, body, upstream):
    client, underway = two.send(path, body)
    assert underway is not None
    assert two.upstreams.last.path == upstream
    assert two.desk.open_exchanges == two.router.open_leases() == 1
    two.upstreams.answer()
    assert client.status == 200
    assert two.observer.ended[0].endpoint == "llm"


@pytest.mark.parametrize("path", ["/nothing", "/endpoints/llm/x", "/v2/models"])
def test_an_unknown_path_is_told_what_there_is(two, path):
    client, underway = two.send(path)
    assert underway is None
    status, code, message = native_error(client)
    assert (status, code) == (404, b"UnknownOperationException")
    assert f"There is no POST {path}." in message
    assert "POST /endpoints/NAME/invocations" in message
    assert (client.finished, client.closed) == (1, False)
    assert two.observer.ended[0].route == "unknown"
    assert two.observer.ended[0].problem == "not_found"


@pytest.mark.parametrize("path", ["/v1/unknown", "/endpoints/llm/openai/v1/models"])
def test_an_unknown_openai_path_is_told_in_openais_form(two, path):
    client, _ = two.send(path)
    assert openai_error(client)[:2] == (404, "unknown_url")


@pytest.mark.parametrize(
    ("path", "method", "allowed"),
    [(NATIVE, "GET", "POST"), ("/healthz", "POST", "GET"), (STREAM, "PUT", "POST")],
)
def test_another_method_is_told_the_right_one(two, path, method, allowed):
    client, _ = two.send(path, method=method)
    status, _, message = native_error(client)
    assert status == 405
    assert message == f"{path} takes {allowed}, not {method}."
    assert client.header(b"allow") == {"POST": b"POST", "GET": b"GET, HEAD"}[allowed]


def test_refusals_of_the_sagemaker_api_have_their_code_in_the_body_where_boto3_reads_it(guarded):
    client, _ = guarded.send("/", b"{}")
    told = json.loads(client.body)
    assert (client.status, told["__type"]) == (403, "UnrecognizedClientException")
    assert "must be signed" in told["message"]
    assert client.header(b"content-type") == b"application/x-amz-json-1.1"
    client, _ = guarded.send("/", b"", "GET")
    assert json.loads(client.body) == {
        "__type": "UnknownOperationException",
        "message": "/ takes POST, not GET.",
    }
    client = FakeDownstream()
    guarded.gateway.reject("/", Failure(Problem.BODY_TOO_LARGE, "too large"), client)
    assert json.loads(client.body)["__type"] == "RequestEntityTooLargeException"


def test_another_method_on_an_openai_route_is_told_in_openais_form(two):
    client, _ = two.send(PLAIN, method="GET")
    assert openai_error(client)[:2] == (405, "method_not_allowed")


def test_a_head_of_what_can_be_got_is_the_answer_without_its_body(two):
    whole, _ = two.send("/healthz", b"", "GET")
    head, _ = two.send("/healthz", b"", "HEAD")
    assert head.sent == whole.sent.removesuffix(b"ok\n")


@pytest.mark.parametrize("path", ["/", NATIVE, PLAIN, "/nothing", "/v1/unknown"])
def test_an_error_answer_to_head_has_no_body(two, path):
    client, _ = two.send(path, b"", "HEAD")
    assert client.status in (404, 405)
    assert client.body == b""
    assert int(client.header(b"content-length")) > 0


# --- answered here ------------------------------------------------------------------------------


def test_healthz_is_good_without_any_fleet(bench):
    client, underway = bench.send("/healthz", b"", "GET")
    assert underway is None
    assert (client.status, client.body) == (200, b"ok\n")


@pytest.mark.parametrize(
    ("fleet", "status"),
    [
        (fleet_of(), 503),
        (fleet_of(of("llm")), 503),
        (fleet_of(of("llm", target("i-1"), in_service=False)), 503),
        (fleet_of(of("llm", target("i-1", state=TargetState.STARTING))), 503),
        (fleet_of(of("llm", target("i-1"))), 200),
        (fleet_of(of("a"), of("llm", target("i-1"))), 200),
    ],
)
def test_readyz_is_good_when_an_endpoint_can_serve(bench, fleet, status):
    bench.gateway.apply_fleet(fleet)
    client, _ = bench.send("/readyz", b"", "GET")
    assert client.status == status
    assert client.body == (b"ready\n" if status == 200 else b"no endpoint is in service\n")


def test_models_are_the_endpoints_in_service_by_name(bench):
    bench.gateway.apply_fleet(
        fleet_of(of("b", target("i-1")), of("a", target("i-2")), of("c", in_service=False))
    )
    client, underway = bench.send("/v1/models", b"", "GET")
    assert underway is None
    told = json.loads(client.body)
    assert told["object"] == "list"
    assert [model["id"] for model in told["data"]] == ["a", "b"]
    assert all(model["object"] == "model" for model in told["data"])


def test_a_list_of_no_models_is_a_list():
    assert json.loads(model_list([])) == {"object": "list", "data": []}


@pytest.mark.parametrize("path", ["/healthz", "/v1/models"])
def test_what_is_answered_here_closes_where_the_caller_wants_it(two, path):
    client, _ = two.send(path, b"", "GET", keep_alive=False)
    assert client.header(b"connection") == b"close"
    assert client.closed


# --- callers ------------------------------------------------------------------------------------


@pytest.fixture
def guarded(bench):
    return bench.fleet(target("i-1"), access_keys=(ACCESS,), api_keys=(API,))


def signed(bench, path, service="sagemaker", fields=()):
    """Sign a call, and set the time to when it was signed."""
    request = AWSRequest(method="POST", url=f"http://localhost{path}", data=b"{}", headers=dict(fields))
    SigV4Auth(Credentials("AK", "secret"), service, "eu-west-1").add_auth(request)
    headers = [(name.lower().encode(), value.encode()) for name, value in request.headers.items()]
    moment = parse_time(dict(headers)[b"x-amz-date"].decode())
    bench.clock.wall_s = lambda: moment
    return headers


@pytest.mark.parametrize("path", [NATIVE, STREAM, "/"])
def test_a_signed_call_is_let_in_under_its_principal(guarded, path):
    guarded.send(path, b"{}", headers=signed(guarded, path))
    guarded.upstreams.answer()
    assert guarded.observer.ended[0].principal == "team-a"
    assert guarded.observer.ended[0].outcome == "completed"


SCALING = {"X-Amz-Target": "AnyScaleFrontendService.DescribeScalableTargets"}
MANAGING = {"X-Amz-Target": "SageMaker.ListEndpoints"}


@pytest.mark.parametrize(
    ("fields", "service", "passes"),
    [
        (SCALING, "application-autoscaling", True),
        (SCALING, "sagemaker", False),
        (MANAGING, "sagemaker", True),
        (MANAGING, "application-autoscaling", False),
    ],
)
def test_a_call_of_the_control_plane_is_signed_for_its_own_service(guarded, fields, service, passes):
    client, underway = guarded.send("/", b"{}", headers=signed(guarded, "/", service, fields))
    assert (underway is not None) is passes
    assert len(guarded.upstreams.calls) == passes
    if passes:
        guarded.upstreams.answer()
    else:
        assert "scoped to correct service" in json.loads(client.body)["message"]


@pytest.mark.parametrize("path", [NATIVE, STREAM])
def test_an_invocation_is_never_signed_for_autoscaling(guarded, path):
    _, underway = guarded.send(path, b"{}", headers=signed(guarded, path, "application-autoscaling", SCALING))
    assert underway is None


@pytest.mark.parametrize("path", [NATIVE, STREAM, "/"])
def test_an_unsigned_call_reaches_nobody(guarded, path):
    client, underway = guarded.send(path, b"{}")
    assert underway is None
    assert not guarded.upstreams.calls
    assert client.status == 403
    assert client.header(b"x-amzn-errortype") == b"UnrecognizedClientException"


@pytest.mark.parametrize("path", [OPENAI, PLAIN])
def test_an_openai_call_without_credentials_reaches_nobody(guarded, path):
    client, underway = guarded.send(path, CHAT)
    assert underway is None
    assert not guarded.upstreams.calls
    assert openai_error(client)[:2] == (401, "invalid_api_key")


def test_models_are_told_to_callers_with_credentials_only(guarded):
    client, _ = guarded.send("/v1/models", b"", "GET")
    assert client.status == 401
    client, _ = guarded.send("/v1/models", b"", "GET", headers=[(b"authorization", b"Bearer key-1")])
    assert client.status == 200


def test_an_api_key_opens_the_plain_route_and_does_not_go_up(guarded):
    guarded.send(PLAIN, CHAT, headers=[(b"authorization", b"Bearer key-1")])
    assert b"key-1" not in guarded.upstreams.last.head
    guarded.upstreams.answer()
    assert guarded.observer.ended[0].principal == "app"


def test_an_api_key_does_not_open_the_endpoints_route(guarded):
    client, _ = guarded.send(OPENAI, CHAT, headers=[(b"authorization", b"Bearer key-1")])
    assert client.status == 401


def test_a_signature_does_not_open_the_endpoints_openai_route(guarded):
    client, _ = guarded.send(OPENAI, CHAT, headers=signed(guarded, OPENAI))
    assert openai_error(client)[:2] == (403, "access_denied")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_needs_no_credentials(guarded, path):
    client, _ = guarded.send(path, b"", "GET")
    assert client.status == 200


def test_credentials_come_and_go_with_the_fleet(guarded):
    guarded.fleet(target("i-1"))
    guarded.send(PLAIN, CHAT)
    guarded.upstreams.answer()
    assert guarded.observer.ended[0].principal == "anonymous"


# --- endpoints ----------------------------------------------------------------------------------


def test_an_endpoint_that_does_not_exist_is_told_as_sagemaker_does(two):
    client, _ = two.send("/endpoints/other/invocations")
    assert native_error(client) == (
        400, b"ValidationError", "Endpoint other of account 123456789012 not found.",
    )  # fmt: skip
    client, _ = two.send("/endpoints/other/openai/v1/chat/completions", CHAT)
    assert openai_error(client)[0] == 400


def test_an_endpoint_without_variants_has_no_capacity_yet(bench):
    bench.gateway.apply_fleet(fleet_of(Endpoint("llm", False, ())))
    client, _ = bench.send()
    assert native_error(client) == (
        503, b"ServiceUnavailable", "Endpoint llm has no instance in service yet.",
    )  # fmt: skip
    assert client.header(b"retry-after") == b"1"


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        (NATIVE, [(b"x-amzn-sagemaker-inference-component", b"c")]),
        ("/endpoints/llm/inference-components/c/openai/v1/chat/completions", []),
    ],
)
def test_a_component_is_refused_where_there_are_none(two, path, headers):
    client, _ = two.send(path, CHAT, headers=headers)
    assert client.status == 400
    assert b"Inference Component Name header is not allowed" in client.body


def test_a_component_behind_the_endpoints_name_is_refused_on_the_plain_route(two):
    client, _ = two.send(PLAIN, CHAT.replace(b'"llm"', b'"llm/c"'))
    assert b"Inference Component Name header is not allowed" in client.body


def test_a_variant_can_be_asked_for(bench):
    routing = Routing()
    variants = (Variant("a", 1.0, routing, (target("i-1"),)), Variant("b", 0.0, routing, (target("i-2"),)))
    bench.fleet(variants=variants)
    bench.send(headers=[(b"x-amzn-sagemaker-target-variant", b"b")])
    assert bench.upstreams.last.target.target_id == "i-2"
    bench.upstreams.answer()
    client, _ = bench.send(headers=[(b"x-amzn-sagemaker-target-variant", b"c")])
    assert native_error(client)[2] == (
        "Variant c not found on endpoint llm of account 123456789012; it has: a, b."
    )


def test_without_being_asked_variants_are_drawn_by_weight(bench):
    routing = Routing()
    variants = (Variant("a", 0.0, routing, (target("i-1"),)), Variant("b", 1.0, routing, (target("i-2"),)))
    bench.fleet(variants=variants)
    for _ in range(20):
        bench.send()
        assert bench.upstreams.last.target.target_id == "i-2"
        bench.upstreams.answer()


def test_the_plain_route_needs_a_model_that_names_an_endpoint(two):
    client, _ = two.send(PLAIN, b'{"messages": []}')
    assert openai_error(client)[2] == (
        "The member 'model' is missing or empty; on this route it names the endpoint: llm."
    )


def test_at_most_ten_endpoints_are_told(bench):
    bench.gateway.apply_fleet(fleet_of(*(of(f"e{number:02}") for number in range(11))))
    client, _ = bench.send(PLAIN, b'{"model": ""}')
    assert openai_error(client)[2].endswith(": e00, e01, e02, e03, e04, e05, e06, e07, e08, e09, ….")


def test_without_endpoints_that_is_told(bench):
    client, _ = bench.send(PLAIN, b"{}")
    assert openai_error(client)[2].endswith("it names the endpoint: there is none yet.")


@pytest.mark.parametrize("path", [OPENAI, PLAIN])
def test_a_body_that_is_no_json_reaches_nobody(two, path):
    client, _ = two.send(path, b"{")
    status, code, message = openai_error(client)
    assert (status, code) == (400, "validation_error")
    assert "not valid JSON" in message


def test_a_native_header_over_its_limit_reaches_nobody(two):
    client, _ = two.send(headers=[(b"x-amzn-sagemaker-prefix-aware-id", b"x" * 65)])
    assert client.status == 400
    assert not two.upstreams.calls


# --- keys ---------------------------------------------------------------------------------------

EIGHT = tuple(target(f"i-{number}") for number in range(8))


def home(bench, *args, **more):
    bench.send(*args, **more)
    found = bench.upstreams.last.target.target_id
    bench.upstreams.answer()
    return found


@pytest.fixture
def eight(bench):
    return bench.fleet(*EIGHT, routing=PREFIX_AWARE)


def prompts(count, tail=b""):
    rng = Random(1)
    return [bytes(rng.choices(b"abcdef", k=1024)) + tail for _ in range(count)]


def test_equal_beginnings_go_to_one_place_and_different_ones_all_over(eight):
    first = [home(eight, body=prompt) for prompt in prompts(40)]
    assert [home(eight, body=prompt) for prompt in prompts(40, b"another end")] == first
    assert len(set(first)) == 8
    assert {record.reason for record in eight.observer.ended} == {"affinity"}


def test_the_prefix_aware_id_is_part_of_the_key(eight):
    header = b"x-amzn-sagemaker-prefix-aware-id"
    homes = {home(eight, headers=[(header, str(number).encode())]) for number in range(40)}
    assert len(homes) == 8


def test_a_stream_and_a_plain_call_of_one_prompt_go_to_one_place(eight):
    for prompt in prompts(10):
        assert home(eight, STREAM, prompt) == home(eight, NATIVE, prompt)


@pytest.mark.parametrize("path", [OPENAI, PLAIN])
def test_the_key_of_a_chat_is_its_text_not_its_spelling(eight, path):
    body = CHAT.replace(b"hello", b"\\u0068ello").replace(b'{"model"', b'{"n": 1, "model"')
    assert home(eight, path, body) == home(eight, path, CHAT)


def test_the_prompt_cache_key_is_part_of_the_key(eight):
    bodies = [CHAT.replace(b"{", b'{"prompt_cache_key": "%d", ' % number, 1) for number in range(40)]
    assert len({home(eight, OPENAI, body) for body in bodies}) == 8


def test_the_two_openai_routes_agree_on_an_endpoints_key(eight):
    for number in range(10):
        body = CHAT.replace(b"hello", b"hello %d" % number)
        assert home(eight, PLAIN, body) == home(eight, OPENAI, body)


def test_the_plain_route_reads_no_more_text_than_the_endpoints_own_prefix_length(bench):
    longer = Routing(RoutingStrategy.PREFIX_AWARE, prefix_length=4096, concurrency_threshold=8)
    bench.gateway.apply_fleet(
        fleet_of(of("llm", *EIGHT, routing=PREFIX_AWARE), of("other", target("o-1"), routing=longer))
    )
    for prompt in prompts(10):
        short, long = (CHAT.replace(b"hello", prompt + tail) for tail in (b"", b"another end"))
        assert home(bench, PLAIN, short) == home(bench, PLAIN, long) == home(bench, OPENAI, long)


def test_kv_aware_gets_the_whole_prompt_on_every_route_also_beside_endpoints_that_want_less(bench):
    kv = Routing(RoutingStrategy.KV_AWARE)
    bench.gateway.apply_fleet(
        fleet_of(of("llm", *EIGHT, routing=kv), of("other", target("o-1"), routing=PREFIX_AWARE))
    )
    for prompt in prompts(10):
        chat = CHAT.replace(b"hello", prompt * 8)
        asks = [(PLAIN, chat), (OPENAI, chat), (PLAIN, chat), (NATIVE, chat), (STREAM, chat)]
        homes = [home(bench, *ask) for ask in asks]
        reasons = [record.reason for record in bench.observer.ended[-5:]]
        assert reasons[1:3] + reasons[4:] == ["cached"] * 3
        assert len(set(homes[:3])) == len(set(homes[3:])) == 1
    held = [
        len(row.shelf.blocks) for row in bench.router.endpoints["llm"].variants["AllTraffic", 0].rows.values()
    ]
    assert sum(held) == 10 * (11 + 11)
    assert sum(count > 0 for count in held) >= 5, "they are spread"


def test_kv_aware_on_the_plain_route_is_not_confused_by_the_endpoints_that_want_less(bench):
    longer = Routing(RoutingStrategy.PREFIX_AWARE, prefix_length=4096, concurrency_threshold=8)
    bench.gateway.apply_fleet(fleet_of(of("llm", *EIGHT, routing=longer)))
    alone = [home(bench, PLAIN, CHAT.replace(b"hello", prompt * 8)) for prompt in prompts(10)]
    kv = of("kv", target("k-1"), routing=Routing(RoutingStrategy.KV_AWARE))
    bench.gateway.apply_fleet(fleet_of(of("llm", *EIGHT, routing=longer), kv, version=2))
    assert [home(bench, PLAIN, CHAT.replace(b"hello", prompt * 8)) for prompt in prompts(10)] == alone


def test_a_chat_without_text_has_no_key(eight):
    home(eight, OPENAI, b'{"messages": []}')
    assert eight.observer.ended[0].reason == "no_key"
    assert eight.observer.ended[0].rank == -1


def test_other_strategies_make_no_key(two):
    home(two, body=prompts(1)[0])
    assert two.observer.ended[0].reason == "least_outstanding"


# --- answers ------------------------------------------------------------------------------------


def test_every_answer_has_its_own_request_id_in_the_form_of_a_uuid(two):
    seen = set()
    for path, body, header in [
        (NATIVE, b"{}", b"x-amzn-requestid"),
        (OPENAI, CHAT, b"x-request-id"),
        (PLAIN, CHAT, b"x-request-id"),
    ]:
        client, _ = two.send(path, body)
        two.upstreams.answer()
        request_id = client.header(header)
        assert UUID.fullmatch(request_id)
        seen.add(request_id)
    client, _ = two.send("/nothing")
    seen.add(client.header(b"x-amzn-requestid"))
    assert len(seen) == 4
    assert {record.request_id.encode() for record in two.observer.ended} == seen


def test_two_gateways_do_not_give_the_same_ids(bench):
    clients = [FakeDownstream(), FakeDownstream()]
    for client in clients:
        Gateway(bench.desk).reject("/", Failure(Problem.HEAD_TOO_LARGE, "too large"), client)
    assert clients[0].header(b"x-amzn-requestid") != clients[1].header(b"x-amzn-requestid")


@pytest.mark.parametrize(
    ("path", "body", "seconds"),
    [
        (NATIVE, b"{}", FIRST_BYTE_NATIVE_S),
        (STREAM, b"{}", FIRST_BYTE_NATIVE_S),
        (PLAIN, CHAT, FIRST_BYTE_OPENAI_S),
    ],
)
def test_each_api_has_its_own_deadline(two, path, body, seconds):
    client, underway = two.send(path, body)
    underway.expire(two.clock.ns + int(seconds * 1e9) - 1)
    assert not client.sent
    underway.expire(two.clock.ns + int(seconds * 1e9))
    assert client.status == 424


@pytest.mark.parametrize("asked", [True, False])
def test_a_receipt_comes_only_when_asked_for(two, asked):
    client, _ = two.send(headers=[(b"x-warmroute-explain", b"1")] if asked else [])
    two.upstreams.answer()
    assert (client.header(b"x-warmroute-decision") is not None) is asked


def test_a_receipt_comes_with_an_error_too(two):
    client, _ = two.send(headers=[(b"x-warmroute-explain", b"1")])
    two.upstreams.answer(500)
    assert (
        json.loads(client.header(b"x-warmroute-decision"))["instance"] == two.upstreams.last.target.target_id
    )


def test_a_call_that_nobody_can_serve_ends_at_once(bench):
    bench.fleet()
    client, underway = bench.send(headers=[(b"x-warmroute-explain", b"1")])
    assert underway is None
    assert client.status == 503
    assert client.header(b"x-warmroute-decision") is None
    (record,) = bench.observer.ended
    assert (record.outcome, record.problem, record.endpoint) == ("failed", "no_capacity", "llm")


@pytest.mark.parametrize("path", ["/nothing", "/endpoints/other/invocations", "/v1/chat/completions"])
def test_a_refused_call_closes_where_the_caller_wants_it(two, path):
    client, _ = two.send(path, b"{", keep_alive=False)
    assert client.header(b"connection") == b"close"
    assert client.closed


def test_a_refused_call_is_on_record(two):
    two.clock.pass_s(1)
    two.send("/endpoints/other/invocations", b"12345")
    (record,) = two.observer.ended
    assert (record.outcome, record.problem, record.status) == ("rejected", "bad_request", 400)
    assert (record.route, record.bytes_in, record.attempts) == ("invocations", 5, 0)
    assert record.started_ns == record.ended_ns == two.clock.ns
    assert record.endpoint == "", "a label value is never a caller's text"


# --- what cannot be read ------------------------------------------------------------------------


def test_an_unreadable_request_is_told_in_the_form_its_path_promises(bench):
    failure = Failure(Problem.BODY_TOO_LARGE, "too large")
    native, openai = FakeDownstream(), FakeDownstream()
    bench.gateway.reject(NATIVE, failure, native)
    bench.gateway.reject(PLAIN, failure, openai)
    assert native_error(native) == (413, b"RequestEntityTooLargeException", "too large")
    assert openai_error(openai) == (413, "request_too_large", "too large")
    for client in (native, openai):
        assert client.header(b"connection") == b"close"
        assert (client.finished, client.closed) == (1, True)
    assert [record.route for record in bench.observer.ended] == ["unreadable"] * 2


# --- the fleet ----------------------------------------------------------------------------------


def test_an_older_fleet_changes_nothing(bench):
    assert bench.gateway.apply_fleet(fleet_of(of("llm", target("i-1")), version=2))
    assert not bench.gateway.apply_fleet(fleet_of(version=2))
    assert not bench.gateway.apply_fleet(fleet_of(version=1))
    bench.send()
    bench.upstreams.answer()


def test_a_new_fleet_changes_account_and_region_in_the_words(bench):
    bench.fleet(target("i-1"))
    bench.send()
    bench.upstreams.answer()
    moved = Fleet(2, "us-west-2", "999999999999", (of("llm", target("i-1")),))
    assert bench.gateway.apply_fleet(moved)
    client, _ = bench.send()
    bench.upstreams.answer(500, b"boom")
    assert "us-west-2" in native_error(client)[2]
    assert "999999999999" in native_error(client)[2]


def test_what_was_learnt_about_a_target_goes_with_it(bench):
    bench.fleet(target("i-1"))
    bench.desk.note_lacks_invocations(target("i-1"))
    bench.fleet(target("i-2"))
    assert not bench.desk.lacks_invocations(target("i-1"))


# --- inference components -----------------------------------------------------------------------
COMPONENT = b"x-amzn-sagemaker-inference-component"
COMPONENT_CHAT = "/endpoints/llm/inference-components/base/openai/v1/chat/completions"
COMPONENTS = (Component("base"), Component("idle"), Component("lora", "base"))


@pytest.fixture
def copies(bench):
    """Two instances with two copies of a component each, and a component without any."""
    made = tuple(
        target(f"i-{instance}/base/{copy}", instance_id=f"i-{instance}", component="base")
        for instance in (1, 2) for copy in (1, 2)
    )  # fmt: skip
    return bench.fleet(variants=(Variant("v", 1.0, PREFIX_AWARE, made, COMPONENTS),))


@pytest.mark.parametrize(
    ("path", "headers", "body"),
    [
        (NATIVE, [(COMPONENT, b"base")], b"{}"),
        (STREAM, [(COMPONENT, b"base")], b"{}"),
        (COMPONENT_CHAT, [], CHAT),
        (PLAIN, [], CHAT.replace(b'"llm"', b'"llm/base"')),
    ],
)
def test_a_component_is_named_on_every_route_in_its_own_way(copies, path, headers, body):
    client, _ = copies.send(path, body, headers=headers)
    assert copies.upstreams.last.target.component == "base"
    copies.upstreams.answer()
    assert client.status == 200
    record = copies.observer.ended[0]
    assert (record.component, record.adapter, record.variant) == ("base", "", "v")


@pytest.mark.parametrize(
    ("path", "headers", "body", "told"),
    [
        (NATIVE, [(COMPONENT, b"idle")], b"{}", native_error),
        (STREAM, [(COMPONENT, b"idle")], b"{}", native_error),
        (COMPONENT_CHAT.replace("base", "idle"), [], CHAT, openai_error),
        (PLAIN, [], CHAT.replace(b'"llm"', b'"llm/idle"'), openai_error),
    ],
)
def test_a_component_without_a_copy_has_no_capacity_at_once(copies, path, headers, body, told):
    client, underway = copies.send(path, body, headers=headers)
    assert underway is None
    status, code, message = told(client)
    assert (status, code) in ((400, b"ValidationError"), (400, "validation_error"))
    assert message.startswith("Inference Component has no capacity to process this request. Application")
    record = copies.observer.ended[0]
    assert (record.problem, record.component, record.variant) == ("no_copy", "idle", "v")
    assert client.header(b"x-amzn-invoked-production-variant") == (b"v" if told is native_error else None)


@pytest.mark.parametrize(
    ("path", "headers", "body"),
    [
        (NATIVE, [], b"{}"),
        (STREAM, [], b"{}"),
        (OPENAI, [], CHAT),
        (PLAIN, [], CHAT),
        (PLAIN, [], CHAT.replace(b'"llm"', b'"llm/"')),
    ],
)
def test_an_endpoint_of_components_wants_one_named(copies, path, headers, body):
    client, _ = copies.send(path, body, headers=headers)
    assert client.status == 400
    assert b"Inference Component Name header is required for endpoints to which you plan to" in client.body


def test_the_header_is_refused_on_the_openai_route_whatever_it_says(copies):
    client, _ = copies.send(COMPONENT_CHAT, CHAT, headers=[(COMPONENT, b"base")])
    assert openai_error(client)[0] == 400
    assert "header is not allowed on the OpenAI route" in openai_error(client)[2]


def test_the_error_of_a_copy_names_its_logs_and_the_copy(copies):
    client, _ = copies.send(NATIVE, b"{}", headers=[(COMPONENT, b"base")])
    copies.upstreams.answer(422, b"no")
    told = json.loads(client.body)
    copy = copies.upstreams.last.target.target_id
    assert told["LogStreamArn"].endswith(":log-group:/aws/sagemaker/InferenceComponents/base")
    assert f'client error (422) from {copy} with message "no"' in told["Message"]
    assert "group=/aws/sagemaker/InferenceComponents/base in account" in told["Message"]


def test_every_native_answer_names_the_variant_also_an_error(two):
    client, _ = two.send()
    two.upstreams.answer(500, b"no")
    assert (client.status, client.header(b"x-amzn-invoked-production-variant")) == (424, b"AllTraffic")


def test_a_prefix_keeps_to_a_copy_and_overflows_on_its_instance_first(copies):
    header = [(COMPONENT, b"base"), (b"x-warmroute-explain", b"1")]
    told = []
    clients = [copies.send(NATIVE, b"{}", headers=header)[0] for _ in range(7)]
    for call in list(copies.upstreams.calls):
        call.sink.head(200, [(b"content-type", b"application/json")], 2)
        call.sink.body(b"{}")
        call.sink.ended()
    told = [json.loads(client.header(b"x-warmroute-decision")) for client in clients]
    order = told[0]["order"]
    assert [each["copy"] for each in told] == [order[0]] * 2 + [order[1]] * 2 + [order[2]] * 2 + [order[3]]
    assert [each["rank"] for each in told] == [0, 0, 1, 1, 2, 2, 3]
    assert told[0]["instance"] == told[2]["instance"] != told[4]["instance"] == told[6]["instance"]
    assert {each["component"] for each in told} == {"base"}


def test_components_and_adapters_are_listed_as_models(copies):
    client, _ = copies.send("/v1/models", b"", "GET")
    models = json.loads(client.body)["data"]
    assert [(model["id"], model.get("parent")) for model in models] == [
        ("llm/base", None), ("llm/idle", None), ("llm/lora", "llm/base"),
    ]  # fmt: skip


def test_a_caller_who_names_no_model_is_told_what_there_is(copies):
    client, _ = copies.send(PLAIN, b"{}")
    assert openai_error(client)[2].endswith("it names the endpoint: llm/base, llm/idle, llm/lora.")


def test_what_callers_write_never_becomes_a_label(copies):
    for path, headers in (
        ("/endpoints/rubbish/invocations", []),
        (NATIVE, [(COMPONENT, b"rubbish")]),
        ("/endpoints/rubbish/openai/v1/chat/completions", []),
    ):
        copies.send(path, CHAT, headers=headers)
    assert "rubbish" not in str(copies.observer.ended)
