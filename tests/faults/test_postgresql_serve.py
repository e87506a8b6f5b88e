"""warmroute over PostgreSQL as an operator sees it: restarts under load, a second control, no password."""

import os
import signal
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.clients import ONCE, boto3_client
from tests.faults.test_local_instances import Load
from tests.faults.test_processes import CHAT, post
from tests.postgres import PASSWORD
from tests.running import alive, clean_environment, descendants_of, start_warmroute, wait_until

pytestmark = pytest.mark.process


def environment(url):
    return clean_environment(WARMROUTE_SERVER__STORE_URL=url)


def serve(warmroute_server, url, stub):
    server = warmroute_server(
        "--instances", stub.url, "--endpoint", "llm", ready=True, environment=environment(url)
    )
    server.wait_for_control()
    return server


def store_up(server):
    return [line for line in server.get("/metrics", admin=True)[1].decode().splitlines()
            if line.startswith("warmroute_store_up")]  # fmt: skip


def code_of(call):
    try:
        call()
    except ClientError as error:
        return error.response["Error"]["Code"], error.response["Error"]["Message"]
    return "", ""


def test_a_database_that_goes_away_costs_no_request_and_calls_fail_with_a_clear_error_until_it_is_back(
    warmroute_server, stub_servers, own_postgres
):
    server = serve(warmroute_server, own_postgres.database(), stub_servers("a"))
    sagemaker = boto3_client("sagemaker", server.url, retries=ONCE)
    sagemaker.create_model(ModelName="before", PrimaryContainer={"Image": "img"})
    with Load(server.url, clients=2) as load:
        own_postgres.shut_down()
        code, message = code_of(lambda: sagemaker.create_model(ModelName="x", PrimaryContainer={}))
        assert code == "ServiceUnavailable"
        assert "cannot be used at the moment" in message
        assert str(own_postgres.home) not in message
        assert store_up(server) == ["warmroute_store_up 0.0"]
        status, overview = server.get("/", admin=True)
        assert (status, b"out of reach" in overview, PASSWORD.encode() in overview) == (200, True, False)
        own_postgres.start()
        server.wait_until(lambda: store_up(server) == ["warmroute_store_up 1.0"], "the store never came back")
        server.wait_until(
            lambda: (
                code_of(lambda: sagemaker.create_model(ModelName="after", PrimaryContainer={}))[0]
                in ("", "ValidationException")
            ),
            "no model could be created",
        )
    assert load.failures() == []
    names = [model["ModelName"] for model in sagemaker.list_models()["Models"]]
    assert {"before", "after"} <= set(names)
    assert sagemaker.describe_endpoint(EndpointName="llm")["EndpointStatus"] == "InService"
    sagemaker.close()
    assert PASSWORD not in server.log_text()
    for pid in descendants_of(server.pid):
        assert PASSWORD.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
        assert PASSWORD.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_second_warmroute_on_one_database_is_refused_and_the_first_serves_on(
    warmroute_server, stub_servers, postgres, tmp_path
):
    url = postgres.database()
    server = serve(warmroute_server, url, stub_servers("a"))
    second = start_warmroute(
        data_dir=tmp_path / "other", log=tmp_path / "second.log", environment=environment(url), cwd=tmp_path
    )
    assert second.process.wait(30) == 2
    text = second.log_text()
    assert "another control process" in text
    assert f"process {server.child('control')} on" in text
    assert PASSWORD not in text
    assert post(server.url, "/v1/chat/completions", CHAT)[0] == 200


def test_a_killed_control_process_has_its_database_again_at_once(warmroute_server, stub_servers, postgres):
    server = serve(warmroute_server, postgres.database(), stub_servers("a"))
    sagemaker = boto3_client("sagemaker", server.url, retries=ONCE)
    sagemaker.create_model(ModelName="before", PrimaryContainer={"Image": "img"})
    control = server.child("control")
    os.kill(control, signal.SIGKILL)
    wait_until(lambda: not alive(control))
    server.wait_until(lambda: server.get("/healthz", admin=True)[0] == 200, "control never came back", 10.0)
    assert code_of(lambda: sagemaker.describe_model(ModelName="before")) == ("", "")
    sagemaker.close()
