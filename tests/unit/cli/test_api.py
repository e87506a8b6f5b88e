import json
import socket
from http.client import HTTPException

import pytest

from warmroute.cli import api as api_module
from warmroute.cli.api import AUTOSCALING, Api
from warmroute.cli.failure import CommandFailed, Refused
from warmroute.cli.server import Server


class Wire(Api):
    """Answers bytes in the place of a server."""

    def __init__(self, *answers, environment=None, **given):
        server = Server(endpoint_url="http://server:8080", environment=environment or {})
        super().__init__(server, **given)
        self.answers = list(answers)
        self.sent = []

    def _exchange(self, headers, body):
        self.sent.append((headers, body))
        status, document = self.answers.pop(0)
        return status, document if isinstance(document, bytes) else json.dumps(document).encode()


def error(code, message, status=400):
    return status, {"__type": code, "message": message}


MISSING = error("UnrecognizedClientException", "Missing Authentication Token: sign.", 403)
KEYS = {"AWS_ACCESS_KEY_ID": "KEYID", "AWS_SECRET_ACCESS_KEY": "hush-hush", "AWS_REGION": "us-east-1"}


def test_a_call_names_its_operation_and_is_not_signed_unless_asked():
    wire = Wire((200, {"a": 1}), environment=KEYS)
    assert wire.call("ListModels", {"MaxResults": 3}) == {"a": 1}
    ((headers, body),) = wire.sent
    assert headers["X-Amz-Target"] == "SageMaker.ListModels"
    assert json.loads(body) == {"MaxResults": 3}
    assert "Authorization" not in headers
    assert Wire((200, b"")).call_operator("X", {}) == {}


@pytest.mark.parametrize(
    ("service", "name"), [("SageMaker", "sagemaker"), (AUTOSCALING, "application-autoscaling")]
)
def test_a_server_that_asks_for_a_signature_gets_one_from_then_on(service, name):
    wire = Wire(MISSING, (200, {}), (200, {}), environment=KEYS)
    wire.call_service(service, "Do")
    wire.call_service(service, "Do")
    first, second, third = (headers for headers, _ in wire.sent)
    assert "Authorization" not in first
    for headers in (second, third):
        assert f"KEYID/{headers['X-Amz-Date'][:8]}/us-east-1/{name}/aws4_request" in headers["Authorization"]
        assert "x-amz-target" in headers["Authorization"]
        assert "hush-hush" not in str(headers)


def test_a_signature_is_one_that_warmroute_takes():
    from warmroute.wire.signing import SigningKeys, parse_time
    from warmroute.wire.sigv4 import SignedRequest, verify

    wire = Wire(MISSING, (200, {}), environment=KEYS)
    wire.call("ListModels")
    headers, body = wire.sent[-1]
    fields = {name.lower().encode(): value.encode() for name, value in headers.items()}
    fields.setdefault(b"host", b"server:8080")
    request = SignedRequest(method="POST", path="/", query="", headers=fields, body=body)
    secret_of = {"KEYID": "hush-hush"}.get
    now_s = parse_time(headers["X-Amz-Date"])
    found = verify(request, region="us-east-1", now_s=now_s, secret_of=secret_of, keys=SigningKeys())
    assert found == "KEYID"


def test_without_credentials_it_says_where_they_may_be(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(
        CommandFailed, match="http://server:8080 asks for credentials and there are none: set"
    ):
        Wire(MISSING).call("ListModels")


def test_a_refused_signature_says_whose_it_was_and_no_secret():
    wire = Wire(MISSING, error("InvalidSignatureException", "No match.", 403), environment=KEYS)
    with pytest.raises(Refused) as caught:
        wire.call("ListModels")
    assert caught.value.message == "No match. Signed with access key KEYID from AWS_ACCESS_KEY_ID."
    wire = Wire(MISSING, error("ValidationException", "Bad."), environment=KEYS)
    with pytest.raises(Refused, match=r"^Bad\.$"):
        wire.call("ListModels")


def test_a_refusal_has_code_and_message():
    with pytest.raises(Refused) as caught:
        Wire(error("x#ValidationException", "Could not find model m.")).call("DescribeModel")
    assert (caught.value.code, caught.value.status) == ("ValidationException", 1)
    assert caught.value.is_missing
    assert not caught.value.is_busy
    assert not caught.value.is_unknown
    with pytest.raises(Refused, match="HTTP status 500"):
        Wire((500, {})).call("ListModels")


def test_a_control_process_that_is_being_started_is_waited_for():
    slept = []
    away = error("ServiceUnavailable", "The control process did not answer.", 503)
    wire = Wire(away, away, (200, {}), clock=lambda: float(len(slept)), sleep=slept.append)
    assert wire.call("ListModels") == {}
    assert len(slept) == 2
    wire = Wire(*[away] * 99, clock=lambda: float(len(slept)), sleep=slept.append)
    with pytest.raises(Refused, match="did not answer"):
        wire.call("ListModels")
    assert len(slept) == 12


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'"x"'])
def test_what_is_no_answer_of_warmroute_is_said(body):
    with pytest.raises(CommandFailed, match="answered with status 405 and no JSON: it is not warmroute's"):
        Wire((405, body)).call("ListModels")


def test_pages_are_asked_for_until_there_are_no_more():
    wire = Wire((200, {"Models": [1, 2], "NextToken": "t"}), (200, {"Models": [3]}))
    assert list(wire.pages("ListModels", "Models", {"MaxResults": 2})) == [1, 2, 3]
    assert [json.loads(body) for _, body in wire.sent] == [
        {"MaxResults": 2},
        {"MaxResults": 2, "NextToken": "t"},
    ]


def test_nobody_there_is_status_3_and_says_what_to_do():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(CommandFailed) as caught:
        Api(Server(endpoint_url=f"http://127.0.0.1:{port}", environment={})).call("ListModels")
    assert caught.value.status == 3
    assert caught.value.message.startswith(
        f"Connection refused: is warmroute serve running at http://127.0.0.1:{port}? Start it, or give"
    )


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (TimeoutError(), "http://s did not answer in 60 s"),
        (OSError(113, "No route to host"), "http://s cannot be reached: No route to host;"),
        (HTTPException("odd"), "http://s does not speak HTTP as warmroute does (odd)"),
        (HTTPException(), "as warmroute does (HTTPException)"),
    ],
)
def test_other_failures_to_reach_it_are_said(failure, text):
    assert text in api_module._unreachable("http://s", failure)
