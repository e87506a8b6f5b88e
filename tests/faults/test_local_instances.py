"""Model servers that warmroute starts: they outlive its crashes, are adopted, replaced and stopped."""

import contextlib
import http.client
import json
import os
import re
import signal
import threading
from pathlib import Path

import pytest

from tests.clients import ONCE, boto3_client
from tests.faults.test_processes import CHAT, post
from tests.running import alive, command_line, get, wait_until

pytestmark = pytest.mark.process

STUB = Path(__file__).parents[1] / "stub_server.py"
SETTINGS = f"""
[images."stub"]
command = ["{{python}}", "{STUB}", "--port", "{{port}}"]
"""
COUNT = 2


def instances():
    """Return the process ids of the stub servers that some warmroute started and that still run."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        pid = int(directory.name)
        with contextlib.suppress(OSError):
            if (
                str(STUB) in command_line(pid)
                and b"WARMROUTE_INSTANCE_ID=" in (directory / "environ").read_bytes()
            ):
                found.append(pid)
    return sorted(pid for pid in found if alive(pid))


@pytest.fixture
def local_server(warmroute_server, tmp_path):
    """Return a function that starts warmroute with the stub as a local image."""
    (tmp_path / "local.toml").write_text(SETTINGS)
    mine = []

    def start(*flags, **options):
        server = warmroute_server("--config", tmp_path / "local.toml", *flags, **options)
        mine.append(server)
        return server

    yield start
    for server in mine:
        for pid in of(server):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def of(server):
    """Return the model servers of one data directory."""
    marker = str(server.data_dir).encode()
    found = []
    for pid in instances():
        with contextlib.suppress(OSError):
            if marker in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(pid)
    return found


def executions(server):
    """Return the requests that the model servers of one data directory have begun."""
    ports = [re.search(r"--port (\d+)", command_line(pid))[1] for pid in of(server)]
    answers = [json.loads(get(f"http://127.0.0.1:{port}/stub")[1]) for port in ports]
    return sum(answer["executions"] for answer in answers)


def create_endpoint(server, *, count=COUNT, strategy="LEAST_OUTSTANDING_REQUESTS"):
    sagemaker = boto3_client("sagemaker", server.url, retries=ONCE)
    server.wait_for_control()
    sagemaker.create_model(ModelName="m", PrimaryContainer={"Image": "stub"})
    sagemaker.create_endpoint_config(
        EndpointConfigName="c",
        ProductionVariants=[
            {
                "VariantName": "AllTraffic",
                "ModelName": "m",
                "InstanceType": "ml.local",
                "InitialInstanceCount": count,
                "RoutingConfig": {"RoutingStrategy": strategy},
            }
        ],
    )
    sagemaker.create_endpoint(EndpointName="llm", EndpointConfigName="c")
    sagemaker.get_waiter("endpoint_in_service").wait(
        EndpointName="llm", WaiterConfig={"Delay": 1, "MaxAttempts": 30}
    )
    sagemaker.close()


class Load:
    """Clients that call without a pause until the block ends."""

    def __init__(self, url, clients=4):
        self.answers = []
        self._url = url
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._call) for _ in range(clients)]

    def _call(self):
        while not self._stop.is_set():
            try:
                self.answers.append(
                    post(self._url, "/v1/chat/completions", {**CHAT, "stub": {"delay_s": 0.02}})
                )
            except (OSError, http.client.HTTPException) as error:
                self.answers.append((0, repr(error).encode()))

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        wait_until(lambda: len(self.answers) > 20)
        return self

    def __exit__(self, *_):
        enough = len(self.answers) + 20
        with contextlib.suppress(AssertionError):
            wait_until(lambda: len(self.answers) > enough, seconds=10.0)
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def failures(self):
        return [answer for answer in self.answers if answer[0] != 200]


def test_a_killed_control_process_costs_no_request_and_adopts_its_instances(local_server):
    server = local_server()
    create_endpoint(server)
    before = of(server)
    control = server.child("control")

    with Load(server.url) as load:
        os.kill(control, signal.SIGKILL)
        server.wait_until(lambda: not alive(control), "control would not die")
        server.wait_until(lambda: server.get("/healthz", admin=True)[0] == 200, "control never came back")

    assert load.failures() == []
    assert (len(before), of(server)) == (COUNT, before)


def test_a_killed_instance_fails_only_what_ran_on_it_and_is_replaced(local_server):
    server = local_server()
    create_endpoint(server)
    before = of(server)

    with Load(server.url, clients=4) as load:
        os.kill(before[0], signal.SIGKILL)
        server.wait_until(
            lambda: len(of(server)) == COUNT and before[0] not in of(server), "it was never replaced"
        )

    failures = load.failures()
    assert all(status == 424 for status, _ in failures), failures
    assert len(failures) <= 4
    assert before[1] in of(server)
    server.wait_until(lambda: post(server.url, "/v1/chat/completions", CHAT)[0] == 200, "it does not serve")


def test_the_end_stops_the_instances(local_server):
    server = local_server()
    create_endpoint(server)
    status, took_s = server.stop()
    assert (status, of(server)) == (0, []), server.log_text()
    assert took_s < 5.0


def test_the_end_stops_the_instances_even_when_a_request_hangs(local_server):
    server = local_server()
    create_endpoint(server)
    stalled = {**CHAT, "stream": True, "stub": {"fault": "stall_in_answer"}}
    answers = []
    client = threading.Thread(
        target=lambda: answers.append(post(server.url, "/v1/chat/completions", stalled))
    )
    client.start()
    wait_until(lambda: executions(server) == 1)

    status, took_s = server.stop()

    client.join(timeout=5.0)
    assert (status, of(server)) == (0, []), server.log_text()
    assert took_s < 10.0
    assert b'"error"' in answers[0][1]


def test_kept_instances_are_adopted_at_the_next_start(local_server):
    first = local_server("--keep-instances")
    create_endpoint(first)
    before = of(first)
    assert first.stop()[0] == 0
    assert (len(before), of(first)) == (COUNT, before)

    second = local_server(ready=True)

    second.wait_for_control()
    assert post(second.url, "/v1/chat/completions", CHAT)[0] == 200
    assert of(second) == before
    assert second.stop()[0] == 0
    assert of(second) == []


def test_instances_survive_a_killed_supervisor_and_are_adopted(local_server):
    first = local_server()
    create_endpoint(first)
    before = of(first)
    children = [first.child("control"), first.child("router-0")]
    first.process.kill()
    first.process.wait()
    first.stopped = True
    wait_until(lambda: not any(map(alive, children)), seconds=12.0)
    assert of(first) == before

    second = local_server(ready=True)

    second.wait_for_control()
    assert post(second.url, "/v1/chat/completions", CHAT)[0] == 200
    assert of(second) == before
    assert second.stop()[0] == 0
    assert of(second) == []
