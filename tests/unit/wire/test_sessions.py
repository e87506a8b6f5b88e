import re
from datetime import UTC, datetime

import pytest

from warmroute.core.limits import SESSION_ID_CHARACTERS_MAX
from warmroute.wire import invocation
from warmroute.wire.sessions import (
    Announced,
    Ticket,
    announced,
    closed,
    is_same_generation,
    told,
    with_ticket,
    without_ticket,
)

AT = datetime(2026, 11, 29, 13, 41, 17, tzinfo=UTC).timestamp()
TICKET = Ticket(2**64 - 1, 7, int(AT))
SECRET = "s" * 43


def made(session_id="abc", ticket=TICKET, endpoint="llm", secret=SECRET):
    return with_ticket(session_id, ticket, endpoint=endpoint, secret=secret)


def read(session_id, endpoint="llm", secret=SECRET):
    return without_ticket(session_id, endpoint=endpoint, secret=secret)


# --- what a model server says -------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"x-amzn-sagemaker-new-session-id", b"abc; Expires=2026-11-29T13:41:17Z"),
        (b"X-Amzn-SageMaker-New-Session-Id", b"abc;Expires=2026-11-29T13:41:17Z"),
        (b"X-Amzn-SageMaker-Session-Id", b"abc; expires = 2026-11-29T13:41:17"),
        (b"X-Amzn-SageMaker-Session-Id", b"abc; Expires=2026-11-29T14:41:17+01:00"),
    ],
)
def test_a_new_session_is_read_in_both_spellings(name, value):
    assert announced([(b"content-type", b"a"), (name, value)]) == Announced("abc", AT)


@pytest.mark.parametrize(
    "value",
    [b"abc", b"abc;", b"abc; Expires=never", b"abc; Until=2026-11-29T13:41:17Z", b"abc; Expires=\xff"],
)
def test_a_new_session_without_a_readable_end_is_one(value):
    assert announced([(b"x-amzn-sagemaker-new-session-id", value)]) == Announced("abc", None)


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [(b"x-amzn-sagemaker-session-id", b"abc")],
        [(b"x-amzn-sagemaker-new-session-id", b"a_b; Expires=2026-11-29T13:41:17Z")],
        [(b"x-amzn-sagemaker-new-session-id", b"; Expires=2026-11-29T13:41:17Z")],
        [(b"x-amzn-sagemaker-new-session-id", b"a" * (SESSION_ID_CHARACTERS_MAX + 1))],
    ],
)
def test_an_id_that_goes_on_or_could_not_be_sent_back_is_no_new_session(fields):
    assert announced(fields) is None


def test_a_closed_session_is_read():
    assert closed([(b"a", b"b"), (b"X-Amzn-SageMaker-Closed-Session-Id", b" abc ")]) == "abc"
    assert closed([(b"a", b"b")]) == ""


# --- what the caller is told ----------------------------------------------------------------------
def test_the_caller_reads_its_own_ids_in_the_form_of_the_service_model():
    fields = [
        (b"Content-Type", b"a"),
        (b"X-Amzn-SageMaker-Session-Id", b"abc; Expires=x"),
        (b"X-Amzn-SageMaker-Closed-Session-Id", b"old"),
    ]
    kept = told(fields, opened="new", expires_s=AT + 0.9, closed_id="mine")
    assert kept == [
        (b"Content-Type", b"a"),
        (b"x-amzn-sagemaker-new-session-id", b"new; Expires=2026-11-29T13:41:17Z"),
        (b"x-amzn-sagemaker-closed-session-id", b"mine"),
    ]
    pattern = rb"[a-zA-Z0-9](-*[a-zA-Z0-9])*;\sExpires=[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
    assert re.fullmatch(pattern, kept[1][1])


def test_what_an_answer_does_not_say_is_left_as_it_is():
    fields = [(b"X-Amzn-SageMaker-Session-Id", b"abc"), (b"X-Amzn-SageMaker-Closed-Session-Id", b"old")]
    assert told(fields, opened="", expires_s=0, closed_id="") == fields
    assert told(fields, opened="", expires_s=0, closed_id="x") == [
        fields[0],
        (b"x-amzn-sagemaker-closed-session-id", b"x"),
    ]


@pytest.mark.parametrize(("expires_s", "year"), [(-1e9, b"1970"), (1e18, b"9999")])
def test_an_end_outside_of_all_time_can_be_written(expires_s, year):
    (field,) = told([], opened="a", expires_s=expires_s, closed_id="")
    assert field[1].startswith(b"a; Expires=" + year)


# --- ids that say where a session is ------------------------------------------------------------
@pytest.mark.parametrize("own", ["abc", "a-b-c", "2b1f0b9e-6b0c-4f0e-9d5c-0f6f1a2b3c4d", "1", "a--b"])
@pytest.mark.parametrize("secret", [SECRET, ""])
def test_an_id_comes_apart_into_what_it_was_made_of(own, secret):
    session_id = made(own, secret=secret)
    assert read(session_id, secret=secret) == (own, TICKET)
    assert session_id.startswith(f"{own}-")


def test_an_id_with_its_ticket_is_an_id_as_callers_may_send_it():
    headers = {b"x-amzn-sagemaker-session-id": made("a-b").encode()}
    assert invocation.read(headers, True).session_id == made("a-b")


def test_the_longest_id_with_room_for_a_ticket_gets_one_and_a_longer_one_stays():
    longest = "a" * (SESSION_ID_CHARACTERS_MAX - 51)
    assert len(made(longest)) == SESSION_ID_CHARACTERS_MAX
    assert made(longest + "a") == longest + "a"
    assert read(longest + "a") == (longest + "a", None)


@pytest.mark.parametrize(
    "session_id", ["abc", "a-b", "-" + "a" * 50, "a-" + "a" * 50, "a-" + "1" * 50, "a-" + "é" * 50]
)
def test_an_id_without_a_ticket_is_the_model_servers_own(session_id):
    assert read(session_id) == (session_id, None)


def test_a_ticket_is_of_use_only_as_it_was_made_and_at_its_endpoint():
    session_id = made()
    changed = [
        session_id[:at] + ("b" if one != "b" else "c") + session_id[at + 1 :]
        for at, one in enumerate(session_id)
    ]
    for other in (*changed, session_id.upper(), f"x{session_id}"):
        assert read(other) == (other, None)
    assert read(session_id, endpoint="other")[1] is None
    assert read(session_id, secret="other")[1] is None


def test_a_generation_is_compared_modulo_what_a_ticket_holds():
    session_id = made(ticket=Ticket(1, 2**32 + 7, 0))
    _, ticket = read(session_id)
    assert ticket.generation == 7
    assert is_same_generation(2**32 + 7, ticket)
    assert not is_same_generation(8, ticket)
