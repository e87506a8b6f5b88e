"""What SigV4 requests and bearer tokens have in common: scopes, times, signing keys, the signature.

Source: AWS's description of Signature Version 4; texts of refusals as AWS words them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from hmac import compare_digest, digest
from typing import Final

from warmroute.core.errors import Failure, Problem
from warmroute.core.limits import CLOCK_SKEW_S_MAX, CREDENTIAL_CHARACTERS_MAX, SIGNING_KEYS_MAX

ALGORITHM: Final = "AWS4-HMAC-SHA256"
TERMINATOR: Final = "aws4_request"
EMPTY_SHA256: Final = sha256(b"").hexdigest()

SecretOf = Callable[[str], str | None]
"""From an access key id to its secret; None for an unknown one."""


class SigningKeys:
    """Keeps derived signing keys: four HMACs that stay the same for a day.

    Args:
        entries_max: Keys kept, at least 1; the oldest one is dropped for a new one.
    """

    __slots__ = ("_entries_max", "_keys")

    def __init__(self, entries_max: int = SIGNING_KEYS_MAX) -> None:
        self._entries_max = entries_max
        self._keys: dict[tuple[str, str, str, str], bytes] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def get(self, secret: str, scope: "Scope") -> bytes:
        """Return the signing key of a secret for a scope; the secret is part of the lookup."""
        name = (secret, scope.date, scope.region, scope.service)
        key = self._keys.get(name)
        if key is None:
            key = f"AWS4{secret}".encode()
            for part in (scope.date, scope.region, scope.service, TERMINATOR):
                key = digest(key, part.encode(), "sha256")
            if len(self._keys) >= self._entries_max:
                del self._keys[next(iter(self._keys))]
            self._keys[name] = key
        return key


@dataclass(frozen=True, slots=True)
class Scope:
    """Who signed, and for what.

    Attributes:
        access_key_id: Of the signer.
        date: ``YYYYMMDD``.
        region: As the signer sees it.
        service: Signing name of the service.
    """

    access_key_id: str
    date: str
    region: str
    service: str


def read_scope(credential: str, *, region: str, services: frozenset[str]) -> Scope | Failure:
    """Read a ``Credential`` value and check that it was meant for us.

    Args:
        credential: ``KEYID/YYYYMMDD/REGION/SERVICE/aws4_request``.
        region: Our own.
        services: Signing names accepted.

    Returns:
        The scope; or INCOMPLETE_SIGNATURE for another form, INVALID_SIGNATURE for another Region or
        service, which names both.
    """
    if len(credential) > CREDENTIAL_CHARACTERS_MAX:  # too long to be one, and to be kept
        return _read_scope(credential, region, services)
    return _known_scope(credential, region, services)


def _read_scope(credential: str, region: str, services: frozenset[str]) -> Scope | Failure:
    parts = credential.rsplit("/", 4)
    if len(parts) != 5 or not all(parts):
        return Failure(
            Problem.INCOMPLETE_SIGNATURE,
            f"Credential must have the form KEYID/YYYYMMDD/REGION/SERVICE/{TERMINATOR}, "
            f"got '{credential[:128]}'.",
        )
    scope = Scope(*parts[:4])
    if parts[4] != TERMINATOR:
        return Failure(
            Problem.INVALID_SIGNATURE,
            f"Credential should be scoped with a valid terminator: '{TERMINATOR}', not '{parts[4]}'.",
        )
    if scope.region != region:
        return Failure(
            Problem.INVALID_SIGNATURE,
            f"Credential should be scoped to a valid region: this router is '{region}', "
            f"the request was signed for '{scope.region}'.",
        )
    if scope.service not in services:
        allowed = " or ".join(f"'{service}'" for service in sorted(services))
        return Failure(
            Problem.INVALID_SIGNATURE,
            f"Credential should be scoped to correct service: {allowed}, not '{scope.service}'.",
        )
    return scope


_known_scope = lru_cache(maxsize=SIGNING_KEYS_MAX)(_read_scope)


@lru_cache(maxsize=64)  # callers sign at the present second
def parse_time(stamp: str) -> float | None:
    """Return ``YYYYMMDDThhmmssZ`` as seconds since 1970; None where it is no such time."""
    if len(stamp) != 16 or stamp[8] != "T" or stamp[15] != "Z" or not stamp.isascii():
        return None
    digits = stamp[:8] + stamp[9:15]
    if not digits.isdigit():
        return None
    try:
        moment = datetime(
            int(digits[:4]), int(digits[4:6]), int(digits[6:8]),
            int(digits[8:10]), int(digits[10:12]), int(digits[12:]), tzinfo=UTC,
        )  # fmt: skip
    except ValueError:
        return None
    return moment.timestamp()


def format_time(moment_s: float) -> str:
    """Return seconds since 1970 as ``YYYYMMDDThhmmssZ``."""
    return datetime.fromtimestamp(moment_s, UTC).strftime("%Y%m%dT%H%M%SZ")


def read_time(stamp: str, scope: Scope) -> float | Failure:
    """Read a signature's time, which must lie on its scope's day.

    Returns:
        Seconds since 1970; or INCOMPLETE_SIGNATURE for no time, INVALID_SIGNATURE for another day.
    """
    signed_s = parse_time(stamp)
    if signed_s is None:
        return Failure(
            Problem.INCOMPLETE_SIGNATURE, f"The signature's time must be YYYYMMDDThhmmssZ, got '{stamp}'."
        )
    if stamp[:8] != scope.date:
        return Failure(
            Problem.INVALID_SIGNATURE,
            f"Date in Credential scope does not match the request's: '{scope.date}' and '{stamp}'.",
        )
    return signed_s


def too_early(signed_s: float, now_s: float) -> Failure | None:
    """Return the refusal of a signature from the future beyond the allowed skew; None where it is fine."""
    if signed_s - now_s <= CLOCK_SKEW_S_MAX:
        return None
    return Failure(
        Problem.INVALID_SIGNATURE,
        f"Signature not yet current: {format_time(signed_s)} is still later than "
        f"{format_time(now_s + CLOCK_SKEW_S_MAX)} ({format_time(now_s)} + {CLOCK_SKEW_S_MAX // 60} min.)",
    )


def read_lifetime(
    stamp: str, expires: str, *, scope: Scope, now_s: float, lifetime_s_max: int
) -> Failure | None:
    """Check that now lies in the life of something presigned.

    Args:
        stamp: When it was signed, ``YYYYMMDDThhmmssZ``.
        expires: Its life in whole seconds, as it was written.
        scope: Whose day the stamp must lie on.
        now_s: Seconds since 1970.
        lifetime_s_max: Longest life allowed, in seconds.

    Returns:
        None where it is valid now; else the refusal, EXPIRED (with both times) after its end.
    """
    signed_s = read_time(stamp, scope)
    if isinstance(signed_s, Failure):
        return signed_s
    if not (expires.isascii() and expires.isdigit() and len(expires) <= 10):
        return Failure(
            Problem.INCOMPLETE_SIGNATURE, f"X-Amz-Expires must be a number of seconds, got '{expires}'."
        )
    lifetime_s = int(expires)
    if lifetime_s > lifetime_s_max:
        return Failure(
            Problem.INVALID_SIGNATURE,
            f"X-Amz-Expires must be at most {lifetime_s_max} seconds, got {expires}.",
        )
    if lifetime_s == 0 or now_s >= signed_s + lifetime_s:
        return Failure(
            Problem.EXPIRED,
            f"Signature expired: it was good for {lifetime_s} seconds from {stamp}, "
            f"until {format_time(signed_s + lifetime_s)}; it is now {format_time(now_s)}.",
        )
    return too_early(signed_s, now_s)


def check(
    canonical_request: bytes,
    *,
    scope: Scope,
    stamp: str,
    signature: str,
    secret_of: SecretOf,
    keys: SigningKeys,
) -> str | Failure:
    """Compare a signature with the one it should be, in constant time.

    Args:
        canonical_request: As SigV4 defines it.
        scope: From ``read_scope``.
        stamp: The signature's time as it was written.
        signature: 64 hexadecimal digits as they were sent.
        secret_of: Finds the secret.
        keys: Derived keys.

    Returns:
        The access key id; or UNAUTHENTICATED for an unknown key, INVALID_SIGNATURE for another
        signature.
    """
    secret = secret_of(scope.access_key_id)
    if secret is None:
        return Failure(
            Problem.UNAUTHENTICATED,
            "The security token included in the request is invalid: "
            f"there is no access key '{scope.access_key_id}' here.",
        )
    to_sign = (
        f"{ALGORITHM}\n{stamp}\n{scope.date}/{scope.region}/{scope.service}/{TERMINATOR}\n"
        f"{sha256(canonical_request).hexdigest()}"
    )
    expected = digest(keys.get(secret, scope), to_sign.encode(), "sha256").hex()
    if not compare_digest(expected.encode(), signature.encode("utf-8", "replace")):
        return Failure(
            Problem.INVALID_SIGNATURE,
            "The request signature we calculated does not match the signature you provided. "
            "Check your AWS Secret Access Key and signing method.",
        )
    return scope.access_key_id
