import pytest

from warmroute.wire import hop
from warmroute.wire.headers import collect

END_TO_END = [(b"content-type", b"application/json"), (b"accept", b"*/*"), (b"x-custom", b"1")]
HOP_BY_HOP = [
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"http2-settings",
]
CREDENTIALS = [
    b"authorization",
    b"x-api-key",
    b"api-key",
    b"cookie",
    b"x-amz-security-token",
    b"x-amz-date",
    b"x-amz-content-sha256",
]
TRACE = [b"traceparent", b"tracestate", b"baggage", b"x-request-id", b"x-amzn-trace-id", b"b3"]


def upstream(*fields):
    return hop.upstream_fields(list(fields), collect(list(fields)))


def test_end_to_end_fields_go_up_in_order_and_repeated_ones_stay_repeated():
    fields = [*END_TO_END, (b"x-custom", b"2")]
    assert upstream(*fields) == fields


@pytest.mark.parametrize("name", HOP_BY_HOP)
def test_hop_by_hop_fields_cross_in_neither_direction(name):
    assert upstream((name, b"x-nothing"), *END_TO_END) == END_TO_END
    assert hop.downstream_fields([(name, b"x-nothing"), *END_TO_END]) == END_TO_END


@pytest.mark.parametrize("name", CREDENTIALS)
def test_the_callers_credentials_never_go_up(name):
    assert upstream((name, b"secret"), *END_TO_END) == END_TO_END


@pytest.mark.parametrize("name", [b"host", b"content-length", b"expect"])
def test_what_is_said_anew_on_the_next_hop_does_not_go_up(name):
    assert upstream((name, b"1"), *END_TO_END) == END_TO_END


def test_our_own_headers_do_not_go_up():
    assert upstream((b"x-warmroute-explain", b"1"), *END_TO_END) == END_TO_END


@pytest.mark.parametrize(
    "name", ["adapter-identifier", "adapter-alias", "forwarded-api", "inference-component", "session-id"]
)
def test_a_caller_gives_containers_no_order_that_is_sagemakers_to_give(name):
    assert upstream((f"x-amzn-sagemaker-{name}".encode(), b"1"), *END_TO_END) == END_TO_END


def test_a_field_that_connection_lists_does_not_go_up():
    listed = (b"connection", b"close , X-Custom")
    assert upstream(listed, *END_TO_END) == END_TO_END[:2]


def test_fields_listed_by_a_repeated_connection_do_not_go_up():
    listed = [(b"connection", b"accept"), (b"connection", b"x-custom")]
    assert upstream(*listed, *END_TO_END) == END_TO_END[:1]


def test_answer_fields_come_down_in_lower_case_and_in_order():
    fields = [(b"Content-Type", b"text/plain"), (b"X-Two", b"B"), (b"X-Two", b"a")]
    expected = [(b"content-type", b"text/plain"), (b"x-two", b"B"), (b"x-two", b"a")]
    assert hop.downstream_fields(fields) == expected


@pytest.mark.parametrize("name", [b"Content-Length", b"Server", b"Date", b"Set-Cookie", b"Transfer-Encoding"])
def test_what_is_the_instances_own_does_not_come_down(name):
    assert hop.downstream_fields([(name, b"1"), *END_TO_END]) == END_TO_END


def test_a_field_that_the_answers_connection_lists_does_not_come_down():
    listed = [(b"Connection", b"Accept"), (b"connection", b"X-CUSTOM")]
    assert hop.downstream_fields([*listed, *END_TO_END]) == END_TO_END[:1]


@pytest.mark.parametrize("name", TRACE)
def test_request_ids_and_trace_context_always_cross(name):
    assert upstream((name, b"1")) == [(name, b"1")]
    assert hop.downstream_fields([(name, b"1")]) == [(name, b"1")]
