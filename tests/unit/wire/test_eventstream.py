import struct
import zlib

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from warmroute.wire.eventstream import (
    HEADERS_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    Decoder,
    EventStreamError,
    Message,
    exception,
    payload_part,
)

PART = {
    ":message-type": "event",
    ":event-type": "PayloadPart",
    ":content-type": "application/octet-stream",
}


def frame(headers: bytes, payload: bytes = b"", *, total: int | None = None) -> bytes:
    size = 16 + len(headers) + len(payload) if total is None else total
    prelude = struct.pack("!II", size, len(headers))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack("!I", zlib.crc32(message))


def botocore_messages(data: bytes):
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return list(buffer)


@given(st.binary(max_size=5000))
def test_botocore_reads_back_the_payload_of_a_part(payload):
    [message] = botocore_messages(payload_part(payload))
    assert message.headers == PART
    assert message.payload == payload


def test_botocore_reads_a_stream_of_parts_and_a_closing_exception():
    stream = payload_part(b"one") + payload_part(b"") + exception("ModelStreamError", b'{"Message":"m"}')
    one, empty, failed = botocore_messages(stream)
    assert (one.payload, empty.payload) == (b"one", b"")
    assert failed.headers == {
        ":message-type": "exception",
        ":exception-type": "ModelStreamError",
        ":content-type": "application/json",
    }
    assert failed.to_response_dict()["status_code"] == 400
    assert failed.payload == b'{"Message":"m"}'


def test_a_part_above_the_largest_payload_is_a_broken_assumption():
    with pytest.raises(AssertionError, match="at most 25165824 bytes, got 25165825"):
        payload_part(bytes(PAYLOAD_BYTES_MAX + 1))


def test_a_part_of_the_largest_payload_is_framed():
    assert len(payload_part(bytes(PAYLOAD_BYTES_MAX))) > PAYLOAD_BYTES_MAX


@given(st.lists(st.binary(max_size=40), max_size=5), st.integers(1, 9))
def test_the_decoder_finds_the_messages_in_pieces_of_any_size(payloads, step):
    stream = b"".join(payload_part(payload) for payload in payloads)
    decoder = Decoder()
    found = []
    for at in range(0, len(stream), step):
        found += decoder.feed(stream[at : at + step])
    assert found == [Message(PART, payload) for payload in payloads]
    assert decoder.pending_bytes == 0


def test_a_cut_off_stream_shows_in_the_pending_bytes():
    decoder = Decoder()
    assert decoder.feed(payload_part(b"abc")[:-1]) == []
    assert decoder.pending_bytes == len(payload_part(b"abc")) - 1


@pytest.mark.parametrize("at", range(len(payload_part(b"abc"))))
def test_one_wrong_bit_anywhere_is_never_taken_for_the_message(at):
    stream = bytearray(payload_part(b"abc"))
    stream[at] ^= 1
    decoder = Decoder()
    with pytest.raises(EventStreamError):
        decoder.feed(bytes(stream))


def test_headers_longer_than_botocore_allows_are_refused():
    prelude = struct.pack("!II", HEADERS_BYTES_MAX + 17, HEADERS_BYTES_MAX + 1)
    with pytest.raises(EventStreamError, match=r"131073 bytes of headers; at most 131072"):
        Decoder().feed(prelude + struct.pack("!I", zlib.crc32(prelude)))


@pytest.mark.parametrize("total", [0, 15, PAYLOAD_BYTES_MAX + 17])
def test_a_length_that_leaves_no_possible_payload_is_refused(total):
    with pytest.raises(EventStreamError, match=f"a message of {total} bytes"):
        Decoder().feed(frame(b"", total=total))


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (b"\x05abc", "a header is cut off"),
        (b"\x01a\x07\x00", "a header is cut off"),
        (b"\x01a\x07\x00\x09abc", "a header value is cut off"),
        (b"\x01a\x06\x00\x01a", "header type 6"),
        (b"\x01\xff\x07\x00\x01a", "is not UTF-8"),
        (b"\x01a\x07\x00\x01\xff", "is not UTF-8"),
    ],
)
def test_malformed_headers_are_refused_with_the_place(headers, message):
    with pytest.raises(EventStreamError, match=message):
        Decoder().feed(frame(headers))


@given(st.binary(max_size=200))
def test_any_bytes_give_messages_or_the_one_error(data):
    try:
        messages = Decoder().feed(data)
    except EventStreamError:
        return
    assert all(isinstance(message, Message) for message in messages)
