"""Calls of the server's APIs: JSON in, JSON out, signed when the server asks for it.

No SDK is between: what ``--json`` prints is what the server answered. Signatures are botocore's.
"""

import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from warmroute.cli.failure import EXIT_UNREACHABLE, CommandFailed, Refused
from warmroute.cli.server import Credentials, Server

JsonObject = dict[str, Any]

SAGEMAKER: Final = "SageMaker"
AUTOSCALING: Final = "AnyScaleFrontendService"
OPERATOR: Final = "Warmroute"
_SIGNING_NAMES: Final = {AUTOSCALING: "application-autoscaling"}
ANSWER_S: Final = 60.0
"""The server holds DescribeEndpoint for up to 50 s while an endpoint changes."""
CONTROL_AWAY_S: Final = 10.0
"""How long a control process that is just being started is waited for."""
_AGAIN_S: Final = 0.5
_BODY_BYTES_MAX: Final = 64 * 1024 * 1024
_WANTS_SIGNATURE: Final = "Missing Authentication Token"


class Api:
    """The APIs of one server.

    It asks without a signature first, and signs from then on when the server wants that: a server
    without access keys needs none, and is shown none.
    """

    def __init__(
        self,
        server: Server,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            server: Where, and with which credentials.
            clock: Seconds that only grow.
            sleep: Waits.
        """
        self.server = server
        self._clock = clock
        self._sleep = sleep
        self._credentials: Credentials | None = None

    def call(self, operation: str, members: Mapping[str, Any] | None = None) -> JsonObject:
        """Call an operation of SageMaker's.

        Raises:
            Refused: The server refused it.
            CommandFailed: Nobody answers, or the answer is not the server's.
        """
        return self.call_service(SAGEMAKER, operation, members)

    def call_operator(self, operation: str, members: Mapping[str, Any]) -> JsonObject:
        """Call one of warmroute's own operations. See ``call``."""
        return self.call_service(OPERATOR, operation, members)

    def call_service(
        self, service: str, operation: str, members: Mapping[str, Any] | None = None
    ) -> JsonObject:
        """Call an operation of a service, named as in ``X-Amz-Target``. See ``call``."""
        body = json.dumps(members or {}).encode()
        deadline_s = self._clock() + CONTROL_AWAY_S
        while True:
            try:
                return self._signed_if_asked(service, operation, body)
            except Refused as error:
                if error.code != "ServiceUnavailable" or self._clock() >= deadline_s:
                    raise
            self._sleep(_AGAIN_S)

    def pages(
        self,
        operation: str,
        member: str,
        members: Mapping[str, Any] | None = None,
        *,
        service: str = SAGEMAKER,
    ) -> Iterator[JsonObject]:
        """Yield what a List or Describe operation gives, page after page.

        Args:
            operation: Its name.
            member: Of the answer, holds the list.
            members: Of the request.
            service: Whose operation it is.
        """
        request = dict(members or {})
        while True:
            answer = self.call_service(service, operation, request)
            yield from answer.get(member, ())
            if not answer.get("NextToken"):
                return
            request["NextToken"] = answer["NextToken"]

    def _signed_if_asked(self, service: str, operation: str, body: bytes) -> JsonObject:
        try:
            return self._send(service, operation, body)
        except Refused as error:
            if self._credentials is not None or _WANTS_SIGNATURE not in error.message:
                raise _explained(error, self._credentials) from None
        self._credentials = self.server.credentials()
        if self._credentials is None:
            raise CommandFailed(
                f"{self.server.url} asks for credentials and there are none: set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, name a profile with --profile, or run where warmroute.toml has "
                "auth.access_keys."
            )
        return self._signed_if_asked(service, operation, body)

    def _send(self, service: str, operation: str, body: bytes) -> JsonObject:
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": f"{service}.{operation}",
            "User-Agent": "warmroute-cli",
        }
        if self._credentials is not None:
            headers = self._sign(service, headers, body)
        status, answer = self._exchange(headers, body)
        document = self._parsed(answer, status)
        if status == 200:
            return document
        code = str(document.get("__type", f"HTTP status {status}")).rpartition("#")[2]
        raise Refused(code, str(document.get("message") or document.get("Message") or code))

    def _parsed(self, answer: bytes, status: int) -> JsonObject:
        try:
            document = json.loads(answer) if answer.strip() else {}
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise CommandFailed(
                f"{self.server.url} answered with status {status} and no JSON: it is not warmroute's public "
                "listener; give its URL with --endpoint-url."
            )
        return document

    def _sign(self, service: str, headers: dict[str, str], body: bytes) -> dict[str, str]:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials as Signer

        own = self._credentials
        assert own is not None, "asked for before"
        request: Any = AWSRequest(method="POST", url=f"{self.server.url}/", data=body, headers=headers)
        signer = Signer(own.access_key_id, own.secret_access_key, own.token)
        name = _SIGNING_NAMES.get(service, "sagemaker")
        SigV4Auth(signer, name, self.server.region).add_auth(request)
        return dict(request.headers.items())

    def _exchange(self, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        parts = urlsplit(self.server.url)
        assert parts.hostname is not None, "checked when the URL was read"
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=self.server.environment.get("AWS_CA_BUNDLE"))
            connection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=ANSWER_S, context=context
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=ANSWER_S)
        try:
            connection.request("POST", "/", body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(_BODY_BYTES_MAX)
        except (OSError, http.client.HTTPException) as error:
            raise CommandFailed(_unreachable(self.server.url, error), status=EXIT_UNREACHABLE) from None
        finally:
            connection.close()


def _unreachable(url: str, error: Exception) -> str:
    match error:
        case ConnectionRefusedError():
            return (
                f"Connection refused: is warmroute serve running at {url}? "
                "Start it, or give the URL of another with --endpoint-url or WARMROUTE_ENDPOINT_URL."
            )
        case TimeoutError():
            return f"{url} did not answer in {ANSWER_S:g} s; is it warmroute's public listener?"
        case OSError():
            return f"{url} cannot be reached: {error.strerror or error}; --endpoint-url names another."
        case _:
            text = str(error) or type(error).__name__
            return f"{url} does not speak HTTP as warmroute does ({text}); give its URL with --endpoint-url."


def _explained(error: Refused, credentials: Credentials | None) -> Refused:
    """Say of a refused signature whose it was; the secret is never part of it."""
    signature = error.code in (
        "UnrecognizedClientException",
        "InvalidSignatureException",
        "IncompleteSignature",
        "AccessDeniedException",
    )
    if credentials is None or not signature:
        return error
    return Refused(
        error.code,
        f"{error.message} Signed with access key {credentials.access_key_id} from {credentials.source}.",
    )
