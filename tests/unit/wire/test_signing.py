import pytest
from botocore.auth import SigV4Auth
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from warmroute.core.errors import Failure, Problem
from warmroute.core.limits import CLOCK_SKEW_S_MAX
from warmroute.wire import signing
from warmroute.wire.signing import Scope, SigningKeys

SCOPE = Scope("AK", "20261130", "us-east-1", "sagemaker")
NOON_S = 1796040000.0  # 2026-11-30 12:00:00 UTC
SERVICES = frozenset(("sagemaker", "application-autoscaling"))


def refusal(result) -> tuple[Problem, str]:
    assert isinstance(result, Failure)
    return result.problem, result.message


# --- Keys ----------------------------------------------------------------------------------------


def test_a_signing_key_signs_as_botocore_does():
    class Request:
        context = {"timestamp": "20261130T120000Z"}

    expected = SigV4Auth(Credentials("AK", "secret"), "sagemaker", "us-east-1").signature("text", Request())
    key = SigningKeys().get("secret", SCOPE)
    assert signing.digest(key, b"text", "sha256").hex() == expected


def test_another_secret_for_the_same_scope_has_another_key():
    keys = SigningKeys()
    assert keys.get("old", SCOPE) != keys.get("new", SCOPE)
    assert keys.get("old", SCOPE) == keys.get("old", SCOPE)
    assert len(keys) == 2


def test_no_more_keys_are_kept_than_allowed_and_the_oldest_goes_first():
    keys = SigningKeys(entries_max=2)
    for secret in ("1", "11", "2"):
        keys.get(secret, SCOPE)
    assert len(keys) == 2
    assert [name[0] for name in keys._keys] == ["11", "2"]


# --- Scope ---------------------------------------------------------------------------------------


def scope(credential: str):
    return signing.read_scope(credential, region="us-east-1", services=SERVICES)


def test_a_scope_is_read_from_a_credential():
    assert scope("AK/20261130/us-east-1/sagemaker/aws4_request") == SCOPE


def test_an_access_key_id_may_contain_slashes():
    assert scope("A/K/20261130/us-east-1/sagemaker/aws4_request").access_key_id == "A/K"


@pytest.mark.parametrize(
    "credential", ["", "AK", "AK/20261130/us-east-1/sagemaker", "/1/us-east-1/sagemaker/aws4_request", "////"]
)
def test_a_credential_of_another_form_is_incomplete(credential):
    problem, message = refusal(scope(credential))
    assert problem is Problem.INCOMPLETE_SIGNATURE
    assert "KEYID/YYYYMMDD/REGION/SERVICE/aws4_request" in message


@pytest.mark.parametrize(
    ("credential", "words"),
    [
        ("AK/20261130/eu-west-1/sagemaker/aws4_request", ["'us-east-1'", "'eu-west-1'"]),
        ("AK/20261130/us-east-1/s3/aws4_request", ["'application-autoscaling' or 'sagemaker'", "'s3'"]),
        ("AK/20261130/us-east-1/sagemaker/aws5_request", ["'aws4_request'", "'aws5_request'"]),
    ],
)
def test_a_scope_for_somebody_else_is_refused_and_both_are_named(credential, words):
    problem, message = refusal(scope(credential))
    assert problem is Problem.INVALID_SIGNATURE
    assert all(word in message for word in words)


# --- Time ----------------------------------------------------------------------------------------


def test_times_are_read_and_written():
    assert signing.parse_time("20261130T120000Z") == NOON_S
    assert signing.format_time(NOON_S) == "20261130T120000Z"


@pytest.mark.parametrize(
    "stamp",
    ["", "20261130", "20261130T120000", "20261130 120000Z", "20261130T120000+", "20261330T120000Z",
     "20261131T120000Z", "20261130T240000Z", "20261130T126000Z", "2026113XT120000Z", "２0261130T120000Z"],
)  # fmt: skip
def test_what_is_no_time_has_no_value(stamp):
    assert signing.parse_time(stamp) is None
    assert refusal(signing.read_time(stamp, SCOPE))[0] is Problem.INCOMPLETE_SIGNATURE


def test_a_time_on_another_day_than_the_scopes_is_refused():
    problem, message = refusal(signing.read_time("20261201T000000Z", SCOPE))
    assert problem is Problem.INVALID_SIGNATURE
    assert "'20261130' and '20261201T000000Z'" in message


def test_the_future_is_allowed_up_to_the_skew_and_not_beyond():
    assert signing.too_early(NOON_S + CLOCK_SKEW_S_MAX, NOON_S) is None
    problem, message = refusal(signing.too_early(NOON_S + CLOCK_SKEW_S_MAX + 1, NOON_S))
    assert problem is Problem.INVALID_SIGNATURE
    assert message == (
        "Signature not yet current: 20261130T120501Z is still later than 20261130T120500Z "
        "(20261130T120000Z + 5 min.)"
    )


# --- Lifetime ------------------------------------------------------------------------------------


def lifetime(expires: str, now_s: float, stamp: str = "20261130T120000Z"):
    return signing.read_lifetime(stamp, expires, scope=SCOPE, now_s=now_s, lifetime_s_max=600)


def test_a_presigned_thing_is_good_until_the_last_moment():
    assert lifetime("60", NOON_S) is None
    assert lifetime("60", NOON_S + 59.9) is None
    problem, message = refusal(lifetime("60", NOON_S + 60))
    assert problem is Problem.EXPIRED
    assert message == (
        "Signature expired: it was good for 60 seconds from 20261130T120000Z, until 20261130T120100Z; "
        "it is now 20261130T120100Z."
    )


def test_a_life_of_no_seconds_is_over_even_for_a_slow_clock():
    assert refusal(lifetime("0", NOON_S - 1))[0] is Problem.EXPIRED


def test_the_longest_life_is_allowed_and_a_longer_one_is_not():
    assert lifetime("600", NOON_S) is None
    problem, message = refusal(lifetime("601", NOON_S))
    assert problem is Problem.INVALID_SIGNATURE
    assert message == "X-Amz-Expires must be at most 600 seconds, got 601."


@pytest.mark.parametrize("expires", ["", "-1", "1.5", "1e3", "٣", "9" * 11])
def test_a_life_that_is_no_number_of_seconds_is_incomplete(expires):
    assert refusal(lifetime(expires, NOON_S))[0] is Problem.INCOMPLETE_SIGNATURE


def test_a_life_that_starts_later_or_on_no_day_is_refused():
    assert refusal(lifetime("60", NOON_S - 301))[0] is Problem.INVALID_SIGNATURE
    assert refusal(lifetime("60", NOON_S, stamp="yesterday"))[0] is Problem.INCOMPLETE_SIGNATURE


@given(st.text(max_size=20), st.text(max_size=12), st.floats(0, 4e9))
def test_any_text_is_a_life_or_the_one_failure(stamp, expires, now_s):
    result = lifetime(expires, now_s, stamp)
    assert result is None or isinstance(result, Failure)


# --- Comparing -----------------------------------------------------------------------------------


def check(signature: str, secret_of=lambda key: "secret"):
    return signing.check(
        b"canonical",
        scope=SCOPE,
        stamp="20261130T120000Z",
        signature=signature,
        secret_of=secret_of,
        keys=SigningKeys(),
    )


def test_an_unknown_key_is_named():
    problem, message = refusal(check("0" * 64, lambda key: None))
    assert problem is Problem.UNAUTHENTICATED
    assert "'AK'" in message


@pytest.mark.parametrize("signature", ["", "0" * 64, "é", "\ud800"])
def test_any_other_signature_is_invalid(signature):
    assert refusal(check(signature))[0] is Problem.INVALID_SIGNATURE
