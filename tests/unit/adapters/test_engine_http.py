"""One request to a model server; `test_health_probe.py` and the adapter loader's contract cover more."""

import asyncio
import ssl

import pytest

from warmroute.adapters.engine_http import Answer, ask
from warmroute.controlplane.ports import InstanceFact, InstancePhase


def asked(answer, *, bytes_max=1000, **request):
    """Return what the server got and what came of its answer."""
    got = []

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), 0
        )
        got.append(head + await reader.readexactly(length))
        writer.write(answer)
        writer.close()
        over.set()

    async def main():
        listener = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        fact = InstanceFact(
            "i", "t", InstancePhase.RUNNING, 1, "127.0.0.1", port, path_prefix="/p", api_key="key"
        )
        try:
            return await ask(
                fact, "/x?y=1", context=ssl.create_default_context(), bytes_max=bytes_max, **request
            )
        finally:
            await over.wait()
            await asyncio.sleep(0)
            listener.close()
            await listener.wait_closed()

    over = asyncio.Event()
    result = asyncio.run(main())
    return got[0], result


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


def test_a_question_has_no_body():
    got, answer = asked(OK)
    assert got.startswith(b"GET /p/x?y=1 HTTP/1.1\r\n")
    assert b"Authorization: Bearer key\r\n" in got
    assert b"Content-Length" not in got
    assert (answer.status, bytes(answer.body), answer.complete) == (200, b"hi", True)


def test_an_order_has_a_body_of_json():
    got, _ = asked(OK, method="POST", body=b'{"a":1}')
    assert got.startswith(b"POST /p/x?y=1 HTTP/1.1\r\n")
    assert b"Content-Type: application/json\r\nContent-Length: 7\r\n" in got
    assert got.endswith(b'\r\n\r\n{"a":1}')


def test_an_order_without_a_body_says_so():
    assert b"Content-Length: 0\r\n" in asked(OK, method="POST")[0]
    assert b"Content-Length" not in asked(OK, method="DELETE")[0]


def test_an_answer_without_a_length_ends_with_the_connection():
    _, answer = asked(b"HTTP/1.1 200 OK\r\n\r\nhello")
    assert (bytes(answer.body), answer.complete) == (b"hello", False)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "without an answer"),
        (b"SSH-2.0\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000, "longer than 1000 bytes"),
    ],
)
def test_what_is_no_answer_is_an_error(data, why):
    with pytest.raises(ValueError, match=why):
        asked(data)


def test_the_text_of_an_answer_is_cut_and_readable():
    assert Answer(body=bytearray("é".encode() * 10)).text(3) == "ééé"
    assert Answer(body=bytearray(b"\xff ")).text(5) == "\ufffd"
