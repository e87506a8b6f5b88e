"""Stateful sessions by boto3 over real processes; model servers begin them as SageMaker's containers do."""

import contextlib
import json
import os
import re
import signal
import threading
import time
import uuid

import pytest
from botocore.exceptions import ClientError

from tests.clients import boto3_client
from tests.relay import ScriptedServer, answering, metric, running, wait_until_at_rest
from tests.running import wait_until
from warmroute.sim.replay import replay

pytestmark = pytest.mark.process

CREATED = re.compile(
    r"[a-zA-Z0-9](-*[a-zA-Z0-9])*;\sExpires=[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
)


class SessionServer(ScriptedServer):
    """A model server with sessions of its own, which knows nothing of those of another."""

    def __init__(self, header="X-Amzn-SageMaker-New-Session-Id", life_s=600):
        super().__init__(self.talk)
        self.header = header
        self.life_s = life_s
        self.sessions = {}
        self._lock = threading.Lock()

    def talk(self, arrived, connection):
        asked = json.loads(arrived.body).get("requestType")
        session = arrived.headers.get("x-amzn-sagemaker-session-id")
        with self._lock:
            if asked == "NEW_SESSION":
                session = str(uuid.uuid4())
                self.sessions[session] = 0
                end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.life_s))
                return answering(b"opened", f"{self.header}: {session}; Expires={end}")(arrived, connection)
            if session is not None and session not in self.sessions:
                return answering(b"session not found", status="400 Bad Request")(arrived, connection)
            if asked == "CLOSE":
                del self.sessions[session]
                return answering(b"closed", f"X-Amzn-SageMaker-Closed-Session-Id: {session}")(
                    arrived, connection
                )
            if session is not None:
                self.sessions[session] += 1
                return answering(str(self.sessions[session]).encode())(arrived, connection)
        return answering(b"no session")(arrived, connection)


@pytest.fixture(scope="module")
def servers():
    with SessionServer() as a, SessionServer("X-Amzn-SageMaker-Session-Id") as b, SessionServer() as c:
        yield a, b, c


@pytest.fixture(scope="module")
def server(tmp_path_factory, servers):
    with running(tmp_path_factory.mktemp("sessions"), *[one.url for one in servers]) as started:
        yield started
        wait_until_at_rest(started)


def invoke(runtime, session=None, **body):
    more = {} if session is None else {"SessionId": session}
    answer = runtime.invoke_endpoint(EndpointName="llm", Body=json.dumps(body), **more)
    return answer | {"Body": answer["Body"].read()}  # unread, it would keep its connection


def opened(runtime):
    answer = invoke(runtime, "NEW_SESSION", requestType="NEW_SESSION")
    assert CREATED.fullmatch(answer["NewSessionId"]), answer["NewSessionId"]
    return answer["NewSessionId"].partition(";")[0]


def counted(runtime, session):
    """Return which request of its session this is, as the model server counts."""
    return int(invoke(runtime, session, question="?")["Body"])


def refused(runtime, session, **body):
    with pytest.raises(ClientError) as caught:
        invoke(runtime, session, **body)
    error = caught.value.response
    assert error["ResponseMetadata"]["RetryAttempts"] == 0
    return error["Error"]["Code"], error["Error"]["Message"]


def test_sessions_go_on_where_they_began_by_whichever_header_they_were_announced(runtime, servers):
    sessions = [opened(runtime) for _ in range(12)]
    assert sum(len(one.sessions) for one in servers) >= 12
    assert len([one for one in servers if one.sessions]) >= 2, "sessions are spread"
    for number in range(1, 5):
        assert [counted(runtime, session) for session in sessions] == [number] * 12


def test_a_session_is_closed_by_its_own_id_and_refused_from_then_on(runtime):
    session = opened(runtime)
    assert counted(runtime, session) == 1
    answer = invoke(runtime, session, requestType="CLOSE")
    assert answer["ClosedSessionId"] == session
    code, message = refused(runtime, session, question="?")
    assert code == "ValidationError"
    assert "is not open: it never was, it was closed, or it has expired" in message


def test_a_stream_goes_on_with_a_session(runtime):
    session = opened(runtime)
    answer = runtime.invoke_endpoint_with_response_stream(EndpointName="llm", Body=b"{}", SessionId=session)
    with contextlib.closing(answer["Body"]) as parts:
        assert b"".join(event["PayloadPart"]["Bytes"] for event in parts) == b"1"


def test_a_stream_begins_no_session(runtime):
    with pytest.raises(ClientError, match="failed to satisfy constraint"):
        runtime.invoke_endpoint_with_response_stream(EndpointName="llm", Body=b"{}", SessionId="NEW_SESSION")


def test_a_session_that_never_was_is_refused_before_any_model_server_hears_of_it(runtime, servers):
    before = sum(len(one.arrived) for one in servers)
    code, message = refused(runtime, "never-was", question="?")
    assert (code, "is not open" in message) == ("ValidationError", True)
    assert sum(len(one.arrived) for one in servers) == before


def test_sessions_under_load_lose_and_mix_nothing(runtime):
    sessions = [opened(runtime) for _ in range(8)]
    wrong = []

    def use(session):
        wrong.extend(number for number in range(1, 26) if counted(runtime, session) != number)

    threads = [threading.Thread(target=use, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_sessions_outlive_the_router_that_opened_them(server, runtime):
    sessions = [opened(runtime) for _ in range(6)]
    assert [counted(runtime, session) for session in sessions] == [1] * 6
    killed = server.child("router-0")
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: server.get("/readyz")[0] == 200 and server.child("router-0") != killed)
    assert [counted(runtime, session) for session in sessions] == [2] * 6
    assert invoke(runtime, sessions[0], requestType="CLOSE")["ClosedSessionId"] == sessions[0]


def test_what_became_of_sessions_is_counted_and_logged_without_their_ids(server, runtime):
    session = opened(runtime)
    counted(runtime, session)
    wait_until(lambda: metric(server, "warmroute_session_invocations_total", session="resumed") > 0)
    wait_until(lambda: metric(server, "warmroute_open_sessions") > 0)
    log = server.data_dir / "access.log"
    wait_until(lambda: '"session":"opened"' in log.read_text())
    assert session.split("-")[0] not in log.read_text()


def test_a_session_is_over_when_its_model_server_said_and_lost_with_it(tmp_path, runtime):
    with SessionServer(life_s=2) as short, running(tmp_path, short.url) as other:
        client = boto3_client("sagemaker-runtime", other.url)
        session = opened(client)
        assert counted(client, session) == 1
        heard = len(short.arrived)
        time.sleep(2.5)
        code, message = refused(client, session, question="?")
        assert (code, "or it has expired" in message) == ("ValidationError", True)
        assert len(short.arrived) == heard
        client.close()


def test_a_draining_instance_keeps_its_sessions_until_they_end(tmp_path):
    with SessionServer() as a, SessionServer() as b, running(tmp_path, a.url, b.url) as other:
        client = boto3_client("sagemaker-runtime", other.url)
        sagemaker = boto3_client("sagemaker", other.url)
        sessions = []
        wait_until(lambda: sessions.append(opened(client)) or (a.sessions and b.sessions))
        sagemaker.update_endpoint_weights_and_capacities(
            EndpointName="llm",
            DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 1}],
        )

        def states():
            told = json.loads(other.get("/", admin=True)[1])
            return sorted(one["state"] for one in told["instances"])

        wait_until(lambda: "Draining" in states() or "draining" in states(), explain=lambda: str(states()))
        began = time.monotonic()
        while time.monotonic() - began < 3:  # without sessions it is gone within a second
            for session in sessions:
                invoke(client, session, question="?")
            assert len(states()) == 2
        for session in sessions:
            invoke(client, session, requestType="CLOSE")
        wait_until(lambda: len(states()) == 1, seconds=15, explain=lambda: str(states()))
        client.close()
        sagemaker.close()


def test_sessions_that_a_new_router_took_over_replay_from_the_logs_of_both(tmp_path):
    toml = '[router]\ndecision_log = "decisions.jsonl"\n'
    with SessionServer() as a, SessionServer() as b, running(tmp_path, a.url, b.url, toml=toml) as other:
        client = boto3_client("sagemaker-runtime", other.url)
        sessions = [opened(client) for _ in range(6)]
        assert [counted(client, session) for session in sessions] == [1] * 6
        first = tmp_path / "decisions.jsonl"
        wait_until(lambda: first.read_text().count('"what":"decide"') >= 12)  # written once a second
        killed = other.child("router-0")
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: other.get("/readyz")[0] == 200 and other.child("router-0") != killed)
        assert [counted(client, session) for session in sessions] == [2] * 6
        for session in sessions:
            invoke(client, session, requestType="CLOSE")
        client.close()
    logs = [tmp_path / "decisions.jsonl.1", first]
    for log in logs:
        found = replay(log.read_bytes().splitlines(keepends=True))
        assert (found.difference, found.decisions >= 12) == (None, True)
        assert not [session for session in sessions if session.split("-")[0] in log.read_text()]
    assert first.read_text().count('"what":"adopt"') == 6
    assert first.read_text().count('"what":"close"') == 6
