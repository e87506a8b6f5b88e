"""Who is calling: every way to prove it, and who that is."""

from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from warmroute.core.errors import Failure, Problem
from warmroute.core.fleet import AccessKey, ApiKey
from warmroute.wire import bearer, sigv4
from warmroute.wire.headers import Headers, text
from warmroute.wire.signing import ALGORITHM, SigningKeys
from warmroute.wire.sigv4 import SignedRequest

ANONYMOUS: Final = "anonymous"
"""The principal of every call where no credentials are configured."""

_ALGORITHM: Final = ALGORITHM.encode("ascii")
_TOKEN_PREFIX: Final = bearer.PREFIX.encode("ascii")


class Authenticator:
    """Checks callers against one fleet's credentials.

    Args:
        access_keys: For SigV4 and for the bearer tokens minted from them.
        api_keys: For the plain ``/v1`` routes only.
        region: That signatures must name.
    """

    __slots__ = ("_api_keys", "_keys", "_principals", "_region", "_secrets", "required")

    def __init__(self, access_keys: Iterable[AccessKey], api_keys: Iterable[ApiKey], region: str) -> None:
        self._secrets: dict[str, str] = {}
        self._principals: dict[str, str] = {}
        for key in access_keys:
            self._secrets[key.access_key_id] = key.secret_access_key
            self._principals[key.access_key_id] = key.principal
        self._api_keys = tuple((sha256(key.key.encode()).digest(), key.principal) for key in api_keys)
        self._region = region
        self._keys = SigningKeys()
        self.required = bool(self._secrets or self._api_keys)
        """Whether any credentials are configured. Without any, every caller is let in."""

    def native(
        self, request: SignedRequest, now_s: float, services: frozenset[str] = sigv4.SERVICES
    ) -> str | Failure:
        """Return the principal of a native or control call, which is signed with SigV4.

        Args:
            request: As it came.
            now_s: Seconds since 1970.
            services: Names of the service that it may be signed for.

        Returns:
            The principal; or the reason for a refusal, see ``wire.sigv4.verify``.
        """
        if not self.required:
            return ANONYMOUS
        return self._principal(
            sigv4.verify(
                request,
                secret_of=self._secrets.get,
                region=self._region,
                now_s=now_s,
                keys=self._keys,
                services=services,
            )
        )

    def openai(self, authorization: bytes | None, now_s: float) -> str | Failure:
        """Return the principal of a call to ``/endpoints/…/openai``, which takes bearer tokens only.

        Args:
            authorization: The header's value; None where there is none.
            now_s: Seconds since 1970.

        Returns:
            The principal; ACCESS_DENIED for SigV4, as SageMaker answers; else the reason for a
            refusal, see ``wire.bearer.verify``.
        """
        if not self.required:
            return ANONYMOUS
        value = authorization or b""
        if value.startswith(_ALGORITHM):
            return Failure(
                Problem.ACCESS_DENIED,
                "This route takes a bearer token made by SageMaker's generate_token, not a SigV4 signature.",
            )
        token = _bearer(value)
        if token is None:
            return _missing("'Authorization: Bearer TOKEN', with a token made by SageMaker's generate_token")
        return self._token(text(token), now_s)

    def plain(self, headers: Headers, now_s: float) -> str | Failure:
        """Return the principal of a call to ``/v1``.

        Args:
            headers: Of the request: ``Authorization: Bearer KEY``, or Anthropic's ``x-api-key: KEY``,
                where KEY is an API key or a SageMaker bearer token.
            now_s: Seconds since 1970.

        Returns:
            The principal; or UNAUTHENTICATED, or the reason for which a SageMaker token is refused.

        Cost: one SHA-256, and a comparison with every configured key so that the time taken tells
        nothing about which one comes close.
        """
        if not self.required:
            return ANONYMOUS
        key = _bearer(headers.get(b"authorization", b"")) or headers.get(b"x-api-key", b"")
        if not key:
            return _missing("'Authorization: Bearer KEY' or 'x-api-key: KEY'")
        if key.startswith(_TOKEN_PREFIX):
            return self._token(text(key), now_s)
        given = sha256(key).digest()
        found = None
        for known, principal in self._api_keys:
            if compare_digest(known, given):
                found = principal
        if found is None:
            return Failure(Problem.UNAUTHENTICATED, "The API key is not one of those configured here.")
        return found

    def _token(self, token: str, now_s: float) -> str | Failure:
        return self._principal(
            bearer.verify(
                token, secret_of=self._secrets.get, region=self._region, now_s=now_s, keys=self._keys
            )
        )

    def _principal(self, verified: str | Failure) -> str | Failure:
        return verified if isinstance(verified, Failure) else self._principals[verified]


def _bearer(value: bytes) -> bytes | None:
    scheme, _, token = value.partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else None


def _missing(expected: str) -> Failure:
    return Failure(Problem.UNAUTHENTICATED, f"The request carries no credentials; it needs {expected}.")
