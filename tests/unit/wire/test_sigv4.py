from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.credentials import Credentials
from botocore.session import Session
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from warmroute.core.errors import Failure, Problem
from warmroute.core.limits import CLOCK_SKEW_S_MAX
from warmroute.wire import signing
from warmroute.wire.signing import SigningKeys
from warmroute.wire.sigv4 import SCALING_SERVICES, SERVICES, SignedRequest, verify

SECRETS = {"AK": "secret", "AK1": "other"}
BASE = "http://127.0.0.1:8080"


def sign(
    *,
    url=f"{BASE}/endpoints/ep/invocations",
    method="POST",
    body=b'{"messages":[]}',
    service="sagemaker",
    region="us-east-1",
    headers=(),
    credentials=("AK", "secret"),
    signer=SigV4Auth,
    **options,
) -> SignedRequest:
    request = AWSRequest(method=method, url=url, data=body, headers=dict(headers))
    signer(Credentials(*credentials), service, region, **options).add_auth(request)
    return as_received(request.method, request.url, request.headers, body)


def as_received(method, url, headers, body) -> SignedRequest:
    parts = urlsplit(url)
    fields = {
        name.lower().encode(): value if isinstance(value, bytes) else value.encode()
        for name, value in headers.items()
    }
    fields.setdefault(b"host", parts.netloc.encode())
    return SignedRequest(method, parts.path, parts.query, fields, body)


def signed_at(request: SignedRequest) -> float:
    stamp = request.headers.get(b"x-amz-date", b"").decode()
    if not stamp:
        stamp = request.query.partition("X-Amz-Date=")[2][:16]
    moment = signing.parse_time(stamp)
    assert moment is not None
    return moment


def checked(request: SignedRequest, *, now_s=None, region="us-east-1", services=SERVICES):
    return verify(
        request,
        secret_of=SECRETS.get,
        region=region,
        now_s=signed_at(request) if now_s is None else now_s,
        keys=SigningKeys(),
        services=services,
    )


def refusal(result) -> tuple[Problem, str]:
    assert isinstance(result, Failure), result
    return result.problem, result.message


# --- What botocore sends -------------------------------------------------------------------------


@pytest.fixture
def sent():
    """Requests as botocore's clients prepare them, up to the socket."""

    def send(service, operation, **arguments):
        session = Session()
        session.set_credentials("AK", "secret", arguments.pop("token", None))
        client = session.create_client(service, "us-east-1", endpoint_url=BASE)
        caught = []

        def answer(request, **_):
            caught.append(request)
            return AWSResponse(request.url, 200, {}, None)

        client.meta.events.register("before-send.*", answer)
        try:
            getattr(client, operation)(**arguments)
        except AttributeError:
            assert caught  # our answer has no body to read; the request is what is wanted
        request = caught[0]
        body = request.body or b""
        return as_received(
            request.method, request.url, request.headers, body.encode() if isinstance(body, str) else body
        )

    return send


def test_an_invocation_of_boto3_is_accepted(sent):
    request = sent(
        "sagemaker-runtime",
        "invoke_endpoint",
        EndpointName="ep",
        Body=b"x" * 32768,
        ContentType="application/json",
        Accept="a,  b",
        PrefixAwareId="tenant  1",
        CustomAttributes="trace=1",
    )
    assert b"x-amzn-sagemaker-prefix-aware-id" in request.headers[b"authorization"]
    assert checked(request) == "AK"


def test_a_stream_and_an_odd_endpoint_name_of_boto3_are_accepted(sent):
    request = sent(
        "sagemaker-runtime", "invoke_endpoint_with_response_stream", EndpointName="a b%é", Body=b""
    )
    assert "%25" in request.path
    assert checked(request) == "AK"


def test_a_session_token_of_boto3_is_accepted(sent):
    request = sent("sagemaker-runtime", "invoke_endpoint", EndpointName="ep", Body=b"x", token="to/k+en==")
    assert b"x-amz-security-token" in request.headers[b"authorization"]
    assert checked(request) == "AK"


@pytest.mark.parametrize(
    ("service", "operation", "arguments", "services", "others"),
    [
        ("sagemaker", "list_endpoints", {}, SERVICES, SCALING_SERVICES),
        (
            "application-autoscaling",
            "describe_scaling_policies",
            {"ServiceNamespace": "sagemaker"},
            SCALING_SERVICES,
            SERVICES,
        ),
    ],
)
def test_control_calls_of_boto3_are_accepted_for_their_own_service_only(
    sent, service, operation, arguments, services, others
):
    request = sent(service, operation, **arguments)
    assert b"x-amz-target" in request.headers
    assert checked(request, services=services) == "AK"
    problem, message = refusal(checked(request, services=others))
    assert problem is Problem.INVALID_SIGNATURE
    assert "scoped to correct service" in message


# --- Canonical forms, as botocore makes them -----------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/a",
        "/a/",
        "/a.b/c~d-e_f",
        "/a//b",
        "//",
        "/./a",
        "/a/../b/",
        "/..",
        "/a/..",
        "/a%20b",
        "/%2F",
        "/a+b",
        "/a:b@c",
        "/...",
        "/.a",
    ],
)
def test_every_path_is_normalised_as_botocore_does(path):
    assert checked(sign(url=BASE + path)) == "AK"


@pytest.mark.parametrize("path", ["/endpoints/é", "/a b", "/日"])
def test_a_path_that_is_not_encoded_is_taken_byte_by_byte(path):
    request = sign(url=BASE + path)
    assert checked(replace(request, path=path.encode().decode("latin-1"))) == "AK"


def test_a_path_in_text_beyond_single_bytes_is_taken_as_utf8():
    assert checked(sign(url=f"{BASE}/日")) == "AK"


@pytest.mark.parametrize("query", ["b=2&a=1", "a=2&a=1", "a=&b", "a=%20&A=~", "a=%2F", "x=1&x=1", "&a=1"])
def test_every_query_is_sorted(query):
    parameters = sign(url=f"{BASE}/models?{query.removeprefix('&')}", method="GET", body=b"")
    assert checked(replace(parameters, query=query)) == "AK"


def test_characters_of_the_query_are_encoded_in_one_way():
    request = sign(url=f"{BASE}/models?a=%7E%20%2B%E6%97%A5", method="GET", body=b"")
    refused = checked(replace(request, query="a=~%20+%e6%97%a5"))
    assert refusal(refused)[0] is Problem.INVALID_SIGNATURE  # botocore signs what it was given
    canonical = sign(url=f"{BASE}/models?a=~%20%2B%E6%97%A5", method="GET", body=b"")
    assert checked(canonical) == "AK"
    assert checked(replace(canonical, query="a=%7e%20+%e6%97%a5")) == "AK"


@pytest.mark.parametrize("value", ["a  b", " a ", "a\tb", '"a  b"', ",", ""])
def test_white_space_in_header_values_is_folded(value):
    assert checked(sign(headers={"X-Custom": value})) == "AK"


def test_unsigned_headers_added_on_the_way_do_not_matter():
    request = sign()
    request.headers |= {b"user-agent": b"x", b"x-forwarded-for": b"y", b"x-amzn-trace-id": b"z"}
    assert checked(request) == "AK"


def test_spacing_and_order_in_the_authorization_header_do_not_matter():
    request = sign()
    algorithm, rest = request.headers[b"authorization"].split(b" ", 1)
    credential, headers, signature = rest.split(b", ")
    request.headers[b"authorization"] = b" %b   %b,%b,  %b " % (algorithm, signature, headers, credential)
    assert checked(request) == "AK"


def test_a_date_header_stands_in_for_x_amz_date():
    request = sign(headers={"Date": "to be set by botocore"})
    assert b"x-amz-date" not in request.headers
    from email.utils import parsedate_to_datetime

    now_s = parsedate_to_datetime(request.headers[b"date"].decode()).timestamp()
    assert checked(request, now_s=now_s) == "AK"


# --- What is refused -----------------------------------------------------------------------------


def test_a_request_without_a_signature_is_unauthenticated():
    request = sign()
    del request.headers[b"authorization"]
    problem, message = refusal(checked(request))
    assert problem is Problem.UNAUTHENTICATED
    assert message.startswith("Missing Authentication Token")


@pytest.mark.parametrize(
    "change",
    [
        {"body": b'{"messages":[] }'},
        {"method": "GET"},
        {"path": "/endpoints/other/invocations"},
        {"query": "a=1"},
    ],
)
def test_a_changed_request_is_refused(change):
    problem, message = refusal(checked(replace(sign(), **change)))
    assert problem is Problem.INVALID_SIGNATURE
    assert "does not match the signature you provided" in message


@pytest.mark.parametrize("header", [b"host", b"x-amzn-sagemaker-target-variant", b"x-amz-date"])
def test_a_changed_header_is_refused(header):
    request = sign(headers={"X-Amzn-SageMaker-Target-Variant": "a"})
    now_s = signed_at(request)
    end = b"2Z" if request.headers[header].endswith(b"1Z") else b"1Z"
    request.headers[header] = request.headers[header][:-2] + end
    assert refusal(checked(request, now_s=now_s))[0] is Problem.INVALID_SIGNATURE


def test_a_missing_signed_header_is_named():
    request = sign(headers={"X-Custom": "a"})
    del request.headers[b"x-custom"]
    assert refusal(checked(request)) == (
        Problem.INVALID_SIGNATURE,
        "SignedHeaders names 'x-custom', which the request does not have.",
    )


def test_a_wrong_secret_and_an_unknown_key_are_refused():
    assert refusal(checked(sign(credentials=("AK", "guess"))))[0] is Problem.INVALID_SIGNATURE
    problem, message = refusal(checked(sign(credentials=("AK2", "secret"))))
    assert problem is Problem.UNAUTHENTICATED
    assert "'AK2'" in message


def test_another_region_is_refused_and_both_are_named():
    problem, message = refusal(checked(sign(region="eu-west-1")))
    assert problem is Problem.INVALID_SIGNATURE
    assert "'eu-west-1'" in message
    assert "'us-east-1'" in message


def test_another_service_is_refused():
    assert "'s3'" in refusal(checked(sign(service="s3")))[1]


@pytest.mark.parametrize("off_s", [-CLOCK_SKEW_S_MAX, 0, CLOCK_SKEW_S_MAX])
def test_a_clock_may_be_off_by_the_skew(off_s):
    request = sign()
    assert checked(request, now_s=signed_at(request) + off_s) == "AK"


def test_an_older_signature_is_refused_with_both_times():
    request = sign()
    now_s = signed_at(request) + CLOCK_SKEW_S_MAX + 1
    problem, message = refusal(checked(request, now_s=now_s))
    assert problem is Problem.INVALID_SIGNATURE
    assert message == (
        f"Signature expired: {request.headers[b'x-amz-date'].decode()} is now earlier than "
        f"{signing.format_time(now_s - 300)} ({signing.format_time(now_s)} - 5 min.)"
    )


def test_a_signature_from_the_future_is_refused():
    request = sign()
    problem, message = refusal(checked(request, now_s=signed_at(request) - CLOCK_SKEW_S_MAX - 1))
    assert problem is Problem.INVALID_SIGNATURE
    assert message.startswith("Signature not yet current")


def test_an_operation_that_is_not_signed_is_refused():
    request = sign(url=f"{BASE}/")
    request.headers[b"x-amz-target"] = b"SageMaker.DeleteEndpoint"
    problem, message = refusal(checked(request))
    assert problem is Problem.INCOMPLETE_SIGNATURE
    assert "x-amz-target" in message


@pytest.mark.parametrize(
    "declared", [b"UNSIGNED-PAYLOAD", b"STREAMING-UNSIGNED-PAYLOAD-TRAILER", b"0" * 64, b""]
)
def test_a_payload_that_is_not_signed_is_refused(declared):
    request = sign(headers={"X-Amz-Content-SHA256": declared.decode()})
    problem, message = refusal(checked(request))
    assert problem is Problem.INVALID_SIGNATURE
    assert message.startswith("X-Amz-Content-SHA256 must be the SHA-256 of the body")


def test_a_payload_may_declare_its_own_hash():
    hash_of_body = signing.sha256(b'{"messages":[]}').hexdigest()
    assert checked(sign(headers={"X-Amz-Content-SHA256": hash_of_body})) == "AK"


CREDENTIAL = b"Credential=AK/20261130/us-east-1/sagemaker/aws4_request"


@pytest.mark.parametrize(
    ("authorization", "words"),
    [
        (b"", "must start with 'AWS4-HMAC-SHA256', got ''"),
        (b"Bearer x", "got 'Bearer'"),
        (b"AWS4-HMAC-SHA256", "lacks Credential, SignedHeaders, Signature"),
        (b"AWS4-HMAC-SHA256 Signature=, SignedHeaders=host", "lacks Credential, Signature;"),
        (b"AWS4-HMAC-SHA256 Credential=AK, SignedHeaders=host, Signature=0", "Credential must have the form"),
        (b"AWS4-HMAC-SHA256 %b, SignedHeaders=x-amz-date, Signature=0" % CREDENTIAL, "must contain 'host'"),
        (b"AWS4-HMAC-SHA256 %b, SignedHeaders=host; date, Signature=0" % CREDENTIAL, "joined with ';'"),
        (b"AWS4-HMAC-SHA256 %b, SignedHeaders=host;\xe9, Signature=0" % CREDENTIAL, "joined with ';'"),
    ],
)
def test_an_unreadable_signature_is_incomplete_and_says_why(authorization, words):
    headers = {b"authorization": authorization, b"x-amz-date": b"20261130T120000Z", b"host": b"x"}
    problem, message = refusal(checked(SignedRequest("POST", "/", "", headers, b"")))
    assert problem is Problem.INCOMPLETE_SIGNATURE
    assert words in message


@pytest.mark.parametrize(
    "date", [None, b"", b"yesterday", b"Mon, 99 Nov 2026 12:00:00 GMT", b"Fri, 31 Dec 9999 23:59:59 -2300"]
)
def test_a_request_without_a_readable_time_is_incomplete(date):
    headers = {
        b"authorization": b"AWS4-HMAC-SHA256 %b, SignedHeaders=host, Signature=0" % CREDENTIAL,
        b"host": b"x",
    }
    if date is not None:
        headers[b"date"] = date
    problem, _ = refusal(checked(SignedRequest("POST", "/", "", headers, b""), now_s=1796040000.0))
    assert problem is Problem.INCOMPLETE_SIGNATURE


# --- Signed in the query -------------------------------------------------------------------------


def presigned(expires=600, **arguments) -> SignedRequest:
    return sign(method="GET", body=b"", signer=SigV4QueryAuth, expires=expires, **arguments)


def test_a_presigned_request_is_accepted_for_its_lifetime():
    request = presigned(url=f"{BASE}/models?b=2&a=%20x")
    now_s = signed_at(request)
    assert checked(request, now_s=now_s + 599) == "AK"
    assert refusal(checked(request, now_s=now_s + 600))[0] is Problem.EXPIRED
    assert refusal(checked(request, now_s=now_s - 301))[0] is Problem.INVALID_SIGNATURE


def test_a_presigned_request_lives_a_week_at_most():
    assert checked(presigned(expires=604_800)) == "AK"
    assert refusal(checked(presigned(expires=604_801)))[0] is Problem.INVALID_SIGNATURE


def test_a_presigned_session_token_is_accepted():
    assert checked(presigned(credentials=("AK", "secret", "to/k+en=="))) == "AK"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("X-Amz-Algorithm=AWS4-HMAC-SHA256", "X-Amz-Algorithm=AWS4-ECDSA", "X-Amz-Algorithm must be"),
        ("X-Amz-Algorithm=AWS4-HMAC-SHA256", "", "lacks X-Amz-Algorithm"),
        ("X-Amz-Expires=600", "X-Amz-Expires=", "lacks X-Amz-Expires"),
        ("X-Amz-Expires=600", "X-Amz-Expires=600&X-Amz-Expires=600", "more than once"),
        ("X-Amz-Expires=600", "X-Amz-Expires=6x", "number of seconds"),
        ("%2Faws4_request", "", "Credential must have the form"),
    ],
)
def test_an_unreadable_presigned_request_is_incomplete(old, new, words):
    request = presigned()
    assert old in request.query
    problem, message = refusal(checked(replace(request, query=request.query.replace(old, new))))
    assert problem is Problem.INCOMPLETE_SIGNATURE
    assert words in message


def test_a_changed_presigned_request_is_refused():
    request = presigned()
    assert refusal(checked(replace(request, query=request.query + "&a=1")))[0] is Problem.INVALID_SIGNATURE


# --- Any bytes -----------------------------------------------------------------------------------

VALUES = st.binary(max_size=30) | st.sampled_from(
    [b"AWS4-HMAC-SHA256 " + CREDENTIAL + b", SignedHeaders=host, Signature=0", b"20261130T120000Z", b"0" * 64]
)
NAMES = st.sampled_from(
    [b"authorization", b"x-amz-date", b"date", b"host", b"x-amz-content-sha256", b"x-amz-target"]
)
PARAMETERS = st.sampled_from(
    [
        "X-Amz-Signature=0",
        "X-Amz-Algorithm=AWS4-HMAC-SHA256",
        "X-Amz-Date=20261130T120000Z",
        "X-Amz-Expires=60",
        "X-Amz-Credential=AK/20261130/us-east-1/sagemaker/aws4_request",
        "X-Amz-SignedHeaders=host",
        "%",
        "%ff=%zz",
    ]
)


@given(
    st.text(max_size=5),
    st.text(max_size=20),
    st.text(max_size=20) | st.lists(PARAMETERS, max_size=8).map("&".join),
    st.dictionaries(NAMES, VALUES, max_size=6),
    st.binary(max_size=10),
)
def test_any_request_gives_a_key_or_the_one_failure(method, path, query, headers, body):
    result = checked(SignedRequest(method, path, query, headers, body), now_s=1796040000.0)
    assert isinstance(result, Failure)
    assert result.message
