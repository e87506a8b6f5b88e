import asyncio
from dataclasses import replace

import pytest

from warmroute.adapters.tasks import Tasks
from warmroute.controlplane.health import HealthChecks, period_s
from warmroute.controlplane.ports import Health, InstanceFact, InstancePhase
from warmroute.core import limits
from warmroute.core.machines import Image
from warmroute.resources.planner import Rules
from warmroute.resources.records import InstanceRecord, InstanceState, Launch

RECORD = InstanceRecord("i-1", "ep", "v", 1, Launch("t", "m"), 60.0, 100.0, 100.0)
GOOD, BAD = Health(ready=True, model_name="llm"), Health(ready=False)


class Clock:
    now_s = 100.0

    def wall_s(self):
        return self.now_s


class Probe:
    """Answers when told."""

    def __init__(self):
        self.asked = []
        self.answer = asyncio.Event()

    async def probe(self, fact, path):
        self.asked.append((fact.instance_id, path))
        await self.answer.wait()
        return GOOD


def checks(probe=None, tasks=None, clock=None, news=None):
    return HealthChecks(
        probe=probe,
        tasks=tasks,
        clock=clock or Clock(),
        rules=Rules(images={"img": Image("img", health_path="/up")}),
        on_news=news or (lambda: None),
    )


def test_failures_are_counted_in_a_row_and_news_are_told():
    checkup = checks().checkup("i-1", 1)
    assert [checkup.record(health) for health in (BAD, BAD, GOOD, GOOD, BAD)] == [
        True,
        True,
        True,
        False,
        True,
    ]
    assert (checkup.probes, checkup.failures, checkup.last) == (5, 1, BAD)


def test_a_new_name_is_news():
    checkup = checks().checkup("i-1", 1)
    checkup.record(GOOD)
    assert checkup.record(Health(ready=True, model_name="other"))


def test_a_new_generation_starts_from_nothing():
    book = checks()
    first = book.checkup("i-1", 1)
    first.record(GOOD)
    assert book.checkup("i-1", 1) is first
    assert book.checkup("i-1", 2).probes == 0


def test_others_are_forgotten():
    book = checks()
    kept, gone = book.checkup("i-1", 1), book.checkup("i-2", 1)
    book.keep_only({"i-1"})
    assert book.checkup("i-1", 1) is kept
    assert book.checkup("i-2", 1) is not gone


@pytest.mark.parametrize(("age_s", "expected"), [(-5.0, 0.1), (0.0, 0.1), (10.0, 0.5), (500.0, 1.0)])
def test_starting_instances_are_asked_often_at_first(age_s, expected):
    assert period_s(RECORD, 100.0 + age_s) == expected


def test_instances_in_service_are_asked_at_a_steady_pace():
    assert period_s(replace(RECORD, state=InstanceState.IN_SERVICE), 9e9) == limits.HEALTH_PERIOD_S


def fact(name, phase=InstancePhase.RUNNING):
    return InstanceFact(name, "t", phase, 1, "h", 1)


def run(test):
    async def body():
        probe, tasks, clock, news = Probe(), Tasks(), Clock(), []
        await test(probe, tasks, clock, news, checks(probe, tasks, clock, lambda: news.append(1)))
        await tasks.cancel_all()

    asyncio.run(body())


async def rest():
    for _ in range(5):
        await asyncio.sleep(0)


def test_an_instance_is_asked_on_its_images_route_and_once_at_a_time():
    async def test(probe, tasks, clock, news, health):
        record = replace(RECORD, launch=Launch("t", "m", image="img"))
        facts, records = {"i-1": fact("i-1")}, {"i-1": record}
        health.check(facts, records)
        await rest()
        health.check(facts, records)
        await rest()
        assert probe.asked == [("i-1", "/up")]
        probe.answer.set()
        await rest()
        assert (len(news), len(tasks)) == (1, 0)
        health.check(facts, records)
        await rest()
        assert len(probe.asked) == 1
        clock.now_s += 10.0
        health.check(facts, records)
        await rest()
        assert (len(probe.asked), len(news)) == (2, 1)

    run(test)


@pytest.mark.parametrize(
    ("record", "facts"),
    [
        (RECORD, {}),
        (RECORD, {"i-1": fact("i-1", InstancePhase.EXITED)}),
        (replace(RECORD, state=InstanceState.DRAINING), {"i-1": fact("i-1")}),
        (replace(RECORD, state=InstanceState.STOPPING), {"i-1": fact("i-1")}),
    ],
)
def test_instances_that_cannot_or_need_not_answer_are_not_asked(record, facts):
    async def test(probe, tasks, clock, news, health):
        health.check(facts, {"i-1": record})
        assert len(tasks) == 0

    run(test)


def test_few_are_asked_at_once_and_the_longest_overdue_first(monkeypatch):
    monkeypatch.setattr(limits, "HEALTH_PROBES_AT_ONCE_MAX", 2)

    async def test(probe, tasks, clock, news, health):
        names = ["i-1", "i-2", "i-3"]
        facts = {name: fact(name) for name in names}
        records = {name: replace(RECORD, instance_id=name) for name in names}
        health.check(facts, records)
        await rest()
        assert [name for name, _ in probe.asked] == ["i-1", "i-2"]
        probe.answer.set()
        await rest()
        assert len(news) == 2
        clock.now_s += 10.0
        health.check(facts, records)
        await rest()
        assert probe.asked[2][0] == "i-3"

    run(test)
