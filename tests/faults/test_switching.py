"""The strategy is switched by UpdateEndpoint twenty times a second under load, and nobody notices."""

import itertools
import json
import threading
import time

import pytest

from tests.clients import boto3_client
from tests.relay import (
    CHAT_PATH,
    NATIVE_PATH,
    NATIVE_STREAM_PATH,
    RawClient,
    metrics,
    request,
    running,
    wait_until_at_rest,
)
from tests.running import wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

STRATEGIES = {
    "random": {"RoutingStrategy": "RANDOM"},
    "least": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
    "prefix": {
        "RoutingStrategy": "PREFIX_AWARE",
        "PrefixAwareRoutingConfig": {"PrefixLength": 1024, "ConcurrencyThreshold": 2},
    },
    "kv": {"RoutingStrategy": "KV_AWARE"},
}
EVERY_S, FOR_S, CLIENTS = 0.05, 5.0, 8


def make_configs(control):
    config = control.describe_endpoint(EndpointName="llm")["EndpointConfigName"]
    (variant,) = control.describe_endpoint_config(EndpointConfigName=config)["ProductionVariants"]
    for name, routing in STRATEGIES.items():
        control.create_endpoint_config(
            EndpointConfigName=name, ProductionVariants=[variant | {"RoutingConfig": routing}]
        )


class Load:
    """Clients that ask one request after another and note by which strategy each was served."""

    def __init__(self, url):
        self._url = url
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(CLIENTS)]
        self.served = []
        self.failures = []

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, number):
        paths = itertools.cycle((CHAT_PATH, NATIVE_PATH, NATIVE_STREAM_PATH))
        with RawClient(self._url) as client:
            for count in itertools.count():
                if self._stop.is_set():
                    return
                body = {"model": "llm", "messages": [{"role": "user", "content": f"{number}"}]}
                body["stream"] = count % 2 == 0
                data = request(next(paths), json.dumps(body).encode(), "x-warmroute-explain: 1")
                began = time.monotonic()
                answer = client.send(data).answer()
                ended = time.monotonic()
                if answer.status == 200 and answer.complete:
                    receipt = json.loads(answer.headers["x-warmroute-decision"])
                    self.served.append((began, ended, receipt["strategy"], receipt["instance"]))
                else:
                    self.failures.append(answer)


def switch(control, load):
    """Switch through the strategies; return when each was in force for sure: (name, from, to)."""
    intervals = []
    end = time.monotonic() + FOR_S
    for name in itertools.cycle(STRATEGIES):
        began = time.monotonic()
        if intervals:
            intervals[-1] = (*intervals[-1], began)
        if began > end or load.failures:
            return intervals
        control.update_endpoint(EndpointName="llm", EndpointConfigName=name)
        described = control.describe_endpoint(EndpointName="llm")
        assert described["EndpointStatus"] == "InService"
        assert described["EndpointConfigName"] == name
        assert described["ProductionVariants"][0]["RoutingConfig"] == STRATEGIES[name]
        intervals.append((STRATEGIES[name]["RoutingStrategy"], time.monotonic()))
        time.sleep(max(0.0, began + EVERY_S - time.monotonic()))
    return intervals


def test_switching_the_strategy_under_load_fails_nothing_and_holds_from_the_answer_on(tmp_path, stub_servers):
    stubs = [stub_servers(name, piece_delay_s=0.002) for name in "abc"]
    with running(tmp_path, *(stub.url for stub in stubs)) as server:
        control = boto3_client("sagemaker", server.url)
        make_configs(control)
        wait_until(lambda: "warmroute_fleet_version" in metrics(server))
        version = metrics(server)["warmroute_fleet_version"]
        with Load(server.url) as load:
            intervals = switch(control, load)
        control.close()

        assert load.failures == []
        assert len(intervals) > 10
        checked = 0
        for strategy, since, until in intervals:
            inside = [served for served in load.served if since < served[0] and served[1] < until]
            assert {served[2] for served in inside} <= {strategy}
            checked += len(inside)
        assert checked >= 10
        assert len({served[3] for served in load.served}) == 3
        wait_until_at_rest(server)
        now = metrics(server)
        changes = len(intervals) - 1  # the first asks for what there is
        assert now["warmroute_fleet_version"] >= version + changes
        assert now["warmroute_instance_starts_total"] == 3
        assert now["warmroute_instance_stops_total"] == 0
        assert now.get("warmroute_ejections_total", 0) == 0
