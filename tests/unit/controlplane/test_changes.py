from dataclasses import replace

import pytest

from tests.unit.resources.carrying import component
from warmroute.controlplane.changes import (
    REASON_CHARACTERS_MAX,
    REMIND_S,
    Change,
    Changes,
    base_url,
    one_line,
)
from warmroute.controlplane.ports import InstanceFact, InstancePhase
from warmroute.resources.instances import Observed
from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus
from warmroute.resources.records import EndpointRecord, InstanceRecord, InstanceState, Launch

FACT = InstanceFact("i-1", "static.llm", InstancePhase.RUNNING, 1, "127.0.0.1", 8001)
RECORD = InstanceRecord("i-1", "llm", "v", 1, Launch("static.llm", "m"), 60.0, 0.0, 0.0)
ENDPOINT = EndpointRecord("llm", "arn", EndpointStatus.CREATING, 0.0, 0.0)
READY = Observed(running=True, probes=1, ready=True)
AWAY = Observed(running=True, probes=1, detail="It cannot be reached: Connection refused.")
NAME = "endpoint llm: instance i-1 (http://127.0.0.1:8001)"


class Log:
    """What is said of one instance and one endpoint as they change."""

    def __init__(self):
        self.changes = Changes()
        self.now_s = 1000.0

    def instance(self, state, observed, *, fact=FACT, **record):
        said = self.changes.news(
            endpoints=(),
            instances=(replace(RECORD, state=state, **record),),
            observed={} if observed is None else {"i-1": observed},
            facts={} if fact is None else {"i-1": fact},
            now_s=self.now_s,
        )
        return [(change.text, change.bad) for change in said]

    def endpoint(self, *statuses, **record):
        return self.changes.news(
            endpoints=[replace(ENDPOINT, status=status, **record) for status in statuses],
            instances=(),
            observed={},
            facts={},
            now_s=self.now_s,
        )


@pytest.fixture
def log():
    return Log()


def test_an_instance_comes_into_service_once(log):
    assert log.instance(InstanceState.STARTING, None, fact=None) == []
    assert log.instance(InstanceState.STARTING, Observed(running=True)) == []
    assert log.instance(InstanceState.IN_SERVICE, READY) == [(f"{NAME} in service", False)]
    assert log.instance(InstanceState.IN_SERVICE, READY) == []


def test_a_starting_instance_is_spoken_of_once_and_again_after_half_a_minute(log):
    expected = [(f"{NAME} not ready yet: It cannot be reached: Connection refused.", False)]
    assert log.instance(InstanceState.STARTING, AWAY) == expected
    log.now_s += REMIND_S - 0.001
    assert log.instance(InstanceState.STARTING, AWAY) == []
    log.now_s += 0.001
    assert log.instance(InstanceState.STARTING, AWAY) == expected


def test_an_instance_that_stops_answering_is_out_of_service_and_comes_back(log):
    log.instance(InstanceState.IN_SERVICE, READY)
    assert log.instance(InstanceState.IN_SERVICE, AWAY) == []
    expected = [(f"{NAME} out of service: It cannot be reached: Connection refused.", True)]
    assert log.instance(InstanceState.STARTING, AWAY) == expected
    assert log.instance(InstanceState.STARTING, AWAY) == []
    assert log.instance(InstanceState.IN_SERVICE, READY) == [(f"{NAME} in service", False)]


def test_after_a_restart_an_instance_is_asked_before_it_is_called_in_service(log):
    assert log.instance(InstanceState.IN_SERVICE, Observed(running=True)) == []
    assert log.instance(InstanceState.IN_SERVICE, READY) == [(f"{NAME} in service", False)]


def test_a_draining_instance_leaves_with_one_line_and_may_be_called_back(log):
    log.instance(InstanceState.IN_SERVICE, READY)
    assert log.instance(InstanceState.DRAINING, READY) == [(f"{NAME} out of service: it drains", False)]
    assert log.instance(InstanceState.IN_SERVICE, READY) == [(f"{NAME} in service", False)]
    log.instance(InstanceState.DRAINING, READY)
    assert log.instance(InstanceState.STOPPING, READY, reason="drained") == []


def test_an_instance_that_ended_says_why_on_one_line_also_when_its_place_is_forgotten(log):
    log.instance(InstanceState.IN_SERVICE, READY)
    said = log.instance(InstanceState.STOPPING, None, fact=None, reason="It ended.\n  Out of\x1b memory.")
    assert said == [(f"{NAME} out of service: It ended. Out of memory.", True)]


def test_one_that_never_served_stops(log):
    said = log.instance(InstanceState.STOPPING, None, fact=None, reason="There is no such file.")
    assert said == [("endpoint llm: instance i-1 stops: There is no such file.", True)]


def test_one_that_is_not_wanted_any_more_is_no_trouble(log):
    log.instance(InstanceState.STARTING, Observed(running=True))
    said = log.instance(InstanceState.STOPPING, None, reason="not wanted")
    assert said == [(f"{NAME} stops: not wanted", False)]


def test_an_endpoint_says_its_status_when_it_changes(log):
    assert log.endpoint(EndpointStatus.CREATING) == [Change("endpoint llm is Creating")]
    assert log.endpoint(EndpointStatus.CREATING) == []
    assert log.endpoint(EndpointStatus.IN_SERVICE) == [Change("endpoint llm is InService")]
    assert log.endpoint() == [Change("endpoint llm is deleted")]
    assert log.endpoint() == []


@pytest.mark.parametrize(
    ("reason", "text"), [("No memory.", "No memory."), (None, "no reason is known"), ("a\nb", "a b")]
)
def test_a_failed_endpoint_says_why(log, reason, text):
    said = log.endpoint(EndpointStatus.FAILED, failure_reason=reason)
    assert said == [Change(f"endpoint llm is Failed: {text}", bad=True)]


def components(log, *records):
    said = log.changes.news(
        endpoints=(), instances=(), observed={}, facts={}, now_s=log.now_s, components=records
    )
    return [(change.text, change.bad) for change in said]


def test_a_component_says_its_status_when_it_changes(log):
    record = component("ic")
    assert components(log, record) == [("inference component ic is Creating", False)]
    assert components(log, record) == []
    failed = replace(record, status=ComponentStatus.FAILED, failure_reason="No room.\nNone.")
    assert components(log, failed) == [("inference component ic is Failed: No room. None.", True)]
    assert components(log) == [("inference component ic is deleted", False)]


def test_a_copy_is_spoken_of_as_one(log):
    ((text, _),) = log.instance(InstanceState.IN_SERVICE, READY, component="ic")
    where = "endpoint llm: copy of inference component ic, i-1 (http://127.0.0.1:8001)"
    assert text == f"{where} in service"


def test_urls_are_as_an_operator_writes_them():
    fact = replace(FACT, host="::1", tls=True, path_prefix="/x")
    assert base_url(fact) == "https://[::1]:8001/x"


def test_a_long_reason_is_cut():
    assert one_line("a" * REASON_CHARACTERS_MAX) == "a" * REASON_CHARACTERS_MAX
    assert one_line("a" * (REASON_CHARACTERS_MAX + 1)) == "a" * REASON_CHARACTERS_MAX + "…"
