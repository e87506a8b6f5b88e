import base64
from datetime import timedelta
from urllib.parse import parse_qs

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st
from sagemaker.core.token_generator import generate_token

from warmroute.core.errors import Failure, Problem
from warmroute.core.limits import CLOCK_SKEW_S_MAX
from warmroute.wire import bearer
from warmroute.wire.signing import SigningKeys, parse_time

SECRETS = {"AK": "secret"}


class Provider:
    def __init__(self, *credentials):
        self._credentials = Credentials(*credentials)

    def load(self):
        return self._credentials


def mint(region="us-east-1", credentials=("AK", "secret"), expiry=timedelta(hours=12)) -> str:
    return generate_token(region, Provider(*credentials), expiry)


def opened(token: str) -> str:
    return base64.b64decode(token.removeprefix(bearer.PREFIX)).decode()


def closed(url: str) -> str:
    return bearer.PREFIX + base64.b64encode(url.encode()).decode()


def minted_at(token: str) -> float:
    moment = parse_time(parse_qs(opened(token).partition("?")[2])["X-Amz-Date"][0])
    assert moment is not None
    return moment


def checked(token: str, *, now_s=None, region="us-east-1"):
    moment = minted_at(token) if now_s is None else now_s
    return bearer.verify(token, secret_of=SECRETS.get, region=region, now_s=moment, keys=SigningKeys())


def refusal(result) -> tuple[Problem, str]:
    assert isinstance(result, Failure), result
    return result.problem, result.message


# --- What the token generator makes --------------------------------------------------------------


def test_a_token_of_the_generator_is_accepted_until_its_last_moment():
    token = mint()
    assert checked(token) == "AK"
    assert checked(token, now_s=minted_at(token) + 43_199) == "AK"
    problem, message = refusal(checked(token, now_s=minted_at(token) + 43_200))
    assert problem is Problem.EXPIRED
    assert "good for 43200 seconds" in message


def test_a_token_of_session_credentials_is_accepted():
    token = mint(credentials=("AK", "secret", "to/k+en=="))
    assert "X-Amz-Security-Token=to%2Fk%2Ben%3D%3D" in opened(token)
    assert checked(token) == "AK"


def test_a_token_of_half_a_second_is_dead_when_it_is_made():
    token = mint(expiry=timedelta(seconds=0.5))
    assert "X-Amz-Expires=0&" in opened(token)
    assert refusal(checked(token))[0] is Problem.EXPIRED


def test_a_token_may_come_from_a_clock_that_is_a_little_ahead():
    token = mint()
    assert checked(token, now_s=minted_at(token) - CLOCK_SKEW_S_MAX) == "AK"
    assert (
        refusal(checked(token, now_s=minted_at(token) - CLOCK_SKEW_S_MAX - 1))[0] is Problem.INVALID_SIGNATURE
    )


def test_a_token_for_another_region_is_refused_and_both_are_named():
    problem, message = refusal(checked(mint(region="eu-west-1")))
    assert problem is Problem.INVALID_SIGNATURE
    assert "'eu-west-1'" in message
    assert "'us-east-1'" in message


def test_a_token_of_an_unknown_key_and_one_of_a_wrong_secret_are_refused():
    assert refusal(checked(mint(credentials=("AK1", "secret"))))[0] is Problem.UNAUTHENTICATED
    assert refusal(checked(mint(credentials=("AK", "guess"))))[0] is Problem.INVALID_SIGNATURE


# --- What somebody else might make of one --------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("X-Amz-Expires=43200", "X-Amz-Expires=43199"),
        ("X-Amz-Security-Token=t", "X-Amz-Security-Token=u"),
        ("Version=1", "Extra=1&Version=1"),
    ],
)
def test_a_changed_token_is_refused(old, new):
    url = opened(mint(credentials=("AK", "secret", "t")))
    assert old in url
    assert refusal(checked(closed(url.replace(old, new))))[0] is Problem.INVALID_SIGNATURE


def test_the_version_is_not_signed():
    url = opened(mint())
    assert checked(closed(url.replace("&Version=1", ""))) == "AK"
    assert checked(closed(url.replace("&Version=1", "&Version=2"))) == "AK"


def test_a_token_that_lives_longer_than_twelve_hours_is_refused():
    request = AWSRequest(
        method="POST",
        url="https://sagemaker.amazonaws.com/",
        headers={"host": "sagemaker.amazonaws.com"},
        params={"Action": "CallWithBearerToken"},
    )
    SigV4QueryAuth(Credentials("AK", "secret"), "sagemaker", "us-east-1", expires=43_201).add_auth(request)
    problem, message = refusal(checked(closed(request.url.removeprefix("https://"))))
    assert problem is Problem.INVALID_SIGNATURE
    assert "at most 43200 seconds, got 43201" in message


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "sagemaker.amazonaws.com/",
            "sagemaker.example.com/",
            "does not sign a call to 'sagemaker.amazonaws.com/'",
        ),
        ("?", "", "does not sign a call"),
        (
            "CallWithBearerToken",
            "DeleteEndpoint",
            "Action must be 'CallWithBearerToken', got 'DeleteEndpoint'",
        ),
        ("AWS4-HMAC-SHA256", "AWS4-ECDSA", "X-Amz-Algorithm must be"),
        ("SignedHeaders=host", "SignedHeaders=host%3Bx", "X-Amz-SignedHeaders must be 'host', got 'host;x'"),
        ("X-Amz-Date=", "Date=", "it lacks X-Amz-Date"),
        ("Action=CallWithBearerToken&", "", "it lacks Action"),
        ("&Version=1", "&Version=1&Version=1", "'Version' more than once"),
        ("Action=", "Action=CallWithBearerToken&Action=", "'Action' more than once"),
    ],
)
def test_what_the_generator_would_not_make_is_refused_and_says_why(old, new, words):
    url = opened(mint())
    token = closed(url.replace(old, new, 1))
    problem, message = refusal(checked(token, now_s=minted_at(closed(url))))
    assert problem is Problem.UNAUTHENTICATED
    assert words in message


def test_a_token_for_another_service_is_refused():
    token = closed(opened(mint()).replace("%2Fsagemaker%2F", "%2Fs3%2F"))
    assert "'sagemaker', not 's3'" in refusal(checked(token))[1]


@pytest.mark.parametrize("token", ["", "sk-1234", "sagemaker-api-key", "Sagemaker-api-key-eA=="])
def test_another_prefix_is_no_token(token):
    problem, message = refusal(checked(token, now_s=0))
    assert problem is Problem.UNAUTHENTICATED
    assert "does not start with 'sagemaker-api-key-'" in message


@pytest.mark.parametrize("rest", ["x", "!!!!", "é", "w6k=", "eA=", " eA==", "eA==\n", "_-8="])
def test_what_is_not_ascii_in_standard_base64_is_no_token(rest):
    problem, message = refusal(checked(bearer.PREFIX + rest, now_s=0))
    assert problem is Problem.UNAUTHENTICATED
    assert "not ASCII text in base64" in message


@given(
    st.text(max_size=80) | st.text(max_size=80).map(lambda text: f"sagemaker.amazonaws.com/?{text}"),
    st.booleans(),
)
def test_any_text_is_refused_with_the_one_failure(text, wrapped):
    token = bearer.PREFIX + base64.b64encode(text.encode("utf-8", "replace")).decode() if wrapped else text
    assert isinstance(checked(token, now_s=1796040000.0), Failure)


PARTS = opened(mint()).partition("?")[2].split("&")


@given(st.lists(st.sampled_from(PARTS) | st.text(st.characters(codec="ascii"), max_size=12), max_size=12))
def test_no_other_choice_of_a_tokens_parts_is_accepted_but_the_same_ones(parts):
    token = closed("sagemaker.amazonaws.com/?" + "&".join(parts))
    result = checked(token, now_s=minted_at(closed("x/?" + "&".join(PARTS))))
    signed = [part for part in PARTS if not part.startswith("Version=")]
    if isinstance(result, str):
        assert sorted(part for part in parts if not part.startswith("Version")) == sorted(signed)
