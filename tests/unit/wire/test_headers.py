from hypothesis import given
from hypothesis import strategies as st

from warmroute.wire import headers


def test_names_become_lower_case_and_repeated_fields_are_joined_in_order():
    fields = [(b"Accept", b"a"), (b"X-One", b"1"), (b"ACCEPT", b"b")]
    assert headers.collect(fields) == {b"accept": b"a,b", b"x-one": b"1"}


def test_an_empty_first_value_is_not_lost_when_a_field_repeats():
    assert headers.collect([(b"a", b""), (b"A", b"x")]) == {b"a": b",x"}


def test_every_byte_has_a_text():
    assert headers.text(bytes(range(256))) == "".join(map(chr, range(256)))


@given(st.text())
def test_a_header_value_never_carries_a_line_break_or_a_byte_outside_printable_ascii(value):
    assert all(32 <= byte < 127 for byte in headers.ascii_bytes(value))


def test_plain_text_goes_into_a_header_unchanged():
    assert headers.ascii_bytes("Endpoint a not found.") == b"Endpoint a not found."
