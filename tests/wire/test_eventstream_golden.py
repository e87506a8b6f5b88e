"""The framing of response streams, byte by byte. A change here is a change of the protocol."""

from warmroute.wire.eventstream import exception, payload_part


def test_a_payload_part_is_these_bytes():
    assert payload_part(b"Hi") == (
        b"\x00\x00\x00\x6b\x00\x00\x00\x59\x99\x77\x70\x65"
        b"\x0d:message-type\x07\x00\x05event"
        b"\x0b:event-type\x07\x00\x0bPayloadPart"
        b"\x0d:content-type\x07\x00\x18application/octet-stream"
        b"Hi\xe8\x5a\x24\xc0"
    )


def test_an_exception_is_these_bytes():
    assert exception("ModelStreamError", b'{"Message":"x"}') == (
        b"\x00\x00\x00\x7d\x00\x00\x00\x5e\xe8\xb3\x87\xe4"
        b"\x0d:message-type\x07\x00\x09exception"
        b"\x0f:exception-type\x07\x00\x10ModelStreamError"
        b"\x0d:content-type\x07\x00\x10application/json"
        b'{"Message":"x"}\x22\x15\x2b\x1a'
    )
