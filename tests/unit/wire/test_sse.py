import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.wire.sse import HELD_BYTES_MAX, First, FirstEvent, FirstKind, error_event

READY = First(FirstKind.READY)
BUSY_BODY = (
    b'{"error": {"message": "The engine is currently busy", "type": "Service Unavailable", "code": 503}}'
)
BUSY = b"data: " + BUSY_BODY + b"\n\ndata: [DONE]\n\n"
CHUNK = b'data: {"id":"1","choices":[{"delta":{"content":"the \\"error\\""}}]}\n\n'


def judge(*chunks: bytes) -> First | None:
    first = FirstEvent()
    verdict = None
    for chunk in chunks:
        verdict = first.feed(chunk)
    return verdict


def every_split(stream: bytes):
    for at in range(len(stream) + 1):
        yield stream[:at], stream[at:]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_an_overload_event_is_found_at_every_split_point_and_with_every_line_end(line_end):
    stream = BUSY.replace(b"\n", line_end)
    for chunks in every_split(stream):
        assert judge(*chunks) == First(FirstKind.ERROR, 503, BUSY_BODY)


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_an_ordinary_event_is_ready_at_every_split_point(line_end):
    for chunks in every_split(CHUNK.replace(b"\n", line_end)):
        assert judge(*chunks) == READY


def test_one_byte_at_a_time_gives_the_same_verdict():
    assert judge(*(bytes((byte,)) for byte in BUSY)) == First(FirstKind.ERROR, 503, BUSY_BODY)


def test_nothing_is_decided_before_the_blank_line():
    assert judge(b"data: " + BUSY_BODY + b"\n") is None


def test_a_line_end_split_between_cr_and_lf_is_one_line_end():
    first = FirstEvent()
    assert first.feed(b": ping\r") is None
    assert first.feed(b"\ndata: 1\r") is None
    assert first.feed(b"\n") is None
    assert first.feed(b"\r\n") == READY


@pytest.mark.parametrize(
    "skipped", [b": ping\n\n", b"\n\n\n", b"event: ping\n\n", b"id: 7\nretry: 100\n", b""]
)
def test_comments_blank_lines_and_events_without_data_are_passed_over(skipped):
    assert judge(skipped) is None
    assert judge(skipped + BUSY).kind is FirstKind.ERROR


def test_a_byte_order_mark_before_the_first_field_is_ignored():
    assert judge(b"\xef\xbb\xbf" + BUSY).status == 503


def test_data_over_several_lines_is_one_event():
    stream = b'data: {"error":\ndata:{"code": 429}}\n\n'
    assert judge(stream) == First(FirstKind.ERROR, 429, b'{"error":\n{"code": 429}}')


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b'{"error":{"code":"503"}}', 503),
        (b'{"error":{"code":"model_error"}}', 500),
        (b'{"error":{"code":200}}', 500),
        (b'{"error":{"code":600}}', 500),
        (b'{"error":{"code":400}}', 400),
        (b'{"error":{"code":599}}', 599),
        (b'{"error":{"status":404}}', 404),
        (b'{"error":"boom"}', 500),
        (b'{"object":"error","message":"no","code":400}', 400),
        (b'{"type":"error","error":{"type":"overloaded_error"}}', 529),
        (b'{"type":"error","error":{"type":7}}', 500),
    ],
)
def test_the_status_is_read_from_every_known_shape_of_error(data, status):
    assert judge(b"data: " + data + b"\n\n") == First(FirstKind.ERROR, status, data)


@pytest.mark.parametrize(
    "data",
    [
        b"[DONE]",
        b'{"error":null,"choices":[]}',
        b'["error"]',
        b'not json "error"',
        b'"error"',
        b"[" * 5000 + b'"error"',
    ],
)
def test_data_that_only_mentions_an_error_is_ready(data):
    assert judge(b"data: " + data + b"\n\n") == READY


def test_an_event_named_error_is_an_error_whatever_its_data():
    assert judge(b"event: error\ndata: out of memory\n\n") == First(FirstKind.ERROR, 500, b"out of memory")


def test_an_event_name_does_not_outlive_its_event():
    assert judge(b"event: error\n\ndata: fine\n\n") == READY


def test_a_stream_is_held_for_a_bounded_number_of_bytes():
    first = FirstEvent()
    assert first.feed(b"x" * HELD_BYTES_MAX) is None
    assert first.feed(b"x") == READY


def test_the_verdict_stays():
    first = FirstEvent()
    assert first.feed(CHUNK) == READY
    assert first.feed(BUSY) == READY
    assert first.end() == READY


def test_the_end_of_a_stream_decides():
    empty = FirstEvent()
    assert empty.end() == READY
    cut_off = FirstEvent()
    assert cut_off.feed(b"data: " + BUSY_BODY) is None
    assert cut_off.end() == First(FirstKind.ERROR, 503, BUSY_BODY)


@given(
    st.lists(
        st.binary(max_size=60) | st.sampled_from([b"data: ", b"\r", b"\n", b"event: error", b'{"error"']),
        max_size=20,
    )
)
def test_any_bytes_in_any_pieces_give_the_verdict_they_give_in_one(chunks):
    whole, pieces = FirstEvent(), FirstEvent()
    whole.feed(b"".join(chunks))
    for chunk in chunks:
        pieces.feed(chunk)
    assert pieces.end() == whole.end()


def test_an_error_event_ends_a_cut_off_event_first():
    assert error_event(b'{"error":{}}') == b'\n\ndata: {"error":{}}\n\n'


def test_an_error_event_can_have_a_type():
    assert error_event(b"{}", "error") == b"\n\nevent: error\ndata: {}\n\n"


@given(st.binary(max_size=50))
def test_no_body_breaks_out_of_its_error_event(body):
    head, *lines, last, end = error_event(body)[1:].split(b"\n")
    assert (head, last, end) == (b"", b"", b"")
    assert all(line.startswith(b"data: ") and b"\r" not in line for line in lines)
