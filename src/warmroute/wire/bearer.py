"""Verify SageMaker's bearer tokens: a presigned URL in base64, minted without any network call.

Source: the token generator of sagemaker-core 2.27 (``sagemaker.core.token_generator``).
"""

import base64
import binascii
from typing import Final
from urllib.parse import unquote_to_bytes

from warmroute.core.errors import Failure, Problem
from warmroute.core.limits import BEARER_TOKEN_S_MAX
from warmroute.wire import signing
from warmroute.wire.headers import text
from warmroute.wire.signing import ALGORITHM, EMPTY_SHA256, SecretOf, SigningKeys

PREFIX: Final = "sagemaker-api-key-"
"""How every such token starts."""

_HOST: Final = "sagemaker.amazonaws.com"
_ACTION: Final = "CallWithBearerToken"
_SERVICES: Final = frozenset(("sagemaker",))
_UNSIGNED: Final = frozenset(("X-Amz-Signature", "Version"))  # Version is appended after signing
_FIXED: Final = {"Action": _ACTION, "X-Amz-Algorithm": ALGORITHM, "X-Amz-SignedHeaders": "host"}
_VARIABLE: Final = ("X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-Signature")


def verify(token: str, *, secret_of: SecretOf, region: str, now_s: float, keys: SigningKeys) -> str | Failure:
    """Verify a token.

    Args:
        token: Without ``Bearer``.
        secret_of: From an access key id to its secret; None for an unknown one.
        region: Our own; a token for another one is refused and both are named.
        now_s: Seconds since 1970.
        keys: Derived keys, kept between calls.

    Returns:
        The access key id. Else UNAUTHENTICATED for what is no such token or an unknown key, EXPIRED
        after its time, INVALID_SIGNATURE or INCOMPLETE_SIGNATURE for every other mismatch.

    Cost: about 20 µs.
    """
    query = _query(token)
    if isinstance(query, Failure):
        return query
    pairs = query.split("&")
    values = _values(pairs)
    if isinstance(values, Failure):
        return values
    scope = signing.read_scope(values["X-Amz-Credential"], region=region, services=_SERVICES)
    if isinstance(scope, Failure):
        return scope
    stamp = values["X-Amz-Date"]
    failure = signing.read_lifetime(
        stamp, values["X-Amz-Expires"], scope=scope, now_s=now_s, lifetime_s_max=BEARER_TOKEN_S_MAX
    )
    if failure is not None:
        return failure
    signed = "&".join(sorted(pair for pair in pairs if pair.partition("=")[0] not in _UNSIGNED))
    return signing.check(
        f"POST\n/\n{signed}\nhost:{_HOST}\n\nhost\n{EMPTY_SHA256}".encode("ascii"),
        scope=scope,
        stamp=stamp,
        signature=values["X-Amz-Signature"],
        secret_of=secret_of,
        keys=keys,
    )


def _not_a_token(reason: str) -> Failure:
    return Failure(
        Problem.UNAUTHENTICATED,
        f"The bearer token is not one that SageMaker's generate_token made: {reason}.",
    )


def _query(token: str) -> str | Failure:
    if not token.startswith(PREFIX):
        return _not_a_token(f"it does not start with '{PREFIX}'")
    try:
        url = base64.b64decode(token[len(PREFIX) :].encode("ascii"), validate=True).decode("ascii")
    except (binascii.Error, UnicodeError):
        return _not_a_token("what follows the prefix is not ASCII text in base64")
    place, mark, query = url.partition("?")
    if place != f"{_HOST}/" or not mark:
        return _not_a_token(f"it does not sign a call to '{_HOST}/'")
    return query


def _values(pairs: list[str]) -> dict[str, str] | Failure:
    values: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if name in values:
            return _not_a_token(f"it gives '{name}' more than once")
        values[name] = text(unquote_to_bytes(value))
    missing = [name for name in (*_FIXED, *_VARIABLE) if not values.get(name)]
    if missing:
        return _not_a_token(f"it lacks {', '.join(missing)}")
    for name, expected in _FIXED.items():
        if values[name] != expected:
            return _not_a_token(f"{name} must be '{expected}', got '{values[name][:64]}'")
    return values
