"""A log recorded from a live run of the server replays to identical decisions, in another process.

The run has what moves decisions: four strategies and the switches between them, keys that collide on
instances, streams and plain answers, callers that leave, errors, an instance that dies (retries and an
ejection) and comes back, one that drains and is added again.
"""

import itertools
import json
import re
import subprocess
import sys
import threading
from collections import Counter

import pytest

from tests.clients import boto3_client
from tests.relay import CHAT_PATH, NATIVE_PATH, NATIVE_STREAM_PATH, RawClient, metric, request, running
from tests.running import clean_environment, wait_until
from tests.stub_server import StubProcess

pytestmark = [pytest.mark.process, pytest.mark.slow]

PROMPT = "a-prompt-that-must-not-be-written"
PREFIX_AWARE = {
    "RoutingStrategy": "PREFIX_AWARE",
    "PrefixAwareRoutingConfig": {"PrefixLength": 1024, "ConcurrencyThreshold": 2},
}
LEAST = {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}
KV_AWARE = {"RoutingStrategy": "KV_AWARE"}
SETTINGS = '[router]\ndecision_log = "decisions.jsonl"\n'
CLIENTS = 6


class Load:
    """Clients that ask one request after another; every seventh time they leave without an answer."""

    def __init__(self, url):
        self._url = url
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(CLIENTS)]
        self.outcomes = Counter()

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, count):
        """Wait until so many more requests are over."""
        wanted = self.outcomes.total() + count
        wait_until(lambda: self.outcomes.total() >= wanted)

    def _ask(self, number):
        paths = itertools.cycle((CHAT_PATH, NATIVE_PATH, NATIVE_STREAM_PATH))
        for count in itertools.count():
            if self._stop.is_set():
                return
            text = f"{(number + count) % 4} {PROMPT} " + "long " * (count % 3 * 1000)
            body = {"model": "llm", "messages": [{"role": "user", "content": text}], "stream": count % 2 == 0}
            body["stub"] = {"status": 500} if count % 11 == 0 else {"piece_delay_s": 0.002}
            with RawClient(self._url) as client:
                client.send(request(next(paths), json.dumps(body).encode()))
                self.outcomes["left" if count % 7 == 6 else client.answer().status] += 1


class Control:
    """The endpoint's owner."""

    def __init__(self, url):
        self._client = boto3_client("sagemaker", url)
        config = self._client.describe_endpoint(EndpointName="llm")["EndpointConfigName"]
        described = self._client.describe_endpoint_config(EndpointConfigName=config)
        (self._variant,) = described["ProductionVariants"]

    def switch(self, name, routing):
        variants = [self._variant | {"RoutingConfig": routing}]
        self._client.create_endpoint_config(EndpointConfigName=name, ProductionVariants=variants)
        self._client.update_endpoint(EndpointName="llm", EndpointConfigName=name)
        self._wait()

    def count(self, instances):
        name = self._variant["VariantName"]
        self._client.update_endpoint_weights_and_capacities(
            EndpointName="llm",
            DesiredWeightsAndCapacities=[{"VariantName": name, "DesiredInstanceCount": instances}],
        )
        self._wait()

    def _wait(self):
        self._client.get_waiter("endpoint_in_service").wait(EndpointName="llm", WaiterConfig={"Delay": 1})

    def close(self):
        self._client.close()


def live_through_everything(server, stubs):
    control = Control(server.url)
    with Load(server.url) as load:
        load.wait_for(60)  # RANDOM
        control.switch("prefix", PREFIX_AWARE)
        load.wait_for(150)
        stubs[0].kill()
        wait_until(lambda: metric(server, "warmroute_ejections_total") > 0)
        load.wait_for(60)
        stubs[0] = StubProcess("a", port=stubs[0].port)
        wait_until(lambda: metric(server, "warmroute_ejected") == 0)
        load.wait_for(60)
        control.count(2)
        load.wait_for(60)
        control.count(3)
        load.wait_for(60)
        control.switch("kv", KV_AWARE)
        load.wait_for(150)
        control.switch("least", LEAST)
        load.wait_for(60)
    control.close()
    return load.outcomes


def replay(file, *more, hash_seed="2"):
    return subprocess.run(
        [sys.executable, "-m", "warmroute", "simulate", "replay", str(file), *more],
        env=clean_environment(PYTHONHASHSEED=hash_seed),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The log of a run, and what its clients saw."""
    directory = tmp_path_factory.mktemp("recorded")
    stubs = [StubProcess(name) for name in "abc"]
    try:
        with running(
            directory, *(stub.url for stub in stubs), toml=SETTINGS,
            environment=clean_environment(PYTHONHASHSEED="1"),
        ) as server:  # fmt: skip
            outcomes = live_through_everything(server, stubs)
            assert server.stop()[0] == 0
    finally:
        for stub in stubs:
            stub.kill()
    return directory / "decisions.jsonl", outcomes


@pytest.mark.parametrize("hash_seed", ["2", "3"])
def test_a_live_run_replays_to_identical_decisions(recorded, hash_seed):
    file, outcomes = recorded
    decisions = [line for line in file.read_bytes().splitlines() if b'"what":"decide"' in line]
    assert len(decisions) >= outcomes.total() - outcomes["left"]
    run = replay(file, hash_seed=hash_seed)
    assert run.stdout.endswith(f"\n{len(decisions):,} decisions, all identical\n"), run
    assert run.returncode == 0


def test_the_run_had_what_moves_decisions(recorded):
    """Else the test above would say less than it seems to."""
    file, outcomes = recorded
    assert outcomes.total() > 500
    assert outcomes["left"] > 20
    data = file.read_text()
    for reason in ("random", "affinity", "overflow", "least_outstanding", "cached", "home"):
        assert f'"reason":"{reason}"' in data
    for fact in ("connect_failed", "server_error"):
        assert f'"cause":"{fact}"' in data
    assert '"event":"cancelled"' in data
    assert '"event":"first_token"' in data
    assert re.search(r'"prompt_tokens":[1-9]\d*,"cached_tokens":[1-9]\d*,"output_tokens":[1-9]', data)
    assert '"ejected":true' in data
    assert '"reason":"probation"' in data
    assert '"tried":["' in data
    assert '"state":"draining"' in data
    assert data.endswith('{"what":"end","why":"stopped"}\n')


def test_the_log_has_no_prompt(recorded):
    file, _ = recorded
    assert PROMPT not in file.read_text()


def test_a_decision_that_was_changed_is_found(recorded, tmp_path):
    file, _ = recorded
    lines = file.read_text().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines) if n > 500 and '"reason":"affinity"' in line)
    decision = json.loads(lines[number])
    recorded_target = decision["target"]
    decision["target"] = "i-elsewhere"
    lines[number] = json.dumps(decision) + "\n"
    changed = tmp_path / "changed.jsonl"
    changed.write_text("".join(lines))
    run = replay(changed)
    assert f"line {number + 1:,}, " in run.stdout
    assert '"target":"i-elsewhere"' in run.stdout
    assert f'"target":"{recorded_target}"' in run.stdout
    assert run.returncode == 1


def test_the_log_of_a_router_that_was_killed_replays_as_far_as_it_goes(recorded, tmp_path):
    file, _ = recorded
    data = file.read_bytes()
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(data[: len(data) * 2 // 3])
    run = replay(cut)
    assert "cut off, or still being written" in run.stdout
    assert run.stdout.endswith("decisions, all identical\n")
    assert run.returncode == 0


def test_another_strategy_can_be_asked_about_the_run(recorded):
    file, _ = recorded
    run = replay(file, "--policy", "LEAST_OUTSTANDING_REQUESTS")
    assert "requests (" in run.stdout
    assert "would have gone elsewhere" in run.stdout
    assert run.returncode == 0
