from datetime import timedelta

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st
from sagemaker.core.token_generator import generate_token

from warmroute.auth.principals import ANONYMOUS, Authenticator
from warmroute.core.errors import Failure, Problem
from warmroute.core.fleet import AccessKey, ApiKey
from warmroute.wire import bearer
from warmroute.wire.signing import parse_time
from warmroute.wire.sigv4 import SCALING_SERVICES, SignedRequest

ACCESS_KEYS = (AccessKey("AK", "secret", "team-a"), AccessKey("AK1", "other"))
API_KEYS = (ApiKey("app", "key-1"), ApiKey("app-11", "key-11"), ApiKey("é", "clé"))


class Provider:
    def load(self):
        return Credentials("AK", "secret")


@pytest.fixture(scope="module")
def token() -> str:
    return generate_token("us-east-1", Provider(), timedelta(hours=1))


@pytest.fixture(scope="module")
def now_s(token) -> float:
    import base64

    url = base64.b64decode(token.removeprefix(bearer.PREFIX)).decode()
    moment = parse_time(url.partition("X-Amz-Date=")[2][:16])
    assert moment is not None
    return moment


def signed(credentials=("AK", "secret")) -> tuple[SignedRequest, float]:
    request = AWSRequest(method="POST", url="http://r.test/endpoints/ep/invocations", data=b"{}")
    SigV4Auth(Credentials(*credentials), "sagemaker", "us-east-1").add_auth(request)
    headers = {name.lower().encode(): value.encode() for name, value in request.headers.items()}
    moment = parse_time(headers[b"x-amz-date"].decode())
    assert moment is not None
    return SignedRequest(
        "POST", "/endpoints/ep/invocations", "", headers | {b"host": b"r.test"}, b"{}"
    ), moment


def signed_for_scaling() -> tuple[SignedRequest, float]:
    request = AWSRequest(method="POST", url="http://r.test/", data=b"{}")
    SigV4Auth(Credentials("AK", "secret"), "application-autoscaling", "us-east-1").add_auth(request)
    headers = {name.lower().encode(): value.encode() for name, value in request.headers.items()}
    moment = parse_time(headers[b"x-amz-date"].decode())
    assert moment is not None
    return SignedRequest("POST", "/", "", headers | {b"host": b"r.test"}, b"{}"), moment


UNSIGNED = SignedRequest("POST", "/", "", {}, b"")
ALL = Authenticator(ACCESS_KEYS, API_KEYS, "us-east-1")


def problem(result) -> Problem:
    assert isinstance(result, Failure), result
    return result.problem


# --- Without credentials -------------------------------------------------------------------------


def test_without_configured_credentials_everybody_is_anonymous():
    authenticator = Authenticator((), (), "us-east-1")
    assert not authenticator.required
    assert authenticator.native(UNSIGNED, 0) == ANONYMOUS
    assert authenticator.openai(None, 0) == ANONYMOUS
    assert authenticator.plain({}, 0) == ANONYMOUS


@pytest.mark.parametrize(
    "authenticator",
    [Authenticator(ACCESS_KEYS, (), "us-east-1"), Authenticator((), API_KEYS, "us-east-1"), ALL],
)
def test_with_any_credentials_no_route_lets_anybody_in(authenticator):
    assert authenticator.required
    assert problem(authenticator.native(UNSIGNED, 0)) is Problem.UNAUTHENTICATED
    assert problem(authenticator.openai(None, 0)) is Problem.UNAUTHENTICATED
    assert problem(authenticator.plain({}, 0)) is Problem.UNAUTHENTICATED


# --- Native --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("credentials", "principal"), [(("AK", "secret"), "team-a"), (("AK1", "other"), "root")]
)
def test_a_signed_call_is_its_keys_principal(credentials, principal):
    assert ALL.native(*signed(credentials)) == principal


def test_a_key_does_not_sign_with_another_keys_secret():
    assert problem(ALL.native(*signed(("AK", "other")))) is Problem.INVALID_SIGNATURE


def test_an_api_key_is_no_access_key():
    assert problem(Authenticator((), API_KEYS, "us-east-1").native(*signed())) is Problem.UNAUTHENTICATED


# --- /endpoints/…/openai -------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER "])
def test_a_bearer_token_is_its_keys_principal(token, now_s, scheme):
    assert ALL.openai(f"{scheme} {token}".encode(), now_s) == "team-a"


def test_sigv4_is_denied_on_the_openai_route():
    request, now_s = signed()
    assert problem(ALL.openai(request.headers[b"authorization"], now_s)) is Problem.ACCESS_DENIED


def test_an_expired_token_is_expired(token, now_s):
    assert problem(ALL.openai(f"Bearer {token}".encode(), now_s + 3600)) is Problem.EXPIRED


@pytest.mark.parametrize("authorization", [b"", b"Basic eA==", b"Bearer", b"Bearer key-1", b"\xff"])
def test_anything_else_is_unauthenticated_on_the_openai_route(authorization):
    assert problem(ALL.openai(authorization, 0)) is Problem.UNAUTHENTICATED


# --- /v1 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {b"authorization": b"Bearer key-11"},
        {b"x-api-key": b"key-11"},
        {b"authorization": b"Basic x", b"x-api-key": b"key-11"},
    ],
)
def test_an_api_key_is_its_principal_in_either_header(headers):
    assert ALL.plain(headers, 0) == "app-11"


def test_a_key_outside_ascii_is_compared_as_utf8():
    assert ALL.plain({b"x-api-key": "clé".encode()}, 0) == "é"


@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
def test_a_bearer_token_is_accepted_on_the_plain_route_too(token, now_s, header):
    value = f"Bearer {token}" if header == "authorization" else token
    assert ALL.plain({header.encode(): value.encode()}, now_s) == "team-a"
    assert problem(ALL.plain({header.encode(): value.encode()}, now_s + 3600)) is Problem.EXPIRED


@pytest.mark.parametrize("key", [b"key", b"key-2", b"key-111", b"KEY-1", b"AK", b"secret", b"\xff"])
def test_a_key_that_is_nearly_right_is_wrong(key):
    assert problem(ALL.plain({b"authorization": b"Bearer " + key}, 0)) is Problem.UNAUTHENTICATED


def test_no_failure_repeats_what_was_sent():
    for key in (b"key-2", b"sagemaker-api-key-c2VjcmV0"):
        failure = ALL.plain({b"x-api-key": key}, 0)
        assert isinstance(failure, Failure)
        assert key.decode() not in failure.message


@given(
    st.binary(max_size=60),
    st.sampled_from([b"", b"Bearer ", b"Bearer sagemaker-api-key-", b"AWS4-HMAC-SHA256 "]),
)
def test_any_bytes_are_refused_with_the_one_failure(value, scheme):
    given_value = scheme + value
    assert isinstance(ALL.openai(given_value, 1796040000.0), Failure)
    assert isinstance(ALL.plain({b"authorization": given_value}, 1796040000.0), Failure)
    request = SignedRequest("POST", "/", "", {b"authorization": given_value, b"host": b"x"}, b"")
    assert isinstance(ALL.native(request, 1796040000.0), Failure)


# --- Application Auto Scaling --------------------------------------------------------------------


def test_a_signature_for_autoscaling_is_good_for_its_calls_alone():
    request, now = signed_for_scaling()
    assert ALL.native(request, now, SCALING_SERVICES) == "team-a"
    assert problem(ALL.native(request, now)) is Problem.INVALID_SIGNATURE


def test_a_signature_for_sagemaker_is_not_good_for_calls_of_autoscaling():
    request, now = signed()
    assert problem(ALL.native(request, now, SCALING_SERVICES)) is Problem.INVALID_SIGNATURE
