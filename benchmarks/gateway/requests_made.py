"""The requests that are sent: chat bodies of a given size, with the credentials a route asks for."""

import base64
import functools
import json
import random
from enum import Enum

from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

DISTINCT = 200
"""Different bodies in a run: more than instances times anything that could be cached by accident."""
REGION = "us-east-1"
ACCESS_KEY, SECRET_KEY = "AKIDBENCHMARK", "benchmark-secret-key"
VOCABULARY = (
    "the valve report shift pump alarm of filter a intake was were closed open and nobody read before after "
    "during which night morning crew manual page section pressure rose fell to nine eleven minutes until "
    "operator noted that value in ledger because schedule had been changed without notice by plant office "
    "d\u00e9bit"
)


class Credential(Enum):
    """How a request says who sends it."""

    NONE = "none"
    SIGV4 = "SigV4 signature over the whole body, as boto3 makes it"
    TOKEN = "SageMaker bearer token, as generate_token makes it"


@functools.lru_cache(maxsize=8)
def _text(length: int, seed: int) -> str:
    """Return English-like text, quotes and line ends included: they are what JSON parsers must look at."""
    rng = random.Random(seed)
    words = VOCABULARY.split()
    parts: list[str] = []
    size = 0
    while size < length:
        sentence = " ".join(rng.choices(words, k=rng.randint(6, 18))).capitalize()
        ending = rng.choices((". ", '."\n', "?\n\n", "; ", ": "), weights=(80, 6, 6, 4, 4))[0]
        parts.append(sentence + ending)
        size += len(parts[-1])
    return "".join(parts)[:length]


def chat_body(size: int, *, number: int) -> bytes:
    """Return a chat request of about ``size`` bytes: a long system text of its own, a short question.

    Args:
        size: Bytes of the whole body; it comes out exact to a few bytes.
        number: Which of the distinct bodies; it stands at the beginning of the text, so prefixes differ.
    """
    base = _text(1 << 19, 1)
    shift = number * 997
    head = f"Document {number}. "

    def encode(system: str) -> bytes:
        messages = [
            {"role": "system", "content": system},
            {"role": "user", "content": f"Question {number}: what does the report say of the valve?"},
        ]
        body = {"model": "llm", "messages": messages, "max_tokens": 128, "temperature": 0.2}
        return json.dumps(body, ensure_ascii=False).encode()

    room = size - len(encode(head))
    if room <= 0:
        return encode(head)
    guess = encode(head + base[shift : shift + room])
    return encode(head + base[shift : shift + room - max(0, len(guess) - size)])


def stream_body(size: int, *, number: int) -> bytes:
    """Return the same, asking for a stream."""
    return chat_body(size - 15, number=number)[:-1] + b', "stream": true}'


def request_head(
    path: str, credential: Credential, port: int, body: bytes, *, user: int | None = None
) -> bytes:
    """Return request line and headers for a body, signed now (a signature is good for five minutes).

    Args:
        path: Of the request.
        credential: What it carries.
        port: Of the proxy, for the Host header, which signatures cover.
        body: The body.
        user: Number for an ``X-User-Id`` header; None for none.
    """
    host = f"127.0.0.1:{port}"
    headers = {"Host": host, "User-Agent": "benchmark/1", "Accept": "application/json"}
    headers["Content-Type"] = "application/json"
    if user is not None:
        headers["X-User-Id"] = f"user-{user}"
    match credential:
        case Credential.NONE:
            pass
        case Credential.SIGV4:
            signed = AWSRequest("POST", f"http://{host}{path}", headers=headers, data=body)
            SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), "sagemaker", REGION).add_auth(signed)
            headers = dict(signed.headers.items())
        case Credential.TOKEN:
            headers["Authorization"] = f"Bearer {bearer_token()}"
    lines = [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([f"POST {path} HTTP/1.1", *lines, f"Content-Length: {len(body)}", "", ""]).encode()


def split_head(head: bytes) -> tuple[str, dict[str, str]]:
    """Return the path and the headers of `request_head`, for a client library that writes its own."""
    line, *fields = head.decode().strip().split("\r\n")
    return line.split(" ")[1], dict(field.split(": ", 1) for field in fields)


def bearer_token() -> str:
    """Return a bearer token good for an hour.

    Source: sagemaker-core's token generator: a query-signed URL of the action CallWithBearerToken.
    """
    request = AWSRequest(
        "POST",
        "https://sagemaker.amazonaws.com/",
        headers={"host": "sagemaker.amazonaws.com"},
        params={"Action": "CallWithBearerToken"},
    )
    credentials = Credentials(ACCESS_KEY, SECRET_KEY)
    SigV4QueryAuth(credentials, "sagemaker", REGION, expires=3600).add_auth(request)
    url = request.url.removeprefix("https://") + "&Version=1"
    return "sagemaker-api-key-" + base64.b64encode(url.encode()).decode()


def requests_file(path: str, credential: Credential, port: int, size: int, *, with_user: bool) -> bytes:
    """Return the distinct requests of a case for the load generators: each 4 bytes of length, then bytes."""
    parts: list[bytes] = []
    for number in range(DISTINCT):
        body = chat_body(size, number=number)
        user = number if with_user else None
        request = request_head(path, credential, port, body, user=user) + body
        parts += [len(request).to_bytes(4, "big"), request]
    return b"".join(parts)
