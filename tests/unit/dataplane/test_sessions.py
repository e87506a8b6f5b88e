"""Stateful sessions through the gateway: opened, pinned, told, closed, lost; at this router and at others."""

import json
from dataclasses import replace

import pytest

from tests.unit.dataplane.conftest import Bench, target
from warmroute.core.events import FailureCause
from warmroute.core.fleet import Component, Endpoint, Fleet, Routing, RoutingStrategy, TargetState, Variant
from warmroute.core.limits import SESSION_S_MAX
from warmroute.routing.sessions import SessionTable
from warmroute.wire.sessions import without_ticket

NATIVE = "/endpoints/llm/invocations"
STREAM = "/endpoints/llm/invocations-response-stream"
SESSION = b"x-amzn-sagemaker-session-id"
NEW = b"x-amzn-sagemaker-new-session-id"
CLOSED = b"x-amzn-sagemaker-closed-session-id"
SECRET = "the same at every router"


class Sessions(Bench):
    """A gateway over four targets, of which each begins sessions with ids of its own."""

    def fleet_of(self, *targets, session_key=SECRET, components=(), variants=None):
        self.version += 1
        routing = Routing(RoutingStrategy.LEAST_OUTSTANDING_REQUESTS)
        variants = variants or (Variant("AllTraffic", 1.0, routing, targets, components),)
        fleet = Fleet(
            self.version,
            "eu-west-1",
            "123456789012",
            (Endpoint("llm", True, variants),),
            session_key=session_key,
        )
        assert self.gateway.apply_fleet(fleet)
        return self

    def ask(self, session=None, path=NATIVE, headers=()):
        sent = [] if session is None else [(SESSION, session.encode())]
        return self.send(path, headers=[*sent, *headers])

    def answer(self, *fields, status=200, body=b"{}"):
        sink = self.upstreams.last.sink
        sink.head(status, [(b"Content-Type", b"application/json"), *fields], len(body))
        sink.body(body)
        sink.ended()

    def expires(self, seconds=600.0):
        from datetime import UTC, datetime

        return f"{datetime.fromtimestamp(self.clock.wall_s() + seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"

    def open(self, own="own-1", *, seconds=600.0, header=NEW, **more):
        """Open a session; return the caller's id of it and its target."""
        client, _ = self.ask("NEW_SESSION", **more)
        where = self.upstreams.last.target.target_id
        self.answer((header, f"{own}; Expires={self.expires(seconds)}".encode()))
        session_id, _, rest = client.header(NEW).decode().partition("; ")
        assert rest.startswith("Expires=")
        return session_id, where

    def where(self, session_id, **more):
        """Send a request of a session and let it be answered; return where it went."""
        self.ask(session_id, **more)
        self.answer()
        return self.upstreams.last.target.target_id

    def refusal(self, session_id, **more):
        before = len(self.upstreams.calls)
        client, underway = self.ask(session_id, **more)
        assert underway is None
        assert len(self.upstreams.calls) == before, "nothing was sent anywhere"
        return client.status, json.loads(client.body)["Message"]


def targets(**changes):
    return [target(f"i-{n}", **changes) for n in range(4)]


@pytest.fixture
def bench():
    made = Sessions().fleet_of(*targets())
    yield made
    made.assert_clean()


def sent(bench, name=SESSION):
    for line in bench.upstreams.last.head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b": ")
        if key.lower() == name:
            return value
    return None


# --- opening and going on -------------------------------------------------------------------------
@pytest.mark.parametrize("header", [NEW, b"X-Amzn-SageMaker-Session-Id"])
def test_a_sessions_requests_go_to_the_target_that_began_it_with_its_own_id(bench, header):
    session_id, where = bench.open(header=header)
    assert session_id.startswith("own-1-")
    for _ in range(8):
        assert bench.where(session_id) == where
        assert sent(bench) == b"own-1"
        assert bench.observer.ended[-1].reason == "session"


def test_a_new_session_asks_the_model_server_for_one(bench):
    bench.ask("NEW_SESSION")
    assert sent(bench) == b"NEW_SESSION"
    bench.answer()


def test_sessions_are_spread_by_the_strategy(bench):
    opened = [bench.ask("NEW_SESSION") for _ in range(4)]
    assert {call.target.target_id for call in bench.upstreams.calls} == {"i-0", "i-1", "i-2", "i-3"}
    for _, underway in opened:
        underway.client_gone()


def test_a_stream_goes_on_with_a_session_and_closes_one(bench):
    session_id, where = bench.open()
    assert bench.where(session_id, path=STREAM) == where
    client, _ = bench.ask(session_id, path=STREAM)
    bench.answer((CLOSED, b"own-1"))
    assert client.status == 200
    assert client.header(CLOSED) is None, "the operation has no such member"
    assert bench.refusal(session_id)[0] == 400


def test_the_record_tells_what_became_of_sessions_and_no_id(bench):
    session_id, _ = bench.open()
    bench.where(session_id)
    bench.ask(session_id)
    bench.answer((CLOSED, b"own-1"))
    bench.ask("NEW_SESSION")
    bench.answer()
    bench.ask()
    bench.answer()
    records = bench.observer.ended
    assert [record.session for record in records] == ["opened", "resumed", "closed", "new", ""]
    assert "own-1" not in str(records)


def test_an_end_that_the_model_server_does_not_say_is_the_last_there_can_be(bench):
    client, _ = bench.ask("NEW_SESSION")
    bench.answer((NEW, b"own-1"))
    assert client.header(NEW).endswith(bench.expires(SESSION_S_MAX).encode())
    client, _ = bench.ask("NEW_SESSION")
    bench.answer((NEW, b"own-2; Expires=9999-01-01T00:00:00Z"))
    assert client.header(NEW).endswith(bench.expires(SESSION_S_MAX).encode())


def test_a_model_server_that_begins_no_session_answers_as_it_does(bench):
    client, _ = bench.ask("NEW_SESSION")
    bench.answer()
    assert (client.status, client.header(NEW)) == (200, None)


def test_an_id_that_could_never_be_sent_is_passed_on_as_it_is_and_pins_nothing(bench):
    client, _ = bench.ask("NEW_SESSION")
    bench.answer((NEW, b"not_an_id; Expires=2030-01-01T00:00:00Z"))
    assert client.header(NEW) == b"not_an_id; Expires=2030-01-01T00:00:00Z"
    assert len(bench.router.sessions) == 0


def test_a_session_that_is_given_another_end_gets_another_id_and_both_work(bench):
    first, where = bench.open()
    client, _ = bench.ask(first)
    bench.answer((NEW, f"own-1; Expires={bench.expires(1200)}".encode()))
    second = client.header(NEW).decode().partition(";")[0]
    assert second != first
    assert bench.where(first) == bench.where(second) == where
    bench.clock.pass_s(700)
    assert bench.refusal(first)[0] == 400
    assert bench.where(second) == where


def test_an_id_too_long_for_a_ticket_works_where_it_was_opened(bench):
    own = "a" * 250
    session_id, where = bench.open(own)
    assert session_id == own
    assert bench.where(session_id) == where
    assert sent(bench) == own.encode()


def test_an_answer_that_fails_opens_nothing(bench):
    client, _ = bench.ask("NEW_SESSION")
    bench.answer((NEW, f"own-1; Expires={bench.expires()}".encode()), status=500)
    assert (client.status, client.header(NEW)) == (424, None)
    assert len(bench.router.sessions) == 0


# --- closing, and sessions that are over ------------------------------------------------------------
def test_a_closed_session_is_told_by_the_callers_id_and_is_unknown_from_then_on(bench):
    session_id, _ = bench.open()
    client, _ = bench.ask(session_id)
    bench.answer((CLOSED, b"own-1"))
    assert client.header(CLOSED).decode() == session_id
    status, message = bench.refusal(session_id)
    assert status == 400
    assert "is not open: it never was, it was closed, or it has expired" in message
    assert "SessionId NEW_SESSION" in message


def test_the_close_of_another_session_is_passed_on_and_closes_nothing(bench):
    session_id, where = bench.open()
    client, _ = bench.ask(session_id)
    bench.answer((CLOSED, b"own-2"))
    assert client.header(CLOSED) == b"own-2"
    assert bench.where(session_id) == where


def test_the_closed_sessions_that_are_remembered_are_bounded(bench):
    bench.gateway._sessions.closed_max = 2
    ids = []
    for number in range(4):
        session_id, _ = bench.open(f"own-{number}", seconds=100 if number == 3 else 600)
        bench.ask(session_id)
        bench.answer((CLOSED, f"own-{number}".encode()))
        ids.append(session_id)
    assert [session_id for _, session_id in bench.gateway._sessions._closed] == ids[2:]
    bench.clock.pass_s(601)
    session_id, _ = bench.open("own-5")
    bench.ask(session_id)
    bench.answer((CLOSED, b"own-5"))
    assert [session_id for _, session_id in bench.gateway._sessions._closed] == [session_id]


@pytest.mark.parametrize("session_id", ["never", "a-b-c", "own-1-" + "a" * 50])
def test_a_session_that_was_never_opened_is_unknown(bench, session_id):
    assert "is not open" in bench.refusal(session_id)[1]


def test_a_session_is_over_at_its_end(bench):
    session_id, where = bench.open(seconds=600)
    bench.clock.pass_s(599)
    assert bench.where(session_id) == where
    bench.clock.pass_s(2)
    assert "or it has expired" in bench.refusal(session_id)[1]
    bench.router.on_deadline(bench.clock.now_ns())
    assert "or it has expired" in bench.refusal(session_id)[1]


def test_a_session_that_is_over_when_it_begins_is_unknown(bench):
    session_id, _ = bench.open(seconds=-5)
    assert bench.refusal(session_id)[0] == 400


@pytest.mark.parametrize("changes", [None, {"generation": 2}])
def test_a_session_whose_target_is_gone_is_lost_and_never_moves(bench, changes):
    session_id, where = bench.open()
    left = [each for each in targets() if each.target_id != where]
    back = [] if changes is None else [target(where, **changes)]
    bench.fleet_of(*left, *back)
    status, message = bench.refusal(session_id)
    assert (status, "is lost: the instance that had it is gone" in message) == (400, True)


def test_a_session_whose_target_cannot_be_reached_is_sent_nowhere_else(bench):
    session_id, where = bench.open()
    before = len(bench.upstreams.calls)
    client, _ = bench.ask(session_id)
    bench.upstreams.last.sink.failed(FailureCause.CONNECT_FAILED, "refused")
    assert [call.target.target_id for call in bench.upstreams.calls[before:]] == [where]
    assert client.status == 503
    assert "refused" in json.loads(client.body)["Message"]


def test_a_session_request_that_may_have_run_is_never_sent_twice(bench):
    session_id, _ = bench.open()
    before = len(bench.upstreams.calls)
    client, _ = bench.ask(session_id)
    bench.upstreams.last.sink.failed(FailureCause.CLOSED, "gone")
    assert (len(bench.upstreams.calls) - before, client.status) == (1, 424)


def test_a_new_session_that_reached_nobody_is_tried_elsewhere(bench):
    client, _ = bench.ask("NEW_SESSION")
    first = bench.upstreams.last
    first.sink.failed(FailureCause.CONNECT_FAILED, "refused")
    assert bench.upstreams.last.target != first.target
    bench.answer((NEW, f"own-1; Expires={bench.expires()}".encode()))
    assert client.status == 200


def test_a_draining_target_keeps_its_sessions_and_begins_none(bench):
    session_id, where = bench.open()
    drained = [
        replace(each, state=TargetState.DRAINING) if each.target_id == where else each for each in targets()
    ]
    bench.fleet_of(*drained)
    assert bench.where(session_id) == where
    for number in range(12):
        assert bench.open(f"new-{number}")[1] != where


def test_where_the_table_is_full_no_session_begins_and_those_that_are_open_go_on(bench):
    bench.router.sessions = SessionTable(1)
    session_id, where = bench.open()
    status, message = bench.refusal("NEW_SESSION")
    assert (status, "No more sessions can be opened" in message) == (503, True)
    assert bench.where(session_id) == where


# --- sessions and what else a call names ------------------------------------------------------------
def test_a_session_belongs_to_its_component():
    components = (Component("a"), Component("b"))
    copies = [target(f"i-{n}/{c}", component=c) for n in range(2) for c in "ab"]
    bench = Sessions().fleet_of(*copies, components=components)
    header = b"x-amzn-sagemaker-inference-component"
    session_id, where = bench.open(headers=[(header, b"a")])
    assert bench.where(session_id, headers=[(header, b"a")]) == where
    assert "is not open" in bench.refusal(session_id, headers=[(header, b"b")])[1]
    bench.assert_clean()


def test_a_session_goes_on_at_its_variant_and_is_unknown_at_another():
    routing = Routing()
    variants = tuple(Variant(name, 1.0, routing, (target(f"i-{name}"),)) for name in ("v", "w"))
    bench = Sessions().fleet_of(variants=variants)
    session_id, where = bench.open()
    assert {bench.where(session_id) for _ in range(12)} == {where}
    other = b"v" if where == "i-w" else b"w"
    refused = bench.refusal(session_id, headers=[(b"x-amzn-sagemaker-target-variant", other)])
    assert refused[0] == 400
    bench.assert_clean()


# --- several routers, and one that was started anew ---------------------------------------------------
def another(*more, session_key=SECRET):
    """A router that has heard of no session."""
    return Sessions().fleet_of(*(more or targets()), session_key=session_key)


def test_a_session_works_at_a_router_that_did_not_open_it(bench):
    for number in range(8):
        session_id, where = bench.open(f"own-{number}")
        other = another()
        assert [other.where(session_id) for _ in range(4)] == [where] * 4
        assert sent(other) == f"own-{number}".encode()
        assert len(other.router.sessions) == 1


def test_a_session_that_another_router_closed_is_refused_by_its_model_server(bench):
    session_id, where = bench.open()
    other = another()
    other.ask(session_id)
    other.answer((CLOSED, b"own-1"))
    client, _ = bench.ask(session_id)
    assert bench.upstreams.last.target.target_id == where
    bench.answer(status=400, body=b"session not found")
    assert (client.status, json.loads(client.body)["OriginalStatusCode"]) == (424, 400)


def test_another_router_knows_when_a_session_is_over_or_its_target_gone(bench):
    session_id, where = bench.open(seconds=600)
    other = another(*[each for each in targets() if each.target_id != where])
    assert "is lost" in other.refusal(session_id)[1]
    other = another(*[replace(each, generation=2) for each in targets()])
    assert "is lost" in other.refusal(session_id)[1]
    other = another()
    other.clock.pass_s(601)
    assert "is not open" in other.refusal(session_id)[1]


def test_another_router_has_no_room_for_a_session(bench):
    session_id, _ = bench.open()
    other = another()
    other.router.sessions = SessionTable(0)
    assert other.refusal(session_id)[0] == 503


@pytest.mark.parametrize("session_key", ["another", ""])
def test_an_id_that_was_not_signed_here_leads_nowhere(bench, session_key):
    session_id, _ = bench.open()
    assert "is not open" in another(session_key=session_key).refusal(session_id)[1]


def test_a_session_of_an_endpoint_that_is_gone_is_told_that_there_is_no_such_endpoint(bench):
    session_id, _ = bench.open()
    other = Sessions()
    other.gateway._sessions.secret = SECRET
    status, message = other.refusal(session_id)
    assert (status, message.startswith("Endpoint llm of account")) == (400, True)


def test_what_a_caller_gets_says_nothing_of_the_fleet(bench):
    session_id, where = bench.open()
    assert where not in session_id
    own, ticket = without_ticket(session_id, endpoint="llm", secret=SECRET)
    assert own == "own-1"
    assert ticket.generation == 1
